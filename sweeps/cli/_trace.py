"""The command `trace`."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps._terminal import console, fail, say
from sweeps.cli._fits import _write_text
from sweeps.cli._options import write_rows

if TYPE_CHECKING:
    from llm.probe import CausalTrace, TraceProgress
    from sweeps._language_models import OpenedModel

SHOWN = 10
"""Sites in the summary, and runs in a refusal."""

SECONDS = 5.0
"""Between two lines of progress where nobody watches a terminal."""


def trace(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of results with kept models, or a pretrained model's folder or name.",
        ),
    ],
    sentence: Annotated[str, typer.Option(help="What the model reads.")],
    subject: Annotated[str, typer.Option(help="The part of it that gets noise.")],
    answer: Annotated[
        str | None,
        typer.Option(
            help="What follows exactly, with its leading space; its first token counts. "
            "[default: the model's likeliest next token]"
        ),
    ] = None,
    occurrence: Annotated[int, typer.Option(help="Which of several subjects, from 1.")] = 1,
    noise: Annotated[float, typer.Option(help="Over the embedding's standard deviation.")] = 3.0,
    draws: Annotated[int, typer.Option(help="Of the noise.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    only: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=VALUE", help="Which run of a folder of results; or a job's id; repeatable."
        ),
    ] = [],  # noqa: B006  # typer copies it
    num_recur: Annotated[
        int | None, typer.Option("--num-recur", help="Recurrences r of a looped model (as in training).")
    ] = None,
    state: Annotated[
        list[str], typer.Option(metavar="NAME", help="Restore this state (all); repeatable.")
    ] = [],  # noqa: B006
    precision: Annotated[str, typer.Option(help="Of a pretrained model's numbers.")] = "float32",
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="Rows (.csv, .parquet, .json). [default: standard output, if redirected]",
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Everything, as JSON; '-' for standard output. FILE.part keeps what is done until all is.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the map (PNG and PDF).")
    ] = None,
) -> None:
    """Which hidden states carry what a sentence says of its subject: with noise on it, each is put back."""
    import json as text

    import polars as pl

    from llm.probe import TraceSettings, causal_trace
    from sweeps._causal import Kept, as_json, caveats, rows, sentences
    from sweeps._config import ConfigError

    typed = None if answer is None else _typed(answer)
    try:
        settings = TraceSettings(_typed(sentence), _typed(subject), typed, occurrence, noise, draws, seed)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    to_stdout, csv_to_stdout = (path is not None and str(path) == "-" for path in (json, csv))
    if to_stdout and csv_to_stdout:
        raise typer.BadParameter("only one of --csv and --json can go to standard output")
    if csv is not None and not csv_to_stdout and csv.suffix.lower() not in (".csv", ".parquet", ".json"):
        raise typer.BadParameter(f"{csv}: rows are written as .csv, .parquet or .json", param_hint="--csv")
    opened = _one(source, only, num_recur, precision)
    about = {"source": source, "num_recur": num_recur, "precision": precision}
    kept = None if json is None or to_stdout else Kept(json, opened.model, settings, about)
    if kept is not None and kept.known:
        say(f"{kept.path} has {len(kept.known)} state(s) of this trace: it goes on from there")
    elif kept is not None and kept.other:
        say(f"{kept.path} is of another trace: this one takes its place")
    watch = _Watcher()

    def on_state(progress: "TraceProgress") -> None:
        if kept is not None:
            kept.keep(progress)
        watch(progress)

    try:
        found = causal_trace(
            opened.model,
            **vars(settings),
            states=state or None,
            known=None if kept is None else kept.known,
            on_state=on_state,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    finally:
        watch.close()
    redirected = not sys.stdout.isatty()
    for caveat in caveats(found):
        say(caveat)
    _show(found, sentences(found), console(stderr=redirected or csv_to_stdout or to_stdout))
    if csv is not None or (redirected and not to_stdout):
        table = pl.DataFrame(rows(found), infer_schema_length=None)
        write_rows(table, None if csv_to_stdout else csv)
    if json is not None:
        _write_text(json, text.dumps(as_json(found, source), allow_nan=False))
    if kept is not None:
        kept.drop()
    if plot is not None:
        from figures.causal_trace import draw

        for path in draw(found, plot.parent, plot.stem, Path(source).name):
            say(f"wrote {path}")
    if not found.lowered:
        fail("the map is not to be trusted: the noise does not lower the answer's probability", 1)


def _typed(text: str) -> str:
    """What was typed: UTF-8, where the locale has not told Python so."""
    try:
        return os.fsencode(text).decode() if any("\ud800" <= c <= "\udfff" for c in text) else text
    except UnicodeDecodeError:
        return text


def _one(source: str, only: list[str], num_recur: int | None, precision: str) -> "OpenedModel":
    """The one model that is meant. Raises ConfigError where several are."""
    from sweeps._config import ConfigError
    from sweeps._language_models import chosen, is_results, open_language_models
    from sweeps._store import Store

    if is_results(source):
        records = chosen(Store(Path(source)), only, "lm")
        if len(records) > 1:
            named = [
                f"{record['job']} (width {record['rows'][0]['width']}, r {record['rows'][0]['num_recur']})"
                for record in records[:SHOWN]
            ]
            more = ", …" if len(records) > SHOWN else ""
            told = f"{len(records)} runs of {source} are meant, and a trace is of one"
            raise ConfigError(f"{told}: --only with an id, or COLUMN=VALUE: {', '.join(named)}{more}")
    try:
        (opened,) = open_language_models(source, only=only, num_recur=num_recur, precision=precision)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return opened


def _show(found: "CausalTrace", sentences: list[str], terminal: Any) -> None:
    """The state of largest effect at each of the tokens where it is largest."""
    from rich.table import Table
    from rich.text import Text

    from sweeps._causal import labels

    for sentence in sentences:
        terminal.print(Text(sentence))
    texts = labels(found)
    if not found.peaks():
        return
    table = Table(
        "token", "", "state", "probability", "sd", "effect", "standard error", title="Where it peaks"
    )
    for s, t in found.peaks()[:SHOWN]:
        numbers = (found.probability, found.spread, found.effect, found.effect_error)
        table.add_row(
            Text(f"{t} '{texts[t]}'"),
            "subject" if found.tokens[t].is_subject else "",
            found.states[s].name,
            *(f"{values[s, t]:.4g}" for values in numbers),
        )
    terminal.print(table)


class _Watcher:
    """Says how far a trace is: on one line of a terminal, or now and then on lines of their own."""

    def __init__(self) -> None:
        self.told = time.monotonic()
        self.live = sys.stderr.isatty()
        self.began: tuple[float, int] | None = None

    def __call__(self, progress: "TraceProgress") -> None:
        now = time.monotonic()
        if (
            self.began is None
        ):  # the first state, with which programs are compiled, says nothing of the others
            self.began = now, progress.done
            return
        if now - self.told < (0.2 if self.live else SECONDS):
            return
        self.told = now
        began, done = self.began
        left = (now - began) / (progress.done - done) * (progress.total - progress.done)
        told = f"{progress.done} of {progress.total} states, about {left:.0f} s left"
        sys.stderr.write(f"\r{told}\033[K" if self.live else f"{told}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
