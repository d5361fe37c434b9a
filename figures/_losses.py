"""Losses of students against depth: how figures fit and draw them.

Symbols: seeds s, depths ℓ. A fit is L = c·ℓ^-alpha with a level c of each seed (L_0 = 0: students can reach
their teacher).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from figures import _style, _ticks
from figures._sweep import Sweep
from sweeps._config import ConfigError
from sweeps.laws import DepthLaw, Fit, fit


@dataclass(frozen=True)
class Losses:
    """Students of one condition: depths (ℓ,), losses (s, ℓ), nan where there is none, and the fit."""

    depths: np.ndarray
    losses: np.ndarray
    fit: Fit

    @property
    def alpha(self) -> float:
        return self.fit.estimates["alpha"]

    @property
    def interval(self) -> tuple[float, float]:
        return self.fit.intervals["alpha"]

    @property
    def told(self) -> str:
        """The exponent with its interval, where it has one."""
        low, high = self.interval
        return f"α = {self.alpha:.2f}" + (f" [{low:.2f}, {high:.2f}]" if np.isfinite(high - low) else "")


def losses_of(rows: pl.DataFrame, told: str) -> Losses:
    """Of rows of one condition, which errors call `told`. Raises ConfigError where they cannot be fitted, or
    are of several conditions."""
    if rows.is_empty():
        raise ConfigError(f"{told}: no finished students to draw")
    if rows.select("seed", "depth").is_duplicated().any():
        raise ConfigError(f"{told}: several students of one seed and depth, so other settings vary too")
    depths = rows["depth"].unique().sort()
    wide = rows.pivot("depth", index="seed", values="loss").sort("seed")
    losses = wide.select(str(depth) for depth in depths).cast(pl.Float64).fill_null(np.nan).to_numpy()
    try:
        found = fit(DepthLaw(), rows, fix={"L_0": 0.0})
    except ValueError as error:
        raise ConfigError(f"{told}: {error}") from error
    return Losses(depths.to_numpy().astype(float), losses, found)


def longest(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Of each teacher the students that were trained longest. Raises ConfigError where there are no rows."""
    if rows.is_empty():
        raise ConfigError(f"{name} has no finished students to draw")
    return rows.filter(pl.col("steps") == pl.col("steps").max().over("teacher"))


def at_step(sweep: Sweep, rows: pl.DataFrame, step: int) -> pl.DataFrame:
    """The same students with the held-out losses that they had at a step of their training."""
    keys = ["job", "depth"] + ([] if rows["temperature"].null_count() else ["temperature"])
    then = sweep.curves.filter(pl.col("step") == step).select(*keys, "loss")
    return rows.drop("loss").join(then, on=keys, maintain_order="left").drop_nulls("loss")


def times(sweep: Sweep, rows: pl.DataFrame, count: int, first: float = 0.01) -> list[int]:
    """At most so many of the steps at which these students were evaluated, evenly spaced in their logarithm
    from a share of the training to its end."""
    last = int(rows["step"].max())  # type: ignore[arg-type]
    known = sweep.curves.filter(pl.col("job").is_in(rows["job"].unique().to_list()))["step"].unique().sort()
    steps = known.filter((known >= first * last) & (known <= last)).to_numpy()
    if not steps.size:
        raise ConfigError(f"{sweep.name} has no losses over training: give it a sweep that was evaluated")
    asked = np.geomspace(steps[0], steps[-1], count)
    nearest = np.abs(np.log(steps)[:, None] - np.log(asked)).argmin(axis=0)
    return sorted({int(steps[place]) for place in nearest})


def mark(axes: Axes, x: np.ndarray, losses: np.ndarray, **look: Any) -> None:
    """Geometric mean over seeds, with the range over them as bars."""
    centre = np.exp(np.nanmean(np.log(losses), axis=0))
    # The range: of two to four seeds a standard error would say less.
    # Clipped, since with one seed the mean of its logarithm may be a rounding away from it.
    low = np.maximum(centre - np.nanmin(losses, axis=0), 0)
    high = np.maximum(np.nanmax(losses, axis=0) - centre, 0)
    axes.errorbar(x, centre, yerr=(low, high), linestyle="none", **look)


def along_depth(axes: Axes, found: Losses, per_layer: float = 1.0, **look: Any) -> None:
    """Marks, and the fitted line; per_layer: how much of the x axis a layer is."""
    mark(axes, found.depths * per_layer, found.losses, **look)
    line = found.fit.predict(found.depths)
    axes.plot(found.depths * per_layer, line, color=look["color"], linewidth=1.0)


def guides(axes: Axes, depths: np.ndarray, top: float, slopes: Sequence[int] = (1, 3)) -> None:
    """Lines of these slopes, below what is drawn."""
    for slope, dashes in zip(slopes, (":", "--"), strict=False):
        values = top * (depths / depths[0]) ** -float(slope)
        axes.plot(depths, values, color=_style.GREY, ls=dashes, lw=0.9, label=f"slope −{slope}")


def log_depths(axes: Axes, depths: Sequence[float] | np.ndarray, label: str) -> None:
    """Log axes with a tick at each depth that is not too near the one before, and losses on y."""
    axes.set(xscale="log", yscale="log", xlabel=label)
    _ticks.at(axes, depths)


def levels(axes: Axes) -> None:
    """The exponents of both regimes."""
    for level in (1, 3):
        axes.axhline(level, color=_style.GREY, lw=0.8, ls=":")


def shades(count: int) -> np.ndarray:
    """Colours of an ordered setting, told apart by colour-blind readers and in grey."""
    return matplotlib.colormaps["viridis"](np.linspace(0, 0.85, max(count, 2)))
