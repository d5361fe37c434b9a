"""A language model made by hand, in which one known position at a time carries a fact to the last token."""

from collections.abc import Sequence

import numpy as np

from llm.probe import LanguageModel, State, Trace

VOCABULARY = 128
ANSWER = ord("!")


class Relay(LanguageModel):
    """Letters are tokens and states are numbers, 1 from the embedding on. `path[s]`: who carries at state s.

    A layer hands the carrier's number x on to the next carrier, and leaves 0 where it was. At the end "!"
    has probability exp(−(x − 1)²) / (1 + exp(−(x − 1)²)), which any noise on the carrier lowers.
    """

    def __init__(self, path: Sequence[int], *, first: int | None = None, longest: int | None = None) -> None:
        self.path, self.first, self.longest = tuple(path), first, longest
        self.name = "relay"
        self.states = (State("embedding", "embedding", is_layer=False),) + tuple(
            State(f"layer.{i}", "layer") for i in range(len(path) - 1)
        )
        self.width, self.vocabulary, self.embedding_deviation = 1, VOCABULARY, 0.5
        self.asked: list[tuple[int, list[int], int]] = []

    def encode(self, text):
        return [ord(letter) for letter in text]

    def decode(self, ids):
        return "".join(chr(id) for id in ids)

    def trace(self, tokens):
        return RelayTrace(self, len(tokens))

    def logits(self, tokens, lengths):
        raise NotImplementedError

    trajectory = read_out = through_last_layer = logits


class RelayTrace(Trace):
    """See `Relay`."""

    def __init__(self, model: Relay, length: int) -> None:
        self.model, self.length = model, length

    def run(self, noise: np.ndarray, state: int = -1, position: int = 0) -> np.ndarray:
        """Probabilities (V,) with noise (T,), and one state put back."""
        h = self.states(noise, state, position)[-1]
        found = np.zeros(VOCABULARY)
        ratio = np.exp(-((h[-1] - 1) ** 2))
        found[[ANSWER, ord("?")]] = ratio / (1 + ratio), 1 / (1 + ratio) - 1e-9
        return found

    def states(self, noise: np.ndarray, state: int = -1, position: int = 0) -> list[np.ndarray]:
        """Every state (T,)."""
        h, path, found = 1 + noise, self.model.path, []
        for number in range(len(path)):
            if number and path[number] != path[number - 1]:
                h[path[number]], h[path[number - 1]] = h[path[number - 1]], 0
            if number == state:
                h[position] = self.states(np.zeros(self.length))[number][position]
            found.append(h.copy())
        return found

    def clean(self):
        return self.run(np.zeros(self.length))

    def corrupted(self, noise):
        return np.stack([self.run(one[:, 0].astype(float)) for one in noise])

    def restored(self, noise, state, positions):
        self.model.asked.append((len(noise), list(positions), state))
        return np.stack([[self.run(one[:, 0].astype(float), state, t) for t in positions] for one in noise])
