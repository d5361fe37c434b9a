"""Files that are whole or not there."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class StoreError(Exception):
    """Results that cannot be read or written: says which file and why."""


def write_atomic(path: Path, data: bytes, durable: bool = True) -> None:
    """`data` at `path`, whole or not at all; durable: also when the machine loses its power.

    Raises StoreError when the file system refuses (no space, no permission); nothing is left behind.
    """
    try:
        path = path.resolve()  # what a link points to is written, and the link stays
        if path.exists() and not path.is_file() and not path.is_dir():  # a device, a pipe
            with path.open("wb") as file:
                file.write(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
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


def parse_json(text: str | bytes) -> Any:
    """JSON without the NaN and infinity that Python's parser would let through."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


TEMPORARY = re.compile(r"\..+\.(json|npz)\.[a-z0-9_]{8}|\.checkpoint\.new")
"""What `tempfile` makes of a file of ours; an editor's own hidden files have shorter endings."""


def is_temporary(name: str) -> bool:
    """Whether this can be what a process left that was killed while it wrote."""
    return TEMPORARY.fullmatch(name) is not None


def visible(folder: Path) -> Iterator[Path]:
    """What a person would say is in the folder: not what a killed `write_atomic` or a desktop left there."""
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def make_room(folder: Path, size: int) -> None:
    """Make the folder, and look whether `size` bytes fit: some libraries bear a full disk badly.

    Raises StoreError when they do not, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from error
    if free < size:
        raise StoreError(f"{folder} cannot be written: No space left on device")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there.

    Raises StoreError when the file system refuses.
    """
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be removed: {error.strerror or error}") from error
