"""Frozen dataclass configs to and from plain values (dicts, lists, numbers), as TOML and JSON hold them.

`decode(encode(config)) == config` exactly. Unknown keys are refused with the nearest known one. A field
whose type is an abstract dataclass takes a table with a `kind`: the subclass with that `kind`. Numbers are
finite, but for fields whose metadata say `may_be_infinite`: those also take inf, which JSON, which has none,
holds as the text "inf".
"""

import dataclasses
import difflib
import hashlib
import inspect
import json
import math
import sys
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")

LARGEST = sys.float_info.max

INFINITE = "inf"


class ConfigError(ValueError):
    """A config that cannot be used: says where, which value, and what to write instead."""


def encode(value: Any) -> Any:
    """A config as dicts, lists, numbers, strings, booleans and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = getattr(type(value), "kind", None)
        fields = {
            field.name: INFINITE
            if field.metadata.get("may_be_infinite") and getattr(value, field.name) == math.inf
            else encode(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return fields if kind is None else {"kind": kind, **fields}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def plain(table: Any) -> Any:
    """A table as TOML gives it, before it is decoded, as JSON holds it: infinities are texts."""
    if isinstance(table, dict):
        return {key: plain(item) for key, item in table.items()}
    if isinstance(table, list):
        return [plain(item) for item in table]
    return INFINITE if table == math.inf else table


def decode(cls: type[T], value: Any, where: str) -> T:
    """The config of type `cls` that `value` describes; `where` (a file, say) begins every error message.

    Raises ConfigError: unknown or missing key, wrong type, or a rule of the config's own.
    """
    return typing.cast(T, _decode(cls, value, f"{where}: "))


def canonical(value: Any) -> str:
    """One JSON text for one config: sorted keys, no spaces."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any, length: int = 12) -> str:
    """Short hash of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """A hint for a misspelt word: the nearest known one, or all of them."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(words)}"


def _decode(annotation: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return _decode_optional(annotation, value, where)
    if origin is tuple:
        (item, _) = typing.get_args(annotation)
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} is {value!r}: it must be a list")
        return tuple(_decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if dataclasses.is_dataclass(annotation):
        return _decode_dataclass(typing.cast(type, annotation), value, where)
    return _decode_scalar(annotation, value, where)


def _decode_optional(annotation: Any, value: Any, where: str) -> Any:
    (inner,) = (arg for arg in typing.get_args(annotation) if arg is not types.NoneType)
    return None if value is None else _decode(inner, value, where)


def _decode_scalar(annotation: Any, value: Any, where: str) -> Any:
    names = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}
    # Larger whole numbers fit neither a column of the table nor, from 2^1024 on, a float.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if annotation is float and is_number:
        return float(value)
    if annotation is int and is_number and abs(value) < 2**63 and value == int(value):
        return int(value)
    if annotation in (str, bool) and isinstance(value, annotation):
        return value
    raise ConfigError(f"{where} is {value!r}: it must be {names[annotation]}")


def _decode_dataclass(cls: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{_named(where)} is {value!r}: it must be a table")
    entries = dict(value)
    if inspect.isabstract(cls):
        kinds = _kinds(cls)
        if "kind" not in entries:
            raise ConfigError(f"{_named(where)} has no kind: it must be one of {', '.join(sorted(kinds))}")
        kind = entries.pop("kind")
        if not isinstance(kind, str) or kind not in kinds:
            raise ConfigError(f"{_below(where, 'kind')} is {kind!r}: {nearest(str(kind), kinds)}")
        cls = kinds[kind]
    known = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in entries:
        if key not in fields:
            raise ConfigError(f"{_below(where, key)} is not a known key: {nearest(key, fields)}")
    for key, field in fields.items():
        if key not in entries and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{_below(where, key)} is missing")
    decoded = {
        key: math.inf
        if fields[key].metadata.get("may_be_infinite") and entry in (math.inf, INFINITE)
        else _decode(known[key], entry, _below(where, key))
        for key, entry in entries.items()
    }
    try:
        return cls(**decoded)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where if where.endswith(': ') else where + ': '}{error}") from error


def _below(where: str, key: str) -> str:
    return f"{where}{key}" if where.endswith(": ") else f"{where}.{key}"


def _named(where: str) -> str:
    return f"{where}the config" if where.endswith(": ") else where


def _kinds(cls: Any) -> dict[str, type]:
    """The concrete classes below `cls`, by their `kind`."""
    found: dict[str, type] = {}
    for below in cls.__subclasses__():
        if not inspect.isabstract(below):
            found[below.kind] = below
        found |= _kinds(below)
    return found
