"""Loss against depth at several training times, and the exponent against time.

    python -m figures.training_time figures/tables/mse-2core.csv figures/tables/kl-tied-long-2core.csv

Compare arXiv:2602.05970, the figures of section 4 over training: with a tied teacher the exponent climbs from
about 1 towards 3, with independent ones it stays near 1. Reads losses over training; takes seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from figures import _style
from figures._caption import caption, scale
from figures._catalogue import Drawing
from figures._losses import (
    Losses,
    along_depth,
    at_step,
    levels,
    log_depths,
    longest,
    losses_of,
    shades,
    times,
)
from figures._sweep import Sweep, read_sweep
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail

NAME = "training_time"

TIMES = 13
"""Training times at which an exponent is fitted."""

SHOWN = 5
"""Of them, those at which losses are drawn."""


@dataclass(frozen=True)
class Course:
    """One teacher and temperature (nan without): steps (k,), and the losses with their fit at each."""

    teacher: str
    temperature: float
    objective: str
    steps: np.ndarray
    losses: tuple[Losses, ...]

    @property
    def name(self) -> str:
        heated = "" if np.isnan(self.temperature) else f", T = {self.temperature:g}"
        return f"{self.teacher} teacher, {self.objective.upper()}{heated}"

    @property
    def alpha(self) -> np.ndarray:
        return np.array([one.alpha for one in self.losses])

    @property
    def ends(self) -> np.ndarray:
        """Of the 95 % intervals (2, k)."""
        return np.array([one.interval for one in self.losses]).T


def load(sources: Sequence[Path]) -> list[Sweep]:
    """Folders of results, or kept tables with their curves beside them."""
    return [read_sweep(source, series=("curves",)) for source in sources]


def compute(sweeps: Sequence[Sweep]) -> list[list[Course]]:
    """Of each sweep the courses of its teachers and temperatures, at the longest training."""
    return [list(_courses(sweep)) for sweep in sweeps]


def _courses(sweep: Sweep) -> list[Course]:
    found = []
    rows = longest(sweep.rows, sweep.name).with_columns(pl.col("temperature").cast(pl.Float64))
    parts = rows.partition_by("teacher", "temperature", "objective", as_dict=True, maintain_order=True)
    for (teacher, temperature, objective), part in parts.items():
        steps, fits = [], []
        for step in times(sweep, part, TIMES):
            told = f"{sweep.name}, teacher {teacher}, step {step:,}"
            steps.append(step)
            fits.append(losses_of(at_step(sweep, part, step), told))
        heat = np.nan if temperature is None else float(temperature)
        found.append(Course(str(teacher), heat, str(objective), np.array(steps), tuple(fits)))
    return sorted(found, key=lambda one: (one.teacher, one.temperature))


def plot(courses: Sequence[Sequence[Course]], scales: str) -> Figure:
    """Above: losses against depth, of each teacher at its highest temperature; below: exponents."""
    above = [mine[-1] for group in courses for mine in _by_teacher(group)]
    with _style.style():
        figure = Figure(figsize=(10, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, math.lcm(len(above), len(courses)))
        for axes, course in zip(_row(figure, grid, 0, len(above)), above, strict=True):
            _losses(axes, course)
        for axes, group in zip(_row(figure, grid, 1, len(courses)), courses, strict=True):
            _exponents(axes, group)
        caption(
            figure,
            "Above: geometric mean, bars: range over seeds; line: L = c·ℓ^-α, a level a seed. Below: bands "
            "are 95 % intervals (bootstrap over seeds, Student's t). Where the learning rate falls over the "
            f"training, early losses are not those of a shorter one. {scales}",
        )
        return figure


def _row(figure: Figure, grid: GridSpec, row: int, count: int) -> list[Axes]:
    """So many panels of equal width."""
    wide = grid.ncols // count
    return [figure.add_subplot(grid[row, wide * i : wide * (i + 1)]) for i in range(count)]


def _by_teacher(group: Sequence[Course]) -> list[list[Course]]:
    teachers = dict.fromkeys(one.teacher for one in group)
    return [[one for one in group if one.teacher == teacher] for teacher in teachers]


def _losses(axes: Axes, course: Course) -> None:
    chosen = np.unique(np.linspace(0, len(course.steps) - 1, SHOWN).round().astype(int))
    for place, colour in zip(chosen, shades(len(chosen)), strict=False):
        found = course.losses[place]
        label = f"{course.steps[place]:,}: α = {found.alpha:.2f}"
        along_depth(axes, found, color=colour, marker="o", label=label)
    log_depths(axes, course.losses[0].depths, "student depth ℓ (layers)")
    low, high = axes.get_ylim()
    axes.set_ylim(low / (high / low) ** 0.3, high)  # room for the legend
    axes.set_ylabel("held-out KL (nats)" if course.objective == "kl" else "held-out squared error")
    axes.legend(title="training step", title_fontsize=7, fontsize=6.5, loc="lower left")
    axes.set_title(course.name)


def _exponents(axes: Axes, group: Sequence[Course]) -> None:
    heats = sorted({one.temperature for one in group if not np.isnan(one.temperature)})
    shade = dict(zip(heats, shades(len(heats)), strict=False))
    for course in group:
        colour = shade.get(course.temperature, _style.TEACHER_COLOURS.get(course.teacher, _style.GREY))
        axes.plot(course.steps, course.alpha, color=colour, marker=_style.TEACHER_MARKERS.get(course.teacher))
        low, high = course.ends
        axes.fill_between(course.steps, low, high, color=colour, alpha=0.2, linewidth=0, label=course.name)
    levels(axes)
    axes.set(xscale="log", xlabel="training step", ylabel="exponent α")
    axes.set_ylim(bottom=min(0, float(min(course.alpha.min() for course in group))), top=4.2)
    axes.legend(fontsize=7, loc="upper left")
    axes.set_title("Exponent over training")


def draw(sources: Sequence[Path], out: Path) -> list[Path]:
    """Draw the figure of some sweeps into the folder `out`; returns the files written."""
    sweeps = load(sources)
    names = ", ".join(sweep.name for sweep in sweeps)
    scales = scale({sweep.name: sweep.rows for sweep in sweeps})
    return _style.save(plot(compute(sweeps), scales), out, NAME, f"depthlaw sweeps {names}")


SWEEPS = ("mse-2core.csv", "kl-tied-long-2core.csv")

DRAWINGS = (
    Drawing(
        NAME,
        "loss against depth at several training times, and exponent against time",
        "arXiv:2602.05970, section 4, exponents over training",
        (*SWEEPS, *(name.replace(".csv", "_curves.parquet") for name in SWEEPS)),
        lambda files, out: draw(files[:2], out),
    ),
)


def main(
    results: Annotated[list[Path], typer.Argument(help="Folders of results, or kept tables.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(results, out):
            print(path)
    except (StoreError, ConfigError, BadTable) as error:
        fail(f"{NAME}: {error}", 1)


if __name__ == "__main__":
    typer.run(main)
