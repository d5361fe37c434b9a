"""Speed of the toy cohorts: every figure of tests/benchmarks/README.md, as markdown tables.

    python tests/benchmarks/speed.py all

Every measurement is a fresh process, and those that are compared take turns (A B C A B C …); a table gives
the median over the rounds and, in brackets, the lowest and highest. Tables go to standard output, progress to
standard error.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = Path(__file__).resolve().parent
app = typer.Typer(
    help="Speed of the toy cohorts, as markdown tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Command = list[str]
"""Arguments of a Python process that prints its result as a line of JSON."""

Result = dict[str, Any]

PAPER = {
    "width": 32,
    "depths": [6, 12, 16, 24, 32, 48],
    "seeds": [0],
    "batch": 1024,
    "teacher": {"kind": "independent", "depth": 128},
    "learning_rate": {"base": 6e-4, "reference_depth": 4, "hold_fraction": 0.8, "final_fraction": 0.1},
}
SMALL = {
    **PAPER,
    "width": 8,
    "depths": [2, 3, 4, 5, 6, 8],
    "batch": 256,
    "teacher": {"kind": "independent", "depth": 64},
}
TINY = {**PAPER, "width": 4, "depths": [2, 3], "batch": 32, "teacher": {"kind": "independent", "depth": 4}}


@dataclass
class Options:
    """How much is measured. `tiny` takes every path at small sizes, to try the script itself."""

    cores: tuple[int, ...] = ()
    rounds: int = 3
    seconds: float = 6.0
    tiny: bool = False

    @property
    def cells(self) -> dict[str, Result]:
        """The config of each cell."""
        return {"small": TINY, "paper": TINY} if self.tiny else {"small": SMALL, "paper": PAPER}


options = Options()


@app.callback()
def set_options(
    cores: Annotated[int, typer.Option(min=1, help="Use this many cores.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Processes a measurement.")] = 3,
    seconds: Annotated[float, typer.Option(help="Of steady state, timed in each process.")] = 6.0,
    tiny: Annotated[bool, typer.Option("--tiny", help="Small sizes, to try the script.")] = False,
) -> None:
    available = range(os.cpu_count() or 1)
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, available[:cores])  # inherited by every process started below
    options.cores, options.rounds = tuple(available[:cores]), rounds
    options.seconds, options.tiny = (0.2 if tiny else seconds), tiny


def worker(task: str, **arguments: Any) -> Command:
    return [str(HERE / "_measure.py"), json.dumps({"task": task, **arguments})]


def cohort(config: Result, *, devices: int = 0, **arguments: Any) -> Command:
    """Training steps of a cohort; by default as `Plan.choose` runs it with one device a core."""
    devices = devices or len(options.cores)
    arguments = {"plan": {}, "seconds": options.seconds, **arguments}
    return worker("cohort", config=config, devices=devices, **arguments)


def take_turns(measurements: dict[str, list[Command]]) -> dict[str, list[Result]]:
    """Each measurement once a round. Its commands run at the same time, and their steps per second add up."""
    found: dict[str, list[Result]] = {name: [] for name in measurements}
    for turn in range(options.rounds):
        for name, commands in measurements.items():
            began = time.monotonic()
            results = _together(commands)
            total = sum(result.get("steps_per_second", 0.0) for result in results)
            found[name].append({**results[0], "steps_per_second": total})
            print(f"round {turn + 1}: {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def _together(commands: list[Command]) -> list[Result]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment)
        for command in commands
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise typer.Exit(1)
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def middle(results: list[Result], key: str = "seconds_per_step") -> float:
    return statistics.median(result[key] for result in results)


def spread(results: list[Result], key: str = "seconds_per_step", factor: float = 1e3) -> str:
    """Median [lowest, highest] over the rounds, times `factor` (seconds → milliseconds)."""
    values = [factor * result[key] for result in results]
    median, low, high = (
        f"{value:.4g}" if value < 1e4 else f"{value:.0f}"
        for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} [{low}, {high}]"


def table(name: str, *rows: tuple[Any, ...]) -> None:
    """A markdown table under its mark in README.md; the first row is its head."""
    print(f"\n<!-- table: {name} -->")
    for row in (rows[0], ("---",) * len(rows[0]), *rows[1:]):
        texts = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row)
        print(f"| {' | '.join(texts)} |", flush=True)


def on(devices: int) -> str:
    """For a row's name."""
    return f"{devices} device" + ("s" if devices > 1 else "")


