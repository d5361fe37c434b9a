"""A causal trace of one sentence in a pretrained model (arXiv:2602.05970, from Meng et al., 2202.05262).

Symbols: positions T, width d, vocabulary V, rows R = draws × positions.
"""

from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from llm._rules import require
from llm.probe._libraries import library, to_torch
from llm.probe._memory import in_batches
from llm.probe._model import Trace
from llm.probe._stream import Stream

ROWS = 64
"""Sequences that run at once, if memory holds them."""


@final
class PretrainedTrace(Trace):
    """A restored run starts at the state that is restored: what lies before it is the corrupted run's."""

    def __init__(self, stream: Stream, tokens: Int[np.ndarray, " T"]) -> None:
        self._stream, self._tokens = stream, stream.tokens(tokens[None])
        self._clean: list[Any] = []
        stream.watch(self._tokens, lambda number, state: self._clean.append(state))

    def clean(self) -> Float[np.ndarray, " V"]:
        found: np.ndarray = self._next(self._clean[-1])[0]
        return found

    def corrupted(self, noise: Float[np.ndarray, "draws T d"]) -> Float[np.ndarray, "draws V"]:
        last = len(self._clean) - 1
        found = in_batches(lambda a, b: self._next(self._corrupted(noise[a:b], last)), len(noise), ROWS)
        return np.concatenate([self._none(), *found])

    def restored(
        self, noise: Float[np.ndarray, "draws T d"], state: int, positions: Int[np.ndarray, " P"]
    ) -> Float[np.ndarray, "draws P V"]:
        last, length = len(self._clean) - 1, self._tokens.shape[1]
        require(0 <= state <= last, "state", state, f"must be from 0 to {last}")
        outside = positions[(positions < 0) | (positions >= length)]
        require(outside.size == 0, "position", outside[:1], f"must be from 0 to {length - 1}")
        torch = library("torch")
        draws, at = (part.ravel() for part in np.indices((len(noise), len(positions))))
        at = np.asarray(positions)[at]

        def run(begin: int, end: int) -> np.ndarray:
            # Each draw of these rows is corrupted once, whatever the number of positions.
            some, of_row = np.unique(draws[begin:end], return_inverse=True)
            rows = self._corrupted(noise[some], state)[torch.from_numpy(of_row).to(self._tokens.device)]
            rows[np.arange(end - begin), at[begin:end]] = self._clean[state][0, at[begin:end]]
            return self._next(self._stream.resume(rows, state))

        found = np.concatenate([self._none(), *in_batches(run, len(at), ROWS)])
        return found.reshape(len(noise), len(positions), found.shape[-1])

    def _corrupted(self, noise: np.ndarray, state: int) -> Any:
        """One state of runs with noise."""
        kept: list[Any] = []

        def keep(number: int, found: Any) -> None:
            if number == state:
                kept.append(found)

        tokens = self._tokens.expand(len(noise), -1)
        self._stream.watch(tokens, keep, to_torch(noise, self._stream.weight))
        return kept[0]

    def _next(self, last: Any) -> np.ndarray:
        """Probabilities of the token after the last, of the last states of rows."""
        found: np.ndarray = self._stream.read(last[:, -1]).softmax(-1).cpu().numpy()
        return found

    def _none(self) -> np.ndarray:
        return np.zeros((0, self.clean().shape[-1]), np.float32)
