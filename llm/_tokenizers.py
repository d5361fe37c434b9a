"""Tokenizers: text to token ids and back, and how many bytes of text each id stands for.

A tokenizer kind is a small frozen config. To add one, subclass `Tokenizer` here and name it in
`__init__.py`; configs and records take it from its `kind`. A vocabulary has one separator, which stands
before every document and which no text contains.
"""

import abc
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Integer

from llm._prepared import LibraryTokenizer, Prepared, library
from llm._readers import CorpusError, expanded
from llm._shards import write_atomic

SAVED = "tokenizer.json"
"""The file beside the shards that a trained or foreign tokenizer is kept in."""


@dataclass(frozen=True)
class Tokenizer(abc.ABC):
    """How text becomes ids. Every method raises CorpusError where it cannot."""

    kind: ClassVar[str]

    @abc.abstractmethod
    def prepare(self, folder: Path, documents: Callable[[], Iterator[str]]) -> Prepared:
        """Ready for use, kept in `folder`; trained, if it is trained, on `documents()` unless kept there."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Ids of its vocabulary, the separator among them, before it is prepared."""

    def fingerprint(self) -> str:
        """What the config does not say of the tokenizer and its ids depend on."""
        return ""


@dataclass(frozen=True)
class Bytes(Tokenizer):
    """Bytes of UTF-8 as ids: vocabulary 256. The separator is 255, a byte that UTF-8 never contains."""

    kind: ClassVar[str] = "bytes"
    size: ClassVar[int] = 256

    def prepare(self, folder: Path, documents: Callable[[], Iterator[str]]) -> Prepared:
        return _PreparedBytes()


@dataclass(frozen=True)
class TrainedBPE(Tokenizer):
    """Byte-level byte-pair encoding with GPT-2's splitting of words, trained on the training documents.

    vocabulary: ids in all: the separator (id 0), 256 bytes, and merges. sample_bytes: it is trained on the
    first so many bytes of documents; None: on all, which takes memory for every word that differs.

    Raises ValueError for a vocabulary below 257 and a sample below 1.
    """

    kind: ClassVar[str] = "bpe"
    vocabulary: int = 4096
    sample_bytes: int | None = 100_000_000

    SEPARATOR: ClassVar[str] = "<|separator|>"

    def __post_init__(self) -> None:
        if self.vocabulary < 257:
            raise ValueError(f"vocabulary is {self.vocabulary}: it must be at least 257, bytes and separator")
        if self.sample_bytes is not None and self.sample_bytes < 1:
            raise ValueError(f"sample_bytes is {self.sample_bytes}: it must be at least 1")

    @property
    def size(self) -> int:
        return self.vocabulary

    def prepare(self, folder: Path, documents: Callable[[], Iterator[str]]) -> Prepared:
        saved = folder / SAVED
        if not saved.exists():
            write_atomic(saved, self._train(documents()).encode())
        return LibraryTokenizer(saved, self.SEPARATOR)

    def _train(self, documents: Iterator[str]) -> str:
        tokenizers = library()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.vocabulary,
            special_tokens=[self.SEPARATOR],
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_first(documents, self.sample_bytes), trainer)
        found = tokenizer.get_vocab_size()
        if found < self.vocabulary:
            told = f"the training documents yield {found} tokens, vocabulary asks for {self.vocabulary}"
            raise CorpusError(f"{told}: lower vocabulary, or train on more text")
        return str(tokenizer.to_str())


@dataclass(frozen=True)
class FromFile(Tokenizer):
    """A tokenizer.json of anybody's (of Llama 2, say), byte-level or with byte fallback.

    separator: the special token that stands before every document; None: the one that the tokenizer itself
    puts before a text. Others would lose text that they have no ids for, and are refused.

    Raises ValueError for an empty path; the file itself is looked at when the tokenizer is prepared.
    """

    kind: ClassVar[str] = "file"
    path: str
    separator: str | None = None

    def __post_init__(self) -> None:
        if not self.path.strip():
            raise ValueError(f"path is {self.path!r}: it must name a tokenizer.json")

    def prepare(self, folder: Path, documents: Callable[[], Iterator[str]]) -> Prepared:
        saved = folder / SAVED
        if not saved.exists():
            data = self._read()
            LibraryTokenizer(
                expanded(self.path), self.separator
            )  # before it is kept: an error names the user's
            write_atomic(saved, data)
        return LibraryTokenizer(saved, self.separator)

    @property
    def size(self) -> int:
        return _size(self)

    def fingerprint(self) -> str:
        return hashlib.sha256(self._read()).hexdigest()

    def _read(self) -> bytes:
        try:
            return expanded(self.path).read_bytes()
        except OSError as error:
            raise CorpusError(f"tokenizer {self.path} cannot be read: {error.strerror or error}") from error


class _PreparedBytes(Prepared):
    """See `Bytes`."""

    def __init__(self) -> None:
        self.vocabulary, self.separator, self.prefix_bytes = 256, 255, 0
        self.token_bytes = np.ones(256, np.int32)
        self.token_bytes[self.separator] = 0

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.frombuffer(text.encode(), np.uint8) for text in texts]

    def decode(self, ids: Iterable[int] | Integer[np.ndarray, " n"]) -> str:
        return bytes(int(id) for id in ids if id != self.separator).decode(errors="replace")


@functools.lru_cache(maxsize=8)
def _size(tokenizer: FromFile) -> int:
    """Read once: a sweep asks for every job."""
    return LibraryTokenizer(expanded(tokenizer.path), tokenizer.separator).vocabulary


def _first(documents: Iterator[str], num_bytes: int | None) -> Iterator[str]:
    """Documents until so many bytes are reached."""
    read = 0
    for text in documents:
        yield text
        read += len(text.encode())
        if num_bytes is not None and read >= num_bytes:
            return
