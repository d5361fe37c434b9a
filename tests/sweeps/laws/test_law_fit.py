"""The fit: what was planted is found, units do not matter, and the status tells the truth."""

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.laws import DepthLaw, Fit, Status, fit, regime

DEPTH = np.array([3.0, 4, 6, 8, 12, 16])


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


@settings(deadline=None, max_examples=60)
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

    `share` is the floor over the power law at the deepest student. Over 1500 random cases of these ranges
    and their corners the largest errors were 7e-12 in alpha, 3e-12 in log c and 8e-10 in L_0, relative for
    alpha and L_0; the bounds leave a factor of a thousand.
    """
    depth = np.array(depths, dtype=float)
    power = math.exp(log_c) * depth**-alpha
    floor = share * power.min()
    found = fit(DepthLaw(), {"depth": depth, "loss": power + floor})
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(alpha, rel=1e-8)
    assert math.log(found.estimates["c"]) == pytest.approx(log_c, abs=1e-8)
    assert found.estimates["L_0"] == pytest.approx(floor, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(alpha=st.floats(0.3, 4), log_c=st.floats(-12, 12), share=st.floats(0, 0.9))
def test_planted_parameters_with_the_floor_known(alpha: float, log_c: float, share: float) -> None:
    """Without noise and with the right floor, c and alpha come back to rounding."""
    power = math.exp(log_c) * DEPTH**-alpha
    floor = share * power.min()
    found = fit(DepthLaw(floor=floor), {"depth": DEPTH, "loss": power + floor})
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(alpha, rel=1e-9)
    assert math.log(found.estimates["c"]) == pytest.approx(log_c, abs=1e-9)
    assert found.estimates["L_0"] == floor
    assert found.intervals["L_0"] == (floor, floor)


@settings(deadline=None, max_examples=30)
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
    floors = (None, None) if free else (0.01, 0.01 * loss_unit)
    a, b = fit(DepthLaw(floors[0]), table), fit(DepthLaw(floors[1]), other)
    assert b.status == a.status
    assert b.objective == pytest.approx(a.objective, rel=1e-9)
    assert b.estimates["alpha"] == pytest.approx(a.estimates["alpha"], rel=1e-6)
    assert b.intervals["alpha"] == pytest.approx(a.intervals["alpha"], rel=1e-5)
    assert b.estimates["L_0"] == pytest.approx(loss_unit * a.estimates["L_0"], rel=1e-6)
    shift = math.log(loss_unit) + a.estimates["alpha"] * math.log(depth_unit)
    assert math.log(b.estimates["c"]) == pytest.approx(math.log(a.estimates["c"]) + shift, abs=1e-5)


def test_a_unit_of_time_does_not_change_an_exponent() -> None:
    """Six points divided by 86 400 keep their exponent: no start, bound or tolerance has a unit."""
    x, y = np.array([1.0, 2, 5, 10, 20, 50]), np.array([9.1e4, 5.2e4, 2.9e4, 2.2e4, 1.7e4, 1.55e4])
    a = fit(DepthLaw(), {"depth": x, "loss": y})
    b = fit(DepthLaw(), {"depth": x, "loss": y / 86_400})
    assert b.estimates["alpha"] == pytest.approx(a.estimates["alpha"], rel=1e-9)


@pytest.mark.parametrize("floor", [0.0, 0.02, None])
@pytest.mark.parametrize("groups", [1, 3])
def test_the_reported_objective_is_that_of_the_reported_parameters(floor: float | None, groups: int) -> None:
    """Summing squared log residuals of `predict`, each row with the level of its group, gives `objective`."""
    table = _grouped(groups)
    table["loss"] = table["loss"] + 0.03
    found = fit(DepthLaw(floor), table)
    predicted = [
        float(found.predict(d, group=int(g))) for d, g in zip(table["depth"], table["seed"], strict=True)
    ]
    residual = np.log(predicted) - np.log(table["loss"])
    assert found.objective == pytest.approx((residual**2).sum(), rel=1e-10)
    assert math.log(found.estimates["c"]) == pytest.approx(np.log(list(found.levels.values())).mean())


@pytest.mark.parametrize("floor", [0.0, None])
def test_no_nearby_point_is_better(floor: float | None) -> None:
    """The optimum is one: moving any reported parameter either way never lowers the objective."""
    table = _noisy(3)
    found = fit(DepthLaw(floor), table)
    assert found.status is Status.CONVERGED
    for name in ("c", "alpha", "L_0") if floor is None else ("c", "alpha"):
        for factor in (0.999, 1.001):
            moved = dataclasses.replace(
                found, estimates=found.estimates | {name: found.estimates[name] * factor}
            )
            assert (np.log(moved.predict(DEPTH) / table["loss"]) ** 2).sum() > found.objective


def test_levels_of_groups_do_not_bend_the_exponent() -> None:
    """A seed that lacks its deepest students and sits at another level leaves alpha where it was.

    One common level would put the difference between the seeds into the exponent.
    """
    table = _grouped(2, noise=0.0)
    table["loss"] = np.where(table["seed"] == 1, 10 * table["loss"], table["loss"])
    keep = (table["seed"] == 0) | (table["depth"] < 8)
    table = {name: column[keep] for name, column in table.items()}
    assert fit(DepthLaw(0.0), table).estimates["alpha"] == pytest.approx(1.3, rel=1e-9)
    assert fit(DepthLaw(0.0), table, group=None).estimates["alpha"] > 2


def test_a_budget_too_small_is_not_convergence() -> None:
    """After one iteration the gradient is not small: the status, the intervals and the verdict say so."""
    found = fit(DepthLaw(), _noisy(), budget=1)
    assert found.status is Status.BUDGET_EXHAUSTED
    assert found.gradient_norm > 1e-8
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert found.interval_method == "none: the fit is budget exhausted"
    assert regime(found.intervals["alpha"]) == "not resolved"
    assert any("raise budget or starts" in note for note in found.notes)


@given(seed=st.integers(0, 10_000), noise=st.floats(1e-4, 0.5), floor=st.floats(0, 1))
@settings(deadline=None, max_examples=60)
def test_more_budget_never_makes_it_worse(seed: int, noise: float, floor: float) -> None:
    """The objective falls with the budget, and the default budget is enough for a small gradient."""
    table = _noisy(seed, noise, floor)
    short, long = fit(DepthLaw(), table, budget=2), fit(DepthLaw(), table)
    assert long.objective <= short.objective * (1 + 1e-9)
    assert long.status not in (Status.BUDGET_EXHAUSTED, Status.FAILED)
    assert long.gradient_norm <= 1e-8


@pytest.mark.parametrize(
    "loss",
    [
        [0.297503665, 0.436501378, 0.43924027, 0.105216299, 0.0822560136, 0.139841163],
        [0.96443199, 2.90726250, 0.551654514, 0.763119504, 0.531828016, 0.706552944],
        [0.97952278, 0.60404338, 0.82244757, 1.51765637, 1.5604559, 1.22920603],
    ],
)
def test_a_flat_optimum_with_large_residuals_is_reached(loss: list[float]) -> None:
    """Where Gauss-Newton steps overshoot for thousands of iterations, Newton steps converge in a few."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": loss}, budget=50)
    assert found.status is Status.CONVERGED


