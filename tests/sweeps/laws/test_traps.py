"""Traps that fitters fall into, each with the right answer: scaling, bounds, flat data, vanished terms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.laws import ChinchillaLaw, DepthLaw, Fit, OwnLaw, Status, fit

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])
NO_FLOOR = {"L_0": 0.0}


def _codes(found: Fit) -> set[str]:
    return {finding.code for finding in found.diagnosis}


def _noisy(seed: int = 0, noise: float = 0.03, floor: float = 0.05) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    loss = (2 * DEPTH**-1.3 + floor) * np.exp(noise * rng.standard_normal(DEPTH.size))
    return {"depth": DEPTH, "loss": loss}


@pytest.mark.parametrize("interval", ["wald", "profile", "pairs"])
def test_a_unit_of_time_does_not_change_an_exponent(interval: str) -> None:
    """Six points divided by 86 400 keep their exponent and its interval: no start, bound or tolerance has a
    unit."""
    x, y = np.array([1.0, 2, 5, 10, 20, 50]), np.array([9.1e4, 5.2e4, 2.9e4, 2.2e4, 1.7e4, 1.55e4])
    a = fit(DepthLaw(), {"depth": x, "loss": y}, interval=interval, resamples=100)
    b = fit(DepthLaw(), {"depth": x, "loss": y / 86_400}, interval=interval, resamples=100)
    assert b.status is a.status is Status.CONVERGED
    assert b.estimates["alpha"] == pytest.approx(a.estimates["alpha"], rel=1e-9)
    width = float(np.diff(a.intervals["alpha"])[0])
    assert b.intervals["alpha"] == pytest.approx(a.intervals["alpha"], abs=2e-3 * width)


def test_a_floor_on_its_lower_bound_is_said() -> None:
    """Losses that fall faster and faster want a negative floor: L_0 is 0, the status and a finding say so,
    and the exponent is that of the fit with the floor fixed there."""
    table = {"depth": DEPTH, "loss": 2 * DEPTH**-1.3 - 0.02}
    found, fixed = (fit(DepthLaw(), table, fix=fix, interval="none") for fix in ({}, NO_FLOOR))
    assert found.status is Status.AT_BOUND and found.trusted
    assert found.estimates["L_0"] == 0
    assert [f.about for f in found.diagnosis if f.code == "at-bound"] == [("L_0",)]
    assert any(note.startswith("L_0 sits on its lower bound 0:") for note in found.notes)
    assert found.estimates["alpha"] == pytest.approx(fixed.estimates["alpha"], rel=1e-7)
    assert found.objective == pytest.approx(fixed.objective, rel=1e-12)


def test_a_floor_on_its_upper_bound_is_said() -> None:
    """Losses that level off above a bound press L_0 against it."""
    loss = np.array([10, 1.01, 1, 1.02, 1.03, 1.01])
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": loss}, bounds={"L_0": (0.0, 1.0)}, interval="none")
    assert found.status is Status.AT_BOUND
    assert found.estimates["L_0"] == pytest.approx(1, rel=1e-12)
    assert any(note.startswith("L_0 sits on its upper bound 1:") for note in found.notes)


@settings(max_examples=8)
@given(alpha=st.floats(0.3, 3), level=st.floats(0.01, 100))
def test_a_value_by_a_bound_is_never_silent(alpha: float, level: float) -> None:
    """An exponent is 1 by measurement or by a bound, and the two cannot be confused: with an upper bound of
    1, steeper data give exactly 1 with status "at a bound" and a finding, and flatter data their own
    exponent."""
    table = {"depth": DEPTH, "loss": level * DEPTH**-alpha}
    found = fit(DepthLaw(), table, fix=NO_FLOOR, bounds={"alpha": (0.0, 1.0)}, interval="none", starts=16)
    if alpha > 1.001:
        assert found.status is Status.AT_BOUND and found.estimates["alpha"] == pytest.approx(1, abs=1e-8)
        assert any(f.code == "at-bound" and f.about == ("alpha",) for f in found.diagnosis)
        assert not found.identified
    elif alpha < 0.999:
        assert found.status is Status.CONVERGED and "at-bound" not in _codes(found)
        assert found.estimates["alpha"] == pytest.approx(alpha, rel=1e-8)


def test_an_exponent_of_exactly_one_is_an_exponent() -> None:
    """Nothing is suspicious about alpha = 1: it converges off any bound and without a finding about it."""
    depth = np.repeat(DEPTH, 2)
    table = {"depth": depth, "loss": 3 / depth * np.tile([1.001, 1 / 1.001], 6)}
    found = fit(DepthLaw(), table, group=None, fix=NO_FLOOR)
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(1, rel=1e-13)
    assert found.diagnosis == ()


def test_an_exponent_of_one_without_scatter() -> None:
    """Without scatter only that is said, and how few rows there are."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": 3 / DEPTH}, fix=NO_FLOOR)
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(1, rel=1e-13)
    assert _codes(found) == {"few-degrees-of-freedom", "no-scatter"}


