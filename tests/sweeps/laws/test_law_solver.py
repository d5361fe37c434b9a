"""The solver knows no law: others, written here, are fitted by the same code, as far as it can go."""

import dataclasses
import math
from typing import final

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweeps.laws import DepthLaw, Law, LogSquares, Parameter, Status, fit, objective, regime
from sweeps.laws._problem import build
from sweeps.laws._solve import CONVERGED_BELOW, solve
from sweeps.laws._table import read

DEPTH = np.array([1.0, 2, 3, 5, 7, 9])


@final
@dataclasses.dataclass(frozen=True)
class Decay(Law):
    """loss = a * exp(-rate * depth), with the rate up to `steepest`; undefined everywhere if `broken`."""

    steepest: float = math.inf
    broken: bool = False
    name, columns, headline, level = "decay", ("depth",), ("rate",), "a"

    @property
    def formula(self) -> str:
        return "a * exp(-rate * depth)" + (" * log(-depth)" if self.broken else "")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        a = Parameter("a", "loss", lower=0.0, logarithmic=True)
        return a, Parameter("rate", "1/depth", 0.0, self.steepest, likely=(0.0, 1.0))


@pytest.mark.parametrize("groups", [1, 2])
def test_another_law_is_fitted_by_the_same_solver(groups: int) -> None:
    """Planted parameters of an exponential decay come back in the table's units, with levels of groups."""
    seed = np.repeat(np.arange(groups), DEPTH.size)
    depth = np.tile(DEPTH, groups)
    found = fit(Decay(), {"depth": depth, "loss": 5.0 * (1 + seed) * np.exp(-0.4 * depth), "seed": seed})
    assert found.status is Status.CONVERGED
    assert found.estimates["rate"] == pytest.approx(0.4, rel=1e-9)
    expected = {g: 5.0 * (1 + g) for g in range(groups)}
    if groups > 1:
        assert found.levels["a"] == pytest.approx(expected, rel=1e-9)
    assert found.estimates["a"] == pytest.approx(math.prod(expected.values()) ** (1 / groups), rel=1e-9)


def test_a_bound_in_the_tables_units_holds() -> None:
    """A bound of the law itself holds in the table's units, and is said."""
    found = fit(Decay(steepest=0.3), {"depth": DEPTH, "loss": 5 * np.exp(-0.4 * DEPTH)})
    assert found.status is Status.AT_BOUND
    assert found.estimates["rate"] == pytest.approx(0.3, rel=1e-12)
    assert any(note.startswith("rate sits on its upper bound 0.3:") for note in found.notes)


def test_a_law_without_values_fails_and_says_so() -> None:
    """When no start has a finite objective the status is failed, estimates are nan, intervals infinite."""
    found = fit(Decay(broken=True), {"depth": DEPTH, "loss": DEPTH})
    assert found.status is Status.FAILED
    assert math.isnan(found.estimates["rate"]) and math.isnan(found.estimates["a"])
    assert found.intervals["rate"] == (0.0, math.inf)
    assert not found.trusted and not found.identified
    assert [f.code for f in found.diagnosis if f.code == "failed"] == ["failed"]


def _noisy(seed: int = 0, noise: float = 0.03, floor: float = 0.05) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    depth = np.array([3.0, 4, 6, 8, 12, 16])
    return {
        "depth": depth,
        "loss": (2 * depth**-1.3 + floor) * np.exp(noise * rng.standard_normal(depth.size)),
    }


def test_a_budget_too_small_is_not_convergence() -> None:
    """After one iteration the gradient is not small: the status, the intervals and the verdict say so."""
    found = fit(DepthLaw(), _noisy(), budget=1)
    assert found.status is Status.BUDGET_EXHAUSTED
    assert found.gradient_norm > 1e-8
    assert found.intervals["alpha"] == (-math.inf, math.inf)
    assert found.interval_method == "none: the fit is budget exhausted"
    assert regime(found.intervals["alpha"]) == "not resolved"
    assert any("more starts or iterations (budget)" in note for note in found.notes)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), noise=st.floats(1e-4, 0.5), floor=st.floats(0, 1))
def test_more_budget_never_makes_it_worse(seed: int, noise: float, floor: float) -> None:
    """The objective falls with the budget, and the default budget is enough for a small gradient."""
    table = _noisy(seed, noise, floor)
    short, long = (fit(DepthLaw(), table, budget=b, interval="none") for b in (2, 300))
    assert long.objective <= short.objective * (1 + 1e-9)
    assert long.status not in (Status.BUDGET_EXHAUSTED, Status.FAILED)
    if long.status is not Status.DEGENERATE:
        assert long.gradient_norm <= CONVERGED_BELOW


