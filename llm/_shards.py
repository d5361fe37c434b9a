"""Shards: sequences of tokens in binary files, read through the memory map.

A side (training or validation) is sequences of T + 1 tokens, little-endian unsigned numbers of 2 bytes (4
where the vocabulary exceeds 2^16), one after another in files of at most SHARD_BYTES; all but the last
file hold equally many sequences.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32, Integer

from llm._readers import CorpusError

SHARD_BYTES = 64 * 2**20
"""Of one file."""


@dataclass(frozen=True)
class Shard:
    """One file: its name, how many sequences, the hash of its bytes, and when it was written (ns)."""

    name: str
    sequences: int
    sha256: str
    mtime_ns: int

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ShardFormat:
    """How sequences lie in files. length: tokens of a sequence, T + 1."""

    length: int
    vocabulary: int

    @property
    def dtype(self) -> np.dtype:
        """Of a token in a file."""
        return np.dtype("<u2" if self.vocabulary <= 2**16 else "<u4")

    @property
    def per_shard(self) -> int:
        """Sequences in every file but the last."""
        return max(1, SHARD_BYTES // (self.length * self.dtype.itemsize))

    def write(self, path: Path, tokens: np.ndarray) -> Shard:
        """Whole sequences of `tokens` as one file."""
        sequences, rest = divmod(len(tokens), self.length)
        assert rest == 0 and sequences > 0
        data = tokens.astype(self.dtype).tobytes()
        write_atomic(path, data)
        return Shard(path.name, sequences, hashlib.sha256(data).hexdigest(), path.stat().st_mtime_ns)

    def check(self, folder: Path, shard: Shard, always: bool = False) -> None:
        """Raise CorpusError where the file is not the one that was written.

        Sizes are compared; contents only where the file's time has changed, or `always`.
        """
        path = folder / shard.name
        remedy = f"remove {folder} and build it again"
        try:
            found = path.stat()
        except OSError as error:
            raise CorpusError(f"{path} is missing: {remedy}") from error
        size = shard.sequences * self.length * self.dtype.itemsize
        if found.st_size != size:
            raise CorpusError(f"{path} is damaged: {found.st_size} bytes, {size} were written; {remedy}")
        if found.st_mtime_ns == shard.mtime_ns and not always:
            return
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != shard.sha256:
            raise CorpusError(f"{path} is damaged: its hash is not that of what was written; {remedy}")
        check_ids(np.frombuffer(data, self.dtype), self.vocabulary, str(path))


def check_ids(tokens: np.ndarray, vocabulary: int, where: str) -> None:
    """Raise CorpusError at a token that the vocabulary does not have."""
    wrong = np.flatnonzero((tokens < 0) | (tokens >= vocabulary))
    if len(wrong):
        told = f"{where}: token {wrong[0]} is id {tokens[wrong[0]]}, the vocabulary ends at {vocabulary - 1}"
        raise CorpusError(f"{told}; these tokens are another tokenizer's")


class Side:
    """The sequences of one side; `len(side)` of them."""

    def __init__(self, folder: Path, form: ShardFormat, shards: Sequence[Shard]) -> None:
        self._form = form
        self._folder = folder
        self._shards = tuple(shards)
        self._per_shard = shards[0].sequences
        assert all(shard.sequences == self._per_shard for shard in shards[:-1])
        self._length = sum(shard.sequences for shard in shards)

    def __len__(self) -> int:
        return self._length

    def take(self, indices: Integer[np.ndarray, " n"] | Sequence[int]) -> Int32[np.ndarray, "n length"]:
        """The sequences at `indices`, from 0. Raises IndexError outside."""
        wanted = np.asarray(indices, np.int64).reshape(-1)
        if len(wanted) and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"sequence {wanted.min()} … {wanted.max()}: there are 0 … {len(self) - 1}")
        out = np.empty((len(wanted), self._form.length), np.int32)
        shards = wanted // self._per_shard
        for number in np.unique(shards):
            chosen = shards == number
            table = _mapped(self._folder, self._shards[number], self._form)
            out[chosen] = table[wanted[chosen] - number * self._per_shard]
        return out


@lru_cache(maxsize=64)  # a map holds a file open
def _mapped(folder: Path, shard: Shard, form: ShardFormat) -> np.ndarray:
    shape = (shard.sequences, form.length)
    return np.memmap(folder / shard.name, form.dtype, mode="r", shape=shape)


def remove_temporaries(folder: Path) -> None:
    """Remove what a `write_atomic` that was killed has left; only where nobody else writes."""
    for path in folder.glob(".*.*"):
        with contextlib.suppress(OSError):
            path.unlink()


def write_atomic(path: Path, data: bytes) -> None:
    """`data` at `path`, whole or not at all, also when the machine loses its power.

    Raises CorpusError when the file system refuses; nothing is left behind.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise CorpusError(f"{path} cannot be written: {error.strerror or error}") from error
