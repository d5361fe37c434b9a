"""The config of a cohort: one teacher stream a seed, and every student that learns from it.

Defaults are the paper's scale (arXiv:2602.05970, appendix on toy models). Rules are checked where the object
is made; the message names the field, the rule and the value.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from toymodels._layers import LAYERS, AbstractLayer
from toymodels._objectives import MSE, Objective
from toymodels._teachers import Independent, Teacher


@dataclass(frozen=True)
class LearningRate:
    """lr(ℓ, t) = base · √(reference_depth/ℓ) · shape(t): held, then linear to `final_fraction` at the end.

    `reference_depth` None: the same rate at every depth. The paper's 6e-4·2/√ℓ is reference_depth = 4, its
    6e-4·4/√ℓ reference_depth = 16. `hold_fraction` of the steps run at full rate: 0.8 with
    `final_fraction` 0.1 in the paper; 0 and 0 decay linearly to zero from the first step; 1 never decays.

    Raises ValueError for a base or depth that is not positive, and a fraction outside [0, 1].
    """

    base: float = 6e-4
    reference_depth: float | None = None
    hold_fraction: float = 1.0
    final_fraction: float = 1.0

    def __post_init__(self) -> None:
        _require(self.base > 0, "base", self.base, "must be positive")
        if self.reference_depth is not None:
            _require(self.reference_depth > 0, "reference_depth", self.reference_depth, "must be positive")
        _require(0 <= self.hold_fraction <= 1, "hold_fraction", self.hold_fraction, "must lie in [0, 1]")
        _require(0 <= self.final_fraction <= 1, "final_fraction", self.final_fraction, "must lie in [0, 1]")

    def peak(self, depth: int) -> float:
        """The rate of a student of this depth before it decays."""
        return self.base * (math.sqrt(self.reference_depth / depth) if self.reference_depth else 1.0)

    def at(self, step: Any, steps: Any, depth: int) -> Any:
        """The rate of update `step` of `steps` (0 ≤ step < steps) for a student of this depth."""
        held = jnp.round(self.hold_fraction * steps)
        decayed = jnp.clip((step - held) / jnp.maximum(steps - held, 1), 0, 1)
        return self.peak(depth) * (1 - (1 - self.final_fraction) * decayed)


@dataclass(frozen=True)
class Adam:
    """Adam's moments (Kingma & Ba, arXiv:1412.6980).

    beta1, beta2: decay of the first and the second moment a step. epsilon: added to the root of the second.
    Raises ValueError for decays outside [0, 1) and an epsilon that is not positive.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _require(0 <= self.beta1 < 1, "beta1", self.beta1, "must lie in [0, 1)")
        _require(0 <= self.beta2 < 1, "beta2", self.beta2, "must lie in [0, 1)")
        _require(self.epsilon > 0, "epsilon", self.epsilon, "must be positive")


@dataclass(frozen=True)
class Evaluation:
    """Held-out losses: the mean over `batches` × `batch` inputs, the same ones every time.

    Taken at `points` steps, spaced evenly in log step from `first_step` (or the last step if that comes
    sooner) to the last. Raises ValueError for a number below 1.
    """

    batches: int = 10
    batch: int = 1024
    points: int = 40
    first_step: int = 100

    def __post_init__(self) -> None:
        for name in ("batches", "batch", "points", "first_step"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "must be at least 1")

    def at(self, steps: int) -> tuple[int, ...]:
        """The steps at which the losses are taken: increasing, ending with `steps`."""
        spaced = np.geomspace(min(self.first_step, steps), steps, self.points)
        return tuple(sorted({*np.rint(spaced).astype(int).tolist(), steps}))


@dataclass(frozen=True)
class CohortConfig:
    """What is trained together: students of every depth × temperature × seed.

    A seed fixes its own teacher, student initialisation, training inputs and held-out inputs; students of
    one seed share all of these, whatever their depth and temperature.

    width: m. hidden_factor: hidden size / m. vocabulary: outputs of the head (None: no head).
    layer: name of the students' integrator (the teacher's is `euler`). depths: ℓ, in layers of that kind.
    batch: fresh Gaussian inputs a step. steps: training steps.

    Raises ValueError, naming field, value and rule: sizes below 1, depths or seeds that are missing or named
    twice, a layer that `LAYERS` does not have, and a vocabulary where the objective has no head, or none
    where it has.
    """

    teacher: Teacher = field(default_factory=Independent)
    objective: Objective = field(default_factory=MSE)
    width: int = 32
    hidden_factor: int = 4
    vocabulary: int | None = None
    layer: str = "euler"
    depths: tuple[int, ...] = (6, 12, 16, 24, 32, 48)
    seeds: tuple[int, ...] = (0, 1, 2)
    batch: int = 1024
    steps: int = 40_000
    learning_rate: LearningRate = field(default_factory=LearningRate)
    adam: Adam = field(default_factory=Adam)
    evaluation: Evaluation = field(default_factory=Evaluation)

    def __post_init__(self) -> None:
        for name in ("width", "hidden_factor", "batch", "steps"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "must be at least 1")
        _require(self.steps < 2**31, "steps", self.steps, "must be below 2^31")
        _require(self.layer in LAYERS, "layer", self.layer, f"must be one of {', '.join(LAYERS)}")
        for name, least in (("depths", 1), ("seeds", 0)):
            values: tuple[int, ...] = getattr(self, name)
            _require(len(values) > 0, name, values, "must name at least one")
            _require(min(values) >= least, name, values, f"must all be at least {least}")
            _require(len(set(values)) == len(values), name, values, "must name each value once")
        _require(max(self.seeds) < 2**31, "seeds", self.seeds, "must all be below 2^31")
        if self.objective.needs_head and self.vocabulary is None:
            raise ValueError(
                f"vocabulary is not set: objective {self.objective.kind} compares logits; set it, to 128 say"
            )
        if not self.objective.needs_head and self.vocabulary is not None:
            raise ValueError(
                f"vocabulary is {self.vocabulary}: objective {self.objective.kind} has no head; leave it out"
            )
        if self.vocabulary is not None:
            _require(self.vocabulary >= 2, "vocabulary", self.vocabulary, "must be at least 2")

    @property
    def hidden(self) -> int:
        """Hidden size H = hidden_factor · width."""
        return self.hidden_factor * self.width

    @property
    def layer_class(self) -> type[AbstractLayer]:
        """The students' integrator."""
        return LAYERS[self.layer]

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures that the students are replicated over."""
        return self.objective.replicate_temperatures


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value}: it {rule}")
