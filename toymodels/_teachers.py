"""Teachers: how the weights vary along depth (arXiv:2602.05970, section 4).

A teacher kind is a small frozen config that says its `layers` and their correlation. To add one, subclass
`Teacher`, here or in a module of your own (docs/extending.md): configs, presets and records find it by its
`kind`.
"""

import abc
import math
from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from toymodels._drift import check_resolution, correlation, drift_path, exact_drift
from toymodels._layers import AbstractLayer, Euler, Weights, deviation, normal, uniform
from toymodels._limits import DriftingFlowNetwork, FlowNetwork
from toymodels._network import AbstractNetwork, ResidualNetwork, draw_layers


@dataclass(frozen=True)
class Teacher(abc.ABC):
    """A deep residual network (`Euler` layers) that students imitate.

    Every W₂ is multiplied by `residual_scale` · ℓ*^(−`residual_power`), ℓ* = `depth`. The paper's scale
    1/√ℓ* is the default; `residual_power = 1` gives 1/ℓ*. Weights are uniform as in the paper or, with
    `normal_weights`, normal of the same variance 1/(3·fan_in).

    Raises ValueError for a depth below 1 and a scale that is not positive.
    """

    kind: ClassVar[str]
    depth: int = 128
    residual_scale: float = 1.0
    residual_power: float = 0.5
    normal_weights: bool = False

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth of the teacher is {self.depth}: it must be at least 1")
        if not 0 < self.residual_scale < math.inf:
            raise ValueError(f"residual_scale is {self.residual_scale}: it must be positive and finite")
        if not abs(self.residual_power) <= 4:
            raise ValueError(f"residual_power is {self.residual_power}: it must lie between -4 and 4")

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
        head = None if vocabulary is None else uniform(key_head, (vocabulary, width), width)
        layers = self.layers(key_layers, width, hidden).scaled(self.step)
        return ResidualNetwork(head=head, layers=layers)

    @abc.abstractmethod
    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """The ℓ* layers, stacked, before the residual scale."""

    @abc.abstractmethod
    def correlation(self, lag: int) -> float:
        """Of a weight with the same weight `lag` layers further on; 1 at lag 0."""

    @property
    @abc.abstractmethod
    def correlation_length(self) -> float:
        """In units of the whole depth; 0 without correlation, inf where it does not fall with distance."""

    def own(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """Independent layers, stacked: those of `Independent` with this key."""
        return draw_layers(Euler, jax.random.fold_in(key, 0), self.depth, width, hidden, self._weights)

    def shared(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """The layer of `Tied` with this key, with a leading axis of 1."""
        return draw_layers(Euler, jax.random.fold_in(key, 1), 1, width, hidden, self._weights)

    def repeated(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """The layer of `Tied` ℓ* times."""
        return jax.tree.map(lambda w: jnp.repeat(w, self.depth, axis=0), self.shared(key, width, hidden))

    @property
    def _weights(self) -> Weights:
        return normal if self.normal_weights else uniform


@dataclass(frozen=True)
class Independent(Teacher):
    """Every layer draws its own weights: hidden states walk randomly."""

    kind: ClassVar[str] = "independent"

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return self.own(key, width, hidden)

    def correlation(self, lag: int) -> float:
        return float(lag == 0)

    @property
    def correlation_length(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Tied(Teacher):
    """One layer, repeated: hidden states follow a smooth flow."""

    kind: ClassVar[str] = "tied"

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return self.repeated(key, width, hidden)

    def correlation(self, lag: int) -> float:
        return 1.0

    @property
    def correlation_length(self) -> float:
        return math.inf


@dataclass(frozen=True)
class Correlated(Teacher):
    """Each layer is ρ · shared + √(1 − ρ²) · own, which keeps the variance of every weight.

    The shared and own weights are those that `Tied` and `Independent` draw from the same key, so ρ = 1 and
    ρ = 0 give those teachers exactly. For ρ strictly between, uniform weights become sums of two uniforms,
    of unchanged mean and variance. Raises ValueError as `Teacher`, and for ρ outside [0, 1].
    """

    kind: ClassVar[str] = "correlated"
    rho: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rho <= 1:
            raise ValueError(f"rho is {self.rho}: it must lie between 0 (independent) and 1 (tied)")

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        shared, own = self.repeated(key, width, hidden), self.own(key, width, hidden)
        weight = (1 - self.rho**2) ** 0.5
        return jax.tree.map(lambda a, b: self.rho * a + weight * b, shared, own)

    def correlation(self, lag: int) -> float:
        return 1.0 if lag == 0 else self.rho**2

    @property
    def correlation_length(self) -> float:
        return math.inf if self.rho else 0.0


@dataclass(frozen=True)
class Drifting(Teacher):
    """Weights that follow a stationary Ornstein–Uhlenbeck process along depth (`toymodels.theory`).

    length: λ, the correlation length in units of the whole depth. 0 gives `Independent` and inf `Tied`, with
    normal weights and the same key, bit for bit. Between them the first layer is `Tied`'s.

    resolution: None reads the process in its exact discrete form, which is another path at every depth: what
    is new in every layer but the first is `Independent`'s. A number reads one path of so many steps, solved
    as an SDE, at t = l/ℓ*: the same at every depth, which must divide it, so that a deeper teacher refines a
    shallower one.

    Raises ValueError as `Teacher`, for a negative length, for uniform weights, and for a resolution that the
    depth does not divide or that is too coarse for the length.
    """

    kind: ClassVar[str] = "drifting"
    normal_weights: bool = True
    length: float = field(default=0.25, metadata={"may_be_infinite": True})
    resolution: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.length >= 0:
            raise ValueError(f"length is {self.length}: it must lie between 0 (independent) and inf (tied)")
        if not self.normal_weights:
            raise ValueError("normal_weights is False: weights that drift are normal at every layer")
        if self.resolution is not None:
            if self.resolution < 1 or self.resolution % self.depth:
                raise ValueError(
                    f"resolution is {self.resolution}: it must be a multiple of the teacher's depth, "
                    f"{self.depth}"
                )
            check_resolution(self.length, self.resolution)

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        if self.resolution is not None:
            stride = self.resolution // self.depth
            return jax.tree.map(lambda w: w[:-1:stride], self._path(key, width, hidden))
        if self.length == 0:
            return self.own(key, width, hidden)
        return exact_drift(self.shared(key, width, hidden), self.own(key, width, hidden), self.length)

    def _path(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        """The layers at t = k/`resolution`, k = 0 … `resolution`, before the residual scale.

        Raises ValueError without a resolution.
        """
        if self.resolution is None:
            raise ValueError("resolution is not set: the exact form has no weights between two layers")
        start = self.shared(key, width, hidden)
        spread = draw_layers(Euler, key, 1, width, hidden, deviation)
        return drift_path(jax.random.fold_in(key, 2), start, spread, self.length, self.resolution)

    def flow(self, key: PRNGKeyArray, width: int, hidden: int) -> DriftingFlowNetwork:
        """What the teacher of this key tends to as ℓ* and the resolution grow, at equal `time`; headless.

        Raises ValueError without a resolution.
        """
        key_layers, _ = jax.random.split(key)
        path = self._path(key_layers, width, hidden).scaled(self.time)
        assert isinstance(path, Euler)
        return DriftingFlowNetwork(head=None, path=path.mlp, num_states=self.depth)

    def correlation(self, lag: int) -> float:
        return correlation(lag / self.depth, self.length)

    @property
    def correlation_length(self) -> float:
        return self.length


@dataclass(frozen=True)
class Flow(Teacher):
    """The limit of `Tied` as the layers become infinitely many and infinitely thin, at equal `time`.

    dh/dt = f(h) with the layer that `Tied` draws from the same key, solved adaptively by diffrax to
    `tolerance` (relative and absolute) for t up to `time` = ℓ* · step. `depth` sets that time and the
    number of states that are read off. Raises ValueError as `Teacher`, and for a tolerance that is not
    positive.
    """

    kind: ClassVar[str] = "flow"
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is {self.tolerance}: it must be positive")

    def layers(self, key: PRNGKeyArray, width: int, hidden: int) -> AbstractLayer:
        return self.repeated(key, width, hidden)

    def network(
        self, key: PRNGKeyArray, width: int, hidden: int, vocabulary: int | None = None
    ) -> AbstractNetwork:
        discrete = super().network(key, width, hidden, vocabulary)
        assert isinstance(discrete, ResidualNetwork)
        layer = discrete.layer(0)
        assert isinstance(layer, Euler)
        return FlowNetwork(head=discrete.head, mlp=layer.mlp, num_states=self.depth, tolerance=self.tolerance)

    def correlation(self, lag: int) -> float:
        return 1.0

    @property
    def correlation_length(self) -> float:
        return math.inf
