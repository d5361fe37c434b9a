"""The looped model against NumPy, torch and loops written by hand; what it may see; how it starts."""

import functools
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from llm import Additive, Hyperconnections, Linear, LoopedLM, ModelConfig, Passthrough
from llm._blocks import Block, Cache, Positions, Rotary, draw_blocks, rms_norm, run_blocks
from llm._config import SampledRecurrences
from llm._model import documents_of, positions_of
from llm._optim import GROUPS

VOCABULARY, LENGTH = 37, 8
INJECTIONS = {
    "linear": Linear(),
    "additive": Additive(),
    "passthrough": Passthrough(),
    "one lane": Hyperconnections(1),
    "two lanes": Hyperconnections(2),
}
DETACHABLE = ("linear", "additive", "passthrough")

# Compiling takes most of the time of these tests; what is computed does not depend on it.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def config_of(injection: str = "passthrough", num_recur: int = 1, **fields: Any) -> ModelConfig:
    """Prelude and coda of one layer, a block of two, two heads."""
    sizes = {"width": 16, "head_size": 8, "prelude": 1, "layers": 2 * num_recur, "coda": 1}
    return ModelConfig(**{**sizes, "num_recur": num_recur, "injection": INJECTIONS[injection], **fields})


@functools.cache
def model_of(config: ModelConfig) -> LoopedLM:
    """Weights away from their start, where the head is near 0 and injections do little."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda key: LoopedLM.draw(config, VOCABULARY, key), jax.random.key(0))

    def draw(path: Any, leaf: Any) -> jax.Array:
        noise = rng.standard_normal(leaf.shape)
        name = str(path[-1])
        if "scale" in name or "alpha" in name or "beta" in name:
            noise = 1 + 0.3 * noise
        elif "mixing" in name:
            noise = np.eye(leaf.shape[-1]) + 0.3 * noise
        elif "embedding" not in name:
            noise = noise / leaf.shape[-2] ** 0.5
        return jnp.asarray(noise, jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def tokens_of(seed: int = 0, batch: int = 2) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, VOCABULARY, (batch, LENGTH)), jnp.int32)


@functools.partial(jit, static_argnums=2)
def forward(model: LoopedLM, tokens: Any, num_recur: int | None = None, documents: Any = None) -> jax.Array:
    return model(tokens, num_recur, documents=documents)


# The forward pass of one sequence in float64, by the paper's equations.


def norm(x: np.ndarray, scale: Any = 1.0) -> np.ndarray:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def rotate(x: np.ndarray) -> np.ndarray:
    """Rotary embedding, as complex numbers."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * 10_000.0 ** (-np.arange(half) / half)
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(-1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


def attend(x: np.ndarray, w: Any, head_size: int, seen: np.ndarray) -> np.ndarray:
    heads = []
    for first in range(0, x.shape[-1], head_size):
        part = slice(first, first + head_size)
        query, key = (norm(rotate(x @ matrix[:, part])) for matrix in (w["query"], w["key"]))
        scores = np.where(seen, query @ key.T / head_size**0.5, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads.append(weights / weights.sum(axis=-1, keepdims=True) @ (x @ w["value"][:, part]))
    return np.concatenate(heads, axis=-1) @ w["output"]


def layers(blocks: Block, h: np.ndarray, seen: np.ndarray) -> np.ndarray:
    for index in range(len(blocks.query)):
        w = {name: leaf[index] for name, leaf in vars(blocks).items() if name != "head_size"}
        h = h + attend(norm(h, w["attention_scale"]), w, blocks.head_size, seen)
        h = h + np.maximum(norm(h, w["mlp_scale"]) @ w["up"], 0) ** 2 @ w["down"]
    return h


def reference(model: LoopedLM, sequence: Any, num_recur: int, documents: Any = None) -> np.ndarray:
    """Logits (T, V)."""
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    sequence, seen = np.asarray(sequence), np.tri(len(sequence), dtype=bool)
    if documents is not None:
        seen &= documents[:, None] == documents
    e = layers(w.prelude, norm(w.embedding[sequence], w.embedding_scale), seen)
    injection, learnt = model.config.injected, w.injection

    def block(u: np.ndarray) -> np.ndarray:
        return norm(layers(w.recurrent, u, seen), w.recurrence_scale)

    if isinstance(injection, Hyperconnections):
        lanes = np.array([e] * injection.lanes)
        for i in range(num_recur):
            alpha, mixing, beta = (
                learnt[name][i % model.config.num_recur] for name in ("alpha", "mixing", "beta")
            )
            s = block(sum(a * lane for a, lane in zip(alpha, lanes, strict=True)))
            lanes = np.array(
                [
                    sum(m * lane for m, lane in zip(row, lanes, strict=True)) + b * s
                    for row, b in zip(mixing, beta, strict=True)
                ]
            )
        h = lanes.sum(axis=0)
    else:
        h = np.zeros_like(e) if isinstance(injection, Additive) else e
        for _ in range(num_recur):
            if isinstance(injection, Linear):
                of_e, of_h = np.split(learnt["inject"], 2)
                h = block(e @ of_e + h @ of_h)
            elif isinstance(injection, Additive):
                h = block(h + e)
            else:
                h = block(h)
    z = norm(layers(w.coda, h, seen), w.final_scale) @ w.head[:, :VOCABULARY]
    return 15 * np.tanh(z / 15)


def close(found: Any, expected: Any, bound: float = 1e-5) -> None:
    """Within `bound` of the largest entry; float32 was measured at 2e-6 of it or better."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= bound * np.max(np.abs(expected))


# What is computed.


@pytest.mark.parametrize("injection", INJECTIONS)
@pytest.mark.parametrize("num_recur", [2, 3])
def test_forward_pass_is_the_papers(injection, num_recur):
    """Logits are those of the equations in NumPy, at the r = 2 of the config and evaluated at another: r = 3
    recurrences written by hand, in which the lanes' parameters repeat."""
    model, tokens = model_of(config_of(injection, 2)), tokens_of()
    found = forward(model, tokens, num_recur)
    close(found, [reference(model, sequence, num_recur) for sequence in tokens])


def test_without_recurrence_it_is_a_plain_transformer():
    """r = 1 with passthrough: the layers of prelude, block and coda one after another, with one norm more,
    where the recurrence ends."""
    model, tokens = model_of(config_of()), tokens_of()
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    causal = np.tri(LENGTH, dtype=bool)
    for sequence, logits in zip(np.asarray(tokens), forward(model, tokens), strict=True):
        h = norm(w.embedding[sequence], w.embedding_scale)
        h = norm(layers(w.recurrent, layers(w.prelude, h, causal), causal), w.recurrence_scale)
        z = norm(layers(w.coda, h, causal), w.final_scale) @ w.head
        close(logits, 15 * np.tanh(z[:, :VOCABULARY] / 15))


@pytest.mark.parametrize(("prelude", "coda"), [(0, 1), (1, 0), (0, 0)])
def test_prelude_and_coda_may_be_empty(prelude, coda):
    """Zero layers are the identity."""
    model, tokens = model_of(config_of("linear", 2, prelude=prelude, coda=coda)), tokens_of()
    close(forward(model, tokens), [reference(model, sequence, 2) for sequence in tokens])


def test_block_is_torchs():
    """With weights copied, a block is torch's: its RMS norms and its scaled dot-product attention."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    block = jax.tree.map(lambda leaf: leaf[0], model_of(config_of()).recurrent)
    h = np.random.default_rng(1).standard_normal((2, LENGTH, 16)).astype(np.float32)
    found, _ = block(jnp.asarray(h), positions_of(LENGTH, block.head_size))

    w = {k: torch.tensor(np.asarray(leaf)) for k, leaf in vars(block).items() if k != "head_size"}

    def rms(x, scale=None):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], scale, eps=1e-6)

    def heads(x):
        return x.unflatten(-1, (-1, block.head_size)).transpose(1, 2)

    def rotated(x):
        half = block.head_size // 2
        angles = torch.outer(torch.arange(LENGTH), 10_000.0 ** (-torch.arange(half) / half))
        z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), -angles)
        return torch.cat([z.real, z.imag], dim=-1)

    state = torch.tensor(h)
    x = rms(state, w["attention_scale"])
    query, key = (rms(rotated(heads(x @ w[name]))) for name in ("query", "key"))
    seen = torch.nn.functional.scaled_dot_product_attention(query, key, heads(x @ w["value"]), is_causal=True)
    state = state + seen.transpose(1, 2).flatten(-2) @ w["output"]
    state = state + torch.relu(rms(state, w["mlp_scale"]) @ w["up"]) ** 2 @ w["down"]
    close(found, state)


@hypothesis.given(st.integers(0, 5000), st.integers(0, 200), st.integers(0, 2**16))
def test_scores_depend_on_the_distance_alone(shift, apart, seed):
    """⟨rotated q at p, rotated k at p − n⟩ does not depend on p. Bound: positions up to 5200 are known to
    2^-12 rad in float32, of which a score of norm-1 vectors changes by no more."""
    q, k = np.random.default_rng(seed).standard_normal((2, 8)).astype(np.float32)
    q, k = q / np.linalg.norm(q), k / np.linalg.norm(k)

    def score(at):
        rotary = Rotary.at(jnp.array([at + apart, at]), 8)
        one, other = rotary(jnp.array([q, k])[None, :, None])[0, :, 0]
        return float(one @ other)

    assert abs(score(shift) - score(0)) < 2**-12 + 1e-6


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_lanes_start_as_residual_recurrences(lanes):
    """Untrained lanes stay equal, each of them h ← h + s(h), whatever K; the coda reads their sum, K·h."""
    config = config_of("one lane", 3, injection=Hyperconnections(lanes))
    model = model_of(config)
    untrained = config.injected.draw(config.width, config.num_recur)
    model = LoopedLM(**{**vars(model), "injection": untrained})
    tokens = tokens_of()
    w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    causal = np.tri(LENGTH, dtype=bool)
    for sequence, logits in zip(np.asarray(tokens), forward(model, tokens), strict=True):
        h = layers(w.prelude, norm(w.embedding[sequence], w.embedding_scale), causal)
        for _ in range(3):
            h = h + norm(layers(w.recurrent, h, causal), w.recurrence_scale)
        z = norm(layers(w.coda, lanes * h, causal), w.final_scale) @ w.head
        close(logits, 15 * np.tanh(z[:, :VOCABULARY] / 15))


# Gradients.


def mean_square(logits: jax.Array) -> jax.Array:
    """A loss that every logit moves."""
    return jnp.mean((logits - 1) ** 2)


@functools.partial(jit, static_argnums=2)
def gradient(model: LoopedLM, detached: Any, kept: int) -> tuple[jax.Array, LoopedLM]:
    """Loss and gradient, with `detached` traced."""
    return jax.value_and_grad(lambda m: mean_square(m(tokens_of(), kept, detached=detached)))(model)


def of_copies(model: LoopedLM, num_recur: int, kept: int) -> tuple[jax.Array, LoopedLM]:
    """Loss and gradient of an unlooped model, whose recurrences are copies: of block, injection and norm.

    The gradient of what is looped is the sum over the copies. The state is detached after recurrence i for
    i < r − k, and the copies before it are constants, as is e in them.
    """
    config, injection = model.config, model.config.injected
    tokens = tokens_of()
    positions = positions_of(LENGTH, config.head_size)

    def run(blocks: Block, h: jax.Array) -> jax.Array:
        for index in range(len(blocks.query)):
            h, _ = jax.tree.map(lambda leaf, index=index: leaf[index], blocks)(h, positions)
        return h

    def loss(model: LoopedLM, copies: list[LoopedLM]) -> jax.Array:
        e = run(model.prelude, model.embed(tokens))
        state = injection.start(e)
        for i, copy in enumerate(copies):
            read = injection.read(copy.injection, e, state, i)
            s = rms_norm(run(copy.recurrent, read), copy.recurrence_scale)
            state = injection.write(copy.injection, state, s, i)
            if i < num_recur - kept:
                state = jax.lax.stop_gradient(state)
        return mean_square(model.logits(run(model.coda, injection.finish(state))))

    value, (own, copied) = jax.value_and_grad(loss, argnums=(0, 1))(model, [model] * num_recur)
    return value, jax.tree.map(lambda *parts: sum(parts), own, *copied)


def trees_close(found: Any, expected: Any, bound: float = 1e-5) -> None:
    """Each array within `bound` of its own largest entry."""
    for (path, one), other in zip(
        jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True
    ):
        scale = np.max(np.abs(other), initial=0.0)
        assert np.max(np.abs(one - other), initial=0.0) <= bound * scale, jax.tree_util.keystr(path)


# Gradients in float32 differ by 7e-6 of the largest entry of an array at most, as measured; three times that.
OF_GRADIENTS = 2e-5


@pytest.mark.parametrize("injection", INJECTIONS)
def test_block_run_r_times_is_r_copies_of_it(injection):
    """Loss and gradient are those of an unlooped model whose recurrences are copies of one block; k = r is
    backpropagation through all of them, with `detached` traced as 0 or left out."""
    model = model_of(config_of(injection, 3))
    loss, found = gradient(model, 0, 3)
    expected_loss, expected = of_copies(model, 3, 3)
    close(loss, expected_loss)
    trees_close(found, expected, OF_GRADIENTS)
    close(mean_square(forward(model, tokens_of())), loss)


@pytest.mark.parametrize("injection", INJECTIONS)
def test_every_parameter_learns(injection):
    """No array's gradient is zero or not finite."""
    _, found = gradient(model_of(config_of(injection, 3)), 0, 3)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        assert np.all(np.isfinite(leaf)) and np.any(leaf != 0), jax.tree_util.keystr(path)


@pytest.mark.parametrize("injection", DETACHABLE)
@pytest.mark.parametrize("detached", [1, 2])
def test_truncated_backpropagation_stops_at_the_state(injection, detached):
    """k = 1 of r = 2 and 3: the gradient of a loop written by hand, with the state detached after recurrence
    i for i < r − k; the number detached is traced, so that one program serves every r."""
    model = model_of(config_of(injection, 3))
    loss, found = gradient(model, detached, 1)
    expected_loss, expected = of_copies(model, detached + 1, 1)
    close(loss, expected_loss)
    trees_close(found, expected, OF_GRADIENTS)


def test_detached_may_be_a_number_or_traced():
    """The same loss and gradient."""
    model = model_of(config_of("linear", 3))
    found = jit(jax.grad(lambda m: mean_square(m(tokens_of(), 1, detached=2))))(model)
    trees_close(found, gradient(model, 2, 1)[1], OF_GRADIENTS)


def test_passthrough_truncated_teaches_the_prelude_nothing():
    """With passthrough e is read in recurrence 0 only: detached, prelude and embedding have a gradient of
    exactly 0. Linear and additive injections read e in every recurrence: there it is not 0."""
    for injection in DETACHABLE:
        _, found = gradient(model_of(config_of(injection, 3)), 2, 1)
        of_e = [*jax.tree.leaves(found.prelude), found.embedding, found.embedding_scale]
        assert all(bool(np.any(leaf != 0)) == (injection != "passthrough") for leaf in of_e)


def test_rematerialisation_changes_nothing():
    """Loss and gradient agree to 1e-6 of the largest entry of an array: what is computed again is the same."""
    model = model_of(config_of("linear", 3))

    @jit
    def again(model):
        return jax.value_and_grad(lambda m: mean_square(m(tokens_of(), 3, rematerialise=True)))(model)

    @jit
    def kept(model):
        return jax.value_and_grad(lambda m: mean_square(m(tokens_of(), 3)))(model)

    trees_close(again(model), kept(model), 1e-6)


# What a token sees.


@hypothesis.given(st.integers(0, LENGTH - 1), st.integers(0, VOCABULARY - 1))
def test_a_token_changes_no_logits_before_it(place, token):
    """Causality: to the bit."""
    model, tokens = model_of(config_of("two lanes", 2)), tokens_of()
    changed = tokens.at[:, place].set(token)
    before, after = forward(model, tokens, 2), forward(model, changed, 2)
    assert np.array_equal(before[:, :place], after[:, :place])
    same = tokens[:, place] == token
    assert np.array_equal(np.any(before[:, place] != after[:, place], axis=-1), ~same)


@hypothesis.given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4).filter(lambda lengths: sum(lengths) <= LENGTH),
    st.integers(0, 9),
)
def test_documents_packed_together_do_not_see_each_other(lengths, seed):
    """With `documents`, each document of a packed sequence has the logits that it has alone, within 1e-5 of
    the largest; what follows a document changes nothing."""
    model = model_of(config_of("linear", 2))
    tokens = tokens_of(seed, 1)
    documents = np.repeat(np.arange(len(lengths) + 1), [*lengths, LENGTH - sum(lengths)])
    packed = forward(model, tokens, 2, jnp.asarray(documents[None]))[0]
    start = 0
    for length in lengths:
        alone = jnp.zeros((1, LENGTH), jnp.int32).at[:, :length].set(tokens[:, start : start + length])
        single = forward(model, alone, 2, jnp.zeros((1, LENGTH), int))[0]
        close(packed[start : start + length], single[:length])
        start += length
    close(packed[:start], reference(model, tokens[0], 2, documents)[:start])


