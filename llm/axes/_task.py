"""What an evaluation asks of a language model: items, and tasks that yield them."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass

AXES = ("knowledge", "reading", "math", "reasoning", "symbolic")
"""The axes of arXiv:2604.21106: parametric knowledge, reading comprehension, math word problems, reasoning
primitives, compositional symbolic tasks."""


class TaskError(ValueError):
    """Tasks that cannot be used: says which, where and what to do."""


@dataclass(frozen=True)
class Item:
    """One question.

    context: what is given. choices: the continuations that it may have; one alone where answers are open.
    answer: which of them is right, from 0. guess: the probability that a uniform guess over the possible
    answers is right; None where it follows from the choices, or where nobody can say what is possible.
    Raises ValueError: an empty choice, an answer that is none of them, a guess outside (0, 1].
    """

    context: str
    choices: tuple[str, ...]
    answer: int = 0
    guess: float | None = None

    def __post_init__(self) -> None:
        if not self.choices or not all(self.choices):
            raise ValueError(f"choices are {self.choices!r}: none may be empty, and there must be one")
        if not 0 <= self.answer < len(self.choices):
            raise ValueError(f"answer is {self.answer}: it must be from 0 to {len(self.choices) - 1}")
        if self.guess is not None and not 0 < self.guess <= 1:
            raise ValueError(f"guess is {self.guess}: it must be above 0 and at most 1")

    @property
    def continuation(self) -> str:
        """The right one."""
        return self.choices[self.answer]

    @property
    def chance(self) -> float | None:
        """The probability that a uniform guess is right; None where it is unknown."""
        if self.guess is None and len(self.choices) > 1:
            return 1 / len(self.choices)
        return self.guess

    @property
    def chance_nats(self) -> float | None:
        """The loss of a uniform guess, −log chance, in nats an answer; None where it is unknown."""
        return None if self.chance is None else -math.log(self.chance)


class Task(abc.ABC):
    """Items of one kind.

    name: letters, digits and `_`; it begins the names of its columns. axis: one of `AXES`. source: where its
    items come from. chance: what a uniform guess is, in words. shots: solved items that are put before an
    item unless the call says otherwise.
    """

    name: str
    axis: str
    source: str
    chance: str
    shots: int

    @abc.abstractmethod
    def items(self, count: int, seed: int) -> list[Item]:
        """The first `count` items, or all that there are, of a seed; the same on every machine."""

    @abc.abstractmethod
    def examples(self, item: Item, number: int, count: int, seed: int) -> list[Item]:
        """`count` solved items to put before item number `number`: never itself, from those kept for it.

        Raises TaskError where there are not so many.
        """

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """What its items depend on but the seed: tasks of the same fingerprint have the same items."""


BETWEEN = "\n\n"
"""Stands after every solved item."""


def prompt(examples: Sequence[Item], item: Item) -> str:
    """What is put before an item's choices: solved items, each followed by an empty line, and the context."""
    solved = ((one.context + one.continuation).rstrip("\n") + BETWEEN for one in examples)
    return "".join(solved) + item.context
