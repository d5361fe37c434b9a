"""The solver knows no law: a second one, written here, is fitted by the same code."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
import pytest

from sweeps.laws import Law, Parameter, Status, fit

DEPTH = np.array([1.0, 2, 3, 5, 7, 9])


@final
@dataclasses.dataclass(frozen=True)
class Decay(Law):
    """loss = a * exp(-depth / s), with 1/s between 0 and `steepest`; undefined everywhere if `broken`."""

    steepest: float = math.inf
    broken: bool = False
    name, equation, columns, level = "decay", "loss = a * exp(-depth / s)", ("depth",), "a"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return Parameter("a", "loss", logarithmic=True), Parameter("rate", "1/depth", 0.0, self.steepest)

    def config(self) -> dict:
        return {"steepest": self.steepest}

    def check(self, columns: Mapping, loss: np.ndarray, group: np.ndarray, labels: Sequence) -> None:
        assert columns["depth"].size == loss.size

    def limits(self, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([-np.inf, 0.0]), np.array([np.inf, self.steepest])

    def log_loss(self, theta: Sequence, columns: Mapping) -> np.ndarray:
        return theta[0] - theta[1] * columns["depth"] + (np.nan if self.broken else 0.0)

    def gradient(self, theta: Sequence, columns: Mapping) -> tuple[np.ndarray, ...]:
        shape = np.broadcast(theta[1], columns["depth"]).shape
        return np.ones(shape), np.broadcast_to(-columns["depth"], shape)

    def starts(
        self, columns: Mapping, loss: np.ndarray, limits: tuple, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        return np.stack([np.zeros(count), rng.uniform(0, min(1.0, limits[1][1]), count)], axis=1)

    def units(self, scale: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        return np.diag([1, 1 / scale["depth"]]), np.array([math.log(scale["loss"]), 0])


@pytest.mark.parametrize("groups", [1, 2])
def test_another_law_is_fitted_by_the_same_solver(groups: int) -> None:
    """Planted parameters of an exponential decay come back in the table's units, with levels of groups."""
    seed = np.repeat(np.arange(groups), DEPTH.size)
    depth = np.tile(DEPTH, groups)
    found = fit(Decay(), {"depth": depth, "loss": 5.0 * (1 + seed) * np.exp(-0.4 * depth), "seed": seed})
    assert found.status is Status.CONVERGED
    assert found.estimates["rate"] == pytest.approx(0.4, rel=1e-9)
    assert found.levels == pytest.approx({g: 5.0 * (1 + g) for g in range(groups)}, rel=1e-9)


def test_a_bound_in_the_tables_units_holds() -> None:
    """A bound on a parameter with a unit stays that bound although the solver works in other units."""
    found = fit(Decay(steepest=0.3), {"depth": DEPTH, "loss": 5 * np.exp(-0.4 * DEPTH)})
    assert found.status is Status.AT_BOUND
    assert found.estimates["rate"] == pytest.approx(0.3, rel=1e-12)
    assert any(note.startswith("rate sits on its upper bound 0.3:") for note in found.notes)


def test_a_law_without_values_fails_and_says_so() -> None:
    """When no start has a finite objective the status is failed, estimates are nan, intervals infinite."""
    found = fit(Decay(broken=True), {"depth": DEPTH, "loss": DEPTH})
    assert found.status is Status.FAILED
    assert math.isnan(found.estimates["rate"])
    assert found.intervals["rate"] == (0.0, math.inf)
    assert any("No start gave a finite objective" in note for note in found.notes)
