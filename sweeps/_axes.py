"""Scores of a sweep's models, beside its records, and the columns that they add to its table.

    <out>/axes.json                tasks that the sweep was evaluated on, each with its axis and its settings
    <out>/jobs/<id>/axes.json      the scores of that job's model, each with the settings that made it

A score is in the table where its settings are those of `<out>/axes.json`, which are the newest, and where the
model is still the one that was scored: what stands in one column can be compared.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweeps._files import StoreError, write_atomic
from sweeps._jobs import SCHEMA_VERSION, Column
from sweeps._record import sealed, unsealed

NAME = "axes.json"

UNIT = "nats a token"

OF_TASK: dict[str, tuple[str, str | None, str]] = {
    "loss": ("loss", UNIT, "loss of the right continuation, mean over items"),
    "loss_error": ("loss_error", UNIT, "its standard error over items"),
    "chance": ("chance_loss", UNIT, "the loss of a uniform guess over the possible answers"),
    "accuracy": ("accuracy", None, "share of the items that are answered right"),
}
"""Of each task: a column's ending, the field of its score, unit and meaning."""


def read_tasks(out: Path) -> dict[str, dict[str, Any]]:
    """Axis and settings of each task that the sweep was evaluated on; none where it never was.

    Raises StoreError where the file is damaged.
    """
    return _read(out / NAME, "tasks")


def write_tasks(out: Path, tasks: dict[str, dict[str, Any]]) -> None:
    """Raises StoreError when the file system refuses."""
    write_atomic(out / NAME, sealed({"schema": SCHEMA_VERSION, "tasks": tasks}))


def read_scores(out: Path, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The scores of a record's model, each with its settings; none of a model that is no longer the same.

    Raises StoreError where the file is damaged.
    """
    found = _read(_path(out, record), "scores")
    return {name: one for name, one in found.items() if one["model"] == record.get("model")}


def write_scores(out: Path, record: dict[str, Any], scores: dict[str, dict[str, Any]]) -> None:
    """Raises StoreError when the file system refuses."""
    named = {name: {**one, "model": record["model"]} for name, one in scores.items()}
    write_atomic(
        _path(out, record), sealed({"schema": SCHEMA_VERSION, "job": record["job"], "scores": named})
    )


def current(tasks: dict[str, dict[str, Any]], scores: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The scores that were made with the newest settings, by task."""
    return {
        name: one["score"]
        for name, one in scores.items()
        if name in tasks and one["settings"] == tasks[name]["settings"]
    }


def columns(tasks: dict[str, dict[str, Any]]) -> dict[str, Column]:
    """The columns that these tasks add, in order: of each task, then of each axis."""
    found = {}
    for name in tasks:
        for ending, (_, unit, meaning) in OF_TASK.items():
            found[f"{name}_{ending}"] = Column(float, unit, f"task {name}: {meaning}; null: not evaluated")
    for axis in _axes(tasks):
        for ending, (_, unit, _) in OF_TASK.items():
            meaning = f"axis {axis}: mean of the tasks' {ending} columns; null: not all evaluated"
            found[f"{axis}_{ending}"] = Column(float, unit, meaning)
    return found


def values(tasks: dict[str, dict[str, Any]], scores: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """The values of `columns(tasks)` for one model with these current scores.

    The standard error of an axis is that of a mean of independent tasks, √Σ e² / n.
    """
    found: dict[str, float | None] = {}
    for name in tasks:
        for ending, (field, _, _) in OF_TASK.items():
            found[f"{name}_{ending}"] = scores[name][field] if name in scores else None
    for axis, names in _axes(tasks).items():
        for ending in OF_TASK:
            each = [found[f"{name}_{ending}"] for name in names]
            known = [value for value in each if value is not None]
            if len(known) < len(names):
                found[f"{axis}_{ending}"] = None
            elif ending.endswith("_error"):
                found[f"{axis}_{ending}"] = math.hypot(*known) / len(known)
            else:
                found[f"{axis}_{ending}"] = math.fsum(known) / len(known)
    return found


def note(out: Path, records: Iterable[dict[str, Any]]) -> str | None:
    """What a reader of the table should know of the models that are not scored; None: all are."""
    try:
        tasks = read_tasks(out)
    except StoreError:  # whoever reads the table says so
        return None
    without = 0
    for record in records:
        if tasks and record.get("model") is not None and record["status"] == "done":
            try:
                found = current(tasks, read_scores(out, record))
            except StoreError:
                found = {}
            without += set(found) != set(tasks)
    if not without:
        return None
    told = f"{without} model(s) have no scores on all of {', '.join(tasks)} with the newest settings"
    return f"{told}: `depthlaw evaluate {out}` makes what is missing"


def _axes(tasks: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The tasks of each axis."""
    found: dict[str, list[str]] = {}
    for name, task in tasks.items():
        found.setdefault(task["axis"], []).append(name)
    return found


def _path(out: Path, record: dict[str, Any]) -> Path:
    return out / "jobs" / record["job"] / NAME


def _read(path: Path, key: str) -> dict[str, dict[str, Any]]:
    try:
        found = unsealed(path.read_bytes())[key]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError) as error:
        told = f"{path} is not what it should be: {error}"
        raise StoreError(f"{told}; remove it, and `depthlaw evaluate` makes it again") from error
    return dict(found)
