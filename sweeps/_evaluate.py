"""Language models on tasks: scored, or read where they have been scored before."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sweeps import _axes
from sweeps._config import ConfigError, nearest
from sweeps._language_models import OpenedModel, is_results, open_language_models
from sweeps._lm import LM
from sweeps._store import JOB, PROVENANCE, Store

if TYPE_CHECKING:
    from llm.axes import Task


class Evaluated(NamedTuple):
    """A model's scores by task, as plain values; row: of the run that trained it, None for a pretrained one.

    scored: the tasks that were scored now; the others were read.
    """

    name: str
    row: dict[str, Any] | None
    scores: dict[str, dict[str, Any]]
    scored: tuple[str, ...]


def tasks_named(names: Sequence[str], data: Path | None = None) -> "list[Task]":
    """Tasks by name: those built in and those of the folder `data`; all of them where none is named.

    Raises ConfigError: an unknown name, a folder that cannot be read.
    """
    from llm.axes import GENERATORS, Task, TaskError, read_tasks

    known: dict[str, Task] = dict(GENERATORS)
    try:
        for task in read_tasks(data) if data is not None else ():
            if task.name in known:
                told = f"{data}: task {task.name!r} has the name of one that is built in"
                raise ConfigError(f"{told}: give it another in the manifest")
            known[task.name] = task
    except TaskError as error:
        raise ConfigError(str(error)) from None
    for name in names:
        if name not in known:
            hint = "" if data is not None else "; tasks of a folder need --data"
            raise ConfigError(f"there is no task {name!r}: {nearest(name, known)}{hint}")
    chosen = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    ordinary = {"job": JOB, **LM.columns, **PROVENANCE}
    for column in _axes.columns({task.name: {"axis": task.axis} for task in chosen}):
        if column in ordinary:
            raise ConfigError(f"a task's column {column!r} is one of every table: name the task differently")
    return chosen


def evaluate(
    source: str,
    tasks: "Sequence[Task]",
    *,
    only: Sequence[str] = (),
    num_recur: int | None = None,
    note: Callable[[str], None] = lambda sentence: None,
    on_progress: Callable[[str, float], None] = lambda name, share: None,
    **options: Any,
) -> Iterator[Evaluated]:
    """The scores of each model that `source` names, see `open_language_models`.

    Those of a folder of results are kept beside its records as soon as they are known, and not made again
    with the same settings; other settings become those of the folder, and note is told. options: items,
    shots, seed of `llm.axes.score`. on_progress: is told a model's name and the share of it that is done.
    Raises ConfigError, StoreError.
    """
    from llm.axes import TaskError, settings

    try:
        asked = {
            task.name: {"axis": task.axis, "settings": {**settings(task, **options), "num_recur": num_recur}}
            for task in tasks
        }
    except ValueError as error:
        raise ConfigError(str(error)) from None
    kept = Store(Path(source)) if is_results(source) else None
    for number, opened in enumerate(open_language_models(source, only=only, num_recur=num_recur)):
        if kept is not None and number == 0:
            _tell_changes(_axes.read_tasks(kept.out), asked, note)
        try:
            if kept is None:
                scores = _scored(opened, tasks, on_progress, options)
                yield Evaluated(opened.model.name, None, scores, tuple(scores))
            else:
                yield _of_run(kept, opened, tasks, asked, on_progress, options)
        except TaskError as error:
            raise ConfigError(str(error)) from None


def _of_run(
    store: Store,
    opened: OpenedModel,
    tasks: "Sequence[Task]",
    asked: dict[str, dict[str, Any]],
    on_progress: Callable[[str, float], None],
    options: dict[str, Any],
) -> Evaluated:
    record = store.record(opened.model.name)
    before = _axes.read_scores(store.out, record)
    there = _axes.current(asked, before)
    missing = [task for task in tasks if task.name not in there]
    if missing:
        new = _scored(opened, missing, on_progress, options)
        _agree(store.out, asked)
        stamped = {name: {"settings": asked[name]["settings"], "score": value} for name, value in new.items()}
        _axes.write_scores(store.out, record, {**before, **stamped})
        there |= new
    else:
        _agree(store.out, asked)
    found = {name: there[name] for name in asked}
    return Evaluated(opened.model.name, opened.row, found, tuple(task.name for task in missing))


def _scored(
    opened: OpenedModel,
    tasks: "Sequence[Task]",
    on_progress: Callable[[str, float], None],
    options: dict[str, Any],
) -> dict[str, dict[str, Any]]:
    from llm.axes import score

    name = opened.model.name
    found = score(opened.model, tasks, on_progress=lambda share: on_progress(name, share), **options)
    return {
        name: {
            field: None if isinstance(value, float) and not math.isfinite(value) else value
            for field, value in asdict(one).items()
        }
        for name, one in found.items()
    }


def _tell_changes(
    before: dict[str, dict[str, Any]], asked: dict[str, dict[str, Any]], note: Callable[[str], None]
) -> None:
    """Say which tasks had other settings."""
    for name in asked:
        old, new = before.get(name, asked[name])["settings"], asked[name]["settings"]
        changed = [f"{key} {old.get(key)!r}, now {new[key]!r}" for key in new if old.get(key) != new[key]]
        if changed:
            told = f"{name} was evaluated with other settings ({'; '.join(changed)})"
            note(f"{told}: those scores leave the table, and are made anew for the models that are asked for")


def _agree(out: Path, asked: dict[str, dict[str, Any]]) -> None:
    """Make these tasks and settings those of the folder, once a model could be scored on them."""
    before = _axes.read_tasks(out)
    if any(before.get(name) != task for name, task in asked.items()):
        _axes.write_tasks(out, {**before, **asked})
