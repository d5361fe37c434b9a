"""The command line: thin, and light to import (nothing heavy before a command needs it).

Exit status: 0 done; 1 the work failed or a result is not to be trusted; 2 the call was wrong; 129, 130 and
143 stopped by SIGHUP, Ctrl-C and SIGTERM. Numbers go to standard output, everything else to standard error.
"""

import enum
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sweeps._signals import Stopped, raise_if_one_came, raise_on_signals
from sweeps._terminal import console, fail, report, say
from sweeps.cli._corpus import corpus
from sweeps.cli._evaluate import evaluate, tasks
from sweeps.cli._figures import figures
from sweeps.cli._fits import fit, predict
from sweeps.cli._iso_depth import iso_depth
from sweeps.cli._local import local
from sweeps.cli._probe import probe
from sweeps.cli._questions import allocate, compare, holdout, sensitivity
from sweeps.cli._report import report as report_page
from sweeps.cli._trace import trace

if TYPE_CHECKING:
    from sweeps._report import Answer
    from sweeps._run import Policy, RunSummary
    from sweeps._status import Reader
    from sweeps.executors import Where

BEGAN = time.monotonic()

app = typer.Typer(
    help="What is a layer worth? Train students of several depths, fit the law of depth, say how sure.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(enum.StrEnum):
    """How a table is written."""

    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"


SET = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Lay a setting over the spec; repeatable.")
]
WORKERS = Annotated[
    int | None,
    typer.Option(min=1, help="Processes at once (default: one a core or GPU), or jobs of a --cluster (16)."),
]


class Track(enum.StrEnum):
    """Where losses are shown while jobs run."""

    TENSORBOARD = "tensorboard"


class ExecutorName(enum.StrEnum):
    """Where jobs run."""

    IN_PROCESS = "in-process"
    PROCESSES = "processes"


@app.callback()
def at_start() -> None:
    from sweeps._doctor import check_names

    check_names()


@app.command()
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for rows, figure and summary.json.")] = Path(
        "results/quickstart"
    ),
    settings: SET = [],  # noqa: B006  # typer copies it
    workers: WORKERS = None,
) -> None:
    """Both depth exponents, with intervals, regime and figure: three minutes on two cores."""
    from sweeps.executors import Where

    summary, found = _run_and_fit("quickstart", settings, out, Where(workers=workers))
    if found and all(answer.trusted for answer in found):
        from figures.inverse_depth_toy import draw

        for path in draw(out, out):
            say(f"wrote {path}")
    else:
        say("no figure, since it would show fits that are not to be trusted")
    _write_summary(summary, found, out)
    _finish(summary, found)


@app.command()
def run(
    spec: Annotated[str, typer.Argument(help="A preset's name or a TOML file.")],
    out: Annotated[Path | None, typer.Option(help="Folder of results (default: results/NAME).")] = None,
    settings: SET = [],  # noqa: B006  # typer copies it
    executor: Annotated[
        ExecutorName | None, typer.Option(help="Where jobs run (default: what suits sweep and machine).")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler that runs: tcp://host:8786.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Batch system that Dask asks for workers: slurm, pbs, lsf."),
    ] = None,
    workers: WORKERS = None,
    retry: Annotated[int, typer.Option(min=0, help="Try a failed job again, this often.")] = 0,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop the sweep at the first job that fails.")
    ] = False,
    extend: Annotated[
        bool, typer.Option("--extend", help="Add the cells of a changed spec to a folder that holds results.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0.0, help="Seconds between the checkpoints of a job.")
    ] = 60.0,
    keep_models: Annotated[
        bool,
        typer.Option(
            "--keep-models", help="Keep what is trained; jobs that ended without it are trained again."
        ),
    ] = False,
    track: Annotated[Track | None, typer.Option(help="Write losses to DIR/tensorboard as they come.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost, and train nothing.")
    ] = False,
) -> None:
    """Train a sweep, or what is missing of it, and fit its exponents."""
    if dry_run:
        _dry_run(spec, settings, workers)
        return
    from sweeps._run import Policy
    from sweeps.executors import Where

    if sum(choice is not None for choice in (executor, scheduler, cluster)) > 1:
        raise typer.BadParameter("name one of --executor, --scheduler and --cluster")
    where = Where(executor, workers, scheduler, cluster)
    policy = Policy(retry, fail_fast, extend, checkpoint_every, keep_models)
    summary, found = _run_and_fit(spec, settings, out, where, policy, track)
    _finish(summary, found)


