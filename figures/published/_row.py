"""A row of the table: a published number, ours, and whether they agree."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass


class Verdict(enum.StrEnum):
    """How ours stands to the published number."""

    AGREE = "agree"
    DIFFER = "differ"
    APART = "not comparable"


@dataclass(frozen=True)
class Row:
    """where: paper and section. what: is measured. published, ours: as text. scale: what ours was measured
    on. reason: of a verdict that the numbers alone do not explain."""

    where: str
    what: str
    published: str
    ours: str
    scale: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Number:
    """A number with its 95 % interval; low = high = nan where none is known."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        text = _text(self.value)
        return text if math.isnan(self.low) else f"{text} [{_text(self.low)}, {_text(self.high)}]"


def measured(
    where: str, what: str, published: Number | tuple[float, float], ours: Number, scale: str, reason: str = ""
) -> Row:
    """Published as a number with or without interval, or as a range (low, high) that is claimed.

    They agree where the intervals meet; a number without one is a point.
    """
    if isinstance(published, Number):
        told, ends = str(published), _ends(published)
    else:
        told, ends = f"{_text(published[0])} to {_text(published[1])}", published
    low, high = _ends(ours)
    met = low <= ends[1] and ends[0] <= high
    return Row(where, what, told, str(ours), scale, Verdict.AGREE if met else Verdict.DIFFER, reason)


def claimed(
    where: str, what: str, published: str, ours: str, scale: str, holds: bool, reason: str = ""
) -> Row:
    """A claim in words, that our numbers bear out or not."""
    return Row(where, what, published, ours, scale, Verdict.AGREE if holds else Verdict.DIFFER, reason)


def counted(where: str, what: str, published: Sequence[str], ours: Sequence[float], unit: float) -> Row:
    """Counts that are to be met to the printed digit: ours divided by `unit`, written as they are printed."""
    written = [f"{value / unit:.{_digits(text)}f}" for text, value in zip(published, ours, strict=True)]
    same = sum(one == other for one, other in zip(published, written, strict=True))
    verdict = Verdict.AGREE if same == len(written) else Verdict.DIFFER
    ends = (
        ", ".join(texts) if len(texts) <= 4 else f"{texts[0]} … {texts[-1]}" for texts in (published, written)
    )
    told, found = ends
    return Row(where, what, told, found, f"exact: {same} of {len(written)} to the printed digit", verdict)


def apart(where: str, what: str, published: str, ours: str, scale: str, reason: str) -> Row:
    """Numbers that depend on what was trained on what, so that ours need not be theirs."""
    return Row(where, what, published, ours, scale, Verdict.APART, reason)


def markdown(rows: Sequence[Row]) -> str:
    """The table, with how many rows have which verdict above it."""
    counts = ", ".join(f"{sum(row.verdict == one for row in rows)} {one}" for one in Verdict)
    lines = [
        f"{len(rows)} published numbers and claims: {counts}.",
        "",
        "| where | what | published | ours | on | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        told = f"{row.verdict}: {row.reason}" if row.reason else str(row.verdict)
        cells = (row.where, row.what, row.published, row.ours, row.scale, told)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _ends(number: Number) -> tuple[float, float]:
    if math.isnan(number.low):
        return number.value, number.value
    return number.low, number.high


def _text(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e-2 or abs(value) >= 1e4 else f"{value:.4g}"


def _digits(text: str) -> int:
    return len(text.partition(".")[2])
