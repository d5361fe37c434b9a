"""Run a sweep: claim the folder, train the jobs that have no record, write each record as its job ends."""

import collections
import contextlib
import os
import platform
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from sweeps import _machine
from sweeps._doctor import code
from sweeps._jobs import Job, expand, halved, merge
from sweeps._signals import Stopped, told_on_signals
from sweeps._spec import Spec
from sweeps._store import DONE, Store
from sweeps.executors import Executor, Note, Outcome, Status, Stop, Task, Tick, Where, choose

DEATHS_ALLOWED = 3
"""How often a task is tried whose process dies."""


@dataclass(frozen=True)
class Policy:
    """What to do about trouble.

    retry: how often a failed job is tried again. fail_fast: stop at the first that stays failed, or diverges.
    extend: let a folder of results take more cells. checkpoint_seconds: between a job's checkpoints.
    keep_models: keep what is trained, beside its record; jobs that have ended without are trained again.
    """

    retry: int = 0
    fail_fast: bool = False
    extend: bool = False
    checkpoint_seconds: float = 60.0
    keep_models: bool = False


class Watcher(Protocol):
    """Is told how a sweep goes; see `sweeps._progress`."""

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        """Before the first job: those to run, by id, and how many had ended before."""

    def tick(self, tick: Tick) -> None:
        """A running job has come further."""

    def note(self, text: str) -> None:
        """A sentence for a person."""

    def end(self, outcome: Outcome) -> None:
        """A job has ended, and its record is written."""

    def close(self) -> None:
        """Nothing comes after this; `run_sweep` leaves it to its caller."""


class _Silent:
    """Hears, and says nothing."""

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        pass

    def tick(self, tick: Tick) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self, outcome: Outcome) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class RunSummary:
    """What a run did: its store; jobs in all, reused, not run; label and reason of failed and diverged ones,
    by job id, and what they printed (`traces`).

    peak_memory: in bytes, the peaks of all its processes while they trained, added, with the libraries that
    they share counted once. compile_seconds: of all processes, for compiling or fetching what is compiled.
    """

    store: Store
    jobs: int = 0
    reused: int = 0
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)
    diverged: dict[str, tuple[str, str]] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    not_run: int = 0
    peak_memory: int = 0
    compile_seconds: float = 0.0


def run_sweep(
    spec: Spec,
    out: Path,
    watcher: Watcher | None = None,
    *,
    where: Where | None = None,
    executor: Executor | None = None,
    policy: Policy | None = None,
) -> RunSummary:
    """Train every job of `spec` that `out` holds no record of.

    watcher: is told how it goes (None: nobody is). where: what the user says of where to run. executor:
    where to, else as `executors.choose` says. A job that fails is recorded, in the summary, and stops no
    other.
    Raises ConfigError when `out` holds another spec's results, StoreError when it cannot be written or is in
    use, Stopped after SIGINT, SIGTERM or SIGHUP.
    """
    watcher, policy = watcher or _Silent(), policy or Policy()
    store = Store(out)
    jobs = expand(spec.kind, spec.configs)
    executor = executor or choose(jobs, where or Where())
    with store.locked():
        store.claim(spec.source, jobs, policy.extend)
        statuses = store.heal(watcher.note)
        missing = [job for job in jobs if statuses.get(job.id) not in DONE]
        if policy.keep_models:
            without = [job for job in jobs if statuses.get(job.id) in DONE and not store.has_model(job.id)]
            if without:
                watcher.note(f"{len(without)} job(s) had ended without keeping their models: trained again")
            missing += without
        summary = RunSummary(store, len(jobs), len(jobs) - len(missing))
        watcher.start({job.id: job for job in missing}, summary.reused)
        if missing:
            stop, came = Stop(), []

            def tell(number: int) -> None:
                stop.requested = True
                came.append(number)
                watcher.note("stopping: running jobs save where they are (again to stop at once)")

            with told_on_signals(tell):
                _Sweep(store, watcher, policy, stop, summary).run(missing, executor)
            # Somebody may have removed some meanwhile.
            gone = sum(not (store.folder(job.id) / "record.json").exists() for job in jobs)
            summary.not_run = max(summary.not_run, gone)
            if came:
                raise Stopped(came[0])
    return summary


