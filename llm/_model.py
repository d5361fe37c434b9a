"""The looped language model: embedding → prelude → recurrent block × r → coda → logits.

Symbols: width d, positions T, batch B, vocabulary V, recurrences r, of which the last k keep gradients.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from llm._blocks import Block, Positions, Rotary, draw_blocks, rms_norm, run_blocks
from llm._config import ModelConfig
from llm._injection import Parameters, State
from llm._rules import require_recurrences

VOCABULARY_MULTIPLE = 64
"""The rows of embedding and head are padded to a multiple of this."""

SOFT_CAP = 15.0
"""Logits are SOFT_CAP · tanh(z / SOFT_CAP)."""


def padded(vocabulary: int) -> int:
    """Rows of embedding and head."""
    return -(-vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


class LoopedLM(eqx.Module):
    r"""Decoder-only, pre-norm; equal blocks run by `jax.lax.scan`, recurrences by another.

    $$x = \mathrm{norm}(\mathrm{embed}(tokens)), \quad e = \mathrm{prelude}(x), \quad
    h_{i+1} = \mathrm{norm}(\mathrm{block}(\mathrm{inject}(e, h_i))), \quad
    z = 15 \tanh(W\,\mathrm{norm}(\mathrm{coda}(h_r)) / 15)$$

    With r = 1 and `Passthrough` it is a plain transformer, but for the norm in the place of the recurrence's
    end, which every model has. `injection` holds what the injection learns.

    ??? cite "Reference"

        arXiv:2604.21106, the section on models.
    """

    embedding: Float[Array, "padded d"]
    embedding_scale: Float[Array, " d"]
    prelude: Block
    recurrent: Block
    injection: Parameters
    recurrence_scale: Float[Array, " d"]
    coda: Block
    final_scale: Float[Array, " d"]
    head: Float[Array, "d padded"]
    config: ModelConfig = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)

    @classmethod
    def draw(cls, config: ModelConfig, vocabulary: int, key: PRNGKeyArray) -> "LoopedLM":
        """An untrained model: embedding N(0, 1), head N(0, 0.001²), scales 1, blocks as `Block.draw`."""
        keys = jax.random.split(key, 5)
        width, head_size = config.width, config.head_size
        shape = (padded(vocabulary), width)
        return cls(
            embedding=jax.random.normal(keys[0], shape),
            embedding_scale=jnp.ones(width),
            prelude=draw_blocks(keys[1], config.prelude, width, head_size),
            recurrent=draw_blocks(keys[2], config.block, width, head_size),
            injection=config.injected.draw(width, config.num_recur),
            recurrence_scale=jnp.ones(width),
            coda=draw_blocks(keys[3], config.coda, width, head_size),
            final_scale=jnp.ones(width),
            head=0.001 * jax.random.normal(keys[4], shape[::-1]),
            config=config,
            vocabulary=vocabulary,
        )

    def __call__(
        self,
        tokens: Int[Array, "B T"],
        num_recur: int | None = None,
        *,
        documents: Int[Array, "B T"] | None = None,
        detached: Int[Array, ""] | int = 0,
        rematerialise: bool = False,
    ) -> Float[Array, "B T V"]:
        """Logits of the next token, float32.

        num_recur: r, by default the config's. documents: which document each token belongs to; tokens see
        only their own (None: all before them). detached: recurrences that come before the r and keep no
        gradient; it may be traced. rematerialise: keep the states between blocks for the gradient, no more.

        Raises ValueError for no recurrences, and for tokens outside the vocabulary, where their values are
        known (under `jax.jit` they are not, and look up what they may).
        """
        self._check(tokens, num_recur)
        positions = positions_of(tokens.shape[-1], self.config.head_size, documents)
        run = functools.partial(run_blocks, positions=positions, rematerialise=rematerialise)
        e, _ = run(self.prelude, self.embed(tokens))
        injection = self.config.injected
        state = injection.start(e)

        def recurrence(i: Any, state: State, model: LoopedLM, e: Array) -> State:
            u = injection.read(model.injection, e, state, i)
            u, _ = run(model.recurrent, u)
            return injection.write(model.injection, state, rms_norm(u, model.recurrence_scale), i)

        if not (isinstance(detached, int) and detached == 0):
            fixed, fixed_e = jax.lax.stop_gradient((self, e))
            after = jax.lax.fori_loop(
                0,
                detached,
                lambda i, state: recurrence(i, state, fixed, fixed_e),
                jax.lax.stop_gradient(state),
            )
            state = jnp.where(detached > 0, after, state)  # none, if traced: the gradient goes on to e
        kept = self.config.num_recur if num_recur is None else num_recur
        state, _ = jax.lax.scan(
            lambda state, i: (recurrence(i, state, self, e), None), state, detached + jnp.arange(kept)
        )
        h, _ = run(self.coda, injection.finish(state))
        return self.logits(h)

    def _check(self, tokens: Array, num_recur: int | None) -> None:
        require_recurrences(num_recur)
        check_vocabulary(tokens, self.vocabulary, "tokens")

    def embed(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T d"]:
        """norm(embedding of each token)."""
        return rms_norm(self.embedding[tokens], self.embedding_scale)

    def logits(self, h: Float[Array, "*shape d"]) -> Float[Array, "*shape V"]:
        """15 tanh(W norm(h) / 15), in float32 whatever the type of `h`."""
        z = jnp.matmul(rms_norm(h, self.final_scale), self.head, preferred_element_type=jnp.float32)
        return SOFT_CAP * jnp.tanh(z[..., : self.vocabulary] / SOFT_CAP)

    def states(self, tokens: Int[Array, "B T"], num_recur: int | None = None) -> dict[str, Array]:
        """Hidden states (B, T, d) by name, in the order in which they arise.

        `embedding`; `prelude.j`; `inject.i`, what the block of recurrence i reads; `recurrence.i.j` after
        its layer j, and `recurrence.i` at its end, after the norm (with lanes: what the coda would read);
        `coda.j`. All count from 0. Every token sees all before it. Raises as a call does.
        """
        self._check(tokens, num_recur)
        walked = self.walk(self.embed(tokens), num_recur)
        ends = {f"recurrence.{i}" for i in range(self.config.num_recur if num_recur is None else num_recur)}
        finish = self.config.injected.finish
        return {name: finish(state) if name in ends else state for name, state in walked.items()}

    def walk(
        self,
        embedded: Float[Array, "B T d"],
        num_recur: int | None = None,
        visit: Callable[[Any, State], State] = lambda number, state: state,
    ) -> dict[str, State]:
        """All states from `embedded`, which `embed` gives, on; names as in `states`.

        At a recurrence's end it is what is carried (lanes, where there are). visit: is given the number of
        each state in this order, which may be traced, and the state; what it returns takes its place.
        """
        positions = positions_of(embedded.shape[-2], self.config.head_size)
        found: dict[str, State] = {}

        def keep(name: str, state: State) -> State:
            found[name] = state = visit(len(found), state)
            return state

        def layers(name: str, blocks: Block, h: Array) -> Array:
            first = len(found)
            h, after = run_blocks(blocks, h, positions, visit=lambda j, h: visit(first + j, h))
            found.update({f"{name}.{j}": state for j, state in enumerate(after)})
            return h

        e = layers("prelude", self.prelude, keep("embedding", embedded))
        injection = self.config.injected
        state = injection.start(e)
        for i in range(self.config.num_recur if num_recur is None else num_recur):
            read = keep(f"inject.{i}", injection.read(self.injection, e, state, i))
            u = rms_norm(layers(f"recurrence.{i}", self.recurrent, read), self.recurrence_scale)
            state = keep(f"recurrence.{i}", injection.write(self.injection, state, u, i))
        layers("coda", self.coda, injection.finish(state))
        return found

    def labels(self) -> "LoopedLM":
        """The optimiser's group of every array: embedding, head, matrix, scale or lane."""
        return jax.tree.unflatten(jax.tree.structure(self), [group for group, _ in self._grouped()])

    def cast(self, dtype: Any) -> "LoopedLM":
        """With all but the norms' scales in another type."""
        leaves = [leaf if group == "scale" else leaf.astype(dtype) for group, leaf in self._grouped()]
        return jax.tree.unflatten(jax.tree.structure(self), leaves)

    def _grouped(self) -> Iterator[tuple[str, Array]]:
        """Every array after its group."""
        learnt = self.config.injected.labels
        for path, leaf in jax.tree.leaves_with_path(self):
            last = path[-1]
            if isinstance(last, jax.tree_util.DictKey):
                yield learnt[last.key], leaf
            elif last.name in ("embedding", "head"):
                yield last.name, leaf
            else:
                yield "scale" if last.name.endswith("_scale") else "matrix", leaf


