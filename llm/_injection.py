"""Input injection: how the prelude's output e enters every recurrence, and what is carried between them.

Symbols: prelude output e, state h, output s of a recurrence, recurrence i = 0 … r − 1, width d.
A new injection is a subclass of `Injection`, here or in a module of your own (docs/extending.md); a spec
names it by `kind`.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax.numpy as jnp
from jaxtyping import Array, Float

State = Any
"""What is carried from recurrence to recurrence: (…, d), or (K, …, d) with K lanes."""

Parameters = dict[str, Array]


@dataclass(frozen=True)
class Injection(abc.ABC):
    """A way to inject. Subclasses are final, immutable values; what they learn is a dict of arrays.

    A subclass has a `kind`, says how the block's input is `read`, and whatever of the rest differs from an
    injection that learns nothing and carries the block's output on.

    Reference: arXiv:2604.21106, the sections on the recurrent block and on hyperconnections.
    """

    kind: ClassVar[str]
    labels: ClassVar[dict[str, str]] = {}
    """The optimiser's group of each learnt array: matrix or lane."""

    untaught: ClassVar[str | None] = None
    """What is not learnt where the first recurrences keep no gradient."""

    def draw(self, width: int, num_recur: int) -> Parameters:
        """What is learnt, untrained."""
        return {}

    def start(self, e: Float[Array, "*shape d"]) -> State:
        """The state before the first recurrence."""
        return e

    @abc.abstractmethod
    def read(self, parameters: Parameters, e: Float[Array, "*shape d"], state: State, i: Any) -> Array:
        """The input of the block in recurrence i."""

    def write(self, parameters: Parameters, state: State, s: Float[Array, "*shape d"], i: Any) -> State:
        """The state after recurrence i, whose output is s."""
        return s

    def finish(self, state: State) -> Float[Array, "*shape d"]:
        """What the coda reads."""
        return state

    def recurrent_params(self, width: int) -> int:
        """Parameters that every recurrence uses."""
        return 0

    def once_params(self, num_recur: int) -> int:
        """Parameters that a single recurrence uses, all of them."""
        return 0

    def forward_flops(self, width: int) -> int:
        """FLOPs a token and recurrence."""
        return 2 * self.recurrent_params(width)


@final
@dataclass(frozen=True)
class Linear(Injection):
    """The block reads W·[e ‖ h], with W (d × 2d) starting as [I ‖ 0]; h_0 = e. N_i = 2d²."""

    kind: ClassVar[str] = "linear"
    labels: ClassVar[dict[str, str]] = {"inject": "matrix"}

    def draw(self, width: int, num_recur: int) -> Parameters:
        return {"inject": jnp.eye(2 * width, width)}

    def read(self, parameters: Parameters, e: Array, state: State, i: Any) -> Array:
        return jnp.concatenate([e, state], axis=-1) @ parameters["inject"]

    def recurrent_params(self, width: int) -> int:
        return 2 * width**2


@final
@dataclass(frozen=True)
class Additive(Injection):
    """The block reads h + e; h_0 = 0."""

    kind: ClassVar[str] = "additive"

    def start(self, e: Array) -> State:
        return jnp.zeros_like(e)

    def read(self, parameters: Parameters, e: Array, state: State, i: Any) -> Array:
        return state + e


@final
@dataclass(frozen=True)
class Passthrough(Injection):
    """The block reads h; h_0 = e. With r = 1 this is a plain transformer."""

    kind: ClassVar[str] = "passthrough"
    untaught: ClassVar[str | None] = "embedding and prelude, which the first recurrence alone reads,"

    def read(self, parameters: Parameters, e: Array, state: State, i: Any) -> Array:
        return state


@final
@dataclass(frozen=True)
class Hyperconnections(Injection):
    """K lanes of states: the block reads Σ_k α_i[k]·lane_k; then lanes ← M_i·lanes + β_i ⊗ s.

    Every lane starts as e, the coda reads their sum. α_i starts as one-hot(i mod K), M_i = I, β_i = 1. Each
    recurrence has its own α, M, β; in an evaluation with more recurrences they repeat.

    Raises ValueError for fewer than one lane.
    """

    kind: ClassVar[str] = "hyperconnections"
    labels: ClassVar[dict[str, str]] = {"alpha": "lane", "mixing": "lane", "beta": "lane"}
    untaught: ClassVar[str | None] = "what belongs to the first recurrences alone, and the prelude,"
    lanes: int = 2

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise ValueError(f"lanes is {self.lanes}: it must be at least 1")

    def draw(self, width: int, num_recur: int) -> Parameters:
        lanes = self.lanes
        return {
            "alpha": jnp.eye(lanes)[jnp.arange(num_recur) % lanes],
            "mixing": jnp.tile(jnp.eye(lanes), (num_recur, 1, 1)),
            "beta": jnp.ones((num_recur, lanes)),
        }

    def start(self, e: Array) -> State:
        return jnp.broadcast_to(e, (self.lanes, *e.shape))

    def read(self, parameters: Parameters, e: Array, state: State, i: Any) -> Array:
        return jnp.tensordot(_of_recurrence(parameters["alpha"], i), state, 1)

    def write(self, parameters: Parameters, state: State, s: Array, i: Any) -> State:
        mixed = jnp.tensordot(_of_recurrence(parameters["mixing"], i), state, 1)
        beta = _of_recurrence(parameters["beta"], i)
        return mixed + beta.reshape(-1, *(1,) * s.ndim) * s

    def finish(self, state: State) -> Array:
        return jnp.sum(state, axis=0)

    def once_params(self, num_recur: int) -> int:
        return num_recur * (self.lanes**2 + 2 * self.lanes)

    def forward_flops(self, width: int) -> int:
        return 2 * (self.lanes**2 + 2 * self.lanes) * width


def _of_recurrence(parameter: Array, i: Any) -> Array:
    return parameter[i % parameter.shape[0]]
