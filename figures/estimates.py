"""What the law is fitted for, of every condition of a sweep side by side, with intervals.

    python -m figures.estimates results/phase-rho-2core --out results/phase-rho-2core

A line for each combination of the columns that the spec's [fit] names, and a panel for each parameter of the
law's headline. Of the depth law (arXiv:2602.05970) dotted lines are the two predictions, 1 and 3. Takes
seconds; reads what `depthlaw run` recorded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._catalogue import Drawing
from sweeps._config import ConfigError
from sweeps._headline import SYMBOLS, common, named, ordered
from sweeps._report import Answer, answers, question_of
from sweeps._source import open_source
from sweeps._spec import NO_LAW, load_spec, preset_names
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail
from sweeps.laws import DepthLaw

NAME = "estimates"
MOST = 60  # conditions: more lines cannot be read
INCHES = 0.19  # of a line
PREDICTIONS = (1.0, 3.0)


@dataclass(frozen=True)
class Line:
    """One condition: its `name`, estimates with intervals by parameter, whether each can be relied on."""

    name: str
    values: dict[str, tuple[float, float, float]]
    sure: dict[str, bool]


@dataclass(frozen=True)
class Lines:
    """All that is drawn: `shared` what all conditions have in common, `hidden` the number of those beyond
    MOST and of those without a fit, `predictions` of the law's headline."""

    lines: tuple[Line, ...]
    parameters: tuple[str, ...]
    shared: str
    hidden: int
    predictions: tuple[float, ...]
    confidence: float


def load(source: Path) -> list[Answer]:
    """A fit for each condition that the sweep's spec asks for: a folder's own, or of a kept table the preset
    that has its name.

    Raises ConfigError where there is no spec, or it asks for no fit.
    """
    opened = open_source(source, "depth")
    asked = opened.spec
    if asked is None and source.stem in preset_names():
        asked = load_spec(source.stem).fit
    if asked is None or asked.law == NO_LAW:
        raise ConfigError(
            f"{source} is no folder of results, or table of a preset, whose spec asks for a fit"
        )
    return answers(opened.table, question_of(asked))


def compute(found: Sequence[Answer]) -> Lines:
    """The lines of fits, in their order. Raises ConfigError where there is none."""
    fitted = [one for one in ordered(found) if one.fit is not None]
    if not fitted:
        raise ConfigError("no condition has a fit, so there is nothing to draw")
    shared, law = common(fitted), fitted[0].law
    lines = []
    for one in fitted[:MOST]:
        assert one.fit is not None
        parameters = {name: one.fit.parameters[name] for name in law.headline}
        lines.append(
            Line(
                named(one.condition, tuple(shared)),
                {name: (p.estimate, *p.interval) for name, p in parameters.items()},
                {name: one.trusted and p.identified for name, p in parameters.items()},
            )
        )
    predictions = PREDICTIONS if isinstance(law, DepthLaw) else ()
    hidden = len(found) - len(lines)
    confidence = fitted[0].fit.confidence if fitted[0].fit else math.nan
    return Lines(tuple(lines), law.headline, named(shared), hidden, predictions, confidence)


def plot(lines: Lines) -> Figure:
    """The figure: a panel for each parameter, the conditions from top to bottom."""
    wide = len(lines.parameters)
    with _style.style():
        figure = Figure(figsize=(3.2 + 3.2 * wide, 1.1 + INCHES * len(lines.lines)), layout="constrained")
        panels = figure.subplots(1, wide, sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, lines.parameters, strict=True):
            _plot(axes, lines, name)
        panels[0].set_yticks(range(len(lines.lines)), [_plain(one.name) for one in lines.lines])
        panels[0].set_ylim(len(lines.lines) - 0.5, -0.5)
        figure.suptitle(_plain(lines.shared), fontsize=9)
        return figure


def _plain(text: str) -> str:
    """A text that is not read as mathematics, whatever its dollars."""
    return text.replace("$", r"\$")


def _plot(axes: Axes, lines: Lines, name: str) -> None:
    values = [one.values[name] for one in lines.lines if all(map(math.isfinite, one.values[name]))]
    for place, one in enumerate(lines.lines):
        value, low, high = one.values[name]
        face = _style.BLUE if one.sure[name] else "white"
        axes.plot([low, high], [place, place], color=_style.BLUE, linewidth=1.2, alpha=0.7)
        axes.plot(value, place, marker="o", markerfacecolor=face, color=_style.BLUE)
    for at in lines.predictions:
        axes.axvline(at, color=_style.GREY, linewidth=0.9, linestyle=":")
    if values:  # an interval that is far wider than all others leaves the picture
        centre = [value for value, _, _ in values] + list(lines.predictions)
        reach = max(max(centre) - min(centre), 0.1 * abs(max(centre)), 1e-9)
        axes.set_xlim(
            max(min(min(low for _, low, _ in values), min(centre)), min(centre) - reach) - 0.04 * reach,
            min(max(max(high for _, _, high in values), max(centre)), max(centre) + reach) + 0.04 * reach,
        )
    axes.set_xlabel(f"{SYMBOLS.get(name, name)} ({100 * lines.confidence:g} % intervals)")
    axes.grid(axis="y", linewidth=0.3)
    axes.tick_params(axis="y", length=0)


def draw(source: Path, out: Path, name: str = NAME) -> list[Path]:
    """Draw the figure of a sweep into the folder `out`; returns the files written."""
    return _style.save(plot(compute(load(source))), out, name, f"depthlaw sweep {source.name}")


DRAWINGS = tuple(
    Drawing(
        name,
        shows,
        "this project's own",
        (f"{preset}.csv",),
        lambda files, out, name=name: draw(files[0], out, name),  # type: ignore[misc]
    )
    for name, preset, shows in (
        (
            "phase_rho",
            "phase-rho-2core",
            "exponent against rho, the correlation of layers that share weights",
        ),
        ("phase_temperature", "phase-temperature-2core", "exponent by correlation length and temperature"),
    )
)


def main(
    results: Annotated[Path, typer.Argument(help="Folder of results, or the kept table of a preset.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(results, out):
            print(path)
    except (ConfigError, StoreError, BadTable) as error:
        fail(f"{NAME}: {error}", 1)


if __name__ == "__main__":
    typer.run(main)
