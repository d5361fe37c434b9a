"""Where tasks run. An executor takes tasks from a queue and yields an `Outcome` for each job as it ends.

To add one, subclass `Executor` in a module of its own and name it in `choose`. What all share, training a
task, its checkpoints and its errors, is in `_training`.
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
    "slots",
]