@pytest.mark.parametrize(
    "loss",
    [
        [0.297503665, 0.436501378, 0.43924027, 0.105216299, 0.0822560136, 0.139841163],
        [0.96443199, 2.90726250, 0.551654514, 0.763119504, 0.531828016, 0.706552944],
        [0.97952278, 0.60404338, 0.82244757, 1.51765637, 1.5604559, 1.22920603],
    ],
)
def test_a_flat_optimum_with_large_residuals_is_reached(loss: list[float]) -> None:
    """Where Gauss-Newton steps overshoot for thousands of iterations, Newton steps converge in a few: the
    best of the starts satisfies the first-order condition within 50 iterations."""
    table = {"depth": np.array([3.0, 4, 6, 8, 12, 16]), "loss": loss}
    found = fit(DepthLaw(), table, budget=50, interval="none")
    assert found.gradient_norm <= CONVERGED_BELOW
    assert found.status in (Status.CONVERGED, Status.AT_BOUND, Status.DEGENERATE)


@settings(max_examples=6)
@pytest.mark.parametrize("name", ["log-squares", "squares", "huber", "asymmetric"])
@given(seed=st.integers(0, 10_000), noise=st.floats(0.003, 0.1))
def test_the_gradient_really_is_small(name: str, seed: int, noise: float) -> None:
    """The cosine between residuals and what each parameter can change, computed here by complex steps from
    the reported values alone, is below 1e-8 where the fit converged, and is the `gradient_norm` that is
    reported.

    Complex steps are exact to rounding: 1e-16 in each row's term, of 12 rows, over cosines' denominators.
    """
    rng = np.random.default_rng(seed)
    depth = np.tile([3.0, 4, 6, 8, 12, 16], 2)
    loss = (2 * depth**-1.3 + 0.3) * np.exp(noise * rng.standard_normal(depth.size))
    chosen = objective(name, *({"huber": (0.01,), "asymmetric": (0.01, 5.0)}.get(name, ())))
    found = fit(DepthLaw(), {"depth": depth, "loss": loss}, objective=chosen, starts=16, interval="none")
    assume(found.status is Status.CONVERGED)
    log_c, alpha, floor = math.log(found.estimates["c"]), found.estimates["alpha"], found.estimates["L_0"]
    unit = math.exp(float(np.log(loss).mean()))

    def residual(*moved: complex) -> np.ndarray:
        predicted = np.exp(log_c + moved[0] - (alpha + moved[1]) * np.log(depth)) + floor + moved[2]
        return (predicted - loss) / unit if name == "squares" else np.log(predicted / loss)

    r = residual(0, 0, 0).real
    factor = np.where(r > 0, 5.0 if name == "asymmetric" else 1.0, 1.0)
    slope = 2 * r if "squares" in name else factor * np.clip(r, -0.01, 0.01)
    grip = slope / np.where(r == 0, 1, r)
    zero = (2.0 if "squares" in name else 1.0) * r.size
    for step in 1e-30j * np.eye(3):
        change = residual(*step).imag / 1e-30
        cosine = abs(slope @ change) / math.sqrt((grip @ change**2) * (grip @ r**2 + 1e-8 * zero))
        assert cosine <= 1e-8
        assert cosine <= found.gradient_norm + 1e-11


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), noise=st.floats(0.003, 0.1))
def test_far_starts_end_at_the_same_optimum(seed: int, noise: float) -> None:
    """Starts drawn with another seed give the same objective and the same parameters: what a fit reports is a
    property of the table. Bound: gradients of 1e-9 of the residuals, times the condition of up to 1e3."""
    table = _noisy(seed, noise, 0.3)
    a, b = (fit(DepthLaw(), table, seed=s, interval="none") for s in (0, 1))
    assert a.status is b.status
    assert b.objective == pytest.approx(a.objective, rel=1e-9)
    if a.status is Status.CONVERGED:
        assert b.estimates["alpha"] == pytest.approx(a.estimates["alpha"], rel=1e-5, abs=1e-6)


def test_many_points_at_once_are_the_same_as_one_by_one() -> None:
    """Points are moved side by side and in threads: each ends where it ends alone, to rounding."""
    law = DepthLaw()
    table = _noisy(1)
    problem = build(law, law.parameters, read(law, table), LogSquares(), ())
    rng = np.random.default_rng(0)
    starts = np.stack([rng.uniform(-1, 1, 40), rng.uniform(0.01, 0.05, 40), rng.uniform(0.5, 2, 40)], axis=1)
    together = solve(problem, starts, 100)
    for i in range(40):
        alone = solve(problem, starts[i : i + 1], 100)
        assert alone.total[0] == pytest.approx(together.total[i], rel=1e-9)


def test_threads_do_not_change_a_bit() -> None:
    """A table long enough to be solved in threads gives the same fit twice, to the last bit."""
    rng = np.random.default_rng(0)
    depth = rng.uniform(2, 64, 4000)
    table = {"depth": depth, "loss": (2 * depth**-1.1 + 0.2) * np.exp(0.02 * rng.standard_normal(4000))}
    first, second = (
        fit(DepthLaw(), table, starts=32, interval="pairs", resamples=40).to_json() for _ in range(2)
    )
    assert first == second
