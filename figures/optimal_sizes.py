"""The best sizes of an iso-depth grid: N* and D* against compute, their exponents, and equivalent sizes.

    python -m figures.optimal_sizes figures/tables/llm_cpu.json --out results/figures

Compare arXiv:2604.21106, its compute-optimal sizes and its equivalent sizes. Takes seconds from a saved
analysis. Symbols: budget C, recurrences r, unique parameters N* and tokens D* of lowest loss.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from figures import _looped_paper as paper
from figures import _style
from figures._catalogue import Drawing
from figures._grid import command, compute_axis, load, looks, scale, wrapped
from figures.iso_depth import _tick
from sweeps._config import ConfigError
from sweeps.iso_depth import IsoDepth
from sweeps.laws import equivalent
from sweeps.laws._law import Array

NAME = "optimal_sizes"
COLUMNS = {"num_params": "unique parameters N*", "num_tokens": "tokens D*"}
LETTERS = {"num_params": "N*", "num_tokens": "D*"}

CAPTION = (
    "Above: minima of parabolas in log N and straight lines through them; dotted, the joint law with φ "
    "free. Below: exponents of those lines (bars: standard errors of the regression) and by the joint law "
    "(bars: 95 % by its bootstrap), which has one α and β for all r; right, the size of the unlooped model"
    " that has the same loss on as many tokens, by φ (bars: its 95 % interval), over the looped one's "
    "unique parameters."
)


@dataclass(frozen=True)
class Growing:
    """N* or D* of one r: `budgets`, `best` (n,) of its parabolas' minima; the line through them at `budgets`,
    empty where there are too few; the joint law's `law` (k,) at `at` (k,)."""

    num_recur: int
    budgets: Array
    best: Array
    line: Array
    at: Array
    law: Array


@dataclass(frozen=True)
class Exponent:
    """Of one r: by parabolas, with its standard error (nan without one); by the joint law, with its ends."""

    num_recur: int
    parabolas: float
    error: float
    law: float
    ends: tuple[float, float]


@dataclass(frozen=True)
class Worth:
    """Of one r: the equivalent size over the unique one, with its ends, and the same by the published phi;
    `executed`, what it would be at phi = 1."""

    num_recur: int
    ratio: float
    ends: tuple[float, float]
    published: float
    published_ends: tuple[float, float]
    executed: float


@dataclass(frozen=True)
class Sizes:
    """What is drawn: growth and exponents by column, worth by r."""

    growing: dict[str, list[Growing]]
    exponents: dict[str, list[Exponent]]
    worth: list[Worth]
    scale: str


def compute(found: IsoDepth) -> Sizes:
    """The panels. Raises ConfigError where no joint law gives best sizes."""
    if not found.optima:
        raise ConfigError("the joint law of this grid gives no best sizes: `depthlaw iso-depth` says why")
    recurrences = sorted({cell.num_recur for cell in found.cells})
    return Sizes(
        growing={name: [_growing(found, r, name) for r in recurrences] for name in COLUMNS},
        exponents={name: [_exponent(found, r, name) for r in recurrences] for name in COLUMNS},
        worth=[_worth(found, r) for r in recurrences if r > 1],
        scale=scale(found.runs),
    )


def _growing(found: IsoDepth, r: int, name: str) -> Growing:
    cells = [cell for cell in found.cells if cell.num_recur == r and cell.from_parabola]
    budgets, best = (
        np.array([c.budget for c in cells]),
        np.array([getattr(c, name) for c in cells], dtype=float),
    )
    grown = next((g for g in found.growth if (g.num_recur, g.column) == (r, name)), None)
    line = np.array([])
    if grown is not None:  # least squares go through the mean
        x, y = np.log(budgets), np.log(best)
        line = np.exp(y.mean() + grown.exponent * (x - x.mean()))
    rows = [row for row in found.optima if row["num_recur"] == r]
    at, law = (np.array([row[column] for row in rows], dtype=float) for column in ("flops", name))
    return Growing(r, budgets, best, line, at, law)


def _exponent(found: IsoDepth, r: int, name: str) -> Exponent:
    grown = next((g for g in found.growth if (g.num_recur, g.column) == (r, name)), None)
    law = next((g for g in found.optima_growth if (g["num_recur"], g["column"]) == (r, name)), None)
    known = ("exponent", "lower", "upper")
    value, low, high = (np.nan if law is None or law[key] is None else float(law[key]) for key in known)
    by_cells = (np.nan, np.nan) if grown is None else (grown.exponent, grown.error)
    return Exponent(r, *by_cells, value, (low, high))


