"""Loss against the rate of the matrices, for each r and width, and what the grid's rate loses.

    python -m figures.learning_rates figures/tables/llm_cpu_rates.csv figures/tables/llm_cpu.csv \
        --out results/figures

Compare arXiv:2604.21106, its sweeps of the learning rate. Takes seconds. Symbols: width d, recurrences r;
rates are in units of the one that the grid uses at that width, r and number of tokens.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import looks, wrapped
from sweeps._config import ConfigError
from sweeps._formats import read_table
from sweeps._terminal import BadTable
from sweeps.iso_depth import Noise
from sweeps.iso_depth._grid import read as read_grid
from sweeps.iso_depth._noise import noise
from sweeps.laws import Parabola, parabola
from sweeps.laws._law import Array

NAME = "learning_rates"
PLACE = ("budget", "width", "num_recur")
POINTS = 50  # of a parabola

CAPTION = (
    "Lines: parabolas in the logarithm of the rate; crosses: their minima (dashed: none among the rates). "
    "Right: what the grid's rate loses to the minimum; hollow: where a minimum lies outside. One run a "
    "rate: losses of runs that differ only in their seed scatter by {scatter}. The matrices' rate alone is"
    " varied."
)


@dataclass(frozen=True)
class Cell:
    """One width and r: `rate` (n,) over the grid's, `loss` (n,) in nats, the parabola (None: without)."""

    width: float
    num_recur: int
    rate: Array
    loss: Array
    parabola: Parabola | None

    @property
    def inside(self) -> bool:
        """Whether its minimum is among the rates."""
        return self.parabola is not None and self.parabola.inside

    @property
    def best(self) -> float:
        """The rate of lowest loss, over the grid's; nan without a minimum."""
        return float(np.exp(self.parabola.log_size)) if self.parabola is not None else np.nan

    @property
    def regret(self) -> float:
        """What the grid's rate loses, in nats, by the parabola; nan without one."""
        if self.parabola is None:
            return np.nan
        return self.parabola.bend * self.parabola.log_size**2 / 2