def test_a_separator_begins_a_document():
    """Tokens before the first separator are a document too."""
    assert documents_of(jnp.array([[3, 9, 3, 9, 9, 1]]), 9).tolist() == [[0, 1, 1, 2, 3, 3]]
    assert documents_of(jnp.array([[9, 3]]), 9).tolist() == [[1, 1]]


# Logits.


def test_logits_are_bounded_float32_in_every_precision():
    """|logit| ≤ 15 and float32, with a head a thousand times too large and everything but the scales cast."""
    model = model_of(config_of("linear", 2))
    model = LoopedLM(**{**vars(model), "head": 1000 * model.head})
    cast = model.cast(jnp.bfloat16)
    for which in (model, cast):
        logits = forward(which, tokens_of(), 2)
        assert logits.dtype == jnp.float32 and 14.9 < float(jnp.max(jnp.abs(logits))) <= 15
    kinds = {str(leaf.dtype): set() for leaf in jax.tree.leaves(cast)}
    for group, leaf in zip(jax.tree.leaves(model.labels()), jax.tree.leaves(cast), strict=True):
        kinds[str(leaf.dtype)].add(group)
    assert kinds == {"float32": {"scale"}, "bfloat16": {"embedding", "head", "matrix"}}


def test_padded_rows_are_not_in_the_logits():
    """Embedding and head have 64 rows for 37 tokens; NaN in those beyond changes no logit."""
    model, tokens = model_of(config_of("linear", 2)), tokens_of()
    assert model.embedding.shape == (64, 16) and model.head.shape == (16, 64)
    spoilt = {
        "embedding": model.embedding.at[VOCABULARY:].set(jnp.nan),
        "head": model.head.at[:, VOCABULARY:].set(jnp.nan),
    }
    logits = forward(LoopedLM(**{**vars(model), **spoilt}), tokens, 2)
    assert logits.shape == (2, LENGTH, VOCABULARY)
    assert np.array_equal(logits, forward(model, tokens, 2))