@pytest.mark.parametrize("interval", ["auto", "wald", "profile", "pairs", "residual", "none"])
def test_flat_losses_do_not_determine_a_free_floor(interval: str) -> None:
    """Equal losses are any mixture of c and L_0: degenerate, no interval, no verdict, and no exception,
    whatever interval is asked for; and no covariance that pretends to know."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3)}, interval=interval)
    assert found.status is Status.DEGENERATE and not found.trusted and not found.identified
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert found.intervals["c"] == (0.0, math.inf) and found.intervals["L_0"] == (0.0, math.inf)
    assert np.isnan(found.covariance).all() and math.isnan(found.parameters["alpha"].error)
    said = [f for f in found.diagnosis if f.code == "degenerate"]
    assert len(said) == 1 and {"c", "L_0"} <= set(said[0].about)
    np.testing.assert_allclose(found.predict(DEPTH), 1.3, rtol=1e-9)


@settings(max_examples=4)
@given(seed=st.integers(0, 10_000), noise=st.floats(1e-6, 0.2))
def test_noise_without_a_trend_never_gives_a_narrow_exponent(seed: int, noise: float) -> None:
    """Losses without any trend leave the exponent open or nearly so: never is it both identified and known to
    better than 0.01 with a free floor, and there is no exception."""
    loss = 1.3 * np.exp(noise * np.random.default_rng(seed).standard_normal(12))
    found = fit(DepthLaw(), {"depth": np.tile(DEPTH, 2), "loss": loss}, interval="profile", starts=8)
    low, high = found.intervals["alpha"]
    assert not found.identified or high - low > 0.01


def test_flat_losses_with_the_floor_known_have_exponent_zero() -> None:
    """With a known floor equal losses mean alpha = 0 without scatter, and a finding says so."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3)}, fix=NO_FLOOR)
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(0, abs=1e-13)
    assert "no-scatter" in _codes(found)


def test_a_floor_that_is_not_told_apart_from_nothing() -> None:
    """With a power law and noise, L_0 is compatible with 0, and the finding gives the exponents it allows."""
    found = fit(DepthLaw(), _noisy(0, floor=0.0), interval="wald")
    said = [f for f in found.diagnosis if f.code == "not-identified"]
    assert len(said) == 1 and said[0].sentence.startswith("L_0 is not bounded below: values from 0 to")
    ends = [
        float(word.rstrip(".")) for word in said[0].sentence.split("alpha then runs from ")[1].split(" to ")
    ]
    fixed = fit(DepthLaw(), _noisy(0, floor=0.0), fix=NO_FLOOR, interval="none")
    assert ends[0] <= fixed.estimates["alpha"] * 1.01
    assert ends[0] < ends[1]


def test_two_depths_are_refused() -> None:
    """Two depths determine no exponent that anything could judge, however many rows: refused, not 0
    residuals."""
    table = {"depth": [4.0, 8.0] * 10, "loss": np.linspace(1, 2, 20)}
    with pytest.raises(ValueError, match=r"2 distinct depth\(s\).*but c, alpha need at least 3"):
        fit(DepthLaw(), table, fix=NO_FLOOR)


def test_a_loss_of_zero_is_refused_by_its_row() -> None:
    """A run that diverged to 0 is not dropped or clamped: refused with its row."""
    loss = [0.5, 0.3, 0.0, 0.2, 0.15, 0.1]
    with pytest.raises(ValueError, match=r"column 'loss', row 2 \(depth 6\): 0 must be > 0"):
        fit(DepthLaw(), {"depth": DEPTH, "loss": loss})


