"""Where a probe's trajectories come from.

Symbols: batch B, positions T, width d, states S. A new source is a subclass of `Source`.
"""

import abc
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, Int

from llm.probe._memory import in_batches
from llm.probe._model import LanguageModel, State


class Batch(NamedTuple):
    """Neighbouring sequences. first: number of the first. lengths: how many of their positions are real.

    documents: which document each is of; sequences of one stand side by side. None: each of its own.
    """

    first: int
    states: Float[ArrayLike, "S B T d"]
    lengths: Int[np.ndarray, " B"]
    tokens: Int[np.ndarray, "B T"] | None = None
    documents: Int[np.ndarray, " B"] | None = None


class Source(abc.ABC):
    """A network and what it is given: numbered sequences of tokens.

    states: what its hidden states are. sequences: how many there are, where that is known. model: the
    language model that reads states out; None for networks without one.
    """

    states: tuple[State, ...]
    sequences: int | None
    model: LanguageModel | None = None

    @abc.abstractmethod
    def batches(self, start: int = 0) -> Iterator[Batch]:
        """All sequences in order, from number `start` on."""


@final
class TextSource(Source):
    """A language model reading sequences of tokens.

    open: sequences from a number on, each the number of its document and 1 to `length` tokens. at_once: how
    many are read together; half of it where memory runs out.
    """

    def __init__(
        self,
        model: LanguageModel,
        open: Callable[[int], Iterator[tuple[int, Int[np.ndarray, " n"]]]],
        *,
        length: int,
        at_once: int,
        sequences: int | None = None,
    ) -> None:
        if at_once < 1:
            raise ValueError(f"at_once is {at_once}: it must be at least 1")
        if model.longest is not None and length > model.longest:
            raise ValueError(f"length is {length}: the model reads at most {model.longest} positions")
        self.model, self.states, self.sequences = model, model.states, sequences
        self._open, self._length, self._at_once = open, length, at_once

    def batches(self, start: int = 0) -> Iterator[Batch]:
        model = self.model
        assert model is not None
        first, opened, size = start, self._open(start), self._at_once
        while pending := list(itertools.islice(opened, self._at_once)):
            # Empty places are filled with rows of nothing, so that one program serves all.
            tokens = np.zeros((self._at_once, self._length), np.int32)
            lengths = np.zeros(self._at_once, np.int64)
            documents = np.zeros(self._at_once, np.int64)
            for row, (document, ids) in enumerate(pending):
                tokens[row, : len(ids)] = ids
                lengths[row], documents[row] = len(ids), document

            def read(begin: int, end: int, at: Any = (first, tokens, lengths, documents)) -> Batch:
                number, *arrays = at
                some, real, of = (array[begin:end] for array in arrays)
                states = model.trajectory(some, np.maximum(real, 1))
                return Batch(number + begin, jax.block_until_ready(states), real, some, of)

            for batch in in_batches(read, self._at_once, size):
                size = min(size, len(batch.lengths))  # what memory has shown to be enough
                if batch.lengths.any():
                    yield batch
            first += len(pending)


@final
class TrajectorySource(Source):
    """Any network whose trajectories can be computed: each input is a sequence of one token.

    trajectories: of the inputs from one number to another, (S, inputs, d). Names of the states are
    `start`, `layer.0`, `layer.1`, …
    """

    def __init__(
        self,
        trajectories: Callable[[int, int], Float[ArrayLike, "S inputs d"]],
        *,
        depth: int,
        inputs: int,
        at_once: int = 1024,
    ) -> None:
        self.states = (
            State("start", "embedding", is_layer=False),
            *(State(f"layer.{layer}", "layer") for layer in range(depth)),
        )
        self.sequences = inputs
        self._trajectories, self._at_once = trajectories, at_once

    def batches(self, start: int = 0) -> Iterator[Batch]:
        assert self.sequences is not None
        for first in range(start, self.sequences, self._at_once):
            states = self._trajectories(first, min(first + self._at_once, self.sequences))
            states = jnp.asarray(states)[:, :, None]
            yield Batch(first, states, np.ones(states.shape[1], np.int64))
