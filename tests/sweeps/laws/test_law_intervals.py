"""Intervals equal the textbook ones where there is a textbook, and say when they cannot be had."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from sweeps.laws import ChinchillaLaw, DepthLaw, Squares, Status, fit
from sweeps.laws._bootstrap import Refits, _step_within, standard_error

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])
NO_FLOOR = {"L_0": 0.0}


def _table(exponents: list[float], noise: float = 0.03, seed: int = 0, floor: float = 0.0) -> dict:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(exponents)), DEPTH.size)
    depth = np.tile(DEPTH, len(exponents))
    loss = np.exp(rng.standard_normal(len(exponents)))[label] * depth ** -np.array(exponents)[label] + floor
    return {"depth": depth, "loss": loss * np.exp(noise * rng.standard_normal(label.size)), "seed": label}


@pytest.mark.parametrize("interval", ["wald", "profile"])
def test_one_group_is_linear_regression(interval: str) -> None:
    """With a floor of 0 the interval is that of the slope of log L on log l, and that of the intercept; by
    profile too, to the 1e-3 of the height at which it stops looking."""
    table = _table([1.2])
    line = stats.linregress(np.log(DEPTH), np.log(table["loss"]))
    t = stats.t.ppf(0.95, 4)
    found = fit(DepthLaw(), table, fix=NO_FLOOR, confidence=0.9, interval=interval)
    expected = (-line.slope - t * line.stderr, -line.slope + t * line.stderr)
    width = expected[1] - expected[0]
    close = width * (1e-9 if interval == "wald" else 1e-3)
    assert found.intervals["alpha"] == pytest.approx(expected, abs=close)
    ends = line.intercept + t * line.intercept_stderr * np.array([-1, 1])
    assert np.log(found.intervals["c"]) == pytest.approx(ends, abs=10 * close)
    assert found.parameters["alpha"].error == pytest.approx(line.stderr, rel=1e-9)
    said = {"wald": "curvature", "profile": "profile"}[interval]
    assert found.interval_method.startswith(said) and "Student t with 4 degree" in found.interval_method
    assert [f.code for f in found.diagnosis if f.code == "one-group"] == ["one-group"]


@pytest.mark.parametrize("known", [False, True])
def test_curvature_is_that_of_weighted_least_squares(known: bool) -> None:
    """Standard errors of a fit of the loss itself with a noise for each row equal those of SciPy's curve_fit,
    with the noise known or known up to a factor."""
    rng = np.random.default_rng(3)
    depth = np.tile(DEPTH, 4)
    sigma = 0.02 * rng.uniform(0.5, 2, depth.size)
    loss = 2 * depth**-1.3 + 0.5 + sigma * rng.standard_normal(depth.size)
    table = {"depth": depth, "loss": loss, "sigma": sigma, "w": sigma**-2}
    how = {"noise": "sigma"} if known else {"weights": "w"}
    found = fit(DepthLaw(), table, objective=Squares(), interval="wald", **how)

    def law(x: np.ndarray, log_c: float, alpha: float, floor: float) -> np.ndarray:
        return np.exp(log_c) * x**-alpha + floor

    best, matrix = optimize.curve_fit(
        law, depth, loss, (0.7, 1.3, 0.5), sigma, absolute_sigma=known, xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    assert found.estimates["alpha"] == pytest.approx(best[1], rel=1e-5)
    errors = [found.parameters[name].error for name in ("c", "alpha", "L_0")]
    assert errors == pytest.approx(np.sqrt(np.diag(matrix)), rel=1e-4)
    t = stats.norm.ppf(0.975) if known else stats.t.ppf(0.975, 21)
    low, high = found.intervals["alpha"]
    assert (high - low) / 2 == pytest.approx(t * errors[1], rel=1e-9)


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
    found = fit(DepthLaw(), table, fix=NO_FLOOR, resamples=2000)
    assert found.intervals["alpha"] == pytest.approx((np.mean(own) - half, np.mean(own) + half), rel=1e-7)
    assert f"all {math.comb(2 * groups - 1, groups)} distinct resamples" in found.interval_method


def test_drawn_resamples_agree_with_all_of_them() -> None:
    """1500 drawn resamples give the width of all 1716, to four errors of a deviation, 1 / sqrt(3000)."""
    table = _table(np.random.default_rng(1).normal(1.5, 0.3, 7).tolist())
    drawn, every = (fit(DepthLaw(), table, fix=NO_FLOOR, resamples=r) for r in (1500, 1716))
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
    found = fit(DepthLaw(), table, fix=NO_FLOOR)
    error = math.sqrt(12 * found.objective / 9 / (2 * (x**2).sum()))
    low, high = found.intervals["alpha"]
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 9) * error, rel=1e-9)
    assert any(note.startswith("The groups agree better on alpha than the scatter") for note in found.notes)


def test_failed_refits_are_counted() -> None:
    """A flat group drawn four times out of four determines no floor: one resample of 35, 0.4 % by
    probability, fails, and the finding says so; the interval still has both ends."""
    table = _table([1.2, 1.2, 1.2, 1.2], floor=0.02)
    table["loss"][table["seed"] == 2] = 0.3
    found = fit(DepthLaw(), table)
    said = [f.sentence for f in found.diagnosis if f.code == "failed-refits"]
    assert len(said) == 1 and said[0].startswith("1 of 35 bootstrap refits (0.4 % by probability) did not")
    assert all(map(math.isfinite, found.intervals["alpha"]))


def test_too_many_failed_refits_leave_no_interval() -> None:
    """With two groups the flat one alone is a quarter of the bootstrap: the interval has no end."""
    table = _table([1.2, 1.2], floor=0.02)
    table["loss"][table["seed"] == 1] = 0.3
    found = fit(DepthLaw(), table)
    assert found.status in (Status.CONVERGED, Status.AT_BOUND)
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert any("25.0 % by probability" in note for note in found.notes)


def _refits(values: list[float], good: list[bool]) -> Refits:
    count = len(values)
    theta = np.array(values)[:, None]
    return Refits(theta, np.full(count, 1 / count), np.array(good), count, "by hand")


@given(st.lists(st.floats(-1e3, 1e3), min_size=20, max_size=200))
def test_percentiles_leave_the_tails_outside(values: list[float]) -> None:
    """Without failures the ends leave 5 % of the refits on each side, to one refit."""
    low, high = _refits(values, [True] * len(values)).percentiles(0.9)
    below, above = np.sum(values < low), np.sum(values > high)
    assert below <= 0.05 * len(values) + 1 and above <= 0.05 * len(values) + 1
    assert np.sum(values <= low) >= 0.05 * len(values) - 1
    assert np.sum(values >= high) >= 0.05 * len(values) - 1


@given(st.integers(0, 9))
def test_failed_refits_lie_beyond_both_ends(failed: int) -> None:
    """Of 100 refits, each failed one moves each end of a 90 % interval out by one refit; with 5 or more, as
    many as the interval leaves out, there is no end at all. Never is it as if they had not been tried."""
    values = list(np.arange(100.0))
    good = [i % 10 != 5 or i // 10 >= failed for i in range(100)]
    refits = _refits(values, good)
    assert refits.failed == failed and refits.lost == pytest.approx(failed / 100)
    low, high = refits.percentiles(0.9)
    if failed >= 5:
        assert (low[0], high[0]) == (-math.inf, math.inf)
    else:
        kept = np.array(values)[good]
        assert np.sum(kept < low[0]) == pytest.approx(5 - failed, abs=1)
        assert np.sum(kept > high[0]) == pytest.approx(5 - failed, abs=1)


def test_failed_refits_never_narrow_an_interval_of_few_clusters() -> None:
    """Where the interval is Student's, refits that failed may not make it as if they had not been tried: with
    the widest two of 60 failed it is no narrower than percentiles, for which they lie beyond both ends."""
    values = list(np.linspace(-1, 1, 60))
    good = [0 < i < 59 for i in range(60)]
    refits = _refits(values, good)
    low, high = refits.student(np.zeros(1), 0.9)
    least, most = refits.percentiles(0.9)
    whole = _refits(values, [True] * 60).student(np.zeros(1), 0.9)
    assert (low <= least).all() and (most <= high).all()
    assert (low <= whole[0]).all() and (whole[1] <= high).all()


@given(st.integers(0, 99), st.floats(-1e3, 1e3), st.integers(0, 999), st.integers(2, 30))
def test_one_refit_that_ended_elsewhere_is_not_the_standard_error(
    seed: int, wild: float, place: int, clusters: int
) -> None:
    """Of 1000 normal refits the standard error is the usual one, exactly; one of them moved anywhere changes
    it by 3 % at most (the square of six standard deviations is 36 of 1000, and more by the reach's error)."""
    values = np.random.default_rng(seed).standard_normal((1000, 2))
    error = standard_error(values, clusters)
    usual = values.std(axis=0) * math.sqrt(clusters / (clusters - 1))
    np.testing.assert_allclose(error, usual, rtol=1e-12)
    values[place, 0] = wild
    moved = standard_error(values, clusters)
    assert moved[0] == pytest.approx(error[0], rel=0.03) and moved[1] == error[1]


def test_refits_that_are_nearly_all_equal_keep_their_scatter() -> None:
    """Where 96 % of the refits end on a bound, those that do not are not taken away."""
    values = np.repeat([0.0, 1.0], [980, 20])[:, None]
    assert standard_error(values, 5) == pytest.approx([math.sqrt(0.02 * 0.98 * 5 / 4)])


def test_the_standard_error_of_listed_refits_is_weighted() -> None:
    """Two groups at -1 and 1: resamples -1, 0, 1 of chance 1/4, 1/2, 1/4, of which nothing is moved; so that
    of all four, written out."""
    chance = np.array([0.25, 0.5, 0.25])
    found = standard_error(np.array([[-1.0], [0.0], [1.0]]), 2, chance)
    assert found == pytest.approx([math.sqrt(0.5 * 2)])
    assert standard_error(np.array([[-1.0], [0.0], [0.0], [1.0]]), 2) == pytest.approx(found)


def test_intervals_stay_within_what_a_parameter_can_be() -> None:
    """c is positive and L_0 not negative at both ends, however wide the interval, by every method."""
    table = _table([1.2, 1.5], noise=0.2, floor=0.01)
    for interval in ("auto", "wald", "profile", "pairs", "residual"):
        found = fit(DepthLaw(), table, interval=interval, resamples=100)
        assert found.intervals["c"][0] >= 0
        assert found.intervals["L_0"][0] >= 0
        if interval in ("wald", "profile"):
            for name, (low, high) in found.intervals.items():
                assert low <= found.estimates[name] <= high


def test_higher_confidence_is_wider() -> None:
    """The 99 % interval contains the 95 % one, by every method."""
    for interval in ("auto", "wald", "profile", "pairs", "residual"):
        narrow, wide = (
            fit(DepthLaw(), _table([1.2, 1.3, 1.25]), fix=NO_FLOOR, confidence=c, interval=interval)
            for c in (0.95, 0.99)
        )
        assert wide.intervals["alpha"][0] < narrow.intervals["alpha"][0]
        assert wide.intervals["alpha"][1] > narrow.intervals["alpha"][1]


def test_none_asked_for_none_given() -> None:
    """Without intervals the ends are infinite but for bounds and fixed values; estimates are the same."""
    table = _table([1.2, 1.3, 1.25], floor=0.1)
    a, b = (fit(DepthLaw(), table, interval=interval) for interval in ("none", "auto"))
    assert a.estimates == b.estimates
    assert a.intervals == {"c": (0.0, math.inf), "alpha": (-math.inf, math.inf), "L_0": (0.0, math.inf)}


def test_resampled_rows_follow_the_seed() -> None:
    """The same seed gives the same interval to the last bit; another gives another."""
    table = _table([1.2, 1.3])
    a, b, c = (
        fit(DepthLaw(), table, group=None, interval="pairs", resamples=50, seed=s, fix=NO_FLOOR)
        for s in (1, 1, 2)
    )
    assert a == b and a.intervals["alpha"] != c.intervals["alpha"]


def test_clusters_are_drawn_whole() -> None:
    """Where every row stands in its cluster three times over, clusters give the interval of the rows apart,
    and pairs one that is too narrow by sqrt(3), to the 10 % that 400 resamples leave in both."""
    rng = np.random.default_rng(0)
    size = np.exp(rng.uniform(16, 21, 60))
    tokens = np.exp(rng.uniform(21, 26, 60))
    loss = (1.7 + 400 * size**-0.34 + 410 * tokens**-0.28) * np.exp(0.005 * rng.standard_normal(60))
    once = {"num_params": size, "num_tokens": tokens, "loss": loss, "run": np.arange(60)}
    thrice = {name: np.repeat(column, 3) for name, column in once.items()}
    arguments = {"resamples": 400, "group": "run"}
    widths = [
        float(np.diff(fit(ChinchillaLaw(), table, interval=how, **arguments).intervals["alpha"])[0])
        for table, how in ((once, "pairs"), (thrice, "cluster"), (thrice, "pairs"))
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)
    assert widths[2] == pytest.approx(widths[0] / math.sqrt(3), rel=0.2)


def test_many_groups() -> None:
    """Of 400 groups with levels of their own, shared parameters and levels are those of the law."""
    rng = np.random.default_rng(0)
    levels = np.exp(rng.standard_normal(400))
    depth = np.tile(DEPTH, 400)
    loss = np.repeat(levels, DEPTH.size) * depth**-1.3 * np.exp(0.05 * rng.standard_normal(depth.size))
    table = {"depth": depth, "loss": loss, "seed": np.repeat(np.arange(400), DEPTH.size)}
    found = fit(DepthLaw(), table, fix=NO_FLOOR, interval="wald")
    # Slopes within groups, all of the same depths: their mean, and its own standard error.
    slopes = -np.polyfit(np.log(DEPTH), np.log(loss.reshape(400, -1)).T, 1)[0]
    assert found.estimates["alpha"] == pytest.approx(slopes.mean(), abs=1e-9)
    assert found.parameters["alpha"].error == pytest.approx(slopes.std(ddof=1) / 20, rel=0.15)
    assert np.allclose(np.log(list(found.levels["c"].values())), np.log(levels), atol=0.3)


def test_an_infinite_interval_is_not_identified() -> None:
    """Tokens that are 20 times the parameters leave both exponents open: whatever a profile says, a
    parameter without an end is not known."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        n = np.exp(rng.uniform(16, 21, 40))
        d = 20 * n * np.exp(0.02 * rng.standard_normal(40))
        loss = (1.7 + 400 * n**-0.34 + 400 * d**-0.28) * np.exp(0.005 * rng.standard_normal(40))
        found = fit(ChinchillaLaw(), {"num_params": n, "num_tokens": d, "loss": loss}, resamples=40, starts=8)
        for estimate in found.parameters.values():
            assert np.isfinite(estimate.interval).all() or not estimate.identified


def test_too_few_resamples_are_refused() -> None:
    """Percentiles need at least one refit beyond each end."""
    table = {"depth": np.tile(DEPTH, 5), "loss": np.linspace(1, 2, 30)}
    with pytest.raises(ValueError, match="resamples: 39 are too few for intervals at 0.95; give 40 or more"):
        fit(DepthLaw(), table, fix=NO_FLOOR, resamples=39)


@given(st.integers(0, 10_000))
def test_a_step_within_bounds_is_the_best_one(seed: int) -> None:
    """The Newton step stays within the bounds; off those that it ends on, nothing is left to gain."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((3, 5))
    matrix, gradient = root @ root.T + 1e-3 * np.eye(3), rng.standard_normal(3)
    lower, upper = np.array([-0.1, -np.inf, -0.2]), np.array([np.inf, np.inf, 0.2])
    step = _step_within(matrix, gradient, np.zeros(3), lower, upper)
    assert (step >= lower).all() and (step <= upper).all()
    inside = (step > lower) & (step < upper)
    assert np.abs((matrix @ step + gradient)[inside]).max(initial=0) < 1e-8
