"""Loss against depth for the teachers of a toy sweep, with exponents over training and angles along depth.

    python -m figures.inverse_depth_toy results/quickstart --out results/quickstart

Compare arXiv:2602.05970, the figures of section 4. Takes seconds; reads what `depthlaw run` recorded.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _losses, _style
from figures._catalogue import Drawing
from figures._sweep import Sweep, read_sweep
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable
from sweeps.laws import DepthLaw, Fit, fit

NAME = "inverse_depth_toy"


@dataclass(frozen=True)
class Panel:
    """What is drawn of one teacher: losses (seed, depth), exponents by step, angles by layer."""

    teacher: str
    depths: np.ndarray
    losses: np.ndarray
    fit: Fit
    steps: np.ndarray
    exponents: np.ndarray
    teacher_angles: tuple[np.ndarray, np.ndarray]
    student_angles: tuple[np.ndarray, np.ndarray]
    deepest: int


def load(source: Path) -> Sweep:
    """A folder of results, or a kept table with its series beside it."""
    return read_sweep(source)


def compute(sweep: Sweep) -> list[Panel]:
    """A panel for each teacher, at its highest rho, longest training and highest temperature.

    Raises ConfigError when there are no rows, or other settings vary too: then a panel would mix them.
    """
    if sweep.rows.is_empty():
        raise ConfigError(f"{sweep.name} has no finished students to draw: run the sweep first")
    panels = []
    for teacher in sweep.rows["teacher"].unique(maintain_order=True):
        rows = sweep.rows.filter(pl.col("teacher") == teacher)
        for column in ("rho", "correlation_length", "steps", "temperature"):
            if rows[column].null_count() == 0:
                rows = rows.filter(pl.col(column) == rows[column].max())
        if rows.select("seed", "depth").is_duplicated().any():
            raise ConfigError(f"{sweep.name}: teacher {teacher} has several students of one seed and depth")
        wide = rows.pivot("depth", index="seed", values="loss").drop_nulls()
        depths = np.array(sorted(int(name) for name in wide.columns if name != "seed"))
        losses = wide.select(str(depth) for depth in depths).to_numpy()
        deepest = int(depths[-1])
        steps, exponents = exponents_over_training(sweep, rows)
        panels.append(
            Panel(
                teacher=teacher,
                depths=depths,
                losses=losses,
                fit=fit(DepthLaw(), rows, fix={"L_0": 0.0}),
                steps=steps,
                exponents=exponents,
                teacher_angles=_angles(sweep, rows, None),
                student_angles=_angles(sweep, rows, deepest),
                deepest=deepest,
            )
        )
    return panels


def exponents_over_training(sweep: Sweep, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Steps (n,), and of each seed the slope of log loss on log depth at every step (seeds, n): least squares
    with L_0 = 0, nan where a loss is missing."""
    keys = ["job", "depth"] + ([] if rows["temperature"].null_count() else ["temperature"])
    losses = rows.select("seed", *keys).join(sweep.curves, on=keys)
    steps = losses["step"].unique().sort().to_numpy()
    depths = rows["depth"].unique().sort().to_numpy()
    found = []
    for seed in rows["seed"].unique(maintain_order=True):
        wide = losses.filter(pl.col("seed") == seed).pivot("depth", index="step", values="loss").sort("step")
        logs = np.log(wide.select(str(depth) for depth in depths).to_numpy().astype(float))
        centred = np.log(depths) - np.log(depths).mean()
        found.append(-(logs @ centred) / (centred @ centred))
    return steps, np.array(found)