@app.command()
def presets() -> None:
    """The presets that `run` knows."""
    from rich.table import Table

    from sweeps._spec import load_spec, preset_names

    table = Table("preset", "what it does")
    for name in preset_names():
        table.add_row(name, load_spec(name).description)
    console().print(table)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")],
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew until the sweep has ended.")] = False,
) -> None:
    """How a sweep stands: jobs by state, pace, time left, newest losses, what failed, the fit so far."""
    from sweeps._status import Reader, shown

    reader = Reader(folder)
    terminal = console()
    if watch and terminal.is_terminal:
        from rich.live import Live as Screen

        with Screen(console=terminal, auto_refresh=False) as screen:
            while True:
                standing = reader.read()
                screen.update(shown(standing, _fit_so_far(reader)), refresh=True)
                if standing.live is None:
                    break
                time.sleep(2)
    else:
        terminal.print(shown(reader.read(), _fit_so_far(reader)))


@app.command()
def table(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")],
    format: Annotated[
        Format | None, typer.Option(help="How to write it (default: as --out is named, else csv).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File (default: standard output).")] = None,
    series: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What does not fit in a row: curves (by training step), angles (by layer).",
        ),
    ] = None,
) -> None:
    """The rows of a sweep: one a student or run. Columns and units: README.md."""
    import io
    import json

    from sweeps._files import write_atomic
    from sweeps._source import table_of
    from sweeps._store import Store

    if format is None:
        suffix = out.suffix.lower().removeprefix(".") if out else ""
        format = Format(suffix) if suffix in tuple(Format) else Format.CSV
    rows, skipped = table_of(folder, series)
    buffer = io.BytesIO()
    if format is Format.CSV:
        rows.write_csv(buffer)
    elif format is Format.JSON:
        rows.write_json(buffer)
    else:
        columns = Store(folder).columns()
        described = {
            name: {"unit": column.unit, "meaning": column.meaning} for name, column in columns.items()
        }
        here = {name: described[name] for name in rows.columns if name in described}
        rows.write_parquet(buffer, metadata={"depthlaw.columns": json.dumps(here)})
    data = buffer.getvalue()
    if out is not None:
        write_atomic(out, data)
        say(f"wrote {out}: {len(rows)} rows")
    elif format is Format.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter("parquet is not text: give --out or redirect")
    else:
        sys.stdout.buffer.write(data if format is not Format.JSON else data + b"\n")
    if skipped:
        fail(f"{len(skipped)} file(s) are not in the table: see above", 1)


app.command("report")(report_page)
for command in (
    *(fit, local, predict, compare, sensitivity, holdout, allocate, iso_depth),
    *(corpus, probe, trace, evaluate, tasks, figures),
):
    app.command()(command)


@app.command()
def doctor() -> None:
    """Versions, devices, precision, threads, and whether another package hides one of ours."""
    from rich.table import Table

    from sweeps._doctor import examine

    table = Table(show_header=False)
    for name, value in examine().items():
        table.add_row(name, str(value))
    console().print(table)


