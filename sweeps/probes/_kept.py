"""What is kept of a network that was probed, or is being probed: one file, from which all follows.

A file says what the network is, how it was read and measured, and holds the statistics as arrays.
"""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps._config import ConfigError, canonical, decode, digest, encode
from sweeps._files import StoreError, is_temporary, remove, write_atomic
from sweeps.probes._sources import Probed, Reading

if TYPE_CHECKING:
    from llm.probe import Probe, ProbeConfig

FORMAT = 1
"""Raised with the meaning of a measure: older files are not read."""


@dataclass(frozen=True)
class Found:
    """A network that was probed: what it is, in which columns those of its question agree, what was found."""

    about: dict[str, Any]
    together: tuple[str, ...]
    probe: "Probe"

    @property
    def question(self) -> dict[str, Any]:
        """What it has in common with the networks that are asked the same."""
        return {name: self.about[name] for name in self.together}


def path_of(out: Path, network: Probed, reading: Reading, config: "ProbeConfig") -> Path:
    """Its name is a hash of all that the result depends on: other settings are another file."""
    return out / "networks" / f"{digest(_told(network, reading, config))}.npz"


def write(
    path: Path,
    network: Probed,
    reading: Reading,
    config: "ProbeConfig",
    arrays: dict[str, np.ndarray],
    whole: bool,
) -> None:
    """Keep the arrays of `Accumulated`. Raises StoreError."""
    buffer = io.BytesIO()
    told = json.dumps({**_told(network, reading, config), "whole": whole}, allow_nan=False).encode()
    np.savez_compressed(buffer, told=np.frombuffer(told, np.uint8), **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """What a file says and its arrays; None where there is none, or it is damaged or of another version."""
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        told = json.loads(arrays.pop("told").tobytes())
        return (told, arrays) if told["format"] == FORMAT else None
    except FileNotFoundError:
        return None
    except Exception:  # numpy, zipfile and json raise what they like on damaged files
        return None


def load(out: Path) -> list[Found]:
    """Every network in a folder of probes that is done, in the order of their columns.

    Raises ConfigError where there is none.
    """
    from llm.probe import Accumulated, ProbeConfig, State, result

    found = []
    for path in sorted((out / "networks").glob("*.npz")):
        kept = read(path)
        if kept is None or not kept[0]["whole"]:
            continue
        told, arrays = kept
        states = [decode(State, state, str(path)) for state in told["states"]]
        seen = Accumulated(states, decode(ProbeConfig, told["how"], str(path)))
        seen.restore(arrays)
        found.append(Found(told["about"], tuple(told["together"]), result(seen)))
    if not found:
        raise ConfigError(f"{out} holds no network that was probed: `depthlaw probe SOURCE --out {out}`")
    return in_order(found)


def in_order(found: Iterable[Found]) -> list[Found]:
    """By question, depth and seed."""
    return sorted(
        found, key=lambda one: (canonical(one.question), one.about["depth"], one.about.get("seed", 0))
    )


def prepare(out: Path) -> None:
    """Remove what a killed probe left. Raises ConfigError where `out` is no folder, StoreError."""
    folder = out / "networks"
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} exists and is not a folder: choose another --out")
    try:
        for path in folder.iterdir() if folder.is_dir() else ():
            if is_temporary(path.name):
                remove(path)
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror or error}") from error


def _told(network: Probed, reading: Reading, config: "ProbeConfig") -> dict[str, Any]:
    of_source = {"sequences", "length", "text"} if network.source.model is not None else {"inputs"}
    return {
        "format": FORMAT,
        "about": network.about,
        "together": list(network.together),
        "states": [encode(state) for state in network.source.states],
        "reading": {key: value for key, value in encode(reading).items() if key in {*of_source, "precision"}},
        "how": encode(config),
    }
