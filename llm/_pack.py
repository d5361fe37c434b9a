"""Documents → sequences: separator and tokens of every document, one after another, cut every T + 1 tokens.

What is done is written down whenever a file is full, so that a build that was killed goes on there and ends
with the same bytes as one that was not.
"""

import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm._corpus import Corpus
from llm._readers import CorpusError
from llm._shards import Shard, ShardFormat, check_ids, write_atomic
from llm._tokenizers import Prepared

SIDES = ("train", "validation")
UNFINISHED = "unfinished.npz"
"""The file that says how far a build has come."""

BATCH_DOCUMENTS, BATCH_CHARACTERS = 1024, 2**20
"""Documents that are tokenized at once: until one of both is reached."""


@dataclass(frozen=True)
class BuildProgress:
    """How far a build is. stage: "tokenizer" (trained) or "tokens" (written).

    documents, num_bytes: read so far in this stage. share: of all there is, None where that is not known.
    """

    stage: str
    documents: int
    num_bytes: int
    share: float | None


OnProgress = Callable[[BuildProgress], None]


@dataclass
class Stream:
    """One side while it is written: files that are full, and the tokens after them.

    fresh: tokens of single documents; rest: those of many, since arrays of a few tokens take much memory.
    """

    documents: int = 0
    num_bytes: int = 0
    tokens: int = 0
    shards: list[Shard] = field(default_factory=list)
    rest: list[np.ndarray] = field(default_factory=list)
    fresh: list[np.ndarray] = field(default_factory=list)

    def add(self, tokens: np.ndarray, text: bytes) -> None:
        self.documents += 1
        self.num_bytes += len(text)
        self.tokens += len(tokens)
        self.fresh.append(tokens)

    def settle(self) -> None:
        """Join the documents that were added."""
        if self.fresh:
            self.rest.append(np.concatenate(self.fresh))
            self.fresh = []

    def json(self) -> dict[str, Any]:
        """All but the tokens."""
        counts = {"documents": self.documents, "bytes": self.num_bytes, "tokens": self.tokens}
        return {**counts, "shards": [shard.json() for shard in self.shards]}

    @classmethod
    def of_json(cls, value: dict[str, Any], rest: np.ndarray) -> "Stream":
        shards = [Shard(**shard) for shard in value["shards"]]
        return cls(value["documents"], value["bytes"], value["tokens"], shards, [rest])


def side_of(text: bytes, validation: float) -> str:
    """The side of a document, by the hash of its text: order and neighbours do not matter.

    A document's duplicates are on its side.
    """
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return "validation" if number < validation * 2**64 else "train"


def training_documents(
    corpus: Corpus, validation: float, on_progress: OnProgress | None = None
) -> Iterator[str]:
    """The documents of the training side, to train a tokenizer on."""
    documents = num_bytes = 0
    extent = corpus.extent() if on_progress else None
    for batch in _batches(corpus.documents()):
        for text in batch:
            data = text.encode()
            documents, num_bytes = documents + 1, num_bytes + len(data)
            if text and side_of(data, validation) == "train":
                yield text
        if on_progress is not None and extent is not None:
            share = _share(documents, num_bytes, *extent)
            on_progress(BuildProgress("tokenizer", documents, num_bytes, share))


def pack(
    folder: Path,
    corpus: Corpus,
    prepared: Prepared,
    form: ShardFormat,
    validation: float,
    on_progress: OnProgress | None = None,
) -> dict[str, Stream]:
    """Write the shards of both sides into `folder`, or what is missing of them; documents of no text are
    left out.

    Raises CorpusError: what the corpus raises, a side without a sequence, ids outside the vocabulary.
    """
    streams, documents = _resumed(folder, form)
    num_bytes = sum(stream.num_bytes for stream in streams.values())
    extent = corpus.extent()
    for batch in _batches(corpus.documents(documents)):
        texts = [text for text in batch if text]
        for text, ids in zip(texts, prepared.encode_batch(texts), strict=True):
            check_ids(ids, form.vocabulary, f"document of {len(text)} characters, {text[:40]!r}")
            data = text.encode()
            num_bytes += len(data)
            tokens = np.empty(1 + len(ids), form.dtype)
            tokens[0], tokens[1:] = prepared.separator, ids
            streams[side_of(data, validation)].add(tokens, data)
        documents += len(batch)
        written = [_write_full(folder, side, stream, form) for side, stream in streams.items()]
        if any(written):
            _save(folder, streams, documents, form)
        if on_progress is not None:
            on_progress(BuildProgress("tokens", documents, num_bytes, _share(documents, num_bytes, *extent)))
    if not any(stream.documents for stream in streams.values()):
        raise CorpusError(f"empty corpus: {corpus.place} has no document with text in it; name other text")
    for side, stream in streams.items():
        if stream.tokens < form.length:
            _refuse_side(side, stream, form, validation)
        _write_full(folder, side, stream, form, last=True)
    return streams


