"""Cost of the sweep engine: its figures in tests/benchmarks/README.md, as markdown tables.

    python tests/benchmarks/engine.py all

Each section makes its folders below a temporary one. Progress goes to standard error.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
COMMAND = [sys.executable, "-c", "from sweeps.cli import main; main()"]

app = typer.Typer(
    help="Cost of the sweep engine, as markdown tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TINY = """
[sweep]
name = "tiny"

[base]
width = 4
hidden_factor = 2
batch = 16
depths = [1, 2, 3, 4, 6, 8]
seeds = {{ range = [0, {last}, 1] }}
steps = 2
teacher = {{ kind = "tied", depth = 4 }}
evaluation = {{ batches = 1, batch = 16, points = 2, first_step = 1 }}

[fit]
floor = 0.0
"""

EQUAL = """
[sweep]
name = "equal"

[base]
width = 8
batch = 256
depths = [2, 3, 4, 5, 6, 8]
seeds = {{ range = [0, {last}, 1] }}
steps = {steps}
teacher = {{ kind = "independent", depth = 64 }}

[fit]
floor = 0.0
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(*arguments: Any, **environment: str) -> float:
    """Seconds of wall time of a command of depthlaw; its status is looked at by no one."""
    began = time.monotonic()
    subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def table(name: str, *rows: tuple[Any, ...]) -> None:
    """A markdown table under its mark in README.md; the first row is its head."""
    print(f"\n<!-- table: {name} -->")
    for row in (rows[0], ("---",) * len(rows[0]), *rows[1:]):
        print(f"| {' | '.join(f'{v:.3g}' if isinstance(v, float) else str(v) for v in row)} |", flush=True)


SWEEP = """
import json, sys, time, types
from pathlib import Path
from sweeps._run import run_sweep
from sweeps._spec import load_spec
from sweeps.executors import Where

def main(spec, out, executor):
    nothing = lambda *_: None
    watcher = types.SimpleNamespace(start=nothing, tick=nothing, note=nothing, end=nothing, close=nothing)
    where = None if executor == "any" else Where(executor=executor, workers=1)
    began = time.monotonic()
    summary = run_sweep(load_spec(spec), Path(out), watcher, where=where)
    wall = time.monotonic() - began
    trained = sum(record["provenance"]["wall_seconds"] for record in summary.store.records())
    print(json.dumps({"wall": wall, "trained": trained, "reused": summary.reused, "jobs": summary.jobs}))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""
"""A sweep without what the command does with its rows."""


def sweep(folder: str, spec: Path, out: Path, executor: str = "any") -> dict[str, float]:
    script = Path(folder, "sweep.py")
    script.write_text(SWEEP)
    done = subprocess.run(
        [sys.executable, str(script), str(spec), str(out), executor],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@app.command()
def overhead(jobs: Annotated[int, typer.Option(help="Jobs of the sweep.")] = 100) -> None:
    """Wall time of a sweep that is not training, for each job: in this process, and in one worker."""
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for where in ("in-process", "processes"):
            costs = []
            for count in (jobs, 4):  # the difference is free of what starting takes
                spec = Path(folder, f"{count}.toml")
                spec.write_text(TINY.format(last=count - 1))
                found = sweep(folder, spec, Path(folder, f"{where}-{count}"), where)
                costs.append(found["wall"] - found["trained"])
                say(f"{where}, {count} jobs: {found['wall']:.1f} s, of which training {found['trained']:.1f}")
            rows.append((where, 1e3 * (costs[0] - costs[1]) / (jobs - 4)))
        table("overhead", ("executor", "ms a job"), *rows)


@app.command()
def processes(
    jobs: Annotated[int, typer.Option(help="Equal cells.")] = 16,
    steps: Annotated[int, typer.Option(help="Training steps of each.")] = 5000,
    rounds: Annotated[int, typer.Option(help="Times that each is measured.")] = 2,
) -> None:
    """A sweep of equal small cells on one process and on two, with everything that it does."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "equal.toml")
        spec.write_text(EQUAL.format(last=jobs - 1, steps=steps))
        walls: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(rounds):
            for workers in walls:
                out = Path(folder, f"{workers}-{turn}")
                walls[workers].append(run("run", spec, "--out", out, "--workers", workers))
                say(f"round {turn + 1}, {workers} process(es): {walls[workers][-1]:.1f} s")
        medians = {workers: statistics.median(found) for workers, found in walls.items()}
        table(
            "sweep on processes",
            ("processes", "seconds", "as fast as one"),
            *((workers, found, medians[1] / found) for workers, found in medians.items()),
        )


@app.command()
def folder(records: Annotated[int, typer.Option(help="Records in the folder.")] = 10_000) -> None:
    """`status`, `table` and a `run` that finds nothing to do, on a folder of many records."""
    from sweeps import _files
    from sweeps._jobs import Result, expand
    from sweeps._spec import parse_spec
    from sweeps._store import Store

    with tempfile.TemporaryDirectory() as place:
        one = Path(place, "one")
        spec = Path(place, "one.toml")
        spec.write_text(TINY.format(last=0))
        run("run", spec, "--out", one, "--workers", 1)
        (record,) = Store(one).records()
        result = Result(record["rows"], Store(one).curves(record["job"]))

        text = TINY.format(last=records - 1)
        many, out = Path(place, "many.toml"), Path(place, "many")
        many.write_text(text)
        source = tomllib.loads(text)
        jobs = expand("toy", parse_spec(source, "many").configs)
        _files.os.fsync = lambda descriptor: None  # of the machine's disk nothing is asked here
        store = Store(out)
        out.mkdir()
        store.claim(source, jobs)
        for job in jobs:
            store.write(job, "done", result, record["provenance"])
        say("written")
        rows = [
            ("status", min(run("status", out) for _ in range(2))),
            ("table", min(run("table", out, "--out", Path(place, "t.csv")) for _ in range(2))),
        ]
        began = time.monotonic()
        found = sweep(place, many, out)
        assert found["reused"] == found["jobs"] == records
        rows.append(("run, up to the first job or, here, none", time.monotonic() - began))
        table("folder", (f"{records} records", "seconds"), *rows)


@app.command()
def compilation() -> None:
    """Compile time of the quickstart, started for the first and for the second time, in a new folder each."""
    with tempfile.TemporaryDirectory() as place:
        found = []
        for name in ("first", "second"):
            out = Path(place, name)
            run("quickstart", "--out", out, XDG_CACHE_HOME=str(Path(place, "cache")))
            found.append(json.loads((out / "summary.json").read_text()))
            say(f"{name}: {found[-1]['compile_seconds']} s of {found[-1]['wall_seconds']} s")
        rows = [
            (name, summary["compile_seconds"], summary["compile_seconds"] / found[0]["compile_seconds"])
            for name, summary in zip(("first", "second"), found, strict=True)
        ]
        table("compilation", ("start", "compile seconds, all processes", "of the first"), *rows)
        size = sum(path.stat().st_size for path in Path(place, "cache").rglob("*") if path.is_file())
        print(f"\nThe cache holds {size / 2**20:.1f} MiB.")


@app.command("all")
def everything() -> None:
    """Every section, one after another."""
    overhead(100)
    processes(16, 5000, 2)
    folder(10_000)
    compilation()


if __name__ == "__main__":
    app()
