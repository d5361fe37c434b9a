"""Which executor suits a sweep and the machine."""

from dataclasses import dataclass

from sweeps._jobs import Job
from sweeps.executors._dask import Dask
from sweeps.executors._in_process import InProcess
from sweeps.executors._interface import Executor
from sweeps.executors._processes import Processes, slots


@dataclass(frozen=True)
class Where:
    """Where the user wants jobs to run; all None: wherever suits.

    executor: `in-process` or `processes`. workers: at once. scheduler: address of a Dask scheduler. cluster:
    name of a batch system that Dask is to ask for workers.
    """

    executor: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    cluster: str | None = None


def choose(jobs: list[Job], where: Where) -> Executor:
    """`Dask` where a scheduler or cluster is named; `Processes` for several jobs; else `InProcess`.

    jobs: all of the sweep, done or not, so that a resumed one makes its records as it began: only a job that
    is a sweep of its own shares cores, since that changes last bits.
    """
    if where.scheduler is not None or where.cluster is not None:
        return Dask(where.scheduler, where.cluster, where.workers)
    room = slots(where.workers)
    several = len(jobs) > 1 and len(room) > 1
    if where.executor == "processes" or (where.executor is None and several):
        return Processes(room[: len(jobs)])
    return InProcess(share_cores=len(jobs) == 1)
