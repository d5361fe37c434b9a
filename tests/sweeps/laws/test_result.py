"""A fit as a value: JSON, predictions and their intervals, provenance."""

import json
import math
from typing import Any

import numpy as np
import pytest

from sweeps.laws import (
    ChinchillaLaw,
    DepthLaw,
    Fit,
    Huber,
    Law,
    LogSquares,
    LoopedLaw,
    Objective,
    OwnLaw,
    Squares,
    Status,
    fit,
)

from .looped_design import looped_table

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])
NO_FLOOR = {"L_0": 0.0}


def _table(groups: int = 1, noise: float = 0.03, floor: float = 0.05, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(groups), DEPTH.size)
    depth = np.tile(DEPTH, groups)
    loss = 2 * np.exp(rng.standard_normal(groups))[label] * depth**-1.3 + floor
    return {"depth": depth, "loss": loss * np.exp(noise * rng.standard_normal(label.size)), "seed": label}


@pytest.mark.parametrize("fix", [NO_FLOOR, {"L_0": 0.01}, {}])
@pytest.mark.parametrize("table", [_table(), _table(2), _table(1, floor=0.0)])
def test_json_loses_nothing(fix: dict, table: dict[str, np.ndarray]) -> None:
    """A fit read back from its JSON is equal in every field and predicts the same bits."""
    found = fit(DepthLaw(), table, fix=fix, resamples=50)
    again = Fit.from_json(found.to_json())
    assert again == found
    np.testing.assert_array_equal(again.predict(DEPTH), found.predict(DEPTH))


@pytest.mark.parametrize("objective", [LogSquares(), Squares(), Huber(), Huber(0.01, 10.0)])
@pytest.mark.parametrize("law", [DepthLaw(), OwnLaw("k * exp(-depth / s) + f", ("depth",))])
def test_json_of_any_law_and_objective(law: Law, objective: Objective) -> None:
    """The law, also one of one's own, and the objective with its numbers come back."""
    found = fit(law, _table(), objective=objective, interval="none", noise=0.03, weights=None, starts=16)
    again = Fit.from_json(found.to_json())
    assert (again.law, again.objective_kind) == (law, objective)
    assert again.to_json() == found.to_json()
    assert again.objective_of(_table()) == pytest.approx(found.objective, rel=1e-12)


