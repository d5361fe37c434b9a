"""On the workers of a Dask cluster, one that runs or one that a batch system is asked for.

No file system is shared: the newest checkpoint of a running task lies with the scheduler, for the worker that
takes the task over when the first one is lost, and the driver copies it to the results' folder.
"""

import collections
import contextlib
import io
import itertools
import logging
import pickle
import queue
import tarfile
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeps._config import ConfigError, nearest
from sweeps._doctor import code
from sweeps._extras import need
from sweeps._files import StoreError, remove
from sweeps._jobs import SCHEMA_VERSION, Result
from sweeps._machine import set_up_jax
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
from sweeps.executors._processes import GRACE_SECONDS
from sweeps.executors._training import run_task

CONNECT_SECONDS = 10
POLL_SECONDS = 0.1
REPLACE_SECONDS = 10
"""Between two looks at whether jobs of the batch system have ended and are to be replaced."""

MOST_JOBS = 16
"""Jobs that a batch system is asked for unless told otherwise."""

CLUSTERS = {
    "htcondor": "HTCondorCluster",
    "lsf": "LSFCluster",
    "moab": "MoabCluster",
    "oar": "OARCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "slurm": "SLURMCluster",
}
"""Batch systems that dask-jobqueue speaks to."""

LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado.application", "asyncio")
"""Log what an outcome or an ExecutorError says in a sentence."""


GONE = "the Dask scheduler is gone: the same command goes on from the last checkpoints"


def batch_cluster(name: str) -> Any:
    """The cluster of a batch system, as the user's Dask configuration describes its jobs; no job yet.

    Raises ConfigError for an unknown name, a missing library or a configuration that says too little.
    """
    if name not in CLUSTERS:
        raise ConfigError(f"--cluster {name!r}: {nearest(name, CLUSTERS)}")
    library = need("dask_jobqueue", "dask")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Port .* is already in use")  # its dashboard takes another
            return getattr(library, CLUSTERS[name])()
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).partition(", for example")[0].splitlines()[0]
        raise ConfigError(
            f"--cluster {name}: {reason}; describe a job (cores, memory, queue, walltime) under "
            f"jobqueue.{name} in ~/.config/dask/jobqueue.yaml"
        ) from None


