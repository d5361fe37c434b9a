"""Generation: the cache against whole forward passes, and the draws against their law."""

import functools
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from llm import (
    Additive,
    Hyperconnections,
    KVCache,
    Linear,
    LoopedLM,
    ModelConfig,
    Passthrough,
    extend,
    generate,
)
from llm._blocks import Cache

VOCABULARY, LENGTH, WIDTH, HEAD = 11, 4, 8, 4
TRAINED, RECURRENCES = 2, 3
INJECTIONS = {
    "linear": Linear(),
    "additive": Additive(),
    "passthrough": Passthrough(),
    "two lanes": Hyperconnections(2),
}

extended = jax.jit(extend, static_argnums=3)
forward = jax.jit(lambda model, tokens, num_recur: model(tokens, num_recur), static_argnums=2)


@functools.cache
def model_of(injection: str, prelude: int = 1, coda: int = 1) -> LoopedLM:
    """Weights far enough from their start that every position and recurrence tells."""
    config = ModelConfig(
        width=WIDTH,
        head_size=HEAD,
        prelude=prelude,
        layers=2 * TRAINED,
        coda=coda,
        num_recur=TRAINED,
        injection=INJECTIONS[injection],
    )
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda key: LoopedLM.draw(config, VOCABULARY, key), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape), jnp.float32), shapes)


def tokens_of(seed: int = 0, batch: int = 2, length: int = LENGTH) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, VOCABULARY, (batch, length)), jnp.int32)


def close(found: Any, expected: Any) -> None:
    """Within 1e-5 of the largest entry."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected), initial=0.0) <= 1e-5 * np.max(np.abs(expected), initial=0.0)


def in_pieces(model: LoopedLM, tokens: jax.Array, lengths: list[int], slots: int | None = None) -> Any:
    """Logits of all tokens, and the cache after them, which has room for two more."""
    cache = KVCache.empty(model, tokens.shape[0], LENGTH + 2, RECURRENCES, slots)
    logits, start = [], 0
    for length in lengths:
        piece, cache = extended(model, tokens[:, start : start + length], cache, RECURRENCES)
        logits.append(piece)
        start += length
    assert int(cache.length) == start
    return jnp.concatenate(logits, axis=1), cache


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.sets(st.integers(1, LENGTH - 1)), st.integers(0, 9))
def test_any_split_gives_the_logits_of_one_pass(cuts, seed):
    """Cached extension equals the full forward pass, however the sequence is cut, at an untrained r."""
    edges = [0, *sorted(cuts), LENGTH]
    lengths = [after - before for before, after in zip(edges, edges[1:], strict=False)]
    model, tokens = model_of("linear"), tokens_of(seed)
    close(in_pieces(model, tokens, lengths)[0], forward(model, tokens, RECURRENCES))


@pytest.mark.parametrize("injection", ["additive", "passthrough", "two lanes"])
def test_every_injection_can_be_extended(injection):
    """Half of the tokens, then the other half: as in one pass."""
    model, tokens = model_of(injection), tokens_of()
    close(in_pieces(model, tokens, [2, 2])[0], forward(model, tokens, RECURRENCES))


def test_prelude_and_coda_may_be_empty():
    """Their caches are then of no layers."""
    model, tokens = model_of("linear", 0, 0), tokens_of()
    logits, cache = in_pieces(model, tokens, [2, 2])
    close(logits, forward(model, tokens, RECURRENCES))
    assert cache.prelude.keys.shape == cache.coda.values.shape == (0, 2, LENGTH + 2, 2, HEAD)


def test_a_cache_has_a_slot_for_each_recurrence_by_default():
    """`slots` = r is the default; the axes are slot, layer of the block, batch, position, head, entry."""
    model = model_of("linear")
    default = KVCache.empty(model, 2, 7, RECURRENCES)
    same = KVCache.empty(model, 2, 7, RECURRENCES, RECURRENCES)
    assert jax.tree.map(jnp.shape, default) == jax.tree.map(jnp.shape, same)
    assert default.recurrences.keys.shape == (RECURRENCES, 2, 2, 7, 2, HEAD)
    assert KVCache.empty(model, 2, 7, RECURRENCES, 1).recurrences.values.shape == (1, 2, 2, 7, 2, HEAD)
    assert default.prelude.keys.shape == default.coda.keys.shape == (1, 2, 7, 2, HEAD)


@pytest.mark.parametrize(("slots", "of_recurrence"), [(1, [2, 2, 2]), (2, [2, 1, 2])])
def test_with_fewer_slots_tokens_see_the_last_recurrences(slots, of_recurrence):
    """The first piece is a full forward pass still. Recurrence i uses slot i mod c: tokens after it see
    those before them as the last recurrence of its slot left them, with r = 3 and c = 1, 2. That is what
    they see with all r slots when the slot of recurrence i is filled with another's, of_recurrence[i]."""
    model, tokens = model_of("linear"), tokens_of()
    logits, cache = in_pieces(model, tokens[:, :2], [2], slots)
    _, whole = in_pieces(model, tokens[:, :2], [2])
    exact = forward(model, tokens, RECURRENCES)
    close(logits, exact[:, :2])
    seen = [leaf[jnp.array(of_recurrence)] for leaf in whole.recurrences]
    for part, of_all in zip(cache.recurrences, seen, strict=True):
        close(part, of_all[:slots])
    after, _ = extended(model, tokens[:, 2:], cache, RECURRENCES)
    expected, _ = extended(model, tokens[:, 2:], whole._replace(recurrences=Cache(*seen)), RECURRENCES)
    close(after, expected)
    assert np.max(np.abs(after - exact[:, 2:])) > 1e-3  # an approximation: ten times the bound of `close`


