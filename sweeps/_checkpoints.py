"""Checkpoints of running jobs: arrays by orbax, sealed by a file that names what belongs to them.

    <folder>/<n>/        the arrays of the n-th checkpoint
    <folder>/<n>.json    written last: what else is needed to go on, and the hash of every file of <n>

A checkpoint without its seal was never finished, and one whose files are others than its seal names is
damaged; neither is used.
"""

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np

from sweeps._files import StoreError, make_room, parse_json, remove, write_json
from sweeps._jobs import Checkpoint

MARGIN_BYTES = 2**20
"""That a checkpoint may need beside its arrays."""


class Checkpoints:
    """The newest checkpoint of a task, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, checkpoint: Checkpoint) -> None:
        """Write it, then remove those before and what a killed process has left of one.

        Raises StoreError when it cannot be written; the one before is still there.
        """
        number = 1 + max(self._numbers(), default=0)
        arrays, seal = self.folder / str(number), self.folder / f"{number}.json"
        # Orbax refuses arrays without entries; their shape says all.
        filled = {name: array for name, array in checkpoint.arrays.items() if array.size}
        empty = {
            name: [list(array.shape), array.dtype.str]
            for name, array in checkpoint.arrays.items()
            if not array.size
        }
        make_room(self.folder, MARGIN_BYTES + sum(array.nbytes for array in checkpoint.arrays.values()))
        try:
            with _checkpointer() as checkpointer:
                checkpointer.save(arrays.absolute(), filled)
            hashes = _hashes(arrays)
        except (OSError, ValueError) as error:
            raise StoreError(f"{arrays} cannot be written: {_short(error)}") from error
        write_json(seal, {"about": checkpoint.about, "files": hashes, "empty": empty})
        for entry in self.folder.iterdir():
            if entry not in (arrays, seal):
                remove(entry)

    def load(self) -> Checkpoint | None:
        """The newest that was finished, or None.

        Raises StoreError where it is damaged; it is removed then.
        """
        seals = {int(path.stem): path for path in self.folder.glob("*.json") if path.stem.isdigit()}
        if not seals:
            return None
        number = max(seals)
        try:
            found = parse_json(seals[number].read_bytes())
            if found["files"] != _hashes(self.folder / str(number)):
                raise ValueError("its files are not those that were written")
            with _checkpointer() as checkpointer:
                arrays = checkpointer.restore((self.folder / str(number)).absolute())
            restored = {name: np.asarray(array) for name, array in arrays.items()}
            restored |= {name: np.zeros(shape, dtype) for name, (shape, dtype) in found["empty"].items()}
            return Checkpoint(restored, found["about"])
        except Exception as error:  # orbax raises whatever a version or a file makes it raise
            remove(self.folder)
            raise StoreError(f"{self.folder} is damaged: {_short(error)}") from error

    def _numbers(self) -> list[int]:
        """Of all that is or was to be a checkpoint."""
        if not self.folder.is_dir():
            return []
        starts = (entry.name.partition(".")[0] for entry in self.folder.iterdir())
        return [int(start) for start in starts if start.isdigit()]


def _checkpointer() -> Any:
    logging.getLogger("absl").setLevel(logging.ERROR)  # orbax tells of every step that it takes
    import orbax.checkpoint as ocp

    return ocp.Checkpointer(ocp.StandardCheckpointHandler())


def _hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) < 200 else f"{text[:200]} …"
