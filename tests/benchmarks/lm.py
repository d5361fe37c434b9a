"""Speed, compilation and memory of the looped language model, as markdown tables.

    python tests/benchmarks/lm.py all

As in `speed.py`, whose options it takes: every measurement is a fresh process, those that are compared take
turns, and a table gives the median over the rounds. Tokens are random: no corpus is needed.
"""

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from speed import Command, Result, middle, options, set_options, spread, table, take_turns  # noqa: E402

app = typer.Typer(
    help="Speed of the looped language model, as markdown tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(set_options)

SHAPES = ((64, 128, 16), (128, 256, 8), (256, 256, 8), (256, 512, 4))
"""Width, context and sequences a step."""

VOCABULARY = 1024

AGAINST = ("/ PyTorch's faster", "of best product")


def shape_of(width: int, context: int, batch: int, num_recur: int = 1, **more: Any) -> dict[str, Any]:
    """Arguments of `run_config`: 2 + 16 + 2 layers, heads of 64 where there are two of them."""
    shape = {"width": width, "head_size": min(64, width // 2), "context": context, "batch": batch}
    shape |= {"num_recur": num_recur, "layers": 16, "prelude": 2, "coda": 2, "vocabulary": VOCABULARY}
    return {**shape, **more}


TINY = shape_of(16, 16, 2, layers=4, prelude=1, coda=1, vocabulary=128)


def worker(task: str, **arguments: Any) -> Command:
    return [str(HERE / "lm.py"), "measure", json.dumps({"task": task, **arguments})]


@app.command()
def tokens() -> None:
    """Tokens a second against PyTorch, on all cores by one process and with a process and a thread a core."""
    cores, seconds = options.cores, options.seconds
    size = 128 if options.tiny else 1024

    def ours(shape: Result, optimiser: str, together: bool) -> list[Command]:
        make = functools.partial(
            worker, "steps", shape=shape, optimiser=optimiser, seconds=seconds, cached=True
        )
        return [make(threads=True)] if together else [make(cores=[core]) for core in cores]

    def usual(shape: Result, together: bool, *flags: str) -> list[Command]:
        script = [str(HERE / "torch_lm.py"), "--seconds", str(seconds), *flags]
        for key, value in shape.items():
            script += [f"--{key.replace('_', '-')}", str(value)]
        if together:
            return [[*script, "--threads", str(len(cores))]]
        return [[*script, "--threads", "1", "--cores", str(core)] for core in cores]

    def product(together: bool) -> list[Command]:
        if together:
            return [worker("product", size=size, threads=True)]
        return [worker("product", size=size, cores=[core]) for core in cores]

    for how, together in (("one process", True), ("a process a core", False)):
        rows = []
        for width, context, batch in SHAPES[:1] if options.tiny else SHAPES:
            for r in (1, 4):
                shape = {**TINY, "num_recur": r} if options.tiny else shape_of(width, context, batch, r)
                found = take_turns(
                    {
                        "MuonH": ours(shape, "muonh", together),
                        "AdamW": ours(shape, "adamw", together),
                        "PyTorch": usual(shape, together),
                        "PyTorch, fused": usual(shape, together, "--fused"),
                        "product": product(together),
                    }
                )
                rows.append(_row(shape, found))
        head = ("width, context, batch", "r", "MuonH, tokens/s", "AdamW", "PyTorch AdamW", "fused")
        compared = tuple(f"{name} {against}" for against in AGAINST for name in ("MuonH", "AdamW"))
        table(f"tokens, {how}", head + compared, *rows)


def _row(shape: Result, found: dict[str, list[Result]]) -> tuple[Any, ...]:
    per_step = shape["batch"] * shape["context"]
    rates = [
        f"{per_step * middle(found[name], 'steps_per_second'):.0f}"
        for name in ("MuonH", "AdamW", "PyTorch", "PyTorch, fused")
    ]
    usual = [
        max(plain["steps_per_second"], fused["steps_per_second"])
        for plain, fused in zip(found["PyTorch"], found["PyTorch, fused"], strict=True)
    ]
    ratios = [
        statistics.median(a["steps_per_second"] / b for a, b in zip(found[name], usual, strict=True))
        for name in ("MuonH", "AdamW")
    ]
    # Its "steps" are products, of which `flops` have been done.
    best = max(result["steps_per_second"] * result["flops"] for result in found["product"])
    shares = [
        f"{100 * middle(found[name], 'steps_per_second') * found[name][0]['flops'] / best:.0f} %"
        for name in ("MuonH", "AdamW")
    ]
    sizes = f"{shape['width']}, {shape['context']}, {shape['batch']}"
    return (sizes, shape["num_recur"], *rates, *ratios, *shares)


@app.command("compile")
def compilation() -> None:
    """Seconds to the end of the first step, nothing having been compiled before: over r and over depth."""
    shape = TINY if options.tiny else shape_of(128, 128, 4)
    recurrences, depths = ((1, 2), (4, 6)) if options.tiny else ((1, 2, 4, 8), (20, 40, 80))
    outside = shape["prelude"] + shape["coda"]
    cells = {(outside + shape["layers"], r): {**shape, "num_recur": r} for r in recurrences}
    for r in (1, max(recurrences) // 2):
        cells |= {(depth, r): {**shape, "num_recur": r, "layers": depth - outside} for depth in depths}
    found = take_turns(
        {f"{depth} layers, r = {r}": [worker("first", shape=cell)] for (depth, r), cell in cells.items()}
    )
    rows = [
        (depth, r, spread(results, "first_step_seconds", 1), spread(results, "compile_seconds", 1))
        for (depth, r), results in zip(cells, found.values(), strict=True)
    ]
    table("compile", ("layers", "r", "compile + first step, s", "of it tracing and compiling, s"), *rows)


@app.command()
def memory() -> None:
    """What XLA sets aside for a step, with and without rematerialise: a block of four layers, run r times."""
    shape = TINY if options.tiny else shape_of(128, 256, 8)
    block, recurrences = (1, (1, 2)) if options.tiny else (4, (1, 2, 4, 8))
    rows = []
    for r in recurrences:
        cell = {**shape, "num_recur": r, "layers": block * r}
        found = take_turns(
            {how: [worker("memory", shape=cell, rematerialise=how == "again")] for how in ("kept", "again")}
        )
        kept, again = (results[0]["bytes"] / 2**20 for results in found.values())
        rows.append((r, cell["layers"], f"{kept:.1f}", f"{again:.1f}", again / kept))
    head = ("r", "layers of the recurrences", "MiB", "MiB with rematerialise", "of the first")
    table("memory", head, *rows)


@app.command("all")
def everything() -> None:
    """Every section, one after another."""
    for section in (tokens, compilation, memory):
        section()


# What follows is called in a process of its own, by `measure` or by gpu_check.py.


def run_config(
    shape: Result, optimiser: str = "muonh", precision: str = "float32", rematerialise: bool = False
) -> Any:
    """The `llm.RunConfig` of a shape."""
    import llm

    keys = ("width", "head_size", "prelude", "layers", "coda", "num_recur")
    model = llm.ModelConfig(**{key: shape[key] for key in keys})
    return llm.RunConfig(
        model=model,
        data=llm.DataConfig(context=shape["context"]),
        optimiser={"muonh": llm.MuonH, "adamw": llm.AdamW}[optimiser](),
        num_tokens=1e9,
        batch=shape["batch"],
        precision=precision,
        rematerialise=rematerialise,
    )


def products(config: Any) -> Any:
    """The precision of products that `llm.train` asks for."""
    from llm._products import precise

    return precise(config.precision)


def training(config: Any, vocabulary: int, layout: Any = None) -> tuple[Any, Callable[[Any], Any], Iterator]:
    """Of a run: the state it starts with, (state) → (state, loss) for a step, and the step's batches.

    Steps are those of `llm.train`, on random tokens. To be used within `products(config)`.
    """
    import jax
    import numpy as np

    from llm import Layout
    from llm._program import Program, compiled

    layout = layout or Layout(1)
    program = compiled(Program.of(config, vocabulary, 0, layout))
    rng = np.random.default_rng(0)
    shape = (1, config.batch, config.data.context + 1)
    rates = config.optimiser.rates(
        width=config.model.width, batch_tokens=config.batch_tokens, num_tokens=int(config.num_tokens)
    )

    def batches() -> Iterator[Any]:
        while True:
            yield layout.place(rng.integers(vocabulary, size=shape, dtype=np.int32), axis=1)

    source = batches()

    def step(state: Any) -> Any:
        return program.step(state, next(source), rates, 1000, 0, config.model.num_recur)

    return program.draw(jax.random.key(0)), step, source


def time_steps(config: Any, vocabulary: int, seconds: float) -> Result:
    """Median time of a step, over three segments or more of about half a second each."""
    import jax

    from llm import total, training_flops

    with products(config):
        state, step, _ = training(config, vocabulary)
        began = time.perf_counter()
        state, loss = jax.block_until_ready(step(state))
        first = time.perf_counter() - began
        taken: list[float] = []
        length, spent = 1, 0.0
        while len(taken) < 4 or spent < seconds:
            began = time.perf_counter()
            for _ in range(length):
                state, loss = step(state)
            jax.block_until_ready(loss)
            segment = time.perf_counter() - began
            taken.append(segment / length)
            spent += segment
            length = max(1, min(4 * length, int(min(0.5, seconds / 4) / taken[-1])))
    median = statistics.median(taken[1:])
    return {
        "seconds_per_step": median,
        "steps_per_second": 1 / median,
        "first_step_seconds": first,
        "flops": total(training_flops(config.model, config.data.context, vocabulary)) * config.batch_tokens,
        "loss": float(loss),
    }


def _steps(*, shape: Result, optimiser: str, seconds: float) -> Result:
    return time_steps(run_config(shape, optimiser), shape["vocabulary"], seconds)


def _product(*, size: int) -> Result:
    """The best rate at which float32 products of two size × size matrices were done, as `llm.peak_flops`."""
    import jax
    import jax.numpy as jnp
    from _measure import _seconds

    a = jnp.ones((size, size))
    with jax.default_matmul_precision("highest"):
        multiply = jax.jit(jnp.matmul)
        best = min(_seconds(lambda: jax.block_until_ready(multiply(a, a)), 1.0))
    return {"steps_per_second": 1 / best, "flops": 2 * size**3}


def _first(*, shape: Result) -> Result:
    """The first step of a process; JAX has been started, and the state drawn."""
    import jax

    config = run_config(shape)
    with products(config):
        state, step, _ = training(config, shape["vocabulary"])
        jax.block_until_ready(state)
        times = [time.perf_counter()]
        for _ in range(2):
            state, loss = jax.block_until_ready(step(state))
            times.append(time.perf_counter())
    first, second = (b - a for a, b in zip(times, times[1:], strict=False))
    return {"first_step_seconds": first, "compile_seconds": first - second}


def _memory(*, shape: Result, rematerialise: bool) -> Result:
    """Temporary memory of a step, by XLA's own account."""
    return {"bytes": step_memory(run_config(shape, rematerialise=rematerialise), shape["vocabulary"])}


def step_memory(config: Any, vocabulary: int) -> int:
    """Bytes that XLA sets aside for a step, beside its arguments and results."""
    import jax
    import jax.numpy as jnp

    from llm import Layout
    from llm._optim import GROUPS
    from llm._program import Program, compiled

    program = compiled(Program.of(config, vocabulary, 0, Layout(1)))
    with products(config):
        state = jax.eval_shape(program.draw, jax.random.key(0))
        batch = jax.ShapeDtypeStruct((1, config.batch, config.data.context + 1), jnp.int32)
        rates = dict.fromkeys(GROUPS, 0.01)
        lowered = program.step.lower(state, batch, rates, 1000, 0, config.model.num_recur)
        return lowered.compile().memory_analysis().temp_size_in_bytes


TASKS = {"steps": _steps, "product": _product, "first": _first, "memory": _memory}


def measure(text: str) -> None:
    """One of `TASKS` in this process; prints a line of JSON.

    cores: to stay on. threads: a product may use several, which jobs of a sweep do not. cached: what was
    compiled in an earlier round is taken from where `depthlaw run` keeps it.
    """
    from sweeps._machine import ask_for_huge_pages, set_up_jax

    if "GLIBC_TUNABLES" not in os.environ:  # as in the processes of a sweep; it is read when a process starts
        ask_for_huge_pages()
        os.execv(sys.executable, [sys.executable, *sys.argv])
    arguments = json.loads(text)
    task = TASKS[arguments.pop("task")]
    if (cores := arguments.pop("cores", None)) is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    if arguments.pop("threads", False):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=true"
    if not arguments.pop("cached", False):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = ""
    set_up_jax()
    print(json.dumps(task(**arguments)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
    else:
        app()
