"""A sweep's spec: a TOML text → the cohorts to train and how to fit what they reach.

    [sweep]                    # name, description, kind of job (toy)
    [base]                     # the config that every job starts from; see toymodels.CohortConfig
    [[case]]                   # optional, repeated: tables laid over the base, one at a time
    [grid]                     # optional: dotted key = list of values; all combinations are run
    [[exclude]]                # optional, repeated: dotted key = value or list of values; a cell that has one
                               # of the values of every key, as it is written or by default, is left out
    [set]                      # optional: dotted key = value, laid over all of these (`--set` writes here)
    [fit]                      # by: columns that tell one fit from another; floor: L_0, or left out to fit it

Where a list of numbers is expected, `{logspace = [first, last, count]}`, `{linspace = [first, last, count]}`
and `{range = [first, last, step]}` write one: both ends included, `last` of a range where a step lands on it.
"""

import copy
import itertools
import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sweeps._config import ConfigError, canonical, decode, encode, nearest
from sweeps._jobs import KINDS, PROVENANCE, kind

PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True)
class FitSpec:
    """How `run` fits the table: one fit for each combination of the columns `by`; floor: L_0 (None: free)."""

    by: tuple[str, ...] = ("teacher",)
    floor: float | None = None

    def __post_init__(self) -> None:
        if self.floor is not None and self.floor < 0:
            raise ValueError(f"floor is {self.floor}: it must be at least 0; leave it out to fit it")

    def check(self, columns: Iterable[str]) -> None:
        """Raise ValueError where `by` names no column of the table."""
        known = tuple(columns)
        for column in self.by:
            if column not in known:
                raise ValueError(f"by names {column!r}, which is not a column: {nearest(column, known)}")


@dataclass(frozen=True)
class Spec:
    """A sweep. `configs` are of `kind`; `source` is the validated text as plain values."""

    name: str
    description: str
    kind: str
    configs: tuple[Any, ...]
    fit: FitSpec
    source: dict[str, Any]


def preset_names() -> list[str]:
    """The presets that come with the project."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load_spec(name: str, settings: tuple[str, ...] = ()) -> Spec:
    """The spec of a preset's name or a TOML file's path, with `key=value` settings laid over all of it.

    A setting replaces an axis of the grid that has the same key.
    Raises ConfigError: file, table, key, value and what to write instead.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = PRESETS / f"{name}.toml"
        if not path.is_file():
            raise ConfigError(
                f"{name!r} is neither a preset nor a .toml file: {nearest(name, preset_names())}"
            )
    try:
        source = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: name a TOML file or a preset") from None
    except (OSError, ValueError) as error:  # not UTF-8, not TOML, or a number of too many digits
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from None
    for setting in settings:
        _apply_setting(source, setting)
    return parse_spec(source, path.name)


def parse_spec(source: dict[str, Any], where: str) -> Spec:
    """The spec that `source` describes; `where` names it in error messages."""
    tables = ("sweep", "base", "case", "grid", "exclude", "set", "fit")
    for key in source:
        if key not in tables:
            raise ConfigError(f"{where}: [{key}] is not a known table: {nearest(key, tables)}")
    sweep = _table(source, "sweep", where)
    known = ("name", "description", "kind")
    for key in sweep:
        if key not in known:
            raise ConfigError(f"{where}: sweep.{key} is not a known key: {nearest(key, known)}")
    name = sweep.get("name")
    if not isinstance(name, str) or not name or set(name) & set("/\\\0"):
        raise ConfigError(f"{where}: sweep.name is {name!r}: it must be a text that can name a folder")
    description = sweep.get("description", "")
    if not isinstance(description, str):
        raise ConfigError(f"{where}: sweep.description is {description!r}: it must be a text")
    named = sweep.get("kind", "toy")
    if not isinstance(named, str) or named not in KINDS:
        raise ConfigError(f"{where}: sweep.kind is {named!r}: {nearest(str(named), KINDS)}")
    config = kind(named).config

    configs: dict[Any, None] = {}
    excluded = _Exclusions(source, where)
    for label, table in _combinations(source, where):
        if excluded.leaves_out(table):  # before its rules are checked: it may be left out for breaking one
            continue
        cell: Any = decode(config, table, f"{where} ({label})" if label else where)
        if not excluded.leaves_out(encode(cell)):  # by a default
            configs[cell] = None
    excluded.check()
    if not configs:
        raise ConfigError(f"{where}: no cell is left: case is empty, or exclude leaves out every cell")
    fit = decode(FitSpec, _table(source, "fit", where), f"{where}: fit")
    try:
        fit.check(("job", *kind(named).columns, *PROVENANCE))
    except ValueError as error:
        raise ConfigError(f"{where}: fit: {error}") from None
    try:
        canonical(source)
    except (TypeError, ValueError) as error:  # a date or an infinity that a setting has replaced
        raise ConfigError(f"{where} cannot be recorded as JSON: {error}") from None
    return Spec(name, description, named, tuple(configs), fit, source)


def _table(source: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    table = source.get(key, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {key} is {table!r}: it must be a table")
    return table


def _combinations(source: dict[str, Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    base = _expand_lists(_table(source, "base", where), f"{where}: base")
    cases = source.get("case", [{}])
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ConfigError(f"{where}: case must be written [[case]], once for each")
    grid = _expand_lists(_table(source, "grid", where), f"{where}: grid")
    settings = _expand_lists(_table(source, "set", where), f"{where}: set")
    axes = {key: values for key, values in _axes(grid, "", where).items() if key not in settings}
    combinations = []
    for i, case in enumerate(cases):
        laid = _overlay(base, _expand_lists(case, f"{where}: case {i}"))
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


class _Exclusions:
    """The [[exclude]] tables: each has, by dotted key, the values of the cells that it leaves out."""

    def __init__(self, source: dict[str, Any], where: str) -> None:
        tables = source.get("exclude", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) and table for table in tables):
            raise ConfigError(
                f"{where}: exclude must be written [[exclude]], with at least one key, once for each"
            )
        self.where = where
        self.rules = [
            dict(_leaves(_expand_lists(table, f"{where}: exclude {i}"))) for i, table in enumerate(tables)
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


def _expand_lists(value: Any, where: str) -> Any:
    """`{logspace = …}`, `{linspace = …}` and `{range = …}` written out, anywhere below `value`."""
    if isinstance(value, list):
        return [_expand_lists(item, where) for item in value]
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
    return {key: _expand_lists(item, f"{where}.{key}") for key, item in value.items()}


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


def _overlay(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `under`, table by table; a table of another `kind` replaces the one below it."""
    laid = copy.deepcopy(under)
    for key, value in over.items():
        both = isinstance(laid.get(key), dict) and isinstance(value, dict)
        if both and value.get("kind", laid[key].get("kind")) == laid[key].get("kind"):
            laid[key] = _overlay(laid[key], value)
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
        value = _overlay({last: table[last]}, {last: value})[last]
    table[last] = value


def _apply_setting(source: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {setting!r}: it must be key=value, such as steps=1000 or teacher.depth=32")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # not TOML: a text without its quotes
        value = text.strip()
    _table(source, "set", "the spec")
    source.setdefault("set", {})[key] = value
