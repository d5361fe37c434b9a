"""What stands below a figure: the table, its seeds, and how its scale differs from the paper's."""

import textwrap

import polars as pl
from matplotlib.figure import Figure

from figures import _style

PAPER = {"width": 32, "teacher_depth": 128, "batch": 1024}
"""Scale of the toy networks of arXiv:2602.05970, section 4."""

NAMES = {"width": "width", "teacher_depth": "teacher depth", "batch": "batch"}


def caption(figure: Figure, text: str, letters: float = 18.5) -> None:
    """Small text below all panels; letters: of a line, for an inch of the figure's width."""
    lines = textwrap.wrap(text, round(figure.get_figwidth() * letters))
    figure.supxlabel("\n".join(lines), fontsize=6.5, color=_style.GREY, x=0.01, ha="left", parse_math=False)


def scale(rows: pl.DataFrame, name: str, paper: dict[str, int] | None = None) -> str:
    """A sentence of a toy sweep: table, scale, seeds, and the paper's scale (`PAPER`) where it is another."""
    paper = PAPER if paper is None else paper
    ours = {key: sorted(rows[key].unique().to_list()) for key in paper}
    told = ", ".join(f"{NAMES[key]} {_listed(values)}" for key, values in ours.items())
    seeds = rows["seed"].n_unique()
    text = f"{name}: {told}, {seeds} seed{'s' if seeds > 1 else ''}"
    other = {key: value for key, value in paper.items() if ours[key] != [value]}
    if other:
        text += f" (paper: {', '.join(f'{NAMES[key]} {value}' for key, value in other.items())})"
    return text + "."


def _listed(values: list[int]) -> str:
    return " and ".join(str(value) for value in values)