def test_a_floor_on_its_lower_bound_is_said() -> None:
    """Losses that fall faster and faster want a negative floor: L_0 is 0, the status and a note say so, and
    the exponent is that of the fit with the floor fixed there."""
    loss = 2 * DEPTH**-1.3 - 0.02
    found, fixed = (fit(law, {"depth": DEPTH, "loss": loss}) for law in (DepthLaw(), DepthLaw(0.0)))
    assert found.status is Status.AT_BOUND
    assert found.estimates["L_0"] == 0
    assert any(note.startswith("L_0 sits on its lower bound 0:") for note in found.notes)
    assert found.estimates["alpha"] == pytest.approx(fixed.estimates["alpha"], rel=1e-7)
    assert found.objective == pytest.approx(fixed.objective, rel=1e-12)


def test_a_floor_on_its_upper_bound_is_said() -> None:
    """Losses that level off above their smallest one press L_0 against it."""
    loss = np.array([10, 1.01, 1, 1.02, 1.03, 1.01])
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": loss})
    assert found.status is Status.AT_BOUND
    assert found.estimates["L_0"] == pytest.approx(1, rel=1e-12)
    assert any(note.startswith("L_0 sits on its upper bound 1:") for note in found.notes)


def test_a_pure_power_law_has_no_floor_to_speak_of() -> None:
    """With a power law and noise, L_0 is compatible with 0, and the note gives the exponents it allows."""
    found = fit(DepthLaw(), _noisy(0, floor=0.0))
    notes = [
        note
        for note in found.notes
        if note.startswith("L_0 is not told apart from its bound: values from 0 ")
    ]
    assert len(notes) == 1
    ends = [float(word.rstrip(".")) for word in notes[0].split("alpha then runs from ")[1].split(" to ")]
    assert ends[0] <= fit(DepthLaw(0.0), _noisy(0, floor=0.0)).estimates["alpha"] * 1.01
    assert ends[0] < ends[1]


