"""Where tasks run. An executor takes tasks from a queue and yields an `Outcome` for each job as it ends.

One of your own is a subclass of `Executor` that `sweeps.run_sweep` is given; what all share, training a task,
its checkpoints and its errors, is `run_task`. For the command line to find it, name it in `choose`.
"""

from sweeps.executors._choose import Where, choose
from sweeps.executors._dask import Dask
from sweeps.executors._in_process import InProcess
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
from sweeps.executors._processes import Processes, Slot, slots
from sweeps.executors._training import run_task

__all__ = [
    "Dask",
    "Executor",
    "ExecutorError",
    "Feedback",
    "InProcess",
    "Note",
    "Outcome",
    "Processes",
    "Slot",
    "Status",
    "Stop",
    "Task",
    "Tick",
    "Where",
    "choose",
    "run_task",
    "slots",
]
