"""Intervals equal the textbook ones where there is a textbook, and say when they cannot be had."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from sweeps.laws import DepthLaw, Status, fit

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])


def _table(exponents: list[float], noise: float = 0.03, seed: int = 0, floor: float = 0.0) -> dict:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(exponents)), DEPTH.size)
    depth = np.tile(DEPTH, len(exponents))
    loss = np.exp(rng.standard_normal(len(exponents)))[label] * depth ** -np.array(exponents)[label] + floor
    return {"depth": depth, "loss": loss * np.exp(noise * rng.standard_normal(label.size)), "seed": label}


def test_one_group_is_linear_regression() -> None:
    """With a floor of 0 the interval is that of the slope of log L on log l, and that of the intercept."""
    table = _table([1.2])
    line = stats.linregress(np.log(DEPTH), np.log(table["loss"]))
    t = stats.t.ppf(0.95, 4)
    found = fit(DepthLaw(0.0), table, confidence=0.9)
    expected = (-line.slope - t * line.stderr, -line.slope + t * line.stderr)
    assert found.intervals["alpha"] == pytest.approx(expected, rel=1e-9)
    ends = np.exp(line.intercept + t * line.intercept_stderr * np.array([-1, 1]))
    assert found.intervals["c"] == pytest.approx(tuple(ends), rel=1e-9)
    assert found.interval_method == "from the residuals (delta method, Student t with 4 degrees of freedom)"
    assert found.notes == ("Column 'seed' has one group: intervals leave out the variation between groups.",)


@pytest.mark.parametrize("groups", [2, 3, 4, 7])
def test_balanced_groups_give_the_t_interval_of_their_exponents(groups: int) -> None:
    """With all resamples solved, balanced rows and a floor of 0, the bootstrap with its correction is the t
    interval over the exponents that the groups have each for themselves."""
    exponents = np.random.default_rng(1).normal(1.5, 0.3, groups)
    table = _table(exponents.tolist())
    own = [
        -stats.linregress(np.log(DEPTH), np.log(table["loss"][table["seed"] == g])).slope
        for g in range(groups)
    ]
    half = stats.t.ppf(0.975, groups - 1) * np.std(own, ddof=1) / math.sqrt(groups)
    found = fit(DepthLaw(0.0), table)
    assert found.intervals["alpha"] == pytest.approx((np.mean(own) - half, np.mean(own) + half), rel=1e-7)
    assert f"all {math.comb(2 * groups - 1, groups)} distinct resamples" in found.interval_method


def test_groups_that_differ_are_named_one_time_in_a_hundred_by_chance() -> None:
    """Equal exponents are said to differ in 1 % of tables: of 400, at most 4 + 4 * 2 (four binomial errors);
    exponents 0.3 apart with an error of 0.02 each always are."""
    said = "The groups differ in alpha beyond the scatter of rows (F test, 1 %)."
    equal = sum(said in fit(DepthLaw(0.0), _table([1.2] * 3, seed=s), starts=1).notes for s in range(400))
    assert 0 < equal <= 12
    assert said in fit(DepthLaw(0.0), _table([1.2, 1.5, 1.8])).notes


def test_a_shared_floor_and_exponents_that_differ() -> None:
    """With L_0 free as well, the note warns that the shared exponent need not be the mean."""
    notes = fit(DepthLaw(), _table([1.0, 1.4, 1.8, 2.2], floor=0.02)).notes
    assert any(note.startswith("Shared values of alpha and L_0 need then not be means") for note in notes)


def test_drawn_resamples_agree_with_all_of_them() -> None:
    """1500 drawn resamples give the width of all 1716, to four errors of a deviation, 1 / sqrt(3000)."""
    table = _table(np.random.default_rng(1).normal(1.5, 0.3, 7).tolist())
    drawn, every = (fit(DepthLaw(0.0), table, resamples=r) for r in (1500, 1716))
    assert "1500 resamples" in drawn.interval_method
    widths = [float(np.diff(f.intervals["alpha"])[0]) for f in (drawn, every)]
    assert widths[0] == pytest.approx(widths[1], rel=4 / math.sqrt(3000))


def test_groups_that_agree_by_luck_do_not_narrow_the_interval() -> None:
    """Two seeds with the same rows but for the level agree exactly; the interval is then the one from the
    residuals with a level for each seed, and the note says so."""
    one = _table([1.2])
    table = {
        "depth": np.tile(DEPTH, 2),
        "loss": np.concatenate([one["loss"], 3 * one["loss"]]),
        "seed": np.repeat([0, 1], 6),
    }
    x = np.log(DEPTH) - np.log(DEPTH).mean()
    found = fit(DepthLaw(0.0), table)
    error = math.sqrt(found.objective / 9 / (2 * (x**2).sum()))
    low, high = found.intervals["alpha"]
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 9) * error, rel=1e-9)
    assert any(note.startswith("The groups agree better on alpha than the scatter") for note in found.notes)


def test_failed_refits_are_counted() -> None:
    """A flat group drawn four times out of four determines no floor: one resample of 35, 0.4 % by
    probability, is left out, and the note says so."""
    table = _table([1.2, 1.2, 1.2, 1.2], floor=0.02)
    table["loss"][table["seed"] == 2] = 0.3
    found = fit(DepthLaw(), table)
    assert any(
        note.startswith("1 of 35 bootstrap refits (0.4 % by probability) did not") for note in found.notes
    )
    assert all(map(math.isfinite, found.intervals["alpha"]))


def test_too_many_failed_refits_leave_no_interval() -> None:
    """With two groups the flat one alone is a quarter of the bootstrap: no interval is given."""
    table = _table([1.2, 1.2], floor=0.02)
    table["loss"][table["seed"] == 1] = 0.3
    found = fit(DepthLaw(), table)
    assert found.status in (Status.CONVERGED, Status.AT_BOUND)
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert found.interval_method == "none: too many bootstrap refits failed"
    assert any("25.0 % by probability" in note and "no interval is given" in note for note in found.notes)


def test_intervals_stay_within_what_a_parameter_can_be() -> None:
    """c is positive and L_0 not negative at both ends, however wide the interval."""
    found = fit(DepthLaw(), _table([1.2, 1.5], noise=0.2, floor=0.01))
    assert found.intervals["c"][0] > 0
    assert found.intervals["L_0"][0] >= 0
    for name, (low, high) in found.intervals.items():
        assert low <= found.estimates[name] <= high


def test_higher_confidence_is_wider() -> None:
    """The 99 % interval contains the 95 % one."""
    narrow, wide = (fit(DepthLaw(0.0), _table([1.2, 1.3, 1.25]), confidence=c) for c in (0.95, 0.99))
    assert wide.intervals["alpha"][0] < narrow.intervals["alpha"][0]
    assert wide.intervals["alpha"][1] > narrow.intervals["alpha"][1]


@pytest.mark.parametrize("floor", [0.0, None])
def test_two_thousand_resamples_take_seconds(floor: float | None) -> None:
    """48 rows of 8 seeds, 2000 refits: 0.5 s of processor time measured; 5 s allows for a slow machine."""
    table = _table([1.2] * 8, floor=0.02)
    begin = time.process_time()
    assert "2000 resamples" in fit(DepthLaw(floor), table).interval_method
    assert time.process_time() - begin < 5
