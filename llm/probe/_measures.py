"""What is measured of every token's trajectory h_0 … h_ℓ, and how much of it belongs together.

Symbols: batch B, positions T, width d, states S, rows R: one a measure and state, step, pair of layers, lag.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from llm.probe._model import State
from toymodels.dynamics import geometry

LAGS = 8
"""Largest lag between updates whose cosine is taken."""

LEFT = 0.05
"""A token has stopped where no more than this share of its way, the sum of its step angles, is left."""

MASSIVE = 1000.0
"""A state is massive where one entry is this many times its median (Sun et al., arXiv:2402.17762)."""


@dataclass(frozen=True)
class Measure:
    """A measure: what of a trajectory it has a value for, and the range that its histogram covers.

    per: state, step (between neighbouring states), pair (of neighbouring layers), lag, or token. low, high:
    the range; values outside count at its ends. log: whether bins are even in the logarithm.
    """

    name: str
    per: str
    unit: str | None
    low: float
    high: float
    log: bool = False


ANGLE = (0.0, float(np.pi))

MEASURES = (
    Measure("norm", "state", None, 1e-9, 1e9, log=True),
    Measure("angle_to_end", "state", "radians", *ANGLE),
    Measure("relative_progress", "state", None, -1.0, 2.0),
    Measure("step_angle", "step", "radians", *ANGLE),
    Measure("update_angle", "pair", "radians", *ANGLE),
    Measure("update_cosine", "lag", None, -1.0, 1.0),
    Measure("independent_updates", "token", "updates", 0.1, 1e6, log=True),
    Measure("bulk_step", "token", "radians", *ANGLE),
    Measure("bulk_update_angle", "token", "radians", *ANGLE),
    Measure("stop", "token", "share of the layers", 0.0, 1.0),
)
"""Of each, a row for every state, step, pair or lag. bulk_step, bulk_update_angle: means over the middle half
of the layers, the latter up to where the token stops. stop: layers done by then, over all layers."""


class Rows:
    """The rows of a network's measures, in order: which belong to which measure."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = tuple(states)
        self.layers = [step for step, state in enumerate(self.states[1:]) if state.is_layer]
        if len(self.layers) < 2:
            told = f"the network has {len(self.layers)} layer(s)"
            raise ValueError(f"{told}: at least 2 are needed for an angle between updates")
        counts = {
            "state": len(self.states),
            "step": len(self.states) - 1,
            "pair": len(self.layers) - 1,
            "lag": LAGS,
            "token": 1,
        }
        ends = np.cumsum([0, *(counts[measure.per] for measure in MEASURES)])
        self.slices = {m.name: slice(a, b) for m, a, b in zip(MEASURES, ends[:-1], ends[1:], strict=True)}
        self.count = int(ends[-1])
        self.low, self.high, self.log = (
            np.concatenate([np.full(counts[m.per], getattr(m, name)) for m in MEASURES])
            for name in ("low", "high", "log")
        )

    @property
    def depth(self) -> int:
        """Layers."""
        return len(self.layers)

    @property
    def bulk(self) -> range:
        """The middle half: all layers but the first and the last quarter, rounded down."""
        return range(self.depth // 4, self.depth - self.depth // 4)


class Measured(NamedTuple):
    """What a batch yields. values: of every token. massive: whether one of its states is."""

    values: Float[Array, "R B T"]
    massive: Bool[Array, "B T"]


def measure(rows: Rows, states: Float[ArrayLike, "S B T d"]) -> Measured:
    """Every measure of every token."""
    return _measure(tuple(rows.layers), rows.bulk, jnp.asarray(states))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _measure(layers: tuple[int, ...], bulk: range, states: Float[Array, "S B T d"]) -> Measured:
    found = geometry(states, layers, LAGS)
    steps = found.step_angles[np.array(layers)]
    stops = _stops(steps)
    pairs = np.array(bulk[:-1])
    moving = pairs[:, None, None] + 1 < stops
    turned = jnp.sum(jnp.where(moving, found.update_angles[pairs], 0.0), axis=0) / jnp.sum(moving, axis=0)
    token = (found.independent_updates, jnp.mean(steps[np.array(bulk)], axis=0), turned, stops / len(layers))
    values = jnp.concatenate(
        [
            found.norms,
            found.angles_to_end,
            found.relative_progress,
            found.step_angles,
            found.update_angles,
            found.update_cosines,
            jnp.stack(token),
        ]
    )
    # The median is at most largest / MASSIVE where half of the entries are; sorting would take longer.
    small = jnp.abs(states) * MASSIVE <= found.largest[..., None]
    half = jnp.sum(small, axis=-1) >= (states.shape[-1] + 1) // 2
    return Measured(values, jnp.any(half & (found.largest > 0), axis=0))


def _stops(steps: Float[Array, "layers B T"]) -> Int[Array, "B T"]:
    """Layers after which no more than LEFT of the way is left."""
    way = jnp.sum(steps, axis=0)
    left = way - jnp.cumsum(steps, axis=0)
    return jnp.where(way == 0, 0, jnp.sum(left > LEFT * way, axis=0) + 1)
