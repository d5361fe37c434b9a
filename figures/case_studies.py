"""Truncated backpropagation and hyperconnections against the plain grid, run by run, and four injections.

    cd figures/tables && python -m figures.case_studies llm_cpu.csv llm_cpu_truncated.csv \
        llm_cpu_hyperconnections.csv llm_cpu_injections.csv --out ../../results/figures

Compare arXiv:2604.21106, its two case studies and its ablation of the injection. Takes seconds. Symbols:
budget C, width d, recurrences r; losses are means over seeds, in nats a token.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import number, scale, wrapped
from figures.law_fit import COLOURS, MARKERS
from sweeps._config import ConfigError
from sweeps._formats import read_table
from sweeps._source import open_source
from sweeps._store import StoreError
from sweeps._terminal import BadTable
from sweeps.iso_depth import COLUMNS, Run
from sweeps.iso_depth._grid import Grid
from sweeps.iso_depth._grid import read as read_grid
from sweeps.iso_depth._noise import noise
from sweeps.laws._law import Array

NAME = "case_studies"
CASES = ("truncated backpropagation", "hyperconnections")
ORDER = ("hyperconnections", "linear", "additive", "passthrough")

CAPTION = (
    "Left and middle: loss of the case less that of the plain grid at the same budget, width and r; within"
    " an r budgets rise to the right; bars: one standard error, of the scatter that repeated seeds have in"
    " the plain grid; black: means by r. At equal FLOPs a recurrence without gradient leaves more tokens. "
    "Right: loss less the mean of the linear injection, a mark a seed."
)


@dataclass(frozen=True)
class Differences:
    """A case study: of each cell `num_recur`, `width`, `budget`, `loss` less the plain grid's, its standard
    error (nan where no seed is repeated), and `tokens` over the plain grid's, all (n,)."""

    name: str
    num_recur: Array
    width: Array
    budget: Array
    loss: Array
    error: Array
    tokens: Array

    def mean(self, r: int) -> float:
        """Of the differences of one r, in nats."""
        return float(self.loss[self.num_recur == r].mean())


@dataclass(frozen=True)
class Injections:
    """The ablation: losses (seeds,) less the linear injection's mean, by kind; its r, width and budget."""

    loss: dict[str, Array]
    said: str


def load(plain: Path, truncated: Path, hyperconnections: Path) -> tuple[Grid, list[Grid]]:
    """The plain grid and the two cases. Raises ConfigError and BadTable for a table that is no grid."""
    first, *cases = (
        read_grid(open_source(path, "looped", also=(*COLUMNS, "flops")).table)
        for path in (plain, truncated, hyperconnections)
    )
    return first, cases


def compute(plain: Grid, case: Grid, name: str) -> Differences:
    """The cells with r > 1 that both grids have. Raises ConfigError where there is none."""
    ours, theirs = _by_place(plain), _by_place(case)
    scatter = noise(plain)
    rows = []
    for budget, r, width in sorted(set(ours) & set(theirs)):
        if r == 1:
            continue
        one, other = ours[budget, r, width], theirs[budget, r, width]
        loss = [math.fsum(run.loss for run in runs) / len(runs) for runs in (one, other)]
        error = np.nan if scatter is None else scatter.sd * math.sqrt(1 / len(one) + 1 / len(other))
        rows.append((r, width, budget, loss[1] - loss[0], error, other[0].num_tokens / one[0].num_tokens))
    if not rows:
        raise ConfigError(f"{name}: no run of it has the budget, width and r > 1 of a run of the plain grid")
    return Differences(name, *np.array(rows).T)


def _by_place(grid: Grid) -> dict[tuple[float, int, float], list[Run]]:
    found: dict[tuple[float, int, float], list[Run]] = {}
    for run in grid.runs:
        found.setdefault(run.place, []).append(run)
    return found


def ablation(source: Path) -> Injections:
    """The injections of a table at one budget, width and r. Raises ConfigError."""
    rows = read_table(source)
    needed = ("injection", "budget", "width", "num_recur", "loss")
    for name in needed:
        if name not in rows.columns:
            raise ConfigError(
                f"{source} has no column {name!r}: give it the table of an ablation of injections"
            )
    rows = rows.drop_nulls(list(needed))
    places = rows.select("budget", "width", "num_recur").unique()
    if len(places) != 1 or "linear" not in rows["injection"]:
        raise ConfigError(
            f"{source} has {len(places)} cell(s) of budget, width and r with a loss: it takes one, with "
            "the linear injection among its runs"
        )
    found = {
        str(kind): rows.filter(pl.col("injection") == kind)["loss"].cast(pl.Float64).to_numpy()
        for kind in rows["injection"].unique(maintain_order=True)
    }
    middle = found["linear"].mean()
    order = sorted(found, key=lambda kind: (ORDER.index(kind) if kind in ORDER else len(ORDER), kind))
    budget, width, r = places.row(0)
    said = f"r = {r}, width {width:g}, {number(budget)} FLOP"
    return Injections({kind: found[kind] - middle for kind in order}, said)


