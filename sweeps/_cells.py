"""From the tables of a spec to its cells: base, cases, grid, settings, exclusions, lists of numbers."""

import copy
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from sweeps._config import ConfigError, nearest


def table_of(source: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """A table of a spec, empty where it is not there."""
    table = source.get(key, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {key} is {table!r}: it must be a table")
    return table


def combinations(source: dict[str, Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    """Every cell of a spec, as a plain table, with a label for error messages."""
    base = expanded(table_of(source, "base", where), f"{where}: base")
    cases = source.get("case", [{}])
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ConfigError(f"{where}: case must be written [[case]], once for each")
    grid = expanded(table_of(source, "grid", where), f"{where}: grid")
    settings = expanded(table_of(source, "set", where), f"{where}: set")
    axes = {key: values for key, values in _axes(grid, "", where).items() if key not in settings}
    combinations = []
    for i, case in enumerate(cases):
        laid = overlay(base, expanded(case, f"{where}: case {i}"))
        for values in itertools.product(*axes.values()):
            table = copy.deepcopy(laid)
            for key, value in zip(axes, values, strict=True):
                _assign(table, key, value, where)
            for key, value in settings.items():
                _assign(table, key, value, f"{where}: set")
            chosen = {**dict(zip(axes, values, strict=True)), **settings}
            label = ", ".join(
                [f"case {i}"] * ("case" in source) + [f"{key} = {value!r}" for key, value in chosen.items()]
            )
            combinations.append((label, table))
    return combinations


class Exclusions:
    """The [[exclude]] tables: each has, by dotted key, the values of the cells that it leaves out."""

    def __init__(self, source: dict[str, Any], where: str) -> None:
        tables = source.get("exclude", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) and table for table in tables):
            raise ConfigError(
                f"{where}: exclude must be written [[exclude]], with at least one key, once for each"
            )
        self.where = where
        self.rules = [
            dict(_leaves(expanded(table, f"{where}: exclude {i}"))) for i, table in enumerate(tables)
        ]
        self.keys: set[str] = set()

    def leaves_out(self, table: dict[str, Any]) -> bool:
        """Whether a rule leaves out this cell; a list matches whole, or where it is one of the values."""
        if not self.rules:
            return False
        cell = dict(_leaves(table))
        self.keys |= cell.keys()
        return any(
            all(key in cell and _is_among(cell[key], values) for key, values in rule.items())
            for rule in self.rules
        )

    def check(self) -> None:
        """Raise ConfigError where a rule names a key that no cell had: it would never leave out anything."""
        for i, rule in enumerate(self.rules):
            for key in rule:
                if key not in self.keys:
                    raise ConfigError(
                        f"{self.where}: exclude {i}: {key} is in no cell: {nearest(key, self.keys)}"
                    )


def _is_among(value: Any, values: Any) -> bool:
    return value == values or (isinstance(values, list) and value in values)


def _leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What is not a table, by dotted key."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _axes(grid: dict[str, Any], prefix: str, where: str) -> dict[str, list[Any]]:
    """The grid's axes by dotted key; a nested table is the same as dots."""
    axes: dict[str, list[Any]] = {}
    for key, values in grid.items():
        if isinstance(values, dict):
            axes |= _axes(values, f"{prefix}{key}.", where)
        elif isinstance(values, list) and values:
            axes[prefix + key] = values
        else:
            raise ConfigError(f"{where}: grid.{prefix}{key} is {values!r}: it must be a list of values")
    return axes


def expanded(value: Any, where: str) -> Any:
    """`{logspace = …}`, `{linspace = …}` and `{range = …}` written out, anywhere below `value`."""
    if isinstance(value, list):
        return [expanded(item, where) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (name := next(iter(value))) in LISTS:
        write, rule = LISTS[name]
        try:
            first, last, third = value[name]
            if any(isinstance(number, bool) or not math.isfinite(number) for number in (first, last, third)):
                raise ValueError
            return write(first, last, third)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise ConfigError(f"{where}: {name} is {value[name]!r}: it must be {rule}") from None
    return {key: expanded(item, f"{where}.{key}") for key, item in value.items()}


def _logspace(first: float, last: float, count: float) -> list[float]:
    low, high, places = math.log(first), math.log(last), _places(count)
    # To ten digits, so that 0.01 … 1 holds 0.1 and not its neighbour.
    between = (float(f"{math.exp(low + (high - low) * float(place)):.10g}") for place in places[1:-1])
    return [float(first), *between, float(last)]


def _linspace(first: float, last: float, count: float) -> list[float]:
    low, high = _exactly(first), _exactly(last)
    return [float(low + (high - low) * place) for place in _places(count)]


def _places(count: float) -> list[Fraction]:
    """So many, evenly from 0 to 1."""
    if count != int(count) or not 2 <= count <= LONGEST:
        raise ValueError
    return [Fraction(i, int(count) - 1) for i in range(int(count))]


def _range(first: float, last: float, step: float) -> list[float]:
    low, high, by = _exactly(first), _exactly(last), _exactly(step)
    count = (high - low) // by + 1
    if not 1 <= count <= LONGEST:
        raise ValueError
    whole = isinstance(first, int) and isinstance(step, int)
    return [int(low + by * i) if whole else float(low + by * i) for i in range(count)]


def _exactly(number: float) -> Fraction:
    """The number as it is written, so that three steps of 0.1 are 0.3 and not its neighbour."""
    return Fraction(repr(number))


LONGEST = 10**6
"""Numbers that such a list may have."""

LISTS = {
    "logspace": (_logspace, "[first, last, count], first and last positive, count from 2 to a million"),
    "linspace": (_linspace, "[first, last, count], count from 2 to a million"),
    "range": (_range, "[first, last, step], with step leading from first to last in at most a million"),
}
"""Ways to write a list of numbers, and what each must hold."""


def overlay(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `under`, table by table; a table of another `kind` replaces the one below it."""
    laid = copy.deepcopy(under)
    for key, value in over.items():
        both = isinstance(laid.get(key), dict) and isinstance(value, dict)
        if both and value.get("kind", laid[key].get("kind")) == laid[key].get("kind"):
            laid[key] = overlay(laid[key], value)
        else:
            laid[key] = copy.deepcopy(value)
    return laid


def _assign(table: dict[str, Any], dotted: str, value: Any, where: str) -> None:
    *path, last = dotted.split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {dotted} goes through {part}, which is not a table")
    if isinstance(value, dict) and isinstance(table.get(last), dict):
        value = overlay({last: table[last]}, {last: value})[last]
    table[last] = value
