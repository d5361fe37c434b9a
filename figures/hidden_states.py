"""What hidden states say: angles and losses along depth, cosines of updates by lag, clusters, scaling.

    python -m figures.hidden_states results/probes/NAME --out DIR

Compare arXiv:2602.05970, the section on hidden states of language models. Takes seconds; reads what
`depthlaw probe` left.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from sweeps._config import ConfigError
from sweeps._files import StoreError
from sweeps._terminal import fail
from sweeps.probes import Found, Verdict, load, verdicts

NAME = "hidden_states"

MOST = 8
"""Questions that are drawn; more could not be told apart."""

MARKERS = "os^Dv<>P"


class Line:
    """The deepest networks of one question: the mean of their angles and cosines, and the losses and clusters
    of the first."""

    def __init__(self, verdict: Verdict, found: Sequence[Found], label: str) -> None:
        members = [one for one in found if one.question == verdict.question]
        self.label, self.verdict = label.replace("$", r"\$"), verdict
        self.probes = [one.probe for one in members if one.about["depth"] == verdict.depths[-1]]
        self.all = [(int(one.about["depth"]), one.probe.scalar("bulk_step").mean) for one in members]

    def mean(self, name: str) -> np.ndarray:
        """Mean over networks of a measure."""
        return np.mean([probe.measures[name].mean for probe in self.probes], axis=0)


def lines_of(found: Sequence[Found], judged: Sequence[Verdict]) -> list[Line]:
    """The first MOST questions, named by what they differ in."""
    told = judged[:MOST]
    names = list(dict.fromkeys(name for one in told for name in one.question))
    differ = [name for name in names if len({str(one.question.get(name)) for one in told}) > 1]
    differ = [name for name in differ if name != "config"]
    found_lines = []
    for one in told:
        known = {name: one.question[name] for name in differ if one.question.get(name) is not None}
        named = [f"{name} {_plain(value)}" for name, value in known.items()]
        found_lines.append(Line(one, found, ", ".join(named) or str(one.question.get("network", "network"))))
    return found_lines


def plot(lines: Sequence[Line], questions: int) -> Figure:
    """Six panels, of some of so many questions."""
    with _style.style():
        figure = Figure(figsize=(10, 6.2), layout="constrained")
        panels = figure.subplots(2, 3)
        colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, max(len(lines), 2)))
        shown = [(line, colours[i], MARKERS[i % len(MARKERS)]) for i, line in enumerate(lines)]
        _along(panels[0, 0], shown, "step_angle", "angle of a layer's step (rad)")
        _along(panels[0, 1], shown, "update_angle", "angle between updates (rad)")
        for level in (np.pi / 2, np.pi / 3):
            panels[0, 1].axhline(level, color=_style.GREY, lw=0.8, ls=":")
        _cosines(panels[0, 2], shown)
        _losses(panels[1, 0], shown)
        _clusters(panels[1, 1], shown[0][0])
        _scaling(panels[1, 2], shown)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        if len(lines) < questions:
            figure.suptitle(f"the first {len(lines)} of {questions} questions")
        figure.legend(handles, labels, loc="outside lower center", ncols=min(2, len(lines)))
    return figure


def _along(axes: Axes, shown: Sequence[Any], name: str, label: str) -> None:
    for line, colour, marker in shown:
        values = line.mean(name)
        probe = line.probes[0]
        values = values[np.array(probe.layers)] if name == "step_angle" else values
        at = (np.arange(len(values)) + (0.5 if name == "step_angle" else 1.0)) / probe.depth
        axes.plot(at, values, color=colour, marker=marker, label=line.label)
    axes.set(xlabel="share of the layers", ylabel=label, ylim=(0, None))


def _cosines(axes: Axes, shown: Sequence[Any]) -> None:
    for line, colour, marker in shown:
        values = line.mean("update_cosine")
        axes.plot(np.arange(1, len(values) + 1), values, color=colour, marker=marker)
    axes.axhline(0, color=_style.GREY, lw=0.8, ls=":")
    axes.set(xlabel="layers between updates", ylabel="mean cosine of updates", ylim=(None, 1.05))


def _losses(axes: Axes, shown: Sequence[Any]) -> None:
    drawn = False
    for line, colour, marker in shown:
        probe = line.probes[0]
        for reading, dashes in ((probe.head, "-"), (probe.layer, ":")):
            if reading is not None:
                # What stands between recurrences has no place of its own along depth.
                places = [0, *(step + 1 for step in probe.layers if step + 1 < len(reading.loss))]
                at = np.arange(len(places)) / probe.depth
                reach = 1.96 * reading.standard_error[places]
                axes.errorbar(at, reading.loss[places], reach, color=colour, ls=dashes, marker=marker, ms=2)
                drawn = True
    axes.set(xlabel="share of the layers", ylabel="cross-entropy (nats a token)")
    axes.set_title("by head (line), last layer (dots); bars: 95 %" if drawn else "no model reads them out")


def _clusters(axes: Axes, line: Line) -> None:
    found = line.probes[0].clusters
    step = line.probes[0].sampled["step_angle"][:, np.array(line.probes[0].layers)]
    points = found.components.points(step)
    points = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    for number, share in enumerate(found.shares):
        chosen = points[found.label == number]
        colour = (_style.BLUE, _style.ORANGE, _style.GREEN, _style.RED)[number % 4]
        axes.plot(chosen[:, 0], chosen[:, 1], ".", ms=1.5, color=colour, label=f"{share:.2%}")
    explained = np.pad(found.components.explained, (0, 2))
    axes.set(
        xlabel=f"component 1 ({explained[0]:.0%} of variance)", ylabel=f"component 2 ({explained[1]:.0%})"
    )
    axes.set_title(f"tokens by step angles: {line.label[:40]}")
    axes.legend(markerscale=4)


def _scaling(axes: Axes, shown: Sequence[Any]) -> None:
    several = False
    for line, colour, marker in shown:
        depth, step = np.array(line.all).T
        axes.plot(depth, step, ls="none", color=colour, marker=marker)
        if line.verdict.step_fit is not None:
            several = True
            grid = np.geomspace(depth.min(), depth.max(), 20)
            exponent = line.verdict.step_fit.estimates["alpha"]
            level = np.exp(np.mean(np.log(step) + exponent * np.log(depth)))
            axes.plot(grid, level * grid**-exponent, color=colour, lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="layers", ylabel="mean step of the middle half (rad)")
    axes.set_title("line: power law fitted" if several else "no three depths to compare")


def _plain(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def draw(found: Sequence[Found], judged: Sequence[Verdict], out: Path, name: str = NAME) -> list[Path]:
    """Draw it; the files that were written."""
    networks = f"{len(found)} networks"
    return _style.save(plot(lines_of(found, judged), len(judged)), out, name, f"depthlaw probe: {networks}")


def main(
    folder: Annotated[Path, typer.Argument(help="Folder that `depthlaw probe` left.")],
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("results/figures"),
) -> None:
    """Draw what a folder of probes holds."""
    try:
        found = load(folder)
        for path in draw(found, verdicts(found), out):
            print(path)
    except (ConfigError, StoreError) as error:
        fail(str(error), 1)


if __name__ == "__main__":
    typer.run(main)
