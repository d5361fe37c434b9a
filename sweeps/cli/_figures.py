"""`depthlaw figures`: the catalogue of figures, drawn from kept tables."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps._terminal import fail, say

if TYPE_CHECKING:
    from figures._catalogue import Drawing

INDENT = "    "


def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Figures of the catalogue, or all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
    tables: Annotated[
        Path | None, typer.Option(help="Folder of tables (default: those that come with depthlaw).")
    ] = None,
    dpi: Annotated[int, typer.Option(min=10, max=1200, help="Pixels an inch of the PNG.")] = 150,
    list_: Annotated[
        bool, typer.Option("--list", help="Say what is drawn, from which tables, and how they are made.")
    ] = False,
) -> None:
    """Redraw figures from kept tables, as PNG and PDF; trains nothing."""
    from figures import _catalogue, _style
    from sweeps._config import ConfigError
    from sweeps._store import StoreError
    from sweeps._terminal import BadTable

    folder = tables or _catalogue.TABLES
    if list_ or not names:
        for one in _catalogue.chosen(names or ["all"]):
            print("\n".join(_told(one, folder)))
        return
    failed = 0
    for one in _catalogue.chosen(names):
        try:
            with _style.resolution(dpi):
                paths = one.draw(one.files(folder), out)
            for path in paths:
                print(path)
        except (ConfigError, StoreError, BadTable) as error:
            say(f"{one.name}: {error}")
            failed += 1
    if failed:
        fail(f"{failed} figure(s) could not be drawn: see above", 1)


def _told(one: "Drawing", folder: Path) -> list[str]:
    """A figure of the list: what it shows, and of each file its commit, time, machine and commands."""
    from figures import _catalogue
    from sweeps._config import ConfigError

    lines = textwrap.wrap(f"{one.name}: {one.shows} ({one.compare})", 110, subsequent_indent=INDENT)
    try:
        files = one.files(folder)
    except ConfigError as error:
        return [*lines, f"{INDENT}{error}"]
    known = _catalogue.tables(folder)
    for path in files:
        table = known.get(path.name)
        commits = ", ".join(name[:9] for name in _catalogue.commits(path, table)) or "unknown"
        lines.append(f"{INDENT}{path.name}, commit {commits}")
        if table is not None:
            lines[-1] += f", {table.date}, {table.minutes:g} min on {table.machine}"
            lines += [f"{INDENT * 2}{command}" for command in table.make]
    return lines
