"""Tokenizers ready for use: the interface, and those of the library `tokenizers`."""

import abc
import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Integer

from llm._readers import CorpusError, nearest


class Prepared(abc.ABC):
    """A tokenizer ready for use.

    vocabulary: ids are 0 … vocabulary − 1. separator: the id before every document. token_bytes: the bytes
    of UTF-8 text that each id stands for; 0 for the separator and other special ids. Their sum over a
    document's ids is the document's length in UTF-8 plus `prefix_bytes`: 1 where the tokenizer (Llama's, say)
    writes a space of its own before a text (some do not where the text begins with a space), else 0. Where a
    tokenizer rewrites text first (Llama's "▁" is a space), what it has written is counted.
    """

    vocabulary: int
    separator: int
    token_bytes: Int[np.ndarray, " vocabulary"]
    prefix_bytes: int

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Integer[np.ndarray, " tokens"]]:
        """The ids of each text; no special ids, even where a text spells one out."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int] | Integer[np.ndarray, " n"]) -> str:
        """The text of ids; special ids are left out, bytes that are no UTF-8 become U+FFFD."""


class LibraryTokenizer(Prepared):
    """A tokenizer of the library `tokenizers`."""

    def __init__(self, path: Path, separator: str | None) -> None:
        try:
            self._tokenizer = library().Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except CorpusError:
            raise
        except Exception as error:  # the library raises bare Exception
            said = getattr(error, "strerror", None) or error
            told = f"tokenizer {path} cannot be read: {said}"
            raise CorpusError(f"{told}; name a tokenizer.json as the library tokenizers writes it") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        words: dict[str, int] = self._tokenizer.get_vocab()
        special = {
            token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special
        }
        self.vocabulary = _vocabulary(path, words)
        first = self._separator(path, separator, special)
        if first not in words:
            told = f"tokenizer {path} puts {first!r} before a text, which is none of its tokens"
            raise CorpusError(f"{told}: set separator")
        self.separator = words[first]
        self.token_bytes = _token_bytes(path, self._tokenizer, words, special)
        self.token_bytes[self.separator] = 0
        (probe,) = self.encode_batch(["a"])
        self.prefix_bytes = int(self.token_bytes[probe].sum()) - 1

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(one.ids, np.int64) for one in found]

    def decode(self, ids: Iterable[int] | Integer[np.ndarray, " n"]) -> str:
        return str(self._tokenizer.decode([int(id) for id in ids], skip_special_tokens=True))

    def _separator(self, path: Path, named: str | None, special: set[str]) -> str:
        if named is not None:
            if named not in special:
                told = f"tokenizer {path} has no special token {named!r}"
                raise CorpusError(f"{told}: {nearest(named, special)}; set separator")
            return named
        probe = self._tokenizer.encode("a", add_special_tokens=True)
        if probe.special_tokens_mask and probe.special_tokens_mask[0]:
            return str(probe.tokens[0])
        told = f"tokenizer {path} puts no token before a text"
        raise CorpusError(f"{told}: set separator; special tokens: {', '.join(sorted(special)) or 'none'}")


def _vocabulary(path: Path, words: dict[str, int]) -> int:
    """One more than the largest id. Raises CorpusError where ids are shared, or most of them are not used."""
    by_id: dict[int, str] = {}
    for word, id in words.items():
        if id in by_id:
            told = f"tokenizer {path} has two tokens of id {id}, {by_id[id]!r} and {word!r}"
            raise CorpusError(f"{told}: repair it, or name another")
        by_id[id] = word
    if not words or 2 * len(words) <= max(by_id):
        most = max(by_id, default=0)
        told = f"tokenizer {path} has {len(words)} tokens, of ids up to {most}"
        raise CorpusError(f"{told}: a model would have a row for each id; repair it, or name another")
    return max(by_id) + 1


def _token_bytes(path: Path, tokenizer: Any, words: dict[str, int], special: set[str]) -> np.ndarray:
    """Bytes of each id, from how the tokenizer spells its tokens."""
    settings = json.loads(tokenizer.to_str())
    spelled = json.dumps([settings["pre_tokenizer"], settings["decoder"]])
    byte_level = '"ByteLevel"' in spelled
    fallback = settings["model"].get("byte_fallback", False)
    if not byte_level and not fallback:
        told = f"tokenizer {path} is neither byte-level nor has byte fallback, and loses text"
        raise CorpusError(f"{told}: take one that is, or kind bpe")
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    lengths = np.zeros(max(words.values()) + 1, np.int32)
    for word, id in words.items():
        if word in special:
            continue
        if word in added:
            lengths[id] = len(word.encode())
        elif byte_level:
            lengths[id] = len(word)  # one character stands for one byte
        elif len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
            lengths[id] = 1
        else:
            lengths[id] = len(word.replace("▁", " ").encode())
    return lengths


def library() -> Any:
    """The module `tokenizers`; raises CorpusError, with the command that installs it, where it is missing."""
    try:
        return importlib.import_module("tokenizers")
    except ModuleNotFoundError as error:
        missing = (error.name or "tokenizers").partition(".")[0]
        raise CorpusError(f"{missing} is not installed: pip install 'depthlaw[llm]'") from None
