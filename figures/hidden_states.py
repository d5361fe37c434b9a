"""What hidden states say: angles and losses along depth, cosines of updates by lag, clusters, scaling.

    python -m figures.hidden_states results/probes/NAME --out DIR

Compare arXiv:2602.05970, the section on hidden states of language models. Takes seconds; reads what
`depthlaw probe` left.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _states, _style
from llm.probe import Probe
from sweeps._config import ConfigError
from sweeps._files import StoreError
from sweeps._terminal import fail
from sweeps.probes import Found, Verdict, load, verdicts

NAME = "hidden_states"

MOST = 8
"""Questions that are drawn; more could not be told apart."""


class Line:
    """The deepest networks of one question: the mean of their angles and cosines, and the losses and clusters
    of the first."""

    def __init__(self, verdict: Verdict, found: Sequence[Found], label: str) -> None:
        members = [one for one in found if one.question == verdict.question]
        self.label, self.verdict = label.replace("$", r"\$"), verdict
        self.probes = [one.probe for one in members if one.about["depth"] == verdict.depths[-1]]
        self.all = [(int(one.about["depth"]), one.probe.scalar("bulk_step").mean) for one in members]
        self.drawn = _states.Line(
            self.label,
            {"step_angle": self._curve("step_angle"), "update_angle": self._curve("update_angle")},
            self._mean("update_cosine"),
            _readings(self.probes[0]),
        )

    def _mean(self, name: str) -> np.ndarray:
        """Mean over networks of a measure."""
        return np.mean([probe.measures[name].mean for probe in self.probes], axis=0)

    def _curve(self, name: str) -> _states.Curve:
        """It, along depth: a step within its layer, an angle between updates where their layers meet."""
        values, probe = self._mean(name), self.probes[0]
        values = values[np.array(probe.layers)] if name == "step_angle" else values
        at = (np.arange(len(values)) + (0.5 if name == "step_angle" else 1.0)) / probe.depth
        return _states.Curve(at, values)


def _readings(probe: Probe) -> dict[str, _states.Curve]:
    """Losses of the first state and those that layers leave, with 95 %."""
    found = {}
    for name, reading in (("head", probe.head), ("layer", probe.layer)):
        if reading is not None:
            # What stands between recurrences has no place of its own along depth.
            places = [0, *(step + 1 for step in probe.layers if step + 1 < len(reading.loss))]
            reach = 1.96 * reading.standard_error[places]
            at = np.arange(len(places)) / probe.depth
            found[name] = _states.Curve(at, reading.loss[places], np.stack([reach, reach]))
    return found


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
        shown = _states.shown([line.drawn for line in lines])
        _states.angles(panels[0, 0], shown, "step_angle")
        _states.angles(panels[0, 1], shown, "update_angle", (np.pi / 2, np.pi / 3))
        _states.cosines(panels[0, 2], shown)
        _states.losses(panels[1, 0], shown)
        _clusters(panels[1, 1], lines[0])
        _scaling(panels[1, 2], lines, shown)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        if len(lines) < questions:
            figure.suptitle(f"the first {len(lines)} of {questions} questions")
        figure.legend(handles, labels, loc="outside lower center", ncols=min(2, len(lines)))
    return figure


def _clusters(axes: Axes, line: Line) -> None:
    found = line.probes[0].clusters
    step = line.probes[0].sampled["step_angle"][:, np.array(line.probes[0].layers)]
    points = found.components.points(step)
    points = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    _states.clusters(axes, points, found.label, list(found.shares), list(found.components.explained))
    axes.set_title(f"tokens by step angles: {line.label[:40]}")


def _scaling(axes: Axes, lines: Sequence[Line], shown: Sequence[_states.Shown]) -> None:
    for line, (_, colour, marker) in zip(lines, shown, strict=True):
        depth, step = np.array(line.all).T
        fitted = line.verdict.step_fit
        exponent = None if fitted is None else fitted.estimates["alpha"]
        _states.scaling(axes, depth, step, exponent, color=colour, marker=marker)
    several = any(line.verdict.step_fit is not None for line in lines)
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
