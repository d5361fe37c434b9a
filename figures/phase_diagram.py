"""Between smooth and random: the depth exponent over correlation length and training, and what predicts it.

    python -m figures.phase_diagram results/phase-2core --mark figures/tables/llm_cpu_depths_probe.csv

Panels: the exponent alpha for every correlation length of the teacher's weights and training time; the local
exponent, between neighbouring student depths, against student layers a correlation length, with the law that
joins 1 and 3 (`sweeps.laws.CrossoverLaw`); alpha against the teacher's angle between updates, with the angles
of probed networks (`--mark`). Reads what `depthlaw run` recorded or any table with those columns; takes
seconds. This project's own result; the two ends are arXiv:2602.05970's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import matplotlib
import numpy as np
import polars as pl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._catalogue import Drawing
from sweeps._config import ConfigError
from sweeps._formats import read_table
from sweeps._language_models import meets
from sweeps._source import open_source
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail
from sweeps.laws import CrossoverLaw, DepthLaw, Fit, LocalExponent, fit, local_exponents_of

NAME = "phase_diagram"

ENDS = {"alpha": 1.0, "beta": 3.0, "L_0": 0.0}
"""What the crossover's law takes from theory: the rows of a small sweep do not reach far beyond the bend."""


ANGLES = ("correlation_length", "teacher_update_angle")
"""Columns that are numbers."""


@dataclass(frozen=True)
class Condition:
    """One correlation length (inf: tied) at one training time: the fitted exponent, the teachers' mean angle
    between updates (radians) and its standard deviation over seeds, that of their deepest students (nan where
    the table has none), the local exponents."""

    length: float
    steps: int
    fit: Fit
    angle: float
    angle_spread: float
    student_angle: float
    local: tuple[LocalExponent, ...]

    @property
    def alpha(self) -> float:
        return self.fit.estimates["alpha"]

    @property
    def interval(self) -> tuple[float, float]:
        return self.fit.intervals["alpha"]


@dataclass(frozen=True)
class Mark:
    """Angles between updates of networks that were probed together: mean, least and largest."""

    name: str
    angle: float
    low: float
    high: float


@dataclass(frozen=True)
class Diagram:
    """What is drawn. crossover: one law for all lengths at the longest training, in student layers a
    correlation length; None where no row has a finite length above 0."""

    conditions: tuple[Condition, ...]
    crossover: Fit | None
    marks: tuple[Mark, ...]

    @property
    def lengths(self) -> list[float]:
        return sorted({one.length for one in self.conditions})

    @property
    def times(self) -> list[int]:
        return sorted({one.steps for one in self.conditions})

    def at(self, length: float, steps: int) -> Condition | None:
        """The condition, if there is one."""
        chosen = (one for one in self.conditions if (one.length, one.steps) == (length, steps))
        return next(chosen, None)

    @property
    def longest(self) -> list[Condition]:
        """Those of the longest training, by length."""
        return [one for length in self.lengths if (one := self.at(length, self.times[-1])) is not None]

    def exponent_at(self, angle: float, students: bool = False) -> float:
        """α where teachers, or the deepest students, have this angle between updates, by straight lines
        between the conditions of the longest training; NaN beyond them."""
        found = [(one.student_angle if students else one.angle, one.alpha) for one in self.longest]
        known = sorted(pair for pair in found if not math.isnan(pair[0]))
        if not known:
            return math.nan
        angles, alphas = np.array(known).T
        return float(np.interp(angle, angles, alphas, left=np.nan, right=np.nan))


