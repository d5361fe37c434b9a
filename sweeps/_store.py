"""Results on disk: `<out>/spec.json` and, for each job, `<out>/jobs/<id>/{record.json, curves.npz}`.

Every file is written under a temporary name, fsynced and renamed, so it is whole or not there. A job is
done when its record is complete, valid and its own; the table is read from the records and can be deleted.
"""

import contextlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps._config import ConfigError, canonical, encode
from sweeps._jobs import COLUMNS, SCHEMA_VERSION, Job, job_id

if TYPE_CHECKING:
    import polars as pl


class StoreError(Exception):
    """Results that cannot be read or written: says which file and why."""


def write_atomic(path: Path, data: bytes) -> None:
    """`data` at `path`, whole or not at all.

    Raises StoreError when the file system refuses (no space, no permission); nothing is left behind.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_directory(path: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """`value` as readable JSON, atomically; NaN and infinity are refused."""
    write_atomic(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


class Store:
    """The results of one sweep in the folder `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def claim(self, source: dict[str, Any]) -> None:
        """Write the spec, or check that the folder holds results of the same one.

        Raises ConfigError when it holds another's.
        """
        path = self.out / "spec.json"
        if path.exists():
            if canonical(self.spec()) == canonical(source):
                return
            raise ConfigError(f"{self.out} holds results of another spec: choose another --out or remove it")
        if self.out.exists() and (not self.out.is_dir() or any(_visible(self.out))):
            raise ConfigError(f"{self.out} exists and is not a folder of results: choose another --out")
        write_json(path, source)

    def spec(self) -> dict[str, Any]:
        """The spec's plain values.

        Raises ConfigError where there is none, StoreError where it cannot be read.
        """
        path = self.out / "spec.json"
        try:
            value = _parse(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(f"{self.out} is not a folder of results: it has no spec.json") from None
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise StoreError(f"{path} is not a spec")
        return value

    def write(
        self, job: Job, rows: list[dict[str, Any]], curves: dict[str, np.ndarray], provenance: dict[str, Any]
    ) -> None:
        """Record a finished job: the curves first, since a record says that all is there."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **curves)  # type: ignore[arg-type]  # stubs read the second argument
        write_atomic(self._folder(job.id) / "curves.npz", buffer.getvalue())
        record = {
            "schema": SCHEMA_VERSION,
            "job": job.id,
            "config": encode(job.config),
            "status": "diverged" if any(row["status"] == "diverged" for row in rows) else "done",
            "rows": rows,
            "provenance": provenance,
        }
        write_json(self._folder(job.id) / "record.json", record)

    def is_done(self, job: Job) -> bool:
        """Whether this job's record is there, whole and its own, and its curves beside it."""
        try:
            record = self._read(self._folder(job.id) / "record.json")
        except (StoreError, FileNotFoundError):
            return False
        students = len(job.config.depths) * len(job.config.temperatures)
        return len(record["rows"]) == students and (self._folder(job.id) / "curves.npz").is_file()

    def records(self, skipped: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every valid record, by job id. Sentences about those that are not are added to `skipped`."""
        for path in sorted((self.out / "jobs").glob("*/record.json")):
            try:
                yield self._read(path)
            except StoreError as error:
                if skipped is not None:
                    skipped.append(str(error))

    def table(self, skipped: list[str] | None = None) -> "pl.DataFrame":
        """One row a student, columns as in `COLUMNS`, sorted by all but the results."""
        import polars as pl

        types = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
        schema = {name: types[column.type] for name, column in COLUMNS.items()}
        found = [row for record in self.records(skipped) for row in record["rows"]]
        keys = ["teacher", "rho", "teacher_depth", "steps", "temperature", "seed", "depth", "job"]
        return pl.DataFrame(found, schema=schema).sort(keys, nulls_last=False)

    def curves(self, job_id: str) -> dict[str, np.ndarray]:
        """The arrays of a job; see `sweeps._jobs.curves`."""
        path = self._folder(job_id) / "curves.npz"
        try:
            with path.open("rb") as file, np.load(file) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error

    def _folder(self, job_id: str) -> Path:
        return self.out / "jobs" / job_id

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        try:
            record = _parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is not a whole record: {error}") from error
        wanted = {"schema": SCHEMA_VERSION, "job": path.parent.name}
        for key, value in wanted.items():
            if not isinstance(record, dict) or record.get(key) != value:
                raise StoreError(f"{path} is not this job's record: its {key} is not {value!r}")
        if job_id(record.get("config")) != record["job"]:
            raise StoreError(f"{path} is not this job's record: its config is another's")
        rows = record.get("rows")
        if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
            raise StoreError(f"{path} has rows with other columns than this version writes")
        return record


def _parse(text: str) -> Any:
    """JSON without the NaN and infinity that Python's parser would let through."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def _visible(folder: Path) -> Iterator[Path]:
    """What a person would say is in the folder: not what a stopped `write_atomic` or a desktop left there."""
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or set(row) != set(COLUMNS):
        return False
    return all(_holds(column.type, row[name]) for name, column in COLUMNS.items())


def _holds(kind: type, value: Any) -> bool:
    return value is None or type(value) is kind or (kind is float and type(value) is int)
