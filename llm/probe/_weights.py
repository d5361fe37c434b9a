"""Whether a folder's weights are there in full, before anything is loaded.

A safetensors file is 8 bytes that give the length of its header, the header (JSON: where each tensor lies),
and the tensors' bytes. So a file that was cut off is known by its length.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

SAFETENSORS, BIN = "model.safetensors", "pytorch_model.bin"
REMEDY = "download it again"


def check_weights(folder: Path) -> bool:
    """Whether the weights that will be loaded are safetensors; else they are torch's own files.

    Raises ValueError, naming the file, its size and what to do: no weights, a shard that the index names and
    the folder lacks, a file shorter or longer than its header says, a pointer of Git LFS in a file's place.
    """
    for name, check in ((SAFETENSORS, _check_safetensors), (BIN, _check_bin)):
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():  # as `transformers` does, before an index
            check(folder / name)
        elif index.is_file():
            for shard in _shards(index):
                check(shard)
        else:
            continue
        return name == SAFETENSORS
    names = f"{SAFETENSORS}, {SAFETENSORS}.index.json with its shards, or {BIN}"
    others = sorted(path.name for path in folder.iterdir() if path.is_file())
    found = f"it holds {', '.join(others[:10])}" if others else "it is empty"
    raise ValueError(f"{folder} has no weights: it needs {names}; {found}")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ValueError where the file cannot be read, or holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: name a folder that `save_pretrained` wrote") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # no UTF-8, or no JSON
        raise ValueError(f"{path} is no JSON ({error}): {REMEDY}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object: {REMEDY}")
    return found


def _shards(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(at, str) for at in places.values()):
        raise ValueError(f"{index}: weight_map names no file for each weight: {REMEDY}")
    shards = [index.parent / name for name in sorted(set(places.values()))]
    if missing := [shard.name for shard in shards if not shard.is_file()]:
        told = f"{index} names {len(shards)} file(s) of weights, of which {len(missing)} are missing"
        raise ValueError(f"{told}: {', '.join(missing[:5])}; download the missing ones")
    return shards


def _check_safetensors(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        _refuse_pointer(path, first)
        told = int.from_bytes(first, "little")
        if len(first) < 8 or 8 + told > size:
            raise ValueError(f"{path} has {size} bytes, cut off in its header: {REMEDY}")
        try:
            header = json.loads(file.read(told))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            expected = 8 + told + max(ends, default=0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise ValueError(f"{path} is no safetensors file: its header cannot be read; {REMEDY}") from None
    if size != expected:
        wrong = "half-downloaded" if size < expected else "not what its header describes"
        raise ValueError(f"{path} has {size} bytes, its header says {expected}: {wrong}; {REMEDY}")


def _check_bin(path: Path) -> None:
    with path.open("rb") as file:
        first = file.read(8)
    _refuse_pointer(path, first)
    size = path.stat().st_size
    # Since version 1.6 torch writes archives, whose directory comes last.
    if size < 8 or (first.startswith(b"PK") and not zipfile.is_zipfile(path)):
        raise ValueError(f"{path} has {size} bytes, and the directory at its end is missing: {REMEDY}")


def _refuse_pointer(path: Path, first: bytes) -> None:
    if first == b"version ":
        raise ValueError(f"{path} is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder")
