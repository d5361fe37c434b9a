"""The verdict on an exponent follows its interval and nothing else."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.laws import Regime, regime

ENDS = st.floats(-1, 5)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.85, 1.2), "ensemble averaging"),
        ((0.51, 1.49), "ensemble averaging"),
        ((0.5, 1.2), "not resolved"),
        ((0.9, 1.5), "not resolved"),
        ((2.5, 2.9), "procedural assembly"),
        ((2.01, 9.0), "procedural assembly"),
        ((2.0, 2.9), "between"),
        ((1.1, 2.9), "between"),
        ((1.1, 1.4), "ensemble averaging"),
        ((1.0, 2.0), "not resolved"),
        ((1.8, 3.1), "not resolved"),
        ((-0.2, 0.3), "not resolved"),
        ((0.0, 4.0), "not resolved"),
        ((2.5, math.inf), "not resolved"),
        ((-math.inf, math.inf), "not resolved"),
        ((math.nan, 1.0), "not resolved"),
        (None, "not resolved"),
    ],
)
def test_rules(interval: tuple[float, float] | None, expected: str) -> None:
    """Each rule of the docstring, at and around its edges."""
    assert regime(interval) == expected


@settings(deadline=None)
@given(ENDS, ENDS, ENDS, ENDS)
def test_a_wider_interval_never_says_the_opposite(a: float, b: float, c: float, d: float) -> None:
    """Widening an interval cannot turn ensemble averaging into procedural assembly or back."""
    a, b, c, d = sorted((a, b, c, d))
    pair = {regime((b, c)), regime((a, d))}
    assert pair != {Regime.ENSEMBLE_AVERAGING, Regime.PROCEDURAL_ASSEMBLY}


@settings(deadline=None)
@given(ENDS, ENDS)
def test_a_verdict_excludes_the_other_prediction(a: float, b: float) -> None:
    """Averaging needs an interval without 2 and 3, assembly one without 1, between one without 1 and 3
    or one inside (2, 3) resp. (0.5, 1.5) that a stronger rule has claimed."""
    low, high = sorted((a, b))
    verdict = regime((low, high))
    if verdict is Regime.ENSEMBLE_AVERAGING:
        assert high < 2
    if verdict is Regime.PROCEDURAL_ASSEMBLY:
        assert low > 1.5
    if verdict is Regime.BETWEEN:
        assert not low <= 1 <= high and not low <= 3 <= high


def test_ends_in_order() -> None:
    """An interval given upside down is the caller's mistake."""
    with pytest.raises(
        ValueError, match=r"interval: \(2.0, 1.0\) has its lower end above its upper end; swap"
    ):
        regime((2.0, 1.0))
