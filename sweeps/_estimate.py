"""What a sweep would cost, before it is run."""

import time
from dataclasses import dataclass

from sweeps import _machine
from sweeps._jobs import expand, kind
from sweeps._spec import Spec


@dataclass(frozen=True)
class Estimate:
    """What a sweep would cost: jobs, rows, FLOPs, seconds and bytes (of one process)."""

    jobs: int
    rows: int
    flops: int
    seconds: float
    bytes: int
    workers: int


MATMUL_SHARE = 0.5
"""Training throughput over that of its bare matrix products (tests/benchmarks/README.md)."""

LARGEST_PRODUCT = 10**9
"""FLOPs of a product that the rate is taken from: some hundredths of a second."""

COMPILE_SECONDS = 10.0
"""For each program of a worker."""


def estimate(spec: Spec, workers: int | None = None) -> Estimate:
    """The cost of `spec` on this machine's CPU cores, from a tenth of a second of matrix products a shape."""
    jobs = expand(spec.kind, spec.configs)
    cores = len(_machine.available_cores())
    workers = min(workers or cores, len(jobs), cores)
    of_kind = kind(spec.kind)
    num_bytes = max(of_kind.memory_bytes([job.config]) for job in jobs)
    rates: dict[tuple[int, int, int], float] = {}
    seconds = 0.0
    for job in jobs:
        shape = of_kind.product(job.config)
        if shape not in rates:
            rates[shape] = _matmul_rate(*shape)
        seconds += job.flops / (MATMUL_SHARE * rates[shape])
    programs = len({of_kind.program(job.config) for job in jobs})
    return Estimate(
        jobs=len(jobs),
        rows=sum(of_kind.num_rows(job.config) for job in jobs),
        flops=sum(job.flops for job in jobs),
        seconds=seconds / workers + programs * COMPILE_SECONDS,
        bytes=num_bytes,
        workers=workers,
    )


def _matmul_rate(rows: int, inner: int, columns: int) -> float:
    """FLOPs a second on (rows × inner) · (inner × columns) in float32, of one core if BLAS has one thread."""
    import numpy as np

    # More rows do not change the rate, and the largest models have many.
    rows = max(1, min(rows, LARGEST_PRODUCT // (2 * inner * columns)))
    together = 20 if 2 * rows * inner * columns < LARGEST_PRODUCT // 20 else 1
    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    out = a @ b
    start, products = time.perf_counter(), 0
    while time.perf_counter() - start < 0.1:
        for _ in range(together):
            np.matmul(a, b, out=out)
        products += together
    used = time.perf_counter() - start
    return 2 * rows * inner * columns * products / used
