"""Probing all networks of a source, each kept on disk as soon as it is done, and while it runs."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps._config import ConfigError
from sweeps.probes._kept import Found, in_order, path_of, prepare, read, write
from sweeps.probes._sources import Probed, Reading

if TYPE_CHECKING:
    from llm.probe import Probe, ProbeConfig, ProbeProgress

SECONDS = 20.0
"""Between two times that a probe under way is kept."""


def probe_all(
    networks: Iterable[Probed],
    reading: Reading,
    config: "ProbeConfig",
    out: Path,
    say: Callable[[str], None],
) -> list[Found]:
    """Probe them one after another; what `out` holds of the same is not done again. In order of depth.

    say: is told a sentence when a network is done. Of networks that no model reads out no first tokens are
    told apart. Raises ConfigError where there are none, and StoreError where `out` cannot be written.
    """
    found = []
    prepare(out)
    for network in networks:
        began = time.monotonic()
        how = config
        if network.source.model is None:  # each input is a sequence of its own
            how = dataclasses.replace(config, skip_first=0, lens_every=None)
        probe = _probe(network, reading, how, path_of(out, network, reading, how))
        found.append(Found(network.about, network.together, probe))
        say(f"{network.label}: {probe.tokens:,} tokens, {time.monotonic() - began:.0f} s")
    if not found:
        raise ConfigError("there is no network to probe")
    return in_order(found)


def _probe(network: Probed, reading: Reading, how: "ProbeConfig", path: Path) -> "Probe":
    from llm.probe import Accumulated, probe, result

    kept = read(path)
    if kept is not None and kept[0]["whole"]:
        seen = Accumulated(network.source.states, how)
        seen.restore(kept[1])
        return result(seen)
    last = time.monotonic()
    newest: ProbeProgress | None = None

    def on_progress(progress: "ProbeProgress") -> None:
        nonlocal last, newest
        newest = progress
        if time.monotonic() - last > SECONDS:
            write(path, network, reading, how, progress.arrays(), whole=False)
            last = time.monotonic()

    resume = None if kept is None else kept[1]
    try:
        found = probe(network.source, how, resume=resume, on_progress=on_progress)
    except ValueError as error:
        raise ConfigError(f"{network.label}: {error}") from None
    if newest is not None:
        write(path, network, reading, how, newest.arrays(), whole=True)
    elif kept is not None:
        write(path, network, reading, how, kept[1], whole=True)
    return found
