"""Probing all networks of a source, each kept on disk as soon as it is done, and while it runs."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps._config import ConfigError
from sweeps.probes._kept import Found, in_order, path_of, prepare, read, write
from sweeps.probes._sources import Probed

if TYPE_CHECKING:
    from llm.probe import Probe, ProbeConfig, ProbeProgress

SECONDS = 20.0
"""Between two times that a probe under way is kept."""


def probe_all(
    networks: Iterable[Probed], config: "ProbeConfig", out: Path, say: Callable[[str], None]
) -> list[Found]:
    """Probe them one after another; what `out` holds of the same is not done again. In order of depth.

    say: is told a sentence when a network is done. Of networks that no model reads out no tokens are told
    apart, since each input is a sequence of its own. The same network twice counts once. Raises ConfigError
    where there are none, and StoreError where `out` cannot be written.
    """
    found: dict[Path, Found] = {}
    prepare(out)
    for network in networks:
        began = time.monotonic()
        how = config
        if network.source.model is None:
            how = dataclasses.replace(config, skip_first=0, keep_massive=True, lens_every=None)
        path = path_of(out, network, how)
        if path not in found:
            probe = _probe(network, how, path)
            found[path] = Found(network.about, network.together, probe, path.name)
            say(f"{network.label}: {probe.tokens:,} tokens, {time.monotonic() - began:.0f} s")
        del network  # not kept while the next one is opened
    if not found:
        raise ConfigError("there is no network to probe: --only leaves none")
    return in_order(found.values())


def _probe(network: Probed, how: "ProbeConfig", path: Path) -> "Probe":
    from llm.probe import probe, result

    kept = read(path)
    if kept is not None and kept[0]["whole"]:
        return result(kept[1])
    resume = None if kept is None else kept[1].arrays()
    last = time.monotonic()
    newest: ProbeProgress | None = None

    def on_progress(progress: "ProbeProgress") -> None:
        nonlocal last, newest
        newest = progress
        if time.monotonic() - last > SECONDS:
            write(path, network, how, progress.arrays(), whole=False)
            last = time.monotonic()

    try:
        found = probe(network.source, how, resume=resume, on_progress=on_progress)
    except ValueError as error:
        raise ConfigError(f"{network.label}: {error}") from None
    arrays = resume if newest is None else newest.arrays()
    assert arrays is not None  # a probe that found something has read something, now or before
    write(path, network, how, arrays, whole=True)
    return found