def check_vocabulary(tokens: Array | np.ndarray, vocabulary: int, name: str) -> None:
    """Raise ValueError for tokens outside the vocabulary, where their values are known."""
    if isinstance(tokens, jax.core.Tracer) or tokens.size == 0:
        return
    known = np.asarray(tokens)  # with jnp, tokens that are known would be traced where others are
    least, most = int(known.min()), int(known.max())
    if least < 0 or most >= vocabulary:
        wrong = most if least >= 0 else least
        raise ValueError(f"{name}: {wrong} is no token: they must be from 0 to {vocabulary - 1}")


def positions_of(length: int, head_size: int, documents: Int[Array, "B T"] | None = None) -> Positions:
    """Positions 0 … T − 1, all visible to those after them, or those of the same document only."""
    rotary = Rotary.at(jnp.arange(length), head_size)
    if documents is None:
        return Positions(rotary)
    return Positions(rotary, same_document(documents)[:, None] & jnp.tril(jnp.ones((length, length), bool)))


def same_document(documents: Int[Array, "B T"]) -> Bool[Array, "B T T"]:
    """Whether two tokens belong to the same document."""
    return documents[:, :, None] == documents[:, None, :]


def documents_of(tokens: Int[Array, "B T"], separator: int) -> Int[Array, "B T"]:
    """Which document each token belongs to: a separator begins one."""
    return jnp.cumsum(tokens == separator, axis=-1)
