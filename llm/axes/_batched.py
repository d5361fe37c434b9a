"""Losses of many sequences, in batches of like length.

Symbols: batch B, positions T, vocabulary V, scored tokens n.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from llm.axes._sequence import Scored
from llm.probe import LanguageModel

LOGITS = 2**26
"""Logits of a batch, 256 MiB of them in float32."""

MOST_TOKENS = 2**14
"""Tokens of a batch: more are no faster with small vocabularies."""


class Losses(NamedTuple):
    """Of one sequence's scored tokens. nats: −log p of each. hits: whether each is the most likely one; where
    several are, its share among them."""

    nats: Float[np.ndarray, " n"]
    hits: Float[np.ndarray, " n"]


def losses(
    model: LanguageModel,
    sequences: Sequence[Scored],
    *,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] = lambda done: None,
) -> list[Losses]:
    """Of each sequence, in their order; no value depends on what else is in its batch but by rounding.

    Lengths are rounded up to 2^k and 3 · 2^k, and rows to 2^k, so that few shapes have to be compiled.
    batch_tokens: of a batch, at most (None: as memory allows). on_batch: is told how many sequences are done.
    """
    if batch_tokens is None:
        batch_tokens = max(1, min(MOST_TOKENS, LOGITS // model.vocabulary))
    found: list[Losses | None] = [None] * len(sequences)
    lengths = [rounded(len(one.tokens) - 1, model.longest) for one in sequences]
    done = 0
    for length in sorted(set(lengths)):
        mine = [number for number, other in enumerate(lengths) if other == length]
        rows = 1 << (max(1, batch_tokens // length).bit_length() - 1)
        for begin in range(0, len(mine), rows):
            some = mine[begin : begin + rows]
            for number, one in zip(some, _batch(model, [sequences[n] for n in some], length), strict=True):
                found[number] = one
            done += len(some)
            on_batch(done)
    return [one for one in found if one is not None]


def rounded(length: int, longest: int | None) -> int:
    """The least 2^k or 3 · 2^k that is not below the length, from 8 on; no more than `longest`."""
    size = 8
    while size < length:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size if longest is None else min(size, max(longest, length))


def _batch(model: LanguageModel, sequences: Sequence[Scored], length: int) -> list[Losses]:
    rows = 1 << (len(sequences) - 1).bit_length()
    tokens = np.zeros((rows, length), np.int32)
    lengths = np.ones(rows, np.int32)
    row, place, target = [], [], []
    for i, one in enumerate(sequences):
        lengths[i] = len(one.tokens) - 1  # what is predicted last is not read
        tokens[i, : lengths[i]] = one.tokens[:-1]
        scored = range(one.start, len(one.tokens))
        row += [i] * len(scored)
        place += [position - 1 for position in scored]
        target += [one.tokens[position] for position in scored]
    logits = np.asarray(model.logits(tokens, lengths))[row, place].astype(np.float64)
    most = logits.max(axis=-1, keepdims=True)
    right = np.take_along_axis(logits, np.array(target)[:, None], axis=-1)
    nats = np.log(np.exp(logits - most).sum(axis=-1)) + (most - right)[:, 0]
    hits = (right == most)[:, 0] / (logits == most).sum(axis=-1)
    ends = np.cumsum([len(one.tokens) - one.start for one in sequences])[:-1]
    return [Losses(*parts) for parts in zip(np.split(nats, ends), np.split(hits, ends), strict=True)]
