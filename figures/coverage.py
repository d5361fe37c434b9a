"""How often a 95 % interval holds the truth, in simulated tables: by what was simulated and how it was made.

    python -m figures.coverage figures/tables/coverage.csv --out results/figures

Reads what `tests/sweeps/laws/test_law_coverage.py` writes. Takes seconds. This project's own: neither
paper says what its intervals cover.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from matplotlib.figure import Figure
from scipy import stats

from figures import _style
from figures._catalogue import Drawing
from figures.law_fit import COLOURS, MARKERS, shown
from sweeps._formats import read_table
from sweeps._terminal import BadTable, fail

NAME = "coverage"
LEVEL = 0.95
COLUMNS = ("case", "interval", "parameter", "tables", "share")


@dataclass(frozen=True)
class Line:
    """One way to make an interval: the places of its cases (n,), its shares (n,) and how far a share of so
    many tables may be off (2, n), 95 %, below and above."""

    interval: str
    place: np.ndarray
    share: np.ndarray
    reach: np.ndarray


@dataclass(frozen=True)
class Shares:
    """What is drawn: the cases, each with its parameter, from the top, a line a way, and tables a case."""

    cases: tuple[str, ...]
    lines: tuple[Line, ...]
    tables: tuple[int, ...]


def load(source: Path) -> pl.DataFrame:
    """The table. Raises BadTable where it is no table of coverage."""
    rows = read_table(source)
    for name in COLUMNS:
        if name not in rows.columns:
            raise BadTable(f"{source} has no column {name!r}: give it what test_law_coverage.py wrote")
    good = pl.col("share").is_between(0, 1) & (pl.col("tables") > 0)
    if rows.is_empty() or not rows.select(good.fill_null(False).all()).item():
        raise BadTable(f"{source}: a share of 0 to 1 of one or more tables must stand in every row")
    return rows


def compute(rows: pl.DataFrame) -> Shares:
    """Cases in the order of the table; the binomial error of a share is Wilson's."""
    named = [
        f"{case}: {shown(parameter)}" for case, parameter in rows.select("case", "parameter").iter_rows()
    ]
    cases = tuple(dict.fromkeys(named))
    lines = []
    for interval in rows["interval"].unique(maintain_order=True):
        mine = [i for i, name in enumerate(rows["interval"]) if name == interval]
        share, tables = (rows[name].to_numpy()[mine].astype(float) for name in ("share", "tables"))
        ends = [
            stats.binomtest(round(s * n), round(n)).proportion_ci(method="wilson")
            for s, n in zip(share, tables, strict=True)
        ]
        reach = np.array([[s - end.low, end.high - s] for s, end in zip(share, ends, strict=True)]).T
        place = np.array([cases.index(named[i]) for i in mine], dtype=float)
        lines.append(Line(interval, place, share, np.maximum(reach, 0)))
    return Shares(cases, tuple(lines), tuple(sorted(set(rows["tables"].to_list()))))


def plot(found: Shares) -> Figure:
    """A row a case, a mark a way of making the interval."""
    with _style.style():
        figure = Figure(figsize=(8.2, 1.4 + 0.24 * len(found.cases)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(LEVEL, color=_style.GREY, linewidth=0.8)
        spread = np.linspace(-0.28, 0.28, len(found.lines)) if len(found.lines) > 1 else [0.0]
        for i, (line, shift) in enumerate(zip(found.lines, spread, strict=True)):
            axes.errorbar(
                line.share,
                line.place + shift,
                xerr=line.reach,
                linestyle="none",
                color=COLOURS[i % len(COLOURS)],
                marker=MARKERS[i % len(MARKERS)],
                markersize=3,
                elinewidth=0.7,
                label="as given unasked" if line.interval == "auto" else line.interval,
            )
        axes.set_yticks(range(len(found.cases)), found.cases, fontsize=6.5, parse_math=False)
        axes.set_ylim(len(found.cases) - 0.4, -0.6)
        axes.set(xlabel="share of simulated tables whose 95 % interval holds the truth")
        tables = " or ".join(str(count) for count in found.tables)
        axes.set_title(f"{tables} tables each; bars: 95 % of a share of so many; line: {LEVEL}")
        figure.legend(loc="outside lower center", ncols=min(6, len(found.lines)))
        return figure


def draw(source: Path, out: Path) -> list[Path]:
    """Draw the figure of a table into the folder `out`; returns the files written."""
    return _style.save(plot(compute(load(source))), out, NAME, f"coverage of intervals, {source.name}")


DRAWINGS = (
    Drawing(
        NAME,
        "how often 95 % intervals hold the truth, by law, rows and the way of making them",
        "this project's own",
        ("coverage.csv",),
        lambda files, out: draw(files[0], out),
    ),
)


def main(
    source: Annotated[Path, typer.Argument(help="A table of coverage.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(source, out):
            print(path)
    except BadTable as error:
        fail(f"{NAME}: {error}", 1)


if __name__ == "__main__":
    typer.run(main)