def main() -> NoReturn:
    """Entry point: turns what goes wrong into one sentence and an exit status."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w")  # None where the caller has closed it
        # Characters that the locale cannot write are replaced, not fatal.
        stream.reconfigure(errors="replace")
        setattr(sys, name, stream)
    raise_on_signals()
    # Matrices here are small: a second BLAS thread gains nothing, and on a busy machine costs a hundredfold.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = sys.argv[1:]
    try:
        status = app(arguments or ["--help"], prog_name="depthlaw", standalone_mode=False)
        raise_if_one_came()
        sys.stdout.flush()
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else "depthlaw"
        fail(f"{' '.join(error.format_message().split()).rstrip('.')}; see `{where} --help`", 2)
    except Stopped as stopped:
        resumed = arguments[:1] in (["run"], ["quickstart"], ["evaluate"], ["probe"])
        goes_on = "; the same command goes on from there" if resumed else ""
        fail(f"stopped by {stopped.signal.name}{goes_on}", 128 + stopped.signal)
    except Exception as error:
        report(error)
    sys.exit(status if arguments else 2)


# Of the click that typer brings along, under a name that depends on typer's version.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _run_and_fit(
    name: str,
    settings: list[str],
    out: Path | None,
    where: "Where | None" = None,
    policy: "Policy | None" = None,
    track: Track | None = None,
) -> "tuple[RunSummary, list[Answer]]":
    from sweeps._files import write_json
    from sweeps._progress import Several, watcher
    from sweeps._report import answers, as_json, question_of
    from sweeps._run import run_sweep
    from sweeps._spec import NO_LAW, load_spec
    from sweeps._status import Live

    spec = load_spec(name, tuple(settings))
    out = out or Path("results") / spec.name
    watchers: list[Any] = [watcher(console(stderr=True)), Live(out)]
    if track is not None:
        from sweeps._tracking import TensorBoard

        watchers.append(TensorBoard(out))
    progress = Several(*watchers)
    try:
        summary = run_sweep(spec, out, progress, where=where, policy=policy)
    finally:
        progress.close()
    skipped: list[str] = []
    rows = summary.store.table(skipped)
    for sentence in skipped:
        say(sentence)
    if rows.is_empty() and not (summary.failures or summary.not_run):
        fail("there are no rows, so there is no fit", 1)
    asked = spec.fit.law != NO_LAW and not rows.is_empty()
    found = answers(rows, question_of(spec.fit)) if asked else []
    write_json(out / "fits.json", [as_json(answer) for answer in found])
    _show(found)
    return summary, found


def _show(found: "list[Answer]") -> None:
    from sweeps._report import exponents_table, sentences

    if found:
        console().print(exponents_table(found))
    for sentence in sentences(found):
        say(sentence)


def _write_summary(summary: "RunSummary", found: "list[Answer]", out: Path) -> None:
    from sweeps._files import write_json
    from sweeps._machine import peak_memory
    from sweeps._report import as_json

    teachers = {}
    for answer in found:
        values = as_json(answer)
        teachers[values.pop("teacher")] = values
    # The workers have ended by the time that the figure is drawn.
    peak = max(summary.peak_memory, peak_memory())
    write_json(
        out / "summary.json",
        {
            "teachers": teachers,
            "wall_seconds": round(time.monotonic() - BEGAN, 2),
            "peak_memory_bytes": peak,
            "compile_seconds": round(summary.compile_seconds, 2),
            "jobs": summary.jobs,
            "jobs_reused": summary.reused,
        },
    )


def _finish(summary: "RunSummary", found: "list[Answer]") -> None:
    """Say what failed and leave with the exit status that the results deserve."""
    say(f"rows, curves and fits in {summary.store.out}")
    for stack in sorted(set(summary.traces.values())):
        say(stack)
    if summary.failures or summary.diverged:
        console(stderr=True).print(_table_of_failures(summary))
    if summary.failures or summary.not_run:
        not_run = f", {summary.not_run} were not run" if summary.not_run else ""
        gone, how = (summary.failures, "failed") if summary.failures else (summary.diverged, "diverged")
        fail(f"{len(gone)} of {summary.jobs} jobs {how}{not_run}: the same command tries again", 1)
    _exit_unless_trusted(found)


def _table_of_failures(summary: "RunSummary") -> Any:
    from rich.table import Table

    table = Table("missing job", "what", "state", "why")
    for state, jobs in (("failed", summary.failures), ("diverged", summary.diverged)):
        for job, (label, reason) in jobs.items():
            table.add_row(job, label, state, reason)
    return table


def _exit_unless_trusted(found: "list[Answer]") -> None:
    bad = sum(not answer.trusted for answer in found)
    if bad:
        fail(f"{bad} of {len(found)} fits are not to be trusted: see above", 1)


def _fit_so_far(reader: "Reader") -> Any:
    """A table of exponents; None where there are no rows, or too many for a quick look."""
    from sweeps._config import ConfigError
    from sweeps._report import answers, exponents_table, question_of
    from sweeps._spec import NO_LAW, FitSpec
    from sweeps._status import MOST_ROWS

    if not 0 < len(reader.known) <= MOST_ROWS:
        return None
    rows = reader.store.table()
    if not 0 < len(rows) <= MOST_ROWS:
        return None
    source = reader.store.spec()
    asked = FitSpec.of(source.get("fit", {}), source["sweep"].get("kind", "toy"), "fit")
    if asked.law == NO_LAW:
        return None
    try:
        return exponents_table(answers(rows, question_of(asked)))
    except ConfigError:
        return None


def _dry_run(name: str, settings: list[str], workers: int | None) -> None:
    from sweeps._estimate import estimate
    from sweeps._spec import load_spec
    from sweeps._status import duration

    spec = load_spec(name, tuple(settings))
    cost = estimate(spec, workers)
    console().print(
        f"{spec.name}: {cost.jobs} jobs, {cost.rows} rows, {cost.flops:.3g} FLOPs\n"
        f"about {duration(cost.seconds)} on {cost.workers} core(s) of this machine, "
        f"{cost.bytes / 2**20:.0f} MiB of arrays a process",
        highlight=False,
    )
