"""The report of a sweep as one page of HTML: a pure function from its contents to a text.

The page needs nothing but itself: style, figures and downloads are in it, and its policy lets a browser
fetch nothing and run nothing. All that comes from a sweep is escaped; of the contents, only `Drawing.svg` is
markup. The same contents give the same text.
"""

import base64
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template

BESIDE = Path(__file__).parent

UNPRINTABLE = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters that no page may hold."""


@dataclass(frozen=True)
class Heading:
    """Of a column: its name, what it holds (unit and meaning), whether that is numbers."""

    name: str
    about: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: caption, headings, rows of as many cells, and a sentence below it."""

    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure: `svg`, an element that goes into the page as it is; `alt` says what is seen to who sees it
    not, `caption` what it is; `command` draws it again."""

    svg: str
    alt: str
    caption: str
    command: str


@dataclass(frozen=True)
class Reading:
    """A number of the answer: `symbol` = `value` within `interval`, of `condition`, and what it means.

    doubtful: whether it is not to be trusted, or not bounded by the rows.
    """

    condition: str
    symbol: str
    value: str
    interval: str
    meaning: str
    doubtful: bool = False


@dataclass(frozen=True)
class Caveat:
    """What is not known: a sentence, which fits or jobs it is about, whether it takes the trust away."""

    sentence: str
    where: tuple[str, ...] = ()
    serious: bool = False


@dataclass(frozen=True)
class Download:
    """A file that the page brings along."""

    name: str
    media: str
    data: bytes


@dataclass(frozen=True)
class Contents:
    """All that a page says.

    **Fields:** `name`, `description`, `kind` of the sweep; `standing`, how much of it is done, `sound`:
    whether all of it is, and to be trusted; `asked`, terms of the question and what they are; `answers`, a
    sentence or two, `readings`, its numbers, `findings`, further sentences; `caveats`; `missing` jobs;
    `drawings`, and `undrawn`, why there are no others; `fits`; `rows`, `alike`, columns with one value in all
    rows, and `told`, where the whole table is; `downloads`; `provenance` and `versions`; `spec`, a text, and
    `anew`, the commands that make all of it again; `made_by`, what wrote the page.
    """

    name: str
    description: str
    kind: str
    standing: str
    sound: bool
    asked: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]
    readings: tuple[Reading, ...]
    findings: tuple[str, ...]
    caveats: tuple[Caveat, ...]
    missing: Grid | None
    drawings: tuple[Drawing, ...]
    undrawn: tuple[str, ...]
    fits: tuple[Grid, ...]
    rows: Grid | None
    alike: tuple[tuple[str, str], ...]
    told: str
    downloads: tuple[Download, ...]
    provenance: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    spec: str
    anew: tuple[str, ...]
    made_by: str


def render(contents: Contents) -> str:
    """The page."""
    template = Template((BESIDE / "_page.html").read_text(encoding="utf-8"))
    by_name = {one.name: one for one in contents.downloads}
    return template.substitute(
        style=(BESIDE / "_page.css").read_text(encoding="utf-8"),
        name=_text(contents.name),
        kind=_text(contents.kind),
        description=_paragraphs([contents.description]),
        standing=_text(contents.standing),
        sound="sound" if contents.sound else "unsound",
        asked=_terms(contents.asked),
        answers=_paragraphs(contents.answers),
        readings=_readings(contents.readings),
        findings=_list(contents.findings),
        caveats=_caveats(contents.caveats) + _grids([contents.missing] if contents.missing else []),
        drawings="\n".join(_drawing(i, one) for i, one in enumerate(contents.drawings, 1))
        + _list(contents.undrawn),
        fits=_grids(contents.fits) or "<p>There is no fit.</p>",
        rows=_grids([contents.rows] if contents.rows else []),
        alike=_folded("The same in all rows", _terms(contents.alike)) if contents.alike else "",
        told=_paragraphs([contents.told]),
        downloads="\n".join(_link(one) for one in by_name.values()),
        provenance=_terms(contents.provenance),
        versions=_folded("Versions", _terms(contents.versions)) if contents.versions else "",
        anew=_text("\n".join(contents.anew)),
        spec=_text(contents.spec),
        made_by=_text(contents.made_by),
    )


def _text(text: str) -> str:
    """A text in which nothing is markup, in an element or in an attribute."""
    return html.escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{_text(text)}</p>" for text in texts if text)


def _list(texts: Iterable[str]) -> str:
    items = "\n".join(f"<li>{_text(text)}</li>" for text in texts)
    return f"<ul>\n{items}\n</ul>" if items else ""


def _terms(pairs: Iterable[tuple[str, str]]) -> str:
    found = "\n".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in pairs)
    return f"<dl>\n{found}\n</dl>" if found else ""


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{_text(summary)}</summary>\n{inside}\n</details>"


def _readings(readings: Iterable[Reading]) -> str:
    items = []
    for one in readings:
        condition = f'<span class="condition">{_text(one.condition)}</span>' if one.condition else ""
        items.append(
            f"<li{' class=doubtful' if one.doubtful else ''}>{condition}"
            f'<span class="value"><i>{_text(one.symbol)}</i> = <b>{_text(one.value)}</b></span>'
            f'<span class="interval">{_text(one.interval)}</span>'
            f'<span class="meaning">{_text(one.meaning)}</span></li>'
        )
    return '<ul class="readings">\n' + "\n".join(items) + "\n</ul>" if items else ""


def _caveats(caveats: Iterable[Caveat]) -> str:
    items = []
    for one in caveats:
        where = f"\n{_folded(f'Where ({len(one.where)})', _list(one.where))}" if len(one.where) > 1 else ""
        only = f"{_text(one.where[0])}: " if len(one.where) == 1 else ""
        kind = "serious" if one.serious else "mild"
        word = "<strong>Problem.</strong> " if one.serious else ""
        items.append(f'<li class="{kind}">{word}{only}{_text(one.sentence)}{where}</li>')
    listed = '<ul class="caveats">\n' + "\n".join(items) + "\n</ul>"
    return listed if items else "<p>Nothing that the fits or the records know of.</p>"


def _drawing(number: int, one: Drawing) -> str:
    label = f"Figure {number}"
    return (
        f'<figure id="figure-{number}">\n'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
        f'<div class="drawing" role="img" aria-label="{_text(one.alt)}">\n{one.svg}\n</div></div>\n'
        f'<label class="enlarge"><input type="checkbox"> full size</label>\n'
        f"<figcaption><b>{label}.</b> {_text(one.caption)} "
        f"<code>{_text(one.command)}</code></figcaption>\n</figure>"
    )


def _grids(grids: Iterable[Grid]) -> str:
    return "\n".join(_grid(one) for one in grids)


def _grid(one: Grid) -> str:
    heads = "".join(
        f'<th scope="col"{_class(head)}{_title(head)}>{_text(head.name)}</th>' for head in one.headings
    )
    body = "\n".join(f"<tr>{_cells(one.headings, row)}</tr>" for row in one.rows)
    note = f'<p class="note">{_text(one.note)}</p>\n' if one.note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(one.caption)}">\n'
        f"<table><caption>{_text(one.caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>\n{note}"
    )


def _cells(headings: tuple[Heading, ...], row: tuple[str, ...]) -> str:
    first, *others = zip(headings, row, strict=True)
    found = [f'<th scope="row"{_class(first[0])}>{_text(first[1])}</th>']
    return "".join(found + [f"<td{_class(head)}>{_text(cell)}</td>" for head, cell in others])


def _class(head: Heading) -> str:
    return ' class="number"' if head.numeric else ""


def _title(head: Heading) -> str:
    return f' title="{_text(head.about)}"' if head.about else ""


def _link(one: Download) -> str:
    data = base64.b64encode(one.data).decode()
    size = f"{len(one.data) / 1000:.3g} kB"
    return (
        f'<p><a class="download" download="{_text(one.name)}" href="data:{one.media};base64,{data}">'
        f"{_text(one.name)}</a> ({size})</p>"
    )
