"""The commands `evaluate` and `tasks`."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps._terminal import console, fail, say
from sweeps.cli._fits import _write_text
from sweeps.cli._options import print_rows

if TYPE_CHECKING:
    from sweeps._evaluate import Evaluated

SECONDS = 20.0
"""Between two lines of progress where nobody watches a terminal."""

SHOWN = ("width", "num_recur", "budget", "seed", "loss")
"""Columns of a run that its scores are shown beside."""


def evaluate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A folder of results whose models were kept, or a pretrained model."
        ),
    ],
    only: Annotated[
        list[str],
        typer.Option("--only", metavar="COLUMN=VALUE", help="Of a folder: those runs alone; repeatable."),
    ] = [],  # noqa: B006  # typer copies it
    tasks: Annotated[
        str, typer.Option(metavar="NAME,...", help="Tasks, see `depthlaw tasks`. [default: all there are]")
    ] = "",
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of tasks: JSON lines and manifest.json.")
    ] = None,
    items: Annotated[int, typer.Option(min=1, help="Items of a task, or all that it has.")] = 500,
    shots: Annotated[
        int | None, typer.Option(min=0, help="Solved items before each. [default: as the task says]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of items and of what is put before them.")] = 0,
    num_recur: Annotated[
        int | None, typer.Option(min=1, metavar="R", help="Recurrences. [default: as in training]")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Everything, as JSON; '-' for standard output."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw axis loss against compute and validation loss."),
    ] = None,
) -> None:
    """Score language models on five axes: loss and accuracy of continuations, as columns of the table."""
    import json as text

    from sweeps._config import ConfigError
    from sweeps._evaluate import evaluate as evaluated
    from sweeps._evaluate import tasks_named
    from sweeps._language_models import is_results
    from sweeps._machine import set_up_jax

    set_up_jax()  # before what imports JAX
    from llm.axes import settings

    if plot is not None and not is_results(source):
        raise ConfigError(f"{source} is no folder of results: --plot draws the runs of one")
    chosen = tasks_named([name for part in tasks.split(",") if (name := part.strip())], data)
    options: dict[str, Any] = {"items": items, "shots": shots, "seed": seed}
    found = []
    watcher = _Watcher()
    for one in evaluated(
        source, chosen, only=only, num_recur=num_recur, note=say, on_progress=watcher, **options
    ):
        watcher.clear()
        found.append(one)
    if json is None or str(json) != "-":
        print_rows([_row(one) for one in found], None)
    for sentence in _sentences(found):
        say(sentence)
    if json is not None:
        models = [{"model": one.name, "row": one.row, "scores": one.scores} for one in found]
        about = {
            task.name: {"axis": task.axis, "source": task.source, **settings(task, **options)}
            for task in chosen
        }
        tree = {"source": source, "num_recur": num_recur, "tasks": about, "models": models}
        _write_text(json, text.dumps(tree, indent=1, allow_nan=False))
    if plot is not None:
        from figures.five_axes import draw, load

        for path in draw(load(Path(source)), plot.parent, plot.stem, Path(source).name):
            say(f"wrote {path}")
    wrong = [one.name for one in found if any(score["loss"] is None for score in one.scores.values())]
    if wrong:
        fail(f"not to be trusted: losses of {', '.join(wrong)} are not finite", 1)


def tasks(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Data sets to convert; none: lists all tasks."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of tasks to write into, for `evaluate --data`.")
    ] = Path("tasks"),
    rows: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Its rows, .parquet or .jsonl. [default: from the hub]"),
    ] = None,
    items: Annotated[int, typer.Option(min=1, help="Items to keep, beside those for examples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the items that are kept.")] = 0,
) -> None:
    """List the tasks of `evaluate`, or convert data sets of the hub into a folder of tasks."""
    from llm.axes import TaskError, convert
    from sweeps._config import ConfigError

    if not names:
        _list()
        return
    if rows is not None and len(names) > 1:
        raise typer.BadParameter("the rows of one file are those of one data set: name one")
    for name in names:
        try:
            task = convert(name, out, rows=rows, items=items, seed=seed)
        except TaskError as error:
            raise ConfigError(str(error)) from None
        about = task.about
        told = f"{about['items'] - about['examples']} items, and {about['examples']} to be put before them"
        say(f"wrote {out / about['file']}: {told}")


def _list() -> None:
    from rich.table import Table

    from llm.axes import GENERATORS, HUB

    shown = Table("task", "axis", "shots", "chance", "source", "not verified")
    for task in GENERATORS.values():
        shown.add_row(task.name, task.axis, str(task.shots), task.chance, task.source, "")
    for entry in HUB.values():
        chance = "1/n of n choices" if entry.name == "arc_easy" else "open"
        unchecked = entry.unchecked or ""
        shown.add_row(entry.name, entry.axis, str(entry.shots), chance, entry.source, unchecked)
    console().print(shown)


def _row(one: "Evaluated") -> dict[str, Any]:
    found: dict[str, Any] = {"model": one.name}
    found |= {name: one.row[name] for name in SHOWN} if one.row is not None else {}
    for name, score in one.scores.items():
        found |= {f"{name}_loss": score["loss"], f"{name}_accuracy": score["accuracy"]}
    return found


def _sentences(found: "list[Evaluated]") -> list[str]:
    """Chance, what did not fit, and what was there before."""
    told = []
    for name, score in found[0].scores.items() if found else ():
        every = [one.scores[name] for one in found]
        sentence = (
            f"{name}: chance is {score['chance_loss']:.4f} nats a token, {score['chance_accuracy']:.3f}"
        )
        fewest, most = (f(each["shots"] for each in every) for f in (min, max))
        shots = f"{fewest:.2g}" if fewest == most else f"{fewest:.2g} to {most:.2g}"
        sentence += f" right; {score['items']} items, {shots} solved ones before each on average"
        for field, what in (("cut", "cut on the left"), ("left_out", "left out")):
            if count := max(each[field] for each in every):
                sentence += f"; up to {count} {what}, since models do not read so far"
        told.append(sentence)
    before = sum(len(one.scores) - len(one.scored) for one in found)
    if before:
        told.append(f"{before} of {sum(len(one.scores) for one in found)} scores were there before")
    return told


class _Watcher:
    """Says which model is scored, and how far: on one line of a terminal, or now and then on lines."""

    def __init__(self) -> None:
        self.told = time.monotonic()
        self.live = sys.stderr.isatty()
        self.models: list[str] = []

    def __call__(self, name: str, share: float) -> None:
        if name not in self.models:
            self.models.append(name)
        now = time.monotonic()
        if now - self.told < (0.2 if self.live else SECONDS):
            return
        self.told = now
        text = f"model {len(self.models)}, {name}: {share:.0%}"
        sys.stderr.write(f"\r{text}\033[K" if self.live else f"{text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.live and self.models:
            sys.stderr.write("\r\033[K")
