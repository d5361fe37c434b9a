"""The catalogue: every figure that is drawn from kept tables, and where those tables come from.

A script of this folder that has a tuple `DRAWINGS` is in the catalogue. `tables/tables.toml` says for every
kept file which commands make it anew, how long that takes, and on what machine it was made.
"""

import importlib
import pkgutil
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import figures
from sweeps._config import ConfigError, nearest

TABLES = Path(__file__).parent / "tables"

SCALES: tuple[dict[str, str], ...] = (
    {"-2core": "", "llm_cpu": "llm_paper"},
    {"-2core": "", "llm_cpu": "llm_gpu"},
    {},
)
"""What a table of another scale is called, largest first: the first of which all files are there is drawn."""


@dataclass(frozen=True)
class Drawing:
    """A figure of the catalogue.

    name: of its files. shows: what is seen, in a few words. compare: the published figure, or that there is
    none. needs: file names in `tables/` at two-core scale. draw: draws the files, in the order of `needs`,
    into a folder and returns what it wrote.
    """

    name: str
    shows: str
    compare: str
    needs: tuple[str, ...]
    draw: Callable[[Sequence[Path], Path], list[Path]]

    def files(self, tables: Path) -> list[Path]:
        """What it is drawn from, at the largest scale that is there.

        Raises ConfigError where not even two-core tables are.
        """
        for names in SCALES:
            found = [tables / _renamed(need, names) for need in self.needs]
            if all(path.exists() for path in found):
                return found
        missing = ", ".join(str(path) for path in found if not path.exists())
        raise ConfigError(f"{self.name} is drawn from {missing}, which is not there")


@dataclass(frozen=True)
class Table:
    """Where kept files come from.

    make: commands, run in the root of the repository. minutes: what they took. machine, date: where and when.
    commit: of the code, where the files themselves do not say it.
    """

    files: tuple[str, ...]
    make: tuple[str, ...]
    minutes: float
    machine: str
    date: str
    commit: str | None = None


def drawings() -> list[Drawing]:
    """All figures of the catalogue, by script."""
    scripts = sorted(name for _, name, _ in pkgutil.iter_modules(figures.__path__) if name[0] != "_")
    found: list[Drawing] = []
    for script in scripts:
        found += getattr(importlib.import_module(f"figures.{script}"), "DRAWINGS", ())
    return found


def chosen(names: Sequence[str]) -> list[Drawing]:
    """The figures of these names; "all" are all. Raises ConfigError for a name that is none."""
    every = {one.name: one for one in drawings()}
    if "all" in names:
        return list(every.values())
    for name in names:
        if name not in every:
            raise ConfigError(
                f"{name!r} is no figure: {nearest(name, every)}; `depthlaw figures --list` has all"
            )
    return [every[name] for name in dict.fromkeys(names)]


def tables(folder: Path = TABLES) -> dict[str, Table]:
    """File name -> where it comes from, as <folder>/tables.toml says. Raises ConfigError."""
    path = folder / "tables.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["table"]
        known = [_table(entry) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not say where tables come from: {error}") from error
    return {name: table for table in known for name in table.files}


def commits(path: Path, table: Table | None) -> list[str]:
    """The commits of the code that made a file: those that its rows name, or else the one that is noted."""
    from sweeps._formats import read_table

    if path.suffix in (".csv", ".parquet"):
        rows = read_table(path)
        if "commit" in rows.columns:
            return sorted(str(name) for name in rows["commit"].drop_nulls().unique())
    return [table.commit] if table is not None and table.commit else []


def _table(entry: dict[str, Any]) -> Table:
    files, make = tuple(entry.pop("files")), tuple(entry.pop("make"))
    return Table(files=files, make=make, date=str(entry.pop("date")), **entry)


def _renamed(name: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        name = name.replace(old, new)
    return name
