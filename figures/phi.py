"""phi with its interval: of all budgets, of parts of them, of two case studies; how its refits scatter.

    python -m figures.phi figures/tables/llm_cpu_against_truncated.json \
        figures/tables/llm_cpu_against_hyperconnections.json --out results/figures

Compare arXiv:2604.21106, its joint law and its case studies. Reads what `depthlaw iso-depth --against --json`
wrote of a grid against each case study; takes seconds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import read, scale, wrapped
from sweeps._config import ConfigError
from sweeps.iso_depth import Saved
from sweeps.laws import Estimate
from sweeps.laws._law import Array

NAME = "phi"
CASES = {"truncated": "truncated\nbackpropagation", "hyperconnections": "hyper-\nconnections"}
BINS = 40
ROOM = 0.35  # for a legend beside it, of its width
REACH = 5.0  # of the histogram, in robust standard deviations from the median

CAPTION = (
    "Bars: 95 %, of the block bootstrap over cells of (C, r); hollow: not identified. Black: published, "
    "with its interval where there is one; its case studies were run at its four lower budgets. "
    "Differences: of a law for each grid, and of one law for both in which φ alone differs. r = 1 has no "
    "lanes: part of what hyperconnections add is a step from r = 1 to 2."
)


@dataclass(frozen=True)
class Row:
    """An interval: what it is of, `estimate`, `ends`, whether it is `identified`, what is published."""

    name: str
    estimate: float
    ends: tuple[float, float]
    identified: bool
    published: float | None
    published_ends: tuple[float, float] | None


@dataclass(frozen=True)
class Panels:
    """`values` and `differences` of phi; `draws` (R,) of all budgets that are shown, and how many are not."""

    values: tuple[Row, ...]
    differences: tuple[Row, ...]
    draws: Array
    beyond: int
    scale: str


def load(truncated: Path, hyperconnections: Path) -> dict[str, Saved]:
    """The two comparisons. Raises ConfigError where they are none, or not of one grid."""
    found = dict(zip(CASES, (read(truncated), read(hyperconnections)), strict=True))
    for path, one in zip((truncated, hyperconnections), found.values(), strict=True):
        if one.delta is None:
            raise ConfigError(
                f"{path} has no difference of phi: `depthlaw iso-depth GRID --against CASE --json` writes it"
            )
    if len({one.found.runs for one in found.values()}) > 1:
        raise ConfigError(
            f"{truncated} and {hyperconnections} compare with different grids: give those of one"
        )
    return found


def compute(found: dict[str, Saved]) -> Panels:
    """The panels."""
    grid, first = next(iter(found.values())), next(one.delta for one in found.values() if one.delta)
    values = [_row("all budgets", grid.found.phi, "all")]
    for half in grid.found.halves:
        if half.phi is not None:
            values.append(_row(f"{half.name}\n{len(half.budgets)} budgets", half.phi, half.name))
    values.append(_row(f"the cases'\n{len(first.budgets)} budgets", first.first.parameters["phi"], "shared"))
    differences = []
    for case, one in found.items():
        assert one.delta is not None
        values.append(_row(CASES[case], one.delta.second.parameters["phi"], case))
        published = paper.PHI[case][0] - paper.PHI["shared"][0]
        bounded = one.delta.first.identified and one.delta.second.identified
        two = Row(f"{case},\ntwo laws", one.delta.difference, one.delta.interval, bounded, published, None)
        together = one.delta.by_one_law
        name = f"{case},\none law"
        differences += [
            two,
            Row(name, together.estimate, together.interval, together.identified, published, None),
        ]
    middle = np.median(grid.draws) if grid.draws.size else 0.0
    spread = np.diff(np.quantile(grid.draws, [0.16, 0.84]))[0] / 2 if grid.draws.size else 0.0
    near = np.abs(grid.draws - middle) <= REACH * spread
    return Panels(
        tuple(values), tuple(differences), grid.draws[near], int((~near).sum()), scale(grid.found.runs)
    )


def _row(name: str, phi: Estimate, published: str) -> Row:
    value, ends = paper.PHI[published]
    return Row(name, phi.estimate, phi.interval, phi.identified, value, ends)


def plot(found: Panels, said: str = "") -> Figure:
    """The figure: values, differences, and the bootstrap's refits."""
    with _style.style():
        figure = Figure(figsize=(9.6, 5.4), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.1, 1))
        left = figure.add_subplot(grid[:, 0])
        _plot_rows(left, found.values, "recurrence-equivalence exponent φ")
        for at, text in ((0.0, "worth nothing"), (1.0, "worth a block")):
            left.axvline(at, color=_style.GREY, linewidth=0.8, linestyle=":")
            left.annotate(
                text,
                (at, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, 4),
                textcoords="offset points",
                fontsize=7,
                color=_style.GREY,
                rotation=90,
            )
        upper = figure.add_subplot(grid[0, 1])
        _plot_rows(upper, found.differences, "φ less that of the plain grid")
        upper.axvline(0, color=_style.GREY, linewidth=0.8)
        _plot_draws(figure.add_subplot(grid[1, 1]), found)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
        text = wrapped(f"{CAPTION} {found.scale}" + (f" Data: {said}." if said else ""), 190)
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_rows(axes: Axes, rows: tuple[Row, ...], label: str) -> None:
    for place, row in enumerate(rows):
        axes.errorbar(
            row.estimate,
            place - 0.12,
            xerr=np.abs(np.array(row.ends) - row.estimate)[:, None] if np.isfinite(row.ends).all() else None,
            color=_style.BLUE,
            marker="o",
            markerfacecolor=_style.BLUE if row.identified else "white",
            label="ours" if place == 0 else None,
        )
        if row.published is not None:
            ends = row.published_ends
            axes.errorbar(
                row.published,
                place + 0.16,
                xerr=None if ends is None else np.abs(np.array(ends) - row.published)[:, None],
                color="black",
                marker="D",
                label="published" if place == 0 else None,
            )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)