def plot(cases: list[Differences], injections: Injections, said: str = "") -> Figure:
    """The figure: a panel a case study, then the injections."""
    with _style.style():
        figure = Figure(figsize=(9.6, 4.6), layout="constrained")
        grid = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
        grid[1].sharey(grid[0])
        grid[1].tick_params(labelleft=False)
        widths = sorted({width for case in cases for width in case.width.tolist()})
        for axes, case in zip(grid, cases, strict=False):
            _plot_case(axes, case, widths)
        grid[0].set_ylabel("loss less the plain grid's (nats per token)")
        _plot_injections(grid[2], injections)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
        text = wrapped(f"{CAPTION} {said}", 190)
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_case(axes: Axes, case: Differences, widths: list[float]) -> None:
    recurrences = np.unique(case.num_recur)
    budgets = np.unique(case.budget)
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    for i, width in enumerate(widths):
        mine = case.width == width
        place = np.searchsorted(recurrences, case.num_recur[mine]).astype(float)
        steps = np.searchsorted(budgets, case.budget[mine]) - (budgets.size - 1) / 2
        axes.errorbar(
            place + 0.6 * steps / max(budgets.size, 2) + 0.04 * (i - (len(widths) - 1) / 2),
            case.loss[mine],
            yerr=case.error[mine],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            linestyle="none",
            elinewidth=0.6,
            label=f"width {width:g}",
        )
    for place, r in enumerate(recurrences):
        axes.hlines(case.mean(int(r)), place - 0.4, place + 0.4, color="black", linewidth=1.5)
    axes.set_xticks(range(recurrences.size), [f"{r:g}" for r in recurrences])
    axes.set_xlabel("recurrences r")
    low, high = case.tokens.min(), case.tokens.max()
    axes.set_title(
        f"{case.name[0].upper()}{case.name[1:]}\n{low:.2f} to {high:.2f} times the tokens", fontsize=8
    )


def _plot_injections(axes: Axes, found: Injections) -> None:
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    most = max(float(np.abs(values).max()) for values in found.loss.values())
    for place, (kind, values) in enumerate(found.loss.items()):
        axes.plot(
            np.full(values.size, place - 0.1),
            values,
            "o",
            color=_style.BLUE,
            label="ours" if place == 0 else None,
        )
        if kind not in paper.INJECTIONS:
            continue
        theirs = paper.INJECTIONS[kind] - paper.INJECTIONS["linear"]
        if abs(theirs) <= 2 * most:
            axes.plot(place + 0.1, theirs, "D", color="black", label="published" if place == 0 else None)
        else:
            axes.text(
                place + 0.1,
                0.01,
                f"published: {theirs:+.1f}",
                rotation=90,
                ha="left",
                va="bottom",
                fontsize=7,
            )
    axes.set_xticks(range(len(found.loss)), list(found.loss), rotation=20, ha="right")
    axes.set_xlim(-0.5, len(found.loss) - 0.4)
    axes.set_ylabel("loss less the linear injection's (nats per token)")
    axes.set_title(f"Injections\n{found.said}", fontsize=8)
    axes.legend(loc="upper left")


def draw(sources: list[Path], out: Path) -> list[Path]:
    """Draw the tables of plain grid, truncation, hyperconnections and injections into the folder `out`;
    returns the files written."""
    plain, grids = load(*sources[:3])
    cases = [compute(plain, grid, name) for grid, name in zip(grids, CASES, strict=True)]
    said = ", ".join(path.name for path in sources)
    return _style.save(
        plot(cases, ablation(sources[3]), f"{scale(plain.runs)} Data: {said}."),
        out,
        NAME,
        f"case studies; {said}",
    )


DRAWINGS = (
    Drawing(
        NAME,
        "losses of truncated backpropagation and hyperconnections less the plain grid's; four injections",
        f"{paper.PAPER}, its two case studies and its ablation of the injection",
        (
            "llm_cpu.csv",
            "llm_cpu_truncated.csv",
            "llm_cpu_hyperconnections.csv",
            "llm_cpu_injections.csv",
        ),
        lambda files, out: draw(list(files), out),
    ),
)


def main(
    plain: Annotated[Path, typer.Argument(help="Table of the plain grid.")],
    truncated: Annotated[Path, typer.Argument(help="Table of truncated backpropagation.")],
    hyperconnections: Annotated[Path, typer.Argument(help="Table of hyperconnections.")],
    injections: Annotated[Path, typer.Argument(help="Table of the injections.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw([plain, truncated, hyperconnections, injections], out):
            print(path)
    except (ConfigError, BadTable, StoreError) as error:
        raise SystemExit(f"{NAME}: {error}") from None


if __name__ == "__main__":
    typer.run(main)
