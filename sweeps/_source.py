"""Where the fitter's rows come from: a file of anybody's, or a folder of results; and which law is meant."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps import _axes
from sweeps._config import ConfigError, nearest
from sweeps._formats import HIDDEN, read_table
from sweeps._tables import derived, mapped, parse_map, valid
from sweeps._terminal import say
from sweeps.laws import LAWS, DepthLaw, Law, OwnLaw, evaluate

if TYPE_CHECKING:
    import polars as pl

    from sweeps._spec import FitSpec

DIVERGED = "diverged"

VALIDATION = "val_loss"
"""What the validation loss of a folder of results is called where another column is the loss."""


@dataclass(frozen=True)
class Source:
    """Rows to fit.

    law: what they are to be fitted by. spec: how the folder's sweep asks to be fitted; None for a file.
    missing: jobs of the folder that have no record. said: what a fit is to say of the table.
    """

    table: "pl.DataFrame"
    law: Law
    spec: "FitSpec | None"
    missing: int
    said: dict[str, Any]


def open_source(
    path: Path,
    law: str,
    maps: Sequence[str] = (),
    definitions: Sequence[str] = (),
    drop_invalid: bool = False,
    also: Sequence[str] = (),
) -> Source:
    """The rows of a file or folder, with columns renamed and derived, and checked for this law.

    also: further columns that have to hold positive numbers; texts that are no column are left alone.

    Raises BadTable and ConfigError with a sentence; says on standard error what it leaves out.
    """
    spec, missing = None, 0
    said: dict[str, Any] = {"table": path.name}
    if path.is_dir():
        table, spec, missing = _results(path)
    else:
        table = read_table(path)
        said["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    mapping = parse_map(list(maps))
    renamed = mapping.get("loss", "loss") != "loss" and "loss" not in mapping.values()
    if path.is_dir() and renamed and VALIDATION not in mapping:
        mapping[VALIDATION] = "loss"  # ours, so it is known what it is, and it keeps a name
        say(f"the loss is {mapping['loss']}; the validation loss is the column {VALIDATION}")
    table = derived(mapped(table, mapping), list(definitions), evaluate, drop_invalid)
    columns = [name for name in table.columns if name not in HIDDEN]
    chosen = law_named(law, columns)
    for name in (*chosen.columns, "loss"):
        if name not in columns:
            hint = f"; name the column that holds it: --map {name}=COLUMN"
            raise ConfigError(f"column {name!r} is not in the table: it has {', '.join(columns)}{hint}")
    numeric = [*chosen.columns, *(name for name in also if name in columns and name not in chosen.columns)]
    table, notes = _checked(table, numeric, drop_invalid)
    for note in notes:
        say(note)
    said |= {"map": mapping, "derive": list(definitions)}
    return Source(table, chosen, spec, missing, said)


def law_named(text: str, columns: Sequence[str]) -> Law:
    """The law of a name, or of a formula in which names are columns of the table or else parameters.

    Raises ConfigError.
    """
    if text in LAWS:
        return LAWS[text]()
    if text.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"--law {text!r} is not a law: {nearest(text, LAWS)}; or write a formula")
    try:
        return OwnLaw.of(text, columns)
    except ValueError as error:
        raise ConfigError(f"--law {error}") from None


def names_in(text: str) -> list[str]:
    """The columns of a law's name, or every name in a formula; none where it cannot be read."""
    if text in LAWS:
        return list(LAWS[text]().columns)
    return re.findall(r"[^\W\d]\w*", text)


def _checked(
    table: "pl.DataFrame", columns: Sequence[str], drop_invalid: bool
) -> tuple["pl.DataFrame", list[str]]:
    """Rows that can be fitted, and those that are said to have diverged, whatever their loss."""
    import polars as pl

    gone = table.clear()
    if "status" in table.columns:
        went = pl.col("status").cast(pl.String).eq_missing(DIVERGED)
        gone, table = table.filter(went), table.filter(~went)
    table, notes = valid(table, "loss", columns, drop_invalid)
    if len(gone):
        table = pl.concat(
            [table, gone.cast({name: table.schema[name] for name in gone.columns}, strict=False)]
        )
    return table, notes


def table_of(folder: Path, series: str | None = None) -> tuple["pl.DataFrame", list[str]]:
    """The rows of a sweep, and a sentence, already said, about each record that cannot be read.

    series: a long table of this name (`Store.series`) instead of the rows.
    """
    from sweeps._store import Store

    store = Store(folder)
    store.spec()
    skipped: list[str] = []
    rows = store.table(skipped) if series is None else store.series(series, skipped)
    for sentence in skipped:
        say(sentence)
    if (told := _axes.note(folder, store.records())) is not None:
        say(told)
    return rows, skipped


def _results(folder: Path) -> tuple["pl.DataFrame", "FitSpec", int]:
    """The rows of a sweep, how it is to be fitted, and the number of its jobs that have no record."""
    from sweeps._jobs import expand
    from sweeps._spec import parse_spec
    from sweeps._store import Store

    store = Store(folder)
    spec = parse_spec(store.spec(), str(folder / "spec.json"))
    missing = sum(not store.is_done(job) for job in expand(spec.kind, spec.configs))
    return table_of(folder)[0], spec.fit, missing


def fixed_by_spec(source: Source) -> dict[str, float]:
    """What the folder's spec fixes: the floor of a depth law."""
    if source.spec is None or source.spec.floor is None or not isinstance(source.law, DepthLaw):
        return {}
    return {"L_0": source.spec.floor}


def parse_fixed(texts: Sequence[str], base: Mapping[str, float]) -> dict[str, float]:
    """`NAME=VALUE` laid over `base`; `NAME=free` takes away what the base fixes. Raises ConfigError."""
    out = dict(base)
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if value == "free":
            out.pop(name, None)
            continue
        out[name] = _number(value, f"--fix {text!r}: write NAME=VALUE, as in E=1.6, or NAME=free")
    return out


def parse_bounds(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """`NAME=LOW:HIGH`, either end left out for none. Raises ConfigError."""
    out = {}
    for text in texts:
        name, _, ends = (part.strip() for part in text.partition("="))
        low, colon, high = ends.partition(":")
        rule = f"--bound {text!r}: write NAME=LOW:HIGH, as in alpha=0:2.5"
        if not name or not colon:
            raise ConfigError(rule)
        out[name] = (
            _number(low, rule) if low.strip() else float("-inf"),
            _number(high, rule) if high.strip() else float("inf"),
        )
    return out


def _number(text: str, rule: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(rule) from None
    if value != value:
        raise ConfigError(rule)
    return value
