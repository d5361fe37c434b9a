"""The look that all figures share, and how they are saved."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

# Okabe & Ito's palette: told apart by colour-blind readers.
BLUE, ORANGE, GREEN, RED, PINK, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#666666"
TEACHER_COLOURS = {
    "independent": BLUE,
    "tied": ORANGE,
    "correlated": GREEN,
    "flow": RED,
    "drifting": PINK,
}
TEACHER_MARKERS = {"independent": "o", "tied": "s", "correlated": "^", "flow": "D", "drifting": "v"}

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
    "pdf.fonttype": 42,
    "figure.dpi": 150,
}


def style() -> AbstractContextManager[None]:
    """A context in which figures have this look."""
    return matplotlib.rc_context(STYLE)


def save(figure: Figure, out: Path, name: str, source: str) -> list[Path]:
    """`figure` as <out>/<name>.png and .pdf; `source` says what it was drawn from, in the files' metadata."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    # No date in the metadata: the same results give the same file.
    for suffix, metadata in (
        ("png", {"Description": source}),
        ("pdf", {"Subject": source, "CreationDate": None}),
    ):
        path = out / f"{name}.{suffix}"
        figure.savefig(path, metadata=metadata)
        paths.append(path)
    return paths
