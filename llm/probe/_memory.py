"""How many sequences a language model runs at once, from the memory that is free where it runs.

Symbols: width d, vocabulary V, states S.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from llm._rules import require
from llm.probe._model import LanguageModel

T = TypeVar("T")

SHARE = 0.5
"""Of the free memory: allocators leave gaps, and others may take some meanwhile."""

INNER = 24
"""Numbers of 4 bytes that one token takes inside a layer, per unit of width: q, k, v, 4 to 8 for the MLP and
its gate, and what is copied between them."""

HEAD_SIZE = 64
"""The smallest usual size of a head; attention that keeps its scores holds T² for each head."""

SPOKEN = ("RESOURCE_EXHAUSTED", "out of memory", "not enough memory", "can't allocate memory")
"""How JAX and torch say that memory has run out."""


def bytes_per_sequence(model: LanguageModel, length: int) -> int:
    """Bytes that a sequence of `length` tokens takes: its states six times (found, and what is measured of
    them), its logits and their log-probabilities, and what one layer holds meanwhile; all float32."""
    states = 6 * len(model.states) * model.width
    layer = INNER * model.width + 2 * length * max(1, model.width // HEAD_SIZE)
    return 4 * length * (states + 2 * model.vocabulary + layer)


def sequences_at_once(model: LanguageModel, length: int, *, most: int = 64, share: float = SHARE) -> int:
    """How many sequences of `length` tokens fit into `share` of the memory that is free, from 1 to `most`.

    An estimate, from sizes alone: `in_batches` halves it where it was too bold. Raises ValueError for numbers
    that are not positive.
    """
    require(length >= 1, "length", length, "must be at least 1")
    require(most >= 1, "most", most, "must be at least 1")
    require(0 < share <= 1, "share", share, "must be above 0 and at most 1")
    return max(1, min(most, int(share * model.free_memory() / bytes_per_sequence(model, length))))


def in_batches(work: Callable[[int, int], T], count: int, size: int) -> Iterator[T]:
    """work(0, size), work(size, 2·size), … up to `count`; where memory runs out, again with half of `size`.

    Raises MemoryError where a single one does not fit, ValueError for a size below 1.
    """
    require(size >= 1, "size", size, "must be at least 1")
    begin = 0
    while begin < count:
        end = min(begin + size, count)
        found = _tried(work, begin, end)
        if found is None:
            if end - begin == 1:
                raise MemoryError("memory ran out with one sequence at a time: take shorter ones")
            # The next try starts here, after the failed one's arrays are gone.
            size = (end - begin) // 2
            continue
        yield found[0]
        begin = end


def _tried(work: Callable[[int, int], T], begin: int, end: int) -> tuple[T] | None:
    try:
        return (work(begin, end),)
    except (MemoryError, RuntimeError) as error:  # torch's and JAX's are RuntimeErrors
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in SPOKEN):
            raise
    return None
