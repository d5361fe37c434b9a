"""Plain values as TOML (https://toml.io), which the standard library reads and does not write."""

import json
import math
import re
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: dict[str, Any]) -> str:
    """A text of which `tomllib` makes the same table: tables of the top as sections, those below inline.

    Raises ValueError for what TOML has no word for, such as null.
    """
    plain = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not _is_section(value)]
    parts = ["\n".join(plain)] if plain else []
    for key, value in table.items():
        if _is_section(value):
            several = isinstance(value, list)
            head = f"[[{_key(key)}]]" if several else f"[{_key(key)}]"
            for one in value if several else [value]:
                parts.append("\n".join([head, *(f"{_key(k)} = {_value(v)}" for k, v in one.items())]))
    return "\n\n".join(parts) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
    )


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    raise ValueError(f"{value!r} has no form in TOML")
