"""What a student is asked to match (arXiv:2602.05970, appendix on toy models).

An objective is a small frozen config. `target` is computed from the teacher once a step for all students;
`losses` compares a student with it, one number an example. To add one, subclass `Objective` here and name
it in `__init__.py`.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from toymodels._network import AbstractNetwork, ResidualNetwork


@dataclass(frozen=True)
class Objective(abc.ABC):
    """Distance between student and teacher. `losses` has the batch's shape; the loss is its mean."""

    kind: ClassVar[str]
    needs_head: ClassVar[bool]
    """Whether the teacher has a head, and so the config a vocabulary."""

    @property
    @abc.abstractmethod
    def student_has_head(self) -> bool:
        """Whether each student learns a head of its own."""

    @property
    @abc.abstractmethod
    def replicate_temperatures(self) -> tuple[float, ...]:
        """One student of every depth is trained for each of these; (1.0,) where temperature plays no part."""

    @abc.abstractmethod
    def target(self, teacher: AbstractNetwork, x: Float[Array, "width *batch"]) -> Array:
        """What the teacher says about x, whatever the temperature."""

    @abc.abstractmethod
    def losses(
        self,
        student: ResidualNetwork,
        x: Float[Array, "width *batch"],
        target: Array,
        teacher_head: Float[Array, "vocabulary width"] | None,
        temperature: float | Float[Array, ""],
    ) -> Float[Array, "*batch"]:
        """The loss of each example."""


@dataclass(frozen=True)
class MSE(Objective):
    """Mean over the width of (rms_norm(h_ℓ) − rms_norm(h*_ℓ*))²; no head, no temperature."""

    kind: ClassVar[str] = "mse"
    needs_head: ClassVar[bool] = False

    @property
    def student_has_head(self) -> bool:
        return False

    @property
    def replicate_temperatures(self) -> tuple[float, ...]:
        return (1.0,)

    def target(self, teacher: AbstractNetwork, x: Float[Array, "width *batch"]) -> Array:
        return teacher(x)

    def losses(
        self,
        student: ResidualNetwork,
        x: Float[Array, "width *batch"],
        target: Array,
        teacher_head: Float[Array, "vocabulary width"] | None,
        temperature: float | Float[Array, ""],
    ) -> Float[Array, "*batch"]:
        return jnp.mean((student(x) - target) ** 2, axis=0)


@dataclass(frozen=True)
class KL(Objective):
    """KL(teacher‖student) in nats, the teacher at temperature T.

    p* = softmax(z*/T) with the teacher's logits z*. With `given_head` False the student learns a head of its
    own (from zero) and speaks at temperature 1, p = softmax(z); with True it uses the teacher's head, frozen,
    at the teacher's T, p = softmax(z/T). T scales logits, so z* is computed once for all `temperatures`.

    Raises ValueError for no temperature, one that is not positive, and one that is named twice.
    """

    kind: ClassVar[str] = "kl"
    needs_head: ClassVar[bool] = True
    temperatures: tuple[float, ...] = (1.0,)
    given_head: bool = False

    def __post_init__(self) -> None:
        if not self.temperatures:
            raise ValueError("temperatures is empty: name at least one")
        for temperature in self.temperatures:
            if not temperature > 0:
                raise ValueError(f"temperatures holds {temperature}: every temperature must be positive")
        if len(set(self.temperatures)) < len(self.temperatures):
            raise ValueError("temperatures holds a value twice: every temperature must be named once")

    @property
    def student_has_head(self) -> bool:
        return not self.given_head

    @property
    def replicate_temperatures(self) -> tuple[float, ...]:
        return self.temperatures

    def target(self, teacher: AbstractNetwork, x: Float[Array, "width *batch"]) -> Array:
        return teacher.logits(x)

    def losses(
        self,
        student: ResidualNetwork,
        x: Float[Array, "width *batch"],
        target: Array,
        teacher_head: Float[Array, "vocabulary width"] | None,
        temperature: float | Float[Array, ""],
    ) -> Float[Array, "*batch"]:
        log_teacher = jax.nn.log_softmax(target / temperature, axis=0)
        if self.given_head:
            assert teacher_head is not None
            logits = jnp.tensordot(teacher_head, student(x), 1) / temperature
        else:
            logits = student.logits(x)
        log_student = jax.nn.log_softmax(logits, axis=0)
        return jnp.sum(jnp.exp(log_teacher) * (log_teacher - log_student), axis=0)
