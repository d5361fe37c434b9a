"""What one recurrence is worth: the iso-FLOP profiles, frontier and joint law of an iso-depth grid.

    python -m figures.iso_depth results/iso-depth --out results/iso-depth

Compare arXiv:2604.21106, the figures of its iso-FLOP profiles and of its joint law. Takes seconds; reads what
`depthlaw run` recorded, or any table with the columns of `sweeps.iso_depth`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from figures import _style
from figures._catalogue import Drawing
from figures._grid import compute_axis, load, number, scale, wrapped
from figures.law_fit import COLOURS, MARKERS
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable, say
from sweeps.iso_depth import Cell, IsoDepth, caveats
from sweeps.laws import isoflop
from sweeps.laws._law import Array

NAME = "iso_depth"
MOST_BUDGETS = 6  # panels of profiles; of more budgets, evenly chosen ones
POINTS = 60  # of a parabola
LINE = 25  # budgets of a frontier by the law


@dataclass(frozen=True)
class Profile:
    """One r at one budget: `size` and `loss` (n,) of its runs, its `cell`, the parabola `x`, `y` (k,) in N,
    empty where there is none."""

    num_recur: int
    size: Array
    loss: Array
    cell: Cell
    x: Array
    y: Array


@dataclass(frozen=True)
class Frontier:
    """One r: `cells` by budget, and the joint law's best loss `y` (k,) at budgets `x`, if there is a law."""

    num_recur: int
    cells: tuple[Cell, ...]
    x: Array
    y: Array


@dataclass(frozen=True)
class Panels:
    """All that is drawn: `profiles` by budget; frontiers, and `observed`, `predicted`, `residual` (n,) in
    nats of each r; what the figure says of phi, the fit and the runs."""

    profiles: dict[float, list[Profile]]
    budgets: int
    frontiers: list[Frontier]
    observed: dict[int, Array]
    predicted: dict[int, Array]
    residual: dict[int, Array]
    title: str
    fitted: str
    scale: str


def compute(found: IsoDepth) -> Panels:
    """The panels of an analysis."""
    recurrences = sorted({run.num_recur for run in found.runs})
    budgets = sorted({run.budget for run in found.runs})
    shown = budgets
    if len(budgets) > MOST_BUDGETS:
        shown = [budgets[i] for i in np.linspace(0, len(budgets) - 1, MOST_BUDGETS).round().astype(int)]
    law = found.free.fit
    observed, predicted = {}, {}
    for r in recurrences:
        mine = [run for run in found.runs if run.num_recur == r]
        observed[r] = np.array([run.loss for run in mine])
        columns = [[float(getattr(run, name)) for run in mine] for name in law.law.columns]
        with np.errstate(all="ignore"):  # a fit that failed predicts nan
            predicted[r] = law.predict(*columns)
    phi = found.phi
    ends = f" [{phi.interval[0]:.3f}, {phi.interval[1]:.3f}]" if phi.identified else " not identified"
    return Panels(
        profiles={
            budget: [_profile(found, c) for c in found.cells if c.budget == budget] for budget in shown
        },
        budgets=len(budgets),
        frontiers=[_frontier(found, r, budgets) for r in recurrences],
        observed=observed,
        predicted=predicted,
        residual={r: predicted[r] - observed[r] for r in recurrences},
        title=f"φ = {phi.estimate:.3f}{ends}, {len(found.runs)} runs",
        fitted=f"R² = {found.free.r_squared:.4f}, RMSE {found.free.rmse:.4f} nats",
        scale=scale(found.runs),
    )


def _profile(found: IsoDepth, cell: Cell) -> Profile:
    runs = [run for run in found.runs if (run.budget, run.num_recur) == (cell.budget, cell.num_recur)]
    size, loss = (np.array([getattr(run, name) for run in runs]) for name in ("num_params", "loss"))
    x = y = np.array([])
    if cell.parabola is not None:
        x = np.geomspace(size.min(), size.max(), POINTS)
        y = cell.parabola.loss + cell.parabola.bend * (np.log(x) - cell.parabola.log_size) ** 2 / 2
    return Profile(cell.num_recur, size, loss, cell, x, y)


def _frontier(found: IsoDepth, r: int, budgets: list[float]) -> Frontier:
    cells = tuple(cell for cell in found.cells if cell.num_recur == r)
    x = y = np.array([])
    if found.design is not None and found.free.fit.trusted:
        x = np.geomspace(budgets[0], budgets[-1], LINE) if len(budgets) > 1 else np.array(budgets)
        variant = {"num_recur": r}
        best = [isoflop(found.free.fit, found.design, c, variant=variant, points=1).best for c in x.tolist()]
        y = np.array([np.nan if one.edge[0] else one.loss[0] for one in best])
    return Frontier(r, cells, x, y)


