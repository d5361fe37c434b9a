"""The induction head: words in a random order, and one of them again."""

from string import ascii_lowercase
from typing import final

from llm.axes._draw import Draw
from llm.axes._generator import Generator
from llm.axes._task import Item

WORDS, LETTERS = 8, 3


@final
class Induction(Generator):
    """`fqk ozd ... wpa ozd` → the word that followed `ozd` before.

    Eight different words of three random letters; the one that comes again is never the last.
    """

    name = "induction"
    axis = "reasoning"
    chance = "1/7: one of the words that follow another"
    shots = 0  # it holds its own example

    def draw(self, draw: Draw) -> Item:
        words: list[str] = []
        while len(words) < WORDS:
            word = "".join(draw.among(ascii_lowercase) for _ in range(LETTERS))
            if word not in words:
                words.append(word)
        cue = draw.below(WORDS - 1)
        return Item(" ".join([*words, words[cue]]), (f" {words[cue + 1]}",))

    def possible(self, item: Item) -> list[str]:
        return [f" {word}" for word in item.context.split()[1:WORDS]]
