"""Held-out losses as TensorBoard event files, while jobs run: `<out>/tensorboard/<job>`."""

from pathlib import Path
from typing import Any

from sweeps._extras import need
from sweeps._jobs import Job
from sweeps.executors import Outcome, Tick


class TensorBoard:
    """A run for each job, a curve for each of its losses over training steps.

    A job that goes on from a checkpoint goes on in the same folder.
    """

    def __init__(self, out: Path) -> None:
        self.library = need("tensorboardX", "track")
        self.folder = out / "tensorboard"
        self.writers: dict[str, Any] = {}

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        self.jobs = jobs

    def tick(self, tick: Tick) -> None:
        if tick.losses is None:
            return
        if tick.job_id not in self.writers:
            writer = self.library.SummaryWriter(str(self.folder / tick.job_id))
            writer.add_text("job", self.jobs[tick.job_id].label)
            self.writers[tick.job_id] = writer
        for name, value in tick.losses.items():
            self.writers[tick.job_id].add_scalar(name, value, tick.step)

    def note(self, text: str) -> None:
        pass

    def end(self, outcome: Outcome) -> None:
        if outcome.job.id in self.writers:
            self.writers.pop(outcome.job.id).close()

    def close(self) -> None:
        while self.writers:
            self.writers.popitem()[1].close()
