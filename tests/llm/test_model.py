"""The looped model against NumPy, torch and loops written by hand; what it may see; how it starts."""

import functools
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from llm import Additive, Hyperconnections, KVCache, Linear, LoopedLM, ModelConfig, Passthrough, extend
from llm._blocks import Block, Rotary, draw_blocks, rms_norm
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
MODELS = ("linear", "additive", "passthrough", "two lanes")
DETACHABLE = ("linear", "additive")


def config_of(name: str = "passthrough", num_recur: int = 1, **fields: Any) -> ModelConfig:
    """Prelude and coda of one layer, a block of two, two heads."""
    sizes = {"width": 16, "head_size": 8, "prelude": 1, "layers": 2 * num_recur, "coda": 1}
    return ModelConfig(**{**sizes, "num_recur": num_recur, "injection": INJECTIONS[name], **fields})


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


@functools.partial(jax.jit, static_argnums=2)
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


class Reference:
    """The pass of one sequence through the weights of a model. Lanes are a state's first axis."""

    def __init__(self, model: LoopedLM, length: int = LENGTH, documents: Any = None) -> None:
        self.w = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
        self.injection = model.config.injected
        self.seen = np.tri(length, dtype=bool)
        if documents is not None:
            self.seen &= documents[:, None] == documents

    def encoded(self, sequence: np.ndarray) -> np.ndarray:
        """e."""
        w = self.w
        return layers(w.prelude, norm(w.embedding[np.asarray(sequence)], w.embedding_scale), self.seen)

    def block(self, u: np.ndarray) -> np.ndarray:
        return norm(layers(self.w.recurrent, u, self.seen), self.w.recurrence_scale)

    def start(self, e: np.ndarray) -> np.ndarray:
        if isinstance(self.injection, Hyperconnections):
            return np.array([e] * self.injection.lanes)
        return np.zeros_like(e) if isinstance(self.injection, Additive) else e

    def recurrence(self, e: np.ndarray, state: np.ndarray, i: int) -> np.ndarray:
        learnt = self.w.injection
        if isinstance(self.injection, Hyperconnections):
            alpha, mixing, beta = (
                learnt[name][i % len(learnt[name])] for name in ("alpha", "mixing", "beta")
            )
            s = self.block(sum(a * lane for a, lane in zip(alpha, state, strict=True)))
            return np.array(
                [
                    sum(m * lane for m, lane in zip(row, state, strict=True)) + b * s
                    for row, b in zip(mixing, beta, strict=True)
                ]
            )
        if isinstance(self.injection, Linear):
            of_e, of_h = np.split(learnt["inject"], 2)
            return self.block(e @ of_e + state @ of_h)
        return self.block(state + e if isinstance(self.injection, Additive) else state)

    def decoded(self, state: np.ndarray) -> np.ndarray:
        """Logits (T, V)."""
        h = state.sum(axis=0) if isinstance(self.injection, Hyperconnections) else state
        h = norm(layers(self.w.coda, h, self.seen), self.w.final_scale)
        return 15 * np.tanh(h @ self.w.head[:, :VOCABULARY] / 15)

    def __call__(self, sequence: np.ndarray, num_recur: int) -> np.ndarray:
        e = self.encoded(sequence)
        state = self.start(e)
        for i in range(num_recur):
            state = self.recurrence(e, state, i)
        return self.decoded(state)


