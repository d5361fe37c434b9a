"""Profiles: how well a law can fit with one parameter held elsewhere, and whether the rows bound it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from sweeps.laws import ChinchillaLaw, DepthLaw, Fit, Huber, LogSquares, Objective, OwnLaw, fit

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])


def _table(seed: int = 0, noise: float = 0.03, floor: float = 0.3, repeat: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    depth = np.tile(DEPTH, repeat)
    return {
        "depth": depth,
        "loss": (2 * depth**-1.3 + floor) * np.exp(noise * rng.standard_normal(depth.size)),
    }


def _rise(found: Fit, table: dict, name: str, value: float) -> float:
    """How much worse the law fits with a parameter held at a value, as a share of the compatible."""
    held = fit(DepthLaw(), table, fix={name: value}, interval="none", objective=found.objective_kind)
    t = stats.t.ppf((1 + found.confidence) / 2, found.degrees_of_freedom)
    return (held.objective - found.objective) / (found.objective * t**2 / found.degrees_of_freedom)


@settings(max_examples=6)
@given(seed=st.integers(0, 1000), noise=st.floats(0.005, 0.05), confidence=st.sampled_from([0.68, 0.95]))
def test_ends_are_where_the_fit_is_as_much_worse(seed: int, noise: float, confidence: float) -> None:
    """With a parameter fixed at an end of its interval, the mean square rises by t^2 / nu of itself: to 2 %,
    since the search stops within 1e-3 of the root of that height on one side and 1e-4 of the distance on the
    other."""
    table = _table(seed, noise)
    found = fit(DepthLaw(), table, interval="profile", confidence=confidence, starts=16)
    assume(found.parameters["alpha"].identified and found.parameters["L_0"].identified)
    for name in ("alpha", "L_0"):
        for end in found.intervals[name]:
            assert _rise(found, table, name, end) == pytest.approx(1, abs=0.02)


def test_a_profile_is_not_symmetric_where_the_law_is_not() -> None:
    """The floor can fall farther than it can rise: the profile says so, curvature cannot."""
    table = _table(0, 0.03)
    low, high = fit(DepthLaw(), table, interval="profile").intervals["L_0"]
    centre = fit(DepthLaw(), table, interval="wald").estimates["L_0"]
    assert centre - low > 1.05 * (high - centre)


@pytest.mark.parametrize("objective", [LogSquares(), Huber(0.02)])
def test_small_noise_makes_profile_and_curvature_agree(objective: Objective) -> None:
    """With noise of 1e-4 a law is linear over its own interval: both give the same ends, to 2 % of the width.
    The bound of 0.02 keeps all rows of the Huber penalty in its quadratic part."""
    table = _table(1, 1e-4)
    a, b = (fit(DepthLaw(), table, interval=i, objective=objective) for i in ("wald", "profile"))
    for name in ("c", "alpha", "L_0"):
        (low, high), other = a.intervals[name], b.intervals[name]
        assert other == pytest.approx((low, high), abs=0.02 * (high - low))


def test_units_do_not_move_a_profile() -> None:
    """Ends of an exponent's profile stay when columns and loss are in other units; those of an amplitude move
    with it. Bound: the search stops at 1e-4 of the distance, at another place for other units."""
    table = _table(2)
    other = {"depth": 1e6 * table["depth"], "loss": 1e-6 * table["loss"]}
    a, b = (fit(DepthLaw(), t, interval="profile") for t in (table, other))
    width = float(np.diff(a.intervals["alpha"])[0])
    assert b.intervals["alpha"] == pytest.approx(a.intervals["alpha"], abs=2e-3 * width)
    assert np.multiply(b.intervals["L_0"], 1e6) == pytest.approx(
        a.intervals["L_0"], abs=2e-3 * float(np.diff(a.intervals["L_0"])[0])
    )


def test_an_open_end_is_the_bound() -> None:
    """Rows of a pure power law leave the floor open at 0, its own bound: not identified, though the exponent
    is, and the finding names the range of exponents that goes with it."""
    found = fit(DepthLaw(), _table(0, 0.03, floor=0.0), interval="profile")
    assert found.intervals["L_0"][0] == 0 and math.isfinite(found.intervals["L_0"][1])
    assert not found.parameters["L_0"].identified
    assert found.parameters["alpha"].identified
    said = [f for f in found.diagnosis if f.code == "not-identified"]
    assert len(said) == 1 and said[0].about == ("L_0", "alpha")
    assert said[0].sentence.startswith("L_0 is not bounded below: values from 0 to ")
    low, high = said[0].sentence.split("alpha then runs from ")[1].rstrip(".").split(" to ")
    free, fixed = found, fit(DepthLaw(), _table(0, 0.03, floor=0.0), fix={"L_0": 0.0}, interval="none")
    assert float(low) <= fixed.estimates["alpha"] * 1.01 and float(low) <= free.estimates["alpha"] * 1.01
    assert float(low) < float(high)


def test_a_flat_direction_is_not_identified() -> None:
    """An exponent of data that hardly vary has no ends within thirty units: both lie far out, and the finding
    says so instead of a narrow interval."""
    rng = np.random.default_rng(0)
    size = np.exp(rng.uniform(16, 21, 40))
    tokens = 1e9 * np.exp(1e-4 * rng.standard_normal(40))
    loss = (1.7 + 400 * size**-0.34 + 410 * tokens**-0.28) * np.exp(0.003 * rng.standard_normal(40))
    found = fit(ChinchillaLaw(), {"num_params": size, "num_tokens": tokens, "loss": loss}, interval="profile")
    assert not found.parameters["beta"].identified and not found.identified
    codes = {f.code for f in found.diagnosis if "beta" in f.about}
    assert codes & {"not-identified", "degenerate", "ill-conditioned"}


def test_several_noisy_groups_share_a_profile() -> None:
    """With a level for each group the exponent's profile is exact too: for a line it is the interval by
    curvature, with the groups' degrees of freedom."""
    rng = np.random.default_rng(5)
    seed, depth = np.repeat(np.arange(4), 6), np.tile(DEPTH, 4)
    loss = np.exp(rng.standard_normal(4))[seed] * depth**-1.2 * np.exp(0.05 * rng.standard_normal(24))
    table = {"depth": depth, "loss": loss, "seed": seed}
    a, b = (fit(DepthLaw(), table, fix={"L_0": 0.0}, interval=i) for i in ("wald", "profile"))
    width = float(np.diff(a.intervals["alpha"])[0])
    assert b.intervals["alpha"] == pytest.approx(a.intervals["alpha"], abs=1e-3 * width)
    assert a.degrees_of_freedom == 24 - 5


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_ends_of_a_parameter_whose_unit_is_not_known(unit: float) -> None:
    """Within a logarithm A is no amplitude, and its profile runs over decades: at both ends the best fit
    with A held there is as much worse as a profile says."""
    rng = np.random.default_rng(0)
    n = np.exp(rng.uniform(0, 5, 40))
    table = {"n": n, "loss": np.log(3 + 40 * n**-0.5) * np.exp(0.01 * rng.standard_normal(40))}
    table["n"] = table["n"] * unit
    law = OwnLaw("log(E + A*n**-a)", ("n",))
    found = fit(law, table, interval="profile")
    height = 1 + stats.t.ppf(0.975, 37) ** 2 / 37
    for end in found.intervals["A"]:
        held = fit(law, table, fix={"A": end}, interval="none")
        assert held.objective / found.objective == pytest.approx(height, abs=1e-3)
    assert found.parameters["A"].identified
