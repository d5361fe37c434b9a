"""A stack of equal layers: its forward pass, its hidden states along depth, an optional head."""

import abc
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from toymodels._layers import AbstractLayer, Weights, rms_norm, uniform


class AbstractNetwork(eqx.Module):
    """A map of depth: h_0 = rms_norm(x), h_0 → h_1 → … → h_ℓ, output rms_norm(h_ℓ)."""

    head: eqx.AbstractVar[Float[Array, "vocabulary width"] | None]

    @property
    @abc.abstractmethod
    def depth(self) -> int:
        """ℓ, the number of steps from h_0 to h_ℓ."""

    @abc.abstractmethod
    def states(self, x: Float[Array, "width *batch"]) -> Float[Array, "states width *batch"]:
        """The trajectory h_0 … h_ℓ, ℓ + 1 states, not normalised."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        """The final normalised state rms_norm(h_ℓ)."""

    def logits(
        self, x: Float[Array, "width *batch"], temperature: float = 1.0
    ) -> Float[Array, "vocabulary *batch"]:
        """W_head · rms_norm(h_ℓ) / T.

        Raises ValueError for a network without a head.
        """
        if self.head is None:
            raise ValueError("the network has no head: draw it with a vocabulary to get logits")
        return jnp.tensordot(self.head, self(x), 1) / temperature


class ResidualNetwork(AbstractNetwork):
    """ℓ layers of one kind, run over depth by `jax.lax.scan`.

    `layers` is one layer whose every array has a leading axis of length ℓ. `unroll` layers are written out
    per loop step; the result does not depend on it, the speed does (tests/benchmarks/README.md).
    """

    head: Float[Array, "vocabulary width"] | None
    layers: AbstractLayer
    unroll: int = eqx.field(static=True, default=1)

    @property
    def depth(self) -> int:
        return jax.tree.leaves(self.layers)[0].shape[0]

    def states(self, x: Float[Array, "width *batch"]) -> Float[Array, "states width *batch"]:
        start = rms_norm(x)

        def step(h: Array, layer: AbstractLayer) -> tuple[Array, Array]:
            after = layer(h)
            return after, after

        _, after = jax.lax.scan(step, start, self.layers, unroll=self.unroll)
        return jnp.concatenate([start[None], after])

    def __call__(self, x: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        final, _ = jax.lax.scan(
            lambda h, layer: (layer(h), None), rms_norm(x), self.layers, unroll=self.unroll
        )
        return rms_norm(final)

    def layer(self, index: int) -> AbstractLayer:
        """Layer `index` on its own, 0 ≤ index < ℓ."""
        return jax.tree.map(lambda leaf: leaf[index], self.layers)

    @classmethod
    def student(
        cls,
        kind: type[AbstractLayer],
        key: PRNGKeyArray,
        *,
        width: int,
        hidden: int,
        depth: int,
        vocabulary: int | None = None,
        unroll: int = 1,
    ) -> "ResidualNetwork":
        """An untrained student: independent layers with every W₂ zero, so that it starts as the identity.

        With a `vocabulary` it has a learnt head, which starts at zero too.
        """
        layers = draw_layers(kind, key, depth, width, hidden).scaled(0.0)
        head = None if vocabulary is None else jnp.zeros((vocabulary, width))
        return cls(head=head, layers=layers, unroll=unroll)


def draw_layers(
    kind: type[AbstractLayer],
    key: PRNGKeyArray,
    depth: int,
    width: int,
    hidden: int,
    weights: Weights = uniform,
) -> AbstractLayer:
    """`depth` independent layers, stacked along a leading axis. Layer l depends on (key, l) alone."""
    # One layer at a time: a single small compilation serves every depth, where drawing all layers of a
    # cohort in one program takes XLA longer to compile than the training step.
    keys = (jax.random.fold_in(key, index) for index in range(depth))
    layers = [_draw_layer(kind, each, width, hidden, weights) for each in keys]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *layers)


@functools.partial(jax.jit, static_argnums=(0, 2, 3, 4))
def _draw_layer(
    kind: type[AbstractLayer], key: PRNGKeyArray, width: int, hidden: int, weights: Weights
) -> AbstractLayer:
    return kind.draw(key, width, hidden, weights)
