"""How a sweep shows its progress: a bar on a terminal, one line a job otherwise."""

import time
from typing import TYPE_CHECKING, Any

from sweeps._executors import Outcome, Tick
from sweeps._jobs import Job

if TYPE_CHECKING:
    from rich.console import Console


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

    def end(self, outcome: Outcome) -> None:
        self.ended += 1
        self._say(f"[{self.ended}/{len(self.jobs)}] {outcome.job.label}: {described(outcome)}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
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

        from toymodels import total_flops

        super().start(jobs, reused)
        self.weights = {key: float(total_flops(job.config)) for key, job in jobs.items()}
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
            self.bar.stop()

    def _update(self) -> None:
        completed = sum(self.weights[key] * share for key, share in self.done.items())
        self.bar.update(self.task, completed=completed)


def watcher(console: "Console") -> Lines:
    """What suits the console."""
    return Bar(console) if console.is_terminal else Lines(console)


def described(outcome: Outcome) -> str:
    """How a job ended, in a few words."""
    if outcome.error is not None:
        return f"failed: {outcome.error}"
    diverged = sum(row["status"] == "diverged" for row in outcome.rows)
    seconds = outcome.provenance["wall_seconds"]
    extra = f", {diverged} diverged" if diverged else ""
    return f"{len(outcome.rows)} students{extra}, {seconds:.0f} s"
