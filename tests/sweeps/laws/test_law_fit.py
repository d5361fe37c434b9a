"""The depth law's fit: what was planted is found, units do not matter, and the optimum is one."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.laws import DepthLaw, Fit, Status, fit

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])
NO_FLOOR = {"L_0": 0.0}


def _noisy(seed: int = 0, noise: float = 0.03, floor: float = 0.05) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    loss = (2 * DEPTH**-1.3 + floor) * np.exp(noise * rng.standard_normal(DEPTH.size))
    return {"depth": DEPTH, "loss": loss}


def _grouped(groups: int, seed: int = 0, noise: float = 0.03) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(groups), DEPTH.size)
    depth = np.tile(DEPTH, groups)
    level = np.exp(rng.standard_normal(groups))[label]
    return {
        "depth": depth,
        "loss": level * depth**-1.3 * np.exp(noise * rng.standard_normal(label.size)),
        "seed": label,
    }


@settings(max_examples=12)
@given(
    alpha=st.floats(0.3, 4),
    log_c=st.floats(-12, 12),
    share=st.floats(0.01, 10),
    depths=st.lists(st.integers(2, 64), min_size=5, max_size=9, unique=True).filter(
        lambda d: max(d) >= 4 * min(d)
    ),
)
def test_planted_parameters_are_recovered(
    alpha: float, log_c: float, share: float, depths: list[int]
) -> None:
    """Without noise, c, alpha and a free L_0 come back.

    `share` is the floor over the power law at the deepest student. The bounds of 1e-8, and 1e-6 of L_0, are a
    thousand times the largest errors that were found among 1500 cases of these ranges.
    """
    depth = np.array(depths, dtype=float)
    power = math.exp(log_c) * depth**-alpha
    floor = share * power.min()
    found = fit(DepthLaw(), {"depth": depth, "loss": power + floor}, interval="none")
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(alpha, rel=1e-8)
    assert math.log(found.estimates["c"]) == pytest.approx(log_c, abs=1e-8)
    assert found.estimates["L_0"] == pytest.approx(floor, rel=1e-6)


@settings(max_examples=8)
@given(alpha=st.floats(0.3, 4), log_c=st.floats(-12, 12), share=st.floats(0, 0.9))
def test_planted_parameters_with_the_floor_known(alpha: float, log_c: float, share: float) -> None:
    """Without noise and with the right floor, c and alpha come back to rounding."""
    power = math.exp(log_c) * DEPTH**-alpha
    floor = share * power.min()
    table = {"depth": DEPTH, "loss": power + floor}
    found = fit(DepthLaw(), table, fix={"L_0": floor}, interval="none")
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(alpha, rel=1e-9)
    assert math.log(found.estimates["c"]) == pytest.approx(log_c, abs=1e-9)
    assert found.estimates["L_0"] == floor
    assert found.intervals["L_0"] == (floor, floor)


@settings(max_examples=8)
@given(
    depth_unit=st.floats(1e-3, 1e3),
    loss_unit=st.floats(1e-6, 1e6),
    free=st.booleans(),
    seed=st.integers(0, 9),
)
def test_units_move_only_what_has_a_unit(depth_unit: float, loss_unit: float, free: bool, seed: int) -> None:
    """Depth in other units moves only c; loss in other units multiplies c and L_0: objective, exponent and
    its interval stay. The bound is the solver's: a gradient of 1e-9 of the residuals, times the condition.
    """
    table = _noisy(seed)
    other = {"depth": depth_unit * table["depth"], "loss": loss_unit * table["loss"]}
    fixed = ({}, {}) if free else ({"L_0": 0.01}, {"L_0": 0.01 * loss_unit})
    a, b = (fit(DepthLaw(), t, fix=f, interval="wald") for t, f in zip((table, other), fixed, strict=True))
    assert b.status == a.status
    assert b.objective == pytest.approx(a.objective, rel=1e-9)
    assert b.estimates["alpha"] == pytest.approx(a.estimates["alpha"], rel=1e-6)
    assert b.intervals["alpha"] == pytest.approx(a.intervals["alpha"], rel=1e-5)
    assert b.estimates["L_0"] == pytest.approx(
        loss_unit * a.estimates["L_0"], rel=1e-6, abs=1e-12 * loss_unit
    )
    shift = math.log(loss_unit) + a.estimates["alpha"] * math.log(depth_unit)
    assert math.log(b.estimates["c"]) == pytest.approx(math.log(a.estimates["c"]) + shift, abs=1e-5)


@pytest.mark.parametrize("fix", [NO_FLOOR, {"L_0": 0.02}, {}])
@pytest.mark.parametrize("groups", [1, 3])
def test_the_reported_objective_is_that_of_the_reported_parameters(fix: dict, groups: int) -> None:
    """The mean squared log residual of `predict`, each row with the level of its group, is `objective`; so is
    `objective_of` the table, also of the fit that was written as JSON and read back."""
    table = _grouped(groups)
    table["loss"] = table["loss"] + 0.03
    found = fit(DepthLaw(), table, fix=fix)
    rows = zip(table["depth"], table["seed"], strict=True)
    predicted = [float(found.predict(d, group=int(g) if groups > 1 else None)) for d, g in rows]
    residual = np.log(predicted) - np.log(table["loss"])
    assert found.objective == pytest.approx((residual**2).mean(), rel=1e-12)
    assert found.objective_of(table) == pytest.approx(found.objective, rel=1e-12)
    assert Fit.from_json(found.to_json()).objective_of(table) == found.objective_of(table)
    if groups > 1:
        levels = np.log(list(found.levels["c"].values()))
        assert math.log(found.estimates["c"]) == pytest.approx(levels.mean())


@pytest.mark.parametrize("fix", [NO_FLOOR, {}])
def test_no_nearby_point_is_better(fix: dict) -> None:
    """The optimum is one: moving any reported parameter either way never lowers the objective."""
    table = _noisy(3)
    found = fit(DepthLaw(), table, fix=fix, interval="none")
    assert found.status is Status.CONVERGED
    for name in found.free:
        for factor in (0.999, 1.001):
            at = found.estimates | {name: found.estimates[name] * factor}
            predicted = at["c"] * DEPTH ** -at["alpha"] + at["L_0"]
            assert (np.log(predicted / table["loss"]) ** 2).mean() > found.objective


def test_levels_of_groups_do_not_bend_the_exponent() -> None:
    """A seed that lacks its deepest students and sits at another level leaves alpha where it was.

    One common level would put the difference between the seeds into the exponent.
    """
    table = _grouped(2, noise=0.0)
    table["loss"] = np.where(table["seed"] == 1, 10 * table["loss"], table["loss"])
    keep = (table["seed"] == 0) | (table["depth"] < 8)
    table = {name: column[keep] for name, column in table.items()}
    found = [fit(DepthLaw(), table, fix=NO_FLOOR, **kw).estimates["alpha"] for kw in ({}, {"group": None})]
    assert found[0] == pytest.approx(1.3, rel=1e-9)
    assert found[1] > 2


def test_what_groups_have_of_their_own_is_a_choice() -> None:
    """`own` moves a parameter from what is shared to what each group has: exponents that differ come back
    each for itself, with the mean as the estimate; with nothing of its own a group is only a cluster."""
    seed = np.repeat([0, 1], DEPTH.size)
    depth = np.tile(DEPTH, 2)
    table = {"depth": depth, "loss": (2.0 + seed) * depth ** -(1.0 + seed), "seed": seed}
    found = fit(DepthLaw(), table, fix=NO_FLOOR, own=("c", "alpha"), interval="none")
    assert found.levels["alpha"] == pytest.approx({0: 1.0, 1: 2.0}, rel=1e-9)
    assert found.levels["c"] == pytest.approx({0: 2.0, 1: 3.0}, rel=1e-9)
    assert found.estimates["alpha"] == pytest.approx(1.5, rel=1e-9)
    assert found.estimates["c"] == pytest.approx(math.sqrt(6), rel=1e-9)
    assert fit(DepthLaw(), table, fix=NO_FLOOR, own=(), interval="none").levels == {}


def test_bounds_are_obeyed_and_allow_other_signs() -> None:
    """Bounds hold in the table's units; ones that reach below 0 let a floor be negative."""
    loss = 2 * DEPTH**-1.3 - 0.02
    free = fit(DepthLaw(), {"depth": DEPTH, "loss": loss}, bounds={"L_0": (-1.0, 1.0)}, interval="none")
    assert free.status is Status.CONVERGED
    assert free.estimates["L_0"] == pytest.approx(-0.02, rel=1e-6)
    held = fit(DepthLaw(), {"depth": DEPTH, "loss": loss}, bounds={"L_0": (-0.01, 1.0)}, interval="none")
    assert held.status is Status.AT_BOUND and held.estimates["L_0"] == pytest.approx(-0.01, abs=1e-9)


def test_the_fitter_imports_no_jax() -> None:
    """Fits are in float64 whatever JAX is set to, since nothing of JAX, nor a table library, is imported."""
    others = {"jax", "polars", "pandas", "toymodels", "llm"}
    code = f"import sys, sweeps.laws; print(sorted({others} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
