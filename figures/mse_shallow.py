"""Students as deep as their teacher and deeper: where the power law of depth ends.

    python -m figures.mse_shallow figures/tables/mse-shallow-2core.csv figures/tables/mse-2core.csv

Losses and local exponents of teachers of few layers, with those of deep teachers beside them. Compare
arXiv:2602.05970, its figure of teachers of 24 layers. Takes seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._caption import caption, scale
from figures._catalogue import Drawing
from figures._losses import Losses, along_depth, guides, levels, log_depths, longest, losses_of
from figures._sweep import Sweep, read_sweep
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail
from sweeps.laws import LocalExponent, local_exponents_of

NAME = "mse_shallow"

PAPER = {"width": 32, "teacher_depth": 24, "batch": 1024}


@dataclass(frozen=True)
class Students:
    """Of one teacher kind and depth ℓ*: training steps, losses, exponents between neighbouring depths."""

    teacher: str
    teacher_depth: int
    steps: int
    losses: Losses
    local: tuple[LocalExponent, ...]

    @property
    def name(self) -> str:
        return f"{self.teacher}, ℓ* = {self.teacher_depth}"


def load(sources: Sequence[Path]) -> list[Sweep]:
    """Folders of results, or kept tables."""
    return [read_sweep(source, series=()) for source in sources]


def compute(sweeps: Sequence[Sweep]) -> list[Students]:
    """Students of each teacher kind and depth, shallow teachers first; each sweep's longest training.

    Raises ConfigError where there are none, or they cannot be fitted.
    """
    found = []
    for sweep in sweeps:
        rows = longest(sweep.rows, sweep.name)
        parts = rows.partition_by("teacher", "teacher_depth", "steps", as_dict=True, maintain_order=True)
        for (teacher, deep, steps), part in parts.items():
            told = f"{sweep.name}, {teacher} teacher of {deep} layers"
            losses = losses_of(part, told)
            known = part.select(pl.col("depth", "loss", "seed"))
            local = local_exponents_of(known["depth"], known["loss"], known["seed"].to_list())
            found.append(Students(teacher, deep, steps, losses, tuple(local)))
    return sorted(found, key=lambda one: (one.teacher_depth, one.teacher))


def plot(students: Sequence[Students], scales: str) -> Figure:
    """Losses, and local exponents, against depth; shallowest teachers filled, others hollow."""
    with _style.style():
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        losses, local = figure.subplots(1, 2)
        shallow = students[0].teacher_depth
        _losses(losses, students, shallow)
        _local(local, students, shallow)
        for axes in (losses, local):
            axes.axvline(shallow, color=_style.GREY, lw=0.8, zorder=0)
            axes.annotate(
                f" teacher's depth {shallow}",
                (shallow, 0.01),
                xycoords=("data", "axes fraction"),
                fontsize=6.5,
                color=_style.GREY,
                rotation=90,
                ha="right",
                va="bottom",
            ).set_in_layout(False)
        caption(
            figure,
            "Left: geometric mean, bars: range over seeds; line: L = c·ℓ^-α, a level a seed, [95 % interval]."
            f" Right: mean over seeds, bars: Student's 95 %. Steps: {_steps(students)}. {scales}",
        )
        return figure


def _steps(students: Sequence[Students]) -> str:
    return "; ".join(f"{one.name}: {one.steps:,}" for one in students)


def _look(one: Students, shallow: int) -> dict[str, Any]:
    return {
        "color": _style.TEACHER_COLOURS.get(one.teacher, _style.GREY),
        "marker": _style.TEACHER_MARKERS.get(one.teacher, "o"),
        "fillstyle": "full" if one.teacher_depth == shallow else "none",
    }


def _losses(axes: Axes, students: Sequence[Students], shallow: int) -> None:
    for one in students:
        along_depth(axes, one.losses, label=f"{one.name}: {one.losses.told}", **_look(one, shallow))
    depths = students[0].losses.depths
    guides(axes, depths, float(np.nanmin(students[0].losses.losses[:, 0])) * 0.4)
    log_depths(axes, depths, "student depth ℓ (layers)")
    low, high = axes.get_ylim()
    axes.set_ylim(low / (high / low) ** 0.45, high)  # room for the legend
    axes.set_ylabel("held-out squared error")
    axes.legend(fontsize=6.5, loc="lower left")
    axes.set_title("Loss against depth")


def _local(axes: Axes, students: Sequence[Students], shallow: int) -> None:
    for one in students:
        at = [point.depth for point in one.local]
        values = np.array([point.exponent for point in one.local])
        reach = np.array([point.upper - point.exponent for point in one.local])
        dashes = "-" if one.teacher_depth == shallow else "--"
        axes.errorbar(
            at, values, np.where(np.isfinite(reach), reach, 0), ls=dashes, lw=0.9, **_look(one, shallow)
        )
    levels(axes)
    log_depths(axes, students[0].losses.depths, "student depth ℓ (layers; mean of two neighbours)")
    axes.set(yscale="linear", ylabel="exponent between neighbouring depths", ylim=(-0.5, 6))
    axes.set_title("Local exponents")


def draw(sources: Sequence[Path], out: Path) -> list[Path]:
    """Draw the figure of some sweeps into the folder `out`; returns the files written."""
    sweeps = load(sources)
    tables = {sweep.name: sweep.rows for sweep in sweeps}
    shallow = {sweeps[0].name: tables.pop(sweeps[0].name)}
    scales = f"{scale(shallow, PAPER)} {scale(tables)}"
    names = ", ".join(sweep.name for sweep in sweeps)
    return _style.save(plot(compute(sweeps), scales), out, NAME, f"depthlaw sweeps {names}")


DRAWINGS = (
    Drawing(
        NAME,
        "students as deep as their teacher and deeper: losses and local exponents",
        "arXiv:2602.05970, its appendix with teachers of 24 layers",
        ("mse-shallow-2core.csv", "mse-2core.csv"),
        draw,
    ),
)


def main(
    results: Annotated[
        list[Path], typer.Argument(help="Folders of results, or kept tables; the shallow teachers' first.")
    ],
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
