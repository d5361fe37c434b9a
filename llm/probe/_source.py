"""Where a probe's trajectories come from.

Symbols: batch B, positions T, width d, states S. A new source is a subclass of `Source`.
"""

import abc
from collections.abc import Callable, Iterator
from typing import NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, Int

from llm.probe._model import LanguageModel, State


class Batch(NamedTuple):
    """Neighbouring sequences. first: number of the first. lengths: how many of their positions are real."""

    first: int
    states: Float[ArrayLike, "S B T d"]
    lengths: Int[np.ndarray, " B"]
    tokens: Int[np.ndarray, "B T"] | None = None


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

    open: sequences from a number on, each of 1 to `length` tokens. at_once: how many are read together.
    """

    def __init__(
        self,
        model: LanguageModel,
        open: Callable[[int], Iterator[Int[np.ndarray, " n"]]],
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
        pending: list[np.ndarray] = []
        first = start

        def read() -> Batch:
            tokens = np.zeros((self._at_once, self._length), np.int32)
            lengths = np.ones(self._at_once, np.int64)  # rows of nothing: so that one program serves all
            for row, ids in enumerate(pending):
                tokens[row, : len(ids)] = ids
                lengths[row] = len(ids)
            states = model.trajectory(tokens, lengths)
            lengths[len(pending) :] = 0
            return Batch(first, states, lengths, tokens)

        for ids in self._open(start):
            pending.append(ids)
            if len(pending) == self._at_once:
                yield read()
                first += len(pending)
                pending = []
        if pending:
            yield read()


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
