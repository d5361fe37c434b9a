"""The look that all figures share, and how they are saved."""

import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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


@contextmanager
def resolution(dpi: int) -> Iterator[None]:
    """A context in which figures are made with so many pixels an inch."""
    before = STYLE["figure.dpi"]
    STYLE["figure.dpi"] = dpi
    try:
        yield
    finally:
        STYLE["figure.dpi"] = before


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


NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def svg(figure: Figure, name: str) -> str:
    """`figure` as an element for a page of HTML; the same figure and name give the same text.

    `name` (letters, digits, hyphens) begins every id, so that figures of different names can share a page.
    """
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", metadata=NO_METADATA)
    text = file.getvalue()
    text = re.sub(r"<!--.*?-->\n?", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Text is drawn as paths, so quotes and parentheses are those of attributes alone.
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'<svg ([^>]*?)xmlns:xlink="[^"]*" ', r"<svg \1", text)
    return text.replace("xlink:href", "href").strip()
