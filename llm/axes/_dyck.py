"""Dyck words: close the brackets that are open."""

import itertools
from typing import final

from llm.axes._draw import Draw
from llm.axes._generator import Generator
from llm.axes._task import Item

PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
SHORTEST, LONGEST, DEEPEST = 6, 14, 4


@final
class Dyck(Generator):
    """`{ ( [ ]` → ` ) }`, as in BIG-bench's dyck_languages, with its four kinds of bracket.

    6 to 14 brackets are given, of which 1 to 4 are still open at the end and never more on the way.
    """

    name = "dyck"
    axis = "symbolic"
    chance = "4^-n: any closing bracket at each of n places; 0.12 on average"
    shots = 3

    def draw(self, draw: Draw) -> Item:
        length = SHORTEST + draw.below(LONGEST - SHORTEST + 1)
        given: list[str] = []
        open: list[str] = []
        while len(given) < length or not open:
            opens = not open or (len(open) < DEEPEST and draw.below(2) == 0)
            if opens:
                open.append(draw.among(list(PAIRS)))
                given.append(open[-1])
            else:
                given.append(PAIRS[open.pop()])
        return Item(" ".join(given), (self._answer([PAIRS[one] for one in reversed(open)]),))

    def possible(self, item: Item) -> list[str]:
        places = len(item.continuation.split())
        return [self._answer(list(some)) for some in itertools.product(PAIRS.values(), repeat=places)]

    def _answer(self, brackets: list[str]) -> str:
        return "".join(f" {bracket}" for bracket in brackets) + "\n"