def test_json_of_a_fit_without_intervals() -> None:
    """Infinite ends and what is not a number survive, as strings that every JSON parser accepts."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3), "seed": ["a"] * 6})
    assert json.loads(found.to_json())["parameters"]["alpha"]["interval"] == ["-inf", "inf"]
    assert Fit.from_json(found.to_json()).to_json() == found.to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "not a saved fit of format 2"),
        ({"law": {"name": "nonsense"}}, r"not a complete saved fit \('nonsense'\)"),
        ({"objective_kind": {"name": "nonsense"}}, "objective: 'nonsense' is unknown"),
        ({"parameters": None}, "not a complete saved fit"),
        ({"status": "splendid"}, "'splendid' is not a valid Status"),
        ({"surplus": 1}, "not a complete saved fit .*surplus"),
    ],
)
def test_json_of_something_else_is_refused(change: dict[str, object], message: str) -> None:
    """What `to_json` did not write is refused and not guessed at."""
    tree = json.loads(fit(DepthLaw(), _table(), fix=NO_FLOOR, interval="none").to_json()) | change
    with pytest.raises(ValueError, match=message):
        Fit.from_json(json.dumps(tree))


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", "null"])
def test_text_that_is_no_fit_is_refused(text: str) -> None:
    """So is JSON of another kind, and text that is none."""
    with pytest.raises(ValueError, match=r"write it with Fit\.to_json|not a saved fit but several"):
        Fit.from_json(text)


def test_every_field_of_the_json_is_needed() -> None:
    """A saved fit without one of its fields is refused, whichever it is."""
    tree = json.loads(fit(DepthLaw(), _table(), fix=NO_FLOOR, interval="none").to_json())
    for name in tree:
        less = {key: value for key, value in tree.items() if key != name}
        with pytest.raises(ValueError, match=r"write it with Fit\.to_json|not a saved fit but several"):
            Fit.from_json(json.dumps(less))


def test_provenance() -> None:
    """A fit says which law, how many rows and groups, of which column, it comes from."""
    found = fit(DepthLaw(), _table(3), fix=NO_FLOOR, source={"file": "a.csv"}, interval="none").provenance
    assert (found.law, found.rows, found.groups, found.group_columns) == (
        DepthLaw().equation, 18, 3, ("seed",),
    )  # fmt: skip
    assert len(found.data_sha256) == 64 and found.version and found.source == {"file": "a.csv"}


def test_predict_refuses_what_it_cannot_answer() -> None:
    """A missing column, a depth of 0 and an unknown group each have their message."""
    found = fit(DepthLaw(), _table(2), fix=NO_FLOOR, interval="none")
    with pytest.raises(ValueError, match=r"predict takes depth; 0 column\(s\) were given"):
        found.predict()
    with pytest.raises(ValueError, match="depth: every value must be finite and > 0"):
        found.predict([4, 0])
    with pytest.raises(ValueError, match=r"group 9 is not among the groups of this fit, \[0, 1\]"):
        found.predict(4, group=9)
    with pytest.raises(ValueError, match="predict takes depth; 2"):
        found.interval(4, 5)


def test_predict_is_the_law() -> None:
    """Predictions are the formula at the estimates, of any shape, and columns broadcast."""
    rng = np.random.default_rng(0)
    n, d = np.exp(rng.uniform(16, 20, 30)), np.exp(rng.uniform(20, 24, 30))
    loss = 1.7 + 400 * n**-0.34 + 410 * d**-0.28
    found = fit(ChinchillaLaw(), {"num_params": n, "num_tokens": d, "loss": loss}, interval="none")
    grid = found.predict(n[:4, None], d[None, :5])
    at = found.estimates
    expected = at["E"] + at["A"] * n[:4, None] ** -at["alpha"] + at["B"] * d[:5] ** -at["beta"]
    np.testing.assert_allclose(grid, expected, rtol=1e-12)
    assert found.predict(1e8, 1e10).shape == ()


def _covered(runs: int, **arguments: Any) -> tuple[float, float]:
    """Share of simulated tables whose interval of the law's value holds the truth, at a depth among those of
    the table and at one four times as deep."""
    inside = np.zeros(2)
    at = np.array([7.0, 64.0])
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        depth = np.tile(DEPTH, 3)
        loss = 2 * depth**-1.3 * np.exp(0.05 * rng.standard_normal(depth.size))
        found = fit(DepthLaw(), {"depth": depth, "loss": loss}, fix=NO_FLOOR, starts=2, **arguments)
        low, high = found.interval(at)
        assert (low < found.predict(at)).all() and (found.predict(at) < high).all()
        inside += (low <= 2 * at**-1.3) & (2 * at**-1.3 <= high)
    return tuple(inside / runs)


def test_intervals_of_predictions_by_curvature() -> None:
    """With a floor of 0 the law is a line and the interval of its value exact: it holds the truth in 95 % of
    80 tables, to four binomial errors, 4 sqrt(0.95 0.05 / 80) = 10 %."""
    for share in _covered(80, interval="wald"):
        assert share == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 80))


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["pairs", "residual"])
def test_intervals_of_predictions_by_refits(interval: str) -> None:
    """Percentiles over refits hold it in 95 %, less up to 3 % that percentiles of 18 rows are too narrow by,
    and less four binomial errors of 80 tables, 10 %."""
    for share in _covered(80, interval=interval, resamples=100, refit_starts=0):
        assert share >= 0.95 - 0.03 - 4 * math.sqrt(0.95 * 0.05 / 80)


def test_intervals_of_predictions_of_few_groups() -> None:
    """With few groups the interval of the law's value at the geometric mean level is a t interval like that
    of its parameters: it is at least as wide as the one that the level and the exponents of each group
    give."""
    table = _table(3, floor=0.0, seed=1)
    found = fit(DepthLaw(), table, fix=NO_FLOOR)
    x = np.log(DEPTH)
    logs = [np.polyval(np.polyfit(x, np.log(table["loss"][table["seed"] == g]), 1), 0.0) for g in range(3)]
    low, high = found.interval(1.0)
    half = 4.302652729911275 * np.std(logs, ddof=1) / math.sqrt(3)  # t of 2 degrees of freedom
    assert math.log(high / low) / 2 >= 0.9 * half


def test_an_interval_needs_a_covariance() -> None:
    """A fit without an optimum has no interval of predictions, and says what to do."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3)})
    assert found.status is Status.DEGENERATE
    with pytest.raises(ValueError, match=r"this fit \(degenerate\) has no covariance.*add rows or fix"):
        found.interval(4)