def close(found: Any, expected: Any, bound: float = 1e-5) -> None:
    """Within `bound` of the largest entry; float32 was measured at 2e-6 of it or better."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected)) <= bound * np.max(np.abs(expected))


# What is computed.


@pytest.mark.parametrize("injection", INJECTIONS)
def test_forward_pass_is_the_papers(injection):
    """Logits are those of the equations in NumPy, at another r than the config's 2: r = 3 recurrences by
    hand, in which the lanes' parameters repeat. (At the config's, see the tests of gradients.)"""
    model, tokens = model_of(config_of(injection, 2)), tokens_of()
    close(forward(model, tokens, 3), [Reference(model)(sequence, 3) for sequence in tokens])


def test_without_recurrence_it_is_a_plain_transformer():
    """r = 1 with passthrough: the layers of prelude, block and coda one after another, with one norm more,
    where the recurrence ends."""
    model, tokens = model_of(config_of()), tokens_of()
    plain = Reference(model)
    w, causal = plain.w, plain.seen
    for sequence, logits in zip(tokens, forward(model, tokens), strict=True):
        h = layers(w.recurrent, plain.encoded(sequence), causal)
        h = layers(w.coda, norm(h, w.recurrence_scale), causal)
        z = norm(h, w.final_scale) @ w.head
        close(logits, 15 * np.tanh(z[:, :VOCABULARY] / 15))


@pytest.mark.parametrize(("prelude", "coda"), [(0, 1), (1, 0), (0, 0)])
def test_prelude_and_coda_may_be_empty(prelude, coda):
    """Zero layers are the identity."""
    model, tokens = model_of(config_of("linear", 2, prelude=prelude, coda=coda)), tokens_of()
    close(forward(model, tokens), [Reference(model)(sequence, 2) for sequence in tokens])


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
    config = config_of("one lane", 2, injection=Hyperconnections(lanes))
    untrained = config.injected.draw(config.width, config.num_recur)
    model = LoopedLM(**{**vars(model_of(config)), "injection": untrained})
    tokens, plain = tokens_of(), Reference(model)
    for sequence, logits in zip(tokens, forward(model, tokens, 3), strict=True):
        h = plain.encoded(sequence)
        for _ in range(3):
            h = h + plain.block(h)
        state = np.zeros((lanes, *h.shape))
        state[0] = lanes * h
        close(logits, plain.decoded(state))


# Gradients.


def loss_of(logits: Any) -> Any:
    """A loss that every logit moves."""
    return ((logits - 1) ** 2).mean()


KEPT = 2


@jax.jit
def gradient(model: LoopedLM, detached: Any) -> tuple[jax.Array, LoopedLM]:
    """Loss and gradient of detached + KEPT recurrences, with `detached` traced."""
    return jax.value_and_grad(lambda m: loss_of(m(tokens_of(), KEPT, detached=detached)))(model)


def slopes(model: LoopedLM, detached: int, found: LoopedLM) -> dict[str, tuple[float, float]]:
    """Of each array, the loss's slope along a random direction: of the gradient, and of a loop by hand.

    The loop runs in NumPy, as r = detached + KEPT copies of the block, one after another. Its states of
    recurrence i < detached are those of the unmoved model: detached after each, nothing flows through them.
    Slopes are central differences in float64, in units of ‖gradient‖·‖direction‖.
    """
    rng, still, slope = np.random.default_rng(5), Reference(model), {}
    constant = []
    for sequence in tokens_of():
        e = still.encoded(sequence)
        state = still.start(e)
        for i in range(detached):
            state = still.recurrence(e, state, i)
        constant.append(state)

    def loss(moved: Reference) -> float:
        logits = []
        for sequence, state in zip(tokens_of(), constant, strict=True):
            e = moved.encoded(sequence)
            state = state if detached else moved.start(e)
            for i in range(detached, detached + KEPT):
                state = moved.recurrence(e, state, i)
            logits.append(moved.decoded(state))
        return float(loss_of(np.array(logits)))

    leaves, structure = jax.tree.flatten(still.w)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    for place, (path, of_leaf) in enumerate(zip(paths, jax.tree.leaves(found), strict=True)):
        direction = rng.standard_normal(of_leaf.shape)
        of_w, ends = leaves[place], []
        for sign in (1, -1):
            moved = Reference(model)
            leaves[place] = of_w + sign * 1e-5 * direction
            moved.w = structure.unflatten(leaves)
            ends.append(loss(moved))
        leaves[place] = of_w
        unit = float(np.linalg.norm(of_leaf) * np.linalg.norm(direction))
        by_hand = (ends[0] - ends[1]) / 2e-5
        slope[path] = float(np.sum(of_leaf * direction)) / (unit or 1), by_hand / (unit or 1)
    return slope


@pytest.mark.parametrize("injection", MODELS)
def test_block_run_r_times_is_r_copies_of_it(injection):
    """k = r is full backpropagation: the gradient is that of a stack of r copies, which move together."""
    model = model_of(config_of(injection, KEPT))
    loss, found = gradient(model, 0)
    close(loss, loss_of(np.array([Reference(model)(sequence, KEPT) for sequence in tokens_of()])))
    for path, (slope, by_hand) in slopes(model, 0, found).items():
        assert abs(slope - by_hand) < 1e-5, path


@pytest.mark.parametrize("injection", MODELS)
def test_every_parameter_learns(injection):
    """No array's gradient is zero or not finite."""
    _, found = gradient(model_of(config_of(injection, KEPT)), 0)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        assert np.all(np.isfinite(leaf)) and np.any(leaf != 0), jax.tree_util.keystr(path)


