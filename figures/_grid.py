"""An iso-depth grid as figures read it: its analysis, saved or made anew, and what all its figures share."""

import functools
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.axes import Axes

from figures.law_fit import COLOURS, MARKERS
from sweeps._config import ConfigError
from sweeps._source import open_source
from sweeps._store import StoreError
from sweeps._terminal import BadTable, say
from sweeps.iso_depth import COLUMNS, IsoDepth, Run, Saved, analyse, saved

MOST_TICKS = 6


@functools.lru_cache(maxsize=8)
def read(path: Path) -> Saved:
    """A saved analysis, read once for all the figures that one command draws. Raises ConfigError."""
    return saved(path)


def load(source: Path, injection: str | None = None) -> IsoDepth:
    """The analysis of a table or a folder of results, or a saved one (NAME.json), which takes no fit."""
    if source.suffix == ".json":
        if injection is not None:
            raise ConfigError(f"{source} is an analysis: give its table to take the runs of one injection")
        return read(source).found
    opened = open_source(source, "looped", also=(*COLUMNS, "flops"))
    if opened.missing:
        say(f"{opened.missing} job(s) have no record yet")
    return analyse(opened.table, injection=injection, source=opened.said)


def command(name: str, draw: Callable[[IsoDepth, Path, str], list[Path]]) -> Callable[[Path, Path], None]:
    """The command of a script that draws an analysis."""

    def main(
        source: Annotated[Path, typer.Argument(help="A table, a folder of results, or a saved analysis.")],
        out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
    ) -> None:
        """Redraw the figure."""
        try:
            for path in draw(load(source), out, source.name):
                print(path)
        except (ConfigError, BadTable, StoreError) as error:
            raise SystemExit(f"{name}: {error}") from None

    return main


def looks(recurrences: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Colour and marker of each r."""
    return {
        r: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, r in enumerate(sorted(recurrences))
    }


def scale(runs: Iterable[Run]) -> str:
    """How large the runs are, for a caption."""
    runs = tuple(runs)
    sizes, budgets = ({getattr(run, name) for run in runs} for name in ("num_params", "budget"))
    return (
        f"Ours: {len(runs)} runs of {number(min(sizes))} to {number(max(sizes))} unique parameters, "
        f"{len(budgets)} budget(s) of {number(min(budgets))} to {number(max(budgets))} FLOP (the paper: 116 "
        "runs of 1.1e7 to 1.1e9, six of 4.6e17 to 2.2e19, another text)."
    )


def number(value: float) -> str:
    """Three digits with a short exponent, as 2.5e11."""
    return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def wrapped(text: str, width: int) -> str:
    """A caption in lines of at most so many letters, whose dollars are no mathematics."""
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def compute_axis(axes: Axes, budgets: Iterable[float], pad: float = 1.25) -> None:
    """A log axis of training compute with a tick at each budget, of many at every other."""
    ticks = sorted(set(budgets))
    shown = ticks[:: -(-len(ticks) // MOST_TICKS)]
    axes.set_xscale("log")
    axes.set_xlim(ticks[0] / pad, ticks[-1] * pad)
    axes.set_xticks(shown, [number(value) for value in shown], fontsize="small")
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training compute C (FLOP)")
