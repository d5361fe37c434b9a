"""In this process, one task after another."""

import collections
import contextlib
import os
from collections.abc import Generator

from sweeps._jobs import kind
from sweeps._machine import available_cores, set_up_jax
from sweeps.executors._interface import Executor, Feedback, Outcome, Stop, Task
from sweeps.executors._training import run_task


class InProcess(Executor):
    """One task after another in this process.

    share_cores: on a CPU, let a job whose steps are long enough use every core.
    """

    def __init__(self, share_cores: bool = False) -> None:
        self.share_cores = share_cores

    def run(self, waiting: collections.deque[Task], feedback: Feedback, stop: Stop) -> Generator[Outcome]:
        set_up_jax()
        if self.share_cores:
            _share_cores(waiting)
        while waiting and not stop.requested:
            yield from run_task(waiting.popleft(), feedback, lambda: stop.requested)


def _share_cores(tasks: collections.deque[Task]) -> None:
    """One CPU device a core, if the steps are long enough to be shared; before JAX starts its devices."""
    import jax

    jobs = [job for task in tasks for job in task.jobs]
    if any(kind(job.kind).shares_cores(job.config) for job in jobs):
        if "JAX_NUM_CPU_DEVICES" not in os.environ:
            with contextlib.suppress(RuntimeError):  # devices already started: they stay as they are
                jax.config.update("jax_num_cpu_devices", len(available_cores()))