@pytest.mark.parametrize("injection", DETACHABLE)
@pytest.mark.parametrize("detached", [1, 3])
def test_truncated_backpropagation_stops_at_the_state(injection, detached):
    """k = 2 of r = 3 and 5: the gradient of a loop written by hand, with the state detached after recurrence
    i for i < r − k. The number detached is traced: one program serves every r."""
    model = model_of(config_of(injection, KEPT))
    loss, found = gradient(model, detached)
    logits = [Reference(model)(sequence, detached + KEPT) for sequence in tokens_of()]
    close(loss, loss_of(np.array(logits)))
    for path, (slope, by_hand) in slopes(model, detached, found).items():
        assert abs(slope - by_hand) < 1e-5, path


def test_passthrough_truncated_would_teach_the_prelude_nothing():
    """With passthrough e is read in recurrence 0 only: detached, prelude and embedding have a gradient of
    exactly 0, which is why a config refuses it. Linear and additive injections read e in every recurrence:
    there it is not 0."""
    for injection in ("passthrough", *DETACHABLE):
        _, found = gradient(model_of(config_of(injection, KEPT)), 1)
        of_e = [*jax.tree.leaves(found.prelude), found.embedding, found.embedding_scale]
        assert all(bool(np.any(leaf != 0)) == (injection != "passthrough") for leaf in of_e)


def test_rematerialisation_changes_nothing():
    """Loss and gradient agree to 1e-6 of the largest entry of an array: what is computed again is the same,
    and `detached` may be a number, where it is traced without."""
    model = model_of(config_of("linear", KEPT))

    @jax.jit
    def again(model):
        def loss(model):
            return loss_of(model(tokens_of(), KEPT, detached=1, rematerialise=True))

        return jax.value_and_grad(loss)(model)

    for (path, one), other in zip(
        jax.tree_util.tree_leaves_with_path(again(model)), jax.tree.leaves(gradient(model, 1)), strict=True
    ):
        assert np.max(np.abs(one - other)) <= 1e-6 * np.max(np.abs(other)), jax.tree_util.keystr(path)


# What a token sees.


@hypothesis.given(st.integers(0, LENGTH - 1), st.integers(0, VOCABULARY - 1))
def test_a_token_changes_no_logits_before_it(place, token):
    """Causality: to the bit."""
    model, tokens = model_of(config_of("two lanes", 2)), tokens_of()
    changed = tokens.at[:, place].set(token)
    before, after = forward(model, tokens, 3), forward(model, changed, 3)
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
    close(packed[:start], Reference(model, LENGTH, documents)(tokens[0], 2)[:start])


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
        logits = forward(which, tokens_of(), 3)
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
    logits = forward(LoopedLM(**{**vars(model), **spoilt}), tokens, 3)
    assert logits.shape == (2, LENGTH, VOCABULARY)
    assert np.array_equal(logits, forward(model, tokens, 3))


# Hidden states.