# Draws.


DRAWS = 4096


def drawn(prompt: jax.Array, model: LoopedLM | None = None, **fields: Any) -> np.ndarray:
    """Two tokens after each of 4096 prompts: one shape, so that programs are shared."""
    model = model_of("linear") if model is None else model
    prompts = jnp.tile(prompt, (DRAWS // len(prompt), 1))
    found = generate(model, prompts, 2, num_recur=RECURRENCES, **fields)
    assert found.shape == (DRAWS, 2)
    return np.asarray(found)


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"top_k": 1, "key": jax.random.key(5)}])
def test_without_a_choice_the_likeliest_token_is_taken(fields):
    """Temperature 0 and top_k = 1: the argmax of a full forward pass, run again for each token."""
    model, prompt = model_of("linear"), tokens_of(length=2)
    sequence = jnp.zeros((2, LENGTH), jnp.int32).at[:, :2].set(prompt)
    for place in range(2, LENGTH):
        after = jnp.argmax(forward(model, sequence, RECURRENCES)[:, place - 1], axis=-1)
        sequence = sequence.at[:, place].set(after)
    assert np.array_equal(drawn(prompt, **fields)[:2], sequence[:, 2:])


def likely(temperature: float, top_k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """How often each token is drawn after one prompt, and its probability."""
    prompt = tokens_of(3, 1, 2)
    found = drawn(prompt, key=jax.random.key(0), temperature=temperature, top_k=top_k)
    padded = jnp.zeros((2, LENGTH), jnp.int32).at[:, :2].set(prompt)
    logits = np.asarray(forward(model_of("linear"), padded, RECURRENCES)[0, 1], np.float64) / temperature
    if top_k is not None:
        logits[np.argsort(logits)[:-top_k]] = -np.inf
    weights = np.exp(logits - logits.max())
    return np.bincount(found[:, 0], minlength=VOCABULARY), weights / weights.sum()


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (5.0, None), (5.0, 3)])
def test_frequencies_are_the_softmax(temperature, top_k):
    """Of logits / temperature, among the k likeliest. Chi-square over 4096 draws of one key below the value
    that one key in a million exceeds; tokens expected less than five times are pooled."""
    counts, probabilities = likely(temperature, top_k)
    assert not np.any(counts[probabilities == 0])
    assert np.sum(probabilities > 0) == (top_k or VOCABULARY)
    often = DRAWS * probabilities >= 5
    found = np.array([*counts[often], counts[~often].sum()])
    expected = DRAWS * np.array([*probabilities[often], probabilities[~often].sum()])
    cells = expected > 0
    square = np.sum((found[cells] - expected[cells]) ** 2 / expected[cells])
    assert np.sum(often) > 1
    assert square < scipy.stats.chi2.ppf(1 - 1e-6, np.sum(cells) - 1)


