"""Which characters of a text each of its tokens stands for, by encoding and decoding alone.

Symbols: token i of T, full text = decode(all ids), a_i = how many characters of it the first i tokens
complete. Bytes that are no whole character yet decode to U+FFFD.
"""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from llm._rules import require


class Span(NamedTuple):
    """Token i: it has some bytes of the characters begin … end − 1 of the full text.

    text: what it adds to the text; U+FFFD where it ends within a character, the whole character where it
    completes one.
    """

    begin: int
    end: int
    text: str


def spans(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> tuple[str, list[Span]]:
    """The full text, and the span of each token: from a_i to a_{i+1}, or one further where it ends within a
    character. T decodings of up to T tokens."""
    full, found, begin = decode(ids), [], 0
    for i in range(len(ids)):
        so_far = decode(ids[: i + 1])
        complete = len(os.path.commonprefix([so_far, full]))
        end = complete + 1 if len(so_far) > complete else complete
        found.append(Span(begin, min(end, len(full)), so_far[begin:]))
        # The first byte of a U+FFFD that the text itself has decodes to all of it: what follows tells.
        doubtful = len(so_far) == complete and full[complete - 1 : complete] == "\ufffd"
        cut = doubtful and len(decode(ids[i + 1 :])) > len(full) - complete
        begin = complete - cut
    return full, found


def place_of(subject: str, text: str, occurrence: int = 1) -> range:
    """The characters of the subject in a text. occurrence: which one, from 1.

    Raises ValueError: not in it, or not so often.
    """
    require(bool(subject), "subject", repr(subject), "must have a character")
    require(occurrence >= 1, "occurrence", occurrence, "must be at least 1, the first")
    at, count = -1, 0
    while count < occurrence:
        at = text.find(subject, at + 1)
        if at < 0:
            break
        count += 1
    if count == 0:
        raise ValueError(f"subject {subject!r} is not in {text!r}: write it as it stands there")
    if count < occurrence:
        raise ValueError(f"occurrence is {occurrence}: {subject!r} is {count} time(s) in {text!r}")
    return range(at, at + len(subject))


def positions_in(place: range, spans: Sequence[Span]) -> list[int]:
    """The tokens that have any of these characters."""
    return [i for i, span in enumerate(spans) if span.begin < place.stop and place.start < span.end]


def first_of_answer(
    sentence: str, answer: str, ids: Sequence[int], encode: Callable[[str], Sequence[int]]
) -> int:
    """The first token that the answer has after the sentence, whose tokens are `ids`.

    Raises ValueError where there is none: no answer, or one that the tokenizer joins to the sentence's end.
    """
    require(bool(answer), "answer", repr(answer), "must have a character")
    together = list(encode(sentence + answer))
    if together[: len(ids)] == list(ids) and len(together) > len(ids):
        return together[len(ids)]
    told = f"answer {answer!r} has no token of its own after {sentence[-20:]!r}: the tokenizer joins the two"
    if sentence[-1:].isspace():
        begun = sentence[len(sentence.rstrip()) :] + answer
        told += f"; end the sentence before the space and begin the answer with it: {begun!r}"
    else:
        told += "; begin the answer with a space, or cut the sentence elsewhere"
    raise ValueError(told)
