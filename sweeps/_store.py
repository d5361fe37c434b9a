"""Results on disk.

    <out>/spec.json                the spec; jobs.json  the jobs that it asks for; lock  held while one runs
    <out>/jobs/<id>/record.json    a job that has ended: config, rows, status, where and how it was made
    <out>/jobs/<id>/curves.npz     what does not fit into rows
    <out>/jobs/<id>/model.npz      what was trained, where it was to be kept
    <out>/jobs/<id>/checkpoint/    a job that has begun
    <out>/axes.json, <out>/jobs/<id>/axes.json    scores of language models: `_axes.py`
    <out>/set_aside/               files that were not what they should be; nothing reads them

A job is done when its record is whole, its own, and beside the curves that it names; the table is read from
the records and can be deleted.
"""

import contextlib
import hashlib
import io
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps import _axes
from sweeps._config import ConfigError, canonical, decode, encode
from sweeps._files import StoreError, is_temporary, parse_json, remove, visible, write_atomic, write_json
from sweeps._jobs import KINDS, PROVENANCE, SCHEMA_VERSION, Column, Job, Kind, Result, kind
from sweeps._record import checked_arrays, read_record, sealed

if TYPE_CHECKING:
    import polars as pl

DONE = ("done", "diverged")
"""Statuses of a job that need not run again; the others are `failed` and `out of memory`."""

HOLDER = "lock-holder"
"""File that says which process holds a folder, or held it last."""

JOB = Column(str, None, "id of the job that made this row")
"""The first column of every table."""


class Locked(StoreError):
    """Another process is running a sweep in the same folder."""


