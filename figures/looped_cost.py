"""What a looped model has and costs, by r: parameters and FLOPs of the paper's models, and what it printed.

    python -m figures.looped_cost --out results/figures

Compare arXiv:2604.21106, its tables of sizes and tokens and its ratios of parameters and FLOPs. No run is
needed: all of it is the accounting of `llm`. Symbols: recurrences r, of which k = ceil(r / 2) keep gradients
under truncated backpropagation, width d, unique parameters N, tokens D, budget C.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import looks, wrapped
from figures.iso_depth import _log_sizes
from llm import ModelConfig, count_params, forward_flops, total, training_flops
from sweeps.laws._law import Array

NAME = "looped_cost"
HALF = 0.5  # of the last printed digit

SPREAD = 1.012  # so far apart, in width, are the marks of one r and the next

CAPTION = (
    "Left: filled, at the paper's smallest width; hollow, at its largest. Executed: N_once + r N_rec, "
    "which counts an injection in each recurrence; effective: N_once + r^φ N_rec. The example leaves the "
    "injection out of the effective 0.58, but not of the unique 0.41: with it, 0.59. FLOPs: context 2048, "
    "32 064 words, attention in full. Right: squares, the printed sizes; the paper prints one column of "
    "tokens for all r, and bars are its rounding."
)


@dataclass(frozen=True)
class Counts:
    """Of the paper's models: `widths` (W,) and `recurrences` (R,); parameters `unique`, `executed` and, by
    the published phi, `effective`; FLOPs a token in `training`, `truncated` training and `inference`; (W, R)
    each."""

    widths: Array
    recurrences: tuple[int, ...]
    unique: Array
    executed: Array
    effective: Array
    training: Array
    truncated: Array
    inference: Array

    def ratio(self, name: str) -> Array:
        """A count over that of r = 1, (W, R)."""
        values = getattr(self, name)
        return np.asarray(values / values[:, :1])


@dataclass(frozen=True)
class Tokens:
    """What the accounting buys with a budget over what the paper printed, less 1, of one r: at `width` (n,),
    `excess` (n,) and what rounding leaves open, `reach` (n,)."""

    num_recur: int
    width: Array
    excess: Array
    reach: Array


def model(width: int, num_recur: int, truncated: bool = False) -> ModelConfig:
    """One of the paper's models."""
    kept = -(-num_recur // 2) if truncated else None
    return ModelConfig(width=width, head_size=paper.HEAD_SIZE, num_recur=num_recur, backprop_recurrences=kept)


def compute() -> tuple[Counts, list[Tokens]]:
    """Counts of every width and r, and tokens against the published column."""
    phi, sizes = paper.PHI["all"][0], sorted(paper.NUM_PARAMS)
    names = ("unique", "executed", "effective", "training", "truncated", "inference")
    table = np.empty((len(names), len(sizes), len(paper.RECURRENCES)))
    for i, s in enumerate(sizes):
        for j, r in enumerate(paper.RECURRENCES):
            whole, half = model(64 * s, r), model(64 * s, r, truncated=True)
            count = count_params(whole, paper.VOCABULARY)
            flops = [training_flops(one, paper.CONTEXT, paper.VOCABULARY) for one in (whole, half)]
            table[:, i, j] = (
                count.num_params,
                count.num_effective(r),
                count.num_once + r**phi * count.num_recurrent,
                *map(total, flops),
                total(forward_flops(whole, paper.CONTEXT, paper.VOCABULARY)),
            )
    widths = 64.0 * np.array(sizes)
    counts = Counts(widths, paper.RECURRENCES, *table)
    return counts, [_tokens(counts, j) for j in range(len(paper.RECURRENCES))]


def _tokens(counts: Counts, place: int) -> Tokens:
    rows = []
    for i, s in enumerate(sorted(paper.NUM_TOKENS)):
        for budget, printed in zip(paper.BUDGETS, paper.NUM_TOKENS[s], strict=True):
            if printed is not None:
                ours = budget / counts.training[i, place] / 1e9
                rows.append((counts.widths[i], ours / printed - 1, ours / printed * HALF * 0.01 / printed))
    return Tokens(counts.recurrences[place], *np.array(rows).T)


def plot(counts: Counts, tokens: list[Tokens]) -> Figure:
    """The figure: ratios of parameters, ratios of FLOPs, unique parameters and tokens as published."""
    sizes = {
        "executed": ("executed", _style.GREY, "^"),
        "effective": (f"effective, φ = {paper.PHI['all'][0]}", _style.ORANGE, "s"),
        "unique": ("unique", _style.BLUE, "o"),
    }
    costs = {
        "training": ("training, and inference: a third of it", _style.BLUE, "o"),
        "truncated": ("training, half of the recurrences keep gradients", _style.RED, "v"),
    }
    worked = {"linestyle": "none", "color": "black", "marker": "x", "markersize": 7, "zorder": 4}
    with _style.style():
        figure = Figure(figsize=(9.6, 6.2), layout="constrained")
        grid = figure.subplots(2, 2)
        _plot_ratios(grid[0, 0], counts, sizes, "parameters / those of r = 1")
        _plot_ratios(grid[1, 0], counts, costs, "FLOPs a token / those of r = 1")
        grid[0, 0].plot([4, 4], [paper.UNIQUE, paper.EFFECTIVE], label="the paper's example", **worked)
        for axes, title in zip(
            grid.ravel(),
            (
                "Parameters",
                "Unique parameters: ours, and squares: published",
                "FLOPs",
                "Tokens that a budget buys",
            ),
            strict=True,
        ):
            axes.set_title(title)
        grid[0, 0].legend(loc="lower left")
        grid[1, 0].legend(loc="center left", bbox_to_anchor=(0, 0.4))
        _plot_sizes(grid[0, 1], counts)
        _plot_tokens(grid[1, 1], tokens)
        figure.supxlabel(wrapped(CAPTION, 190), fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_ratios(axes: Axes, counts: Counts, series: dict[str, tuple[str, str, str]], label: str) -> None:
    for name, (said, colour, marker) in series.items():
        ratio = counts.ratio(name)
        axes.plot(counts.recurrences, ratio[0], color=colour, marker=marker, label=said)
        axes.plot(counts.recurrences, ratio[-1], color=colour, marker=marker, markerfacecolor="white")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts.recurrences, [str(r) for r in counts.recurrences])
    axes.set(xlabel="recurrences r", ylabel=label)
    axes.set_ylim(bottom=0)


def _plot_sizes(axes: Axes, counts: Counts) -> None:
    for j, (r, look) in enumerate(looks(counts.recurrences).items()):
        axes.plot(counts.widths, counts.unique[:, j], label=f"r = {r}", color=look["color"])
        printed = [1e6 * paper.NUM_PARAMS[s][j] for s in sorted(paper.NUM_PARAMS)]
        axes.plot(counts.widths, printed, "s", markerfacecolor="white", markersize=4, color=look["color"])
    axes.set(xlabel="width d", ylabel="unique parameters N", yscale="log")
    axes.legend(ncols=2)
    _log_sizes(axes, counts.widths)


def _plot_tokens(axes: Axes, tokens: list[Tokens]) -> None:
    axes.axhline(0, color=_style.GREY, linewidth=0.8)
    marks = looks(one.num_recur for one in tokens)
    for place, one in enumerate(tokens):
        axes.errorbar(
            one.width * SPREAD**place,
            100 * one.excess,
            yerr=100 * one.reach,
            linestyle="none",
            elinewidth=0.7,
            label=f"r = {one.num_recur}",
            **marks[one.num_recur],
        )
    axes.set(xlabel="width d", ylabel="tokens / published, less 1 (%)")
    axes.legend(ncols=4, loc="upper left", columnspacing=1)
    axes.set_ylim(top=4.2)
    _log_sizes(axes, tokens[0].width)


def draw(out: Path) -> list[Path]:
    """Draw the figure into the folder `out`; returns the files written."""
    return _style.save(plot(*compute()), out, NAME, "the accounting of llm at the paper's sizes")


DRAWINGS = (
    Drawing(
        NAME,
        "parameters and FLOPs a token by r over those of r = 1; the published sizes and tokens beside ours",
        f"{paper.PAPER}, its table of sizes and its ratios of parameters and FLOPs",
        (),
        lambda files, out: draw(out),
    ),
)


def main(out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures")) -> None:
    """Redraw the figure."""
    for path in draw(out):
        print(path)


if __name__ == "__main__":
    typer.run(main)