def test_higher_confidence_of_a_prediction_is_wider() -> None:
    """The 99 % interval contains the 95 % one, by curvature and by refits."""
    for interval in ("wald", "pairs"):
        found = fit(DepthLaw(), _table(3), group=None, fix=NO_FLOOR, interval=interval)
        narrow, wide = found.interval(DEPTH), found.interval(DEPTH, confidence=0.99)
        assert (wide[0] < narrow[0]).all() and (narrow[1] < wide[1]).all()


def test_headline_decides_what_is_identified() -> None:
    """Where the one parameter that a law is fitted for is not bounded by the rows, the fit is not identified,
    though it is an optimum: phi with every r equal to 1 has no influence."""
    rng = np.random.default_rng(0)
    once, rec, tokens = (np.exp(rng.uniform(15, 19, 40)) for _ in range(3))
    table = {"num_once": once, "num_recurrent": rec, "num_recur": np.ones(40), "num_tokens": 20 * tokens}
    table["loss"] = 1.6 + 40 * (once + rec) ** -0.2 + 800 * (20 * tokens) ** -0.37
    found = fit(LoopedLaw(), table, interval="none")
    assert not found.identified
    assert found.status is Status.DEGENERATE
    assert any(f.code == "degenerate" and f.about == ("phi",) for f in found.diagnosis)
    fixed = fit(LoopedLaw(), table, interval="none", fix={"phi": 0.5})
    assert fixed.identified and fixed.estimates["alpha"] == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_predictions_of_few_groups_lie_within_their_intervals(seed: int) -> None:
    """Intervals of predictions from 24 groups are centred on the prediction, and as wide as curvature has
    them to within a half: refits of a curved valley are not to be moved along a straight line."""
    table = looped_table(0.01, seed)
    law, at = LoopedLaw(), (3e8, 3e8, 4.0, 3e10)
    few = fit(law, table, group=("flops", "num_recur"), resamples=200, starts=8)
    plain = fit(law, table, group=None, interval="wald", starts=8)
    value, (low, high) = float(few.predict(*at)), map(float, few.interval(*at))
    assert math.log(high / value) == pytest.approx(math.log(value / low))
    bottom, top = map(float, plain.interval(*at))
    assert 0.5 < math.log(high / low) / math.log(top / bottom) < 2


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda tree: tree["parameters"].pop("alpha"), "parameters does not fit its law"),
        (lambda tree: tree["free"].append("zz"), "free does not fit its law"),
        (lambda tree: tree.update(replicates=[[1.0, 2.0, 3.0]]), "replicates does not fit its law"),
        (lambda tree: tree.update(covariance=[[1.0]]), "covariance does not fit its law"),
        (lambda tree: tree.update(confidence=7), "confidence does not fit its law"),
        (lambda tree: tree.update(degrees_of_freedom="x"), "degrees_of_freedom does not fit its law"),
        (lambda tree: tree["parameters"]["c"].update(estimate=-5.0), "c is -5.0"),
        (lambda tree: tree["parameters"]["c"].update(estimate="nan"), "c is nan"),
    ],
)
def test_an_edited_fit_is_refused(edit, what) -> None:
    """A file whose parts no longer belong together is refused when it is read, not when it predicts."""
    depth = np.array([2.0, 3, 4, 6, 8, 12])
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(6))
    tree = json.loads(fit(DepthLaw(), {"depth": depth, "loss": noise / depth}, fix={"L_0": 0.0}).to_json())
    edit(tree)
    with pytest.raises(ValueError, match=what):
        Fit.from_json(json.dumps(tree))
