"""Documents of text files, JSON lines and Parquet tables; all text is UTF-8.

Every error is a CorpusError that names the file, and the byte, line or row in it.
"""

import difflib
import fnmatch
import gzip
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

ROWS = 8192
"""Rows of a Parquet table that are in memory at once."""

JSON_LINES, TABLES = (".jsonl", ".ndjson"), (".parquet",)
PACKED = (".7z", ".bz2", ".lz4", ".rar", ".tar", ".tgz", ".xz", ".zip", ".zst")

PIECE = 2**14
"""Characters, or a line more, of the documents that a single text file is cut into."""


class CorpusError(ValueError):
    """A text source, a tokenizer or token shards that cannot be used: says which, where and what to do."""


def suffix_of(path: Path) -> str:
    """What a file is by its name, `.gz` aside."""
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def is_text(path: Path) -> bool:
    """Whether a file is one text, not rows of many."""
    return suffix_of(path) not in JSON_LINES + TABLES


def documents_of(path: Path, field: str) -> Iterator[str]:
    """The documents of one file, by its suffix (and `.gz`): rows of a table, or the whole text."""
    suffix = suffix_of(path)
    if suffix in PACKED:
        told = f"{path} is packed as {suffix}, which is not read"
        raise CorpusError(f"{told}: unpack it, compress it by gzip (.gz), or leave it out")
    try:
        if suffix in TABLES:
            yield from _parquet(path, field)
            return
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            if suffix in JSON_LINES:
                yield from _json_lines(path, file, field)
            else:
                yield _text(path, file.read(), 0).removeprefix("\ufeff")
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error) or "it is damaged"
        raise CorpusError(f"{path} cannot be read: {said}") from error


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a name that is not there: the nearest one that is, or all of them."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(words) or 'none'}"


def checked_text(value: Any, where: str, field: str) -> str:
    """The text of one row's field; a null, a number or half of a surrogate pair is refused."""
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {field!r} is {value!r:.60}: it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        told = f"character {error.start} of {field!r} is half of a surrogate pair"
        raise CorpusError(f"{where}: {told}: it stands for no text; repair or remove the row") from None
    return value


def pieces(text: str) -> Iterator[str]:
    """A text cut at ends of lines into pieces of `PIECE` characters or a line more, twice that at most."""
    first = 0
    while first < len(text):
        end = text.find("\n", first + PIECE - 1, first + 2 * PIECE) + 1
        end = end or min(first + 2 * PIECE, len(text))
        yield text[first:end]
        first = end


def below(path: Path, pattern: str = "*") -> list[Path]:
    """A file itself, or the files in a folder and its folders whose names fit, sorted.

    No hidden ones, and nothing that is no file: a pipe, say, would never end.
    """
    if path.is_dir():
        found = []
        for folder, folders, names in os.walk(path, onerror=_refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]
            names = fnmatch.filter(names, pattern)
            here = [Path(folder, name) for name in names if not name.startswith(".")]
            found += [file for file in here if not _is_special(file)]
        return sorted(found, key=lambda file: file.relative_to(path).as_posix())
    if not path.exists():
        raise CorpusError(f"{path} does not exist: name a file or a folder that does")
    if _is_special(path):
        raise CorpusError(f"{path} is no file: name a file or a folder")
    return [path]


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device; what cannot be looked at is refused when it is read."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def expanded(name: str) -> Path:
    """The path of a name, with ~ in it resolved."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except (RuntimeError, OSError) as error:  # no such user; longer than the system takes
        said = getattr(error, "strerror", None) or error
        raise CorpusError(f"{name} cannot be read: {said}; name another path") from error
    return path


def stamp(files: list[Path]) -> str:
    """Hash of the files' places, sizes and times of change."""
    return f"{len(files)} files, stamp {hashlib.sha256(json.dumps(states(files)).encode()).hexdigest()}"


def states(files: list[Path]) -> list[tuple[str, int, int]]:
    """Place, size in bytes and time of change of each file."""
    try:
        found = [(path.stat(), path) for path in files]  # a link to itself is refused here
    except OSError as error:
        _refuse(error)
    return [(str(path.resolve()), state.st_size, state.st_mtime_ns) for state, path in found]


def _refuse(error: OSError) -> NoReturn:
    raise CorpusError(f"{error.filename} cannot be read: {error.strerror}") from error


def _text(path: Path, data: bytes, offset: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        told = f"byte {offset + error.start} is not UTF-8"
        raise CorpusError(f"{path}: {told}; convert the file, or leave it out") from None


def _json_lines(path: Path, file: Iterable[bytes], field: str) -> Iterator[str]:
    offset = 0
    for number, line in enumerate(file, 1):
        text = _text(path, line, offset)
        offset += len(line)
        text = text.removeprefix("\ufeff") if number == 1 else text
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{where} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise CorpusError(f"{where} is no object: a line must be like {{{json.dumps(field)}: ...}}")
        if field not in row:
            raise CorpusError(f"{where} has no {field!r}: {nearest(field, row)}; set field")
        yield checked_text(row[field], where, field)


def _parquet(path: Path, field: str) -> Iterator[str]:
    import polars as pl

    if not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    try:
        schema = pl.read_parquet_schema(path)
        if field not in schema:
            raise CorpusError(f"{path} has no column {field!r}: {nearest(field, schema)}; set field")
        if schema[field] not in (pl.String, pl.Categorical, pl.Enum):
            raise CorpusError(f"{path}: column {field!r} holds {schema[field]}: it must hold texts")
        table = pl.scan_parquet(path).select(pl.col(field).cast(pl.String))
        rows = table.select(pl.len()).collect().item()
        for first in range(0, rows, ROWS):
            for row, value in enumerate(table.slice(first, ROWS).collect()[field], first + 1):
                yield checked_text(value, f"{path}, row {row}", field)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        said = str(error).strip().partition("\n")[0] or "it is damaged"
        raise CorpusError(f"{path} cannot be read: {said}; repair it, or leave it out") from error
