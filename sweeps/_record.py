"""The record of a job: one file of JSON, sealed by the hash of its own bytes."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from sweeps._files import StoreError, parse_json
from sweeps._jobs import KINDS, SCHEMA_VERSION, kind

SEAL = b',\n "sha256": "%s"\n}\n'
"""How a record ends: the hash of all before it, so that a change of any byte shows."""

ROWS = b',\n "rows": '
"""Where the rows of a record begin: a text of JSON has no line's end, what is nested is indented more."""


def sealed(record: dict[str, Any]) -> bytes:
    """The record as a file."""
    body = json.dumps(record, indent=1, allow_nan=False).encode()[:-2]
    return body + SEAL % hashlib.sha256(body).hexdigest().encode()


def unsealed(data: bytes, head: bool = False) -> dict[str, Any]:
    """The record; head: without its rows and what follows them.

    Raises ValueError when it is not what `sealed` wrote.
    """
    length = len(SEAL % (b"0" * 64))
    body = data[:-length]
    if data[-length:] != SEAL % hashlib.sha256(body).hexdigest().encode():
        try:  # what every version writes: is it another's, or damaged?
            schema = parse_json(data)["schema"]
        except (ValueError, KeyError, TypeError):
            schema = SCHEMA_VERSION
        if schema != SCHEMA_VERSION:
            raise ValueError(f"it is of schema {schema}, and this version writes {SCHEMA_VERSION}")
        raise ValueError("it is empty" if not data else "its end or its hash is missing or wrong")
    if head:
        body = body.partition(ROWS)[0]
    record: dict[str, Any] = parse_json(body + b"}")
    return record


def checked_arrays(path: Path, record: dict[str, Any], name: str) -> bytes:
    """The curves or the model beside a record, as a file."""
    beside = path.with_name(f"{name}.npz")
    try:
        data = beside.read_bytes()
    except OSError as error:
        raise StoreError(f"{beside}, which its record names, cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != record[name]:
        raise StoreError(f"{beside} is not what its record names")
    return data


def read_record(path: Path, head: bool = False) -> dict[str, Any]:
    """A record, or why it is none: a StoreError; FileNotFoundError where there is no file.

    head: up to its rows alone, which is what a look at many records needs.
    """
    try:
        record = unsealed(path.read_bytes(), head)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is not a whole record: {error}") from error
    for key, value in {"schema": SCHEMA_VERSION, "job": path.parent.name}.items():
        if record.get(key) != value:
            raise StoreError(f"{path} is not this job's record: its {key} is not {value!r}")
    name, rows = record.get("kind"), record.get("rows")
    if name not in KINDS:
        raise StoreError(f"{path} is of a kind, {name!r}, that this version does not know")
    names, types = _names_and_types(name)
    if not head and not (isinstance(rows, list) and all(_is_row(row, names, types) for row in rows)):
        raise StoreError(f"{path} has rows with other columns than this version writes")
    return record


def _is_row(row: Any, names: list[str], types: list[tuple[type, ...]]) -> bool:
    if not isinstance(row, dict) or list(row) != names:
        return False
    return all(type(value) in allowed for value, allowed in zip(row.values(), types, strict=True))


@functools.cache
def _names_and_types(of_kind: str) -> tuple[list[str], list[tuple[type, ...]]]:
    """Of the columns that a kind's records have, in order."""
    columns = kind(of_kind).columns
    numbers: tuple[type, ...] = (float, int, type(None))  # a float that is whole may be read as an int
    types = [numbers if column.type is float else (column.type, type(None)) for column in columns.values()]
    return list(columns), types
