"""Hidden states along depth in figures: what is drawn of a network, and the panels that draw it.

Symbols: layers ℓ, states S. Places are shares of the layers, from 0 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from figures import _style, _ticks

MARKERS = "os^Dv<>P"

LABELS = {
    "step_angle": "angle of a layer's step (rad)",
    "update_angle": "angle between updates (rad)",
    "norm": "norm of the state",
    "relative_progress": "share of the way to the last state",
    "angle_to_end": "angle to the last state (rad)",
}


class Curve(NamedTuple):
    """Along depth: places (n,), values (n,), and what their bars or band span, below and above (2, n)."""

    at: np.ndarray
    value: np.ndarray
    reach: np.ndarray | None = None


@dataclass(frozen=True)
class Line:
    """What is drawn of a network, or the mean of several.

    measures: those of LABELS; cosines: of updates 1, 2, … layers apart; readings: cross-entropy through the
    head and through the last layer, as far as known.
    """

    label: str
    measures: dict[str, Curve]
    cosines: np.ndarray
    readings: dict[str, Curve] = field(default_factory=dict)


class Shown(NamedTuple):
    """A line with its look."""

    line: Line
    colour: Any
    marker: str


def shown(lines: Sequence[Line]) -> list[Shown]:
    """Each with a colour and a marker of its own."""
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, max(len(lines), 2)))
    return [Shown(line, colours[i], MARKERS[i % len(MARKERS)]) for i, line in enumerate(lines)]


def along(axes: Axes, lines: Sequence[Shown], name: str, **look: Any) -> None:
    """A measure along depth."""
    for line, colour, marker in lines:
        at, value, reach = line.measures[name]
        axes.plot(at, value, color=colour, marker=marker, label=line.label, **look)
        if reach is not None:
            axes.fill_between(at, value - reach[0], value + reach[1], color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="share of the layers", ylabel=LABELS[name])


def angles(axes: Axes, lines: Sequence[Shown], name: str, levels: Sequence[float] = (), **look: Any) -> None:
    """Angles along depth, from 0, with some levels."""
    along(axes, lines, name, **look)
    for level in levels:
        axes.axhline(level, color=_style.GREY, lw=0.8, ls=":")
    axes.set_ylim(0, None)


def cosines(axes: Axes, lines: Sequence[Shown], **look: Any) -> None:
    """Cosines of updates by how many layers they are apart."""
    for line, colour, marker in lines:
        axes.plot(np.arange(1, len(line.cosines) + 1), line.cosines, color=colour, marker=marker, **look)
    axes.axhline(0, color=_style.GREY, lw=0.8, ls=":")
    axes.set(xlabel="layers between updates", ylabel="mean cosine of updates", ylim=(None, 1.05))


def losses(axes: Axes, lines: Sequence[Shown]) -> None:
    """Cross-entropy of states that the head reads (lines), or the last layer and the head (dots)."""
    drawn = False
    for line, colour, marker in lines:
        for name, dashes in (("head", "-"), ("layer", ":")):
            if name in line.readings:
                at, value, reach = line.readings[name]
                axes.errorbar(at, value, reach, color=colour, ls=dashes, marker=marker, ms=2)
                drawn = True
    axes.set(xlabel="share of the layers", ylabel="cross-entropy (nats a token)")
    axes.set_title("by head (line), last layer (dots); bars: 95 %" if drawn else "no model reads them out")


def clusters(
    axes: Axes, points: np.ndarray, label: np.ndarray, shares: Sequence[float], explained: Sequence[float]
) -> None:
    """Tokens (n, 2) in the plane of the first two components of their step angles, by cluster (n,)."""
    for number, share in enumerate(shares):
        chosen = points[label == number]
        colour = (_style.BLUE, _style.ORANGE, _style.GREEN, _style.RED)[number % 4]
        axes.plot(chosen[:, 0], chosen[:, 1], ".", ms=1.5, color=colour, label=f"{share:.2%}")
    first, second, *_ = (*explained, 0.0, 0.0)
    axes.set(xlabel=f"component 1 ({first:.0%} of variance)", ylabel=f"component 2 ({second:.0%})")
    axes.legend(markerscale=4)


def scaling(axes: Axes, depths: np.ndarray, steps: np.ndarray, exponent: float | None, **look: Any) -> None:
    """Mean steps of the middle layers against depth, and a power law through them."""
    axes.plot(depths, steps, ls="none", **look)
    if exponent is not None:
        grid = np.geomspace(depths.min(), depths.max(), 20)
        level = np.exp(np.mean(np.log(steps) + exponent * np.log(depths)))
        axes.plot(grid, level * grid**-exponent, color=look["color"], lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="layers", ylabel="mean step of the middle half (rad)")
    _ticks.at(axes, np.unique(depths))
    _ticks.plain(axes.yaxis)
