"""Language models that are made for a test: they read bytes, and say what they are told to."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from llm.probe import LanguageModel

VOCABULARY = 256
FIRST = 255


class Fake(LanguageModel):
    """Bytes as tokens; `tell(prefix)` gives what follows a text, by text, with its probability.

    What is told nothing of is as likely as everything else.
    """

    def __init__(
        self,
        tell: Callable[[str], dict[str, float]],
        *,
        longest: int | None = None,
        first: int | None = FIRST,
    ) -> None:
        self.tell, self.longest, self.first = tell, longest, first
        self.name, self.states, self.width, self.vocabulary = "fake", (), 1, VOCABULARY
        self.embedding_deviation = 1.0
        self.shapes: set[tuple[int, int]] = set()

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes(id for id in ids if id != FIRST).decode(errors="replace")

    def logits(self, tokens, lengths):
        self.shapes.add(tokens.shape)
        found = np.zeros((*tokens.shape, VOCABULARY), np.float32)
        for row, (some, length) in enumerate(zip(tokens.tolist(), lengths, strict=True)):
            for place in range(length):
                told = self.tell(self.decode(some[: place + 1]))
                if told:
                    found[row, place] = -1e4
                for char, probability in told.items():
                    found[row, place, char.encode()[0]] = math.log(probability)
        return found

    def trajectory(self, tokens, lengths):
        raise AssertionError("no evaluation asks for it")

    def read_out(self, h):
        raise AssertionError("no evaluation asks for it")

    def through_last_layer(self, h, lengths):
        raise AssertionError("no evaluation asks for it")

    def trace(self, tokens):
        raise AssertionError("no evaluation asks for it")


@pytest.fixture
def fake():
    """The class."""
    return Fake


@pytest.fixture
def uniform():
    """A model that knows nothing."""
    return Fake(lambda prefix: {})