def plot(panels: Panels, said: str = "") -> Figure:
    """The figure: a panel of profiles for each budget, then frontier, fit and residuals."""
    rows = -(-len(panels.profiles) // 3)
    looks = {
        frontier.num_recur: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, frontier in enumerate(panels.frontiers)
    }
    with _style.style():
        figure = Figure(figsize=(9.6, 2.7 * (rows + 1) + 0.8), layout="constrained")
        grid = figure.subplots(rows + 1, 3, squeeze=False)
        for axes in list(grid[:-1].ravel())[len(panels.profiles) :]:
            axes.remove()
        for axes, (budget, profiles) in zip(grid[:-1].ravel(), panels.profiles.items(), strict=False):
            _plot_profiles(axes, budget, profiles, looks)
        _plot_frontier(grid[-1, 0], panels, looks)
        _plot_fit(grid[-1, 1], panels, looks)
        _plot_residuals(grid[-1, 2], panels, looks)
        figure.suptitle(panels.title, fontsize=10)
        handles, labels = grid[-1, 1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), handletextpad=0.1)
        figure.supxlabel(_caption(panels, said), fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _caption(panels: Panels, said: str) -> str:
    text = (
        "Profiles: parabolas in log N; a cross is a minimum, dashed lines have none among the sizes. "
        "Frontier: filled, minima of parabolas; hollow, best runs; bars, standard errors; lines, the joint "
        "law with φ free at its best sizes."
    )
    if len(panels.profiles) < panels.budgets:
        text += f" {len(panels.profiles)} of {panels.budgets} budgets have a panel."
    text += f" {panels.scale}" + (f" Data: {said}." if said else "")
    return wrapped(text, 190)


def _plot_profiles(axes: Axes, budget: float, profiles: list[Profile], looks: dict[int, Any]) -> None:
    for profile in profiles:
        look, cell = looks[profile.num_recur], profile.cell
        axes.plot(profile.size, profile.loss, linestyle="none", **look)
        style = "-" if cell.from_parabola else "--"
        axes.plot(profile.x, profile.y, color=look["color"], linestyle=style, linewidth=1)
        if cell.from_parabola:
            axes.plot(cell.num_params, cell.loss, marker="x", color="black", markersize=5, zorder=3)
    axes.set(xlabel="unique parameters N", ylabel="loss (nats per token)")
    axes.set_title(f"C = {number(budget)} FLOP")
    _log_sizes(axes, np.concatenate([profile.size for profile in profiles]))


def _plot_frontier(axes: Axes, panels: Panels, looks: dict[int, Any]) -> None:
    for frontier in panels.frontiers:
        look = looks[frontier.num_recur]
        axes.plot(frontier.x, frontier.y, color=look["color"], linewidth=1)
        for cell in frontier.cells:
            face = look["color"] if cell.from_parabola else "white"
            axes.errorbar(cell.budget, cell.loss, yerr=cell.error, markerfacecolor=face, **look)
    axes.set_ylabel("best loss (nats per token)")
    axes.set_title("Frontier")
    compute_axis(axes, [cell.budget for f in panels.frontiers for cell in f.cells])


def _plot_fit(axes: Axes, panels: Panels, looks: dict[int, Any]) -> None:
    every = np.concatenate([*panels.observed.values(), *panels.predicted.values()])
    ends = [np.nanmin(every), np.nanmax(every)]
    axes.plot(ends, ends, color=_style.GREY, linewidth=0.8)
    for r, look in looks.items():
        axes.plot(panels.observed[r], panels.predicted[r], linestyle="none", label=f"r = {r}", **look)
    axes.set(xlabel="loss (nats per token)", ylabel="joint law (nats per token)")
    axes.set_title(panels.fitted)


def _plot_residuals(axes: Axes, panels: Panels, looks: dict[int, Any]) -> None:
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    for place, (r, look) in enumerate(looks.items()):
        residual = panels.residual[r]
        spread = np.linspace(-0.25, 0.25, residual.size) if residual.size > 1 else np.zeros(1)
        axes.plot(place + spread, residual, linestyle="none", alpha=0.7, **look)
        axes.hlines(residual.mean(), place - 0.35, place + 0.35, color="black", linewidth=1.2)
    axes.set_xticks(range(len(looks)), [str(r) for r in looks])
    axes.set(xlabel="recurrences r", ylabel="predicted − observed (nats)")
    axes.set_title("Residuals of the joint law (lines: means)")


def _log_sizes(axes: Axes, values: Array) -> None:
    """A log axis whose ticks can be read although it may be shorter than a decade."""
    axes.set_xscale("log")
    low, high = values.min(), values.max()
    pad = max((high / low) ** 0.06, 1.05)
    axes.set_xlim(low / pad, high * pad)
    axes.xaxis.set_minor_formatter(NullFormatter())
    if high / low < 30:
        short = high / low < 4
        axes.xaxis.set_major_locator(MaxNLocator(4) if short else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(_tick))


def _tick(value: float, _: object = None) -> str:
    """A count as it stands at an axis: 800k, 20M, 3e16."""
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if unit <= value < 1e12:
            return f"{value / unit:g}{letter}"
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(power)}" if value >= 1e12 else f"{value:g}"


def draw(found: IsoDepth, out: Path, name: str = NAME, said: str = "") -> list[Path]:
    """Draw an analysis as <out>/<name>.png and .pdf; returns the files written. `said`: of the table."""
    panels = compute(found)
    digest = found.free.fit.provenance.data_sha256[:8]
    return _style.save(plot(panels, said), out, name, f"{panels.title}, data {digest}; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "iso-FLOP parabolas of each r, frontier with phi free, predicted against actual loss, residuals",
        "arXiv:2604.21106, its figures of iso-FLOP profiles and of the joint law",
        ("llm_cpu.json",),
        lambda files, out: draw(load(files[0]), out, said=files[0].name),
    ),
)


def main(
    source: Annotated[Path, typer.Argument(help="A table, a folder of results, or a saved analysis.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
    injection: Annotated[str | None, typer.Option(help="Of the runs to take.")] = None,
) -> None:
    """Redraw the figure."""
    try:
        found = load(source, injection)
        for sentence in caveats(found):
            say(sentence)
        for path in draw(found, out, said=source.name):
            print(path)
    except (ConfigError, BadTable, StoreError) as error:
        raise SystemExit(f"iso_depth: {error}") from None


if __name__ == "__main__":
    typer.run(main)