# Hidden states.


@pytest.mark.parametrize("injection", ["linear", "two lanes"])
def test_states_are_those_of_the_forward_pass(injection):
    """In the order in which they arise, all executed layers; the logits of the last are those of the model;
    `recurrence.i` is what the injection makes of the norm of the last `recurrence.i.j`."""
    config = config_of(injection, 2)
    model, tokens = model_of(config), tokens_of()
    states = model.states(tokens, 3)
    middle = [name for i in range(3) for name in (*(f"recurrence.{i}.{j}" for j in range(2)), f"recurrence.{i}")]
    assert list(states) == ["embedding", "prelude.0", *middle, "coda.0"]
    assert {state.shape for state in states.values()} == {(2, LENGTH, config.width)}
    close(model.logits(states["coda.0"]), forward(model, tokens, 3))
    e = states["prelude.0"]
    state = config.injected.start(e)
    for i in range(3):
        s = rms_norm(states[f"recurrence.{i}.1"], model.recurrence_scale)
        state = config.injected.write(model.injection, state, s, i)
        close(states[f"recurrence.{i}"], config.injected.finish(state))


# Groups and the start.


@pytest.mark.parametrize("injection", INJECTIONS)
def test_labels_name_the_group_of_every_array(injection):
    """One label an array: embedding and head by name, scales of norms, lanes of hyperconnections, and
    matrices, each of which has (in, out) as its last axes."""
    model = model_of(config_of(injection, 2))
    labels = model.labels()
    assert jax.tree.structure(labels) == jax.tree.structure(model)
    assert set(jax.tree.leaves(labels)) <= set(GROUPS)
    by_path = {jax.tree_util.keystr(path): label for path, label in jax.tree.leaves_with_path(labels)}
    assert by_path[".embedding"] == "embedding" and by_path[".head"] == "head"
    for path, label in by_path.items():
        if path.startswith(".injection"):
            assert label == ("lane" if "lane" in injection else "matrix")
        elif path not in (".embedding", ".head"):
            assert label == ("scale" if path.endswith("_scale") else "matrix"), path
    matrices = sum(label == "matrix" for label in by_path.values())
    assert matrices == 3 * 6 + (injection == "linear")


