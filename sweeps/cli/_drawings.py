"""Which figures suit a sweep, drawn for its page; each that cannot be drawn is a sentence."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps._headline import named
from sweeps._page import Drawing
from sweeps._spec import NO_LAW, FitSpec

if TYPE_CHECKING:
    import polars as pl

    from sweeps._conclusion import Conclusion
    from sweeps._report import Answer

MOST_DRAWN = 4
"""Figures of one kind."""

DRIFTING = "drifting"
"""The teacher that a phase diagram is of."""

OF_PHASES = ("teacher", "correlation_length", "steps")
"""Columns that a phase diagram spans, or has one value of."""


class _Drawer:
    """Draws one figure after the other, each with ids of its own."""

    def __init__(self) -> None:
        self.drawn: list[Drawing] = []
        self.undrawn: list[str] = []

    def draw(self, what: str, make: Callable[[], tuple[Any, str, str]], command: str) -> None:
        """make: gives a figure, what is seen on it, and what it is."""
        from figures import _style

        try:
            figure, alt, caption = make()
            text = _style.svg(figure, f"figure-{len(self.drawn) + 1}")
        except Exception as error:  # a page without one of its figures is worth more than none
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self.undrawn.append(f"{what} could not be drawn: {kind}{error}")
            return
        self.drawn.append(Drawing(text, alt, caption, command))


def drawings(
    folder: Path, rows: "pl.DataFrame", asked: FitSpec, kind: str, concluded: "Conclusion"
) -> tuple[tuple[Drawing, ...], tuple[str, ...]]:
    """The figures of a sweep, and why there are no others."""
    drawer = _Drawer()
    where = shlex.quote(f"results/{folder.name}")
    if rows.is_empty():
        return (), ("No figure without a row.",)
    if kind == "toy":
        _of_toy(drawer, folder, rows, asked, where)
    if concluded.grid is not None:
        grid = concluded.grid
        drawer.draw("The iso-depth figure", partial(_iso_depth, grid), f"python -m figures.iso_depth {where}")
    fitted = [one for one in concluded.found if one.fit is not None]
    if len(fitted) > MOST_DRAWN:
        drawer.draw("The estimates", partial(_estimates, fitted), f"python -m figures.estimates {where}")
    if 0 < len(fitted) <= MOST_DRAWN:
        for one in fitted:
            told = f"The fit of {named(one.condition) or 'all rows'}"
            drawer.draw(told, partial(_law_fit, one, rows), f"depthlaw fit {where} --plot fit.png")
    elif fitted:
        drawer.undrawn.append(
            f"{len(fitted)} fits are too many to draw each here: depthlaw fit {where} --plot fit.png"
        )
    if asked.law == NO_LAW and not drawer.drawn:
        drawer.undrawn.append("A sweep without a law has no figure of its own.")
    return tuple(drawer.drawn), tuple(drawer.undrawn)


def _of_toy(drawer: _Drawer, folder: Path, rows: "pl.DataFrame", asked: FitSpec, where: str) -> None:
    if rows["correlation_length"].n_unique() < 2 or set(rows["teacher"]) != {DRIFTING}:
        command = f"python -m figures.inverse_depth_toy {where}"
        drawer.draw("The figure of the teachers", partial(_teachers, folder), command)
        return
    others = [name for name in asked.by if name not in OF_PHASES and rows[name].n_unique() > 1]
    every = rows.select(others).unique(maintain_order=True).rows() if others else [()]
    for values in every[:MOST_DRAWN]:
        only = [f"{name}={value}" for name, value in zip(others, values, strict=True)]
        options = "".join(f" --only {shlex.quote(one)}" for one in only)
        command = f"python -m figures.phase_diagram {where}{options}"
        what = "The phase diagram" + (f" of {', '.join(only)}" if only else "")
        drawer.draw(what, partial(_phases, folder, only), command)
    if len(every) > MOST_DRAWN:
        drawer.undrawn.append(f"{len(every) - MOST_DRAWN} more phase diagrams are left out.")


def _teachers(folder: Path) -> tuple[Any, str, str]:
    from figures import inverse_depth_toy as figure

    panels = figure.compute(figure.load(folder))
    found = []
    for panel in panels:
        low, high = panel.fit.intervals["alpha"]
        alpha = panel.fit.estimates["alpha"]
        found.append(f"{panel.teacher} teacher α = {alpha:.2f} [{low:.2f}, {high:.2f}]")
    depths = panels[0].depths
    alt = f"Four panels. Loss falls with depth from {depths[0]} to {depths[-1]} layers: {'; '.join(found)}."
    caption = (
        "Held-out loss against the students' depth with the fitted law, the exponent over training, and the "
        "angles between updates and between states along depth. Of several settings of a teacher: the "
        "longest training, highest rho, correlation length and temperature."
    )
    return figure.plot(panels), alt, caption


def _phases(folder: Path, only: Sequence[str]) -> tuple[Any, str, str]:
    from figures import phase_diagram as figure

    found = figure.compute(figure.load(folder, only))
    alphas = [one.alpha for one in found.conditions]
    alt = (
        f"Three panels. The exponent α of {len(found.lengths)} correlation lengths and {len(found.times)} "
        f"training times lies between {min(alphas):.2f} and {max(alphas):.2f}."
    )
    caption = (
        "The exponent by correlation length λ of the teacher's weights and by training; the local exponent "
        "against student layers a correlation length; the exponent against the angle between the teacher's "
        "updates."
    )
    if found.crossover is not None and found.crossover.trusted and found.crossover.identified:
        bend, (low, high) = found.crossover.estimates["l_x"], found.crossover.intervals["l_x"]
        caption += f" One law for all lengths bends at {bend:.2g} [{low:.2g}, {high:.2g}] layers a length."
    if only:
        caption = f"{', '.join(only)}. {caption}"
    return figure.plot(found), alt, caption


def _estimates(found: "Sequence[Answer]") -> tuple[Any, str, str]:
    from figures import estimates as figure

    lines = figure.compute(found)
    name = lines.parameters[0]
    values = [one.values[name][0] for one in lines.lines]
    alt = (
        f"{len(values)} estimates of {name}, from {min(values):.3g} to {max(values):.3g}, a line a condition."
    )
    caption = (
        "The estimate of every condition with its interval; hollow: not bounded by the rows, or not to be "
    )
    caption += "trusted." + (" Dotted: what theory expects, 1 and 3." if lines.predictions else "")
    caption += f" {lines.hidden} more are not drawn." if lines.hidden else ""
    return figure.plot(lines), alt, caption


def _iso_depth(grid: Any) -> tuple[Any, str, str]:
    from figures import iso_depth as figure

    panels = figure.compute(grid)
    alt = (
        f"Loss against parameters at {len(panels.profiles)} budgets, then the frontier, the joint law "
        f"against the losses, and its residuals: {panels.title}; {panels.fitted}."
    )
    caption = "Iso-FLOP profiles of every budget; the frontier; the joint law's fit and its residuals."
    return figure.plot(panels), alt, caption


def _law_fit(answer: "Answer", rows: "pl.DataFrame") -> tuple[Any, str, str]:
    import polars as pl

    from figures import law_fit as figure

    assert answer.fit is not None
    mine = rows.filter(pl.col("status").ne_missing("diverged"))
    for column, value in answer.condition.items():
        mine = mine.filter(pl.col(column).eq_missing(value))
    panels = figure.compute(answer.fit, mine)
    where = named(answer.condition)
    caption = "The law against the rows, what is left over, and how well its parameters are known."
    return (
        figure.plot(answer.fit, panels),
        f"{f'{where}: ' if where else ''}{figure.title(answer.fit)}.",
        f"{where}: {caption[0].lower()}{caption[1:]}" if where else caption,
    )