def finish(folder: Path) -> None:
    """Forget how far the build had come."""
    (folder / UNFINISHED).unlink(missing_ok=True)


def _refuse_side(side: str, stream: Stream, form: ShardFormat, validation: float) -> None:
    change = "raise" if side == "validation" else "lower"
    if not stream.documents:  # every document is on one side, which follows from its hash
        told = f"the {side} side has no document: take more documents that differ"
        raise CorpusError(f"{told}, or {change} validation (it is {validation})")
    told = f"the {side} side has {stream.documents} document(s) of {stream.tokens} tokens in all"
    remedy = f"{change} validation (it is {validation}), lower context, or take more text"
    raise CorpusError(f"{told}, fewer than a sequence of {form.length} (context + 1): {remedy}")


def _write_full(folder: Path, side: str, stream: Stream, form: ShardFormat, last: bool = False) -> bool:
    """Write what fills a file; at the end also the whole sequences that do not. Whether any was written."""
    stream.settle()
    held = sum(len(tokens) for tokens in stream.rest)
    full = form.per_shard * form.length
    if held < (form.length if last else full):
        return False
    tokens = np.concatenate(stream.rest)
    cut = len(tokens) // form.length * form.length if last else len(tokens) // full * full
    for first in range(0, cut, full):
        path = folder / f"{side}-{len(stream.shards):05d}.bin"
        stream.shards.append(form.write(path, tokens[first : min(first + full, cut)]))
    stream.rest = [tokens[cut:].copy()]
    return True


def _save(folder: Path, streams: dict[str, Stream], documents: int, form: ShardFormat) -> None:
    state: dict[str, Any] = {"documents": documents, "per_shard": form.per_shard}
    state |= {side: stream.json() for side, stream in streams.items()}
    rests = {side: np.concatenate([np.zeros(0, form.dtype), *streams[side].rest]) for side in SIDES}
    file = io.BytesIO()
    np.savez(file, state=np.frombuffer(json.dumps(state).encode(), np.uint8), **rests)  # type: ignore[arg-type]
    write_atomic(folder / UNFINISHED, file.getvalue())


def _resumed(folder: Path, form: ShardFormat) -> tuple[dict[str, Stream], int]:
    """The streams of a build that was killed, and the documents that it had done; or new ones."""
    try:
        with np.load(io.BytesIO((folder / UNFINISHED).read_bytes()), allow_pickle=False) as file:
            state = json.loads(file["state"].tobytes())
            streams = {side: Stream.of_json(state[side], file[side]) for side in SIDES}
        if state["per_shard"] == form.per_shard:
            for stream in streams.values():
                for shard in stream.shards:
                    form.check(folder, shard)
            return streams, state["documents"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        pass  # nothing that can be gone on with (CorpusError is a ValueError): all is made again
    return {side: Stream() for side in SIDES}, 0


def _batches(documents: Iterator[str]) -> Iterator[list[str]]:
    """Documents in handfuls."""
    while True:
        batch: list[str] = []
        characters = 0
        for text in itertools.islice(documents, BATCH_DOCUMENTS):
            batch.append(text)
            characters += len(text)
            if characters >= BATCH_CHARACTERS:
                break
        if not batch:
            return
        yield batch


def _share(documents: int, num_bytes: int, all_documents: int | None, all_bytes: int | None) -> float | None:
    if all_bytes:
        return min(num_bytes / all_bytes, 1.0)
    return min(documents / all_documents, 1.0) if all_documents else None