def test_initial_statistics():
    """Embedding N(0, 1), head N(0, 0.001²), matrices uniform with standard deviation 1/√fan_in, scales 1.
    Means and standard deviations within five standard errors of n draws (kurtosis 3, and 1.8 if uniform)."""
    config = ModelConfig(width=32, head_size=8, prelude=2, layers=4, coda=1, num_recur=2)
    model = jit(lambda key: LoopedLM.draw(config, 512, key))(jax.random.key(1))

    def check(leaf: jax.Array, deviation: float, kurtosis: float) -> None:
        n = leaf.size
        assert abs(float(jnp.mean(leaf))) < 5 * deviation / n**0.5
        assert abs(float(jnp.std(leaf)) / deviation - 1) < 5 * ((kurtosis - 1) / (4 * n)) ** 0.5

    check(model.embedding, 1, 3)
    check(model.head, 0.001, 3)
    for stack in (model.prelude, model.recurrent, model.coda):
        for name, leaf in vars(stack).items():
            if name.endswith("_scale"):
                assert np.all(leaf == 1)
            elif name != "head_size":
                deviation = leaf.shape[-2] ** -0.5
                check(leaf, deviation, 1.8)
                assert float(jnp.max(jnp.abs(leaf))) <= 3**0.5 * deviation
    for leaf in (model.embedding_scale, model.recurrence_scale, model.final_scale):
        assert np.all(leaf == 1)
    assert np.array_equal(model.injection["inject"], [*np.eye(32), *np.zeros((32, 32))])
    weights = [leaf.ravel()[:32] for leaf in jax.tree.leaves(model) if leaf.ndim > 1]
    assert len({bytes(np.asarray(leaf)) for leaf in weights}) == len(weights)


