"""What is measured of a token's trajectory: rows, the middle half, where it stops, what is massive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.probe import MEASURES, Rows, State
from llm.probe._measures import EARLY, LAGS, LEFT, MASSIVE, measure


def rows_of(depth: int) -> Rows:
    return Rows(
        [State("start", "embedding", is_layer=False), *(State(f"l{i}", "layer") for i in range(depth))]
    )


def turning(angles: np.ndarray) -> np.ndarray:
    """States of length 1 in a plane that turn by these angles, (states, 1, tokens, 2)."""
    at = np.concatenate([np.zeros((1, angles.shape[1])), np.cumsum(angles, axis=0)])
    return np.stack([np.cos(at), np.sin(at)], axis=-1)[:, None].astype(np.float32)


def value(rows: Rows, values: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(values)[rows.slices[name], 0]


@given(st.sampled_from([2, 7]))
def test_rows_are_as_many_as_there_are_values(depth):
    """A row for every state, step, pair of layers and lag, one for a whole token; none shared."""
    rows = rows_of(depth)
    counts = {"state": depth + 1, "step": depth, "pair": depth - 1, "lag": LAGS, "token": 1, "recurrence": 0}
    for one in MEASURES:
        part = rows.slices[one.name]
        assert part.stop - part.start == counts[one.per]
    places = [place for part in rows.slices.values() for place in range(part.start, part.stop)]
    assert places == list(range(rows.count))
    states = np.random.default_rng(0).normal(size=(depth + 1, 1, 3, 4)).astype(np.float32)
    assert measure(rows, states).values.shape == (rows.count, 1, 3)


@given(st.integers(2, 60))
def test_the_bulk_is_the_middle_half(depth):
    """Half of the layers, as many before as after, up to three more where quarters are not whole; never
    fewer than two."""
    bulk = rows_of(depth).bulk
    assert bulk.start == depth - bulk.stop >= 0
    assert max(2, depth / 2) <= len(bulk) <= depth / 2 + 1.5


@given(st.sampled_from([4, 40]), st.integers(1, 40), st.floats(0.0, 1.5))
def test_a_token_stops_where_its_way_ends(depth, last, end):
    """With equal steps up to layer `last` and none behind, it stops once at most LEFT of them are to come, up
    to the end of the middle half; whatever the layers behind that do."""
    rows = rows_of(depth)
    reach = rows.bulk.stop
    last = min(last, reach)
    angles = np.zeros((depth, 1))
    angles[:last] = 0.01
    angles[reach:] = end
    values = measure(rows, turning(angles)).values
    expected = next(done for done in range(last + 1) if (last - done) <= LEFT * last + 1e-4)
    np.testing.assert_allclose(value(rows, values, "stop"), expected / depth, atol=1e-6)
    assert value(rows, values, "early") == (expected / depth <= EARLY)


def test_a_token_that_never_moves_has_stopped_at_the_start():
    """No way to go: stop is 0, steps are 0, and angles between updates have no value."""
    rows = rows_of(6)
    values = measure(rows, turning(np.zeros((6, 1)))).values
    assert value(rows, values, "stop") == 0 and value(rows, values, "early") == 1
    assert value(rows, values, "bulk_step") == 0
    assert np.isnan(value(rows, values, "update_angle")).all()
    assert np.isnan(value(rows, values, "bulk_update_angle"))


@given(st.sampled_from([8, 40]), st.integers(0, 100))
def test_layers_that_do_nothing_have_no_angle(depth, seed):
    """States that are equal to the last bit, at any scale, between others that move: what is said of updates
    is said of those that move alone. (A compiled difference of scaled states once gave them directions.)"""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(depth, 1, 50, 6)) * np.exp(rng.normal(size=(1, 1, 50, 1)))
    idle = slice(depth // 3, depth // 2 + 1)
    steps[idle] = 0
    start = rng.normal(size=(1, 1, 50, 6))
    states = np.concatenate([start, start + np.cumsum(steps, axis=0)]).astype(np.float32)
    states[idle.start + 1 : idle.stop + 1] = states[idle.start]
    rows = rows_of(depth)
    values = measure(rows, states).values
    pairs = value(rows, values, "update_angle")
    still = np.arange(depth - 1)
    still = (still >= idle.start - 1) & (still < idle.stop)
    assert np.isnan(pairs[still]).all() and np.isfinite(pairs[~still]).all()
    steps_found = value(rows, values, "step_angle")
    assert (steps_found[idle] == 0).all()


@given(st.sampled_from([8, 40]))
def test_the_angle_between_updates_is_taken_where_the_token_moves(depth):
    """A token that turns evenly for a half of the layers and stands still from there on has the angle of its
    turning; the updates that are zero do not count as unrelated."""
    angles = np.full((depth, 1), 0.05)
    angles[depth // 2 :] = 0
    rows = rows_of(depth)
    values = measure(rows, turning(angles)).values
    np.testing.assert_allclose(value(rows, values, "bulk_update_angle"), 0.05, atol=1e-3)


def test_recurrences_are_compared_by_their_ends():
    """The angle between the ends of neighbouring recurrences, whatever is between: injections and layers."""
    rng = np.random.default_rng(3)
    parts = [("embedding", None, False), ("prelude", None, True)]
    for recurrence in range(3):
        parts += [("recurrence", recurrence, False), ("recurrence", recurrence, True)]
        parts += [("recurrence", recurrence, False)]
    parts += [("coda", None, True)]
    rows = Rows([State(f"s{i}", part, of, layer) for i, (part, of, layer) in enumerate(parts)])
    assert rows.ends == (4, 7, 10)
    states = rng.normal(size=(len(parts), 1, 9, 5)).astype(np.float32)
    found = value(rows, measure(rows, states).values, "recurrence_step")
    unit = states / np.linalg.norm(states, axis=-1, keepdims=True)
    expected = [np.arccos(np.sum(unit[a] * unit[b], axis=-1))[0] for a, b in ((4, 7), (7, 10))]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("positions", [1, 7, 64, 257])
def test_tokens_are_measured_alike_however_many_there_are(positions):
    """In pieces that fit a processor's cache or at once: the same to rounding."""
    rng = np.random.default_rng(5)
    states = rng.normal(size=(30, 2, positions, 96)).astype(np.float32)
    rows = rows_of(29)
    whole = measure(rows, states)
    alone = measure(rows, states[:, 1:, -1:])
    np.testing.assert_allclose(whole.values[:, 1:, -1:], alone.values, rtol=2e-5, atol=2e-5)


