"""Tables for a page: those of the terminal, the rows of a sweep, and jobs without a record."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sweeps._headline import NULL
from sweeps._jobs import Column
from sweeps._page import Grid, Heading
from sweeps._status import Standing
from sweeps._store import DONE

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

MOST_SHOWN = 200
"""Rows of a sweep, and jobs, that a page shows."""

ALWAYS = ("depth", "num_recur", "loss", "status")
"""Columns that are shown though they have one value."""


def of_terminal(table: "Table", caption: str = "", note: str = "") -> Grid:
    """A table that was made for a terminal."""
    headings: list[Heading] = []
    first = ""
    for column in table.columns:
        above, line, below = str(column.header).partition("\n")
        first = first if line and not above else above  # an empty line stands for that of the column before
        headings.append(Heading(f"{first} {below}".strip(), numeric=column.justify == "right"))
    columns = [
        [NULL.get(head.name, cell) if cell == "-" else cell for cell in map(str, column.cells)]
        for head, column in zip(headings, table.columns, strict=True)
    ]
    return Grid(caption or str(table.title or ""), tuple(headings), tuple(zip(*columns, strict=True)), note)


def of_rows(
    rows: "pl.DataFrame", columns: Mapping[str, Column]
) -> tuple[Grid | None, tuple[tuple[str, str], ...]]:
    """The first rows with what differs among them, and what all rows share; no table without a row."""
    if rows.is_empty():
        return None, ()
    alike = [name for name in rows.columns if name not in ALWAYS and rows[name].n_unique() == 1]
    names = [name for name in rows.columns if name not in (*alike, "job")]
    headings = tuple(_heading(name, columns[name]) for name in names)
    shown = rows.head(MOST_SHOWN)
    cells = tuple(tuple(map(_cell, names, row)) for row in shown.select(names).iter_rows())
    left = f"The first {len(shown)} of {len(rows)} rows" if len(shown) < len(rows) else f"{len(rows)} rows"
    grid = Grid(f"{left}, with the columns that differ", headings, cells)
    return grid, tuple((name, _cell(name, rows[name][0])) for name in alike)


def _heading(name: str, column: Column) -> Heading:
    unit = f" ({column.unit})" if column.unit else ""
    return Heading(name, f"{column.meaning}{unit}", column.type in (int, float))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return NULL.get(name, "–")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if abs(value) >= 10_000 else str(value)
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def of_missing(standing: Standing, where: str) -> Grid | None:
    """Jobs that are not done, and why; None where all are."""
    gone = {key: state for key, state in standing.states.items() if state != DONE[0]}
    if not gone:
        return None
    rows = []
    for key in list(gone)[:MOST_SHOWN]:
        why = standing.errors.get(key, "").replace(where, ".")
        rows.append((key, standing.asked[key][0], gone[key], why or "–"))
    left = f"The first {len(rows)} of {len(gone)}" if len(rows) < len(gone) else str(len(gone))
    headings = tuple(map(Heading, ("job", "what", "state", "why")))
    return Grid(f"{left} jobs that are not done", headings, tuple(rows))