class Dask(Executor):
    """Tasks go to whatever workers the cluster has; those that are lost are begun again elsewhere.

    scheduler: address of a running one. cluster: a batch system to ask for `jobs` workers, if that is None.
    """

    def __init__(self, scheduler: str | None = None, cluster: str | None = None, jobs: int | None = None):
        need("distributed", "dask")
        self.scheduler, self.cluster, self.jobs = scheduler, cluster, jobs

    @property
    def side_by_side(self) -> bool:
        return False  # what the workers have is not known here

    def run(self, waiting: collections.deque[Task], feedback: Feedback, stop: Stop) -> Generator[Outcome]:
        with contextlib.ExitStack() as opened:
            opened.enter_context(_quiet())
            address: Any = self.scheduler
            jobs = min(len(waiting), self.jobs or MOST_JOBS)
            if address is None:
                address = self._submitted(opened, jobs)
                feedback(Note(f"asked {self.cluster} for {jobs} job(s)"))

            def replace_lost() -> None:
                if self.scheduler is None:
                    address.scale(jobs=jobs)

            drive = _Drive(_connected(opened, address), feedback, replace_lost)
            opened.callback(drive.close)
            yield from drive.run(waiting, stop)

    def _submitted(self, opened: contextlib.ExitStack, jobs: int) -> Any:
        """The batch system's cluster with so many jobs in its queue.

        Raises ExecutorError when it does not take them.
        """
        assert self.cluster is not None
        cluster = batch_cluster(self.cluster)
        for _ in range(jobs):  # as `scale` would, which does not tell of errors
            cluster.worker_spec.update(cluster.new_worker_spec())
        try:
            return opened.enter_context(cluster)
        except Exception as error:
            first: BaseException = error
            while first.__context__ is not None:  # it fails to close a job that there is not, too
                first = first.__context__
            cluster.shutdown_on_close = False  # it would try again for ten seconds
            said = str(first).rpartition("stderr:")[2]
            raise ExecutorError(f"{self.cluster} takes no job: {' '.join(said.split())}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is logged about lost workers and connections."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _connected(opened: contextlib.ExitStack, address: Any) -> Any:
    """A client of the scheduler at this address, or of this cluster."""
    import distributed

    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        sentence = " ".join(str(error).split())
        raise ExecutorError(f"no Dask scheduler answers at {address}: {sentence}") from None
    return opened.enter_context(client)


@dataclass
class _Sent:
    """A task that the scheduler has. moved: a checkpoint has come back."""

    task: Task
    future: Any
    begun: bool = False
    moved: bool = False


class _Drive:
    """One run on a cluster, seen from the driver."""

    def __init__(self, client: Any, feedback: Feedback, replace_lost: Callable[[], None]) -> None:
        import distributed

        self.client, self.feedback, self.replace_lost = client, feedback, replace_lost
        # The scheduler forgets a client's own topic some time after the client has gone.
        self.topic = client.id
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[int, _Sent] = {}
        self.numbers = itertools.count()
        self.looked = time.monotonic()
        self.stopping = distributed.Event(self.topic, client=client)
        client.subscribe_topic(self.topic, lambda event: self.messages.put(event[1]))

    def run(self, waiting: collections.deque[Task], stop: Stop) -> Generator[Outcome]:
        """See `Executor.run`."""
        deadline = None
        with self._reached():
            threads = self.client.nthreads()
        self.feedback(Note(f"{len(threads)} Dask worker(s), {sum(threads.values())} job(s) at once"))
        while True:
            if stop.requested and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
                self._tell_to_stop()
            while waiting and not stop.requested:
                self._submit(waiting.popleft())
            if not self.sent or (deadline is not None and time.monotonic() > deadline):
                return
            ended = [number for number, sent in self.sent.items() if sent.future.done()]
            self._drain()  # also what they have said before they ended
            for number in ended:
                yield from self._end(number, stop)
            if not ended:
                time.sleep(POLL_SECONDS)
            if time.monotonic() - self.looked > REPLACE_SECONDS:
                self.looked = time.monotonic()
                self.replace_lost()

    def close(self) -> None:
        """Let workers drop what they run, and leave nothing with the scheduler."""
        if self.client.status == "running":
            with contextlib.suppress(Exception):  # the scheduler may go at any moment
                for number in list(self.sent):
                    self._forget(number)
                self.stopping.clear()

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Raises ExecutorError when the scheduler is gone meanwhile."""
        try:
            yield
        except Exception as error:
            if isinstance(error, OSError) or self.client.status != "running":
                raise ExecutorError(GONE) from None
            raise

    def _key(self, number: int) -> tuple[str, int]:
        return f"depthlaw-{self.topic}", number

    def _submit(self, task: Task) -> None:
        number = next(self.numbers)
        key = self._key(number)
        with self._reached():
            if task.checkpoint.is_dir():
                self.client.set_metadata([key], pack(task.checkpoint))
            future = self.client.submit(
                _by_value(),
                pickle.dumps(task),
                self.topic,
                _code_version(),
                key=key,
                priority=-number,
                pure=False,
            )
        self.sent[number] = _Sent(task, future)

    def _forget(self, number: int) -> None:
        """Let the scheduler drop a task, and with it what it has of its checkpoints."""
        with self._reached():
            self.sent.pop(number).future.cancel()

    def _tell_to_stop(self) -> None:
        with self._reached():
            self.stopping.set()
        for number in [number for number, sent in self.sent.items() if not sent.begun]:
            self._forget(number)

    def _drain(self) -> None:
        """Hand on what workers have said, and copy the checkpoints that they have left with the scheduler."""
        moved = set()
        while not self.messages.empty():
            message = self.messages.get()
            if not isinstance(message, tuple) or message[0] not in self.sent:
                continue  # the scheduler's own, or of a task that has ended
            number, what, *values = message
            if what == "tick":
                self.sent[number].begun = True
                self.feedback(Tick(*values))
            elif what == "note":
                self.feedback(Note(*values))
            else:
                moved.add(number)
        for number in moved:
            sent = self.sent[number]
            sent.moved = True
            with self._reached():
                packed = self.client.get_metadata([self._key(number)], default=None)
            try:
                if packed is not None:
                    unpack(packed, sent.task.checkpoint)
            except (OSError, StoreError, tarfile.TarError) as error:  # a full disk, say
                self.feedback(Note(f"{sent.task.checkpoint} cannot be written ({error}): it goes on without"))

    def _end(self, number: int, stop: Stop) -> list[Outcome]:
        """Outcomes of a task whose future is done; none where it goes on elsewhere."""
        sent = self.sent[number]
        outcomes = self._outcomes(sent)
        self._forget(number)
        # A worker that closes stops its task; one whose time is over loses it, which says nothing against it.
        closed = all(outcome.status is Status.STOPPED for outcome in outcomes)
        lost = sent.moved and any(outcome.died for outcome in outcomes)
        if (closed or lost) and not stop.requested:
            self._submit(sent.task)
            return []
        return outcomes

    def _outcomes(self, sent: _Sent) -> list[Outcome]:
        import distributed

        if sent.future.status == "cancelled":
            raise ExecutorError(GONE)
        with self._reached():
            if sent.future.status == "finished":
                return [replace(outcome, task=sent.task) for outcome in sent.future.result()]
            error = sent.future.exception()
        if isinstance(error, ExecutorError):
            raise error
        if isinstance(error, ImportError):
            raise ExecutorError(f"workers need depthlaw as it is here: {_sentence(error)}")
        died = isinstance(error, distributed.KilledWorker)
        why = "its workers died (killed, or out of memory)" if died else _sentence(error)
        trace = "" if died else "".join(traceback.format_exception(error))
        return [
            Outcome(job, sent.task, Status.FAILED, Result([], {}), {}, why, trace, died)
            for job in sent.task.jobs
        ]


def _sentence(error: Any) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]


def _code_version() -> str:
    return f"{code()['version']} (schema {SCHEMA_VERSION})"


def _by_value() -> Callable[..., list[Outcome]]:
    """`_remote`, as a function that a scheduler or worker can hold that has no depthlaw."""

    def call(*arguments: Any) -> Any:  # a type of ours would travel along
        from sweeps.executors import _dask

        return _dask._remote(*arguments)

    return call


def _remote(packed_task: bytes, topic: str, version: str) -> list[Outcome]:
    """On a worker: the task in a folder of its own, from the newest checkpoint that the scheduler has."""
    import distributed

    worker, client = distributed.get_worker(), distributed.get_client()
    if _code_version() != version:
        raise ExecutorError(
            f"worker {worker.address} has depthlaw {_code_version()}, not {version}: "
            "install the same there and start it anew"
        )
    set_up_jax()
    task: Task = pickle.loads(packed_task)  # imports JAX
    key: Any = worker.get_current_task()
    stopping = distributed.Event(topic, client=client)

    def feedback(message: Tick | Note) -> None:
        worker.log_event(topic, (key[1], "tick" if isinstance(message, Tick) else "note", *message))

    def cancelled() -> bool:
        """Whether nobody waits for the task any more: the driver has given it up, or is gone."""
        mine = worker.state.tasks.get(key)
        return mine is None or mine.state == "cancelled"

    def stopped() -> bool:
        if cancelled() or worker.status not in (distributed.Status.running, distributed.Status.paused):
            return True
        with contextlib.suppress(OSError):  # out of reach for a moment
            return bool(stopping.is_set())
        return False

    def on_checkpoint() -> None:
        packed = pack(local.checkpoint)
        if not cancelled():  # else it would stay there
            with contextlib.suppress(Exception):  # out of reach, or the worker is closing: the next will do
                client.set_metadata([key], packed)  # dropped with the task
                worker.log_event(topic, (key[1], "checkpoint"))

    with tempfile.TemporaryDirectory(prefix="depthlaw-", dir=worker.local_directory) as folder:
        local = replace(task, checkpoint=Path(folder, "checkpoint"))
        packed = client.get_metadata([key], default=None)
        if packed is not None:
            unpack(packed, local.checkpoint)
        outcomes = run_task(local, feedback, stopped, on_checkpoint)
    # Its commit may be another than the driver's, and is what the record is to say.
    return [replace(o, provenance=o.provenance and {**code(), **o.provenance}) for o in outcomes]


def pack(folder: Path) -> bytes:
    """The files of a folder, as one."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """The files of a packed checkpoint, in place of what `folder` holds; killed, one or the other is left."""
    fresh = folder.with_name(f".{folder.name}.new")
    remove(fresh)
    fresh.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(fresh, filter="data")
    folder.mkdir(exist_ok=True)
    names = sorted(entry.name for entry in fresh.iterdir())
    for name in names:  # arrays before their seal
        remove(folder / name)
        (fresh / name).rename(folder / name)
    for entry in folder.iterdir():
        if entry.name not in names:
            remove(entry)
    fresh.rmdir()
