"""The depth law itself: its derivatives, its limits, and the local exponents of a table."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.laws import DepthLaw, LogSquares, fit, local_exponents
from sweeps.laws._problem import Problem, build
from sweeps.laws._table import read

DEPTH = np.array([1.0, 3, 4, 6, 8, 12, 16, 48])


def _problem() -> Problem:
    """The law on losses of 1, so that a residual is the logarithm of the prediction; order (c, L_0,
    alpha)."""
    law = DepthLaw()
    rows = read(law, {"depth": DEPTH, "loss": np.ones(DEPTH.size)})
    problem = build(law, law.parameters, rows, LogSquares(), ())
    assert problem.free == ("c", "L_0", "alpha")
    return problem


@given(
    log_c=st.floats(-5, 5),
    alpha=st.floats(-1, 4),
    floor=st.floats(0.01, 10),
    which=st.integers(0, 2),
)
def test_derivatives_are_exact(log_c: float, alpha: float, floor: float, which: int) -> None:
    """Each derivative of log L equals its central difference, to the error of that.

    It is h^2 |f3| / 6 + eps |f| / h, with third derivatives |f3| < (log 48)^3 = 58 in log c and alpha, and
    < 2 / L^3 in L_0. With h = 1e-5, or 1e-5 L_0, the first is below 1e-9 and below 4e-11 of the derivative,
    and the second, at |f| < 21, below 5e-15 / 1e-7 = 5e-8.
    """
    problem, h = _problem(), 1e-5 * (floor if which == 1 else 1)
    theta = np.array([log_c, floor, alpha])
    moved = theta + h * np.array([0, 1, -1])[:, None] * (np.arange(3) == which)
    point = problem.at(moved)
    rise = point.residual[1] - point.residual[2]
    np.testing.assert_allclose(point.jacobian[0, which], rise / (2 * h), rtol=1e-9, atol=5e-8)


def test_a_floor_of_zero_is_a_straight_line() -> None:
    """With L_0 = 0 exactly, log L is log c - alpha log l, and L_0 has a finite derivative."""
    point = _problem().at(np.array([[0.7, 0.0, 1.3]]))
    np.testing.assert_allclose(point.residual[0], 0.7 - 1.3 * np.log(DEPTH), rtol=0, atol=1e-15 * 5)
    np.testing.assert_allclose(point.jacobian[0, 0], 1, rtol=1e-14)
    np.testing.assert_allclose(point.jacobian[0, 1], DEPTH**1.3 / math.exp(0.7), rtol=1e-14)


def test_a_fit_says_what_is_fixed() -> None:
    """A fixed floor is in the fit's limits and its estimate is exactly the value, as is its interval."""
    table = {"depth": DEPTH, "loss": 2 / DEPTH + 0.25}
    found = fit(DepthLaw(), table, fix={"L_0": 0.25}, interval="none")
    assert found.law.equation == "loss = c * depth**-alpha + L_0"
    assert found.limits == {"L_0": (0.25, 0.25)} and found.free == ("c", "alpha")
    assert [found.parameters[name].fixed for name in ("c", "alpha", "L_0")] == [False, False, True]
    assert found.estimates["L_0"] == 0.25 and found.intervals["L_0"] == (0.25, 0.25)
    assert fit(DepthLaw(), table, interval="none").limits == {}


@pytest.mark.parametrize(
    ("floor", "message"),
    [
        (math.nan, r"L_0: the bounds nan to nan leave no value"),
        (math.inf, r"L_0: inf is not a finite number"),
    ],
)
def test_a_floor_is_a_finite_loss(floor: float, message: str) -> None:
    """An infinite or undefined floor is refused by name."""
    with pytest.raises(ValueError, match=message):
        fit(DepthLaw(), {"depth": DEPTH, "loss": 2 / DEPTH}, fix={"L_0": floor})


@given(alpha=st.floats(-2, 4), log_c=st.floats(-20, 20))
def test_local_exponents_of_a_power_law_are_constant(alpha: float, log_c: float) -> None:
    """Between any neighbouring depths a pure power law has its own exponent, at their geometric mean."""
    middle, exponent = local_exponents(DEPTH, np.exp(log_c) * DEPTH**-alpha)
    np.testing.assert_allclose(exponent, alpha, atol=1e-12)
    np.testing.assert_allclose(middle**2, DEPTH[:-1] * DEPTH[1:], rtol=1e-14)


def test_local_exponents_of_many_curves() -> None:
    """Leading axes of the loss are kept: each curve is treated for itself."""
    loss = np.stack([DEPTH**-1.0, DEPTH**-3.0])
    np.testing.assert_allclose(local_exponents(DEPTH, loss)[1], [[1] * 7, [3] * 7], rtol=1e-13)


@pytest.mark.parametrize(
    ("depth", "loss", "message"),
    [
        ([4, 4, 8], [1, 1, 1], r"depth: \[4.0, 4.0, 8.0\] are not two or more positive, strictly increasing"),
        ([0, 4, 8], [1, 1, 1], r"depth: .* strictly increasing"),
        ([4], [1], r"depth: .* two or more"),
        ([4, 8, 12], [1, 2], r"loss: shape \(2,\) does not end in the number of depths, 3"),
        ([4, 8, 12], [1, 0, 2], r"loss: 0.0 at index \(1,\) is not finite and > 0; leave that student out"),
        ([4, 8, 12], [[1, 2, 3], [1, 2, math.nan]], r"loss: nan at index \(1, 2\) is not finite"),
    ],
)
def test_local_exponents_refuse_what_has_no_logarithm(depth: list, loss: list, message: str) -> None:
    """Depths must increase and losses be positive; the message says where they are not."""
    with pytest.raises(ValueError, match=message):
        local_exponents(depth, loss)
