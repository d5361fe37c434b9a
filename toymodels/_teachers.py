"""Teachers: how the weights vary along depth (arXiv:2602.05970, section 4).

A teacher kind is a small frozen config with one method, `network`. To add one, subclass `Teacher` here and
name it in `__init__.py`; configs, presets, records and figures take it from its `kind`.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from toymodels._layers import AbstractLayer, Euler
from toymodels._limits import FlowNetwork
from toymodels._network import AbstractNetwork, ResidualNetwork, draw_layers


@dataclass(frozen=True)
class Teacher(abc.ABC):
    """A deep residual network (`Euler` layers) that students imitate.

    Every W₂ is multiplied by `residual_scale` · ℓ*^(−`residual_power`), ℓ* = `depth`. The paper's scale
    1/√ℓ* is the default; `residual_power = 1` gives 1/ℓ*.
    """

    kind: ClassVar[str]
    depth: int = 128
    residual_scale: float = 1.0
    residual_power: float = 0.5

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth of the teacher is {self.depth}: it must be at least 1")
        if not self.residual_scale > 0:
            raise ValueError(f"residual_scale is {self.residual_scale}: it must be positive")

    @property
    def step(self) -> float:
        """The factor on W₂ in every layer; for a smooth teacher, the length of one Euler step."""
        return self.residual_scale * self.depth**-self.residual_power

    @property
    def time(self) -> float:
        """ℓ* · step: how long the flow dh/dt = f(h) runs that a tied teacher discretises (√ℓ* at 1/√ℓ*)."""
        return self.depth * self.step

    def network(
        self, key: PRNGKeyArray, width: int, hidden: int, vocabulary: int | None = None
    ) -> AbstractNetwork:
        """The teacher drawn from `key`; with a `vocabulary` it has a head, uniform in ±1/√width."""
        key_layers, key_head = jax.random.split(key)
        head = None
        if vocabulary is not None:
            bound = width**-0.5
            head = jax.random.uniform(key_head, (vocabulary, width), minval=-bound, maxval=bound)
        layers = self.layers(key_layers, width, hidden).scaled(self.step)
        return ResidualNetwork(head=head, layers=layers)

    @abc.abstractmethod
    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """The ℓ* layers, stacked, before the residual scale."""


@dataclass(frozen=True)
class Independent(Teacher):
    """Every layer draws its own weights: hidden states walk randomly."""

    kind: ClassVar[str] = "independent"

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return _own(key, self.depth, width, hidden)


@dataclass(frozen=True)
class Tied(Teacher):
    """One layer, repeated: hidden states follow a smooth flow."""

    kind: ClassVar[str] = "tied"

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return _shared(key, self.depth, width, hidden)


@dataclass(frozen=True)
class Correlated(Teacher):
    """Each layer is ρ · shared + √(1 − ρ²) · own, which keeps the variance of every weight.

    The shared and own weights are those that `Tied` and `Independent` draw from the same key, so ρ = 1 and
    ρ = 0 give those teachers exactly. For ρ strictly between, the weights are no longer uniform (a sum of
    two uniforms); their mean and variance are unchanged.
    """

    kind: ClassVar[str] = "correlated"
    rho: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho is {self.rho}: it must lie between 0 (independent) and 1 (tied)")

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        shared = _shared(key, self.depth, width, hidden)
        own = _own(key, self.depth, width, hidden)
        weight = (1 - self.rho**2) ** 0.5
        return jax.tree.map(lambda a, b: self.rho * a + weight * b, shared, own)


@dataclass(frozen=True)
class Flow(Teacher):
    """The limit of `Tied` as the layers become infinitely many and infinitely thin, at equal `time`.

    dh/dt = f(h) with the layer that `Tied` draws from the same key, solved adaptively by diffrax to
    `tolerance` (relative and absolute) for t up to `time` = ℓ* · step. `depth` sets that time and the
    number of states that are read off.
    """

    kind: ClassVar[str] = "flow"
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is {self.tolerance}: it must be positive")

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return _shared(key, self.depth, width, hidden)

    def network(
        self, key: PRNGKeyArray, width: int, hidden: int, vocabulary: int | None = None
    ) -> AbstractNetwork:
        discrete = super().network(key, width, hidden, vocabulary)
        assert isinstance(discrete, ResidualNetwork)
        layer = discrete.layer(0)
        assert isinstance(layer, Euler)
        return FlowNetwork(head=discrete.head, mlp=layer.mlp, num_states=self.depth, tolerance=self.tolerance)


def _own(key: PRNGKeyArray, depth: int, width: int, hidden: int) -> AbstractLayer:
    return draw_layers(Euler, jax.random.fold_in(key, 0), depth, width, hidden)


def _shared(key: PRNGKeyArray, depth: int, width: int, hidden: int) -> AbstractLayer:
    one = draw_layers(Euler, jax.random.fold_in(key, 1), 1, width, hidden)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, depth, axis=0), one)
