"""What stands below a figure: the table, its seeds, and how its scale differs from the paper's."""

import textwrap
from collections.abc import Mapping

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


def scale(tables: Mapping[str, pl.DataFrame], paper: Mapping[str, int] = PAPER) -> str:
    """Of toy sweeps by name: their scale and seeds, and the paper's scale where it is another."""
    same: dict[str, list[str]] = {}
    for name, rows in tables.items():
        same.setdefault(_told(rows, paper), []).append(name)
    return " ".join(f"{', '.join(names)}: {told}." for told, names in same.items())


def _told(rows: pl.DataFrame, paper: Mapping[str, int]) -> str:
    ours = {key: sorted(rows[key].unique().to_list()) for key in paper}
    told = ", ".join(f"{NAMES[key]} {' and '.join(map(str, values))}" for key, values in ours.items())
    seeds = rows["seed"].n_unique()
    other = ", ".join(f"{NAMES[key]} {value}" for key, value in paper.items() if ours[key] != [value])
    return f"{told}, {seeds} seed{'s' if seeds > 1 else ''}" + (f" (paper: {other})" if other else "")
