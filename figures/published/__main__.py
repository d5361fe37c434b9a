"""The table of published numbers and ours, as Markdown.

    python -m figures.published --out docs/published.md

Reads kept tables and saved fits; takes seconds.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from figures import _catalogue
from figures.published import _chinchilla, _looped, _states, _toys
from figures.published._row import Row, markdown
from sweeps._config import ConfigError
from sweeps._files import write_atomic
from sweeps._formats import read_table
from sweeps._terminal import BadTable, fail, say

HEAD = """# Published numbers and ours

Made by `python -m figures.published --out docs/published.md` from the tables in `figures/tables`. Numbers
in brackets are 95 % intervals. Published and measured numbers *agree* where their intervals meet (a number
without one is a point); what hangs on the data and the size of what was trained is *not comparable*.

What ours were measured on:

- `mse-2core`, `midpoint-2core`, `kl-…-2core`: width 8, teachers of 64 layers, batch 256, vocabulary 32,
  10 000 to 120 000 steps (paper: width 32, 128 layers, batch 1024, vocabulary 128, 40 000 to 80 000 steps).
- `llm_cpu`: 72 runs, widths 8 to 32, 5 thousand to 250 thousand parameters, 2.5e11 to 2e12 FLOPs, bytes of
  the source of Python's standard library (paper: 116 runs, 10 million to 1 billion parameters, 4.6e17 to
  2.2e19 FLOPs, FineWeb-Edu).
- `llm_cpu_depths`: plain models of 4 to 32 layers, width 16. `SmolLM2`: SmolLM2-135M-Instruct, 30 layers, 96
  sequences of 256 tokens of Python source (paper: Pythia 410M to 12B, Qwen-2.5, OPT on 4800 web documents).

"""


def rows(tables: Path) -> Iterator[Row]:
    """All rows. Raises ConfigError and BadTable where a table is missing or is none."""

    def table(name: str) -> Path:
        if not (path := tables / name).exists():
            raise ConfigError(f"{path} is not there: `depthlaw figures --list` says how tables are made")
        return path

    def saved(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(table(name).read_text(encoding="utf-8"))
        return found

    yield from _toys.rows(table)
    yield from _chinchilla.rows(saved("chinchilla_depth.json"))
    yield from _states.rows(table)
    against = {case: saved(f"llm_cpu_against_{case}.json") for case in ("truncated", "hyperconnections")}
    yield from _looped.rows(saved("llm_cpu.json"), against)
    yield _looped.injections(read_table(table("llm_cpu_injections.csv")))
    yield _looped.axes(read_table(table("llm_cpu_axes.csv")))


def main(
    out: Annotated[Path | None, typer.Option(help="File (default: standard output).")] = None,
    tables: Annotated[Path, typer.Option(help="Folder of tables.")] = _catalogue.TABLES,
) -> None:
    """Write the table."""
    try:
        text = HEAD + markdown(list(rows(tables)))
    except (ConfigError, BadTable) as error:
        fail(f"published: {error}", 1)
    if out is None:
        print(text, end="")
    else:
        write_atomic(out, text.encode())
        say(f"wrote {out}")


if __name__ == "__main__":
    typer.run(main)
