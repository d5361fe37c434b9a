"""Corpora: where text comes from, one document at a time, in an order that is the same every time.

A corpus kind is a small frozen config. To add one, subclass `Corpus` here and name it in `__init__.py`;
configs and records take it from its `kind`.
"""

import abc
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import platform
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from llm._readers import (
    CorpusError,
    below,
    checked_text,
    documents_of,
    expanded,
    is_text,
    nearest,
    pieces,
    stamp,
    states,
)


class Extent(NamedTuple):
    """How much there is to read, where that is known beforehand."""

    documents: int | None = None
    num_bytes: int | None = None


@dataclass(frozen=True)
class Corpus(abc.ABC):
    """Documents of text.

    Every method raises CorpusError where the text cannot be had.
    """

    kind: ClassVar[str]

    @abc.abstractmethod
    def documents(self, start: int = 0) -> Iterator[str]:
        """The documents in order, from number `start` (counted from 0) on."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """What the content is known by, found without reading all of it where that can be."""

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """What a person would call this state of the corpus; it goes into the records."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where it is, for a message."""

    def extent(self) -> Extent:
        """How much there is to read; by default not known."""
        return Extent()


@dataclass(frozen=True)
class Embedded(Corpus):
    """The source and documentation of the running Python's standard library: about 12 MB, always there.

    Files .py, .txt and .rst, each a document, in the order of their paths. Tests and installed packages are
    left out, and what a build of Python writes down about its machine. Two Pythons of one version have the
    same documents; others do not, so that losses compare only within one version.
    """

    kind: ClassVar[str] = "embedded"

    def documents(self, start: int = 0) -> Iterator[str]:
        for path in _standard_library()[start:]:
            yield _bytes_of(path).decode("utf-8", errors="replace")  # one file in Latin-1 is no obstacle

    def fingerprint(self) -> str:
        root = _standard_library_root()
        content = hashlib.sha256()
        for path in _standard_library():
            data = _bytes_of(path)
            content.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
        return f"{self.version}, content sha256 {content.hexdigest()}"

    @property
    def version(self) -> str:
        return f"standard library of {platform.python_implementation()} {platform.python_version()}"

    @property
    def place(self) -> str:
        return str(_standard_library_root())

    def extent(self) -> Extent:
        paths = _standard_library()
        return Extent(len(paths), sum(size for _, size, _ in states(paths)))


@dataclass(frozen=True)
class Files(Corpus):
    """Files, and folders with all that is in them in the order of paths.

    Hidden files are left out, links to folders not followed.

    .jsonl, .ndjson and .parquet: a document is a row's `field`. Any other file is one document, UTF-8 text;
    but where it is the only file, it is cut at ends of lines into documents of 16384 characters or a little
    more, since a document is either learnt from or held out. Text and JSON lines may be compressed (.gz).
    pattern: of the names of files in folders ("*.txt"); files that `paths` names are taken whatever it is.

    Raises ValueError without paths and for an empty field or pattern; files are looked at when they are read.
    """

    kind: ClassVar[str] = "files"
    paths: tuple[str, ...]
    field: str = "text"
    pattern: str = "*"

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("paths is (): it must name at least one file or folder")
        _require_text("field", self.field)
        _require_text("pattern", self.pattern)
        for path in self.paths:
            _require_text("paths", path)

    def documents(self, start: int = 0) -> Iterator[str]:
        files = self._files()
        every = (text for path in files for text in documents_of(path, self.field))
        if len(files) == 1 and is_text(files[0]):
            every = (piece for text in every for piece in pieces(text))
        return itertools.islice(every, start, None)

    def fingerprint(self) -> str:
        return stamp(self._files())

    @property
    def version(self) -> str:
        return self.fingerprint()

    @property
    def place(self) -> str:
        return ", ".join(self.paths)

    def extent(self) -> Extent:
        files = self._files()
        if any(path.suffix.lower() == ".gz" or not is_text(path) for path in files):
            return Extent()
        return Extent(len(files) if len(files) > 1 else None, sum(size for _, size, _ in states(files)))

    def _files(self) -> list[Path]:
        named = dict.fromkeys(expanded(name) for name in self.paths)
        found = list(dict.fromkeys(path for one in named for path in below(one, self.pattern)))
        if not found:
            fitting = "" if self.pattern == "*" else f" that fit {self.pattern!r}"
            raise CorpusError(f"empty corpus: no files{fitting} in {self.place}; name others in paths")
        return found


