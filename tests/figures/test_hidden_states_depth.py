"""Laws of kept states and of the figures that are drawn of them."""

import functools

import numpy as np
import polars as pl
import pytest

from figures import _lines, _states, hidden_states_depth, kept_states
from llm.probe import ProbeConfig, TrajectorySource, probe
from sweeps._config import ConfigError
from sweeps.probes import Found, network_rows
from tests.figures.made_toys import same_bytes

pytestmark = pytest.mark.slow


@functools.cache
def found_of(depth, seed=0, tokens=120):
    """A random walk, called a run of r = 1."""
    rng = np.random.default_rng([seed, depth])
    states = np.cumsum(rng.normal(size=(depth + 1, tokens, 8)), axis=0).astype(np.float32)
    source = TrajectorySource(lambda a, b: states[:, a:b], depth=depth, inputs=tokens)
    about = {"network": "built", "width": 8, "depth": depth, "num_recur": 1, "budget": 2e12, "seed": seed}
    return Found(about, ("network",), probe(source, ProbeConfig(skip_first=0, lens_every=None)))


FOUND = [(4, 0), (4, 1), (8, 0), (8, 1), (16, 0), (16, 1)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Kept tables of networks of three depths and two seeds."""
    folder = tmp_path_factory.mktemp("kept")
    found = [found_of(*one) for one in FOUND]
    network_rows(found).write_csv(folder / "walks_probe.csv")
    kept_states.states(found).write_parquet(folder / "walks_states.parquet")
    return folder / "walks_probe.csv", folder / "walks_states.parquet"


def test_lines_are_means_over_seeds_of_what_was_probed(kept):
    """Each depth's angles, cosines, norms and progress are the means of its probes, at their shares of the
    layers."""
    networks, states = _lines.load(*kept)
    lines = _lines.lines_by(networks, states, "depth", "{} layers")
    assert [line.label for line in lines] == ["4 layers", "8 layers", "16 layers"]
    for line, depth in zip(lines, (4, 8, 16), strict=True):
        probes = [found_of(depth, seed).probe for seed in (0, 1)]
        counts = {**dict.fromkeys(_states.LABELS, depth + 1), "step_angle": depth, "update_angle": depth - 1}
        for name, count in counts.items():
            curve = line.measures[name]
            expected = np.mean([one.measures[name].mean for one in probes], axis=0)
            np.testing.assert_allclose(curve.value, expected, rtol=1e-5, atol=1e-6)
            assert len(curve.at) == count
        np.testing.assert_allclose(line.measures["step_angle"].at, (np.arange(depth) + 0.5) / depth)
        np.testing.assert_allclose(line.measures["update_angle"].at, np.arange(1, depth) / depth)
        cosines = np.mean([one.measures["update_cosine"].mean for one in probes], axis=0)
        np.testing.assert_allclose(line.cosines, cosines[: depth - 1], rtol=1e-9)


def test_steps_of_ends_are_those_of_their_layers(kept):
    """First, second and last layer's mean step, by depth; the exponent is the fit to the networks' rows."""
    networks, states = _lines.load(*kept)
    ends = _lines.ends(states)
    for name, place in (("first", 0), ("second", 1), ("last", -1)):
        depths, steps = ends[name]
        assert depths.tolist() == [4, 8, 16]
        for depth, step in zip((4, 8, 16), steps, strict=True):
            both = [found_of(depth, seed).probe.measures["step_angle"].mean[place] for seed in (0, 1)]
            assert step == pytest.approx(np.mean(both), rel=1e-5)
    logs = np.log(networks["bulk_step"].to_numpy()), np.log(networks["depth"].to_numpy())
    # Seeds have the same depths, so a level a seed leaves the slope of all rows.
    slope = np.polyfit(logs[1], logs[0], 1)[0]
    assert _lines.step_fit(networks).estimates["alpha"] == pytest.approx(-slope, rel=1e-5)


def test_what_the_last_recurrence_left_is_its_last_state():
    """Of each recurrence the last state is read, whatever stands before it; means over seeds."""
    states = pl.DataFrame(
        {
            "num_recur": [2] * 8,
            "seed": [0, 0, 0, 0, 1, 1, 1, 1],
            "recurrence": [None, 0, 0, 1] * 2,
            "number": [0, 1, 2, 3] * 2,
            "layer_loss": [9.0, 4.0, 3.0, 2.0, 9.0, 6.0, 5.0, 4.0],
            "layer_loss_error": [0.1] * 8,
        }
    )
    ((r, (done, loss, error)),) = _lines.recurrence_ends(states).items()
    assert (r, done.tolist(), loss.tolist()) == (2, [1, 2], [4.0, 3.0])
    assert error == pytest.approx([0.1, 0.1])


def test_what_stands_between_recurrences_has_no_place(kept):
    """States that no layer made are left out of curves along depth."""
    networks, states = _lines.load(*kept)
    mine = states.filter((pl.col("depth") == 4) & (pl.col("seed") == 0))
    between = mine.filter(pl.col("number") == 2).with_columns(
        is_layer=pl.lit(False), number=pl.lit(2, pl.Int64), norm=pl.lit(1e6, pl.Float32)
    )
    plain = _lines.line_of(networks, mine, "a")
    more = _lines.line_of(networks, pl.concat([mine, between]), "a")
    np.testing.assert_array_equal(plain.measures["norm"].value, more.measures["norm"].value)


def test_a_sample_of_tokens_keeps_components_clusters_and_shares():
    """Its points are among those of the probe, each token with its cluster and that cluster's share of all;
    asked for more than there are, all are kept."""
    found = [found_of(8, tokens=200)]
    clusters, sampled = found[0].probe.clusters, found[0].probe.sampled["step_angle"]
    points = clusters.components.points(sampled)[:, :2].astype(np.float32)
    few, every = kept_states.tokens(found, 50), kept_states.tokens(found, 10**6)
    assert (len(few), len(every)) == (50, 200)
    known = {tuple(point): label for point, label in zip(points.tolist(), clusters.label, strict=True)}
    for one, two, cluster, share, *_ in few.iter_rows():
        assert known[one, two] == cluster and share == clusters.shares[cluster]
    np.testing.assert_allclose(every["explained_1"][0], clusters.components.explained[0])
    with pytest.raises(ConfigError, match="of one network, and there are 2: choose with --only"):
        kept_states.tokens([found_of(4), found_of(8)], 10)


def test_networks_are_chosen_by_conditions():
    """All conditions hold; where no network meets them, the sentence says which."""
    found = [found_of(*one) for one in FOUND]
    chosen = kept_states.meeting(found, ["depth=8", "seed=1"])
    assert [(one.about["depth"], one.about["seed"]) for one in chosen] == [(8, 1)]
    with pytest.raises(ConfigError, match="no network meets depth=8 and seed=7"):
        kept_states.meeting(found, ["depth=8", "seed=7"])


def test_other_tables_are_refused(kept, tmp_path):
    """A table that is no probe's, and states without their network, are refused in a sentence."""
    pl.DataFrame({"depth": [1], "seed": [0]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(ConfigError, match=r"other\.csv has no column 'bulk_step'"):
        _lines.load(tmp_path / "other.csv", kept[1])
    networks, states = _lines.load(*kept)
    with pytest.raises(ConfigError, match="states of networks with depth 16, and no such network"):
        _lines.lines_by(networks.filter(pl.col("depth") < 16), states, "depth", "{}")


def test_the_same_tables_give_the_same_files(kept, tmp_path):
    """Drawing twice writes the same bytes, also of networks that no head reads."""
    assert same_bytes(lambda out: hidden_states_depth.draw_depths(kept, out), tmp_path)


def test_kept_tables_of_the_repository_are_drawn(tmp_path):
    """Looped models and the pretrained one: all panels hold something, and each r has a line."""
    by_name = {one.name: one for one in hidden_states_depth.DRAWINGS}
    from figures._catalogue import TABLES

    for name in ("hidden_states_looped", "hidden_states_smollm2"):
        paths = by_name[name].draw(by_name[name].files(TABLES), tmp_path)
        assert all(path.stat().st_size > 20_000 for path in paths)
    drawing = by_name["hidden_states_looped"]
    networks, states = _lines.load(*drawing.files(TABLES))
    assert {r: len(done) for r, (done, *_) in _lines.recurrence_ends(states).items()} == {
        1: 1,
        2: 2,
        4: 4,
        8: 8,
    }
    assert [line.label for line in _lines.lines_by(networks, states, "num_recur", "r = {}")] == [
        f"r = {r}" for r in (1, 2, 4, 8)
    ]