@app.command()
def cell() -> None:
    """One paper-scale cell against plain PyTorch; share of the best matrix product; first step."""
    config = options.cells["paper"]
    threads = len(options.cores)
    sizes = {
        "width": [config["width"]],
        "hidden": [4 * config["width"]],
        "teacher-depth": [config["teacher"]["depth"]],
        "depths": config["depths"],
        "batch": [config["batch"]],
        "threads": [threads],
        **({"steps": [3], "warmup": [1]} if options.tiny else {}),
    }
    torch = [str(HERE / "torch_baseline.py")]
    torch += [text for name, values in sizes.items() for text in (f"--{name}", *map(str, values))]
    size = 256 if options.tiny else 4096
    ours = {f"depthlaw, {on(n)}": [cohort(config, devices=n)] for n in sorted({threads, 1})[::-1]}
    usual = {"PyTorch, Adam": [torch], "PyTorch, fused Adam": [[*torch, "--fused"]]}
    products = {
        library: [worker("matmul", library=library, size=size, seconds=2)]
        for library in ("numpy", "torch", "jax")
    }
    found = take_turns({**ours, **usual, **products})

    first = found[next(iter(ours))]
    flops = first[0]["flops"]
    best = max(result["flops_per_second"] for library in products for result in found[library])
    rows = []
    for name in (*ours, *usual):
        results = found[name]
        ratios = [a["steps_per_second"] / b["steps_per_second"] for a, b in zip(first, results, strict=True)]
        share = 100 * flops * middle(results, "steps_per_second") / best
        compiled = spread(results, "first_step_seconds", 1) if name in ours else "-"
        rate = spread(results, "steps_per_second", 1)
        rows.append((name, rate, statistics.median(ratios), f"{share:.0f} %", compiled))
    head = ("", "steps per second", "first row is faster by", "of best product", "compile + first step, s")
    table("cell", head, *rows)
    rows = [(library, spread(found[library], "flops_per_second", 1e-9)) for library in products]
    table("products", (f"float32, {size} × {size}", "GFLOP/s"), *rows)
    print(
        f"\nA step of the cell is {flops / 1e9:.3g} model GFLOP, the best product {best / 1e9:.4g} GFLOP/s."
    )


@app.command()
def scaling() -> None:
    """Time per step against summed depth, batch and seeds."""
    config = options.cells["paper"]
    sets = [[6], [12], [24], [48], [6, 12, 24], [16, 32, 48], [6, 12, 16, 24, 32, 48]]
    batches = [256, 512, 1024, 2048]
    if options.tiny:
        sets, batches = [[1], [2], [1, 3]], [16, 32]

    deep = {f"depths {str(depths)[1:-1]}": depths for depths in sets}
    found = take_turns({key: [cohort({**config, "depths": depths})] for key, depths in deep.items()})
    total = [sum(depths) for depths in sets]
    times = [1e3 * middle(found[key]) for key in deep]
    slope, intercept = statistics.linear_regression(total, times)
    rows = [
        (str(depths)[1:-1], sum(depths), spread(found[key]), intercept + slope * sum(depths))
        for key, depths in deep.items()
    ]
    table("depth", ("depths", "summed depth", "ms per step", "affine fit"), *rows)
    explained = statistics.correlation(total, times) ** 2
    print(f"\nms per step = {intercept:.3g} + {slope:.3g} × summed depth, R² = {explained:.4f}.")

    wide = {f"batch {batch}": batch for batch in batches}
    found = take_turns({key: [cohort({**config, "batch": batch})] for key, batch in wide.items()})
    rows = [(batch, spread(found[key]), 1e6 * middle(found[key]) / batch) for key, batch in wide.items()]
    table("batch", ("batch", "ms per step", "µs per input"), *rows)

    seeds = {n: cohort({**config, "seeds": list(range(n))}) for n in (1, 2, 4)}
    against_separate("seeds", seeds)


