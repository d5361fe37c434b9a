"""Options that the commands about laws share, and what these make of them."""

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps._terminal import console, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from sweeps._source import Source
    from sweeps.laws import Fit, Law, Objective


class ObjectiveName(enum.StrEnum):
    """What is minimised."""

    LOG_SQUARES = "log-squares"
    HUBER = "huber"
    SQUARES = "squares"
    ASYMMETRIC = "asymmetric"


class IntervalName(enum.StrEnum):
    """How intervals are made."""

    AUTO = "auto"
    PAIRS = "pairs"
    CLUSTER = "cluster"
    RESIDUAL = "residual"
    PROFILE = "profile"
    WALD = "wald"
    NONE = "none"


TABLE = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A .csv, .tsv, .parquet, .json, .jsonl file, or a folder of results."
    ),
]
LAW = Annotated[
    str,
    typer.Option(
        help="depth, crossover, width-depth-data, chinchilla, looped, compute, or a formula such as "
        "'E + A*n**-a': names that are no columns are parameters."
    ),
]
MAP = Annotated[
    list[str], typer.Option("--map", metavar="NEW=OLD", help="The table's column OLD is NEW; repeatable.")
]
DERIVE = Annotated[
    list[str],
    typer.Option(
        "--derive", metavar="NEW=FORMULA", help="A column from others: 'num_tokens=flops/(6*n)'; repeatable."
    ),
]
DROP_INVALID = Annotated[
    bool,
    typer.Option(
        "--drop-invalid", help="Leave out rows that cannot be fitted, instead of refusing the table."
    ),
]
DROP_TOP = Annotated[
    int, typer.Option("--drop-top", min=0, metavar="N", help="Leave out the N highest losses.")
]
GROUP = Annotated[
    list[str],
    typer.Option(
        "--group",
        help="Column(s) of what rows have in common (seed, run, budget); 'none' for independent rows; "
        "repeatable. [default: what the folder's sweep says; of the looped law budget and num_recur; else "
        "seed, where there is one]",
    ),
]
FIX = Annotated[
    list[str],
    typer.Option("--fix", metavar="NAME=VALUE", help="Hold a parameter; NAME=free lets it go; repeatable."),
]
BOUND = Annotated[
    list[str], typer.Option("--bound", metavar="NAME=LOW:HIGH", help="Keep a parameter between; repeatable.")
]
OWN = Annotated[
    list[str] | None,
    typer.Option(
        "--own", metavar="NAME", help="Parameter that each group has for itself; 'none'; repeatable."
    ),
]
OBJECTIVE = Annotated[
    ObjectiveName | None,
    typer.Option(
        "--objective", help="What is minimised. [default: log-squares; of the looped law huber, as its paper]"
    ),
]
DELTA = Annotated[float | None, typer.Option(help="Huber's delta in log loss (1e-3), also of asymmetric.")]
OVERESTIMATES = Annotated[
    float | None, typer.Option(help="Factor on rows that the law overestimates (10), of asymmetric.")
]
WEIGHTS = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of weights.")]
NOISE = Annotated[
    str | None,
    typer.Option(metavar="SIGMA", help="Known standard deviation of log loss: a number or a column."),
]
INTERVAL = Annotated[IntervalName, typer.Option(help="How intervals are made.")]
CONFIDENCE = Annotated[float, typer.Option(help="Of the intervals.")]
RESAMPLES = Annotated[int | None, typer.Option(min=1, help="Bootstrap refits (1000).")]
STARTS = Annotated[int, typer.Option(min=1, help="Points to start from.")]
SEED = Annotated[int, typer.Option(help="Of starts and resamples.")]
OUT = Annotated[
    Path | None, typer.Option(help="File (.csv, .parquet, .json; default: standard output, as CSV).")
]