class _Sweep:
    """The loop of a run: tasks to the executor, outcomes to records, what failed back to the queue."""

    def __init__(
        self,
        store: Store,
        watcher: Watcher,
        policy: Policy,
        stop: Stop,
        summary: RunSummary,
    ) -> None:
        self.store, self.watcher, self.policy, self.stop, self.summary = store, watcher, policy, stop, summary
        self.code = code()
        self.waiting: collections.deque[Task] = collections.deque()
        self.peaks: dict[tuple[str, int], int] = {}
        self.retried: set[tuple[str, int]] = set()

    def run(self, missing: list[Job], executor: Executor) -> None:
        """Run the jobs to their records."""
        groups = merge(missing) if executor.side_by_side else [(job,) for job in missing]
        every = self.policy.checkpoint_seconds
        keep = self.policy.keep_models
        tasks = [Task(group, self.store.checkpoint(group[0].id), every, keep_models=keep) for group in groups]
        # The longest first, so that no long one is left running alone at the end.
        self.waiting.extend(sorted(tasks, key=lambda task: -task.flops))
        ended = 0
        # Closed whatever happens here, a full disk or Ctrl-C, so that no job runs on without us.
        with contextlib.closing(executor.run(self.waiting, self._feedback, self.stop)) as outcomes:
            for outcome in outcomes:
                ended += self._take(outcome)
        self.summary.not_run = len(missing) - ended
        self.peaks[platform.node(), os.getpid()] = _machine.peak_memory()
        self.summary.peak_memory = sum(self.peaks.values())

    def _feedback(self, message: Tick | Note) -> None:
        if isinstance(message, Tick):
            self.watcher.tick(message)
        else:
            self.watcher.note(message.text)

    def _take(self, outcome: Outcome) -> bool:
        """Record an outcome, or try again; whether the job has ended."""
        self._account(outcome)
        ended_by_us = outcome.status is Status.STOPPED or (outcome.died and self.stop.requested)
        if ended_by_us or self._tried_again(outcome):
            return False
        about = {**self.code, **outcome.provenance}
        # A job that is trained again for its model alone does not lose what it had by failing at it.
        if outcome.status in DONE or not self.store.is_done(outcome.job):
            self.store.write(outcome.job, outcome.status, outcome.result, about, outcome.error, outcome.trace)
        if outcome.error is not None:
            gone = self.summary.diverged if outcome.status is Status.DIVERGED else self.summary.failures
            gone[outcome.job.id] = (outcome.job.label, outcome.error)
            if outcome.trace:
                self.summary.traces[outcome.job.id] = outcome.trace
            if self.policy.fail_fast and not self.stop.requested:
                self.watcher.note("stopping at the first failure: running jobs save where they are")
                self.stop.requested = True
        self.watcher.end(outcome)
        return True

    def _tried_again(self, outcome: Outcome) -> bool:
        """Whether the task of this failed job goes back to the queue."""
        if outcome.status not in (Status.FAILED, Status.OUT_OF_MEMORY) or self.stop.requested:
            return False
        task = outcome.task
        limit, how = task.max_bytes, "trying again"
        if outcome.status is Status.OUT_OF_MEMORY:
            # One that did not die has been divided as far as it can be.
            less = halved(task.jobs, limit) if outcome.died else None
            if less is None:
                return False
            limit, how = less, f"trying again in parts of {less / 2**20:.3g} MiB"
        elif task.attempt > max(self.policy.retry, DEATHS_ALLOWED - 1 if outcome.died else 0):
            return False
        again = (task.jobs[0].id, task.attempt)
        if again not in self.retried:  # once for all jobs of the task
            self.retried.add(again)
            self.watcher.note(f"{outcome.job.label}: {outcome.error}; {how}")
            self.waiting.appendleft(replace(task, attempt=task.attempt + 1, max_bytes=limit))
        return True

    def _account(self, outcome: Outcome) -> None:
        about = outcome.provenance
        if not about:
            return
        process = about["host"], about["process"]
        own = about["peak_memory_bytes"] - about["mapped_files_bytes"]
        self.peaks[process] = max(own, self.peaks.get(process, 0))
        self.summary.compile_seconds += about["compile_seconds"]
