"""From a table to the runs of one grid, checked: what diverged is left out and counted.

Symbols: width d, recurrences r, parameters used once N_once and in the recurrent block N_rec, tokens D.
"""

import math
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps._config import ConfigError, nearest
from sweeps._formats import HIDDEN, ROW, row_name, row_numbers
from sweeps._tables import numbers, valid
from sweeps._terminal import BadTable

if TYPE_CHECKING:
    import polars as pl

    from sweeps.laws._law import Array

COLUMNS = ("budget", "width", "num_recur", "num_params", "num_once", "num_recurrent", "num_tokens")
"""What a table needs besides `loss`. `flops`, `injection`, `backprop_recurrences`, `seed` and `status` are
used where it has them."""

CELLS = ("budget", "num_recur")
"""Columns of the cells that the bootstrap draws, each with all its widths (arXiv:2604.21106)."""

ALIKE = (
    "corpus_hash",
    "tokenizer",
    "vocabulary",
    "context",
    "depth",
    "prelude",
    "coda",
    "optimiser",
    "mask_documents",
    "sampled_spread",
)
"""Columns that have one value in all runs of a grid, where it has them; `lanes` among looped ones."""

PLACE = ("budget", "num_recur", "width")
"""Columns that say which cell a run is of."""

SPENT_WITHIN, COUNTED_WITHIN = 0.05, 0.01  # of the budget, of N


