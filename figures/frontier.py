"""The frontier of an iso-depth grid under three laws: phi free, phi = 1 and phi = 0.

    python -m figures.frontier figures/tables/llm_cpu.json --out results/figures

Compare arXiv:2604.21106, its compute-optimal frontier and its joint law with phi free and held. Takes seconds
from a saved analysis. Symbols: budget C, recurrences r, the best loss of each L*.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import command, compute_axis, load, looks, scale, wrapped
from figures.iso_depth import LINE
from sweeps._config import ConfigError
from sweeps.iso_depth import Cell, IsoDepth, Joint
from sweeps.laws import isoflop
from sweeps.laws._law import Array

NAME = "frontier"
ORDER = ("phi free", "phi = 1", "phi = 0")
SPREAD = 0.015  # between the gaps of one r and the next, in powers of ten of C

CAPTION = (
    "Marks: minima of parabolas in log N (hollow: best runs); bars: standard errors, from the scatter "
    "about the parabolas. Lines: each law, fitted to all runs, at its best sizes. p: a ratio test against "
    "φ free, which takes runs as independent; held out: rms of log loss in cells of (C, r) that were left "
    "out. Gaps: lines, φ free; bands, the paper's lowest to highest gap over its own budgets."
)


@dataclass(frozen=True)
class Line:
    """Best losses by a law (k,) of one r, at `budgets` (k,); nan where there is no best size."""

    num_recur: int
    budgets: Array
    loss: Array


@dataclass(frozen=True)
class LawPanel:
    """A law: its `lines`, and what is said of its fit."""

    name: str
    lines: tuple[Line, ...]
    said: str


@dataclass(frozen=True)
class Frontiers:
    """`cells` of every budget and r; a panel a law; gaps (k,) to r = 1 by the first law, for r > 1."""

    cells: tuple[Cell, ...]
    laws: tuple[LawPanel, ...]
    gaps: tuple[Line, ...]
    scale: str


def compute(found: IsoDepth) -> Frontiers:
    """The panels. Raises ConfigError where the grid's accounting is unknown: laws have no best sizes then."""
    if found.design is None:
        raise ConfigError(
            "the grid has no accounting of sizes and FLOPs, so no law has a frontier: see its notes"
        )
    laws = []
    for name in ORDER:
        joint = next(one for one in found.joint if one.name == name)
        laws.append(LawPanel(name.replace("phi", "φ"), _lines(found, joint), _said(joint)))
    first = {line.num_recur: line for line in laws[0].lines}
    gaps = [
        Line(r, line.budgets, line.loss - first[1].loss) for r, line in first.items() if r > 1 and 1 in first
    ]
    return Frontiers(found.cells, tuple(laws), tuple(gaps), scale(found.runs))


def _lines(found: IsoDepth, joint: Joint) -> tuple[Line, ...]:
    budgets = sorted({run.budget for run in found.runs})
    x = np.geomspace(budgets[0], budgets[-1], LINE) if len(budgets) > 1 else np.array(budgets)
    lines = []
    for r in sorted({run.num_recur for run in found.runs}):
        loss = np.full(x.size, np.nan)
        if joint.fit.trusted and found.design is not None:
            for i, budget in enumerate(x.tolist()):
                best = isoflop(joint.fit, found.design, budget, variant={"num_recur": r}, points=1).best
                loss[i] = np.nan if best.edge[0] else best.loss[0]
        lines.append(Line(r, x, loss))
    return tuple(lines)


def _said(joint: Joint) -> str:
    """How well a law fits, in two lines."""
    published = paper.R_SQUARED[joint.name]
    said = f"R² {joint.r_squared:.4f} (paper {published}), RMSE {joint.rmse:.4f} nats"
    phi = joint.fit.parameters["phi"]
    if not phi.fixed:
        return f"{said}\nφ {phi.estimate:.3f} [{phi.interval[0]:.3f}, {phi.interval[1]:.3f}], " + _left_out(
            joint
        )
    p = "" if joint.test is None or not np.isfinite(joint.test.p) else f"p = {joint.test.p:.1g}, "
    return f"{said}\n{p}{_left_out(joint)}"


def _left_out(joint: Joint) -> str:
    return f"held out {100 * joint.held_out:.1f} %"


def plot(found: Frontiers, said: str = "") -> Figure:
    """The figure: a panel a law, and the gaps to r = 1."""
    with _style.style():
        figure = Figure(figsize=(9.6, 7.0), layout="constrained")
        grid = figure.subplots(2, 2)
        marks = looks({cell.num_recur for cell in found.cells})
        for axes, law in zip(grid.ravel(), found.laws, strict=False):
            for line in law.lines:
                axes.plot(line.budgets, line.loss, color=marks[line.num_recur]["color"])
            for cell in found.cells:
                look = marks[cell.num_recur]
                face = look["color"] if cell.from_parabola else "white"
                axes.errorbar(cell.budget, cell.loss, yerr=cell.error, markerfacecolor=face, **look)
            axes.set_ylabel("best loss L* (nats per token)")
            axes.set_title(f"{law.name}: {law.said}", fontsize=8)
            compute_axis(axes, [cell.budget for cell in found.cells])
        _plot_gaps(grid[1, 1], found)
        handles = [
            axes.plot([], [], linestyle="none", label=f"r = {r}", **look)[0] for r, look in marks.items()
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        text = wrapped(f"{CAPTION} {found.scale}" + (f" Data: {said}." if said else ""), 190)
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_gaps(axes: Axes, found: Frontiers) -> None:
    marks = looks({cell.num_recur for cell in found.cells})
    recurrences = [r for r in marks if r > 1]
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    for r in recurrences:
        if r in paper.GAPS:
            axes.axhspan(*paper.GAPS[r], color=marks[r]["color"], alpha=0.13, linewidth=0)
    for line in found.gaps:
        axes.plot(line.budgets, line.loss, color=marks[line.num_recur]["color"], linewidth=1)
    for cell in found.cells:
        if cell.gap is not None and cell.num_recur > 1:
            shift = SPREAD * (recurrences.index(cell.num_recur) - (len(recurrences) - 1) / 2)
            look = marks[cell.num_recur]
            axes.errorbar(cell.budget * 10**shift, cell.gap, yerr=cell.gap_error, elinewidth=0.8, **look)
    axes.set_ylabel("L* less that of r = 1 (nats per token)")
    axes.set_title("Gap to r = 1; lines: φ free; bands: the paper's", fontsize=8)
    compute_axis(axes, [cell.budget for cell in found.cells])


def draw(found: IsoDepth, out: Path, said: str = "") -> list[Path]:
    """Draw an analysis into the folder `out`; returns the files written. `said`: of the table."""
    digest = found.free.fit.provenance.data_sha256[:8]
    return _style.save(plot(compute(found), said), out, NAME, f"frontier, data {digest}; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "best loss of each r against compute under phi free, 1 and 0, with their fits; gaps to r = 1",
        f"{paper.PAPER}, its compute-optimal frontier and its joint law",
        ("llm_cpu.json",),
        lambda files, out: draw(load(files[0]), out, files[0].name),
    ),
)


main = command(NAME, draw)


if __name__ == "__main__":
    typer.run(main)