class Store:
    """The results of one sweep in the folder `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone.

        The lock is the system's, on the file `lock`: it ends with the process, however that dies, so the
        file of a dead one is no hindrance. Raises Locked, with who holds it; ConfigError where the folder is
        a file, StoreError where it cannot be written.
        """
        import filelock

        path = self.out / "lock"
        if self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"{self.out} exists and is not a folder of results: choose another --out")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(path, timeout=0, is_singleton=False)
            lock.acquire()
        except filelock.Timeout:
            raise Locked(
                f"{self.out} is in use by {_holder(self.out)}: wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        try:
            with contextlib.suppress(OSError):
                # Not into the lock itself: where it is not the system's, its content is.
                (self.out / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()}")
            yield
        finally:
            lock.release()

    def claim(self, source: dict[str, Any], jobs: list[Job], extend: bool = False) -> None:
        """Write the spec, or check that the folder holds results of the same one.

        What a spec says of its name, description and fit may change. extend: so may the rest; jobs that are
        no longer asked for stay. The spec that was there is kept as `spec-<n>.json`.
        Raises ConfigError, with what differs.
        """
        path = self.out / "spec.json"
        same = False
        if extend and path.exists():
            try:
                self.spec()
            except StoreError:  # the records know their own configs
                self.set_aside(path)
        if path.exists():
            before = self.spec()
            same = canonical(before) == canonical(source)
            changed = _changes(before, source)
            if changed and not extend:
                raise ConfigError(
                    f"{self.out} holds results of another spec: choose another --out, or add to it with "
                    "--extend. " + "; ".join(changed)
                )
            if changed:
                number = 1 + len(list(self.out.glob("spec-*.json")))
                write_json(self.out / f"spec-{number}.json", before)
        elif not extend and any(entry.name not in ("lock", HOLDER) for entry in visible(self.out)):
            raise ConfigError(f"{self.out} exists and is not a folder of results: choose another --out")
        if not same:
            write_json(path, source)
        # After the spec, which tells a folder of ours; and anew where a killed run has not come so far.
        asked = {job.id: (job.label, job.flops) for job in jobs}
        if not self._asks(asked):
            write_json(self.out / "jobs.json", asked)

    def _asks(self, jobs: dict[str, tuple[str, int]]) -> bool:
        """Whether `jobs.json` is there and says this."""
        try:
            return self.asked() == jobs
        except (ConfigError, StoreError):
            return False

    def spec(self) -> dict[str, Any]:
        """The spec's plain values.

        Raises ConfigError where there is none, StoreError where it cannot be read.
        """
        return _read_object(self.out / "spec.json", f"{self.out} is not a folder of results")

    def asked(self) -> dict[str, tuple[str, int]]:
        """Label and FLOPs of every job that the spec asks for, by id.

        Raises ConfigError where the folder holds no results, StoreError where it cannot be read.
        """
        path = self.out / "jobs.json"
        found = _read_object(path, f"{self.out} is not a folder of results")
        try:
            return {key: (str(label), int(flops)) for key, (label, flops) in found.items()}
        except (TypeError, ValueError):
            raise StoreError(f"{path} is not what it should be: label and FLOPs of each job") from None

    def write(
        self,
        job: Job,
        status: str,
        result: Result,
        provenance: dict[str, Any],
        error: str | None = None,
        trace: str = "",
    ) -> None:
        """Record how a job ended: curves and model first, since a record says that all is there.

        Raises StoreError where it cannot be written, or the folder has gone.
        """
        if not (self.out / "spec.json").exists():
            raise StoreError(f"{self.out} has been removed or emptied while it was in use")
        folder = self.folder(job.id)
        curves = model = None
        if status in DONE:
            curves = _write_arrays(folder / "curves.npz", result.curves)
            if result.model is not None:
                model = _write_arrays(folder / "model.npz", result.model)
        record = {
            "schema": SCHEMA_VERSION,
            "job": job.id,
            "kind": job.kind,
            "config": encode(job.config),
            "status": status,
            "error": error,
            "trace": trace,
            "rows": result.rows,
            "curves": curves,
            "model": model,
            "provenance": provenance,
        }
        write_atomic(folder / "record.json", sealed(record))
        if status in DONE:
            remove(self.checkpoint(job.id))

    def heal(self, note: Callable[[str], None]) -> dict[str, str]:
        """Remove what a killed run left, and set aside every record that is not whole or not its job's.

        To be called by the process that holds the folder. note: is told a sentence about each. Returns the
        status of every job that has a valid record, by id.
        """
        statuses: dict[str, str] = {}
        for entry in os.scandir(self.out):
            if is_temporary(entry.name):
                remove(Path(entry.path))
        if not (self.out / "jobs").is_dir():
            return statuses
        for folder in os.scandir(self.out / "jobs"):
            if not folder.is_dir():
                continue
            names = os.listdir(folder.path)
            for name in filter(is_temporary, names):
                remove(Path(folder.path, name))
            if "record.json" not in names:
                continue
            path = Path(folder.path, "record.json")
            try:
                record = read_record(path)
                if record["status"] in DONE:
                    checked_arrays(path, record, "curves")
                    if "checkpoint" in names:
                        remove(Path(folder.path, "checkpoint"))
                statuses[folder.name] = record["status"]
            except StoreError as error:
                note(f"{error}; set aside in {self.out / 'set_aside'}")
                self.set_aside(path)
                for name in ("curves.npz", "model.npz"):
                    if name in names:
                        self.set_aside(path.with_name(name))
        return statuses

    def set_aside(self, path: Path) -> None:
        """Move a file or folder of a job to where nothing reads it. Raises StoreError where it cannot be."""
        target = self.out / "set_aside"
        try:
            target.mkdir(exist_ok=True)
            number = 1
            while (moved := target / f"{path.parent.name}.{number}.{path.name}").exists():
                number += 1
            os.replace(path, moved)
        except OSError as error:
            raise StoreError(f"{path} cannot be set aside: {error.strerror or error}") from error

    def statuses(self, skipped: list[str] | None = None) -> dict[str, str]:
        """The status of every job that has a valid record, by id."""
        return {record["job"]: record["status"] for record in self.records(skipped)}

    def is_done(self, job: Job) -> bool:
        """Whether this job's record is there, whole and its own, and its curves beside it."""
        path = self.folder(job.id) / "record.json"
        try:
            record = read_record(path)
            if record["status"] not in DONE:
                return False
            checked_arrays(path, record, "curves")
        except (StoreError, FileNotFoundError):
            return False
        return True

    def records(self, skipped: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every valid record, by job id. Sentences about those that are not are added to `skipped`."""
        jobs = self.out / "jobs"
        for name in sorted(os.listdir(jobs)) if jobs.is_dir() else ():
            try:
                yield read_record(jobs / name / "record.json")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except StoreError as error:
                if skipped is not None:
                    skipped.append(str(error))

    def record(self, job_id: str, head: bool = False) -> dict[str, Any]:
        """A job's record; head: up to its rows alone.

        Raises StoreError where it is not whole or not its own, FileNotFoundError where there is none.
        """
        return read_record(self.folder(job_id) / "record.json", head)

    def columns(self) -> dict[str, Column]:
        """The columns of the table, in order; last those of the tasks that its models were scored on."""
        ordinary = {"job": JOB, **self._kind().columns, **PROVENANCE}
        return ordinary | _axes.columns(self._tasks(None))

    def _kind(self) -> Kind:
        sweep = self.spec().get("sweep", {})
        name = sweep.get("kind", "toy") if isinstance(sweep, dict) else None
        if not isinstance(name, str) or name not in KINDS:
            raise StoreError(
                f"{self.out / 'spec.json'} is of a kind, {name!r}, that this version does not know"
            )
        return kind(name)

    def table(self, skipped: list[str] | None = None) -> "pl.DataFrame":
        """One row a student or run, sorted by all but the results."""
        import polars as pl

        types = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
        tasks = self._tasks(skipped)
        columns = self.columns()
        values: dict[str, list[Any]] = {name: [] for name in columns}
        for record in self.records(skipped):
            shared = {"job": record["job"], **{name: record["provenance"].get(name) for name in PROVENANCE}}
            if tasks:
                shared |= _axes.values(tasks, self._scores(tasks, record, skipped))
            for row in record["rows"]:
                for name, column in values.items():
                    column.append(shared[name] if name in shared else row[name])
        schema = {name: types[column.type] for name, column in columns.items()}
        return pl.DataFrame(values, schema=schema).sort(self._kind().sorted_by, nulls_last=False)

    def _tasks(self, skipped: list[str] | None) -> dict[str, dict[str, Any]]:
        """What the models were scored on; nothing where that is damaged, and a sentence of it."""
        try:
            return _axes.read_tasks(self.out)
        except StoreError as error:
            if skipped is not None:
                skipped.append(str(error))
            return {}

    def _scores(
        self, tasks: dict[str, dict[str, Any]], record: dict[str, Any], skipped: list[str] | None
    ) -> dict[str, dict[str, Any]]:
        """A record's scores with the newest settings; none where they are damaged, and a sentence of it."""
        try:
            return _axes.current(tasks, _axes.read_scores(self.out, record))
        except StoreError as error:
            if skipped is not None:
                skipped.append(str(error))
            return {}

    def curves(self, job_id: str) -> dict[str, np.ndarray]:
        """The arrays of a job, by name.

        Raises StoreError where they are not those that its record names, FileNotFoundError without a record.
        """
        path = self.folder(job_id) / "record.json"
        with np.load(io.BytesIO(checked_arrays(path, read_record(path), "curves"))) as arrays:
            return dict(arrays)

    def series(self, name: str, skipped: list[str] | None = None) -> "pl.DataFrame":
        """A long table of what does not fit in a row, a line a step or layer, each with its job.

        Raises ConfigError where the sweep's jobs have none of this name.
        """
        import polars as pl

        lines: list[dict[str, Any]] = []
        for record in self.records(skipped):
            try:
                found = self._kind().series(record["rows"], self.curves(record["job"]))
            except StoreError as error:
                if skipped is None:
                    raise
                skipped.append(str(error))
                continue
            if name not in found:
                raise ConfigError(f"--series {name!r}: this sweep has {' and '.join(found)}")
            lines += ({"job": record["job"]} | line for line in found[name])
        return pl.DataFrame(lines, infer_schema_length=None)

    def has_model(self, job_id: str) -> bool:
        """Whether the record names a model, and there is one."""
        return self.record(job_id).get("model") is not None and (self.folder(job_id) / "model.npz").exists()

    def model(self, job_id: str) -> Any:
        """What a job trained: an `llm.LoopedLM`, or the students of a cohort by depth and temperature.

        Raises StoreError where it was not kept or is not what the record names, FileNotFoundError without a
        record.
        """
        path = self.folder(job_id) / "record.json"
        record = read_record(path)
        if record.get("model") is None:
            told = f"job {job_id} of {self.out} was run without keeping its model"
            raise StoreError(f"{told}: the same `depthlaw run` with --keep-models trains it again")
        with np.load(io.BytesIO(checked_arrays(path, record, "model"))) as arrays:
            of_kind = kind(record["kind"])
            config: Any = decode(of_kind.config, record["config"], str(path))
            return of_kind.model(config, record["rows"], dict(arrays))

    def folder(self, job_id: str) -> Path:
        """Where a job's files are."""
        return self.out / "jobs" / job_id

    def checkpoint(self, job_id: str) -> Path:
        """Where a job's checkpoint is."""
        return self.folder(job_id) / "checkpoint"


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Write them; the hash of the file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # stubs read the 2nd argument
    write_atomic(path, buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def _read_object(path: Path, absent: str) -> dict[str, Any]:
    try:
        value = parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{absent}: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} is not what it should be: an object")
    return value


def _holder(out: Path) -> str:
    with contextlib.suppress(OSError):
        return (out / HOLDER).read_text(errors="replace").strip() or "another process"
    return "another process"


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two specs, but for name, description and fit: a phrase a key."""
    old, new = (dict(_flat({k: v for k, v in spec.items() if k != "fit"})) for spec in (before, after))
    phrases = []
    for key in sorted({*old, *new} - {"sweep.name", "sweep.description"}):
        if canonical(old.get(key)) != canonical(new.get(key)):
            was, now = (json.dumps(values[key]) if key in values else "not set" for values in (old, new))
            phrases.append(f"{key}: {was} there, {now} now")
    return phrases


def _flat(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, f"{path}[{i}]")
    else:
        yield path, value
