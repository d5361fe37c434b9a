"""How far an exponent hangs on the choices of its fit: rows left out, objective, its delta.

Reads what `sweeps.laws._sensitivity.scan` returns. Compare arXiv:2602.05970, where alpha_l is shown
against the number of dropped runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from figures import _style
from figures.law_fit import COLOURS, MARKERS, shown
from sweeps.laws._law import Array, Mask

DODGE = 0.5  # of the gap between two numbers of dropped runs, that the objectives share
DASHES = ("-", "--", ":")


@dataclass(frozen=True)
class Line:
    """One objective: numbers of dropped runs (k,), the parameter with its interval, the objective's value.

    Nan where the choice could not be fitted; `identified` (k,) whether the rows bound the parameter.
    """

    label: str
    dropped: Array
    estimate: Array
    lower: Array
    upper: Array
    value: Array
    identified: Mask


def compute(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """A line for each objective, in the order of the rows.

    Raises ValueError where there are no rows.
    """
    if not rows:
        raise ValueError("no choices to draw: scan at least one objective and one number of dropped runs.")
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_label(row), []).append(row)
    lines = []
    for label, mine in groups.items():
        mine = sorted(mine, key=lambda row: row["drop_top"])

        def column(name: str, mine: list[Mapping[str, Any]] = mine) -> Array:
            return np.array([np.nan if row[name] is None else row[name] for row in mine], dtype=np.float64)

        lines.append(
            Line(
                label=label,
                dropped=column("drop_top"),
                estimate=column("estimate"),
                lower=column("lower"),
                upper=column("upper"),
                value=column("value"),
                identified=column("identified") == 1,
            )
        )
    return lines


def _label(row: Mapping[str, Any]) -> str:
    """What tells one objective from another, e.g. "asymmetric, δ = 0.001, overestimates × 10"."""
    label = str(row["objective"])
    label += f", δ = {row['delta']:g}" if row["delta"] is not None else ""
    factor = row.get("overestimates")
    return label + (f", overestimates × {factor:g}" if factor not in (None, 1) else "")


def plot(lines: list[Line], parameter: str) -> Figure:
    """The figure: the parameter and the objective against the number of dropped runs."""
    with _style.style():
        figure = Figure(figsize=(8.4, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        plot_estimates(left, lines, parameter)
        _plot_values(right, lines)
        right.set_xlim(left.get_xlim())
        for axes in (left, right):
            axes.set_xlabel("dropped runs (highest losses)")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(lines), 3))
        return figure


def _look(place: int) -> dict[str, Any]:
    colour, dash = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
    return {"color": colour, "marker": MARKERS[place % len(MARKERS)], "linestyle": dash}


def plot_estimates(axes: Axes, lines: list[Line], parameter: str) -> None:
    """The parameter against the number of dropped runs, an objective a line."""
    counts = np.unique(np.concatenate([line.dropped for line in lines]))
    gap = float(np.diff(counts).min(initial=np.inf)) if counts.size > 1 else 1.0
    low, high = _range(lines)
    for place, line in enumerate(lines):
        look = _look(place)
        colour = look["color"]
        shift = DODGE * gap * ((place + 0.5) / len(lines) - 0.5) if len(lines) > 1 else 0.0
        x, found = line.dropped + shift, np.isfinite(line.estimate)
        axes.plot(x[found], line.estimate[found], label=line.label, markerfacecolor="white", **look)
        sure = found & line.identified
        axes.plot(x[sure], line.estimate[sure], **(look | {"linestyle": "none"}))
        bottom, top = np.maximum(line.lower, low), np.minimum(line.upper, high)
        axes.vlines(x[found], bottom[found], top[found], color=colour, linewidth=0.8)
        # An end that is out of sight, or infinite, is an arrow.
        for ends, beyond, marker in ((bottom, line.lower < low, 11), (top, line.upper > high, 10)):
            gone = found & beyond
            (arrow,) = axes.plot(x[gone], ends[gone], marker=marker, color=colour, linestyle="none")
            arrow.set(clip_on=False, in_layout=False)
        axes.plot(
            x[~found],
            np.full((~found).sum(), 0.02),
            marker="x",
            color=colour,
            linestyle="none",
            transform=axes.get_xaxis_transform(),
        )
    axes.set(ylim=(low, high), ylabel=shown(parameter))
    every = np.concatenate([line.estimate for line in lines])
    failed = int((~np.isfinite(every)).sum())
    text = "bars: each fit's interval, arrows: beyond; hollow: not identified"
    axes.set_title(text + (f"\n× {failed} of {every.size} choices not fitted" if failed else ""))


def _range(lines: list[Line]) -> tuple[float, float]:
    """What the axis shows: estimates, intervals of identified ones, and other ends that are not far."""
    estimates = [line.estimate for line in lines]
    ends = [np.concatenate([line.lower, line.upper]) for line in lines]
    sure = [end[np.tile(line.identified, 2)] for line, end in zip(lines, ends, strict=True)]
    seen = np.concatenate(estimates + sure)
    seen = seen[np.isfinite(seen)]
    if not seen.size:
        return 0.0, 1.0
    others = np.concatenate(ends)
    near = np.abs(others - (seen.min() + seen.max()) / 2) <= 1.5 * np.ptp(seen)
    every = np.concatenate([seen, others[near]])
    low, high = every.min(), every.max()
    pad = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return float(low - pad), float(high + pad)


def _plot_values(axes: Axes, lines: list[Line]) -> None:
    for place, line in enumerate(lines):
        found = np.isfinite(line.value)
        axes.plot(line.dropped[found], line.value[found], markerfacecolor="white", **_look(place))
        sure = found & line.identified
        axes.plot(line.dropped[sure], line.value[sure], **(_look(place) | {"linestyle": "none"}))
    every = np.concatenate([line.value for line in lines])
    every = every[np.isfinite(every)]
    if every.size and every.min() > 0 and every.max() > 5 * every.min():
        axes.set_yscale("log")
    axes.set(ylabel="objective at the optimum")
    axes.set_title("squares: mean over rows; Huber: sum over rows")


def draw(rows: Sequence[Mapping[str, Any]], parameter: str, out: Path, name: str) -> list[Path]:
    """Draw a scan of `parameter` as <out>/<name>.png and .pdf; returns the files written.

    Raises ValueError where there are no rows.
    """
    return _style.save(plot(compute(rows), parameter), out, name, f"{parameter} of {len(rows)} fits")
