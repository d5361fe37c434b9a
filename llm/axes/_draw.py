"""Draws that are the same on every machine and in every version of Python."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws from `random.Random(name).random()`.

    Python promises to keep that sequence for a text as the seed, and promises nothing of `sample`, `choice`
    or `shuffle`; so those are made of it here.
    """

    def __init__(self, *name: object) -> None:
        self._random = random.Random("/".join(map(str, name))).random

    def below(self, n: int) -> int:
        """A whole number from 0 to n − 1."""
        return int(self._random() * n)

    def among(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.below(len(options))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """So many of them, none twice, in random order."""
        left = list(options)
        for i in range(count):
            j = i + self.below(len(left) - i)
            left[i], left[j] = left[j], left[i]
        return left[:count]
