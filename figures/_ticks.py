"""Ticks of log axes that are too short for powers of ten."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator


def plain(axis: Axis) -> None:
    """Plain numbers, the more the shorter the axis is; called once all is drawn."""
    low, high = axis.get_view_interval()
    short = high < 12 * low
    axis.set_major_locator(
        LogLocator(subs=(1, 1.5, 2, 3, 4, 6) if short else (1, 3) if high < 99 * low else (1,))
    )
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    if short:
        axis.set_minor_locator(NullLocator())


def at(axes: Axes, depths: Iterable[float]) -> None:
    """A tick of the x axis at each depth that is not too near the one before."""
    shown: list[float] = []
    for depth in depths:
        if not shown or depth >= 1.25 * shown[-1]:
            shown.append(float(depth))
    axes.set_xticks(shown, [f"{depth:g}" for depth in shown])
    axes.xaxis.minorticks_off()
