"""Token shards that are open, and the batches that a training step takes from them.

Symbols: T, the context; a sequence has T + 1 tokens (inputs and, one further, targets).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int32

from llm._shards import Side


@dataclass(frozen=True, eq=False)
class Tokens:
    """Shards that are whole, opened.

    train, validation: sequences of `context` + 1 ids; vocabulary: ids, padding left out; separator: the id
    before every document.
    token_bytes: bytes of text that each id stands for (0: separator, special), for bits per byte.
    prefix_bytes: by how much their sum over a document exceeds its bytes (1 for Llama's tokenizer).
    hash: sha256 of what a run can read from here. origin: what it was made from, about: the same and more in
    words, for a record.
    """

    train: Side
    validation: Side
    context: int
    vocabulary: int
    separator: int
    token_bytes: Int[np.ndarray, " vocabulary"]
    prefix_bytes: int
    hash: str
    origin: dict[str, Any]
    about: dict[str, Any]
    folder: Path

    def batch(self, seed: int, step: int, sequences: int) -> Int32[np.ndarray, "n length"]:
        """The training sequences of a step: positions step·sequences + j of an endless stream of epochs.

        A pure function of (seed, step): each epoch has all sequences once, in the order of the random
        numbers that Philox, keyed by (seed, epoch), gives them: (sequences, context + 1) ids.

        Raises ValueError for a seed outside [0, 2^64), a negative step, and fewer than one sequence.
        """
        if not (0 <= seed < 2**64 and step >= 0 and sequences >= 1):
            told = f"seed {seed}, step {step}, sequences {sequences}"
            raise ValueError(f"{told}: seed must lie in [0, 2^64), step be at least 0, sequences at least 1")
        places = step * sequences + np.arange(sequences)
        epochs, within = np.divmod(places, len(self.train))
        chosen = np.empty(sequences, np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            chosen[here] = _permutation(seed, int(epoch), len(self.train))[within[here]]
        return self.train.take(chosen)

    def validation_batches(
        self, sequences: int, limit: int | None = None
    ) -> Iterator[tuple[Int32[np.ndarray, "n length"], int]]:
        """All validation sequences in order, and how many of each batch are real: the last is padded.

        limit: only so many, spread evenly over all, so that no few documents decide. The padding repeats the
        last real sequence. Raises ValueError for numbers below 1.
        """
        for name, value in (("sequences", sequences), ("limit", limit)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be at least 1")
        count = min(len(self.validation), limit or len(self.validation))
        chosen = np.arange(count) * len(self.validation) // count
        for first in range(0, count, sequences):
            places = np.minimum(np.arange(first, first + sequences), count - 1)
            yield self.validation.take(chosen[places]), min(sequences, count - first)


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """Raw bits, since NumPy keeps those the same from version to version, and not its shuffles."""
    bits = np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(n)
    order = np.argsort(bits, kind="stable")
    order.setflags(write=False)
    return order
