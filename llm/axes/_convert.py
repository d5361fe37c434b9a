"""From a data set of the hub, or a local file of its rows, to a task in a folder."""

import hashlib
import importlib
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llm._readers import CorpusError, nearest
from llm._rules import require
from llm._shards import write_atomic
from llm.axes._draw import Draw
from llm.axes._files import MANIFEST, FileTask, line_of, read_tasks
from llm.axes._hub import HUB, HubTask, Row
from llm.axes._task import Item, TaskError

ITEMS, EXAMPLES = 1000, 64
"""Items that are asked, and those that are kept for being put before them."""


def convert(
    name: str, folder: Path, *, rows: Path | None = None, items: int = ITEMS, seed: int = 0
) -> FileTask:
    """Write task `name` of `HUB` into a folder: its file, and its entry in the manifest in the place of an
    older one.

    rows: a Parquet or JSON-lines file in the hub's layout (None: `datasets` loads it). items: at most so
    many, drawn by `seed` from all that the split has; before them at most `EXAMPLES`, or a quarter of all
    where those are few, that are kept for examples.
    Raises TaskError: no such task, a row without its fields, no items; what cannot be read or written.
    ValueError: fewer than one item asked for.
    """
    require(items >= 1, "items", items, "must be at least 1")
    if name not in HUB:
        raise TaskError(f"there is no data set {name!r}: {nearest(name, HUB)}")
    task = HUB[name]
    place = str(rows) if rows is not None else f"data set {task.source}"
    found = list(dict.fromkeys(_items(task, _local(rows) if rows is not None else _loaded(task), place)))
    if len(found) < 2:
        raise TaskError(f"{place} has {len(found)} item(s) with an answer: a task needs two or more")
    kept = min(EXAMPLES, len(found) // 4)
    chosen = Draw(name, seed, "rows").sample(found, min(len(found), kept + items))
    data = "".join(f"{line_of(item)}\n" for item in chosen).encode()
    about = {
        "name": name,
        "axis": task.axis,
        "file": f"{name}.jsonl",
        "shots": min(task.shots, kept),
        "chance": None,
        "source": task.source,
        "items": len(chosen),
        "examples": kept,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    others = read_tasks(folder) if (folder / MANIFEST).exists() else []
    every = [one.about for one in others if one.name != name] + [about]
    try:
        write_atomic(folder / f"{name}.jsonl", data)
        text = json.dumps({"tasks": sorted(every, key=lambda one: one["name"])}, indent=1, ensure_ascii=False)
        write_atomic(folder / MANIFEST, f"{text}\n".encode())
    except CorpusError as error:
        raise TaskError(str(error)) from None
    return FileTask(about, chosen)


def _items(task: HubTask, rows: Iterable[Row], place: str) -> Iterator[Item]:
    for number, row in enumerate(rows):
        for field in task.fields:
            if field not in row:
                raise TaskError(f"{place}, row {number}, has no {field!r}: {nearest(field, row)}")
        try:
            yield from task.items(row)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            said = f"{type(error).__name__} {error}"
            raise TaskError(f"{place}, row {number}, is not of {task.hub}'s layout: {said}") from error


def _loaded(task: HubTask) -> Iterator[Row]:
    try:
        datasets = importlib.import_module("datasets")
    except ModuleNotFoundError as error:
        missing = (error.name or "datasets").partition(".")[0]
        raise TaskError(f"{missing} is not installed: pip install 'depthlaw[llm]'") from None
    try:
        yield from datasets.load_dataset(task.hub, task.config, split=task.split)
    except Exception as error:  # of five libraries, without a common class
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        told = f"data set {task.source} cannot be read: {said}"
        raise TaskError(f"{told}; where there is no network, give a file of its rows with --from") from error


def _local(path: Path) -> Iterator[Row]:
    try:
        if path.suffix.lower() == ".parquet":
            import polars as pl

            if not path.is_file():
                raise FileNotFoundError(2, "No such file")
            yield from pl.read_parquet(path).iter_rows(named=True)
            return
        lines = path.read_text(encoding="utf-8").split("\n")
    except Exception as error:  # polars has classes of its own
        said = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise TaskError(f"{path} cannot be read: {said}; give a .parquet or .jsonl file") from error
    for number, line in zip(itertools.count(1), lines, strict=False):
        if line.strip():
            yield _row(line, f"{path}, line {number}")


def _row(line: str, where: str) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise TaskError(f"{where} is no object: it must be a row with the fields of the data set")
    return row
