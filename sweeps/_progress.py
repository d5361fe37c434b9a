"""How a sweep shows its progress: a bar on a terminal, one line a job otherwise."""

import contextlib
import time
from typing import TYPE_CHECKING, Any

from sweeps._jobs import Job
from sweeps.executors import Outcome, Tick

if TYPE_CHECKING:
    from rich.console import Console

    from sweeps._run import Watcher


def patient_console(stream: Any, width: int | None = None) -> "Console":
    """A console that falls silent when its reader has gone; rich's own would end the program."""
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    return Patient(file=stream, width=width)


class Lines:
    """A line when the sweep starts and one for each job that ends."""

    def __init__(self, console: "Console") -> None:
        self.console = console
        self.jobs: dict[str, Job] = {}
        self.ended = 0
        self.began = time.monotonic()

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        self.jobs = jobs
        kept = f", {reused} already done" if reused else ""
        self._say(f"{len(jobs)} job(s) to run{kept}")

    def tick(self, tick: Tick) -> None:
        pass

    def note(self, text: str) -> None:
        self._say(text)

    def end(self, outcome: Outcome) -> None:
        self.ended += 1
        self._say(f"[{self.ended}/{len(self.jobs)}] {outcome.job.label}: {described(outcome)}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        # A terminal that has gone, or a full disk below a log, must not end a sweep.
        with contextlib.suppress(OSError):
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bar(Lines):
    """One bar over all jobs, weighted by their FLOPs, with an estimate of the time left."""

    def __init__(self, console: "Console") -> None:
        super().__init__(console)
        self.weights: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self.bar: Any = None
        self.task: Any = None

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        super().start(jobs, reused)
        self.weights = {key: float(job.flops) for key, job in jobs.items()}
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task("training", total=max(sum(self.weights.values()), 1.0))

    def tick(self, tick: Tick) -> None:
        self.done[tick.job_id] = tick.done
        self._update()

    def end(self, outcome: Outcome) -> None:
        self.done[outcome.job.id] = 1.0
        self._update()
        super().end(outcome)

    def close(self) -> None:
        if self.bar is not None:
            with contextlib.suppress(OSError):
                self.bar.stop()

    def _update(self) -> None:
        completed = sum(self.weights[key] * share for key, share in self.done.items())
        with contextlib.suppress(OSError):
            self.bar.update(self.task, completed=completed)


class Several:
    """Tells each of several watchers."""

    def __init__(self, *watchers: "Watcher") -> None:
        self.watchers = watchers

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        for watcher in self.watchers:
            watcher.start(jobs, reused)

    def tick(self, tick: Tick) -> None:
        for watcher in self.watchers:
            watcher.tick(tick)

    def note(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.note(text)

    def end(self, outcome: Outcome) -> None:
        for watcher in self.watchers:
            watcher.end(outcome)

    def close(self) -> None:
        for watcher in self.watchers:
            watcher.close()


def watcher(console: "Console") -> Lines:
    """What suits the console."""
    return Bar(console) if console.is_terminal else Lines(console)


def described(outcome: Outcome) -> str:
    """How a job ended, in a few words."""
    if outcome.error is not None and not outcome.result.rows:
        return f"{outcome.status}: {outcome.error}"
    rows = outcome.result.rows
    diverged = sum(row["status"] == "diverged" for row in rows)
    seconds = outcome.provenance["wall_seconds"]
    extra = f", {diverged} diverged" if diverged else ""
    return f"{len(rows)} rows{extra}, {seconds:.0f} s"