@pytest.mark.parametrize("loss", [[1e-300] * 6, [1e300] * 6, [1e-200, 1e200] * 3])
def test_losses_at_the_ends_of_float64(loss: list[float]) -> None:
    """Enormous and tiny losses end in a status or in a message, not in a warning or an exception."""
    try:
        found = fit(DepthLaw(), {"depth": DEPTH, "loss": loss}, resamples=40)
        assert found.status in Status
    except ValueError as error:
        assert "outside the range of float64" in str(error)


def _sizes(budget: float = 1e20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.exp(rng.uniform(16, 21, 40)), np.exp(rng.uniform(21, 26, 40))


@pytest.mark.parametrize("less", [0.0, 0.1, 0.3])
def test_an_irreducible_loss_that_drifts_to_nothing(less: float) -> None:
    """Where the rows want no irreducible loss, or a negative one, E is 0, its bound, and not exp(-4555) of a
    logarithm that ran away: the status and a finding say so, and the interval begins at 0."""
    n, d = _sizes()
    noise = np.exp(0.002 * np.random.default_rng(1).standard_normal(40))
    loss = (400 * n**-0.34 + 400 * d**-0.28 - less) * noise
    found = fit(ChinchillaLaw(), {"num_params": n, "num_tokens": d, "loss": loss}, interval="profile")
    if less:
        assert found.status is Status.AT_BOUND
        assert 0 <= found.estimates["E"] <= 1e-9
        assert [f.about for f in found.diagnosis if f.code == "at-bound"] == [("E",)]
        assert any(note.startswith("E sits on its lower bound 0:") for note in found.notes)
    assert found.intervals["E"][0] == 0 and not found.parameters["E"].identified


def test_a_bound_that_is_reached_exactly_is_reported_exactly() -> None:
    """Data of a pure power law have their best floor at 0 to rounding: what is reported as the bound is the
    bound."""
    for alpha in (0.5, 1.0, 1.7, 2.3):
        found = fit(DepthLaw(), {"depth": DEPTH, "loss": 3 * DEPTH**-alpha}, interval="none")
        if found.status is Status.AT_BOUND:
            assert found.estimates["L_0"] == 0


def test_a_term_that_vanishes_is_said() -> None:
    """Losses that depend on tokens alone leave no term in size: its amplitude goes to nothing or its exponent
    flat, and the fit does not claim to know that exponent."""
    n, d = _sizes()
    loss = (1.7 + 400 * d**-0.28) * np.exp(0.002 * np.random.default_rng(1).standard_normal(40))
    found = fit(ChinchillaLaw(), {"num_params": n, "num_tokens": d, "loss": loss}, interval="profile")
    assert not found.identified
    assert found.status is Status.DEGENERATE or not found.parameters["alpha"].identified
    assert {"degenerate", "not-identified"} & _codes(found)


def test_a_product_of_two_amplitudes_is_degenerate() -> None:
    """Two factors of one term cannot be told apart: the finding names both, and no interval is given."""
    table = {"depth": np.tile(DEPTH, 2), "loss": 2 * np.tile(DEPTH, 2) ** -1.0}
    table["loss"] *= np.exp(0.01 * np.random.default_rng(0).standard_normal(12))
    found = fit(OwnLaw("A * B * depth**-a", ("depth",)), table)
    assert found.status is Status.DEGENERATE
    said = next(f for f in found.diagnosis if f.code == "degenerate")
    assert set(said.about) == {"A", "B"} and "separately" in said.sentence
    assert found.intervals["A"] == (0.0, math.inf)


def test_a_level_outside_float64_is_refused_with_a_remedy() -> None:
    """A steep law far from depth 1 has a c that no float holds; the message says to divide the depth."""
    depth = np.array([1000.0, 1001, 1002, 1003])
    table = {"depth": depth, "loss": (depth / 1000) ** -200.0}
    with pytest.raises(
        ValueError, match=r"c: exp\(7\d\d.*\) is outside the range of float64.*divide the columns depth"
    ):
        fit(DepthLaw(), table, fix=NO_FLOOR)
    near = fit(DepthLaw(), table | {"depth": depth / 1000}, fix=NO_FLOOR)
    assert near.estimates["alpha"] == pytest.approx(200, rel=1e-9)


def test_a_fixed_amplitude_of_nothing_leaves_its_exponent_open() -> None:
    """With c fixed at 0 the exponent has no influence: degenerate, named, and no interval."""
    found = fit(DepthLaw(), _noisy(), fix={"c": 0.0})
    assert found.status is Status.DEGENERATE
    assert next(f.about for f in found.diagnosis if f.code == "degenerate") == ("alpha",)
