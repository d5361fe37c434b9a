"""From an item to the tokens that a model reads, and those of them that are scored.

Symbols: c characters; positions T; a sequence is `first`, the prompt, the continuation.
"""

import bisect
import functools
from collections.abc import Sequence
from typing import NamedTuple

from llm.axes._task import Item, TaskError, prompt
from llm.probe import LanguageModel


class Scored(NamedTuple):
    """One choice of an item: tokens from `start` on are scored, and stand for `num_bytes` of UTF-8."""

    tokens: list[int]
    start: int
    num_bytes: int


class Prepared(NamedTuple):
    """An item's choices as sequences. shots: solved items that fit; cut: whether its own context did not."""

    choices: list[Scored]
    shots: int
    cut: bool


def split(model: LanguageModel, context: str, continuation: str) -> tuple[list[int], list[int], int]:
    """Tokens of the context, of the continuation, and the bytes of the continuation.

    The whole text is encoded, since a tokenizer may join what stands on both sides of the seam; the
    continuation's tokens are those after the ones that the context alone begins with as well. Blanks at the
    context's end belong to the continuation: tokenizers have tokens for " word" that would not be used after
    "... ". Ends of lines stay, which join no word.
    """
    kept = context.rstrip(" \t")
    whole = model.encode(context + continuation)
    before = model.encode(kept) if kept else []
    shared = len(before)
    if whole[:shared] != before:  # a token holds both sides of the seam
        differ = (i for i, (one, other) in enumerate(zip(whole, before, strict=False)) if one != other)
        shared = next(differ, min(len(whole), len(before)))
    return whole[:shared], whole[shared:], len((context + continuation)[len(kept) :].encode())


def prepared(model: LanguageModel, item: Item, examples: Sequence[Item], where: str) -> Prepared | None:
    """The sequences of an item, or None where a continuation alone is longer than the model reads.

    Where they are longer, solved items are left out, the first ones first, then the context is cut on its
    left; for all choices alike. Raises TaskError, naming the item by `where`.
    """

    @functools.cache
    def parts_without(dropped: int) -> list[tuple[list[int], list[int], int]]:
        context = prompt(examples[dropped:], item)
        return [split(model, context, choice) for choice in item.choices]

    def fits(dropped: int) -> bool:
        return all(_fits(model, len(before) + len(after)) for before, after, _ in parts_without(dropped))

    # Fewer examples are fewer tokens, so that not every number of them has to be encoded.
    dropped = 0 if fits(0) else 1 + bisect.bisect_left(range(1, len(examples)), True, key=fits)
    dropped = min(dropped, len(examples))
    parts = parts_without(dropped)
    if not all(_fits(model, len(after)) for _, after, _ in parts):
        return None
    found, cut = [], False
    for (before, after, num_bytes), choice in zip(parts, item.choices, strict=True):
        if not after:
            raise TaskError(f"{where}: the tokenizer has no token for {choice!r} there: leave the item out")
        room = None if model.longest is None else model.longest + 1 - len(after) - _ahead(model)
        kept = before if room is None or room >= len(before) else before[len(before) - room :]
        cut = cut or len(kept) < len(before)
        ahead = [model.first] if model.first is not None else []
        if not ahead and not kept:
            told = f"{where}: nothing stands before {choice!r}, and {model.name} has no token that begins"
            raise TaskError(f"{told} a text: give it a context")
        found.append(Scored([*ahead, *kept, *after], len(ahead) + len(kept), num_bytes))
    return Prepared(found, len(examples) - dropped, cut)


def _ahead(model: LanguageModel) -> int:
    return 0 if model.first is None else 1


def _fits(model: LanguageModel, count: int) -> bool:
    """Whether a model reads so many tokens after `first`; the last of them it need not read."""
    return model.longest is None or _ahead(model) + count - 1 <= model.longest
