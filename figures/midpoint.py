"""Students of midpoint layers beside Euler ones: loss against depth and against MLPs, and their exponents.

    python -m figures.midpoint figures/tables/midpoint-2core.csv figures/tables/phase-integrators-2core.csv

A midpoint layer has two MLPs, an Euler layer one. Of a flow it makes an error of higher order, so that under
a tied teacher its exponent should be above 3, once deep students have converged; with independent teachers
order should not help. Compare arXiv:2602.05970, the figure of students of higher order. Takes seconds.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._caption import caption, scale
from figures._catalogue import Drawing
from figures._losses import Losses, along_depth, log_depths, longest, losses_of
from figures._sweep import Sweep, read_sweep
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail
from sweeps.laws import local_exponents_of
from toymodels import LAYERS

NAME = "midpoint"

KINDS = {"independent": 0.0, "tied": 1.0}
"""Teachers, by the correlation of a weight with itself in the next layer: those between are left out."""

COLOURS = {"euler": _style.BLUE, "midpoint": _style.RED}
MARKERS = "os^Dv<>P"


@dataclass(frozen=True)
class Students:
    """Of one teacher, layer and sweep: losses, MLPs a layer, training steps, and exponents between
    neighbouring depths."""

    sweep: str
    teacher: str
    layer: str
    steps: int
    mlps: int
    losses: Losses
    local: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.layer}, {self.sweep}, {self.steps:,} steps"


def load(sources: Sequence[Path]) -> list[Sweep]:
    """Folders of results, or kept tables."""
    return [read_sweep(source, series=()) for source in sources]


def compute(sweeps: Sequence[Sweep]) -> list[Students]:
    """Students of independent and tied teachers, each sweep's longest training.

    Raises ConfigError where there are none, or they cannot be fitted.
    """
    found = []
    for sweep in sweeps:
        rows = longest(sweep.rows, sweep.name)
        for teacher, correlation in KINDS.items():
            mine = rows.filter(pl.col("layer_correlation").cast(pl.Float64) == correlation)
            parts = mine.partition_by("layer", "steps", as_dict=True)
            for (layer, steps), part in sorted(parts.items()):
                losses = losses_of(part, f"{sweep.name}, {teacher} teacher, {layer} students")
                mlps = LAYERS[layer].mlps_per_layer
                near = local_exponents_of(part["depth"], part["loss"], part["seed"].to_list())
                local = tuple(one.exponent for one in near)
                found.append(Students(sweep.name, teacher, layer, steps, mlps, losses, local))
    for teacher in KINDS:
        if not any(one.teacher == teacher for one in found):
            names = ", ".join(sweep.name for sweep in sweeps)
            raise ConfigError(f"no students of {teacher} teachers in {names}")
    return sorted(found, key=lambda one: (one.teacher, one.layer))


def plot(students: Sequence[Students], scales: str) -> Figure:
    """A row a teacher: losses against layers, against MLPs; beside them all exponents."""
    with _style.style():
        figure = Figure(figsize=(11, 6.2), layout="constrained")
        axes = figure.subplot_mosaic("ABE;CDE", width_ratios=(1, 1, 0.9))
        names = list(dict.fromkeys((one.layer, one.sweep) for one in students))
        look = functools.partial(_look, names)
        for row, teacher in zip(("AB", "CD"), KINDS, strict=True):
            mine = [one for one in students if one.teacher == teacher]
            _against(axes[row[0]], mine, look, by_mlps=False)
            _against(axes[row[1]], mine, look, by_mlps=True)
            for place in row:
                axes[place].set_title(f"{teacher} teacher")
        _exponents(axes["E"], students, look)
        caption(
            figure,
            "Losses: geometric mean, bars: range over seeds; line: L = c·ℓ^-α, a level a seed. Exponents: "
            "bars are 95 % intervals (bootstrap over seeds, Student's t); ticks below: mean exponents "
            f"between neighbouring depths, apart where losses follow no power law. {scales}",
        )
        return figure


def _look(names: list[tuple[str, str]], one: Students) -> dict[str, str]:
    place = names.index((one.layer, one.sweep))
    return {"color": COLOURS.get(one.layer, _style.GREY), "marker": MARKERS[place % len(MARKERS)]}


def _against(axes: Axes, students: Sequence[Students], look: functools.partial, by_mlps: bool) -> None:
    ticks = set()
    for one in students:
        factor = one.mlps if by_mlps else 1
        along_depth(axes, one.losses, per_layer=factor, label=one.name, fillstyle="none", **look(one))
        ticks |= set((one.losses.depths * factor).tolist())
    log_depths(axes, sorted(ticks), "MLPs" if by_mlps else "student layers ℓ")
    axes.set_ylabel("held-out squared error")
    if by_mlps:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.4)  # room for the legend
        axes.legend(fontsize=6.5, loc="upper right")


def _exponents(axes: Axes, students: Sequence[Students], look: functools.partial) -> None:
    for place, one in enumerate(students):
        ends = np.array(one.losses.interval)
        reach = np.where(np.isfinite(ends), np.abs(ends - one.losses.alpha), 0)
        at = np.full(len(one.local), place + 0.25)
        axes.plot(one.local, at, "|", color=look(one)["color"], ms=5, mew=0.8)
        axes.errorbar(one.losses.alpha, place, xerr=reach[:, None], fillstyle="none", **look(one))
        axes.annotate(
            f"{one.losses.alpha:.2f}",
            (one.losses.alpha, place),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=6.5,
        )
    for level in (1, 3):
        axes.axvline(level, color=_style.GREY, lw=0.8, ls=":")
    named = [f"{one.teacher}\n{one.layer}\n{one.sweep}" for one in students]
    axes.set_yticks(range(len(students)), named, fontsize=6.5)
    axes.set_ylim(len(students) - 0.4, -0.6)
    axes.set_xlim(left=min(0.0, *(alpha - 0.1 for one in students for alpha in one.local)))
    axes.set(xlabel="exponent α of loss in layers")
    axes.set_title("Exponents")


def draw(sources: Sequence[Path], out: Path) -> list[Path]:
    """Draw the figure of some sweeps into the folder `out`; returns the files written."""
    sweeps = load(sources)
    names = ", ".join(sweep.name for sweep in sweeps)
    figure = plot(compute(sweeps), scale({sweep.name: sweep.rows for sweep in sweeps}))
    return _style.save(figure, out, NAME, f"depthlaw sweeps {names}")


DRAWINGS = (
    Drawing(
        NAME,
        "students of midpoint and Euler layers: loss against depth and MLPs, exponents",
        "arXiv:2602.05970, section 4, students of higher order",
        ("midpoint-2core.csv", "phase-integrators-2core.csv", "mse-2core.csv"),
        draw,
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
