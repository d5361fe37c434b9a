"""Our own models as probes see them.

Symbols: batch B, positions T, width d, vocabulary V, states S.
"""

import functools
from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from llm._blocks import rms_norm, run_blocks
from llm._model import LoopedLM, check_vocabulary, positions_of
from llm._prepared import Prepared
from llm._products import precise
from llm._rules import require, require_recurrences
from llm.probe._model import LanguageModel, State, Trace

ROWS = 64
"""Sequences that a trace runs at once."""


@final
class Looped(LanguageModel):
    """A `LoopedLM`, run `num_recur` times (None: as in training), every token seeing all before it."""

    def __init__(
        self,
        model: LoopedLM,
        prepared: Prepared,
        *,
        num_recur: int | None = None,
        longest: int | None = None,
        name: str = "looped",
        stamp: str = "",
    ) -> None:
        require_recurrences(num_recur)
        require(model.config.coda >= 1, "coda", model.config.coda, "must have a layer, which probes read by")
        if prepared.vocabulary != model.vocabulary:
            told = f"the tokenizer's vocabulary is {prepared.vocabulary}, the model's {model.vocabulary}"
            raise ValueError(f"{told}: take the corpus that it was trained on")
        self.model, self.name, self.longest, self.stamp = model, name, longest, stamp
        self.num_recur = model.config.num_recur if num_recur is None else num_recur
        self.states = states_of(model, self.num_recur)
        self.width, self.vocabulary = model.config.width, model.vocabulary
        self.embedding_deviation = float(jnp.std(model.embedding[: model.vocabulary]))
        self.first = prepared.separator
        self._prepared = prepared

    def encode(self, text: str) -> list[int]:
        (ids,) = self._prepared.encode_batch([text])
        return [int(id) for id in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return self._prepared.decode(ids)

    def logits(self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]) -> Float[Array, "B T V"]:
        check_vocabulary(tokens, self.vocabulary, "tokens")
        with precise("float32"):
            return _logits(self.model, jnp.asarray(tokens), self.num_recur)

    def trajectory(
        self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Array, "S B T d"]:
        check_vocabulary(tokens, self.vocabulary, "tokens")
        with precise("float32"):
            return _trajectory(self.model, jnp.asarray(tokens), self.num_recur)

    def read_out(self, h: Float[Any, "B T d"]) -> Float[Array, "B T V"]:
        with precise("float32"):
            return _read_out(self.model, jnp.asarray(h))

    def through_last_layer(
        self, h: Float[Any, "B T d"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Array, "B T V"]:
        with precise("float32"):
            return _through_last_layer(self.model, jnp.asarray(h))

    def trace(self, tokens: Int[np.ndarray, " T"]) -> "LoopedTrace":
        check_vocabulary(tokens, self.vocabulary, "tokens")
        return LoopedTrace(self.model, np.asarray(tokens), self.num_recur)


@final
class LoopedTrace(Trace):
    """At a recurrence's end with lanes, all of them are put back."""

    def __init__(self, model: LoopedLM, tokens: Int[np.ndarray, " T"], num_recur: int) -> None:
        self._model, self._num_recur = model, num_recur
        self._embedding = model.embedding[tokens]
        with precise("float32"):
            self._states = _walked(model, self._embedding, num_recur)

    def clean(self) -> Float[np.ndarray, " V"]:
        with precise("float32"):
            return np.asarray(_next(self._model, self._states[-1]))[0]

    def corrupted(self, noise: Float[np.ndarray, "draws T d"]) -> Float[np.ndarray, "draws V"]:
        draws = np.arange(len(noise))
        return self._run(noise, -1, draws, np.zeros_like(draws))

    def restored(
        self, noise: Float[np.ndarray, "draws T d"], state: int, positions: Int[np.ndarray, " P"]
    ) -> Float[np.ndarray, "draws P V"]:
        if not 0 <= state < len(self._states):
            raise ValueError(f"state is {state}: it must be from 0 to {len(self._states) - 1}")
        length = len(self._embedding)
        if len(positions) and not (positions.min() >= 0 and positions.max() < length):
            raise ValueError(f"positions are {positions.tolist()}: they must be from 0 to {length - 1}")
        draws, at = (part.ravel() for part in np.indices((len(noise), len(positions))))
        found = self._run(noise, state, draws, np.asarray(positions)[at])
        return found.reshape(len(noise), len(positions), -1)

    def _run(self, noise: np.ndarray, state: int, draws: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Rows of these draws with the state put back at these positions, a few at a time."""
        found = []
        for begin in range(0, len(draws), ROWS):
            some, at = noise[draws[begin : begin + ROWS]], positions[begin : begin + ROWS]
            empty = ROWS - len(some)  # rows of nothing, so that one program serves all
            padded = np.pad(some, ((0, empty), (0, 0), (0, 0))).astype(np.float32)
            with precise("float32"):
                rows = _restored(
                    self._model,
                    self._embedding,
                    self._states,
                    padded,
                    jnp.asarray(state),
                    jnp.asarray(np.pad(at, (0, empty))),
                    self._num_recur,
                )
            found.append(np.asarray(rows)[: len(some)])
        return np.concatenate(found)


def states_of(model: LoopedLM, num_recur: int) -> tuple[State, ...]:
    """What the states of `LoopedLM.states` are."""
    names = jax.eval_shape(lambda: model.states(jnp.zeros((1, 1), jnp.int32), num_recur))
    return tuple(_state(name) for name in sorted(names, key=_place))


def _place(name: str) -> tuple[int, int, int]:
    """Where a state's name belongs in the order of depth."""
    part, *numbers = name.split(".")
    first = int(numbers[0]) if numbers else 0
    if part in ("embedding", "prelude", "coda"):
        return {"embedding": -2, "prelude": -1, "coda": 10**9}[part], first, 0
    within = -1 if part == "inject" else int(numbers[1]) if len(numbers) == 2 else 10**9
    return first, within, 0


def _state(name: str) -> State:
    part, *numbers = name.split(".")
    if part in ("inject", "recurrence"):
        return State(name, "recurrence", int(numbers[0]), is_layer=len(numbers) == 2)
    return State(name, part, is_layer=part != "embedding")


@functools.partial(jax.jit, static_argnums=2)
def _logits(model: LoopedLM, tokens: Array, num_recur: int) -> Array:
    return model(tokens, num_recur)


@functools.partial(jax.jit, static_argnums=2)
def _trajectory(model: LoopedLM, tokens: Array, num_recur: int) -> Array:
    return jnp.stack(list(model.states(tokens, num_recur).values()))


@jax.jit
def _read_out(model: LoopedLM, h: Array) -> Array:
    return model.logits(h)


@jax.jit
def _through_last_layer(model: LoopedLM, h: Array) -> Array:
    last = jax.tree.map(lambda leaf: leaf[-1:], model.coda)
    after, _ = run_blocks(last, h, positions_of(h.shape[-2], model.config.head_size))
    return model.logits(after)


@functools.partial(jax.jit, static_argnums=2)
def _walked(model: LoopedLM, embedding: Array, num_recur: int) -> list[Any]:
    embedded = rms_norm(embedding, model.embedding_scale)
    return list(model.walk(embedded[None], num_recur).values())


@jax.jit
def _next(model: LoopedLM, h: Array) -> Array:
    """Probabilities of the token after the last."""
    return jax.nn.softmax(model.logits(h[..., -1, :]))


@functools.partial(jax.jit, static_argnums=6)
def _restored(
    model: LoopedLM,
    embedding: Float[Array, "T d"],
    clean: list[Any],
    noise: Float[Array, "rows T d"],
    wanted: Int[Array, ""],
    positions: Int[Array, " rows"],
    num_recur: int,
) -> Float[Array, "rows V"]:
    plain = jnp.stack([state.reshape(-1, *embedding.shape)[-1] for state in clean])

    def visit(number: Any, state: Any) -> Any:
        # Those that carry lanes have a number that is known here; those of a scan have none.
        value = clean[number] if isinstance(number, int) else plain[number]
        here = (number == wanted) & (positions[:, None] == jnp.arange(embedding.shape[0]))
        return jnp.where(here[..., None], value, state)

    embedded = rms_norm(embedding + noise, model.embedding_scale)
    *_, last = model.walk(embedded, num_recur, visit).values()
    return _next(model, last)
