"""Variable assignment: five variables with values, perhaps five that stand for them, and one is asked."""

from dataclasses import dataclass
from string import ascii_lowercase
from typing import final

from llm.axes._draw import Draw
from llm.axes._generator import Generator
from llm.axes._task import Item

VARIABLES = 5
LARGEST = 25


@dataclass(frozen=True)
class Surface:
    """How assignments are written: what stands between a name and its value, and between two of them."""

    name: str
    equals: str
    between: str


MATHS = Surface("math", "=", ", ")
CODE = Surface("code", " = ", "\n")


@final
class Assignment(Generator):
    """`n=22, d=3, ..., n=` → 22 (maths), or a line `n = 22` each (code).

    The values are five different ones of 1 … 25. At depth 1 five more variables follow, each given one of the
    first five, `b=n`, no two the same; one of these is asked for. The answer ends with its line, so that 2 is
    not the beginning of 22.
    """

    axis = "reasoning"
    chance = "1/5: one of the values that are given"
    shots = 5

    def __init__(self, depth: int, surface: Surface) -> None:
        if depth not in (0, 1):
            raise ValueError(f"depth is {depth}: it must be 0 or 1")
        self.name = f"assignment_{depth}_{surface.name}"
        self.depth, self.surface = depth, surface

    def draw(self, draw: Draw) -> Item:
        names = draw.sample(ascii_lowercase, VARIABLES * (1 + self.depth))
        values = draw.sample([str(value) for value in range(1, 1 + LARGEST)], VARIABLES)
        given = list(zip(names, values, strict=False))
        known = dict(given)
        asked = names[:VARIABLES]
        if self.depth:
            asked = names[VARIABLES:]
            aliases = list(zip(asked, draw.sample(names[:VARIABLES], VARIABLES), strict=True))
            known |= {alias: known[name] for alias, name in aliases}
            given += aliases
        name = draw.among(asked)
        equals, between = self.surface.equals, self.surface.between
        context = between.join([*(one + equals + value for one, value in given), name + equals.rstrip()])
        return Item(context, (self._answer(known[name]),))

    def possible(self, item: Item) -> list[str]:
        given = item.context.split(self.surface.between)[:VARIABLES]
        return [self._answer(one.partition(self.surface.equals)[2]) for one in given]

    def _answer(self, value: str) -> str:
        return self.surface.equals.partition("=")[2] + value + "\n"