def load(table: Path, only: Sequence[str] = ()) -> pl.DataFrame:
    """Rows that are done and meet all of `only`, with the correlation length inf where it is null.

    Raises ConfigError where there are none, or where they are no one condition.
    """
    rows = open_source(table, "depth").table
    needed = ("correlation_length", "steps", "seed", "depth", "loss", "teacher_update_angle")
    for name in needed:
        if name not in rows.columns:
            raise ConfigError(f"{table} has no column {name!r}: give it a sweep over the correlation length")
    if "status" in rows.columns:
        rows = rows.filter(pl.col("status").cast(pl.String).ne_missing("diverged"))
    for condition in only:
        if "=" not in condition or condition.partition("=")[0] not in rows.columns:
            raise ConfigError(f"--only {condition!r}: it must be COLUMN=VALUE, with a column of {table}")
        rows = rows.filter(
            pl.Series([meets(row, condition) for row in rows.iter_rows(named=True)], dtype=pl.Boolean)
        )
    if rows.is_empty():
        raise ConfigError(f"{table} has no finished students to draw")
    numbers = [*ANGLES, *(name for name in ("layer_correlation",) if name in rows.columns)]
    try:
        rows = rows.with_columns(pl.col(*numbers).cast(pl.Float64), pl.col("steps").cast(pl.Int64))
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{table}: {', '.join(numbers)} or steps: {error}") from None
    for name, rule, good in (
        ("correlation_length", "0 or more, or null for tied teachers", pl.col("correlation_length") >= 0),
        ("teacher_update_angle", "an angle", pl.col("teacher_update_angle").is_between(0, math.pi)),
        ("steps", "a whole number above 0", pl.col("steps") > 0),
    ):
        missing = name == "correlation_length"  # null where it does not fall
        bad = rows.filter(~good.fill_null(missing) | pl.col(name).cast(pl.Float64).is_nan().fill_null(False))
        if len(bad):
            found = f"column {name!r} is {bad[name][0]} in {len(bad)} of {len(rows)} rows"
            raise ConfigError(f"{table}: {found}: it must be {rule}")
    if "layer_correlation" in rows.columns:
        rough = rows.filter(pl.col("correlation_length").is_null() & (pl.col("layer_correlation") < 1))
        if len(rough):
            raise ConfigError(f"{table} has {len(rough)} rows of teachers without a correlation length")
    rows = rows.with_columns(pl.col("correlation_length").fill_null(math.inf))
    if rows.select("correlation_length", "steps", "seed", "depth").is_duplicated().any():
        raise ConfigError(
            f"{table} has several students of one correlation length, training time, seed and depth: choose "
            "a temperature, layer or teacher with --only COLUMN=VALUE"
        )
    return rows


def marks_of(table: Path) -> list[Mark]:
    """The networks of a probe's table, by what they are and by how often their block is run.

    Raises ConfigError where it is no probe's table.
    """
    rows = read_table(table)
    if "bulk_update_angle" not in rows.columns:
        raise ConfigError(f"{table} has no column 'bulk_update_angle': give it what `depthlaw probe` left")
    name = table.stem.removesuffix("_probe")
    parts = rows.partition_by("num_recur", as_dict=True) if "num_recur" in rows.columns else {("",): rows}
    found = []
    for (recur,), part in sorted(parts.items(), key=lambda item: str(item[0])):
        try:
            angles = part["bulk_update_angle"].cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
        except pl.exceptions.PolarsError as error:
            raise ConfigError(f"{table}: bulk_update_angle: {error}") from None
        if not ((angles >= 0) & (angles <= math.pi)).all():
            raise ConfigError(f"{table}: bulk_update_angle: an angle lies between 0 and pi")
        if angles.size:
            several = len(parts) > 1 and recur is not None
            told = f"{name}, r = {recur}" if several else name
            found.append(Mark(told, float(angles.mean()), float(angles.min()), float(angles.max())))
    if not found:
        raise ConfigError(f"{table} has no network with an angle to mark")
    return found


