"""Hidden states of language models, from kept tables: by depth, by recurrences, of a pretrained one.

    depthlaw figures hidden_states_depth hidden_states_looped hidden_states_smollm2

Angles of steps and updates, cosines of updates, norms, the way to the last state, losses read out along
depth; and how steps scale with depth, what recurrences gain, or clusters of tokens. Compare
arXiv:2602.05970, the section on hidden states of language models. `depthlaw probe` draws the same of any
folder (hidden_states.py).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _states, _style, _ticks
from figures._caption import caption
from figures._catalogue import Drawing
from figures._lines import ends, line_of, lines_by, load, recurrence_ends, step_fit
from figures._states import Line, Shown
from sweeps._formats import read_table

Panel = Callable[[Axes, Sequence[Shown]], None]

PAPER = "Paper: Pythia 410M to 12B, Qwen-2.5 and OPT, 1024 tokens of each of 4800 web documents."
NAME = "hidden_states_"
QUARTER = np.pi / 2


def plot(lines: Sequence[Line], further: Sequence[Panel], told: str) -> Figure:
    """The measures that all figures have, and further panels."""
    with _style.style():
        shown = _states.shown(lines)
        if len(lines) == 1:
            shown = [shown[0]._replace(colour=_style.BLUE)]
        panels: list[Panel] = [
            lambda axes, shown: _states.angles(axes, shown, "step_angle", (QUARTER,), ms=3),
            lambda axes, shown: _states.angles(axes, shown, "update_angle", (QUARTER,), ms=3),
            lambda axes, shown: _states.cosines(axes, shown, ms=3),
            lambda axes, shown: _states.along(axes, shown, "norm", ms=3),
            lambda axes, shown: _states.along(axes, shown, "relative_progress", ms=3),
            lambda axes, shown: _states.angles(axes, shown, "angle_to_end", ms=3),
            _losses,
            *further,
        ]
        columns = 3 if len(panels) > 8 else 4
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(3.1 * columns, 0.6 + 2.7 * rows), layout="constrained")
        for axes, panel in zip(figure.subplots(rows, columns).flat, panels, strict=False):
            panel(axes, shown)
        if len(lines) > 1:
            figure.axes[0].legend(fontsize=6.5, loc="best")
        caption(figure, f"{told} {PAPER} Dotted: π/2, or 0.")
        return figure


def _losses(axes: Axes, shown: Sequence[Shown]) -> None:
    _states.losses(axes, shown)
    axes.set_yscale("log")
    _ticks.plain(axes.yaxis)
    axes.set_title("read by head (line), last layer and head (dots)", fontsize=8)


def scaling_panel(networks: pl.DataFrame) -> Panel:
    """Steps of the middle half against depth."""
    found = step_fit(networks)
    gamma, (low, high) = found.estimates["alpha"], found.intervals["alpha"]

    def panel(axes: Axes, shown: Sequence[Shown]) -> None:
        depths, steps = (networks[name].to_numpy().astype(float) for name in ("depth", "bulk_step"))
        _states.scaling(axes, depths, steps, gamma, color=_style.BLUE, marker="o", fillstyle="none")
        line = np.array([depths.min(), depths.max()])
        axes.plot(line, steps[depths == line[0]].mean() * line[0] / line, color=_style.GREY, ls=":", lw=0.9)
        axes.set_title(f"exponent −{gamma:.2f} [−{high:.2f}, −{low:.2f}]; dotted: −1", fontsize=8)

    return panel


def ends_panel(states: pl.DataFrame) -> Panel:
    """Steps of the first layers and the last one against depth."""

    def panel(axes: Axes, shown: Sequence[Shown]) -> None:
        looks = ((_style.BLUE, "o"), (_style.GREEN, "^"), (_style.RED, "s"))
        for (name, (depths, steps)), (colour, marker) in zip(ends(states).items(), looks, strict=True):
            axes.plot(depths, steps, color=colour, marker=marker, label=f"{name} layer")
        axes.axhline(QUARTER, color=_style.GREY, lw=0.8, ls=":")
        axes.set(xscale="log", xlabel="layers", ylabel="angle of the layer's step (rad)", ylim=(0, 2.2))
        _ticks.at(axes, depths)
        axes.legend(fontsize=6.5, loc="upper right", ncols=3, columnspacing=0.8, handlelength=1)

    return panel


def recurrence_panel(states: pl.DataFrame) -> Panel:
    """What the last layer and the head read at the end of each recurrence."""

    def panel(axes: Axes, shown: Sequence[Shown]) -> None:
        read = recurrence_ends(states).values()
        for (done, loss, error), (_, colour, marker) in zip(read, shown, strict=True):
            axes.errorbar(done, loss, 1.96 * error, color=colour, marker=marker, ms=3)
        axes.set(xlabel="recurrences done", ylabel="cross-entropy (nats a token)")
        axes.set_title("through last layer and head; bars: 95 %", fontsize=8)

    return panel


def clusters_panel(tokens: pl.DataFrame) -> Panel:
    """Tokens in the plane of two components of their step angles."""

    def panel(axes: Axes, shown: Sequence[Shown]) -> None:
        shares = tokens.unique("cluster").sort("cluster")["share"].to_list()
        points = tokens.select("component_1", "component_2").to_numpy()
        explained = [tokens[f"explained_{k}"][0] for k in (1, 2)]
        _states.clusters(axes, points, tokens["cluster"].to_numpy(), shares, explained)
        axes.set_title(f"{len(tokens):,} tokens by their step angles", fontsize=8)

    return panel


def _told(networks: pl.DataFrame, states: pl.DataFrame, name: str) -> str:
    """Of what the figure is."""
    seeds, width = states["seed"].n_unique(), states["width"][0]
    trained = "pretrained" if "model" in networks.columns else f"{seeds} seed{'s' if seeds > 1 else ''}"
    tokens = max(networks["tokens"].to_list())
    return f"{name}: width {width}, {trained}, {tokens:,} tokens a network; losses with 95 % over documents."


def draw_depths(files: Sequence[Path], out: Path) -> list[Path]:
    """A line for each depth."""
    networks, states = load(files[0], files[1])
    lines = lines_by(networks, states, "depth", "{} layers")
    further = (scaling_panel(networks), ends_panel(states))
    figure = plot(lines, further, _told(networks, states, files[0].stem))
    return _style.save(figure, out, f"{NAME}depth", f"probes {files[0].stem}")


def draw_recurrences(files: Sequence[Path], out: Path) -> list[Path]:
    """A line for each number of recurrences."""
    networks, states = load(files[0], files[1])
    lines = lines_by(networks, states, "num_recur", "r = {}")
    told = f"{_told(networks, states, files[0].stem)} Budget {states['budget'][0]:.3g} FLOPs."
    figure = plot(lines, (recurrence_panel(states),), told)
    return _style.save(figure, out, f"{NAME}looped", f"probes {files[0].stem}")


def draw_pretrained(files: Sequence[Path], out: Path) -> list[Path]:
    """One pretrained model."""
    networks, states = load(files[0], files[1])
    model = str(networks["model"][0])
    told = f"{_told(networks, states, model)} Bands: 5 to 95 % of the tokens."
    line = line_of(networks, states, model, band=True)
    figure = plot([line], (clusters_panel(read_table(files[2])),), told)
    return _style.save(figure, out, f"{NAME}smollm2", f"probe of {model}")


COMPARE = "arXiv:2602.05970, hidden states of language models"

DRAWINGS = (
    Drawing(
        f"{NAME}depth",
        "hidden states along depth of plain models of 4 to 32 layers; how steps scale with depth",
        COMPARE,
        ("llm_cpu_depths_probe.csv", "llm_cpu_depths_states.parquet"),
        draw_depths,
    ),
    Drawing(
        f"{NAME}looped",
        "the same of looped models by recurrences r, and what each recurrence gains",
        COMPARE,
        ("llm_cpu_probe.csv", "llm_cpu_states.parquet"),
        draw_recurrences,
    ),
    Drawing(
        f"{NAME}smollm2",
        "the same of SmolLM2-135M, and clusters of its tokens",
        COMPARE,
        ("smollm2_probe.csv", "smollm2_states.parquet", "smollm2_tokens.parquet"),
        draw_pretrained,
    ),
)