def test_a_layer_depends_on_its_key_and_place_alone():
    """A deeper model begins with the same blocks."""
    key = jax.random.key(3)
    few, many = draw_blocks(key, 2, 16, 8), draw_blocks(key, 5, 16, 8)
    assert jax.tree.all(jax.tree.map(lambda one, other: np.array_equal(one, other[:2]), few, many))
    assert not np.array_equal(many.query[0], many.query[1])


# Programs.


def num_equations(jaxpr: Any) -> int:
    """Equations of a jaxpr and of all within it."""
    inside = (jax.core.jaxprs_in_params(equation.params) for equation in jaxpr.eqns)
    return len(jaxpr.eqns) + sum(num_equations(one) for found in inside for one in found)


@pytest.mark.parametrize("injection", INJECTIONS)
def test_programs_do_not_grow_with_depth(injection):
    """As many equations, forward and backward, for 8 executed layers as for 32, and for r = 2 as for r = 8
    of the same block."""

    def count(layers: int, num_recur: int) -> int:
        config = config_of(injection, num_recur, layers=layers, prelude=layers // 4, coda=layers // 4)
        model = jax.eval_shape(lambda key: LoopedLM.draw(config, VOCABULARY, key), jax.random.key(0))
        tokens = jax.ShapeDtypeStruct((2, LENGTH), jnp.int32)
        loss = jax.value_and_grad(lambda model, tokens: mean_square(model(tokens)))
        return num_equations(jax.make_jaxpr(loss)(model, tokens).jaxpr)

    assert count(8, 2) == count(32, 2) == count(32, 8)
    assert count(8, 2) > 100


def test_cache_is_what_a_block_read():
    """With room to spare, a block's states are those without a cache, and the cache holds its keys, rotated
    and normed, and its values."""
    model = model_of(config_of())
    h = jnp.asarray(np.random.default_rng(2).standard_normal((1, 3, 16)), jnp.float32)
    rotary = Rotary.at(jnp.arange(3), 8)
    empty = Cache(*jnp.zeros((2, 2, 1, 5, 2, 8)))
    seen = jnp.arange(5) <= jnp.arange(3)[:, None]
    with_cache, cache = run_blocks(model.recurrent, h, Positions(rotary, seen[None, None]), empty)
    without, nothing = run_blocks(model.recurrent, h, Positions(rotary))
    assert nothing is None
    close(with_cache, without)
    first = rms_norm(h, model.recurrent.attention_scale[0])
    keys = rms_norm(rotary((first @ model.recurrent.key[0]).reshape(1, 3, 2, 8)))
    close(cache.keys[0, :, :3], keys)
    close(cache.values[0, :, :3], (first @ model.recurrent.value[0]).reshape(1, 3, 2, 8))
    assert not np.any(cache.keys[:, :, 3:]) and not np.any(cache.values[:, :, 3:])


def test_sampled_models_run_at_any_r():
    """`sampled` changes the training's r, not what the model computes."""
    plain = model_of(config_of("linear", 2))
    sampled = LoopedLM(**{**vars(plain), "config": config_of("linear", 2, sampled=SampledRecurrences())})
    one, other = (jax.make_jaxpr(lambda m: m(tokens_of()))(model) for model in (plain, sampled))
    assert str(one) == str(other)
