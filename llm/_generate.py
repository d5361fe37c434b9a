"""Generation, one token after another, with keys and values of the positions before kept.

Symbols: batch B, positions S that there is room for, recurrences r, slots c ≤ r of the recurrences' cache.
"""

import functools
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from llm._blocks import Cache, Positions, Rotary, rms_norm, run_blocks
from llm._model import LoopedLM, check_vocabulary
from llm._products import precise
from llm._rules import require, require_recurrences


class KVCache(NamedTuple):
    """Keys and values of the positions before `length`, of every executed layer.

    The recurrences' have leading axes (slot, layer of the block): recurrence i uses slot i mod c. With c = r
    each has its own; with fewer, a new token sees those that the last c recurrences left of the tokens before
    it.
    """

    prelude: Cache
    recurrences: Cache
    coda: Cache
    length: Int[Array, ""]

    @classmethod
    def empty(
        cls, model: LoopedLM, batch: int, room: int, num_recur: int, slots: int | None = None
    ) -> "KVCache":
        """For `batch` sequences of `room` positions. slots: of the recurrences, by default all.

        Raises ValueError for slots that are not from 1 to r.
        """
        config = model.config
        require(
            slots is None or 1 <= slots <= num_recur,
            "slots",
            slots,
            f"must be from 1 to r, which is {num_recur}",
        )
        heads = config.width // config.head_size

        def zeros(*layers: int) -> Cache:
            shape = (*layers, batch, room, heads, config.head_size)
            return Cache(jnp.zeros(shape, model.embedding.dtype), jnp.zeros(shape, model.embedding.dtype))

        return cls(
            zeros(config.prelude), zeros(slots or num_recur, config.block), zeros(config.coda), jnp.array(0)
        )


def extend(
    model: LoopedLM, tokens: Int[Array, "B T"], cache: KVCache, num_recur: int
) -> tuple[Float[Array, "B T V"], KVCache]:
    """Logits of the token after each of `tokens`, which follow those in the cache; the cache with them.

    Every token sees all before it, also in a model that was trained with `mask_documents`.

    Raises ValueError for tokens outside the vocabulary, and where the cache has no room for them (under
    `jax.jit`, where its length is not known, this cannot be seen, and the last positions are overwritten).
    """
    config, length, room = model.config, tokens.shape[1], cache.prelude.keys.shape[-3]
    check_vocabulary(tokens, model.vocabulary, "tokens")
    if not isinstance(cache.length, jax.core.Tracer) and int(cache.length) + length > room:
        raise ValueError(
            f"tokens: {length} after the {int(cache.length)} in the cache, which has room for {room}: make a "
            "larger one"
        )
    at = cache.length + jnp.arange(length)
    seen = jnp.arange(room)[None, :] <= at[:, None]
    positions = Positions(Rotary.at(at, config.head_size), seen[None, None], cache.length)
    e, prelude = run_blocks(model.prelude, model.embed(tokens), positions, cache.prelude)
    injection = config.injected
    slots = cache.recurrences.keys.shape[0]

    def recurrence(i: Array, carried: tuple[Array, Cache]) -> tuple[Array, Cache]:
        state, caches = carried
        u = injection.read(model.injection, e, state, i)
        slot = i % slots
        u, of_block = run_blocks(model.recurrent, u, positions, jax.tree.map(lambda leaf: leaf[slot], caches))
        caches = jax.tree.map(lambda leaf, new: leaf.at[slot].set(new), caches, of_block)
        return injection.write(model.injection, state, rms_norm(u, model.recurrence_scale), i), caches

    state, recurrences = jax.lax.fori_loop(0, num_recur, recurrence, (injection.start(e), cache.recurrences))
    h, coda = run_blocks(model.coda, injection.finish(state), positions, cache.coda)
    return model.logits(h), KVCache(prelude, recurrences, coda, cache.length + length)


def generate(
    model: LoopedLM,
    prompt: ArrayLike | Sequence[Sequence[int]],
    new_tokens: int,
    *,
    key: PRNGKeyArray | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    num_recur: int | None = None,
    slots: int | None = None,
) -> Int[Array, "B new_tokens"]:
    """`new_tokens` tokens after each prompt of (B, T) tokens.

    key: of the draws; it may be left out at temperature 0, where the likeliest token is taken. top_k: only
    the k likeliest tokens are drawn from. num_recur: r, by default the config's. slots: the recurrences whose
    keys and values are kept (None: all).

    Raises ValueError naming the argument: a prompt that is empty or has tokens outside the vocabulary, a
    negative temperature, no key at a positive one, top_k or slots out of range.
    """
    prompt = jnp.asarray(prompt)
    require(jnp.issubdtype(prompt.dtype, jnp.integer), "prompt", prompt.dtype, "must hold integers")
    r = model.config.num_recur if num_recur is None else num_recur
    require_recurrences(num_recur)
    require(new_tokens >= 1, "new_tokens", new_tokens, "must be at least 1")
    require(temperature >= 0, "temperature", temperature, "must be at least 0")
    require(prompt.ndim == 2 and prompt.size > 0, "prompt", prompt.shape, "must be (B, T), neither of them 0")
    check_vocabulary(prompt, model.vocabulary, "prompt")
    if top_k is not None:
        require(
            isinstance(top_k, Integral) and 1 <= top_k <= model.vocabulary,
            "top_k",
            top_k,
            f"must be a whole number from 1 to the vocabulary, {model.vocabulary}",
        )
    if key is None:
        require(temperature == 0, "key", key, "must be given at a positive temperature")
        key = jax.random.key(0)
    room = prompt.shape[1] + new_tokens
    cache = KVCache.empty(model, prompt.shape[0], room, r, slots)
    with precise(str(model.embedding.dtype)):
        return _generate(model, prompt, cache, key, temperature, r, new_tokens, top_k)


@functools.partial(jax.jit, static_argnums=(5, 6, 7))
def _generate(
    model: LoopedLM,
    prompt: Array,
    cache: KVCache,
    key: Array,
    temperature: Array,
    num_recur: int,
    new_tokens: int,
    top_k: int | None,
) -> Array:
    def drawn(logits: Array, step: Array) -> Array:
        if top_k is not None:
            values, ids = jax.lax.top_k(logits, top_k)  # by place: equal logits can be more than k
            rows = jnp.arange(len(ids))[:, None]
            logits = jnp.full_like(logits, -jnp.inf).at[rows, ids].set(values)
        noisy = jax.random.categorical(
            jax.random.fold_in(key, step), logits / jnp.where(temperature > 0, temperature, 1.0)
        )
        return jnp.where(temperature > 0, noisy, jnp.argmax(logits, axis=-1))

    def step(carried: tuple[Array, KVCache], index: Array) -> tuple[tuple[Array, KVCache], Array]:
        token, cache = carried
        logits, cache = extend(model, token[:, None], cache, num_recur)
        after = drawn(logits[:, -1], index)
        return (after, cache), after

    logits, cache = extend(model, prompt, cache, num_recur)
    first = drawn(logits[:, -1], jnp.array(0))
    _, others = jax.lax.scan(step, (first, cache), jnp.arange(1, new_tokens))
    return jnp.concatenate([first[None], others]).T
