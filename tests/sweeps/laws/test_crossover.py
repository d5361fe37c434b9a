"""The law that bends once, and local exponents with their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweeps.laws import CrossoverLaw, LogSquares, evaluate, fit, local_exponents, local_exponents_of
from sweeps.laws._problem import build
from sweeps.laws._table import read

DEPTH = np.geomspace(1, 256, 17)


def loss(depth, c=1.0, alpha=1.0, beta=3.0, bend=10.0):
    """The law, written out."""
    return c * depth**-alpha * (1 + (depth / bend) ** 2) ** (-(beta - alpha) / 2)


@given(
    alpha=st.floats(0.2, 2),
    rise=st.floats(0.2, 3),
    log_bend=st.floats(math.log(0.1), math.log(1000)),
)
def test_the_local_exponent_goes_from_one_to_the_other(alpha, rise, log_bend):
    """Between depths ever nearer to one another the law's slope is alpha + (beta − alpha)x²/(1 + x²) at x =
    l/l_x: as `loss` above, which the law is to the last digits."""
    bend, beta = math.exp(log_bend), alpha + rise
    near = DEPTH[:, None] * np.array([1 - 1e-4, 1 + 1e-4])
    values = {"c": 2.0, "alpha": alpha, "beta": beta, "l_x": bend, "L_0": 0.0}
    of_law = evaluate(CrossoverLaw().formula, {"depth": near.ravel()} | values).reshape(near.shape)
    np.testing.assert_allclose(of_law, loss(near, 2.0, alpha, beta, bend), rtol=1e-12)
    slopes = [local_exponents(depths, losses)[1][0] for depths, losses in zip(near, of_law, strict=True)]
    x = (DEPTH / bend) ** 2
    np.testing.assert_allclose(slopes, alpha + rise * x / (1 + x), atol=1e-6)


@given(alpha=st.floats(0.2, 2), rise=st.floats(0.2, 3), log_bend=st.floats(0, 5), floor=st.floats(0, 1))
def test_derivatives_are_exact(alpha, rise, log_bend, floor):
    """The derivative of each log L by each coordinate is the central difference over 1e-5, to its error."""
    law = CrossoverLaw()
    problem = build(law, law.parameters, read(law, {"depth": DEPTH, "loss": loss(DEPTH)}), LogSquares(), ())
    values = {"c": 2.0, "alpha": alpha, "beta": alpha + rise, "l_x": math.exp(log_bend), "L_0": floor}
    theta = np.array([problem.parameter(name).coordinate(values[name]) for name in problem.free])
    point = problem.at(theta[None])
    for k, name in enumerate(problem.free):
        h = 1e-5 * (floor + 1e-6 if name == "L_0" else 1.0)
        moved = problem.at(theta + h * np.array([[1.0], [-1.0]]) * (np.arange(theta.size) == k))
        if floor < h:
            continue
        expected = (moved.residual[0] - moved.residual[1]) / (2 * h)
        size = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(point.jacobian[0, k], expected, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("factor", [0.01, 7.0])
def test_the_bend_has_the_unit_of_depth(factor):
    """Depth in another unit moves l_x by the factor, c by its power, and nothing else."""
    noisy = loss(DEPTH, 0.3, 0.8, 2.9, 12.0) * np.exp(0.01 * np.sin(7 * np.arange(DEPTH.size)))
    one, other = (
        fit(CrossoverLaw(), {"depth": DEPTH * k, "loss": noisy}, fix={"L_0": 0.0}, interval="none").estimates
        for k in (1.0, factor)
    )
    assert other["l_x"] == pytest.approx(factor * one["l_x"], rel=1e-5)
    assert (other["alpha"], other["beta"]) == pytest.approx((one["alpha"], one["beta"]), rel=1e-5)
    assert other["c"] == pytest.approx(one["c"] * factor ** one["alpha"], rel=1e-4)


def test_a_planted_bend_is_found():
    """Every parameter comes back from exact losses at depths on both sides of the bend, to 1e-5."""
    found = fit(CrossoverLaw(), {"depth": DEPTH, "loss": loss(DEPTH, 0.3, 0.8, 2.9, 12.0)}, fix={"L_0": 0.0})
    assert found.estimates == pytest.approx(
        {"c": 0.3, "alpha": 0.8, "beta": 2.9, "l_x": 12.0, "L_0": 0.0}, rel=1e-5
    )


def test_one_bend_for_all_correlation_lengths():
    """Losses that depend on ℓλ alone, but for a level of each λ and seed, give the bend in layers a length.

    Five lengths × three seeds × six depths with 3 % of noise: within the interval of 99.9 %, which is
    narrower than a factor of 1.3 to each side. With the exponents of theory given.
    """
    rng = np.random.default_rng(3)
    rows = [
        (length, seed, depth * length, level * loss(depth * length, bend=1.7) * np.exp(0.03 * rng.normal()))
        for length in (0.05, 0.2, 0.5, 1.0, 3.0)
        for seed in range(3)
        for level in [np.exp(rng.normal())]
        for depth in (2, 3, 4, 5, 6, 8)
    ]
    names = ("correlation_length", "seed", "depth", "loss")
    table = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    fixed = {"alpha": 1.0, "beta": 3.0, "L_0": 0.0}
    found = fit(CrossoverLaw(), table, fix=fixed, group=("correlation_length", "seed"), confidence=0.999)
    low, high = found.intervals["l_x"]
    assert low < 1.7 < high and high / low < 1.3**2


def test_a_table_on_one_side_does_not_know_the_bend():
    """Depths all far below the bend say nothing of beta and l_x, and the fit says so."""
    rng = np.random.default_rng(0)
    table = {"depth": DEPTH, "loss": DEPTH**-1.0 * np.exp(0.02 * rng.normal(size=DEPTH.size))}
    found = fit(CrossoverLaw(), table, fix={"L_0": 0.0})
    assert not found.identified


@given(st.floats(-1, 4), st.lists(st.floats(-3, 3), min_size=2, max_size=5))
def test_replicates_of_one_power_law_have_one_exponent(alpha, levels):
    """Whatever their levels, every slope is alpha, with an interval of no width."""
    rows = [
        (depth, math.exp(level) * depth**-alpha, seed)
        for seed, level in enumerate(levels)
        for depth in (2, 3, 5, 8)
    ]
    depth, losses, seed = zip(*rows, strict=True)
    found = local_exponents_of(depth, losses, seed)
    assert [(one.shallow, one.deep, one.replicates) for one in found] == [
        (2, 3, len(levels)),
        (3, 5, len(levels)),
        (5, 8, len(levels)),
    ]
    for one in found:
        np.testing.assert_allclose([one.lower, one.exponent, one.upper], alpha, atol=1e-9)
        assert one.depth == pytest.approx((one.shallow * one.deep) ** 0.5)


def test_the_interval_is_students():
    """Mean ± t(0.95, n − 1) · s/√n of the replicates' slopes; of one replicate, without ends."""
    slopes = np.array([0.9, 1.4, 1.0])
    losses = np.stack([np.ones(3), 2.0**-slopes], axis=1).ravel()
    (found,) = local_exponents_of([1, 2] * 3, losses, np.repeat(range(3), 2).tolist())
    reach = stats.t.ppf(0.975, 2) * slopes.std(ddof=1) / 3**0.5
    assert (found.lower, found.exponent, found.upper) == pytest.approx(
        (slopes.mean() - reach, slopes.mean(), slopes.mean() + reach)
    )
    (alone,) = local_exponents_of([1, 2], [1, 0.5], ["a", "a"])
    assert (alone.lower, alone.exponent, alone.upper) == (-math.inf, 1, math.inf)


def test_only_replicates_that_have_both_depths_count():
    """A replicate that lacks a depth has no slope to it, nor one across the gap."""
    found = local_exponents_of([1, 2, 4, 1, 4], [1, 0.5, 0.25, 1, 0.9], [0, 0, 0, 1, 1])
    assert [(one.shallow, one.deep, one.exponent, one.replicates) for one in found] == [
        (1, 2, 1, 1),
        (2, 4, 1, 1),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1.0], [0, 0]), r"depth, loss and group have \(2,\), \(1,\) and 2 rows; not one each"),
        (([1, 2], [1, -1], [0, 0]), r"loss: -1.0 in row 1 is not finite and > 0; leave it out"),
        (([0, 2], [1, 1], [0, 0]), r"depth: 0.0 in row 0 is not finite and > 0"),
        (([1, 1], [1, 2], ["a", "a"]), r"row 1: replicate a has two losses at depth 1"),
        (([1, 2], [1, 2], [0, 0], 1.0), r"confidence is 1.0: it must lie between 0 and 1"),
    ],
)
def test_what_has_no_slope_is_refused(arguments, message):
    """By column, row and value."""
    with pytest.raises(ValueError, match=message):
        local_exponents_of(*arguments)
