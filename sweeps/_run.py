"""Run a sweep: claim the folder, train the jobs that have no record, write each record as its job ends."""

import contextlib
import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sweeps import _executors
from sweeps._jobs import Job, expand
from sweeps._spec import Spec
from sweeps._store import Store

if TYPE_CHECKING:
    from toymodels import CohortConfig


class Watcher(Protocol):
    """Is told how a sweep goes; see `sweeps._progress`."""

    def start(self, jobs: dict[str, Job], reused: int) -> None: ...
    def tick(self, tick: _executors.Tick) -> None: ...
    def end(self, outcome: _executors.Outcome) -> None: ...


@dataclass
class RunSummary:
    """What a run did: its store, jobs trained and reused, failures by job, peak memory in bytes.

    peak_memory: the peaks of all its processes while they trained, added, with the libraries that they share
    counted once.
    """

    store: Store
    jobs: int = 0
    reused: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    peak_memory: int = 0


def run_sweep(
    spec: Spec,
    out: Path,
    watcher: Watcher,
    *,
    workers: int | None = None,
    executor: _executors.Executor | None = None,
) -> RunSummary:
    """Train every job of `spec` that `out` holds no record of.

    workers: processes at once (default: one a core). executor: where to run, chosen by `_executors.choose`
    unless given. A job that fails is in the summary and does not stop the others.
    Raises ConfigError when `out` holds another spec's results, StoreError when it cannot be written.
    """
    store = Store(out)
    store.claim(spec.source)
    jobs = expand(spec.cohorts)
    missing = [job for job in jobs if not store.is_done(job)]
    # The longest first, so that no long job is left running alone at the end.
    missing.sort(key=lambda job: -_flops(job.config))
    summary = RunSummary(store, len(jobs), len(jobs) - len(missing))
    watcher.start({job.id: job for job in missing}, summary.reused)
    if not missing:
        return summary
    peaks: dict[int, int] = {}
    executor = executor or _executors.choose(jobs, workers)
    # Closed whatever happens here, a full disk or Ctrl-C, so that no job runs on without us.
    with contextlib.closing(executor.run(missing, watcher.tick)) as outcomes:
        for outcome in outcomes:
            if outcome.error is None:
                store.write(outcome.job, outcome.rows, outcome.curves, outcome.provenance)
                process = outcome.provenance["process"]
                peak = outcome.provenance["peak_memory_bytes"]
                if process != os.getpid():
                    peak -= outcome.provenance["mapped_files_bytes"]
                peaks[process] = max(peak, peaks.get(process, 0))
            else:
                summary.failures[outcome.job.id] = f"{outcome.job.label}: {outcome.error}"
                summary.traces[outcome.job.id] = outcome.trace
            watcher.end(outcome)
    peaks[os.getpid()] = _executors.peak_memory()
    summary.peak_memory = sum(peaks.values())
    return summary


def _flops(config: "CohortConfig") -> int:
    from toymodels import total_flops

    return total_flops(config)


@dataclass(frozen=True)
class Estimate:
    """What a sweep would cost: jobs, students, FLOPs, seconds and bytes (of one process)."""

    jobs: int
    students: int
    flops: int
    seconds: float
    bytes: int
    workers: int


MATMUL_SHARE = 0.5
"""Training throughput over that of its bare matrix products (tests/benchmarks/README.md)."""

COMPILE_SECONDS = 10.0
"""For each program of a worker."""


def estimate(spec: Spec, workers: int | None = None) -> Estimate:
    """The cost of `spec` on this machine's CPU cores, from a tenth of a second of matrix products a shape."""
    from toymodels import memory_bytes

    jobs = expand(spec.cohorts)
    cores = len(_executors.available_cores())
    workers = min(workers or cores, len(jobs), cores)
    rates: dict[tuple[int, int, int], float] = {}
    seconds = 0.0
    for job in jobs:
        config = job.config
        shape = (config.hidden, config.width, config.batch)
        if shape not in rates:
            rates[shape] = _matmul_rate(*shape)
        seconds += _flops(config) / (MATMUL_SHARE * rates[shape])
    programs = len({_program(job.config) for job in jobs})
    return Estimate(
        jobs=len(jobs),
        students=sum(len(job.config.depths) * len(job.config.temperatures) for job in jobs),
        flops=sum(_flops(job.config) for job in jobs),
        seconds=seconds / workers + programs * COMPILE_SECONDS,
        bytes=max(memory_bytes(job.config, vmapped=False) for job in jobs),
        workers=workers,
    )


def _program(config: "CohortConfig") -> Any:
    """What a compilation depends on."""
    return dataclasses.replace(config, seeds=(0,))


def _matmul_rate(rows: int, inner: int, columns: int) -> float:
    """FLOPs a second on (rows × inner) · (inner × columns) in float32, of one core if BLAS has one thread."""
    import time

    import numpy as np

    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    out = a @ b
    start, products = time.perf_counter(), 0
    while time.perf_counter() - start < 0.1:
        for _ in range(20):
            np.matmul(a, b, out=out)
        products += 20
    used = time.perf_counter() - start
    return 2 * rows * inner * columns * products / used