@dataclass(frozen=True)
class Hub(Corpus):
    """A data set of the Hugging Face hub, or a local folder in the hub's layout, read as a stream.

    A document is a row's `field`. revision: commit, tag or branch; None takes what the hub has when shards
    are built, and keeps those: name a commit where others shall get the same. limit: the first so many
    documents only; None: all. Raises ValueError for empty names and a limit below 1.
    """

    kind: ClassVar[str] = "hub"
    dataset: str
    subset: str | None = None
    split: str = "train"
    field: str = "text"
    revision: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("dataset", "split", "field"):
            _require_text(name, getattr(self, name))
        for name in ("subset", "revision"):
            if getattr(self, name) is not None:
                _require_text(name, getattr(self, name))
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit is {self.limit}: it must be at least 1; leave it out to read everything")

    def documents(self, start: int = 0) -> Iterator[str]:
        with self._named_errors():
            rows = iter(self._stream(start))
        for number in itertools.count(start):
            with self._named_errors():
                row = next(rows, None)
            if row is None:
                return
            where = f"{self.dataset}, document {number}"
            if self.field not in row:
                raise CorpusError(f"{where} has no {self.field!r}: {nearest(self.field, row)}; set field")
            yield checked_text(row[self.field], where, self.field)

    def fingerprint(self) -> str:
        local = expanded(self.dataset)
        state = stamp(below(local)) if local.is_dir() else self.revision
        return json.dumps([self.dataset, self.subset, self.split, self.limit, state])

    @property
    def version(self) -> str:
        parts = (self.dataset, self.subset, self.split, self.revision)
        return ", ".join(part for part in parts if part is not None)

    @property
    def place(self) -> str:
        return f"data set {self.dataset}"

    def extent(self) -> Extent:
        return Extent(documents=self.limit)

    def _stream(self, start: int) -> Any:
        try:
            datasets = importlib.import_module("datasets")
        except ModuleNotFoundError as error:
            missing = (error.name or "datasets").partition(".")[0]
            raise CorpusError(f"{missing} is not installed: pip install 'depthlaw[llm]'") from None
        name = str(expanded(self.dataset)) if self.dataset.startswith("~") else self.dataset
        if name.startswith(("/", ".")) and not Path(name).exists():
            raise CorpusError(f"{self.place} does not exist: name a folder that does, or one of the hub")
        rows = datasets.load_dataset(
            name, name=self.subset, split=self.split, revision=self.revision, streaming=True
        )
        rows = rows if self.limit is None else rows.take(self.limit)
        return rows.skip(start) if start else rows

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """What `datasets` and the libraries below it raise, with the data set named."""
        try:
            yield
        except CorpusError:
            raise
        except Exception as error:  # of five libraries, without a common class
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            raise CorpusError(f"{self.place} cannot be read: {said}") from error


LEFT_OUT = frozenset(("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"))
"""Folders of the standard library that hold no part of it, or nothing that reads like it."""


def _standard_library_root() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _standard_library() -> list[Path]:
    """The files of `Embedded`, sorted by their path below the library's folder."""
    found: list[Path] = []
    root = _standard_library_root()
    for folder, folders, names in os.walk(root):
        # config-*, _sysconfigdata*, sitecustomize: what this machine's build and packager wrote.
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
        for name in names:
            theirs = name.startswith("_sysconfigdata") or name in ("sitecustomize.py", "usercustomize.py")
            if name.endswith((".py", ".txt", ".rst")) and not theirs:
                found.append(Path(folder, name))
    if not found:
        raise CorpusError(f"empty corpus: {root} holds no source; name a corpus of kind files")
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error


def _require_text(name: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"{name} is {value!r}: it must not be empty")