def read_fit(path: Path) -> "Fit":
    """A saved fit. Raises ConfigError."""
    from sweeps._config import ConfigError
    from sweeps.laws import Fit

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: write it with `depthlaw fit --json`") from None
    except (IsADirectoryError, UnicodeDecodeError):
        raise ConfigError(f"{path} is not a saved fit: write one with `depthlaw fit --json`") from None
    try:
        return Fit.from_json(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def write_rows(table: "pl.DataFrame", out: Path | None) -> None:
    """A table to a file, or as CSV to standard output."""
    import io

    from sweeps._files import write_atomic

    suffix = out.suffix.lower() if out else ".csv"
    buffer = io.BytesIO()
    if suffix == ".parquet":
        table.write_parquet(buffer)
    elif suffix == ".json":
        table.write_json(buffer)
    elif suffix == ".csv":
        table.write_csv(buffer)
    else:
        raise typer.BadParameter(f"{out}: a table is written as .csv, .parquet or .json", param_hint="--out")
    if out is None:
        sys.stdout.buffer.write(buffer.getvalue())
    else:
        write_atomic(out, buffer.getvalue())
        say(f"wrote {out}: {len(table)} rows")


def print_rows(rows: list[dict[str, Any]], out: Path | None) -> None:
    """Rows to a file, or as a table to the terminal."""
    import polars as pl
    from rich.table import Table

    if out is not None:
        write_rows(pl.DataFrame(rows, infer_schema_length=None), out)
        return
    if not sys.stdout.isatty():
        write_rows(pl.DataFrame(rows, infer_schema_length=None), None)
        return
    shown = Table(*rows[0])
    for row in rows:
        shown.add_row(
            *(f"{v:.5g}" if isinstance(v, float) else "-" if v is None else str(v) for v in row.values())
        )
    console().print(shown)


def fit_options(
    opened: "Source",
    base: dict[str, float],
    fix: list[str],
    bound: list[str],
    own: list[str] | None,
    objective: ObjectiveName | None,
    delta: float | None,
    overestimates: float | None,
    drop_top: int,
) -> dict[str, Any]:
    """Arguments of `sweeps.laws.fit`. Raises ConfigError."""
    from sweeps._config import ConfigError, nearest
    from sweeps._source import parse_bounds, parse_fixed

    fixed, bounds = parse_fixed(fix, base), parse_bounds(bound)
    mine = None if own is None else () if own == ["none"] else tuple(own)
    known = [p.name for p in opened.law.parameters]
    for option, names in (("--fix", fixed), ("--bound", bounds), ("--own", mine or ())):
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{option} {name}: no parameter of {opened.law.name}: {nearest(name, known)}"
                )
    chosen = objective_of([opened.law], objective, delta, overestimates)
    return {"fix": fixed, "bounds": bounds, "own": mine, "objective": chosen, "drop_top": drop_top}


def objective_of(
    laws: "Sequence[Law]", name: ObjectiveName | None, delta: float | None, overestimates: float | None
) -> "Objective":
    """What is minimised: as asked for, or what a spec that fits such laws minimises. Raises ConfigError."""
    from sweeps._config import ConfigError
    from sweeps.laws import LoopedLaw, objective

    if name is None:
        looped = any(isinstance(law, LoopedLaw) for law in laws)
        name = ObjectiveName.HUBER if looped else ObjectiveName.LOG_SQUARES
    try:
        return objective(str(name), delta, overestimates)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def groups_of(group: list[str], opened: "Source") -> tuple[str, ...]:
    """Columns of what rows have in common: as asked for, as the folder's sweep says, or as usual."""
    from sweeps._spec import FIT_DEFAULTS

    if group:
        return () if group == ["none"] else tuple(group)
    if opened.spec is not None and opened.spec.law == opened.law.name:
        return opened.spec.group
    usual = FIT_DEFAULTS.get(opened.law.name, {}).get("group", ())
    return usual if set(usual) <= set(opened.table.columns) and usual else ("seed",)


def noise_of(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def refused(error: ValueError, table: "pl.DataFrame") -> Exception:
    """What the library says of a call or a row, with rows as a reader of the table counts them."""
    import re

    from sweeps._config import ConfigError
    from sweeps._formats import row_name

    def name(match: "re.Match[str]") -> str:
        index = int(match[1])
        return row_name(table, index) if index < len(table) else match[0]

    return ConfigError(re.sub(r"\brow (\d+)", name, str(error)))
