"""One measurement in a fresh process: `python _measure.py '{"task": "cohort", ...}'` prints a line of JSON.

Tasks are the functions of `TASKS`; the other keys are their arguments. `cores` (pin to these) is taken by
every task and applied before any library that starts threads is imported.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


class _Enough(Exception):
    """Raised from `on_progress` to leave a training that has been timed."""


def time_steps(config: Any, plan: Any, seconds: float, least: int = 5) -> dict[str, Any]:
    """Times the engine's own compiled steps through `train_cohort`'s `on_progress`.

    The first segment is a single step and holds drawing and compiling. Then segments grow until they take
    about `SEGMENT_SECONDS`; of those that take half of it, `least` or more are timed until `seconds` have
    passed. No evaluation falls between them.
    """
    from toymodels import step_flops, train_cohort
    from toymodels._train import SEGMENT_SECONDS

    marks = [(time.perf_counter(), 0)]
    steady: list[float] = []
    timed = 0.0

    def on_progress(progress: Any) -> None:
        nonlocal timed
        marks.append((time.perf_counter(), progress.step))
        (before, done), (now, step) = marks[-2:]
        if len(marks) > 2 and now - before > min(SEGMENT_SECONDS, seconds) / 2:
            steady.append((now - before) / (step - done))
            timed += now - before
        if len(steady) >= least and timed >= seconds:
            raise _Enough

    try:
        train_cohort(config, plan=plan, on_progress=on_progress)
    except _Enough:
        pass
    step = statistics.median(steady)
    return {
        "seconds_per_step": step,
        "steps_per_second": 1 / step,
        "first_step_seconds": marks[1][0] - marks[0][0],
        "flops": step_flops(config),
        "segments": len(steady),
    }


def cohort(
    *,
    config: dict[str, Any],
    seconds: float,
    devices: int = 1,
    plan: dict[str, Any],
    automatic: bool = False,
) -> dict[str, Any]:
    """Training steps of the cohort that `config` describes (as a preset's table does).

    devices: that JAX splits the CPU into. plan: fields laid over what `Plan.choose` says. automatic: the
    layers' written-out gradient is left to automatic differentiation.
    """
    import dataclasses

    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    from sweeps._config import decode
    from toymodels import CohortConfig, Plan, _layers

    if automatic:
        _layers._normed_mlp = lambda *arguments: _layers._normed_mlp_forward(*arguments)[0]
    steps = 10**7  # more than will be timed
    base = {"steps": steps, "evaluation": {"points": 1, "first_step": steps}}
    made = decode(CohortConfig, {**base, **config}, "benchmark")
    return time_steps(made, dataclasses.replace(Plan.choose(made), **plan), seconds)


def layout(*, batch_first: bool, width: int, depth: int, batch: int, seconds: float) -> dict[str, Any]:
    """Loss and gradient of one student by plain automatic differentiation, in either layout of its states."""
    import jax
    import jax.numpy as jnp

    feature_axis, hidden = (-1, 4 * width) if batch_first else (0, 4 * width)

    def loss(weights: tuple[jax.Array, ...], x: jax.Array) -> jax.Array:
        def layer(h: jax.Array, weights: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            w_in, bias, w_out = weights
            normed = h * jax.lax.rsqrt(jnp.mean(h * h, axis=feature_axis, keepdims=True) + 1e-7)
            if batch_first:
                return h + jax.nn.relu(normed @ w_in.T + bias) ** 2 @ w_out.T, None
            return h + w_out @ jax.nn.relu(w_in @ normed + bias[:, None]) ** 2, None

        return jnp.mean(jax.lax.scan(layer, x, weights)[0] ** 2)

    keys = jax.random.split(jax.random.key(0), 4)
    shapes = ((depth, hidden, width), (depth, hidden), (depth, width, hidden))
    weights = tuple(0.1 * jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=False))
    x = jax.random.normal(keys[3], (batch, width) if batch_first else (width, batch))
    step = jax.jit(jax.value_and_grad(loss))
    return {"seconds_per_step": _median_seconds(lambda: jax.block_until_ready(step(weights, x)), seconds)}


def matmul(*, library: str, size: int, seconds: float) -> dict[str, Any]:
    """The fastest of several float32 products of two size × size matrices, in FLOP/s."""
    import numpy as np

    a, b = (np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32) for seed in (0, 1))
    if library == "numpy":
        product: Callable[[], Any] = lambda: a @ b  # noqa: E731
    elif library == "torch":
        import torch

        ours = torch.from_numpy(a), torch.from_numpy(b)
        product = lambda: ours[0] @ ours[1]  # noqa: E731
    else:
        import jax

        left, right = jax.numpy.asarray(a), jax.numpy.asarray(b)
        jitted = jax.jit(lambda x, y: jax.numpy.matmul(x, y, precision="highest"))
        product = lambda: jax.block_until_ready(jitted(left, right))  # noqa: E731
    return {"flops_per_second": 2 * size**3 / min(_seconds(product, seconds))}


def _median_seconds(call: Callable[[], Any], seconds: float) -> float:
    return statistics.median(_seconds(call, seconds))


def _seconds(call: Callable[[], Any], seconds: float) -> list[float]:
    """Of each call, after one that is not counted: at least five, until `seconds` have passed."""
    call()
    taken: list[float] = []
    while len(taken) < 5 or sum(taken) < seconds:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


TASKS = {"cohort": cohort, "layout": layout, "matmul": matmul}


def main(text: str) -> None:
    arguments = json.loads(text)
    cores = arguments.pop("cores", None)
    if cores is not None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
    from sweeps._machine import set_up_jax

    set_up_jax()  # as `depthlaw run` does
    print(json.dumps(TASKS[arguments.pop("task")](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1])