def compute(rows: pl.DataFrame, marks: Sequence[Mark] = ()) -> Diagram:
    """Fits of every condition, and of the crossover. Raises ConfigError where one cannot be fitted."""
    conditions = []
    for (length, steps), part in rows.partition_by("correlation_length", "steps", as_dict=True).items():
        try:
            found = fit(DepthLaw(), part, fix={"L_0": 0.0})
            local = local_exponents_of(
                part["depth"].to_numpy(), part["loss"].to_numpy(), part["seed"].to_list()
            )
        except ValueError as error:
            raise ConfigError(f"correlation length {length:g}, {steps} steps: {error}") from error
        angles = part.unique("seed")["teacher_update_angle"].to_numpy()
        spread = float(np.std(angles, ddof=1)) if angles.size > 1 else 0.0
        students = math.nan
        if "update_angle" in part.columns:
            deepest = part.filter(pl.col("depth") == pl.col("depth").max())["update_angle"]
            known = deepest.cast(pl.Float64, strict=False).drop_nulls()
            students = math.nan if known.is_empty() else float(known.to_numpy().mean())
        conditions.append(
            Condition(float(length), int(steps), found, float(angles.mean()), spread, students, tuple(local))
        )
    conditions.sort(key=lambda one: (one.length, one.steps))
    between = rows.filter(
        (pl.col("steps") == rows["steps"].max())
        & (pl.col("correlation_length") > 0)
        & pl.col("correlation_length").is_finite()
    ).with_columns(depth=pl.col("depth") * pl.col("correlation_length"))
    crossover = None
    if not between.is_empty():
        try:
            crossover = fit(CrossoverLaw(), between, fix=ENDS, group=("correlation_length", "seed"))
        except ValueError as error:
            raise ConfigError(f"one law for all correlation lengths: {error}") from error
    return Diagram(tuple(conditions), crossover, tuple(marks))


def plot(diagram: Diagram) -> Figure:
    """Three panels."""
    with _style.style():
        figure = Figure(figsize=(11, 3.9), layout="constrained")
        phase, local, angle = figure.subplots(1, 3)
        _phase(figure, phase, diagram)
        colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.92, max(len(diagram.lengths), 2)))
        by_length = dict(zip(diagram.lengths, colours, strict=False))
        _local(local, diagram, by_length)
        _angle(angle, diagram, by_length)
        return figure


def _phase(figure: Figure, axes: Axes, diagram: Diagram) -> None:
    values = np.full((len(diagram.lengths), len(diagram.times)), np.nan)
    for i, length in enumerate(diagram.lengths):
        for j, steps in enumerate(diagram.times):
            if (one := diagram.at(length, steps)) is not None:
                values[i, j] = one.alpha
                reach = (one.interval[1] - one.interval[0]) / 2
                told = f"{one.alpha:.2f}" + (f"\n±{reach:.2f}" if math.isfinite(reach) else "")
                colour = "w" if one.alpha < 2.2 else "k"  # told from what lies below
                axes.text(j, i, told, ha="center", va="center", fontsize=6, color=colour)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis", vmin=0.8, vmax=3.2)
    figure.colorbar(image, ax=axes, label="exponent α")
    axes.set_xticks(range(len(diagram.times)), [f"{steps:,}" for steps in diagram.times])
    axes.set_yticks(range(len(diagram.lengths)), [_named(length) for length in diagram.lengths])
    axes.set(xlabel="training steps", ylabel="correlation length λ (depths)")
    axes.set_title("exponent by length and training (± half of 95 %)")


def _local(axes: Axes, diagram: Diagram, colours: dict[float, np.ndarray]) -> None:
    between = [one for one in diagram.longest if 0 < one.length < math.inf]
    for one in between:
        x = np.array([point.depth * one.length for point in one.local])
        y = np.array([point.exponent for point in one.local])
        reach = np.array([point.upper - point.exponent for point in one.local])
        reach = np.where(np.isfinite(reach), reach, 0)
        axes.errorbar(
            x, y, reach, color=colours[one.length], marker="o", lw=0.8, label=f"λ = {_named(one.length)}"
        )
    if diagram.crossover is not None:
        bend, (low, high) = diagram.crossover.estimates["l_x"], diagram.crossover.intervals["l_x"]
        reached = [point.depth * one.length for one in between for point in one.local]
        x = np.geomspace(min(reached) / 2, max(reached) * 2, 200)
        square = (x / bend) ** 2
        ends = ENDS["beta"] - ENDS["alpha"]
        axes.plot(
            x,
            ENDS["alpha"] + ends * square / (1 + square),
            color="k",
            lw=1.2,
            label="one law for all lengths",
        )
        bent = f"bend at {bend:.2g} [{low:.2g}, {high:.2g}] layers a length"
        axes.set_title(f"{diagram.times[-1]:,} steps: {bent}")
    for level in (1, 3):
        axes.axhline(level, color=_style.GREY, lw=0.8, ls=":")
    axes.set(
        xscale="log",
        xlabel="student layers a correlation length, ℓ·λ",
        ylabel="local exponent (95 % over seeds)",
        ylim=(-0.5, 5),
    )
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=6, loc="upper left")


