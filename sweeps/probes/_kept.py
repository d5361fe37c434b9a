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
from sweeps._files import StoreError, is_temporary, parse_json, remove, write_atomic
from sweeps.probes._sources import Probed

if TYPE_CHECKING:
    from llm.probe import Accumulated, Probe, ProbeConfig

REPORT = "probe.json"
"""What the command leaves; it lists the files of its networks."""

FORMAT = 1
"""Raised with the meaning of a measure: older files are not read."""


@dataclass(frozen=True)
class Found:
    """A network that was probed: what it is, in which columns those of its question agree, what was found, in
    which file it is kept."""

    about: dict[str, Any]
    together: tuple[str, ...]
    probe: "Probe"
    file: str = ""

    @property
    def question(self) -> dict[str, Any]:
        """What it has in common with the networks that are asked the same."""
        return {name: self.about[name] for name in self.together}


def path_of(out: Path, network: Probed, config: "ProbeConfig") -> Path:
    """Its name is a hash of all that the result depends on: other settings are another file."""
    return out / "networks" / f"{digest(_told(network, config))}.npz"


def write(
    path: Path, network: Probed, config: "ProbeConfig", arrays: dict[str, np.ndarray], whole: bool
) -> None:
    """Keep the arrays of `Accumulated`. Raises StoreError."""
    buffer = io.BytesIO()
    told = json.dumps({**_told(network, config), "whole": whole}, allow_nan=False).encode()
    np.savez_compressed(buffer, told=np.frombuffer(told, np.uint8), **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read(path: Path) -> "tuple[dict[str, Any], Accumulated] | None":
    """What a file says of its network, and what was seen of it; None where there is no file, or it is damaged
    or of another version: then it is done again."""
    from llm.probe import Accumulated, ProbeConfig, State

    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            arrays = dict(file)
        told = json.loads(arrays.pop("told").tobytes())
        if told["format"] != FORMAT:
            return None
        states = [decode(State, state, str(path)) for state in told["states"]]
        seen = Accumulated(states, decode(ProbeConfig, told["how"], str(path)))
        seen.restore(arrays)
        return told, seen
    except Exception:  # numpy, zipfile and json raise what they like on damaged files
        return None


def load(out: Path) -> list[Found]:
    """The networks of the last `depthlaw probe` into this folder, as its probe.json lists them.

    Raises ConfigError where there is none.
    """
    from llm.probe import result

    try:
        names = [str(name) for name in parse_json((out / REPORT).read_bytes())["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{out} holds no probe: `depthlaw probe SOURCE --out {out}`") from None
    found = []
    for name in names:
        kept = read(out / "networks" / name)
        if kept is None or not kept[0]["whole"]:
            told = f"{out / 'networks' / name} is damaged"
            raise ConfigError(f"{told}: the same `depthlaw probe` makes it again")
        of, seen = kept
        found.append(Found(of["about"], tuple(of["together"]), result(seen), name))
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


def _told(network: Probed, config: "ProbeConfig") -> dict[str, Any]:
    return {
        "format": FORMAT,
        "about": network.about,
        "together": list(network.together),
        "states": [encode(state) for state in network.source.states],
        "given": network.given,
        "how": encode(config),
    }
