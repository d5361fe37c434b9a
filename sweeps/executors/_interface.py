"""What passes between a sweep and the executor that runs its tasks."""

import abc
import collections
import enum
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sweeps import _machine
from sweeps._jobs import Job, Result


class Status(enum.StrEnum):
    """How a job ended. Stopped: it was told to, and goes on from its checkpoint next time."""

    DONE = "done"
    DIVERGED = "diverged"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Task:
    """Jobs that are trained together.

    checkpoint: the folder of their checkpoint. every: seconds between checkpoints. max_bytes: memory that it
    may use; None: what there is. attempt: 1 at first. keep_models: results are to have what was trained.
    """

    jobs: tuple[Job, ...]
    checkpoint: Path
    every: float = 60.0
    max_bytes: int | None = None
    attempt: int = 1
    keep_models: bool = False

    @property
    def flops(self) -> int:
        """Estimated FLOPs of the whole training."""
        return sum(job.flops for job in self.jobs)


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its result, or `error` (one sentence) with its `trace`.

    task: that it was part of. died: the process that ran it is gone.
    """

    job: Job
    task: Task
    status: Status
    result: Result
    provenance: dict[str, Any]
    error: str | None = None
    trace: str = ""
    died: bool = False


class Tick(NamedTuple):
    """Progress of a running job: the share that is done, its step, its newest losses by name if there are."""

    job_id: str
    done: float
    step: int
    losses: dict[str, float] | None


class Note(NamedTuple):
    """Something to tell: one sentence."""

    text: str


Feedback = Callable[[Tick | Note], None]
"""Is told how tasks go, while they do."""


class ExecutorError(Exception):
    """No task can run there: a cluster that cannot be reached or is gone, processes that do not start."""


class Stop:
    """Whether the sweep is to stop: running tasks save where they stand and end."""

    requested = False


class Executor(abc.ABC):
    """Runs tasks."""

    @property
    def side_by_side(self) -> bool:
        """Whether jobs that differ in little, such as their seed, are to be trained as one task."""
        return _machine.accelerated()

    @abc.abstractmethod
    def run(self, waiting: collections.deque[Task], feedback: Feedback, stop: Stop) -> Generator[Outcome]:
        """An outcome for each job of the tasks in `waiting`, in the order in which they end.

        Tasks are taken from the left when there is room for them; the caller may add more at any time, and
        the executor ends when none is left or running. Once `stop.requested`, no more are taken, those that
        run are told to save and end, and yield what they then are. Closing the generator ends what is
        running at once. Raises ExecutorError where no task can run.
        """