def indifferent() -> LoopedLM:
    """A model to which all tokens are equally likely."""
    model = model_of("linear")
    return LoopedLM(**{**vars(model), "head": jnp.zeros_like(model.head)})


def test_draws_of_different_steps_and_sequences_are_independent():
    """Of a model without preferences: pairs of a sequence's first two tokens are uniform, as are pairs of
    neighbouring sequences' first tokens, by chi-square with the bound of one key in a million."""
    prompt, key = jnp.zeros((1, 2), jnp.int32), jax.random.key(1)
    found = drawn(prompt, indifferent(), key=key)
    for one, other in ((found[:, 0], found[:, 1]), (found[::2, 0], found[1::2, 0])):
        counts = np.bincount(one * VOCABULARY + other, minlength=VOCABULARY**2)
        expected = len(one) / VOCABULARY**2
        square = np.sum((counts - expected) ** 2 / expected)
        assert square < scipy.stats.chi2.ppf(1 - 1e-6, VOCABULARY**2 - 1)
    assert np.array_equal(found, drawn(prompt, indifferent(), key=key))


def test_top_k_draws_from_no_more_than_k_where_logits_are_equal():
    """The k likeliest are k tokens, though others be as likely."""
    found = drawn(jnp.zeros((1, 2), jnp.int32), indifferent(), key=jax.random.key(1), top_k=3)
    assert len(np.unique(found)) == 3


PROMPT = jnp.zeros((1, 2), jnp.int32)


@pytest.mark.parametrize(
    ("prompt", "fields", "message"),
    [
        (PROMPT, {"num_recur": 0}, "num_recur is 0: it must be a whole number, at least 1"),
        (PROMPT, {"new_tokens": 0}, "new_tokens is 0: it must be at least 1"),
        (PROMPT, {"temperature": -0.5}, "temperature is -0.5: it must be at least 0"),
        (PROMPT, {"temperature": float("nan")}, "temperature is nan: it must be at least 0"),
        (PROMPT[:, :0], {}, r"prompt is \(1, 0\): it must be \(B, T\), neither of them 0"),
        (PROMPT[:0], {}, r"prompt is \(0, 2\): it must be \(B, T\), neither of them 0"),
        (PROMPT + 11, {}, "prompt: 11 is no token: they must be from 0 to 10"),
        (PROMPT - 1, {}, "prompt: -1 is no token: they must be from 0 to 10"),
        ([[3, 11]], {}, "prompt: 11 is no token"),
        (PROMPT + 0.5, {}, "prompt is float32: it must hold integers"),
        (PROMPT, {"top_k": 0}, "top_k is 0: it must be a whole number from 1 to the vocabulary, 11"),
        (PROMPT, {"top_k": 12}, "top_k is 12: it must be a whole number from 1 to the vocabulary, 11"),
        (PROMPT, {"key": None}, "key is None: it must be given at a positive temperature"),
        (PROMPT, {"slots": 0}, "slots is 0: it must be from 1 to r, which is 2"),
        (PROMPT, {"slots": 3}, "slots is 3: it must be from 1 to r, which is 2"),
    ],
)
def test_each_rule_of_generate_names_its_argument(prompt, fields, message):
    """With its value and the rule."""
    with pytest.raises(ValueError, match=f"^{message}"):
        generate(model_of("linear"), prompt, **{"new_tokens": 1, "key": jax.random.key(0), **fields})


def test_no_more_than_there_is_room_for():
    """Tokens beyond the room of a cache are refused; inside, the last position can be filled."""
    model = LoopedLM.draw(ModelConfig(width=8, head_size=4, layers=2), 11, jax.random.key(0))
    tokens = jnp.zeros((1, 3), int)
    _, cache = extend(model, tokens, KVCache.empty(model, 1, 4, 1), 1)
    extend(model, tokens[:, :1], cache, 1)
    with pytest.raises(ValueError, match="2 after the 3 in the cache, which has room for 4"):
        extend(model, tokens[:, :2], cache, 1)