@dataclass(frozen=True)
class Run:
    """One run.

    **Fields:** `budget` training FLOPs asked for, `flops` spent (the budget where the table does not say);
    `width` d; `num_recur` r; parameters without embedding and head: `num_params` unique, `num_once`,
    `num_recurrent`; `num_tokens`; `injection` (None: not said, and for r = 1); `num_backprop` recurrences
    that the backward pass goes through; `seed`, None where the table has none; `loss` in nats a token.
    """

    budget: float
    num_recur: int
    width: float
    num_params: float
    num_once: float
    num_recurrent: float
    num_tokens: float
    flops: float
    injection: str | None
    num_backprop: int
    seed: int | float | str | None
    loss: float

    @property
    def place(self) -> tuple[float, int, float]:
        """What runs that differ only in their seed have in common."""
        return self.budget, self.num_recur, self.width

    @property
    def described(self) -> str:
        """Which run it is, in words."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"budget {self.budget:g}, num_recur {self.num_recur}, width {self.width:g}{seed}"


@dataclass(frozen=True)
class Grid:
    """Runs in canonical order; `diverged` rows left out; `notes`, what is odd about them."""

    runs: tuple[Run, ...]
    diverged: int
    notes: tuple[str, ...]

    @property
    def columns(self) -> "dict[str, Array]":
        """Columns of numbers for the fitter, which speaks of truncation by the column `num_backprop`."""
        names = [f.name for f in fields(Run) if f.name not in ("injection", "seed")]
        return {name: np.array([getattr(run, name) for run in self.runs], dtype=float) for name in names}

    @property
    def budgets(self) -> tuple[float, ...]:
        """Ascending."""
        return tuple(sorted({run.budget for run in self.runs}))

    @property
    def recurrences(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(sorted({run.num_recur for run in self.runs}))


def read(table: "pl.DataFrame", injection: str | None = None) -> Grid:
    """The runs of a table; with `injection`, those of r = 1 and those that are injected so.

    Rows that are equal in all that is used count once: two grids joined have their runs of r = 1 twice.

    Raises ConfigError for a missing column, runs that belong to several grids or twice to one, runs that
    differ in one of `ALIKE`, and a single r; BadTable for a value that is no number above zero.
    """
    import polars as pl

    known = [name for name in table.columns if name not in HIDDEN]
    for name in (*COLUMNS, "loss"):
        if name not in known:
            hint = f"name the column that holds it: --map {name}=COLUMN"
            raise ConfigError(f"column {name!r} is not in the table: it has {', '.join(known)}; {hint}")
    if ROW not in table.columns:
        table = table.with_columns(row_numbers(table))
    table = numbers(table, (*COLUMNS, "loss"))
    good = pl.col("loss").is_finite().fill_null(False)
    if "status" in known:
        good &= pl.col("status").cast(pl.String).ne_missing("diverged")
    # Chosen before anything is counted: what diverged in another grid is no loss of this one.
    table = _chosen(table, injection)
    kept = table.filter(good)
    diverged = len(table) - len(kept)
    optional = [name for name in ("flops", "backprop_recurrences") if name in known]
    for name in ALIKE:
        if name in known:
            _one_value(kept, name)
    table, _ = valid(kept, "loss", COLUMNS, drop_invalid=False)
    table = numbers(table, optional)
    rows = [_run(row, row_name(table, index)) for index, row in enumerate(table.to_dicts())]
    runs = list(dict.fromkeys(rows))
    runs.sort(key=lambda run: (run.place, str(run.seed), tuple(map(str, astuple(run)))))
    _one_grid(runs, diverged)
    if "lanes" in known:
        _one_value(kept.filter(pl.col("num_recur") > 1), "lanes")
    notes = _notes(runs, diverged)
    if len(runs) < len(rows):
        notes += (
            f"{len(rows) - len(runs)} row(s) repeat another in all that is used here: they count once.",
        )
    return Grid(tuple(runs), diverged, notes)


def _chosen(table: "pl.DataFrame", injection: str | None) -> "pl.DataFrame":
    import polars as pl

    if injection is None:
        return table
    if "injection" not in table.columns:
        raise ConfigError(f"injection {injection!r} is asked for, but the table has no column 'injection'")
    looped = table.filter(pl.col("num_recur") > 1)["injection"].cast(pl.String).drop_nulls().unique()
    if injection not in looped:
        raise ConfigError(f"injection {injection!r} is that of no run: {nearest(injection, looped)}")
    looped_otherwise = (pl.col("num_recur") > 1) & pl.col("injection").cast(pl.String).ne_missing(injection)
    return table.filter(~looped_otherwise.fill_null(False))


def _one_value(table: "pl.DataFrame", name: str) -> None:
    """Raise ConfigError where runs differ in what a grid holds fixed."""
    values = table[name].unique(maintain_order=True).to_list()
    if len(values) > 1:
        first, other = (
            f"{'none' if value is None else value} ("
            + ", ".join(f"{key} {_short(row[key])}" for key in PLACE)
            + ")"
            for value in values[:2]
            for row in [table.filter(table[name].eq_missing(value)).row(0, named=True)]
        )
        raise ConfigError(
            f"column {name!r} differs between runs: {first} and {other}; what that changes is not what a "
            "recurrence is worth: leave out the runs of one"
        )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _run(row: dict[str, Any], name: str) -> Run:
    r = row["num_recur"]
    if r != int(r):
        raise BadTable(f"{name}: num_recur is {r:g}: a block is run a whole number of times")
    kept, spent, injection = (row.get(column) for column in ("backprop_recurrences", "flops", "injection"))
    if kept is not None and math.isnan(kept):
        kept = None
    if kept is not None and (kept < 1 or kept != int(kept)):
        raise BadTable(
            f"{name}: backprop_recurrences is {kept:g}: it is a whole number above 0, or blank for all"
        )
    if spent is not None and not 0 < spent < math.inf:
        raise BadTable(f"{name}: flops is {spent:g}: it has to be a number above 0, or blank")
    return Run(
        budget=row["budget"],
        num_recur=int(r),
        width=row["width"],
        num_params=row["num_params"],
        num_once=row["num_once"],
        num_recurrent=row["num_recurrent"],
        num_tokens=row["num_tokens"],
        flops=row["budget"] if spent is None else spent,
        injection=None if injection is None or r == 1 else str(injection),
        num_backprop=int(r if kept is None else min(kept, r)),
        seed=row.get("seed"),
        loss=row["loss"],
    )


def _one_grid(runs: list[Run], diverged: int) -> None:
    """Raise ConfigError where the runs are not those of one grid."""
    if not runs:
        raise ConfigError(f"no run is left: the table is empty, or all its {diverged} rows diverged")
    recurrences = sorted({run.num_recur for run in runs})
    if len(recurrences) < 2:
        raise ConfigError(
            f"num_recur is {recurrences[0]} in every run: what a recurrence is worth shows only where it "
            "varies; add runs of another"
        )
    injections = sorted({run.injection for run in runs if run.injection is not None})
    if len(injections) > 1:
        raise ConfigError(
            f"the runs have several injections ({', '.join(injections)}), and each has a phi of its own: "
            f"choose one, as in --injection {injections[0]}"
        )
    for r in recurrences:
        depths = sorted({run.num_backprop for run in runs if run.num_recur == r})
        if len(depths) > 1:
            raise ConfigError(
                f"runs of num_recur {r} have several backprop_recurrences ({', '.join(map(str, depths))}): "
                "they belong to different grids; leave out those of one"
            )
    seen: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        key = (run.place, run.seed)
        if run.seed is not None and key in seen:
            raise ConfigError(
                f"there are two runs with {run.described} and different "
                f"{', '.join(_different(seen[key], run))}: a grid has one of them; leave out the other"
            )
        seen[key] = run


def _different(one: Run, other: Run) -> list[str]:
    """The fields in which two runs differ."""
    names = [f.name for f in fields(Run)]
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _notes(runs: list[Run], diverged: int) -> tuple[str, ...]:
    notes = []
    if len({run.budget for run in runs}) < 2:
        notes.append("A single budget: what size and what data do cannot be told apart, so phi is not known.")
    if all(run.num_recur > 1 for run in runs):
        notes.append("No run has r = 1: without models that do not recur little is known of phi.")
    if diverged:
        notes.append(f"{diverged} diverged run(s) left out.")
    missed = [run for run in runs if abs(run.flops / run.budget - 1) > SPENT_WITHIN]
    if missed:
        worst = max(missed, key=lambda run: abs(run.flops / run.budget - 1))
        notes.append(
            f"{len(missed)} run(s) spent FLOPs that are more than {100 * SPENT_WITHIN:g} % off their budget, "
            f"one {worst.flops / worst.budget:.2f} times as many: profiles at one budget mix these."
        )
    other = [r for r in runs if abs((r.num_once + r.num_recurrent) / r.num_params - 1) > COUNTED_WITHIN]
    if other:
        notes.append(
            f"num_params of {len(other)} run(s) is not num_once + num_recurrent: it should count unique "
            "parameters without embedding and head."
        )
    return tuple(notes)
