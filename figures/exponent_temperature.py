"""The exponent against the temperature of the teacher's softmax, and the losses that it comes from.

    python -m figures.exponent_temperature kl-independent-2core.csv kl-tied-2core.csv kl-tied-long-2core.csv

Compare arXiv:2602.05970, the figures of section 4 with a KL objective: near 1 at every temperature for an
independent teacher, rising with temperature for a tied one. Takes seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _style
from figures._caption import caption, scale
from figures._catalogue import Drawing
from figures._losses import Losses, along_depth, levels, log_depths, longest, losses_of, shades
from figures._sweep import Sweep, read_sweep
from sweeps._config import ConfigError
from sweeps._store import StoreError
from sweeps._terminal import BadTable, fail

NAME = "exponent_temperature"

NAMED = 6
"""Temperatures that have a name each in a legend; of more, the first, the middle and the last."""

LOOKS = ((_style.BLUE, "o"), (_style.ORANGE, "s"), (_style.RED, "D"), (_style.GREEN, "^"))


@dataclass(frozen=True)
class Case:
    """A sweep: teacher, head and training, and their losses at each temperature, from the lowest."""

    name: str
    temperatures: np.ndarray
    losses: tuple[Losses, ...]


def load(sources: Sequence[Path]) -> list[Sweep]:
    """Folders of results, or kept tables."""
    return [read_sweep(source, series=()) for source in sources]


def compute(sweeps: Sequence[Sweep]) -> list[Case]:
    """A case for each sweep, of its longest training. Raises ConfigError: no rows, no temperature, other
    settings vary too."""
    cases = []
    for sweep in sweeps:
        rows = longest(sweep.rows, sweep.name)
        if rows["temperature"].null_count():
            raise ConfigError(f"{sweep.name} has students without a temperature: give it a sweep with KL")
        about = rows.select("teacher", "given_head", "steps").unique()
        if len(about) > 1:
            raise ConfigError(f"{sweep.name} has {len(about)} kinds of teacher, head or training: give one")
        ((teacher, given, steps),) = about.iter_rows()
        head = "the teacher's head" if given else "learnt head"
        parts = rows.partition_by("temperature", as_dict=True)
        found = {t: losses_of(part, f"{sweep.name}, T = {t:g}") for (t,), part in sorted(parts.items())}
        cases.append(
            Case(
                f"{teacher} teacher, {head}, {steps:,} steps",
                np.array(list(found)),
                tuple(found.values()),
            )
        )
    return cases


def plot(cases: Sequence[Case], scales: str) -> Figure:
    """The exponents of all cases; and of each its losses against depth."""
    with _style.style():
        columns = 1 + len(cases)
        figure = Figure(figsize=(3.2 * columns, 3.9), layout="constrained")
        first, *others = figure.subplots(1, columns, squeeze=False)[0]
        _exponents(first, cases)
        for axes, case in zip(others, cases, strict=True):
            _losses(axes, case)
        caption(
            figure,
            "Left: bars are 95 % intervals (bootstrap over seeds and levels, Student's t). Others: geometric "
            "mean, bars: range over seeds; line: L = c·ℓ^-α, a level a seed. " + scales,
        )
        return figure


def _exponents(axes: Axes, cases: Sequence[Case]) -> None:
    spread = np.linspace(-0.02, 0.02, len(cases)) if len(cases) > 1 else [0.0]
    for i, (case, shift) in enumerate(zip(cases, spread, strict=True)):
        colour, marker = LOOKS[i % len(LOOKS)]
        alpha = np.array([one.alpha for one in case.losses])
        ends = np.array([one.interval for one in case.losses]).T
        reach = np.where(np.isfinite(ends), np.abs(ends - alpha), 0)
        # Beside each other, since bars at the same temperature would hide one another.
        at = case.temperatures * 10**shift
        axes.errorbar(at, alpha, reach, color=colour, marker=marker, label=case.name.replace(", ", ",\n", 1))
    levels(axes)
    axes.set(xscale="log", xlabel="temperature T of the teacher's softmax", ylabel="exponent α")
    axes.set_ylim(bottom=0, top=max(3.3, axes.get_ylim()[1]) * 1.35)
    axes.legend(fontsize=6.5, loc="upper left")
    axes.set_title("Exponent against temperature")


def _losses(axes: Axes, case: Case) -> None:
    count = len(case.losses)
    named = range(count) if count <= NAMED else (0, count // 2, count - 1)
    for i, (temperature, found, colour) in enumerate(
        zip(case.temperatures, case.losses, shades(count), strict=False)
    ):
        label = f"T = {temperature:g}: {found.told}" if i in named else None
        along_depth(axes, found, color=colour, marker="o", label=label)
    log_depths(axes, case.losses[0].depths, "student depth ℓ (layers)")
    axes.set_ylabel("held-out KL (nats)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.25)  # room for the legend
    axes.legend(fontsize=6.5, loc="upper right")
    axes.set_title(case.name.replace(", ", ",\n", 1), fontsize=8)


def draw(sources: Sequence[Path], out: Path) -> list[Path]:
    """Draw the figure of some sweeps into the folder `out`; returns the files written."""
    sweeps = load(sources)
    names = ", ".join(sweep.name for sweep in sweeps)
    scales = scale({sweep.name: sweep.rows for sweep in sweeps})
    return _style.save(plot(compute(sweeps), scales), out, NAME, f"depthlaw sweeps {names}")


DRAWINGS = (
    Drawing(
        NAME,
        "exponent against temperature, and loss against depth at each, KL objective",
        "arXiv:2602.05970, section 4, KL with independent and tied teachers",
        ("kl-independent-2core.csv", "kl-tied-2core.csv", "kl-tied-long-2core.csv"),
        draw,
    ),
)


def main(
    results: Annotated[list[Path], typer.Argument(help="Folders of results or kept tables, one a case.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        for path in draw(results, out):
            print(path)
    except (StoreError, ConfigError, BadTable) as error:
        fail(f"{NAME}: {error}", 1)


if __name__ == "__main__":
    typer.run(main)
