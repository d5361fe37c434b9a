"""Where jobs run. An executor takes jobs and yields an `Outcome` for each as it ends.

On a CPU the small matrices of a toy cohort hardly use a second core, so several jobs run one to a core, each
process pinned and with one XLA thread (`Processes`). A lone job, or an accelerator, runs in this process
(`InProcess`), on a CPU with one XLA thread as well: the number of threads changes last bits, and a record
must not depend on where it was made. Figures: tests/benchmarks/README.md.
"""

import abc
import collections
import concurrent.futures
import concurrent.futures.process
import contextlib
import itertools
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sweeps._jobs import Job, merge, train

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Outcome:
    """How a job ended: rows and curves, or `error` (one sentence) with its `trace`."""

    job: Job
    rows: list[dict[str, Any]]
    curves: "dict[str, np.ndarray]"
    provenance: dict[str, Any]
    error: str | None = None
    trace: str = ""


class Tick(NamedTuple):
    """Progress of a running job: the share of its steps that is done."""

    job_id: str
    done: float


class Executor(abc.ABC):
    """Runs jobs."""

    @abc.abstractmethod
    def run(self, jobs: list[Job], on_tick: Callable[[Tick], None]) -> Generator[Outcome]:
        """An outcome for each job, in the order in which they end. Closing it ends what is running."""


class InProcess(Executor):
    """One after another in this process; on an accelerator, jobs that differ in seed alone side by side.

    share_cores: on a CPU, let a job whose steps are long enough use every core.
    """

    def __init__(self, share_cores: bool = False) -> None:
        self.share_cores = share_cores

    def run(self, jobs: list[Job], on_tick: Callable[[Tick], None]) -> Generator[Outcome]:
        set_cpu_flags()
        import jax

        if self.share_cores:
            _share_cores(jobs)
        together = jax.default_backend() != "cpu"
        for group in merge(jobs) if together else [[job] for job in jobs]:
            yield from run_group(group, on_tick)


def _share_cores(jobs: list[Job]) -> None:
    """One CPU device a core, if the steps are long enough to be shared; before JAX starts its devices."""
    import jax

    from toymodels import worth_sharing

    if any(worth_sharing(job.config) for job in jobs) and "JAX_NUM_CPU_DEVICES" not in os.environ:
        with contextlib.suppress(RuntimeError):  # devices already started: they stay as they are
            jax.config.update("jax_num_cpu_devices", len(available_cores()))


class Processes(Executor):
    """Jobs in `workers` fresh processes, each pinned to a core of its own with one XLA thread.

    A process that dies takes the job it was running with it and no other; a new one takes its place.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, jobs: list[Job], on_tick: Callable[[Tick], None]) -> Generator[Outcome]:
        ticks = multiprocessing.get_context("spawn").Queue()
        cores = itertools.cycle(available_cores())
        workers = [_Worker(core, ticks) for core in itertools.islice(cores, self.workers)]
        idle = list(workers)
        running: dict[concurrent.futures.Future[Outcome], tuple[Job, _Worker]] = {}
        waiting = collections.deque(jobs)
        try:
            while waiting or running:
                while waiting and idle:
                    worker, job = idle.pop(0), waiting.popleft()
                    running[worker.submit(job)] = (job, worker)
                ended, _ = concurrent.futures.wait(
                    running, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED
                )
                with_ticks(ticks, on_tick)
                for future in ended:
                    job, worker = running.pop(future)
                    idle.append(worker)
                    yield worker.outcome(job, future)
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """A process pinned to `core`, started with its first job and again after it has died."""

    def __init__(self, core: int, ticks: Any) -> None:
        self.start = (core, ticks)
        self.pool: concurrent.futures.ProcessPoolExecutor | None = None

    def submit(self, job: Job) -> "concurrent.futures.Future[Outcome]":
        # Ctrl-C reaches every process of a terminal: only this one is to act on it, and end the others.
        with _signal_held(signal.SIGINT):
            try:
                if self.pool is not None:
                    return self.pool.submit(_run_one, job)
            except concurrent.futures.process.BrokenProcessPool:  # it died without a job
                self.stop()
            self.pool = concurrent.futures.ProcessPoolExecutor(
                1,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=self.start,
            )
            return self.pool.submit(_run_one, job)

    def outcome(self, job: Job, future: "concurrent.futures.Future[Outcome]") -> Outcome:
        """The outcome of a job that has ended, or that its process died."""
        try:
            return future.result()
        except concurrent.futures.process.BrokenProcessPool:
            self.stop()
            return Outcome(job, [], {}, {}, "its worker process died (out of memory, or killed)")

    def stop(self) -> None:
        """End the process at once, whatever it is doing."""
        if self.pool is None:
            return
        processes = list((self.pool._processes or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = None
        for process in processes:
            process.terminate()
            process.join(timeout=5)


@contextlib.contextmanager
def _signal_held(number: signal.Signals) -> Iterator[None]:
    """The signal waits meanwhile; a process started meanwhile never sees it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def choose(jobs: list[Job], workers: int | None) -> Executor:
    """`InProcess` for an accelerator or a sweep of one job, else `Processes`, one to a core.

    jobs: all of the sweep, done or not, so that a resumed one makes its records as it began. Only a job
    that is a sweep of its own shares cores, since that changes last bits.
    """
    workers = workers or len(available_cores())
    if len(jobs) < 2 or workers < 2 or accelerated():
        return InProcess(share_cores=len(jobs) == 1)
    return Processes(min(workers, len(jobs)))