@pytest.mark.parametrize("injection", ["linear", "two lanes"])
def test_states_are_those_of_the_forward_pass(injection):
    """In the order in which they arise, all executed layers; the logits of the last are those of the model;
    `inject.i` is what it reads, `recurrence.i` what the injection makes of the norm of the last
    `recurrence.i.j`."""
    config = config_of(injection, 2)
    model, tokens = model_of(config), tokens_of()
    names: list[str] = []

    @jax.jit
    def run(model: LoopedLM) -> list[jax.Array]:
        found = model.states(tokens)
        names.extend(found)
        return list(found.values())

    values = run(model)
    states = dict(zip(names, values, strict=True))
    of_recurrences = [
        name
        for i in range(2)
        for name in (f"inject.{i}", f"recurrence.{i}.0", f"recurrence.{i}.1", f"recurrence.{i}")
    ]
    assert names == ["embedding", "prelude.0", *of_recurrences, "coda.0"]
    assert {state.shape for state in values} == {(2, LENGTH, config.width)}
    close(model.logits(states["coda.0"]), forward(model, tokens))
    e = states["prelude.0"]
    state = config.injected.start(e)
    for i in range(2):
        close(states[f"inject.{i}"], config.injected.read(model.injection, e, state, i))
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
    config = ModelConfig(width=32, head_size=8, prelude=0, layers=8, coda=0, num_recur=2)
    model = jax.jit(lambda key: LoopedLM.draw(config, 512, key))(jax.random.key(1))

    def check(leaf: jax.Array, deviation: float, kurtosis: float) -> None:
        n = leaf.size
        assert abs(float(jnp.mean(leaf))) < 5 * deviation / n**0.5
        assert abs(float(jnp.std(leaf)) / deviation - 1) < 5 * ((kurtosis - 1) / (4 * n)) ** 0.5

    check(model.embedding, 1, 3)
    check(model.head, 0.001, 3)
    for name, leaf in vars(model.recurrent).items():
        if name.endswith("_scale"):
            assert np.all(leaf == 1)
        elif name != "head_size":
            deviation = leaf.shape[-2] ** -0.5
            check(leaf, deviation, 1.8)
            assert float(jnp.max(jnp.abs(leaf))) <= 3**0.5 * deviation
    for leaf in (model.embedding_scale, model.recurrence_scale, model.final_scale):
        assert np.all(leaf == 1)
    assert np.array_equal(model.injection["inject"], [*np.eye(32), *np.zeros((32, 32))])
    groups = jax.tree.leaves(model.labels())
    weights = [leaf for group, leaf in zip(groups, jax.tree.leaves(model), strict=True) if group != "scale"]
    weights = [leaf for leaf in weights if leaf.size]
    assert len({bytes(np.asarray(leaf).ravel()[:32]) for leaf in weights}) == len(weights)


def test_a_layer_depends_on_its_key_and_place_alone():
    """A deeper model begins with the same blocks."""
    key = jax.random.key(3)
    few, many = jax.jit(lambda key: (draw_blocks(key, 2, 16, 8), draw_blocks(key, 5, 16, 8)))(key)
    assert jax.tree.all(jax.tree.map(lambda one, other: np.array_equal(one, other[:2]), few, many))
    assert not np.array_equal(many.query[0], many.query[1])


# Programs.


def num_equations(jaxpr: Any) -> int:
    """Equations of a jaxpr and of all within it."""
    inside = (jax.extend.core.jaxprs_in_params(equation.params) for equation in jaxpr.eqns)
    return len(jaxpr.eqns) + sum(num_equations(one) for found in inside for one in found)


@pytest.mark.parametrize("injection", MODELS)
def test_programs_do_not_grow_with_depth(injection):
    """The forward pass has as many equations for 8 layers as for 32, and for r = 2 as for r = 8 of the same
    block; prelude and coda grow with it."""

    def count(layers: int, num_recur: int) -> int:
        config = config_of(injection, num_recur, layers=layers, prelude=layers // 4, coda=layers // 4)
        model = jax.eval_shape(lambda key: LoopedLM.draw(config, VOCABULARY, key), jax.random.key(0))
        tokens = jax.ShapeDtypeStruct((2, LENGTH), jnp.int32)
        return num_equations(jax.make_jaxpr(lambda model, tokens: model(tokens))(model, tokens).jaxpr)

    assert 100 < count(8, 2) == count(32, 2) == count(32, 8)


def test_sampled_models_run_at_any_r():
    """`sampled` changes the training's r, not what the model computes."""
    plain = model_of(config_of("linear", 2))
    sampled = LoopedLM(**{**vars(plain), "config": config_of("linear", 2, sampled=SampledRecurrences())})
    one, other = (jax.make_jaxpr(lambda m: m(tokens_of()))(model) for model in (plain, sampled))
    assert str(one) == str(other)


def test_tokens_outside_the_vocabulary_are_refused():
    """Where they can be seen: a call, hidden states and an extension name the token and the range."""
    config = ModelConfig(width=8, head_size=4, prelude=1, layers=2, coda=1, num_recur=2)
    model = LoopedLM.draw(config, 11, jax.random.key(0))
    cache = KVCache.empty(model, 1, 4, 2)
    for wrong in (11, -1):
        tokens = jnp.array([[3, wrong]])
        for call in (model, model.states, lambda tokens: extend(model, tokens, cache, 2)):
            with pytest.raises(ValueError, match=f"tokens: {wrong} is no token: they must be from 0 to 10"):
                call(tokens)
    for call in (model, model.states):
        with pytest.raises(ValueError, match="num_recur is 0: it must be a whole number, at least 1"):
            call(jnp.array([[3]]), 0)
