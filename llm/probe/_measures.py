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
from toymodels.dynamics import angle, geometry

LAGS = 8
"""Largest lag between updates whose cosine is taken."""

LEFT = 0.05
"""A token has stopped where no more than this share of its way, the sum of its step angles, is left."""

EARLY = 0.5
"""A token stops early if it has stopped by this share of the layers."""

STILL = 1e-3
"""An update this much shorter than a token's mean update has no direction to speak of."""

MASSIVE = 1000.0
"""A state is massive where one entry is this many times its median, as Sun et al. (arXiv:2402.17762) have it;
they also ask for an entry above 100, which states of other scales than theirs need not have."""

CHUNK_BYTES = 2**19
"""States that are measured together on a CPU, so that what is made of them stays in its cache."""


@dataclass(frozen=True)
class Measure:
    """A measure: what of a trajectory it has a value for, and the range that its histogram covers.

    per: state, step (between neighbouring states), pair (of neighbouring layers), lag, recurrence, or token.
    low, high: the range; values outside count at its ends. log: whether bins are even in the logarithm.
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
    Measure("recurrence_step", "recurrence", "radians", *ANGLE),
    Measure("independent_updates", "token", "updates", 0.1, 1e6, log=True),
    Measure("bulk_step", "token", "radians", *ANGLE),
    Measure("bulk_update_angle", "token", "radians", *ANGLE),
    Measure("stop", "token", "share of the layers", 0.0, 1.0),
    Measure("early", "token", "share of tokens", 0.0, 1.0),
)
"""Of each, a row for every state, step, pair, lag, or pair of neighbouring recurrences, whose ends
recurrence_step is the angle between. bulk_step, bulk_update_angle: means over the middle half of the layers.
Angles between updates of which one is still (`STILL`) have no value, NaN. stop: layers done where the way up
to the end of the middle half ends, over all layers; the last layers, which turn every state, are no part of
it. early: whether that is by `EARLY`."""


class Rows:
    """The rows of a network's measures, in order: which belong to which measure."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = tuple(states)
        self.layers = [step for step, state in enumerate(self.states[1:]) if state.is_layer]
        if len(self.layers) < 2:
            told = f"the network has {len(self.layers)} layer(s)"
            raise ValueError(f"{told}: at least 2 are needed for an angle between updates")
        last = {state.recurrence: number for number, state in enumerate(self.states)}
        self.ends = tuple(number for recurrence, number in last.items() if recurrence is not None)
        counts = {
            "state": len(self.states),
            "step": len(self.states) - 1,
            "pair": len(self.layers) - 1,
            "lag": LAGS,
            "recurrence": max(0, len(self.ends) - 1),
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
    states = jnp.asarray(states)
    number, batch, positions, width = states.shape
    together = batch * positions
    if jax.default_backend() == "cpu":
        together = _divisor(together, max(32, CHUNK_BYTES // (4 * number * width)))
    return _measure(tuple(rows.layers), rows.bulk, rows.ends, together, states)


def _divisor(number: int, most: int) -> int:
    """The largest divisor that is at most `most`."""
    return next(divisor for divisor in range(min(number, most), 0, -1) if number % divisor == 0)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _measure(
    layers: tuple[int, ...],
    bulk: range,
    ends: tuple[int, ...],
    together: int,
    states: Float[Array, "S B T d"],
) -> Measured:
    number, batch, positions, width = states.shape
    tokens = states.reshape(number, batch * positions, width)
    if together < batch * positions:
        parts = jnp.moveaxis(tokens.reshape(number, -1, together, width), 1, 0)
        values, massive = jax.lax.map(functools.partial(_of_tokens, layers, bulk, ends), parts)
        values = jnp.moveaxis(values, 0, 1)
    else:
        values, massive = _of_tokens(layers, bulk, ends, tokens)
    return Measured(values.reshape(-1, batch, positions), massive.reshape(batch, positions))


def _of_tokens(
    layers: tuple[int, ...], bulk: range, ends: tuple[int, ...], states: Float[Array, "S n d"]
) -> tuple[Array, Array]:
    found = geometry(states, layers, LAGS)
    steps = found.step_angles[np.array(layers)]
    still = found.update_norms < STILL * jnp.mean(found.update_norms, axis=0)
    angles = jnp.where(still[:-1] | still[1:] | (found.update_norms[1:] == 0), jnp.nan, found.update_angles)
    stop = _stops(steps[: bulk.stop]) / len(layers)
    between = angle(states[np.array(ends[:-1], int)], states[np.array(ends[1:], int)])
    token = (
        found.independent_updates,
        jnp.mean(steps[np.array(bulk)], axis=0),
        jnp.nanmean(angles[np.array(bulk[:-1])], axis=0),
        stop,
        (stop <= EARLY).astype(stop.dtype),
    )
    values = jnp.concatenate(
        [
            found.norms,
            found.angles_to_end,
            found.relative_progress,
            found.step_angles,
            angles,
            found.update_cosines,
            between,
            jnp.stack(token),
        ]
    )
    # The median is at most largest / MASSIVE where half of the entries are; sorting would take longer.
    small = jnp.abs(states) * MASSIVE <= found.largest[..., None]
    ones = jnp.ones(states.shape[-1], states.dtype)  # a product takes a third of the time of a sum
    half = small.astype(states.dtype) @ ones >= (states.shape[-1] + 1) // 2
    return values, jnp.any(half & (found.largest > 0), axis=0)


def _stops(steps: Float[Array, "layers n"]) -> Int[Array, " n"]:
    """Layers after which no more than LEFT of the way is left."""
    way = jnp.sum(steps, axis=0)
    left = way - jnp.cumsum(steps, axis=0)
    return jnp.where(way == 0, 0, jnp.sum(left > LEFT * way, axis=0) + 1)