def accelerated() -> bool:
    """Whether JAX would use a GPU or TPU; asked without starting JAX where there can only be a CPU."""
    if os.environ.get("JAX_PLATFORMS", "").strip().lower() == "cpu":
        return False
    import importlib.util

    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin", "libtpu")
    if not any(importlib.util.find_spec(name) for name in plugins):
        return False
    import jax

    return jax.default_backend() != "cpu"


def available_cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def with_ticks(ticks: Any, on_tick: Callable[[Tick], None]) -> None:
    """Hand on every tick that waits in the queue."""
    while True:
        try:
            on_tick(ticks.get_nowait())
        except queue.Empty:
            return


def run_group(group: list[Job], on_tick: Callable[[Tick], None]) -> list[Outcome]:
    """Train jobs that differ in seed alone; an error becomes the outcome of each."""
    start = time.monotonic()
    seconds = [0.0]

    def on_progress(progress: Any) -> None:
        if time.monotonic() - seconds[0] > 0.2 or progress.step == progress.steps:
            seconds[0] = time.monotonic()
            for job in group:
                on_tick(Tick(job.id, progress.step / progress.steps))

    try:
        results = train(group, on_progress=on_progress)
    except Exception as error:  # whatever a job raises is that job's outcome: the sweep goes on
        sentence = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        trace = traceback.format_exc()
        return [Outcome(job, [], {}, {}, sentence, trace) for job in group]
    about = provenance(time.monotonic() - start)
    return [Outcome(job, rows, curves, about) for job, (rows, curves) in zip(group, results, strict=True)]


def provenance(wall_seconds: float) -> dict[str, Any]:
    """What a record says of where and how it was made; nothing in it is part of the result."""
    import jax

    from sweeps._doctor import versions

    return {
        "wall_seconds": round(wall_seconds, 3),
        "peak_memory_bytes": peak_memory(),
        "mapped_files_bytes": mapped_files(),
        "process": os.getpid(),
        "device": jax.devices()[0].device_kind,
        "devices": len(jax.local_devices()),
        "versions": versions(),
    }


def peak_memory() -> int:
    """The most memory that this process has held, in bytes (its resident set)."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def mapped_files() -> int:
    """Bytes of this process's resident memory that are files, libraries above all, which processes share.

    0 where the system does not say.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            lines = dict(line.split(":", 1) for line in status if ":" in line)
        return 1024 * int(lines["RssFile"].split()[0])
    except (OSError, KeyError, ValueError):
        return 0


_ticks: Any = None


def _start_worker(core: int, ticks: Any) -> None:
    """Before JAX is imported: one core, one thread, and no life after the parent's."""
    global _ticks
    _ticks = ticks
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    set_cpu_flags()
    threading.Thread(target=_end_with_parent, daemon=True).start()


CPU_FLAGS = {
    # Small products gain nothing from a second thread.
    "xla_cpu_multi_thread_eigen": "false",
    # Operations side by side push each other's arrays from the cache.
    "xla_cpu_enable_concurrency_optimized_scheduler": "false",
}
"""XLA's flags for a CPU, each unless the user's XLA_FLAGS name it; figures in tests/benchmarks/README.md."""


def set_cpu_flags() -> None:
    """Add `CPU_FLAGS` to XLA_FLAGS; to be called before JAX starts its devices."""
    flags = os.environ.get("XLA_FLAGS", "")
    added = [f"--{name}={value}" for name, value in CPU_FLAGS.items() if name not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *added]).strip()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_one(job: Job) -> Outcome:
    return run_group([job], _ticks.put)[0]
