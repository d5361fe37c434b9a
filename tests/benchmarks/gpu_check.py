"""The parts of gpu.sh that are programs: speed of the paper's grid, exponents of a short run, speed of `llm`.

python tests/benchmarks/gpu_check.py throughput --unroll 4
python tests/benchmarks/gpu_check.py exponents
python tests/benchmarks/gpu_check.py lm --num-recur 4
"""

import dataclasses
import json
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

app = typer.Typer(
    help="Checks on one GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
TINY = Annotated[bool, typer.Option("--tiny", help="Small sizes, to try the script on a CPU.")]


@app.command()
def throughput(
    unroll: Annotated[int, typer.Option(min=1, help="Layers written out per step along depth.")] = 1,
    seconds: Annotated[float, typer.Option(help="Of steady state that is timed.")] = 10.0,
    tiny: TINY = False,
) -> None:
    """Steps per second of the paper's KL grid as one cohort: 16 temperatures × 3 seeds × 6 depths.

    One line of JSON. model_tflops counts matrix products only (`toymodels.step_flops`); product_tflops is
    one large float32 product on the same device.
    """
    import jax
    import numpy as np
    from _measure import time_steps

    from toymodels import KL, CohortConfig, Evaluation, Independent, LearningRate, Plan, memory_bytes

    config = CohortConfig(
        teacher=Independent(depth=128),
        objective=KL(temperatures=tuple(np.geomspace(0.01, 1.0, 16).tolist())),
        vocabulary=128,
        learning_rate=LearningRate(base=6e-4),
        steps=500,
        evaluation=Evaluation(points=1, first_step=500),
    )
    if tiny:
        config = dataclasses.replace(
            config,
            teacher=Independent(depth=4),
            objective=KL(temperatures=(0.1, 1.0)),
            width=4,
            depths=(2, 3),
            batch=32,
        )
    plan = dataclasses.replace(Plan.choose(config), unroll=unroll)
    measured = time_steps(config, plan, 0.2 if tiny else seconds, least=3)
    stats = jax.local_devices()[0].memory_stats() or {}
    found = {
        "device": jax.local_devices()[0].device_kind,
        "cells": len(config.seeds) * len(config.temperatures),
        "plan": dataclasses.asdict(plan),
        **measured,
        "model_tflops": measured["flops"] * measured["steps_per_second"] / 1e12,
        "product_tflops": _product_flops(256 if tiny else 8192) / 1e12,
        "peak_memory_bytes": stats.get("peak_bytes_in_use"),
        "estimated_memory_bytes": memory_bytes(config, plan.vmapped),
    }
    print(json.dumps(found))


def _product_flops(size: int) -> float:
    """FLOP/s of a float32 product of size × size matrices, the best of five timings."""
    import jax
    import jax.numpy as jnp

    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    best = math.inf
    jax.block_until_ready(product(a))
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(product(a))
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


class _TooSlow(Exception):
    """The run would outlast its budget; holds the steps that would fit."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps


@app.command()
def exponents(
    steps: Annotated[int, typer.Option(min=50, help="Training steps; fewer if time is short.")] = 4000,
    seconds: Annotated[float, typer.Option(help="Time for both teachers, compilation included.")] = 110.0,
    tiny: TINY = False,
) -> None:
    """Exponents of a short run: MSE at the paper's widths and depths, three seeds, both teachers.

    A few thousand steps: the tied students have not converged, so their exponent is below 3.
    """
    from toymodels import Adam, CohortConfig, Evaluation, Independent, LearningRate, Tied

    config = CohortConfig(
        steps=steps,
        # Quickstart's rate and decay, the rate lowered as 1/width.
        learning_rate=LearningRate(base=2e-3, reference_depth=1, hold_fraction=0.0, final_fraction=0.0),
        adam=Adam(beta2=0.99),
        evaluation=Evaluation(points=8),
    )
    depth = 128
    if tiny:
        depth = 8
        config = dataclasses.replace(config, width=4, depths=(2, 3, 4, 6), batch=32, steps=min(steps, 200))
    # The first teacher compiles and settles how many steps fit; the second shares its program.
    independent = dataclasses.replace(config, teacher=Independent(depth=depth))
    trained = _train_and_fit(independent, seconds=0.55 * seconds)
    _train_and_fit(dataclasses.replace(trained, teacher=Tied(depth=depth)), seconds=math.inf)


def _train_and_fit(config: Any, seconds: float) -> Any:
    """Prints the exponent; returns the config trained, of fewer steps where `seconds` would not suffice."""
    import numpy as np

    from sweeps.laws import DepthLaw, fit, regime
    from toymodels import train_cohort

    began = time.monotonic()
    marks: list[tuple[float, int]] = []

    def on_progress(progress: Any) -> None:
        if math.isinf(seconds):
            return
        marks.append((time.monotonic() - began, progress.step))
        (compiled, first), (now, last) = marks[0], marks[-1]
        if now - compiled > 3:
            rate = (last - first) / (now - compiled)
            if now + (progress.steps - last) / rate > seconds:
                raise _TooSlow(min(config.steps, max(50, int(0.8 * rate * (seconds - now)))))

    try:
        result = train_cohort(config, on_progress=on_progress)
    except _TooSlow as slow:
        print(f"{config.steps} steps do not fit: {slow.steps}", file=sys.stderr)
        return _train_and_fit(dataclasses.replace(config, steps=slow.steps), math.inf)
    students = [student for student in result.students if not student.diverged]
    table = {
        "depth": [student.depth for student in students],
        "seed": [student.seed for student in students],
        "loss": [float(student.losses[-1]) for student in students],
    }
    found = fit(DepthLaw(), table, fix={"L_0": 0.0})
    interval = found.intervals["alpha"]
    line = {
        "teacher": config.teacher.kind,
        "steps": config.steps,
        "alpha": found.estimates["alpha"],
        "interval": interval,
        "status": str(found.status),
        "regime": str(regime(interval)),
        "update_angle": float(np.mean([teacher.geometry.update_angle for teacher in result.teachers])),
        "loss_by_depth": {
            depth: [student.losses[-1].item() for student in students if student.depth == depth]
            for depth in config.depths
        },
        "diverged": len(result.students) - len(students),
        "wall_seconds": time.monotonic() - began,
    }
    print(json.dumps(line), flush=True)
    return config


@app.command("lm")
def language_model(
    num_recur: Annotated[int, typer.Option(min=1, help="Recurrences, a divisor of 16.")] = 1,
    batch: Annotated[
        int, typer.Option(min=1, help="Sequences a step; half as many while they do not fit.")
    ] = 16,
    seconds: Annotated[float, typer.Option(help="Of steady state that is timed.")] = 8.0,
    tiny: TINY = False,
) -> None:
    """Tokens a second of the paper's model of width 640 in bfloat16 with MuonH, on random tokens.

    One line of JSON. share counts the model's FLOPs (`llm.training_flops`) against one large bfloat16 product
    on the same device; attention_ms is of one layer, forward and backward, by either implementation of JAX.
    """
    import jax
    from lm import TINY as SMALL
    from lm import run_config, shape_of, time_steps

    import llm

    shape = shape_of(640, 2048, batch, num_recur, head_size=128, vocabulary=32_001)
    if tiny:
        shape = {**SMALL, "num_recur": num_recur}
    while True:
        config = run_config(shape, precision="bfloat16")
        try:
            measured = time_steps(config, shape["vocabulary"], 0.2 if tiny else seconds)
            break
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or shape["batch"] == 1:
                raise
            print(f"{shape['batch']} sequences do not fit", file=sys.stderr)
        shape = {**shape, "batch": shape["batch"] // 2}
    rate = measured["flops"] * measured["steps_per_second"]
    peak = llm.peak_flops("bfloat16")
    device = jax.local_devices()[0]
    found = {
        "device": device.device_kind,
        "num_recur": num_recur,
        "batch": shape["batch"],
        "tokens_per_second": config.batch_tokens * measured["steps_per_second"],
        **measured,
        "model_tflops": rate / 1e12,
        "product_tflops": peak / 1e12,
        "share": rate / peak,
        "peak_memory_bytes": (device.memory_stats() or {}).get("peak_bytes_in_use"),
        "attention_ms": {name: _attention_ms(shape, name) for name in ("xla", "cudnn")},
    }
    print(json.dumps(found))


def _attention_ms(shape: dict[str, Any], implementation: Any) -> float | str:
    """Causal attention of one layer in bfloat16, forward and backward, best of five; or why there is none."""
    import jax
    import jax.numpy as jnp

    heads = shape["width"] // shape["head_size"]
    x = jnp.ones((shape["batch"], shape["context"], heads, shape["head_size"]), jnp.bfloat16)

    def summed(q: Any, k: Any, v: Any) -> Any:
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation)
        return jnp.sum(seen.astype(jnp.float32))

    gradient = jax.jit(jax.grad(summed, (0, 1, 2)))
    best = math.inf
    try:
        jax.block_until_ready(gradient(x, x, x))
        for _ in range(5):
            start = time.perf_counter()
            jax.block_until_ready(gradient(x, x, x))
            best = min(best, time.perf_counter() - start)
    except Exception as error:  # of many kinds, by what the device or its libraries lack
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return 1e3 * best


if __name__ == "__main__":
    app()
