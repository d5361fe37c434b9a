"""The pre-norm transformer block: rotary attention with QK-norm, squared-ReLU MLP, no biases.

Symbols: width d, head size s, heads d/s, T positions. Weights are (in, out); a stack of blocks is one `Block`
whose every array has a leading axis of layers.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from llm import _products
from llm._attention import attention

EPSILON = 1e-6
"""Of every RMSNorm (arXiv:2604.21106, appendix on models)."""

MLP_FACTOR = 4
"""Hidden size of the MLP / width."""


def rms_norm(
    x: Float[Array, "*shape n"], scale: Float[Array, " n"] | None = None
) -> Float[Array, "*shape n"]:
    """x / √(mean x² + ε) · scale, over the last axis; computed in float32, returned in the type of `x`."""
    wide = x.astype(jnp.float32)
    normal = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)
    if scale is not None:
        normal = normal * scale
    return normal.astype(x.dtype)


class Rotary(NamedTuple):
    """Cosines and sines of position · base^(-2j/s), j = 0 … s/2 − 1 (Su et al., arXiv:2104.09864)."""

    cos: Float[Array, "T half"]
    sin: Float[Array, "T half"]

    @classmethod
    def at(cls, positions: Int[Array, " T"], head_size: int, base: float = 10_000.0) -> "Rotary":
        """At these positions."""
        frequencies = base ** (-jnp.arange(0, head_size, 2, dtype=jnp.float32) / head_size)
        angles = positions[:, None].astype(jnp.float32) * frequencies
        return cls(jnp.cos(angles), jnp.sin(angles))

    def __call__(self, x: Float[Array, "B T heads s"]) -> Float[Array, "B T heads s"]:
        """Rotates the pairs (x_j, x_{j + s/2}) by minus the angles of their position."""
        first, second = jnp.split(x, 2, axis=-1)
        cos, sin = (table[:, None, :].astype(x.dtype) for table in self)
        return jnp.concatenate([first * cos + second * sin, second * cos - first * sin], axis=-1)


class Cache(NamedTuple):
    """Keys and values of the positions so far, of one block or, with a leading axis, of several."""

    keys: Float[Array, "*layers B S heads s"]
    values: Float[Array, "*layers B S heads s"]


class Positions(NamedTuple):
    """What attention needs beside the states.

    rotary: at the positions of the states. mask: which of the keys (last axis) a query may see; None: its own
    position and those before. start: where in a `Cache` these positions go.
    """

    rotary: Rotary
    mask: Bool[Array, "#B 1 T S"] | None = None
    start: Int[Array, ""] | int = 0


class Block(eqx.Module):
    """h ← h + Attention(norm(h)); h ← h + W_down relu(W_up norm(h))².

    Rotary embedding comes before the RMSNorm (without scale) of queries and keys. Reference:
    arXiv:2604.21106, the section on models.
    """

    attention_scale: Float[Array, " d"]
    query: Float[Array, "d d"]
    key: Float[Array, "d d"]
    value: Float[Array, "d d"]
    output: Float[Array, "d d"]
    mlp_scale: Float[Array, " d"]
    up: Float[Array, "d hidden"]
    down: Float[Array, "hidden d"]
    head_size: int = eqx.field(static=True)

    @classmethod
    def draw(cls, key: PRNGKeyArray, width: int, head_size: int) -> "Block":
        """An untrained block: uniform weights of standard deviation 1/√fan_in, scales 1."""
        hidden = MLP_FACTOR * width
        shapes = {name: (width, width) for name in ("query", "key", "value", "output")}
        shapes |= {"up": (width, hidden), "down": (hidden, width)}
        # All at once: a generator for each array would be half as much again to compile.
        sizes = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = jnp.split(jax.random.uniform(key, (int(sizes[-1]),), minval=-1.0), sizes[:-1])
        weights = {
            name: (3 / shape[0]) ** 0.5 * part.reshape(shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
        ones = jnp.ones(width)
        return cls(attention_scale=ones, mlp_scale=ones, head_size=head_size, **weights)

    def __call__(
        self, h: Float[Array, "B T d"], positions: Positions, cache: Cache | None = None
    ) -> tuple[Float[Array, "B T d"], Cache | None]:
        """The states after the block, and `cache` with their keys and values put in."""
        x = rms_norm(h, self.attention_scale)
        query, key, value = (
            self._heads(_products.apply(x, matrix)) for matrix in (self.query, self.key, self.value)
        )
        query, key = (rms_norm(positions.rotary(part)) for part in (query, key))
        if cache is not None:
            at = (0, positions.start, 0, 0)
            cache = Cache(
                jax.lax.dynamic_update_slice(cache.keys, key.astype(cache.keys.dtype), at),
                jax.lax.dynamic_update_slice(cache.values, value.astype(cache.values.dtype), at),
            )
            key, value = cache
        seen = attention(query, key, value, positions.mask)
        h = h + _products.apply(seen.reshape(h.shape), self.output)
        hidden = jnp.square(jax.nn.relu(_products.apply(rms_norm(h, self.mlp_scale), self.up)))
        return h + _products.apply(hidden, self.down), cache

    def _heads(self, x: Float[Array, "B T d"]) -> Float[Array, "B T heads s"]:
        return x.reshape(*x.shape[:-1], -1, self.head_size)


def draw_blocks(key: PRNGKeyArray, depth: int, width: int, head_size: int) -> Block:
    """`depth` untrained blocks, stacked. Block l depends on (key, l) alone."""
    keys = jax.vmap(lambda index: jax.random.fold_in(key, index))(jnp.arange(depth))
    return jax.vmap(lambda one: Block.draw(one, width, head_size))(keys)


def run_blocks(
    blocks: Block,
    h: Float[Array, "B T d"],
    positions: Positions,
    cache: Cache | None = None,
    *,
    visit: Callable[[Int[Array, ""], Array], Array] | None = None,
    rematerialise: bool = False,
) -> tuple[Float[Array, "B T d"], Any]:
    """The states after a stack of blocks; and its cache, or with `visit` the states after each block.

    visit: is given the number of each block and the state after it; what it returns takes its place.
    """

    def step(h: Array, layer: tuple[Block, Cache | None, Array]) -> tuple[Array, Any]:
        block, of_block, number = layer
        after, of_block = block(h, positions, of_block)
        if visit is None:
            return after, of_block
        after = visit(number, after)
        return after, after

    if rematerialise:
        step = jax.checkpoint(step)
    return jax.lax.scan(step, h, (blocks, cache, jnp.arange(blocks.query.shape[0])))
