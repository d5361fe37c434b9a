"""What is measured of a token's trajectory: rows, the middle half, where it stops, what is massive."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.probe import MEASURES, Rows, State
from llm.probe._measures import LAGS, LEFT, MASSIVE, measure


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


@given(st.sampled_from([2, 3, 7, 20]))
def test_rows_are_as_many_as_there_are_values(depth):
    """A row for every state, step, pair of layers and lag, one for a whole token; none shared."""
    rows = rows_of(depth)
    counts = {"state": depth + 1, "step": depth, "pair": depth - 1, "lag": LAGS, "token": 1}
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


@given(st.sampled_from([4, 9, 40]), st.integers(1, 40))
def test_a_token_stops_where_its_way_ends(depth, last):
    """With equal steps up to layer `last` and none behind, it stops once at most LEFT of them are to come."""
    last = min(last, depth)
    angles = np.zeros((depth, 1))
    angles[:last] = 0.01
    rows = rows_of(depth)
    found = value(rows, measure(rows, turning(angles)).values, "stop")
    expected = next(done for done in range(last + 1) if (last - done) <= LEFT * last + 1e-4)
    np.testing.assert_allclose(found, expected / depth, atol=1e-6)


def test_a_token_that_never_moves_has_stopped_at_the_start():
    """No way to go: stop is 0, angles are 0, updates have no direction and are orthogonal."""
    rows = rows_of(6)
    values = measure(rows, turning(np.zeros((6, 1)))).values
    assert value(rows, values, "stop") == 0
    assert value(rows, values, "bulk_step") == 0
    np.testing.assert_allclose(value(rows, values, "update_angle"), np.pi / 2)
    assert np.isnan(value(rows, values, "bulk_update_angle"))


@given(st.sampled_from([8, 13, 40]))
def test_the_angle_between_updates_is_taken_where_the_token_moves(depth):
    """A token that turns evenly for a half of the layers and stands still from there on has the angle of its
    turning; the updates that are zero do not count as unrelated."""
    angles = np.full((depth, 1), 0.05)
    angles[depth // 2 :] = 0
    rows = rows_of(depth)
    values = measure(rows, turning(angles)).values
    np.testing.assert_allclose(value(rows, values, "bulk_update_angle"), 0.05, atol=1e-3)


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


@given(st.integers(0, 100), st.sampled_from([1, 2, 5, 12]))
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
