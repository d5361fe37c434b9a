"""Five axes: what models lose on each against the compute that trained them, and against validation loss.

    python -m figures.five_axes results/llm_cpu --out results/llm_cpu

Compare arXiv:2604.21106, its five-axis evaluation. Reads the columns that `depthlaw evaluate` has added to a
folder of results, or a table that `depthlaw table` wrote of one.
"""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._catalogue import Drawing
from figures._grid import number
from figures.iso_depth import _log_sizes
from figures.law_fit import COLOURS, MARKERS
from sweeps._config import ConfigError
from sweeps._formats import read_table
from sweeps._source import table_of
from sweeps._store import StoreError
from sweeps._terminal import BadTable
from sweeps.laws._law import Array

if TYPE_CHECKING:
    import polars as pl

NAME = "five_axes"
AXES = ("knowledge", "reading", "math", "reasoning", "symbolic")
COLUMNS = {"flops": "training compute C (FLOP)", "loss": "validation loss (nats per token)"}
"""What an axis is drawn against: a column, and how its axis is labelled."""

ROOM = 0.08  # for the number of chance, as a share of the axis
FAR = 1.0  # chance is drawn where it is no farther from the losses than so many times their range


@dataclass(frozen=True)
class Series:
    """The models of one r (None: of all): `x` by column, loss of the axis and its standard error (n,)."""

    num_recur: int | None
    x: dict[str, Array]
    y: Array
    error: Array


@dataclass(frozen=True)
class Panel:
    """One axis: its `series`, and the loss of a uniform guess, the mean over models."""

    axis: str
    series: tuple[Series, ...]
    chance: float


def load(source: Path) -> "pl.DataFrame":
    """The rows of a folder of results, or of a table."""
    return table_of(source)[0] if source.is_dir() else read_table(source)


def compute(table: "pl.DataFrame") -> list[Panel]:
    """A panel for each axis that models were scored on. Raises BadTable where there is none."""
    import polars as pl

    panels = []
    for axis in AXES:
        names = {"y": f"{axis}_loss", "error": f"{axis}_loss_error", "chance": f"{axis}_chance"}
        if not {*names.values(), *COLUMNS} <= set(table.columns):
            continue
        rows = table.drop_nulls([*names.values(), *COLUMNS])
        if rows.is_empty():
            continue
        recurrences = rows["num_recur"].unique().sort().to_list() if "num_recur" in rows.columns else [None]
        series = []
        for r in recurrences:
            mine = rows if r is None else rows.filter(pl.col("num_recur") == r)
            values = {name: mine[name].cast(pl.Float64).to_numpy() for name in (*names.values(), *COLUMNS)}
            x = {name: values[name] for name in COLUMNS}
            series.append(Series(r, x, values[names["y"]], values[names["error"]]))
        panels.append(Panel(axis, tuple(series), float(rows[names["chance"]].mean())))  # type: ignore[arg-type]
    if not panels:
        raise BadTable(
            "no model has scores on an axis: `depthlaw evaluate` on its folder of results makes them"
        )
    return panels


def plot(panels: list[Panel], said: str = "") -> Figure:
    """The figure: a column an axis; above against compute, below against validation loss."""
    recurrences = sorted({s.num_recur for p in panels for s in p.series if s.num_recur is not None})
    looks: dict[int | None, dict[str, Any]] = {
        r: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, r in enumerate([*recurrences, *([] if recurrences else [None])])
    }
    with _style.style():
        figure = Figure(figsize=(max(3.4 * len(panels), 5.0), 6.0), layout="constrained")
        grid = figure.subplots(2, len(panels), squeeze=False)
        for axes_of, panel in zip(grid.T, panels, strict=True):
            for axes, column in zip(axes_of, COLUMNS, strict=True):
                _plot_panel(axes, panel, column, looks)
            axes_of[0].set_title(panel.axis)
        found = [axes.get_legend_handles_labels() for axes in grid.ravel()]
        handles, labels = max(found, key=lambda pair: len(pair[0]))
        figure.legend(handles, labels, loc="outside upper center", ncols=6)
        text = "Bars: standard error over items. Chance: a uniform guess over the possible answers."
        missing = [axis for axis in AXES if axis not in {panel.axis for panel in panels}]
        text += f" Without scores: {', '.join(missing)}." if missing else ""
        text += f" Data: {said}." if said else ""
        figure.supxlabel("\n".join(textwrap.wrap(text, 110)).replace("$", r"\$"), fontsize=7)
        return figure


def _plot_panel(axes: Axes, panel: Panel, column: str, looks: dict[int | None, dict[str, Any]]) -> None:
    for series in panel.series:
        label = "models" if series.num_recur is None else f"r = {series.num_recur}"
        look = looks[series.num_recur]
        axes.errorbar(series.x[column], series.y, yerr=series.error, linestyle="none", label=label, **look)
    axes.set(xlabel=COLUMNS[column], ylabel="loss (nats per token)")
    if column == "flops":
        _log_sizes(axes, np.concatenate([series.x[column] for series in panel.series]))
    low, high = axes.get_ylim()
    reach = FAR * (high - low)
    if low - reach <= panel.chance <= high + reach:
        axes.axhline(panel.chance, color=_style.GREY, linestyle="--", linewidth=0.8, label="chance")
        return
    # The line would leave no room for what differs between models.
    below = panel.chance < low
    axes.set_ylim(*((low - ROOM * reach, high) if below else (low, high + ROOM * reach)))
    text = f"chance: {panel.chance:.2f}, {'below' if below else 'above'}"
    side = 0.02 if below else 0.94
    axes.text(0.02, side, text, transform=axes.transAxes, ha="left", color=_style.GREY, fontsize=7)


def draw(table: "pl.DataFrame", out: Path, name: str = NAME, said: str = "") -> list[Path]:
    """Draw a table as <out>/<name>.png and .pdf; returns the files written. `said`: of the table."""
    panels = compute(table)
    models = sum(series.y.size for series in panels[0].series)
    if "num_params" in table.columns:
        low, high = (number(float(f(table["num_params"].drop_nulls()))) for f in (min, max))
        said = f"{said}, {models} models of {low} to {high} unique parameters"
    return _style.save(plot(panels, said), out, name, f"{len(panels)} axes, {models} models; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "loss on each axis of tasks against compute and against validation loss, by r",
        "arXiv:2604.21106, its five-axis evaluation",
        ("llm_cpu_axes.csv",),
        lambda files, out: draw(load(files[0]), out, said=files[0].name),
    ),
)


def main(
    source: Annotated[Path, typer.Argument(help="A folder of results, or a table.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(load(source), out, said=source.name):
            print(path)
    except (ConfigError, BadTable, StoreError) as error:
        raise SystemExit(f"five_axes: {error}") from None


if __name__ == "__main__":
    typer.run(main)
