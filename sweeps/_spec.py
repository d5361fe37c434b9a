"""A sweep's spec: a TOML text → the cohorts to train and how to fit what they reach.

    [sweep]                    # name, description, kind of job (toy, lm); extends: a spec that it changes
    [base]                     # the config that every job starts from; see toymodels.CohortConfig
    [[case]]                   # optional, repeated: tables laid over the base, one at a time
    [grid]                     # optional: dotted key = list of values; all combinations are run
    [[exclude]]                # optional, repeated: dotted key = value or list of values; a cell that has one
                               # of the values of every key, as it is written or by default, is left out
    [set]                      # optional: dotted key = value, laid over all of these (`--set` writes here)
    [fit]                      # law: depth, looped, ...; by: columns that tell one fit from another; group:
                               # columns of what rows have in common; floor: L_0, or left out to fit it

Where a list of numbers is expected, `{logspace = [first, last, count]}`, `{linspace = [first, last, count]}`
and `{range = [first, last, step]}` write one: both ends included, `last` of a range where a step lands on it.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps._cells import Exclusions, combinations, overlay, table_of
from sweeps._config import ConfigError, canonical, decode, encode, nearest, plain
from sweeps._jobs import KINDS, PROVENANCE, kind

PRESETS = Path(__file__).parent / "presets"


DEPTH = "depth"
FIT_DEFAULTS: dict[str, dict[str, Any]] = {
    DEPTH: {"by": ("teacher",), "group": ("seed",)},
    "looped": {"by": (), "group": ("budget", "num_recur")},
}
"""By law, what a [fit] that does not say it means; of other laws: one fit, rows grouped by seed."""

NO_LAW = "none"
"""As the law of a [fit]: rows that answer by themselves, an ablation say, are not fitted."""

LAW_OF_KIND = {"toy": DEPTH, "lm": "looped"}


@dataclass(frozen=True)
class FitSpec:
    """How `run` fits the table: one fit for each combination of the columns `by`.

    law: a name that `sweeps.laws.LAWS` has, or none. group: columns of what rows have in common: seeds with
    a level each, for the depth law; clusters of the bootstrap, for others; none: rows are independent.
    floor: L_0 of the depth law (None: free). Raises ValueError for an unknown law, a floor of a law that has
    none, and a negative one.
    """

    by: tuple[str, ...] = ("teacher",)
    floor: float | None = None
    law: str = DEPTH
    group: tuple[str, ...] = ("seed",)

    def __post_init__(self) -> None:
        if self.law != DEPTH:
            from sweeps.laws import LAWS

            if self.law not in (*LAWS, NO_LAW):
                raise ValueError(f"law is {self.law!r}: {nearest(self.law, (*LAWS, NO_LAW))}")
            if self.floor is not None:
                raise ValueError(
                    f"floor is {self.floor}, but the law is {self.law!r}: only depth has a floor"
                )
        if self.floor is not None and self.floor < 0:
            raise ValueError(f"floor is {self.floor}: it must be at least 0; leave it out to fit it")

    @classmethod
    def of(cls, table: dict[str, Any], kind: str, where: str) -> "FitSpec":
        """What a [fit] asks of a kind of jobs, with the defaults of its law. Raises ConfigError."""
        law = table.get("law", LAW_OF_KIND.get(kind, DEPTH))
        defaults = FIT_DEFAULTS.get(law, {"by": ()}) if isinstance(law, str) else {}
        return decode(cls, {**defaults, "law": law, **table}, where)

    def check(self, columns: Iterable[str]) -> None:
        """Raise ValueError where the law, `by` or `group` names no column of the table."""
        known = tuple(columns)
        if self.law not in (DEPTH, NO_LAW):
            from sweeps.laws import LAWS

            for column in LAWS[self.law]().columns:
                if column not in known:
                    raise ValueError(
                        f"law is {self.law!r}, which needs a column {column!r} that rows do not have"
                    )
        for key, names in (("by", self.by), ("group", self.group)):
            for column in names:
                if column not in known:
                    raise ValueError(
                        f"{key} names {column!r}, which is not a column: {nearest(column, known)}"
                    )


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
    path = _path_of(name)
    source = _read(path, ())
    for setting in settings:
        _apply_setting(source, setting)
    return parse_spec(source, path.name)


def _path_of(name: str, beside: Path | None = None) -> Path:
    """Of a preset's name or a TOML file's path, the latter as seen from the folder `beside`."""
    path = Path(name)
    if path.suffix == ".toml":
        return path if beside is None else beside / path
    path = PRESETS / f"{name}.toml"
    if not path.is_file():
        raise ConfigError(f"{name!r} is neither a preset nor a .toml file: {nearest(name, preset_names())}")
    return path


def _read(path: Path, extending: tuple[Path, ...]) -> dict[str, Any]:
    """The source of a spec, laid over the one that it extends: what is written in it stands alone.

    Its [sweep], [base] and [fit] are laid over the other's; its [grid], [[case]] and [[exclude]] take the
    place of the other's.
    """
    try:
        source = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: name a TOML file or a preset") from None
    except (OSError, ValueError) as error:  # not UTF-8, not TOML, or a number of too many digits
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from None
    sweep = table_of(source, "sweep", path.name)
    if "extends" not in sweep:
        return source
    name = sweep.pop("extends")
    if not isinstance(name, str):
        raise ConfigError(f"{path.name}: sweep.extends is {name!r}: it must name a preset or a TOML file")
    under = _path_of(name, path.parent)
    if under in (path, *extending):
        raise ConfigError(f"{path.name}: sweep.extends is {name!r}, which extends this one: leave one out")
    merged = _read(under, (path, *extending))
    for key in ("sweep", "base", "fit"):
        if key in source:
            merged[key] = overlay(table_of(merged, key, under.name), table_of(source, key, path.name))
    return {**merged, **{key: value for key, value in source.items() if key not in ("sweep", "base", "fit")}}


def parse_spec(source: dict[str, Any], where: str) -> Spec:
    """The spec that `source`, the plain values of a TOML text, describes; `where` names it in error messages.

    Raises ConfigError: table, key, value and what to write instead.
    """
    tables = ("sweep", "base", "case", "grid", "exclude", "set", "fit")
    for key in source:
        if key not in tables:
            raise ConfigError(f"{where}: [{key}] is not a known table: {nearest(key, tables)}")
    sweep = table_of(source, "sweep", where)
    known = ("name", "description", "kind")
    for key in sweep:
        if key not in known:
            raise ConfigError(f"{where}: sweep.{key} is not a known key: {nearest(key, known)}")
    name = sweep.get("name")
    if not isinstance(name, str) or not name or name in (".", "..") or set(name) & set("/\\\0"):
        raise ConfigError(f"{where}: sweep.name is {name!r}: it must be a text that can name a folder")
    description = sweep.get("description", "")
    if not isinstance(description, str):
        raise ConfigError(f"{where}: sweep.description is {description!r}: it must be a text")
    named = sweep.get("kind", "toy")
    if not isinstance(named, str) or named not in KINDS:
        raise ConfigError(f"{where}: sweep.kind is {named!r}: {nearest(str(named), KINDS)}")
    config = kind(named).config

    configs: dict[Any, None] = {}
    excluded = Exclusions(plain(source), where)
    for label, table in combinations(source, where):
        # Before its rules are checked: it may be left out for breaking one.
        if excluded.leaves_out(plain(table)):
            continue
        cell: Any = decode(config, table, f"{where} ({label})" if label else where)
        if not excluded.leaves_out(encode(cell)):  # by a default
            configs[cell] = None
    excluded.check()
    if not configs:
        raise ConfigError(f"{where}: no cell is left: case is empty, or exclude leaves out every cell")
    fit = FitSpec.of(table_of(source, "fit", where), named, f"{where}: fit")
    try:
        fit.check(("job", *kind(named).columns, *PROVENANCE))
    except ValueError as error:
        raise ConfigError(f"{where}: fit: {error}") from None
    try:
        canonical(plain(source))
    except (TypeError, ValueError) as error:  # a date, or no number, that a setting has replaced
        raise ConfigError(f"{where} cannot be recorded as JSON: {error}") from None
    return Spec(name, description, named, tuple(configs), fit, plain(source))


def _apply_setting(source: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {setting!r}: it must be key=value, such as steps=1000 or teacher.depth=32")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # not TOML: a text without its quotes
        value = text.strip()
    table_of(source, "set", "the spec")
    source.setdefault("set", {})[key] = value
