"""A language model as probes, traces and evaluations see it, whoever made it.

Symbols: batch B, positions T, width d, vocabulary V, states S. Sequences are padded on the right: `lengths`
says how many of a row's tokens are real, and what stands behind them changes nothing of theirs.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from llm._free_memory import device_memory


@dataclass(frozen=True)
class State:
    """A hidden state of a network: the residual stream at one point of its depth, before any norm is read.

    name: unique in its network. part: embedding, layer; prelude, recurrence, coda in looped models.
    recurrence: which one, from 0; None outside them. is_layer: whether a layer made it of the state before;
    else an embedding, a norm between recurrences, or an injection did.
    """

    name: str
    part: str
    recurrence: int | None = None
    is_layer: bool = True


class Trace(abc.ABC):
    """One sentence in one model, run clean, with noise, and with noise but for one clean state."""

    @abc.abstractmethod
    def clean(self) -> Float[np.ndarray, " V"]:
        """Probabilities of the token after the last, undisturbed."""

    @abc.abstractmethod
    def corrupted(self, noise: Float[np.ndarray, "draws T d"]) -> Float[np.ndarray, "draws V"]:
        """The same with `noise` added to the embeddings that were looked up (zero where there is none)."""

    @abc.abstractmethod
    def restored(
        self, noise: Float[np.ndarray, "draws T d"], state: int, positions: Int[np.ndarray, " P"]
    ) -> Float[np.ndarray, "draws P V"]:
        """The same, with state number `state` put back to its clean value at one position at a time."""


class LanguageModel(abc.ABC):
    """A causal language model.

    states: what its hidden states are, in order; the first is the embedding. longest: positions that it can
    read (None: any number). embedding_deviation: standard deviation of the embedding's entries. first: the id
    that is put before a text, None for none. stamp: a text that tells its weights and tokenizer from others.
    Raises ValueError for tokens outside the vocabulary.
    """

    name: str
    states: tuple[State, ...]
    width: int
    vocabulary: int
    longest: int | None
    embedding_deviation: float
    first: int | None
    stamp: str = ""

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text, without `first` and without special ids."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""

    @abc.abstractmethod
    def logits(self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]) -> Float[Any, "B T V"]:
        """Logits of the token after each, in float32."""

    @abc.abstractmethod
    def trajectory(
        self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Array, "S B T d"]:
        """All hidden states, in float32."""

    @abc.abstractmethod
    def read_out(self, h: Float[Any, "B T d"]) -> Float[Any, "B T V"]:
        """Logits of a state through the final norm and the head, normalised by its own size."""

    @abc.abstractmethod
    def through_last_layer(
        self, h: Float[Any, "B T d"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Any, "B T V"]:
        """Logits of a state through the last layer, the final norm and the head."""

    @abc.abstractmethod
    def trace(self, tokens: Int[np.ndarray, " T"]) -> Trace:
        """What a causal trace of one sequence asks for."""

    def free_memory(self) -> int:
        """Bytes free where it runs: on JAX's default device, unless a model says otherwise."""
        return device_memory()