def _angle(axes: Axes, diagram: Diagram, colours: dict[float, np.ndarray]) -> None:
    for one in diagram.longest:
        low, high = np.clip(one.interval, 0, 5)
        reach = ([max(one.alpha - low, 0)], [max(high - one.alpha, 0)])
        axes.errorbar(
            one.angle, one.alpha, reach, one.angle_spread, color=colours[one.length], marker="o", ls="none"
        )
        axes.annotate(
            f" {_named(one.length)}", (one.angle, one.alpha), fontsize=6, va="bottom"
        ).set_in_layout(False)
        axes.plot(
            one.student_angle, one.alpha, color=colours[one.length], marker="o", ls="none", fillstyle="none"
        )
    line = sorted((one.angle, one.alpha) for one in diagram.longest)
    axes.plot(*zip(*line, strict=True), color=_style.GREY, lw=0.8, label="teachers (filled)")
    line = sorted((one.student_angle, one.alpha) for one in diagram.longest)
    axes.plot(*zip(*line, strict=True), color=_style.GREY, lw=0.8, ls="--", label="deepest students (hollow)")
    shades = matplotlib.colormaps["tab10"](np.arange(10))
    for i, mark in enumerate(diagram.marks):
        reach = ([mark.angle - mark.low], [mark.high - mark.angle])
        # Below all exponents, a line each: what is known of these networks is the angle alone.
        axes.errorbar(
            mark.angle,
            0.12 * (i + 1),
            xerr=reach,
            color=shades[i % 10],
            marker="D",
            ls="none",
            label=mark.name,
        )
    axes.axvline(np.pi / 2, color=_style.GREY, lw=0.8, ls=":")
    axes.set(
        xlabel="angle between updates (rad)",
        ylabel="exponent α",
        ylim=(0, 4.6),
    )
    axes.set_title(f"{diagram.times[-1]:,} steps" + ("; diamonds: probed" if diagram.marks else ""))
    axes.legend(fontsize=6, loc="upper right")


def _named(length: float) -> str:
    return "∞" if math.isinf(length) else f"{length:g}"


def draw(
    table: Path, out: Path, marks: Sequence[Path], only: Sequence[str] = ()
) -> tuple[Diagram, list[Path]]:
    """Draw the figure into the folder `out`; what is drawn, and the files written."""
    found = [mark for path in marks for mark in marks_of(path)]
    diagram = compute(load(table, only), found)
    return diagram, _style.save(plot(diagram), out, NAME, f"depthlaw sweep {table.name}")


PROBES = ("llm_cpu_depths_probe.csv", "smollm2_probe.csv", "llm_cpu_probe.csv")

DRAWINGS = (
    Drawing(
        NAME,
        "exponent over correlation length and training, along depth, and against the angle between updates",
        "this project's own; its ends are arXiv:2602.05970's",
        ("phase-2core.csv", *PROBES),
        lambda files, out: draw(files[0], out, files[1:])[1],
    ),
)


def main(
    table: Annotated[Path, typer.Argument(help="Results or table of a sweep over the correlation length.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
    only: Annotated[
        list[str], typer.Option(metavar="COLUMN=VALUE", help="Rows to draw; repeatable, all must hold.")
    ] = [],  # noqa: B006  # typer copies it
    mark: Annotated[
        list[Path], typer.Option(help="A probe's networks.csv, to mark its angles; repeatable.")
    ] = [],  # noqa: B006  # typer copies it
) -> None:
    """Redraw the figure; the exponents that the marked angles would mean go to standard output."""
    try:
        diagram, paths = draw(table, out, mark, only)
    except (ConfigError, StoreError, BadTable, OSError) as error:
        fail(f"{NAME}: {error}", 1)
    for one in diagram.marks:
        values = [diagram.exponent_at(one.angle, students) for students in (False, True)]
        told = ["beyond all" if math.isnan(alpha) else f"exponent {alpha:.2f}" for alpha in values]
        print(f"{one.name}: {one.angle:.2f} rad; among teachers {told[0]}, among students' own {told[1]}")
    for path in paths:
        print(path)


if __name__ == "__main__":
    typer.run(main)