def _plot_draws(axes: Axes, found: Panels) -> None:
    all_budgets = found.values[0]
    axes.axvspan(*all_budgets.ends, color=_style.BLUE, alpha=0.12, linewidth=0, label="95 % interval")
    axes.hist(found.draws, bins=BINS, color=_style.BLUE)
    axes.axvline(all_budgets.estimate, color=_style.ORANGE, label="estimate")
    if all_budgets.published is not None:
        axes.axvline(all_budgets.published, color="black", linestyle="--", label="published")
    beyond = f"; beyond: {found.beyond}" if found.beyond else ""
    axes.set_title(f"{found.draws.size} refits, all budgets{beyond}")
    axes.set(xlabel="φ", ylabel="refits of the bootstrap")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + ROOM * (high - low))
    axes.legend(loc="upper right")


def draw(found: dict[str, Saved], out: Path, said: str = "") -> list[Path]:
    """Draw two comparisons into the folder `out`; returns the files written. `said`: of the files."""
    digest = next(iter(found.values())).found.free.fit.provenance.data_sha256[:8]
    return _style.save(plot(compute(found), said), out, NAME, f"phi, data {digest}; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "phi with its interval: all budgets, halves, case studies; differences; the bootstrap's refits",
        f"{paper.PAPER}, its joint law and its case studies",
        ("llm_cpu_against_truncated.json", "llm_cpu_against_hyperconnections.json"),
        lambda files, out: draw(load(*files), out, " and ".join(path.name for path in files)),
    ),
)


def main(
    truncated: Annotated[Path, typer.Argument(help="A grid against truncated backpropagation, saved.")],
    hyperconnections: Annotated[Path, typer.Argument(help="The grid against hyperconnections, saved.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        said = f"{truncated.name} and {hyperconnections.name}"
        for path in draw(load(truncated, hyperconnections), out, said):
            print(path)
    except ConfigError as error:
        raise SystemExit(f"{NAME}: {error}") from None


if __name__ == "__main__":
    typer.run(main)
