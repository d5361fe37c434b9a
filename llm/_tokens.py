"""What a language model reads: from a config to token shards on disk, made once and opened from then on."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm._batches import Tokens
from llm._corpus import Corpus, Embedded
from llm._pack import SIDES, OnProgress, Stream, finish, pack, training_documents
from llm._readers import CorpusError
from llm._shards import Shard, ShardFormat, Side, remove_temporaries, write_atomic
from llm._tokenizers import Bytes, Prepared, Tokenizer

FORMAT = 1
"""Of what is on disk; a change makes all shards anew."""

META, TOKEN_BYTES = "meta.json", "token_bytes.npy"


@dataclass(frozen=True)
class DataConfig:
    """What a language model reads.

    context: T, tokens that a prediction can look back on, itself included. validation: share of the
    documents held out, chosen by the hash of their text, so that neither order nor neighbours matter.

    Raises ValueError for a context below 1 and a share that is not strictly between 0 and 1.
    """

    corpus: Corpus = field(default_factory=Embedded)
    tokenizer: Tokenizer = field(default_factory=Bytes)
    context: int = 2048
    validation: float = 0.01

    def __post_init__(self) -> None:
        if self.context < 1:
            raise ValueError(f"context is {self.context}: it must be at least 1")
        if not 0 < self.validation < 1:
            raise ValueError(f"validation is {self.validation}: it must lie strictly between 0 and 1")


def default_cache() -> Path:
    """Where shards are kept: `depthlaw/corpora` in the user's cache."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise CorpusError("there is no home folder to keep token shards in: set XDG_CACHE_HOME") from None
    return Path(base) / "depthlaw" / "corpora"


def build(config: DataConfig, cache: Path | None = None, on_progress: OnProgress | None = None) -> Tokens:
    """The shards of a config, from `cache` (None: `default_cache()`) or made and kept there.

    Whatever interrupts it, the same call goes on at the last file that was full. Where several processes
    build the same at once, one does and the others wait. Raises CorpusError.
    """
    fingerprint = config.corpus.fingerprint()
    origin = _origin(config, fingerprint)
    folder = (default_cache() if cache is None else cache) / _digest(origin)[:16]
    if not (folder / META).exists():
        import filelock

        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(folder.with_suffix(".lock"))
            lock.acquire()
        except OSError as error:
            raise CorpusError(f"{folder} cannot be written: {error.strerror or error}") from error
        try:
            if not (folder / META).exists():
                remove_temporaries(folder)
                _build(config, folder, fingerprint, on_progress)
        finally:
            lock.release()
    return open_tokens(folder, config)


def _build(config: DataConfig, folder: Path, fingerprint: str, on_progress: OnProgress | None) -> None:
    corpus = config.corpus
    prepared = config.tokenizer.prepare(
        folder, lambda: training_documents(corpus, config.validation, on_progress)
    )
    form = ShardFormat(config.context + 1, prepared.vocabulary)
    streams = pack(folder, corpus, prepared, form, config.validation, on_progress)
    if corpus.fingerprint() != fingerprint:
        finish(folder)
        raise CorpusError(f"{corpus.version}: the text has changed while it was read; build again")
    _write_meta(config, folder, fingerprint, prepared, streams)
    finish(folder)


def _write_meta(
    config: DataConfig, folder: Path, fingerprint: str, prepared: Prepared, streams: dict[str, Stream]
) -> None:
    """Written last: shards with it are whole."""
    lengths = prepared.token_bytes.astype("<i4")
    write_atomic(folder / TOKEN_BYTES, lengths.tobytes())
    meta = {
        "format": FORMAT,
        "origin": _origin(config, fingerprint),
        "corpus": config.corpus.version,
        "context": config.context,
        "vocabulary": prepared.vocabulary,
        "separator": prepared.separator,
        "prefix_bytes": prepared.prefix_bytes,
        "token_bytes": hashlib.sha256(lengths.tobytes()).hexdigest(),
        "sides": {side: stream.json() for side, stream in streams.items()},
    }
    meta["hash"] = _content_hash(meta)
    write_atomic(folder / META, (json.dumps(meta, indent=1) + "\n").encode())


