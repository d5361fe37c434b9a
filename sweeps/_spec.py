"""A sweep's spec: a TOML text → the cohorts to train and how to fit what they reach.

    [sweep]                    # name, description, kind of job (only "toy" so far)
    [base]                     # the config that every job starts from; see toymodels.CohortConfig
    [[case]]                   # optional, repeated: tables laid over the base, one at a time
    [grid]                     # optional: dotted key = list of values; all combinations are run
    [set]                      # optional: dotted key = value, laid over all of these (`--set` writes here)
    [fit]                      # by: columns that tell one fit from another; floor: L_0, or left out to fit it

Where a list of numbers is expected, `{logspace = [first, last, count]}` writes one.
"""

import copy
import itertools
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps._config import ConfigError, canonical, decode, nearest
from sweeps._jobs import COLUMNS

if TYPE_CHECKING:
    from toymodels import CohortConfig

PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True)
class FitSpec:
    """How `run` fits the table: one fit for each combination of the columns `by`; floor: L_0 (None: free)."""

    by: tuple[str, ...] = ("teacher",)
    floor: float | None = None

    def __post_init__(self) -> None:
        for column in self.by:
            if column not in COLUMNS:
                raise ValueError(f"by names {column!r}, which is not a column: {nearest(column, COLUMNS)}")
        if self.floor is not None and self.floor < 0:
            raise ValueError(f"floor is {self.floor}: it must be at least 0; leave it out to fit it")


@dataclass(frozen=True)
class Spec:
    """A sweep. `source` is the validated text as plain values, written beside the results."""

    name: str
    description: str
    cohorts: "tuple[CohortConfig, ...]"
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
    from toymodels import CohortConfig

    tables = ("sweep", "base", "case", "grid", "set", "fit")
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
    if sweep.get("kind", "toy") != "toy":
        raise ConfigError(f"{where}: sweep.kind is {sweep['kind']!r}: known: toy")

    cohorts = dict.fromkeys(
        decode(CohortConfig, table, f"{where} ({label})" if label else where)
        for label, table in _combinations(source, where)
    )
    if not cohorts:
        raise ConfigError(f"{where}: case is empty: write [[case]] once for each, or leave it out")
    fit = decode(FitSpec, _table(source, "fit", where), f"{where}: fit")
    try:
        canonical(source)
    except (TypeError, ValueError) as error:  # a date or an infinity that a setting has replaced
        raise ConfigError(f"{where} cannot be recorded as JSON: {error}") from None
    return Spec(name, description, tuple(cohorts), fit, source)


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
    """`{logspace = [first, last, count]}` written out, anywhere below `value`."""
    if isinstance(value, list):
        return [_expand_lists(item, where) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"logspace"}:
        try:
            first, last, count = value["logspace"]
            low, high = math.log(first), math.log(last)
            if count != int(count) or count < 2:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(
                f"{where}: logspace is {value['logspace']!r}: it must be [first, last, count], "
                "first and last positive, count at least 2"
            ) from None
        # Rounded to ten digits, so that 0.01 … 1 holds 0.1 and not its neighbour.
        inner = [
            float(f"{math.exp(low + (high - low) * i / (count - 1)):.10g}") for i in range(1, int(count) - 1)
        ]
        return [float(first), *inner, float(last)]
    return {key: _expand_lists(item, f"{where}.{key}") for key, item in value.items()}


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