def load(rates: Path, grid: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The sweep of rates and the grid. Raises BadTable where either lacks a column."""
    tables = []
    for path in (rates, grid):
        table = read_table(path)
        for name in (*PLACE, "matrix_rate", "loss"):
            if name not in table.columns:
                raise BadTable(
                    f"{path} has no column {name!r}: give a table of `depthlaw table` of language models"
                )
        tables.append(table.drop_nulls([*PLACE, "matrix_rate", "loss"]))
    return tables[0], tables[1]


def compute(rates: pl.DataFrame, grid: pl.DataFrame) -> tuple[list[Cell], Noise | None]:
    """A cell for each width and r, and the scatter of the grid's seeds.

    Raises ConfigError where the rates are of several budgets, the grid does not say its rate for a cell, or a
    cell has fewer than three rates.
    """
    if rates["budget"].n_unique() != 1:
        raise ConfigError(f"the rates have {rates['budget'].n_unique()} budgets: give those of one")
    own = grid.group_by(*PLACE).agg(own=pl.col("matrix_rate").unique())
    cells = []
    for cell in rates.join(own, on=list(PLACE), how="left").sort(*PLACE, "matrix_rate").partition_by(*PLACE):
        budget, width, r = cell.select(PLACE).row(0)
        known = cell["own"][0]
        if known is None or len(known) != 1:
            raise ConfigError(
                f"the grid has {0 if known is None else len(known)} rate(s) at budget {budget:g}, width "
                f"{width:g}, num_recur {r:g}: it needs one, to compare with"
            )
        rate = cell["matrix_rate"].to_numpy() / known[0]
        loss = cell["loss"].to_numpy()
        if np.unique(rate).size < 3:
            raise ConfigError(
                f"width {width:g}, num_recur {r:g} has {np.unique(rate).size} rate(s): a parabola needs three"
            )
        try:
            found = parabola(np.log(rate), loss)
        except ValueError:
            found = None
        cells.append(Cell(float(width), int(r), rate, loss, found))
    return cells, noise(read_grid(grid))


def plot(cells: list[Cell], scatter: Noise | None, said: str = "") -> Figure:
    """The figure: a panel a width, and what is lost."""
    widths = sorted({cell.width for cell in cells})
    marks = looks({cell.num_recur for cell in cells})
    with _style.style():
        figure = Figure(figsize=(3.1 * (len(widths) + 1), 3.9), layout="constrained")
        grid = figure.subplots(1, len(widths) + 1)
        for axes, width in zip(grid, widths, strict=False):
            for cell in cells:
                if cell.width == width:
                    _plot_cell(axes, cell, marks[cell.num_recur])
            ticks = sorted({round(rate, 6) for cell in cells for rate in cell.rate.tolist()})
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
            axes.set_xticks([], minor=True)
            axes.set(xlabel="rate of the matrices / the grid's", ylabel="loss (nats per token)")
            axes.set_title(f"Width {width:g}")
        _plot_regret(grid[-1], cells, widths, marks)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
        text = CAPTION.format(scatter="an unknown amount" if scatter is None else f"{scatter.sd:.3f} nats")
        text = wrapped(text + (f" Data: {said}." if said else ""), 62 * (len(widths) + 1))
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_cell(axes: Axes, cell: Cell, look: dict[str, Any]) -> None:
    axes.plot(cell.rate, cell.loss, linestyle="none", label=f"r = {cell.num_recur}", **look)
    if cell.parabola is None:
        return
    x = np.geomspace(cell.rate.min(), cell.rate.max(), POINTS)
    y = cell.parabola.loss + cell.parabola.bend * (np.log(x) - cell.parabola.log_size) ** 2 / 2
    axes.plot(x, y, color=look["color"], linestyle="-" if cell.inside else "--", linewidth=1)
    if cell.inside:
        axes.plot(cell.best, cell.parabola.loss, "x", color="black", markersize=5, zorder=3)


def _plot_regret(
    axes: Axes, cells: list[Cell], widths: list[float], marks: dict[int, dict[str, Any]]
) -> None:
    places = {r: place for place, r in enumerate(marks)}
    shifts = np.linspace(-0.15, 0.15, len(widths)) if len(widths) > 1 else np.zeros(1)
    for cell in cells:
        at = places[cell.num_recur] + shifts[widths.index(cell.width)]
        look = marks[cell.num_recur]
        face = look["color"] if cell.inside else "white"
        axes.plot(at, 1e3 * cell.regret, markerfacecolor=face, **look)
        axes.annotate(
            f"{cell.width:g}",
            (at, 1e3 * cell.regret),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=6.5,
        )
    axes.set_xticks(range(len(places)), [str(r) for r in places])
    axes.set(xlabel="recurrences r", ylabel="lost at the grid's rate (0.001 nats)")
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    axes.margins(y=0.12)
    axes.set_title("Regret; numbers: width")


def draw(sources: list[Path], out: Path) -> list[Path]:
    """Draw a sweep of rates and its grid into the folder `out`; returns the files written."""
    said = " and ".join(path.name for path in sources)
    return _style.save(plot(*compute(*load(*sources)), said), out, NAME, f"learning rates; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "loss against the matrices' rate by r and width, parabolas, what the grid's rate loses",
        f"{paper.PAPER}, its sweeps of the learning rate",
        ("llm_cpu_rates.csv", "llm_cpu.csv"),
        lambda files, out: draw(list(files), out),
    ),
)


def main(
    rates: Annotated[Path, typer.Argument(help="Table of a sweep of rates.")],
    grid: Annotated[Path, typer.Argument(help="Table of the grid whose rates are judged.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw([rates, grid], out):
            print(path)
    except (ConfigError, BadTable) as error:
        raise SystemExit(f"{NAME}: {error}") from None


if __name__ == "__main__":
    typer.run(main)