def open_tokens(folder: Path, config: DataConfig | None = None, verify: bool = False) -> Tokens:
    """The shards in a folder that `build` made, here or elsewhere.

    Raises CorpusError: not whole, damaged, or made with another context or tokenizer than `config` says.
    Contents are compared with their hash where a file's time has changed (as in a copy), or with `verify`.
    """
    path = folder / META
    remedy = f"remove {folder} and build it again"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise CorpusError(f"{path} is of format {meta['format']}, this is format {FORMAT}: {remedy}")
        lengths = (folder / TOKEN_BYTES).read_bytes()
        sound = _content_hash(meta) == meta["hash"]
        sound &= hashlib.sha256(lengths).hexdigest() == meta["token_bytes"]
        shards = {side: [Shard(**shard) for shard in meta["sides"][side]["shards"]] for side in SIDES}
    except OSError as error:
        told = f"{folder} holds no whole token shards: {error.filename} cannot be read"
        raise CorpusError(f"{told} ({error.strerror}); {remedy}") from error
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} is damaged; {remedy}") from error
    if not sound:
        raise CorpusError(f"{folder} is damaged: {META} or {TOKEN_BYTES} is not as it was written; {remedy}")
    if config is not None:
        _check_origin(config, meta["origin"], folder)
    form = ShardFormat(meta["context"] + 1, meta["vocabulary"])
    for side in SIDES:
        for shard in shards[side]:
            form.check(folder, shard, verify)
    sides = {side: Side(folder, form, shards[side]) for side in SIDES}
    counts = {side: {k: v for k, v in meta["sides"][side].items() if k != "shards"} for side in SIDES}
    return Tokens(
        train=sides["train"],
        validation=sides["validation"],
        context=meta["context"],
        vocabulary=meta["vocabulary"],
        separator=meta["separator"],
        token_bytes=np.frombuffer(lengths, "<i4"),
        prefix_bytes=meta["prefix_bytes"],
        hash=meta["hash"],
        origin=meta["origin"],
        about={
            "corpus": meta["corpus"],
            "fingerprint": meta["origin"]["fingerprint"],
            **{side: {**counts[side], "sequences": len(sides[side])} for side in SIDES},
        },
        folder=folder,
    )


def check_tokens(tokens: Tokens, config: DataConfig) -> None:
    """Raise CorpusError where tokens were made with another context or tokenizer than the config has."""
    _check_origin(config, tokens.origin, tokens.folder)


def prepared(config: DataConfig, tokens: Tokens) -> Prepared:
    """The tokenizer that made these tokens.

    Raises CorpusError where they were made with another context or tokenizer, or theirs is lost.
    """
    check_tokens(tokens, config)

    def lost() -> Iterator[str]:
        raise CorpusError(f"{tokens.folder} has lost its tokenizer; remove it and build it again")

    return config.tokenizer.prepare(tokens.folder, lost)


def _check_origin(config: DataConfig, origin: dict[str, Any], folder: Path) -> None:
    if config.context != origin["context"]:
        told = f"{folder} holds sequences for context {origin['context']}, not {config.context}"
        raise CorpusError(f"{told}: set context to that, or build shards of your own")
    expected, content = _plain(config.tokenizer), config.tokenizer.fingerprint()
    found = origin["tokenizer"]
    if content:  # what is in a file counts, not where it lies
        expected, found = ({**plain, "path": None} for plain in (expected, found))
    if expected != found or content != origin["tokenizer_content"]:
        told = f"{folder} was made with tokenizer {_said(origin['tokenizer'], origin['tokenizer_content'])}"
        told += f", not {_said(_plain(config.tokenizer), content)}"
        raise CorpusError(f"{told}: take that tokenizer, or build shards of your own")


def _said(tokenizer: dict[str, Any], content: str) -> str:
    return f"{tokenizer} (sha256 {content[:12]}…)" if content else str(tokenizer)


def _origin(config: DataConfig, fingerprint: str) -> dict[str, Any]:
    """All that the shards' content depends on."""
    return {
        "format": FORMAT,
        "corpus": _plain(config.corpus),
        "fingerprint": fingerprint,
        "tokenizer": _plain(config.tokenizer),
        "tokenizer_content": config.tokenizer.fingerprint(),
        "context": config.context,
        "validation": config.validation,
    }


def _content_hash(meta: dict[str, Any]) -> str:
    shards = [[shard["sha256"] for shard in meta["sides"][side]["shards"]] for side in SIDES]
    keys = ("format", "context", "vocabulary", "separator", "prefix_bytes", "token_bytes")
    return _digest([*(meta[key] for key in keys), *shards])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _plain(config: Any) -> dict[str, Any]:
    """A corpus or tokenizer as plain values."""
    return {"kind": config.kind, **dataclasses.asdict(config)}
