"""In fresh processes: one a core of a CPU with one XLA thread, or one a GPU with its share of memory."""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from sweeps import _machine
from sweeps._jobs import Result
from sweeps._signals import NUMBERS
from sweeps.executors._interface import (
    Executor,
    ExecutorError,
    Feedback,
    Note,
    Outcome,
    Status,
    Stop,
    Task,
    Tick,
)
from sweeps.executors._training import run_task

GRACE_SECONDS = 25.0
"""How long running tasks have to save and end once told to stop; schedulers kill after 30 or later."""

STARTS_ALLOWED = 3
"""Processes in a row that die before they have said a word, upon which no more are started."""


@dataclass(frozen=True)
class Slot:
    """Room for one process: the cores that it may use, and what it finds in its environment."""

    cores: tuple[int, ...]
    environment: dict[str, str] = field(default_factory=dict)


def slots(workers: int | None) -> list[Slot]:
    """Room for `workers` processes on this machine: by default one a GPU, or one a core where there is none.

    Each GPU's memory is shared evenly by the processes that use it.
    """
    cores = _machine.available_cores()
    gpus = _machine.visible_gpus() if _machine.accelerated() else []
    if not gpus:
        # Pinned where they fill the machine: two sweeps of one process each would share the first core.
        if workers is None or workers == len(cores):
            return [Slot((core,)) for core in cores]
        return [Slot(tuple(cores))] * workers
    workers = workers or len(gpus)
    sharing = -(-workers // len(gpus))
    memory = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / sharing:.3f}"} if sharing > 1 else {}
    return [
        Slot(tuple(cores), {"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)], **memory}) for i in range(workers)
    ]


class Processes(Executor):
    """A process for each slot. One that dies takes its task with it and no other, and is replaced."""

    def __init__(self, slots: list[Slot]) -> None:
        self.slots = slots

    def run(self, waiting: collections.deque[Task], feedback: Feedback, stop: Stop) -> Generator[Outcome]:
        starts = _Starts()
        workers = [_Worker(slot, starts) for slot in self.slots]
        deadline = None
        try:
            while True:
                if stop.requested and deadline is None:
                    deadline = time.monotonic() + GRACE_SECONDS
                    for worker in workers:
                        worker.tell_to_stop()
                for worker in workers:
                    if waiting and worker.task is None and not stop.requested:
                        worker.submit(waiting.popleft())
                running = [worker for worker in workers if worker.task is not None]
                if not running or (deadline is not None and time.monotonic() > deadline):
                    return
                ready = multiprocessing.connection.wait(
                    [worker.connection for worker in running if worker.connection], timeout=0.2
                )
                for worker in running:
                    if worker.connection in ready:
                        yield from worker.receive(feedback)
        finally:
            for worker in workers:
                worker.kill()


class _Starts:
    """Counts processes that die as they start."""

    failed = 0

    def died(self) -> None:
        """One has died. Raises ExecutorError when it is one too many since any has said a word."""
        self.failed += 1
        if self.failed == STARTS_ALLOWED:
            raise ExecutorError(
                "worker processes die as they start; a script must call run_sweep below "
                "`if __name__ == '__main__':`, since they import it"
            )


class _Worker:
    """A process in its slot, started with its first task and again after it has died."""

    def __init__(self, slot: Slot, starts: "_Starts") -> None:
        self.slot, self.starts = slot, starts
        self.process: Any = None
        self.connection: Connection[Any, Any] | None = None
        self.task: Task | None = None
        self.spoke = False
        self.memory_kills = 0

    def submit(self, task: Task) -> None:
        """Give it a task; it has none."""
        self.task = task
        self.memory_kills = _machine.memory_kills()
        if self.connection is not None:
            try:
                self.connection.send(task)
                return
            except OSError:  # it died without a task
                self.kill()
        self._start()
        assert self.connection is not None
        with contextlib.suppress(OSError):  # if it has died already, `receive` says so
            self.connection.send(task)

    def _start(self) -> None:
        self.spoke = False
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # Ctrl-C reaches every process of a terminal, and a scheduler's SIGTERM every process of a job: only
        # the driver is to act on it, and tell the others.
        multiprocessing.resource_tracker.ensure_running()  # its start would let them through again
        _machine.ask_for_huge_pages()
        with _signals_held():
            self.process = context.Process(target=_serve, args=(theirs, self.slot), daemon=True)
            self.process.start()
        theirs.close()

    def receive(self, feedback: Feedback) -> list[Outcome]:
        """What it has sent: outcomes of its task, or that it died; the rest goes to `feedback`."""
        assert self.connection is not None and self.task is not None
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            task = self.task
            if not self.spoke:
                self.starts.died()
            self.kill()
            status, error = Status.FAILED, "its process died, or was killed"
            if _machine.memory_kills() > self.memory_kills:
                status, error = Status.OUT_OF_MEMORY, "its process was killed for want of memory"
            return [Outcome(job, task, status, Result([], {}), {}, error, died=True) for job in task.jobs]
        self.starts.failed, self.spoke = 0, True
        if message is None:
            return []
        if isinstance(message, Tick | Note):
            feedback(message)
            return []
        self.task = None
        outcomes: list[Outcome] = message
        return outcomes

    def tell_to_stop(self) -> None:
        """Let it save and end its task."""
        if self.connection is not None and self.task is not None:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.join(timeout=10)
            self.process.close()
        if self.connection is not None:
            self.connection.close()
        self.process = self.connection = self.task = None


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """The signals that stop us wait meanwhile; a process started meanwhile never sees them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: "Connection[Any, Any]", slot: Slot) -> None:
    """The process: tasks in; a word that it lives, ticks, notes and outcomes out."""
    # Before JAX is imported.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, slot.cores)
    os.environ.update(slot.environment)
    _machine.set_up_jax()
    threading.Thread(target=_end_with_parent, daemon=True).start()

    connection.send(None)  # it has started

    def stopped() -> bool:
        if connection.poll():  # while it has a task, all that is sent is the word to stop
            connection.recv()
            return True
        return False

    while True:
        task = connection.recv()
        if task is not None:  # told to stop when it had just ended
            connection.send(run_task(task, connection.send, stopped))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
