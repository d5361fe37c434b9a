"""Training one task, wherever it runs: from its checkpoint, with new ones, to the outcome of each job."""

import contextlib
import datetime
import time
import traceback
from collections.abc import Callable
from typing import Any

from sweeps import _machine
from sweeps._checkpoints import Checkpoints
from sweeps._config import digest, encode
from sweeps._doctor import code
from sweeps._files import StoreError
from sweeps._jobs import Checkpoint, Job, Progress, Result, halved, kind
from sweeps.executors._interface import Feedback, Note, Outcome, Status, Task, Tick

TICK_SECONDS = 0.2
"""Between two ticks of a task, unless there are losses to tell."""

SAVING_SHARE = 0.05
"""Of a task's time that its checkpoints may take: where they take long, they are taken less often."""


class _Stopped(Exception):
    """The task was told to stop, and has saved where it stands."""


def run_task(
    task: Task,
    feedback: Feedback,
    stopped: Callable[[], bool],
    on_checkpoint: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Train the task's jobs; an error becomes the outcome of each.

    stopped: asked after every segment. on_checkpoint: is told of every checkpoint that has been written.
    """
    if stopped():
        return [Outcome(job, task, Status.STOPPED, Result([], {}), {}) for job in task.jobs]
    for job in task.jobs:
        feedback(Tick(job.id, 0.0, 0, None))
    run = _Run(task, feedback, stopped, on_checkpoint)
    try:
        results = run.train()
    except _Stopped:
        return run.outcomes(Status.STOPPED)
    except Exception as error:  # whatever a job raises is that job's outcome: the sweep goes on
        status = Status.OUT_OF_MEMORY if run.exhausted else Status.FAILED
        if run.kind.explains(error):
            return run.outcomes(status, error=str(error))
        sentence = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return run.outcomes(status, error=sentence, trace=traceback.format_exc())
    about = run.provenance()
    ended = [
        Outcome(job, task, _status(result), result, {**about, **(result.about or {})}, result.diverged)
        for job, result in zip(task.jobs, results, strict=True)
    ]
    return ended[1:] + ended[:1]  # the first has the checkpoint of all: its record is written last


def _status(result: Result) -> Status:
    return Status.DIVERGED if result.diverged else Status.DONE


class _Run:
    """One attempt at a task."""

    def __init__(
        self, task: Task, feedback: Feedback, stopped: Callable[[], bool], on_checkpoint: Callable[[], None]
    ) -> None:
        self.task, self.feedback, self.stopped, self.on_checkpoint = task, feedback, stopped, on_checkpoint
        self.kind = kind(task.jobs[0].kind)
        self.configs = [job.config for job in task.jobs]
        self.identity = digest([code()["version"], [encode(config) for config in self.configs]])
        self.checkpoints = Checkpoints(task.checkpoint)
        self.max_bytes = task.max_bytes
        self.exhausted = False
        self.began = time.monotonic()
        self.before = 0.0
        self.resumed: list[int] = []
        self.saved = self.ticked = self.began
        self.saving = 0.0
        self.compiling = _CompileTime()

    def train(self) -> list[Result]:
        """Results of the jobs. Memory that does not suffice is halved as long as it can be."""
        resume = self._load()
        while True:
            try:
                return self._attempt(resume)
            except Exception as error:
                if resume is not None and isinstance(error, ValueError) and not self.kind.explains(error):
                    self._note(f"its checkpoint does not fit ({error}): it starts anew")
                    self._begin_anew()
                    resume = None
                    continue
                if not _is_out_of_memory(error):
                    raise
                self.exhausted = True
                less = halved(self.task.jobs, self.max_bytes)
                if less is None:  # it is divided as far as it can be
                    raise
                error.__traceback__ = None  # it would keep all arrays alive
            self.max_bytes = less
            self._begin_anew()
            resume = None  # it is of another division
            self._note(f"out of memory: trying again in parts of {less / 2**20:.3g} MiB")

    def _attempt(self, resume: Checkpoint | None) -> list[Result]:
        return self.kind.train(
            self.configs,
            resume=resume,
            max_bytes=self.max_bytes,
            on_progress=self._on_progress,
            keep_models=self.task.keep_models,
        )

    def _begin_anew(self) -> None:
        """Nothing of what was before counts."""
        self.before, self.resumed = 0.0, []

    def _load(self) -> Checkpoint | None:
        try:
            found = self.checkpoints.load()
        except StoreError as error:
            self._note(f"{error}: it starts anew")
            return None
        if found is None:
            return None
        if found.about.get("identity") != self.identity:
            self._note("its checkpoint is of other jobs or another version: it starts anew")
            return None
        about = dict(found.about)
        del about["identity"]
        self.before, self.resumed = about.pop("seconds"), about.pop("resumed")
        self.resumed.append(about["step"])
        return Checkpoint(found.arrays, about)

    def _on_progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.losses is not None or now - self.ticked > TICK_SECONDS or progress.done == 1:
            self.ticked = now
            for i, job in enumerate(self.task.jobs):
                losses = None if progress.losses is None else progress.losses[i]
                self.feedback(Tick(job.id, progress.done, progress.step, losses))
        if progress.done == 1:
            return
        stop = self.stopped()
        due = stop or now - self.saved > max(self.task.every, self.saving / SAVING_SHARE)
        if due and progress.checkpoint is not None:
            self._save(progress.checkpoint)
        if stop:
            raise _Stopped

    def _save(self, checkpoint: Callable[[], Checkpoint]) -> None:
        began = time.monotonic()
        taken = checkpoint()
        about = {
            **taken.about,
            "identity": self.identity,
            "seconds": self.seconds(),
            "resumed": self.resumed,
        }
        try:
            self.checkpoints.save(Checkpoint(taken.arrays, about))
            self.on_checkpoint()
        except StoreError as error:  # a full disk, say: there may be room for the next, and for the record
            self._note(f"{error}: it goes on without this checkpoint")
        self.saved = time.monotonic()
        self.saving = self.saved - began

    def seconds(self) -> float:
        """Wall time of the task, that before its checkpoint included."""
        return round(self.before + time.monotonic() - self.began, 3)

    def provenance(self) -> dict[str, Any]:
        """Where and how it ran."""
        return {
            "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "wall_seconds": self.seconds(),
            "compile_seconds": round(self.compiling.seconds(), 3),
            "attempt": self.task.attempt,
            "resumed": self.resumed,
            "max_bytes": self.max_bytes,
            **_machine.provenance(),
        }

    def outcomes(self, status: Status, **why: Any) -> list[Outcome]:
        """The same outcome for every job."""
        about: dict[str, Any] = {}
        if status is not Status.STOPPED:
            with contextlib.suppress(Exception):  # what keeps it from training may keep it from this
                about = self.provenance()
        return [Outcome(job, self.task, status, Result([], {}), about, **why) for job in self.task.jobs]

    def _note(self, text: str) -> None:
        self.feedback(Note(f"{_labels(self.task.jobs)}: {text}"))


def _labels(jobs: tuple[Job, ...]) -> str:
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"{jobs[0].label}{more}"


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


class _CompileTime:
    """Seconds that JAX spends on compiling, or on fetching what is compiled, from when this is made."""

    total = 0.0
    listening = False

    def __init__(self) -> None:
        import jax.monitoring

        if not _CompileTime.listening:
            jax.monitoring.register_event_duration_secs_listener(_CompileTime._listen)
            _CompileTime.listening = True
        self.start = _CompileTime.total

    @staticmethod
    def _listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            _CompileTime.total += duration_secs

    def seconds(self) -> float:
        return _CompileTime.total - self.start
