"""The command `report`: gathers what a folder of results says, and writes it as one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps._terminal import fail, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sweeps._page import Caveat, Contents, Download
    from sweeps._spec import FitSpec
    from sweeps._status import Standing

MOST_CSV = 300_000
"""Bytes of a table that the page brings along."""


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")],
    out: Annotated[Path | None, typer.Option(help="File (default: DIR/report.html).")] = None,
) -> None:
    """One page of HTML: what a sweep asks, what it found and does not know, and where that comes from.

    The page opens from disk without a network. It is written also of a sweep that has not ended or has no
    fit; then the exit status is 1.
    """
    from sweeps._files import write_atomic
    from sweeps._page import render

    contents = gather(folder)
    out = out or folder / "report.html"
    write_atomic(out, render(contents).encode())
    say(f"wrote {out}")
    if not contents.sound:
        fail(f"{contents.standing} The page says what and why.", 1)


def gather(folder: Path) -> "Contents":
    """All that the page of a folder of results says.

    Raises ConfigError where the folder holds no results, StoreError where its spec cannot be read.
    """
    import shlex

    from sweeps import _axes
    from sweeps._conclusion import conclude
    from sweeps._grids import of_missing, of_rows
    from sweeps._origin import anew, mixed, origin, versions
    from sweeps._page import Caveat, Contents
    from sweeps._spec import FitSpec
    from sweeps._status import Reader
    from sweeps._store import Store
    from sweeps.cli._drawings import drawings

    store = Store(folder.resolve())
    spec = store.spec()
    sweep = spec.get("sweep", {})
    kind = sweep.get("kind", "toy")
    asked = FitSpec.of(spec.get("fit", {}), kind, f"{folder / 'spec.json'}: fit")
    standing = Reader(store.out).read()

    def plain(sentence: str) -> str:
        """Without where the folder lies: the same results give the same page wherever they are."""
        return sentence.replace(f"{store.out}", store.out.name)

    skipped: list[str] = []
    rows, records = store.table(skipped), list(store.records())
    concluded = conclude(rows, asked)
    drawn, undrawn = drawings(store.out, rows, asked, kind, concluded)
    damaged = dict.fromkeys([*skipped, *standing.skipped])
    told = "Records that cannot be read are not in the table."
    caveats = [
        *([Caveat(told, tuple(map(plain, damaged)), serious=True)] if damaged else []),
        *concluded.caveats,
        *(Caveat(sentence) for sentence in (*mixed(records), _axes.note(store.out, records)) if sentence),
    ]
    grid, alike = of_rows(rows, store.columns())
    csv = rows.write_csv().encode()
    brought = bool(rows.height) and len(csv) < MOST_CSV
    text, file = _spec_file(spec)
    where = shlex.quote(f"results/{store.out.name}")
    told = "" if brought else f"The whole table: depthlaw table {where} --out rows.csv"

    return Contents(
        name=str(sweep.get("name", store.out.name)),
        description=str(sweep.get("description", "")),
        kind={"toy": "toy teachers and students", "lm": "language models"}.get(kind, kind),
        standing=_standing(standing, caveats, len(rows)),
        sound=_sound(standing, caveats),
        asked=_asked(spec, asked),
        answers=concluded.answers,
        readings=concluded.readings,
        findings=concluded.findings,
        caveats=tuple(Caveat(plain(one.sentence), one.where, one.serious) for one in caveats),
        missing=of_missing(standing, str(store.out)),
        drawings=drawn,
        undrawn=tuple(map(plain, undrawn)),
        fits=concluded.fits,
        rows=grid,
        alike=alike,
        told=told if rows.height else "There are no rows.",
        downloads=(*_csv_file(store.out.name, csv, brought), file),
        provenance=origin(records, store.out),
        versions=versions(records),
        spec=text,
        anew=anew(spec, store.out.name),
        made_by=_made_by(),
    )


def _asked(spec: dict[str, Any], asked: "FitSpec") -> tuple[tuple[str, str], ...]:
    """What is varied, and what is fitted to it."""
    from sweeps._spec import NO_LAW
    from sweeps.laws import LAWS

    lists = {name: v for name, v in spec.get("base", {}).items() if isinstance(v, list) and len(v) > 1}
    found = [(f"varied: {name}", _shown(v)) for name, v in {**spec.get("grid", {}), **lists}.items()]
    found += [(f"case {i}", _shown(case)) for i, case in enumerate(spec.get("case", []), 1)]
    found += [("left out", _shown(one)) for one in spec.get("exclude", [])]
    found += [(f"set: {name}", _shown(value)) for name, value in spec.get("set", {}).items()]
    if asked.law == NO_LAW:
        return (*found, ("law", "none: the rows are not fitted"))
    found.append(("law", LAWS[asked.law]().equation))
    found.append(("a fit for each", ", ".join(asked.by) or "no column: one fit of all rows"))
    found.append(("replicates", ", ".join(asked.group) or "none: rows are independent"))
    if asked.law == "depth":
        floor = "fitted" if asked.floor is None else f"held at {asked.floor:g}"
        found.append(("floor L_0", floor))
    return tuple(found)


def _shown(value: Any) -> str:
    """A value of a spec in words."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_shown(one)}" for key, one in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _standing(standing: "Standing", caveats: "Sequence[Caveat]", rows: int) -> str:
    from collections import Counter

    counts = Counter(standing.states.values())
    told = f"{counts['done']} of {len(standing.states)} jobs are done"
    others = [f"{count} {state}" for state, count in counts.items() if state != "done"]
    told += f" ({', '.join(others)})" if others else ""
    serious = sum(one.serious for one in caveats)
    doubts = f"; {serious} problem(s)" if serious else ""
    return f"{told}, {rows} rows{doubts}."


def _sound(standing: "Standing", caveats: "Sequence[Caveat]") -> bool:
    return set(standing.states.values()) <= {"done"} and not any(one.serious for one in caveats)


def _spec_file(spec: dict[str, Any]) -> "tuple[str, Download]":
    """The spec as it can be run, and as a file."""
    import json

    from sweeps._page import Download
    from sweeps._toml import to_toml

    try:
        text, name = to_toml(spec), "spec.toml"
    except ValueError:
        text, name = json.dumps(spec, indent=1), "spec.json"
    return text, Download(name, "text/plain", text.encode("utf-8", "replace"))


def _csv_file(name: str, csv: bytes, brought: bool) -> "tuple[Download, ...]":
    from sweeps._page import Download

    return (Download(f"{name}.csv", "text/csv", csv),) if brought else ()


def _made_by() -> str:
    import matplotlib

    from sweeps._doctor import code

    found = code()
    commit = f", commit {found['commit']}" if found["commit"] else ""
    changed = ", changed since" if found["dirty"] else ""
    return f"Written by depthlaw {found['version']}{commit}{changed}; matplotlib {matplotlib.__version__}."