def _angles(sweep: Sweep, rows: pl.DataFrame, depth: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Step and update angles along depth, meaned over seeds: of students of this depth, or the teachers."""
    mine = rows if depth is None else rows.filter(pl.col("depth") == depth)
    keys = ["job", "depth", "temperature"]
    asked = mine.select(*keys) if depth is not None else mine.select("job").unique()
    if depth is None:
        asked = asked.with_columns(*(pl.lit(None).alias(name) for name in keys[1:]))
    types = {name: sweep.angles.schema[name] for name in keys}
    angles = sweep.angles.join(asked.cast(types), on=keys, nulls_equal=True)  # type: ignore[arg-type]
    means = angles.group_by("layer").agg(pl.col("step_angle", "update_angle").mean()).sort("layer")
    return means["step_angle"].to_numpy(), means["update_angle"].drop_nulls().to_numpy()


def plot(panels: list[Panel]) -> Figure:
    """The figure: loss against depth; exponent against step; update and step angles along depth."""
    with _style.style():
        figure = Figure(figsize=(9.6, 5.6), layout="constrained")
        axes = figure.subplot_mosaic("AB\nCD")
        _plot_losses(axes["A"], panels)
        _plot_exponents(axes["B"], panels)
        _plot_angles(axes["C"], panels, 1, "angle between updates (rad)")
        _plot_angles(axes["D"], panels, 0, "angle between states (rad)")
        axes["C"].axhline(np.pi / 2, color=_style.GREY, linewidth=0.8, linestyle=":")
        axes["C"].annotate(
            "orthogonal",
            (1.0, np.pi / 2),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=7,
        ).set_in_layout(False)
        # The line belongs in the picture even where every angle is far below it.
        axes["C"].set_ylim(top=max(axes["C"].get_ylim()[1], 1.1 * np.pi / 2))
        return figure


def _look(panel: Panel) -> dict[str, Any]:
    return {"color": _style.TEACHER_COLOURS[panel.teacher], "marker": _style.TEACHER_MARKERS[panel.teacher]}


def _plot_losses(axes: Axes, panels: list[Panel]) -> None:
    for panel in panels:
        alpha = panel.fit.estimates["alpha"]
        lower, upper = panel.fit.intervals["alpha"]
        label = f"{panel.teacher}: α = {alpha:.2f} [{lower:.2f}, {upper:.2f}]"
        _losses.mark(axes, panel.depths, panel.losses, label=label, **_look(panel))
        axes.plot(panel.depths, panel.fit.predict(panel.depths), color=_look(panel)["color"])
    depths = panels[0].depths
    _losses.guides(axes, depths, np.exp(np.log(panels[0].losses[:, 0]).mean()) * 0.5)
    _losses.log_depths(axes, depths, "student depth ℓ (layers)")
    axes.set_ylabel("held-out loss")
    axes.minorticks_off()
    axes.legend()
    axes.set_title("Loss against depth (geometric mean; bars: range over seeds)")


def _plot_exponents(axes: Axes, panels: list[Panel]) -> None:
    for panel in panels:
        colour = _look(panel)["color"]
        axes.plot(panel.steps, panel.exponents.T, color=colour, linewidth=0.6, alpha=0.6)
        axes.plot(panel.steps, panel.exponents.mean(axis=0), color=colour, label=panel.teacher)
    for level in (1, 3):
        axes.axhline(level, color=_style.GREY, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="training step", ylabel="exponent α")
    axes.legend()
    axes.set_title("Exponent over training (thin: each seed; thick: mean)")


def _plot_angles(axes: Axes, panels: list[Panel], which: int, label: str) -> None:
    for panel in panels:
        look = _look(panel)
        for angles, line, name in (
            (panel.teacher_angles[which], "-", "teacher"),
            (panel.student_angles[which], "--", f"student, {panel.deepest} layers"),
        ):
            place = (np.arange(angles.size) + 1) / (angles.size + 1)
            axes.plot(
                place,
                angles,
                color=look["color"],
                linestyle=line,
                marker=look["marker"] if line == "--" else None,
                label=f"{panel.teacher} {name}",
            )
    axes.set(xlabel="relative depth", ylabel=label, xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.set_title(f"{label.partition(' (')[0].capitalize()}, mean over inputs and seeds")


def draw(source: Path, out: Path, name: str = NAME) -> list[Path]:
    """Draw the figure of a sweep into the folder `out`; returns the files written."""
    sweep = load(source)
    return _style.save(plot(compute(sweep)), out, name, f"depthlaw sweep {sweep.name}")


DRAWINGS = (
    Drawing(
        "inverse_depth_toy",
        "loss against depth, exponent over training, angles along depth, of both teachers: the main job",
        "arXiv:2602.05970, section 4",
        ("quickstart.csv", "quickstart_curves.parquet", "quickstart_angles.parquet"),
        lambda files, out: draw(files[0], out),
    ),
    Drawing(
        "mse_long",
        "the same for deeper students and longer training",
        "arXiv:2602.05970, its figure of students trained on the final state",
        ("mse-2core.csv", "mse-2core_curves.parquet", "mse-2core_angles.parquet"),
        lambda files, out: draw(files[0], out, "mse_long"),
    ),
)


def main(
    results: Annotated[Path, typer.Argument(help="Folder of results of a toy sweep, or its kept table.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(results, out):
            print(path)
    except (StoreError, ConfigError, BadTable) as error:
        raise SystemExit(f"inverse_depth_toy: {error}") from None


if __name__ == "__main__":
    typer.run(main)
