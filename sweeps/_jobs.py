"""Jobs: what is trained and recorded together; and kinds, which say how a config becomes jobs and rows.

A new kind of experiment is a subclass of `Kind` in a module of its own, named in `KINDS`.
"""

import abc
import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sweeps._config import canonical, digest, encode

if TYPE_CHECKING:
    import numpy as np

SCHEMA_VERSION = 2
"""Raised when the meaning of a config, a column or a record changes: older records are another job's."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its type, its unit (or None) and what it is."""

    type: type
    unit: str | None
    meaning: str


PROVENANCE: dict[str, Column] = {
    "version": Column(str, None, "depthlaw's version"),
    "commit": Column(str, None, "git commit of the code; null where it was installed without git"),
    "dirty": Column(bool, None, "whether the code differed from that commit; null without git"),
    "device": Column(str, None, "device that trained it"),
    "precision": Column(str, None, "of numbers and of matrix products"),
}
"""The last columns of every table: where a row comes from."""


@dataclass(frozen=True)
class Job:
    """What is trained and recorded together: a config of a kind."""

    kind: str
    config: Any

    @functools.cached_property
    def id(self) -> str:
        """Short hash of kind, config and the schema's version."""
        return digest({"schema": SCHEMA_VERSION, "kind": self.kind, "config": encode(self.config)})

    @property
    def label(self) -> str:
        """For a person; nothing reads it back."""
        return kind(self.kind).label(self.config)

    @functools.cached_property
    def flops(self) -> int:
        """Estimated FLOPs of its training."""
        return kind(self.kind).flops(self.config)


class Checkpoint(NamedTuple):
    """Where a training stood. about: what else is needed to go on, as plain values of JSON."""

    arrays: "dict[str, np.ndarray]"
    about: dict[str, Any]


class Progress(NamedTuple):
    """What a training says after each segment.

    done: the share that is done, 0 to 1. step: of the training. losses: newest held-out losses of each
    config by the names that its curves have, or None. checkpoint: where it stands; to be called at once.
    None: there is nothing to save yet.
    """

    done: float
    step: int
    losses: list[dict[str, float]] | None
    checkpoint: Callable[[], Checkpoint] | None


class Result(NamedTuple):
    """What a job reached: its rows, by column, and its curves, by name.

    diverged: what did, in a sentence. about: what its record is to say of how it ran, its speed say; no part
    of the result. model: the arrays of what was trained, by name, where they were asked for.
    """

    rows: list[dict[str, Any]]
    curves: "dict[str, np.ndarray]"
    diverged: str | None = None
    about: dict[str, Any] | None = None
    model: "dict[str, np.ndarray] | None" = None


class Kind(abc.ABC):
    """A kind of experiment."""

    columns: ClassVar[dict[str, Column]]
    sorted_by: ClassVar[tuple[str, ...]]

    @property
    @abc.abstractmethod
    def config(self) -> type:
        """The class of its configs."""

    @abc.abstractmethod
    def split(self, config: Any) -> list[Any]:
        """The configs of the jobs that a config of a spec asks for."""

    @abc.abstractmethod
    def label(self, config: Any) -> str:
        """A few words that tell a job from others, for a person."""

    @abc.abstractmethod
    def flops(self, config: Any) -> int:
        """Estimated FLOPs of a training."""

    @abc.abstractmethod
    def memory_bytes(self, configs: Sequence[Any]) -> int:
        """Estimated memory of these jobs trained together on the device at hand."""

    @abc.abstractmethod
    def least_bytes(self, configs: Sequence[Any]) -> int:
        """The same with all divided that can be: no `max_bytes` below it can be kept to."""

    @abc.abstractmethod
    def num_rows(self, config: Any) -> int:
        """Rows of a job."""

    @abc.abstractmethod
    def shares_cores(self, config: Any) -> bool:
        """Whether a lone job gains from all cores of a CPU."""

    @abc.abstractmethod
    def product(self, config: Any) -> tuple[int, int, int]:
        """Rows, inner size and columns of the matrix product that most of its FLOPs are in."""

    @abc.abstractmethod
    def program(self, config: Any) -> str:
        """What its compilation depends on: jobs of equal text share one."""

    @abc.abstractmethod
    def companions(self, config: Any) -> str:
        """Jobs of equal text can be trained side by side on an accelerator."""

    def explains(self, error: Exception) -> bool:
        """Whether the error's sentence says all: what is wrong, where, and what to do about it."""
        return False

    @abc.abstractmethod
    def train(
        self,
        configs: Sequence[Any],
        *,
        resume: Checkpoint | None = None,
        max_bytes: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        keep_models: bool = False,
    ) -> list[Result]:
        """Train companions together.

        resume: go on from a checkpoint of the same configs. max_bytes: use no more memory than this.
        keep_models: results have the arrays that `model` takes.
        Raises ValueError when the checkpoint does not fit or a single student exceeds `max_bytes`.
        """

    @abc.abstractmethod
    def series(
        self, rows: list[dict[str, Any]], arrays: "dict[str, np.ndarray]"
    ) -> dict[str, list[dict[str, Any]]]:
        """A job's rows and curves as long tables, by name: what does not fit in a row."""

    @abc.abstractmethod
    def model(self, config: Any, rows: list[dict[str, Any]], arrays: "dict[str, np.ndarray]") -> Any:
        """What was trained, from its config, its rows and the arrays that its result kept."""


KINDS = {"toy": "sweeps._toy:Toy", "lm": "sweeps._lm:LM"}
"""Where each kind's class is, by the name that a spec uses."""


@functools.cache
def kind(name: str) -> Kind:
    """The kind of this name."""
    module, _, cls = KINDS[name].partition(":")
    made: Kind = getattr(importlib.import_module(module), cls)()
    return made


def halved(jobs: Sequence[Job], limit: int | None) -> int | None:
    """Half of what these jobs may use together, or the least that they need; None where that is no less."""
    of_kind, configs = kind(jobs[0].kind), [job.config for job in jobs]
    needed = of_kind.memory_bytes(configs)
    now = needed if limit is None else min(limit, needed)
    less = max(now // 2, of_kind.least_bytes(configs))
    return less if less < now else None


def expand(name: str, configs: Sequence[Any]) -> list[Job]:
    """The jobs that a spec's configs ask for; the same one twice is one."""
    jobs = (Job(name, one) for config in configs for one in kind(name).split(config))
    return list({job.id: job for job in jobs}.values())


def merge(jobs: Sequence[Job]) -> list[tuple[Job, ...]]:
    """Jobs that can be trained side by side, together."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(canonical([job.kind, kind(job.kind).companions(job.config)]), []).append(job)
    return [tuple(group) for group in groups.values()]
