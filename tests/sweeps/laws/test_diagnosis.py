"""What the rows do not tell: each code is provoked by a table of its own, and none by clean data."""

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

from sweeps.laws import CODES, ChinchillaLaw, DepthLaw, Finding, Fit, LoopedLaw, OwnLaw, Status, fit
from tests.sweeps.laws.looped_design import looped_table

DEPTH = np.tile([2.0, 3, 4, 6, 8, 12, 16, 24], 3)
NO_FLOOR = {"L_0": 0.0}


def _table(noise: float = 0.01, floor: float = 0.3, depth: np.ndarray = DEPTH) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    scatter = np.exp(noise * rng.standard_normal(depth.size))
    return {"depth": depth, "loss": (2 * depth**-1.2 + floor) * scatter}


def _seeds(exponents: list[float], noise: float = 0.03) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    seed = np.repeat(np.arange(len(exponents)), 8)
    depth = np.tile(DEPTH[:8], len(exponents))
    loss = depth ** -np.array(exponents)[seed] * np.exp(noise * rng.standard_normal(seed.size))
    return {"depth": depth, "loss": loss, "seed": seed}


def _sizes(rows: int, spread: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    n = np.geomspace(1e7, 1e10, rows)
    d = 20 * n * np.exp(spread * rng.standard_normal(rows))
    loss = (1.7 + 400 * n**-0.34 + 400 * d**-0.28) * np.exp(0.003 * rng.standard_normal(rows))
    return {"num_params": n, "num_tokens": d, "loss": loss}


def _quick(law, table, **arguments) -> Fit:  # type: ignore[no-untyped-def]
    return fit(law, table, **{"interval": "wald"} | arguments)


def _peaks() -> Fit:
    x = np.linspace(0.1, 40, 200)
    heights = zip((2.0, 1.9, 1.8, 1.7), (5, 15, 25, 35), strict=True)
    loss = 1 + sum(height * np.exp(-((x - at) ** 2)) for height, at in heights)
    return _quick(OwnLaw("E + A * exp(-(x - m)**2)", ("x",)), {"x": x, "loss": loss}, starts=512)


def _agreeing() -> Fit:
    one = {name: column[:8] for name, column in _table(0.05, 0.0).items()}
    both = {"depth": np.tile(one["depth"], 2), "loss": np.concatenate([one["loss"], 3 * one["loss"]])}
    return fit(DepthLaw(), both | {"seed": np.repeat([0, 1], 8)}, fix=NO_FLOOR)


def _flat_group() -> Fit:
    table = _seeds([1.2, 1.2, 1.2, 1.2])
    table["loss"] = np.where(table["seed"] == 2, 0.3, table["loss"] + 0.02)
    return fit(DepthLaw(), table)


def _with(**columns: object) -> dict:
    return _table() | columns


def _off() -> dict:
    table = _table()
    table["loss"][7] *= 1.15
    return table


def _bending() -> dict:
    table = _table(0.005)
    return table | {"loss": table["loss"] * np.exp(0.1 * np.log(DEPTH) ** 2)}


def _truncated(**columns: object) -> dict:
    return looped_table(0.01, 0) | columns


RECUR = looped_table(0.0, 0)["num_recur"]
PROVOKED: dict[str, tuple[Callable[[], Fit], str, tuple[str, ...]]] = {
    "not-identified": (
        lambda: _quick(DepthLaw(), _table(0.03, 0.0)),
        "L_0 is not bounded below",
        ("L_0", "alpha"),
    ),
    "at-bound": (lambda: _quick(DepthLaw(), _with(loss=2 * DEPTH**-1.3 - 0.02)), "lower bound 0", ("L_0",)),
    "degenerate": (lambda: _quick(DepthLaw(), _with(loss=np.full(24, 1.0))), "separately", ("c", "L_0")),
    "failed": (lambda: _quick(OwnLaw("A * log(-depth) + B", ("depth",)), _table()), "No start", ()),
    "budget-exhausted": (lambda: _quick(DepthLaw(), _table(), budget=1), "after 1 iteration", ()),
    "few-starts-agree": (_peaks, "of 512 starts reached", ()),
    "ill-conditioned": (
        lambda: _quick(DepthLaw(), _table(1e-7, depth=np.linspace(100, 104, 30))),
        "stand in for each other",
        (),
    ),
    "correlated-predictors": (
        lambda: _quick(ChinchillaLaw(), _sizes(40, 0.3)),
        "correlation of 0.99",
        ("num_params", "num_tokens"),
    ),
    "few-levels": (
        lambda: _quick(LoopedLaw(), {k: v[(RECUR == 1) | (RECUR == 8)] for k, v in _truncated().items()}),
        "num_recur has 2 different value",
        ("num_recur",),
    ),
    "few-degrees-of-freedom": (
        lambda: _quick(DepthLaw(), {k: v[:7] for k, v in _table().items()}),
        "7 rows leave 4 degree",
        (),
    ),
    "duplicate-rows": (
        lambda: _quick(DepthLaw(), {k: np.append(v, v[0]) for k, v in _table().items()}),
        "1 row(s) repeat",
        (),
    ),
    "dominant-rows": (lambda: _quick(DepthLaw(), _off()), "alpha moves by", ("alpha",)),
    "curvature": (lambda: _quick(DepthLaw(), _bending(), fix=NO_FLOOR), "bend along depth", ("depth",)),
    "checkpoint-rows": (
        lambda: _quick(DepthLaw(), _with(run=np.repeat(np.arange(12), 2), step=np.tile([1, 2], 12))),
        "12 of 12 runs (column 'run') have rows at several step",
        ("run", "step"),
    ),
    "mixed-truncation": (
        lambda: _quick(LoopedLaw(), _truncated(bptt_k=np.where(RECUR == 8, 4, RECUR))),
        "29 row(s) were trained with fewer recurrences",
        ("bptt_k",),
    ),
    "other-recurrences": (
        lambda: _quick(LoopedLaw(), _truncated(r_train=np.where(RECUR == 8, 4, RECUR))),
        "29 row(s) were evaluated at another number",
        ("r_train",),
    ),
    "failed-refits": (_flat_group, "bootstrap refits", ()),
    "groups-differ": (
        lambda: fit(DepthLaw(), _seeds([1.0, 1.4, 1.8]), fix=NO_FLOOR),
        "differ in alpha",
        ("alpha",),
    ),
    "groups-agree": (_agreeing, "agree better on alpha", ("alpha",)),
    "one-group": (
        lambda: _quick(DepthLaw(), _with(seed=np.zeros(24, int))),
        "Column seed has one group",
        ("seed",),
    ),
    "no-scatter": (lambda: _quick(DepthLaw(), _table(0.0)), "to rounding", ()),
    "misfit": (lambda: _quick(DepthLaw(), _table(0.03), noise=0.01), "times as large as the noise", ()),
}


@functools.cache
def _provoked(code: str) -> Fit:
    return PROVOKED[code][0]()


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_provoked(code: str) -> None:
    """For each code there is a table that it is about: the finding is there, says what it should, and names
    the parameters or columns; CODES explains it."""
    _, sentence, about = PROVOKED[code]
    said = [finding for finding in _provoked(code).diagnosis if finding.code == code]
    assert said, f"{code} was not found"
    assert sentence in said[0].sentence
    assert said[0].about == about or not about
    assert said[0].sentence[0].isupper() or said[0].about or said[0].sentence[0].isdigit()
    assert said[0].sentence.endswith(".") and CODES[code]


def test_clean_data_provoke_none() -> None:
    """Rows that follow the law with independent noise, spread over the columns, leave nothing to say."""
    assert _quick(DepthLaw(), _table(), starts=64).diagnosis == ()
    assert fit(DepthLaw(), _table(), resamples=100).diagnosis == ()
    assert _quick(LoopedLaw(), looped_table(0.010, 0)).diagnosis == ()
    assert fit(DepthLaw(), _seeds([1.2] * 4), fix=NO_FLOOR).diagnosis == ()


def test_findings_are_of_known_codes() -> None:
    """No finding has a code that CODES does not explain."""
    for code in PROVOKED:
        assert {finding.code for finding in _provoked(code).diagnosis} <= set(CODES)


def test_findings_never_change_a_number() -> None:
    """The rows' other columns say what a fit is worth and nothing about its numbers."""
    plain = _quick(LoopedLaw(), looped_table(0.010, 0))
    warned = _quick(LoopedLaw(), _truncated(bptt_k=np.where(RECUR == 8, 4, RECUR), r_train=np.ones(116)))
    assert plain.parameters == warned.parameters and plain.objective == warned.objective
    assert {f.code for f in warned.diagnosis} == {"mixed-truncation", "other-recurrences"}


def test_groups_that_differ_are_named_one_time_in_a_hundred_by_chance() -> None:
    """Equal exponents are said to differ in 1 % of tables: of 100, at most 1 + 4 x 1 (four binomial errors);
    exponents 0.3 apart with an error of 0.02 each always are."""

    def differ(found: Fit) -> bool:
        return "groups-differ" in {f.code for f in found.diagnosis}

    depth, seed = np.tile(DEPTH[:6], 3), np.repeat(np.arange(3), 6)
    equal = 0
    for s in range(100):
        loss = depth**-1.2 * np.exp(0.03 * np.random.default_rng(s).standard_normal(18))
        table = {"depth": depth, "loss": loss, "seed": seed}
        equal += differ(fit(DepthLaw(), table, fix=NO_FLOOR, starts=1, interval="none"))
    assert equal <= 5
    assert differ(fit(DepthLaw(), _seeds([1.2, 1.5, 1.8]), fix=NO_FLOOR, interval="none"))


def test_a_shared_floor_and_exponents_that_differ() -> None:
    """With L_0 free as well, the finding warns that the shared exponent need not be the mean."""
    table = _seeds([1.0, 1.4, 1.8, 2.2])
    notes = fit(DepthLaw(), table | {"loss": table["loss"] + 0.02}, interval="none").notes
    assert any("Shared values of" in note and "need then not be means" in note for note in notes)


@pytest.mark.slow
def test_curvature_is_found_one_time_in_a_hundred_by_chance() -> None:
    """Of 100 tables that follow the law, curvature is seen in 1 %: at most 1 + 4 x 1; a law that lacks the
    floor of its data bends in every one of 10."""
    seen = 0
    for s in range(100):
        scatter = np.exp(0.01 * np.random.default_rng(s).standard_normal(24))
        table = {"depth": DEPTH, "loss": (2 * DEPTH**-1.2 + 0.3) * scatter}
        found = fit(DepthLaw(), table, starts=1, interval="none", fix={"L_0": 0.3})
        seen += "curvature" in {f.code for f in found.diagnosis}
        if s < 10:
            other = fit(DepthLaw(), table, starts=1, interval="none", fix=NO_FLOOR)
            assert "curvature" in {f.code for f in other.diagnosis}
    assert seen <= 5


@pytest.mark.slow
def test_the_misfit_test_is_of_the_right_size() -> None:
    """With the noise given as it is, misfit is said in 1 % of tables: at most 1 + 4 x 1 of 100."""
    seen = 0
    for s in range(100):
        scatter = np.exp(0.01 * np.random.default_rng(s).standard_normal(24))
        table = {"depth": DEPTH, "loss": 2 * DEPTH**-1.2 * scatter}
        found = fit(DepthLaw(), table, starts=1, interval="none", fix=NO_FLOOR, noise=0.01)
        seen += "misfit" in {f.code for f in found.diagnosis}
    assert seen <= 5


def test_rows_are_named_as_the_table_names_them() -> None:
    """A dominant row is named by the number that messages about the table use, and by its loss: the row
    counted from 0 in the order of the table, whatever was left out."""
    table = _off()
    table = {name: np.concatenate([[2.0], column]) for name, column in table.items()}
    table["loss"][0] = 1e3
    said = [f for f in _quick(DepthLaw(), table, drop_top=1).diagnosis if f.code == "dominant-rows"]
    bad = {"depth": table["depth"], "loss": np.where(np.arange(25) == 8, 0.0, table["loss"])}
    with pytest.raises(ValueError) as refused:
        fit(DepthLaw(), bad)
    number = str(refused.value).split("row ")[1].split(" ")[0]
    assert said[0].sentence.startswith(f"Without row {number}, whose loss is {table['loss'][8]:.6g}")


def test_clusters_by_run_silence_the_note_on_checkpoints() -> None:
    """Several rows of a run are in order once the run is the group."""
    table = _with(run=np.repeat(np.arange(6), 4), step=np.tile([1, 2, 3, 4], 6))
    found = fit(DepthLaw(), table, group="run", own=(), interval="none")
    assert "checkpoint-rows" not in {f.code for f in found.diagnosis}


def test_students_of_one_job_are_no_checkpoints() -> None:
    """A job that trains students of several depths has rows at several FLOPs, each of another model; two rows
    of one depth at several FLOPs are one model, earlier and later."""

    def codes(depth: np.ndarray) -> set[str]:
        seed = np.repeat(np.arange(4), 6)
        flops = np.tile(np.arange(1.0, 7.0), 4)
        noise = 1 + 0.01 * np.sin(np.arange(24))
        table = {"job": seed, "seed": seed, "depth": depth, "flops": flops, "loss": noise / depth}
        return {f.code for f in fit(DepthLaw(), table, fix=NO_FLOOR, interval="none").diagnosis}

    assert "checkpoint-rows" not in codes(np.tile([1.0, 2, 3, 4, 6, 8], 4))
    assert "checkpoint-rows" in codes(np.tile([1.0, 1, 2, 2, 4, 4], 4))


def test_the_status_has_its_own_finding() -> None:
    """A status that is not "converged" comes with the finding that explains it."""
    expected = {"at-bound": Status.AT_BOUND, "degenerate": Status.DEGENERATE, "failed": Status.FAILED}
    for code, status in (expected | {"budget-exhausted": Status.BUDGET_EXHAUSTED}).items():
        found = _provoked(code)
        assert found.status is status and found.diagnosis[0].code == code
        assert isinstance(found.diagnosis[0], Finding)
        assert found.trusted == (status is Status.AT_BOUND)
        assert math.isnan(found.parameters[found.law.headline[0]].error) != found.trusted
