"""Probes: networks whose mechanism is known are found to have it; what is kept, and what is refused."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.probe import Accumulated, Batch, Probe, ProbeConfig, State, TrajectorySource, probe, result
from sweeps._config import ConfigError
from sweeps.probes import Found, Mechanism, Probed, Reading, Witness, load, open_probed, probe_all, verdict
from sweeps.probes._kept import path_of, read
from sweeps.probes._verdict import EVERY, agreed, of_exponent, of_update_angle, verdicts

WIDTH, INPUTS = 48, 400
AVERAGING, PROCEDURAL, COMPOSITIONAL = Mechanism
HOW = ProbeConfig(skip_first=0, lens_every=None, sample=INPUTS)

# Networks whose mechanism is known: trajectories (states, inputs, width) of a depth.


def smooth(depth: int, seed: int) -> np.ndarray:
    """A rotation by half a turn in every plane, in equal steps: a flow, discretised."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(INPUTS, WIDTH // 2, 2))
    speed = rng.uniform(0.5, 1.0, WIDTH // 2)
    states = []
    for layer in range(depth + 1):
        at = np.pi * speed * layer / depth
        x, y = start[..., 0], start[..., 1]
        turned = [x * np.cos(at) - y * np.sin(at), x * np.sin(at) + y * np.cos(at)]
        states.append(np.stack(turned, axis=-1).reshape(INPUTS, WIDTH))
    return np.stack(states).astype(np.float32)


def random_walk(depth: int, seed: int) -> np.ndarray:
    """Every layer adds a map of its own of the state's direction, 1/depth as large as the state."""
    rng = np.random.default_rng(seed)
    states = [rng.normal(size=(INPUTS, WIDTH))]
    for _ in range(depth):
        weights = rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5
        h = states[-1]
        unit = h / np.linalg.norm(h, axis=-1, keepdims=True) * WIDTH**0.5
        states.append(h + np.tanh(unit @ weights) / depth)
    return np.stack(states).astype(np.float32)


def stopping(depth: int, seed: int) -> np.ndarray:
    """A random walk that half of the inputs leave after two fifths of the layers; the last layer turns all
    inputs far, as those of language models do."""
    states = random_walk(depth, seed)
    last = 2 * depth // 5
    states[last:, : INPUTS // 2] = states[last, : INPUTS // 2]
    states[-1] += np.random.default_rng(seed + 1).normal(size=states[-1].shape)
    return states.astype(np.float32)


def swinging(depth: int, seed: int) -> np.ndarray:
    """Updates +v, +v, −v, −v, …: the mean angle between neighbours is π/2, and all lie on one line."""
    rng = np.random.default_rng(seed)
    start, v = rng.normal(size=(2, INPUTS, WIDTH))
    signs = [(1, 1, -1, -1)[layer % 4] for layer in range(depth)]
    moved = np.concatenate([[0.0], np.cumsum(signs)]) / depth
    return (start + moved[:, None, None] * v).astype(np.float32)


def idling(depth: int, seed: int) -> np.ndarray:
    """A random walk whose second half of layers does nothing to half of the inputs, but for the last."""
    states = random_walk(depth, seed)
    states[depth // 2 : -1, : INPUTS // 2] = states[depth // 2, : INPUTS // 2]
    return states


def found_of(states: np.ndarray, seed: int, loss: float | None = None) -> Found:
    source = TrajectorySource(
        lambda first, last: states[:, first:last], depth=len(states) - 1, inputs=INPUTS, at_once=INPUTS
    )
    about = {"network": "built", "depth": len(states) - 1, "seed": seed, "loss": loss}
    return Found(about, ("network",), probe(source, HOW))


@pytest.mark.parametrize(
    ("network", "mechanism", "clusters"),
    [(smooth, PROCEDURAL, [1.0]), (random_walk, AVERAGING, [1.0]), (stopping, COMPOSITIONAL, [0.5, 0.5])],
    ids=["smooth", "random walk", "stops for half"],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_known_mechanism_is_found(network, mechanism, clusters, seed):
    """Of one network of 24 layers, without any loss: verdict, and clusters of the tokens."""
    found = found_of(network(24, seed), seed)
    judged = verdict({}, [found])
    assert judged.mechanism is mechanism, judged.told
    np.testing.assert_allclose(found.probe.clusters.shares, clusters, atol=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_tokens_that_stop_are_those_that_do(seed):
    """Each half is a cluster, and stops where it was made to."""
    found = found_of(stopping(20, seed), seed).probe
    label, stop = found.clusters.label, found.sampled["stop"]
    means = sorted(float(stop[label == k].mean()) for k in range(2))
    assert means[0] == pytest.approx(0.4, abs=0.05) and means[1] > 0.65


@pytest.mark.parametrize("network", [swinging, idling])
def test_other_networks_are_none_of_the_three(network):
    """Updates that swing to and fro are not unrelated, though their mean angle is π/2; idle layers are no
    flow, though they were once given one direction by rounding."""
    judged = verdict({}, [found_of(network(24, 0), 0)])
    assert judged.mechanism is None if network is swinging else judged.mechanism is not PROCEDURAL
    angle = next(one for one in judged.witnesses if one.name == "update angle")
    assert PROCEDURAL in angle.allows if network is swinging else PROCEDURAL not in angle.allows


def test_a_looped_network_at_its_fixed_point_is_no_flow():
    """Recurrences that end in one and the same state repeat the same updates, which would look like a flow;
    their layers are no witnesses, and the angle between recurrences says that they stand still."""
    rng = np.random.default_rng(0)
    start, update = rng.normal(size=(2, INPUTS, WIDTH))
    names, states = [State("start", "embedding", is_layer=False)], [start]
    for recurrence in range(6):
        for layer in range(2):
            names.append(State(f"recurrence.{recurrence}.{layer}", "recurrence", recurrence))
            states.append(states[-1] + update / 2)
        names.append(State(f"recurrence.{recurrence}", "recurrence", recurrence, is_layer=False))
        states.append(start)
    seen = Accumulated(names, HOW)
    seen.add(Batch(0, np.stack(states)[:, :, None].astype(np.float32), np.ones(INPUTS, np.int64)))
    found = Found({"network": "built", "depth": 12, "seed": 0}, ("network",), result(seen))
    judged = verdict({}, [found])
    assert judged.mechanism is None
    assert all(witness.allows == EVERY for witness in judged.witnesses)
    np.testing.assert_allclose(found.probe.measures["recurrence_step"].mean, 0.0, atol=1e-6)


@pytest.mark.parametrize(("network", "mechanism"), [(smooth, PROCEDURAL), (random_walk, AVERAGING)])
def test_all_four_witnesses_agree_where_losses_are_known(network, mechanism):
    """Of networks of several depths and seeds whose losses fall as the mechanism says, exponent, update
    angle, step scaling and early stops speak, each; the exponents are right."""
    alpha = 3.0 if mechanism is PROCEDURAL else 1.0
    rng = np.random.default_rng(0)
    found = [
        found_of(network(depth, seed), seed, float(depth**-alpha * np.exp(0.02 * rng.normal())))
        for seed in range(3)
        for depth in (8, 16, 32)
    ]
    judged = verdict({}, found)
    assert judged.mechanism is mechanism, judged.told
    by_name = {witness.name: witness for witness in judged.witnesses}
    assert all(witness.allows != EVERY for witness in judged.witnesses)
    low, high = by_name["exponent"].interval
    assert low <= alpha <= high
    low, high = by_name["step scaling"].interval
    assert 0.95 < low <= high < 1.1
    assert judged.depths == (8, 16, 32) and judged.networks == 9


def test_witnesses_that_disagree_leave_it_open():
    """A random walk whose losses fall as those of a flow: not resolved, and said which speaks for what."""
    found = [found_of(random_walk(depth, 0), 0, float(depth**-3.0)) for depth in (8, 12, 16, 24)]
    judged = verdict({}, found)
    assert judged.mechanism is None
    assert judged.told.startswith("the witnesses disagree: exponent allows procedural assembly or comp")
    assert "update angle allows ensemble averaging or compositional assembly" in judged.told


@given(st.lists(st.sets(st.sampled_from(list(Mechanism))).map(frozenset), min_size=1, max_size=5))
def test_the_verdict_is_what_all_allow(allowed):
    """One mechanism that every witness allows, and no other; else none, in whatever order they come."""
    witnesses = [Witness(f"w{i}", "", 0.0, (0.0, 0.0), some, "") for i, some in enumerate(allowed)]
    left = EVERY.intersection(*allowed)
    mechanism, told = agreed(witnesses)
    assert mechanism == (next(iter(left)) if len(left) == 1 else None)
    assert agreed(witnesses[::-1])[0] is mechanism
    assert ("disagree" in told) == (not left)
    assert ("leave open" in told) == (len(left) > 1)


@given(st.floats(0.0, math.pi), st.floats(1e-4, 1.0))
def test_an_angle_speaks_only_where_all_of_its_interval_does(value, reach):
    """Not for a flow if the interval reaches π/3, nor for averaging if it leaves π/2 ± 0.2."""
    low, high = value - reach, value + reach
    allows = of_update_angle((value, (low, high))).allows
    assert (AVERAGING not in allows) == (high < math.pi / 3)
    assert (PROCEDURAL not in allows) == (math.pi / 2 - 0.2 < low and high < math.pi / 2 + 0.2)
    assert COMPOSITIONAL in allows


def test_an_exponent_speaks_by_the_rules_of_the_fitter():
    """Averaging near 1, a flow above 2, neither between; composition predicts none."""
    assert of_exponent((1.0, (0.9, 1.1))).allows == {AVERAGING, COMPOSITIONAL}
    assert of_exponent((2.9, (2.8, 3.0))).allows == {PROCEDURAL, COMPOSITIONAL}
    assert of_exponent((1.7, (1.6, 1.8))).allows == EVERY
    assert of_exponent(None).allows == EVERY


def test_stops_of_all_tokens_alike_are_no_composition():
    """Where every token stops early at one depth, layers are idle; only stops of their own speak for it."""
    states = random_walk(20, 0)
    states[8:] = states[8]
    [*_, witness] = verdict({}, [found_of(states, 0)]).witnesses
    assert witness.name == "early stops"
    assert witness.value == 1.0 and witness.allows == EVERY


def test_a_few_inputs_do_not_say_that_none_stops():
    """Of eight inputs none stopped early: that leaves room for a third of all. Of 400 it does not."""
    states = random_walk(12, 0)
    for inputs, speaks in ((8, False), (400, True)):
        source = TrajectorySource(lambda a, b: states[:, a:b], depth=12, inputs=inputs)  # noqa: B023
        about = {"network": "built", "depth": 12, "seed": 0}
        [*_, witness] = verdict({}, [Found(about, ("network",), probe(source, HOW))]).witnesses
        assert witness.value == 0 and (witness.allows != EVERY) == speaks


def test_a_seed_of_one_depth_does_not_end_the_verdict():
    """It has no part in the scaling; the others have."""
    found = [found_of(random_walk(depth, 0), 0, 1.0 / depth) for depth in (8, 16, 32)]
    alone = found_of(random_walk(64, 1), 1, 1.0 / 64)
    assert verdict({}, [*found, alone]).step_fit is not None
    assert verdict({}, [found[0], alone]).step_fit is None


# Teachers: what theory says of their angles at any depth.


def probed(networks: Sequence[Probed]) -> list[Found]:
    return [Found(one.about, one.together, probe(one.source, HOW)) for one in networks]


@pytest.fixture(scope="module")
def teachers() -> list[Found]:
    """Of the preset, one seed."""
    reading = Reading(inputs=1024)
    return probed([one for one in open_probed("teachers", reading) if one.about["seed"] == 0])


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_independent_teachers_walk_at_random(teachers, power):
    """Depths 8 to 128: neighbouring updates are orthogonal at each (to 0.1), as many of them are independent
    as there are (half at least), and steps scale as the residual scale, depth^-power."""
    these = [one for one in teachers if one.question["teacher"] == "independent"]
    these = [one for one in these if one.question["residual_power"] == power]
    assert [one.about["depth"] for one in these] == [8, 16, 32, 64, 128]
    for one in these:
        assert one.probe.scalar("bulk_update_angle")[0] == pytest.approx(math.pi / 2, abs=0.1)
        assert one.probe.measures["independent_updates"].quantiles[0, 2] > one.about["depth"] / 2
    judged = verdict({}, these)
    assert judged.step_fit is not None
    assert judged.step_fit.estimates["alpha"] == pytest.approx(power, abs=0.06)


@pytest.mark.slow
def test_tied_teachers_flow(teachers):
    """At 1/depth both the step and the angle between updates fall as 1/depth, and all updates together are
    no more than two independent ones. At 1/√depth the flow runs for a time √depth with steps of 1/√depth:
    local exponents rise from 1/2, where the flow has hardly begun, towards 1, where directions settle while
    the state grows in proportion to time."""
    for power in (0.5, 1.0):
        these = [one for one in teachers if one.question["teacher"] == "tied"]
        these = [one for one in these if one.question["residual_power"] == power]
        depth = np.array([one.about["depth"] for one in these])
        for name in ("bulk_step", "bulk_update_angle"):
            values = np.array([one.probe.scalar(name)[0] for one in these])
            slopes = -np.diff(np.log(values)) / np.diff(np.log(depth))
            if power == 1:
                np.testing.assert_allclose(slopes, 1.0, atol=0.06, err_msg=name)
            else:
                assert 0.5 < slopes[0] and (np.diff(slopes) > 0).all() and slopes[-1] > 0.8, name
        assert max(one.probe.measures["independent_updates"].quantiles[0, 2] for one in these) < 2


@pytest.mark.slow
def test_teachers_are_judged_by_kind_and_scale(teachers):
    """Four questions; every independent one averages, every tied one discretises."""
    judged = verdicts(teachers)
    assert len(judged) == 4
    for one in judged:
        expected = AVERAGING if one.question["teacher"] == "independent" else PROCEDURAL
        assert one.mechanism is expected, one.told


# What is kept.


def built(seed: int = 0, label: str = "built") -> Probed:
    states = random_walk(6, seed)
    source = TrajectorySource(
        lambda first, last: states[:, first:last], depth=6, inputs=INPUTS, at_once=INPUTS // 4
    )
    return Probed({"network": label, "depth": 6, "seed": seed}, ("network",), source, {})


def means(found: Probe) -> dict[str, list[str]]:
    """NaN, where there is no value, as text, so that it equals itself."""
    return {name: [str(value) for value in summary.mean] for name, summary in found.measures.items()}


def test_what_was_probed_is_not_probed_again(tmp_path):
    """The second call reads no trajectory; another setting does; what is kept can be loaded alone."""
    first = probe_all([built()], HOW, tmp_path, lambda said: None)
    again = built()
    again.source._trajectories = None  # type: ignore[attr-defined]  # to read from it would raise
    second = probe_all([again], HOW, tmp_path, lambda said: None)
    assert means(first[0].probe) == means(second[0].probe)
    with pytest.raises(TypeError):
        probe_all([again], dataclasses.replace(HOW, seed=1), tmp_path, lambda said: None)
    with pytest.raises(ConfigError, match="holds no probe"):
        load(tmp_path)
    (tmp_path / "probe.json").write_text(json.dumps({"files": [first[0].file]}))
    [loaded] = load(tmp_path)
    assert loaded.about == first[0].about and means(loaded.probe) == means(first[0].probe)


def test_what_is_given_tells_probes_apart(tmp_path):
    """Other weights, text or length of the same network are another file; the same network twice is one."""
    one, other = built(), built()._replace(given={"model": "other weights"})
    found = probe_all([one, other, built()], HOW, tmp_path, lambda said: None)
    assert len(found) == 2 and found[0].file != found[1].file


class Stop(BaseException):
    """A kill."""


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_stopped_probe_goes_on_in_the_middle_of_a_network(tmp_path, monkeypatch, blocks):
    """What was kept after some blocks is gone on from, to the same numbers; it is not loaded as if whole."""
    whole = probe_all([built()], HOW, tmp_path / "whole", lambda said: None)
    monkeypatch.setattr("sweeps.probes._run.SECONDS", 0.0)
    stopped = built()
    states, calls = stopped.source._trajectories, []  # type: ignore[attr-defined]

    def until(first: int, last: int) -> Any:
        if len(calls) == blocks:
            raise Stop
        calls.append(first)
        return states(first, last)

    stopped.source._trajectories = until  # type: ignore[attr-defined]
    with pytest.raises(Stop):
        probe_all([stopped], HOW, tmp_path / "cut", lambda said: None)
    [kept] = (tmp_path / "cut" / "networks").iterdir()
    of, _ = read(kept)
    assert not of["whole"]
    (tmp_path / "cut" / "probe.json").write_text(json.dumps({"files": [kept.name]}))
    with pytest.raises(ConfigError, match="is damaged: the same `depthlaw probe` makes it again"):
        load(tmp_path / "cut")
    resumed, more = built(), []
    states = resumed.source._trajectories  # type: ignore[attr-defined]

    def rest(first: int, last: int) -> Any:
        more.append(first)
        return states(first, last)

    resumed.source._trajectories = rest  # type: ignore[attr-defined]
    found = probe_all([resumed], HOW, tmp_path / "cut", lambda said: None)
    assert calls + more == [0, 100, 200, 300]
    assert means(found[0].probe) == means(whole[0].probe)


@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    """Cut short, empty, or something else: it counts as nothing."""
    network = built()
    first = probe_all([network], HOW, tmp_path, lambda said: None)
    how = dataclasses.replace(HOW, keep_massive=True)  # as every toy network is measured
    path = path_of(tmp_path, network, how)
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "other": b"PK nonsense"}[damage])
    assert read(path) is None
    again = probe_all([built()], HOW, tmp_path, lambda said: None)
    assert means(again[0].probe) == means(first[0].probe)
    assert read(path) is not None


def test_no_networks_and_no_folder_are_refused(tmp_path):
    """A sentence each."""
    with pytest.raises(ConfigError, match="there is no network to probe"):
        probe_all([], HOW, tmp_path, lambda said: None)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder: choose another --out"):
        probe_all([built()], HOW, tmp_path / "file", lambda said: None)


# The command.


SPEC = """
[sweep]
name = "tiny"
description = "Tiny teachers and students."
[base]
width = 4
depths = [2, 3, 4]
seeds = [0, 1]
batch = 16
steps = 20
teacher = { kind = "tied", depth = 8 }
evaluation = { batches = 1, batch = 16, points = 2 }
[fit]
by = ["teacher"]
floor = 0.0
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return path


def test_teachers_of_a_spec(call, tiny, tmp_path):
    """`probe SPEC` trains nothing: rows a network and a state, JSON, figure; status 0."""
    out = tmp_path / "out"
    done = call("probe", str(tiny), "--inputs", "1024", "--out", str(out))
    assert done.status == 0, done.err
    assert "procedural assembly" in done.out
    networks, states = pl.read_csv(out / "networks.csv"), pl.read_csv(out / "states.csv")
    assert networks["seed"].to_list() == [0, 1] and networks["tokens"].to_list() == [1024, 1024]
    assert len(states) == 2 * 9 and states["state"].to_list()[:3] == ["start", "layer.0", "layer.1"]
    assert states["step_angle_mean"].null_count() == 2 and states["update_angle_mean"].null_count() == 4
    told = json.loads((out / "probe.json").read_text())
    assert told["verdicts"][0]["mechanism"] == "procedural assembly"
    assert len(told["networks"]) == 2 and len(told["networks"][0]["states"]) == 9
    assert (out / "hidden_states.png").stat().st_size > 10_000
    assert (out / "hidden_states.pdf").exists()


def test_what_a_row_says_of_a_drifting_teacher():
    """The correlation length is a number, blank where it is infinite: a column of numbers, not of texts."""
    from sweeps.probes._sources import _of_teacher
    from toymodels import CohortConfig, Drifting

    told = [_of_teacher(CohortConfig(teacher=Drifting(length=length))) for length in (0.5, float("inf"))]
    assert [one["length"] for one in told] == [0.5, None]
    assert told[0]["teacher"] == "drifting" and "depth" not in told[0]


@pytest.mark.slow
def test_students_of_a_sweep(call, tiny, tmp_path):
    """`probe DIR` probes the teacher of each seed once and every student, or those that --only names."""
    results, here = tmp_path / "results", ("--executor", "in-process")
    assert call("run", str(tiny), "--out", str(results), "--keep-models", *here).status in (0, 1)
    done = call("probe", str(results), "--inputs", "1024", "--out", str(tmp_path / "out"))
    assert done.status == 0, done.err
    networks = pl.read_csv(tmp_path / "out" / "networks.csv")
    assert networks["network"].to_list().count("teacher") == 2
    students = networks.filter(pl.col("network") == "student")
    assert sorted(students["depth"].to_list()) == [2, 2, 3, 3, 4, 4]
    out = tmp_path / "some"
    some = call("probe", str(results), "--only", "seed=1", "--inputs", "1024", "--out", str(out))
    assert some.status == 0
    assert set(pl.read_csv(out / "networks.csv")["seed"].to_list()) == {1}
    assert call("probe", str(results), "--only", "depth=3", "--inputs", "1024", "--out", str(out)).status == 0
    rows = pl.read_csv(out / "networks.csv")
    assert rows["depth"].to_list() == [3, 3] and set(rows["network"]) == {"student"}
    assert [one.about["depth"] for one in load(out)] == [
        3,
        3,
    ]  # of the last call alone


def test_models_that_were_not_kept_are_asked_for(call, tiny, tmp_path, instant):
    """Status 2, and the command that keeps them."""
    call("run", str(tiny), "--out", str(tmp_path / "results"), "--executor", "in-process")
    refused = call("probe", str(tmp_path / "results"), "--out", str(tmp_path / "none"))
    assert refused.status == 2 and "the same `depthlaw run` with --keep-models" in refused.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["llm_tiny"], "which is trained first: `depthlaw run llm_tiny --keep-models`"),
        (["quickstart", "--only", "seed=0"], "quickstart is a spec: networks are chosen with --only from"),
        (["teachers", "--num-recur", "2"], "teachers is of toy networks: they have no recurrences"),
        (["teachers", "--precision", "float16"], "'--precision'"),
        (["teachers", "--sequences", "0"], "'--sequences': Input should be greater"),
    ],
)
def test_calls_that_are_wrong(call, tmp_path, arguments, told):
    """Status 2 and one sentence, which says what to do."""
    done = call("probe", *arguments, "--out", str(tmp_path / "out"))
    assert done.status == 2 and told in done.err
    assert "Traceback" not in done.err and done.out == ""