def test_bulk_measures_are_means_over_the_middle_half():
    """Of step angles, and of angles between neighbouring updates both of which are in it."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(13, 1, 7, 5)).astype(np.float32)
    rows = rows_of(12)
    values = measure(rows, states).values
    steps, pairs = value(rows, values, "step_angle"), value(rows, values, "update_angle")
    np.testing.assert_allclose(value(rows, values, "bulk_step"), steps[3:9].mean(axis=0)[None], rtol=1e-5)
    np.testing.assert_allclose(
        value(rows, values, "bulk_update_angle"), pairs[3:8].mean(axis=0)[None], rtol=1e-5
    )


@given(st.integers(0, 100), st.sampled_from([1, 5, 12]))
def test_a_massive_entry_is_a_thousand_times_the_median(seed, width):
    """The largest entry against the median of the absolute values, as NumPy finds it (upper median)."""
    rng = np.random.default_rng(seed)
    states = np.exp(3 * rng.normal(size=(4, 1, 50, width))).astype(np.float32)
    size = np.sort(np.abs(states), axis=-1)
    median = size[..., (width - 1) // 2]
    expected = np.any((size[..., -1] >= MASSIVE * median), axis=0)
    near = np.any(np.isclose(size[..., -1], MASSIVE * median, rtol=1e-4), axis=0)
    found = np.asarray(measure(rows_of(3), states).massive)
    assert np.array_equal(found[~near], expected[~near])


def test_zero_states_are_not_massive():
    """Nothing is larger than nothing."""
    assert not measure(rows_of(2), np.zeros((3, 1, 4, 5), np.float32)).massive.any()


def test_one_layer_has_no_angle_between_updates():
    """Two layers are the least that a probe can say anything of."""
    with pytest.raises(ValueError, match=r"the network has 1 layer\(s\): at least 2 are needed"):
        rows_of(1)
