"""Objectives: slopes are derivatives, the quadratic that touches lies above, and options are checked."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeps.laws import OBJECTIVES, DepthLaw, Huber, LogSquares, Objective, Squares, fit, objective

ALL = [LogSquares(), Squares(), Huber(1e-3), Huber(0.1), Huber(1e-3, 10.0), Huber(0.1, 0.25)]
RESIDUALS = st.floats(-2, 2)
every = pytest.mark.parametrize("penal", ALL, ids=repr)


def _delta(penal: Objective) -> float:
    return penal.delta if isinstance(penal, Huber) else math.inf


def _at(function, residual: float) -> float:  # type: ignore[no-untyped-def]
    return float(function(np.array([residual]))[0])


@every
@given(r=RESIDUALS)
def test_the_slope_is_the_derivative_of_the_penalty(penal: Objective, r: float) -> None:
    """By central difference: exact for a quadratic and a line but for rounding, eps rho / h, as long as
    neither a kink of the second derivative nor 0 lies within h."""
    h = 1e-3 * min(_delta(penal), 1.0)
    assume(abs(abs(r) - _delta(penal)) > 2 * h and abs(r) > 2 * h)
    rise = (_at(penal.penalty, r + h) - _at(penal.penalty, r - h)) / (2 * h)
    assert _at(penal.slope, r) == pytest.approx(rise, rel=1e-9, abs=1e-14 * (1 + _at(penal.penalty, r)) / h)


@every
@given(r=RESIDUALS)
def test_the_bend_is_the_derivative_of_the_slope(penal: Objective, r: float) -> None:
    """Away from the kinks, where the second derivative jumps, and from 0, where the asymmetric one does."""
    h = 1e-3 * min(_delta(penal), 1.0)
    assume(abs(abs(r) - _delta(penal)) > 2 * h and abs(r) > 2 * h)
    rise = (_at(penal.slope, r + h) - _at(penal.slope, r - h)) / (2 * h)
    assert _at(penal.bend, r) == pytest.approx(rise, rel=1e-9, abs=1e-9)


@every
@given(r=RESIDUALS, t=RESIDUALS)
def test_the_quadratic_of_the_grip_touches_and_lies_above(penal: Objective, r: float, t: float) -> None:
    """q(t) = rho(r) + grip(r) (t^2 - r^2) / 2 equals rho at r, has its slope there, and is nowhere below it
    on the side of r: so a step that lowers q lowers rho. (On the other side of 0 so it is for symmetric
    ones.)"""
    grip = _at(penal.grip, r)
    assert grip * r == pytest.approx(_at(penal.slope, r), rel=1e-12, abs=1e-300)
    symmetric = not isinstance(penal, Huber) or penal.overestimates == 1
    if symmetric or r * t > 0:
        above = _at(penal.penalty, r) + grip * (t**2 - r**2) / 2
        assert above >= _at(penal.penalty, t) - 1e-12 * (1 + abs(above))


@every
def test_the_grip_is_finite_at_zero(penal: Objective) -> None:
    """At r = 0 the ratio of slope and residual is its limit, the second derivative there (from below)."""
    assert _at(penal.grip, 0.0) == _at(penal.bend, 0.0) == pytest.approx(_at(penal.grip, -1e-12))
    assert _at(penal.penalty, 0.0) == _at(penal.slope, 0.0) == 0


@every
@given(r=RESIDUALS)
def test_penalties_rise_from_zero(penal: Objective, r: float) -> None:
    """A penalty is never negative, and larger farther out on the same side."""
    assert 0 <= _at(penal.penalty, r) <= _at(penal.penalty, 1.5 * r)


@given(delta=st.floats(1e-6, 1), r=RESIDUALS)
def test_huber_is_square_near_and_line_far(delta: float, r: float) -> None:
    """r^2 / 2 up to delta, delta (|r| - delta / 2) beyond: continuous at delta, and with infinite delta half
    the squares, as in arXiv:2203.15556."""
    expected = r**2 / 2 if abs(r) <= delta else delta * (abs(r) - delta / 2)
    assert _at(Huber(delta).penalty, r) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert _at(Huber(1e9).penalty, r) == pytest.approx(_at(LogSquares().penalty, r) / 2)


@given(factor=st.floats(0.01, 100), r=RESIDUALS)
def test_the_asymmetric_one_weighs_one_side(factor: float, r: float) -> None:
    """Overestimates, where the law lies above the loss, are multiplied by the factor, underestimates not."""
    expected = _at(Huber(0.01).penalty, r) * (factor if r > 0 else 1)
    assert _at(Huber(0.01, factor).penalty, r) == pytest.approx(expected)


def test_overestimates_push_the_law_down() -> None:
    """With a large factor on overestimates the fitted law lies below most losses, and with a small one
    above."""
    rng = np.random.default_rng(0)
    depth = np.tile([2.0, 4, 8, 16, 32], 10)
    table = {"depth": depth, "loss": 2 / depth * np.exp(0.05 * rng.standard_normal(depth.size))}
    shares = []
    for factor in (30.0, 1.0, 1 / 30):
        found = fit(DepthLaw(), table, fix={"L_0": 0.0}, objective=Huber(0.01, factor), interval="none")
        shares.append(float((found.predict(depth) > table["loss"]).mean()))
    assert shares[0] < 0.15 < 0.35 < shares[1] < 0.65 < 0.85 < shares[2]


def test_huber_hardly_feels_a_row_that_is_far_off() -> None:
    """One loss ten times too high moves the exponent of least squares by more than 0.3 and Huber's by less
    than 0.02."""
    depth = np.tile([2.0, 4, 8, 16, 32], 4)
    rng = np.random.default_rng(0)
    loss = 2 / depth * np.exp(0.01 * rng.standard_normal(depth.size))
    loss[4] *= 10
    table = {"depth": depth, "loss": loss}
    squares, huber = (
        fit(DepthLaw(), table, fix={"L_0": 0.0}, objective=o, interval="none").estimates["alpha"]
        for o in (LogSquares(), Huber(0.01))
    )
    assert abs(squares - 1) > 0.05 and abs(huber - 1) < 0.02


@pytest.mark.parametrize(("field", "value"), [("delta", 0.0), ("delta", math.nan), ("overestimates", -1.0)])
def test_numbers_of_huber_are_positive(field: str, value: float) -> None:
    """A delta or a factor that is not a finite number above 0 is refused by name."""
    with pytest.raises(ValueError, match=rf"{field}: .* is not a finite number > 0"):
        Huber(**{field: value})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("log-squares",), LogSquares()),
        (("squares",), Squares()),
        (("huber",), Huber(1e-3)),
        (("huber", 0.1), Huber(0.1)),
        (("asymmetric",), Huber(1e-3, 10.0)),
        (("asymmetric", 0.1, 3.0), Huber(0.1, 3.0)),
    ],
)
def test_objectives_by_name(arguments: tuple, expected: Objective) -> None:
    """Each name makes its objective, with defaults of the papers; the objective knows its name."""
    assert objective(*arguments) == expected
    assert expected.name == arguments[0] and arguments[0] in OBJECTIVES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cubes",), r"objective: 'cubes' is unknown; there are log-squares, squares, huber, asymmetric"),
        (("squares", 0.1), r"squares has no delta and no factor"),
        (("log-squares", None, 2.0), r"log-squares has no delta and no factor"),
        (("huber", 0.1, 2.0), r"huber has no factor on overestimates"),
    ],
)
def test_options_that_an_objective_does_not_have(arguments: tuple, message: str) -> None:
    """Unknown names, and options that would have no effect, are refused."""
    with pytest.raises(ValueError, match=message):
        objective(*arguments)
