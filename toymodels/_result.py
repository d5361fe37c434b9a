"""What a training tells: its result: students, teachers, progress, snapshots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toymodels._config import CohortConfig
from toymodels._network import AbstractNetwork, ResidualNetwork


@dataclass(frozen=True)
class Geometry:
    """Angles of a network on the held-out inputs, in radians, meaned over inputs: one number a layer.

    step_angles: θ(h_l, h_{l+1}), length ℓ. update_angles: θ(Δh_l, Δh_{l+1}), length ℓ − 1.
    """

    step_angles: np.ndarray
    update_angles: np.ndarray

    @property
    def update_angle(self) -> float | None:
        """Mean angle between neighbouring updates; None for a single layer, which has no neighbour."""
        return float(np.mean(self.update_angles)) if self.update_angles.size else None


@dataclass(frozen=True)
class Student:
    """One trained student.

    losses: held-out loss at each of `CohortResult.steps`. trained_steps: updates made; fewer than asked for
    means that the loss or a gradient became non-finite at the next one, where the student was stopped.
    diverged: that happened, or the last held-out loss is not finite.
    """

    depth: int
    seed: int
    temperature: float
    losses: np.ndarray
    trained_steps: int
    diverged: bool
    network: ResidualNetwork
    geometry: Geometry


@dataclass(frozen=True)
class TaughtBy:
    """The teacher of one seed."""

    seed: int
    network: AbstractNetwork
    geometry: Geometry


@dataclass(frozen=True)
class CohortResult:
    """What a cohort reached: its students, their teachers, and the steps at which losses were taken."""

    config: CohortConfig
    steps: np.ndarray
    students: tuple[Student, ...]
    teachers: tuple[TaughtBy, ...]

    def student(self, *, depth: int, seed: int, temperature: float = 1.0) -> Student:
        """The one student of this depth, seed and temperature; KeyError if there is none."""
        for student in self.students:
            if (student.depth, student.seed, student.temperature) == (depth, seed, temperature):
                return student
        raise KeyError(f"no student of depth {depth}, seed {seed}, temperature {temperature} in this cohort")


@dataclass(frozen=True)
class Snapshot:
    """Where a training stood: all that it needs to go on, to the last bit.

    step: steps done, of `Progress.steps`. parts: what tells the parts of a divided cohort from each other;
    a snapshot fits no other division. arrays: by name, in the order in which `train_cohort` reads them.
    """

    step: int
    parts: str
    arrays: dict[str, np.ndarray]


class Progress(NamedTuple):
    """Handed to `on_progress` after every segment.

    step: steps done of all `steps`. losses: newest held-out losses (depth, seed, temperature) of the part
    that is being trained, None between evaluations. snapshot: saves the state; to be called before
    `on_progress` returns, since the next segment overwrites it.
    """

    step: int
    steps: int
    losses: np.ndarray | None
    snapshot: Callable[[], Snapshot]