def _worth(found: IsoDepth, r: int) -> Worth:
    """At the middle budget: the ratio hardly depends on it, since all counts go with the width squared."""
    rows = [row for row in found.optima if row["num_recur"] == r]
    row = rows[len(rows) // 2]
    once, recurrent = row["num_once"], row["num_recurrent"]
    ours = equivalent(found.free.fit, once, recurrent, r)
    known = paper.PHI["all"][0], *paper.PHI_ENDS
    middle, low, high = ((once + r**phi * recurrent) / (once + recurrent) for phi in known)
    ratio = {name: value / ours["unique"] for name, value in ours.items()}
    return Worth(
        r, ratio["effective"], (ratio["lower"], ratio["upper"]), middle, (low, high), ratio["executed"]
    )


def plot(found: Sizes, said: str = "") -> Figure:
    """The figure: sizes and tokens against compute, exponents, equivalent sizes."""
    with _style.style():
        figure = Figure(figsize=(9.6, 7.0), layout="constrained")
        grid = figure.add_gridspec(2, 6)
        marks = looks(one.num_recur for one in found.growing["num_params"])
        above = [figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])]
        for axes, (name, label) in zip(above, COLUMNS.items(), strict=True):
            _plot_growth(axes, found.growing[name], marks)
            axes.set_ylabel(label)
        left, middle, right = (figure.add_subplot(grid[1, i : i + 2]) for i in (0, 2, 4))
        for axes, (name, letter) in zip((left, middle), LETTERS.items(), strict=True):
            _plot_exponents(axes, found.exponents[name], paper.GROWTH[name], letter)
        left.legend(fontsize=7, loc="lower left", handletextpad=0.3)
        _plot_worth(right, found.worth)
        handles, labels = above[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
        text = wrapped(f"{CAPTION} {found.scale}" + (f" Data: {said}." if said else ""), 190)
        figure.supxlabel(text, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_growth(axes: Axes, lines: list[Growing], marks: dict[int, dict[str, Any]]) -> None:
    for one in lines:
        look = marks[one.num_recur]
        axes.plot(one.budgets, one.best, linestyle="none", label=f"r = {one.num_recur}", **look)
        if one.line.size:
            axes.plot(one.budgets, one.line, color=look["color"])
        axes.plot(one.at, one.law, color=look["color"], linestyle=":", linewidth=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_minor_formatter(NullFormatter())
    compute_axis(axes, [budget for one in lines for budget in one.at])


def _plot_exponents(axes: Axes, found: list[Exponent], published: dict[int, float], letter: str) -> None:
    place = np.arange(len(found), dtype=float)
    axes.errorbar(
        place - 0.18,
        [one.parabolas for one in found],
        yerr=[one.error for one in found],
        color=_style.BLUE,
        marker="o",
        linestyle="none",
        label="parabolas",
    )
    law = np.array([one.law for one in found])
    ends = np.array([one.ends for one in found]).T
    axes.errorbar(
        place,
        law,
        yerr=np.abs(ends - law),
        color=_style.GREEN,
        marker="^",
        linestyle="none",
        label="joint law",
    )
    known = [published.get(one.num_recur, np.nan) for one in found]
    axes.plot(place + 0.18, known, color="black", marker="D", linestyle="none", label="published")
    axes.set_xticks(place, [str(one.num_recur) for one in found])
    axes.set(xlabel="recurrences r", ylabel="exponent of compute")
    axes.set_ylim(0, 1)
    axes.set_title(f"{letter} ∝ C^exponent")


def _plot_worth(axes: Axes, found: list[Worth]) -> None:
    place = np.arange(len(found), dtype=float)
    for name, shift, colour, marker, label in (
        ("ratio", -0.1, _style.BLUE, "o", "ours"),
        ("published", 0.1, "black", "D", "published φ"),
    ):
        value = np.array([getattr(one, name) for one in found])
        ends = np.array([one.ends if name == "ratio" else one.published_ends for one in found]).T
        axes.errorbar(
            place + shift,
            value,
            yerr=np.abs(ends - value),
            color=colour,
            marker=marker,
            linestyle="none",
            label=label,
        )
    most = np.array([one.executed for one in found])
    axes.hlines(most, place - 0.3, place + 0.3, color=_style.GREY, linewidth=1, label="φ = 1")
    axes.axhline(1, color=_style.GREY, linewidth=0.8, linestyle=":", label="φ = 0")
    axes.set_xticks(place, [str(one.num_recur) for one in found])
    axes.set(xlabel="recurrences r", ylabel="equivalent size / unique parameters")
    axes.set_xlim(-0.6, len(found) - 0.4)
    axes.set_ylim(0.8, 1.3 * most.max())
    axes.set_title("Unlooped size of equal loss")
    axes.legend(fontsize=7, loc="upper left", ncols=2)


def draw(found: IsoDepth, out: Path, said: str = "") -> list[Path]:
    """Draw an analysis into the folder `out`; returns the files written. `said`: of the table."""
    digest = found.free.fit.provenance.data_sha256[:8]
    return _style.save(plot(compute(found), said), out, NAME, f"optimal sizes, data {digest}; {said}")


DRAWINGS = (
    Drawing(
        NAME,
        "best sizes and tokens against compute, their exponents, and the unlooped size of equal loss",
        f"{paper.PAPER}, its compute-optimal and equivalent sizes",
        ("llm_cpu.json",),
        lambda files, out: draw(load(files[0]), out, files[0].name),
    ),
)


main = command(NAME, draw)


if __name__ == "__main__":
    typer.run(main)