def test_flat_losses_do_not_determine_a_free_floor() -> None:
    """Equal losses are any mixture of c and L_0: degenerate, no interval, no verdict."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3)})
    assert found.status is Status.DEGENERATE
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert any("The rows do not determine c and L_0 separately" in note for note in found.notes)
    assert any("L_0 is not identified: values from 0 to 1.3" in note for note in found.notes)


def test_flat_losses_with_the_floor_known_have_exponent_zero() -> None:
    """With a known floor equal losses mean alpha = 0 without scatter, and a note says so."""
    found = fit(DepthLaw(0.0), {"depth": DEPTH, "loss": np.full(6, 1.3)})
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(0, abs=1e-14)
    assert any("no scatter is left to estimate an error from" in note for note in found.notes)


def test_an_exponent_of_exactly_one_is_an_exponent() -> None:
    """Nothing is suspicious about alpha = 1: it converges off any bound and without a note about it."""
    found = fit(DepthLaw(0.0), {"depth": DEPTH, "loss": 3 / DEPTH}, group=None)
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(1, rel=1e-13)
    assert found.notes == (
        "The rows follow the law to rounding: no scatter is left to estimate an error from.",
    )


def test_a_level_outside_float64_is_refused_with_a_remedy() -> None:
    """A steep law far from depth 1 has a c that no float holds; the message says to divide the depth."""
    depth = np.array([1000.0, 1001, 1002, 1003])
    table = {"depth": depth, "loss": (depth / 1000) ** -200.0}
    with pytest.raises(
        ValueError, match=r"c: exp\(1382\) is outside the range of float64.*divide the columns depth"
    ):
        fit(DepthLaw(0.0), table)
    near = fit(DepthLaw(0.0), table | {"depth": depth / 1000})
    assert near.estimates["alpha"] == pytest.approx(200, rel=1e-9)


@pytest.mark.parametrize("floor", [0.0, 0.01, None])
@pytest.mark.parametrize("table", [_noisy(), _grouped(2), _noisy(0, floor=0.0)])
def test_json_loses_nothing(floor: float | None, table: dict[str, np.ndarray]) -> None:
    """A fit read back from its JSON is equal in every field and predicts the same bits."""
    found = fit(DepthLaw(floor), table)
    again = Fit.from_json(found.to_json())
    assert again == found
    np.testing.assert_array_equal(again.predict(DEPTH), found.predict(DEPTH))


def test_json_of_a_fit_without_intervals() -> None:
    """Infinite ends survive, as strings that every JSON parser accepts."""
    found = fit(DepthLaw(), {"depth": DEPTH, "loss": np.full(6, 1.3), "seed": ["a"] * 6})
    assert json.loads(found.to_json())["intervals"]["alpha"] == ["-inf", "inf"]
    assert Fit.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "not a saved fit of format 1"),
        ({"law": {"name": "nonsense"}}, r"not a complete saved fit \('nonsense'\)"),
        ({"estimates": None}, "not a complete saved fit"),
        ({"status": "splendid"}, "'splendid' is not a valid Status"),
        ({"surplus": 1}, "not a complete saved fit .*surplus"),
    ],
)
def test_json_of_something_else_is_refused(change: dict[str, object], message: str) -> None:
    """What `to_json` did not write is refused and not guessed at."""
    tree = json.loads(fit(DepthLaw(0.0), _noisy()).to_json()) | change
    with pytest.raises(ValueError, match=message):
        Fit.from_json(json.dumps(tree))


def test_provenance() -> None:
    """A fit says which law, how many rows and groups, of which column, it comes from."""
    found = fit(DepthLaw(0.0), _grouped(3)).provenance
    assert (found.law, found.rows, found.groups, found.group_column) == (
        DepthLaw(0.0).equation, 18, 3, "seed",
    )  # fmt: skip
    assert len(found.data_sha256) == 64 and found.version


def test_predict_refuses_what_it_cannot_answer() -> None:
    """A missing column, a depth of 0 and an unknown group each have their message."""
    found = fit(DepthLaw(0.0), _grouped(2))
    with pytest.raises(ValueError, match=r"predict takes depth; 0 column\(s\) were given"):
        found.predict()
    with pytest.raises(ValueError, match="depth: every value must be finite and > 0"):
        found.predict([4, 0])
    with pytest.raises(ValueError, match=r"group 9 is not among the groups of this fit, \[0, 1\]"):
        found.predict(4, group=9)


def test_the_fitter_imports_no_jax() -> None:
    """Fits are in float64 whatever JAX is set to, since nothing of JAX, nor a table library, is imported."""
    others = {"jax", "polars", "pandas", "toymodels", "llm"}
    code = f"import sys, sweeps.laws; print(sorted({others} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