@app.command()
def temperatures() -> None:
    """Sixteen temperatures in one cohort: on all cores, and on one as a sweep of several jobs runs it."""
    config = options.cells["paper"]
    most = 2 if options.tiny else 16

    def kl(count: int) -> Result:
        values = [10 ** (-2 + 2 * k / max(1, count - 1)) for k in range(count)]
        return {**config, "vocabulary": 128, "objective": {"kind": "kl", "temperatures": values}}

    one_core: Result = {"devices": 1, "cores": options.cores[:1]}
    for unit, held in (("temperatures", {}), ("temperatures on one core", one_core)):
        at = {n: cohort(kl(n), **held) for n in (1, most)}
        against_separate(unit, at)


def against_separate(unit: str, cohorts: dict[int, Command]) -> None:
    found = take_turns({f"{count} {unit}": [command] for count, command in cohorts.items()})
    one = found[f"1 {unit}"]
    rows = []
    for count in cohorts:
        results = found[f"{count} {unit}"]
        ratio = middle(results) / (count * middle(one))
        rows.append((count, spread(results), ratio, results[0]["flops"] / (count * one[0]["flops"])))
    head = (f"{unit} in one cohort", "ms per step", "of as many cohorts of one", "the same by FLOPs")
    table(unit, head, *rows)


@app.command()
def plans() -> None:
    """What the rules in toymodels/_plan.py and _layers.py rest on, for both cells."""
    counts = sorted({1, len(options.cores)})
    for name, config in options.cells.items():
        deepest = max(config["depths"])
        measurements = {
            f"{on(n)}, unroll {unroll}": [cohort(config, devices=n, plan={"unroll": unroll})]
            for n in counts
            for unroll in sorted({1, 4, deepest})
        }
        automatic = cohort(config, devices=1, plan={"unroll": 1}, automatic=True)
        measurements["1 device, unroll 1, automatic gradient"] = [automatic]
        three = {**config, "seeds": [0, 1, 2]}
        measurements |= {
            f"3 seeds {how}, {on(n)}": [cohort(three, devices=n, plan={"vmapped": how == "vmapped"})]
            for n in counts
            for how in ("in turn", "vmapped")
        }
        shape = {"width": config["width"], "depth": deepest, "batch": config["batch"]}
        layouts = {
            states: [worker("layout", batch_first=batch_first, seconds=options.seconds, **shape)]
            for states, batch_first in (("(width, batch)", False), ("(batch, width)", True))
        }
        found = take_turns({**measurements, **layouts})
        rows = [
            (key, spread(found[key]), spread(found[key], "first_step_seconds", 1)) for key in measurements
        ]
        table(f"plans, {name}", ("plan", "ms per step", "compile + first step, s"), *rows)
        head = ("states", f"ms for loss and gradient of {deepest} layers")
        table(f"layout, {name}", head, *((key, spread(found[key])) for key in layouts))


@app.command()
def processes() -> None:
    """A job a core in pinned single-thread processes, against one after another on all cores."""
    cores = options.cores
    for name, config in options.cells.items():
        apart = f"{len(cores)} at once, a core and a thread each"
        measurements = {apart: [cohort(config, devices=1, cores=[core]) for core in cores]}
        for n in sorted({1, len(cores)}):
            measurements[f"one after another, {on(n)}"] = [cohort(config, devices=n)]
        found = take_turns(measurements)
        best = middle(found[apart], "steps_per_second")
        rows = [
            (key, spread(found[key], "steps_per_second", 1), middle(found[key], "steps_per_second") / best)
            for key in measurements
        ]
        table(f"processes, {name}", ("jobs", "steps per second, summed over jobs", "of the first"), *rows)


@app.command("all")
def everything() -> None:
    """Every section, one after another."""
    for section in (cell, scaling, temperatures, plans, processes):
        section()


if __name__ == "__main__":
    app()
