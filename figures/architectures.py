"""The Chinchilla law of each r alone: its parameters with intervals beside the published ones.

    python -m figures.architectures figures/tables/llm_cpu.json --out results/figures

Compare arXiv:2604.21106, its table of fits by architecture. Takes seconds from a saved analysis. Symbols:
L = E + A N^-alpha + B D^-beta of unique parameters N and tokens D, recurrences r.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import command, load, scale, wrapped
from figures.law_fit import shown
from sweeps._config import ConfigError
from sweeps.iso_depth import IsoDepth

NAME = "architectures"
PARAMETERS = ("E", "A", "alpha", "B", "beta")
UNITS = {"E": "E (nats per token)", "A": "A (nats · parameter^α)", "B": "B (nats · token^β)"}
LOG = ("A", "B")
REACH = 0.12  # of the range of what is finite: how far an axis goes beyond it

CAPTION = (
    "Bars: 95 % profile intervals; an arrow, no end in that direction; hollow: not identified, the runs of"
    " that r do not bound it on both sides. E, A and B go with text, tokenizer and size, so they are not "
    "expected to be the paper's. Its fits have no published intervals."
)


@dataclass(frozen=True)
class Point:
    """One parameter of one r: ours with its ends, infinite where there is none, and the published one (nan:
    none)."""

    num_recur: int
    estimate: float
    ends: tuple[float, float]
    identified: bool
    published: float


@dataclass(frozen=True)
class Panels:
    """Parameters by name, R^2 by r (ours, published), and r without a fit with the reason."""

    parameters: dict[str, tuple[Point, ...]]
    r_squared: dict[int, tuple[float, float]]
    refused: dict[int, str]
    scale: str


def compute(found: IsoDepth) -> Panels:
    """The panels. Raises ConfigError where no r has a fit."""
    fitted = [(one, one.fit) for one in found.architectures if one.fit is not None]
    if not fitted:
        raise ConfigError(f"no r of this grid has a fit of its own: {found.architectures[0].problem}")
    parameters = {}
    for name in PARAMETERS:
        points = []
        for one, law in fitted:
            value = law.parameters[name]
            known = paper.CHINCHILLA.get(one.num_recur, {}).get(name, np.nan)
            points.append(Point(one.num_recur, value.estimate, value.interval, value.identified, known))
        parameters[name] = tuple(points)
    r_squared = {
        one.num_recur: (
            np.nan if one.r_squared is None else one.r_squared,
            paper.CHINCHILLA.get(one.num_recur, {}).get("r_squared", np.nan),
        )
        for one, _ in fitted
    }
    refused = {one.num_recur: str(one.problem) for one in found.architectures if one.fit is None}
    return Panels(parameters, r_squared, refused, scale(found.runs))


def plot(found: Panels, said: str = "") -> Figure:
    """The figure: a panel a parameter, with a row for each r, and R²."""
    with _style.style():
        figure = Figure(figsize=(9.6, 5.2), layout="constrained")
        grid = figure.subplots(2, 3)
        for axes, (name, points) in zip(grid.ravel(), found.parameters.items(), strict=False):
            _plot_parameter(axes, name, points)
        _plot_r_squared(grid[1, 2], found.r_squared)
        for axes in grid.ravel():
            axes.set_yticks(range(len(found.r_squared)), [f"r = {r}" for r in found.r_squared])
            axes.set_ylim(len(found.r_squared) - 0.5, -0.5)
        handles, labels = grid[1, 2].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
        missing = "".join(f" r = {r} has no fit: {why}." for r, why in found.refused.items())
        text = wrapped(f"{CAPTION}{missing} {found.scale}" + (f" Data: {said}." if said else ""), 190)
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def limits(name: str, points: tuple[Point, ...]) -> tuple[float, float]:
    """An axis that holds all that is finite (and, where it is logarithmic, above 0)."""
    log = name in LOG
    values = [v for p in points for v in (p.estimate, p.published, *p.ends) if math.isfinite(v)]
    values = [math.log(v) if log else v for v in values if v > 0 or not log]
    low, high = min(values), max(values)
    pad = REACH * (high - low) or 0.1
    ends = low - pad, high + pad
    return (math.exp(ends[0]), math.exp(ends[1])) if log else ends


def _plot_parameter(axes: Axes, name: str, points: tuple[Point, ...]) -> None:
    if name in LOG:
        axes.set_xscale("log")
    edges = limits(name, points)
    axes.set_xlim(edges)
    for place, point in enumerate(points):
        y = place - 0.12
        closed = [math.isfinite(end) and (end > 0 or name not in LOG) for end in point.ends]
        drawn = [end if ok else edge for end, ok, edge in zip(point.ends, closed, edges, strict=True)]
        axes.plot(drawn, [y, y], color=_style.BLUE, linestyle="-" if all(closed) else ":")
        for end, ok, arrow in zip(drawn, closed, "<>", strict=True):
            axes.plot(end, y, marker="|" if ok else arrow, color=_style.BLUE, clip_on=False)
        face = _style.BLUE if point.identified else "white"
        axes.plot(point.estimate, y, "o", color=_style.BLUE, markerfacecolor=face, zorder=3)
        axes.plot(point.published, place + 0.16, "D", color="black")
    axes.set_xlabel(UNITS.get(name, shown(name)))


def _plot_r_squared(axes: Axes, found: dict[int, tuple[float, float]]) -> None:
    ours, theirs = np.array(list(found.values())).T
    place = np.arange(len(found))
    axes.plot(ours, place - 0.12, "o", color=_style.BLUE, label="ours")
    axes.plot(theirs, place + 0.16, "D", color="black", label="published")
    axes.set_xlim(min(0.97, float(np.nanmin(ours)) - 0.005), 1)
    axes.set_xlabel("R² of losses")


def draw(found: IsoDepth, out: Path, said: str = "") -> list[Path]:
    """Draw an analysis into the folder `out`; returns the files written. `said`: of the table."""
    digest = found.free.fit.provenance.data_sha256[:8]
    return _style.save(plot(compute(found), said), out, NAME, f"laws of each r, data {digest}; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "E, A, alpha, B, beta and R² of each r alone, with what its runs do not bound",
        f"{paper.PAPER}, its table of fits by architecture",
        ("llm_cpu.json",),
        lambda files, out: draw(load(files[0]), out, files[0].name),
    ),
)


main = command(NAME, draw)


if __name__ == "__main__":
    typer.run(main)
