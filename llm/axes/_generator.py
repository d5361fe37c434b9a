"""Tasks whose items are drawn, not read."""

import abc
from dataclasses import replace

from llm.axes._draw import Draw
from llm.axes._task import Item, Task

VERSION = 1
"""Raised when a generator draws other items than before."""


class Generator(Task):
    """A task whose items are drawn, each by a seed of its own: item 7 is the same however many there are.

    To add one, subclass it in a file of its own and name it in `_generators.py`.
    """

    source = "built in"

    @abc.abstractmethod
    def draw(self, draw: Draw) -> Item:
        """One item."""

    @abc.abstractmethod
    def possible(self, item: Item) -> list[str]:
        """All answers that a guess chooses from, the right one among them; none begins another."""

    def items(self, count: int, seed: int) -> list[Item]:
        return [self._drawn(Draw(self.name, seed, "item", number)) for number in range(count)]

    def examples(self, item: Item, number: int, count: int, seed: int) -> list[Item]:
        draw = Draw(self.name, seed, "examples", number)
        found: list[Item] = []
        while len(found) < count:
            other = self._drawn(draw)
            if other.context != item.context:
                found.append(other)
        return found

    @property
    def fingerprint(self) -> str:
        return f"built in, version {VERSION}"

    def _drawn(self, draw: Draw) -> Item:
        item = self.draw(draw)
        return replace(item, guess=1 / len(self.possible(item)))
