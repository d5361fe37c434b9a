"""Where the rows of a sweep come from, as its records say, and the commands that make them again."""

import datetime
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sweeps._config import ConfigError, canonical
from sweeps._spec import load_spec, preset_names
from sweeps._status import duration


def origin(records: Sequence[dict[str, Any]], out: Path) -> tuple[tuple[str, str], ...]:
    """By what, on what, when and how long the jobs were run; several values with the number of jobs."""
    abouts = [record["provenance"] for record in records]
    if not abouts:
        return ()

    def said(name: str, words: Any = str) -> str:
        return _counted(words(about[name]) for about in abouts if about.get(name) is not None)

    changed = sum(about.get("dirty") is True for about in abouts)
    code = _counted(f"commit {about['commit']}" for about in abouts if about.get("commit"))
    if changed:
        code += f"; the code differed from its commit in {changed} of {len(abouts)} jobs"
    seconds = [about["wall_seconds"] for about in abouts if "wall_seconds" in about]
    memory = [about["peak_memory_bytes"] for about in abouts if "peak_memory_bytes" in about]
    devices = _counted(
        f"{about['devices']} × {about['device']}" for about in abouts if {"devices", "device"} <= about.keys()
    )
    found = {
        "depthlaw": said("version"),
        "code": code,
        "devices": devices,
        "threads": said("threads"),
        "precision": said("precision"),
        "when": _when(records, out),
        "run time": f"{duration(sum(seconds))}, summed over {len(seconds)} jobs" if seconds else "",
        "memory": f"{max(memory) / 2**20:.0f} MiB at most, of a process" if memory else "",
        "gone on from checkpoints": _counted("yes" for about in abouts if about.get("resumed")),
    }
    return tuple((name, text) for name, text in found.items() if text)


def _counted(texts: Iterable[str]) -> str:
    counts = Counter(texts)
    if len(counts) < 2:
        return "".join(counts)
    return ", ".join(f"{text} ({count} jobs)" for text, count in counts.items())


def _when(records: Sequence[dict[str, Any]], out: Path) -> str:
    """From the first to the last end of a job; of records that do not say it, the time of their files."""
    known = sorted(record["provenance"]["ended"] for record in records if "ended" in record["provenance"])
    if len(known) == len(records):
        return f"jobs ended from {known[0]} to {known[-1]}"
    times = [(out / "jobs" / record["job"] / "record.json").stat().st_mtime for record in records]
    first, last = (
        datetime.datetime.fromtimestamp(end, datetime.UTC).isoformat(timespec="minutes")
        for end in (min(times), max(times))
    )
    return f"not recorded; the files of the records are from {first} to {last}"


def versions(records: Sequence[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Of Python and libraries, by name."""
    found: dict[str, Counter[str]] = {}
    for record in records:
        for name, version in record["provenance"].get("versions", {}).items():
            found.setdefault(name, Counter())[version] += 1
    return tuple((name, _counted(counts.elements())) for name, counts in found.items())


def mixed(records: Sequence[dict[str, Any]]) -> list[str]:
    """What the jobs differ in that they should have in common, in a sentence each."""
    out = []
    for name in ("version", "commit", "precision", "device"):
        values = {record["provenance"].get(name) for record in records}
        if len(values) > 1:
            out.append(f"The jobs were run with {len(values)} different values of {name}: see Provenance.")
    return out


def anew(spec: dict[str, Any], folder: str) -> tuple[str, ...]:
    """The commands that make a folder of results and its page again."""
    name = spec.get("sweep", {}).get("name", "")
    where, source = shlex.quote(f"results/{folder}"), "spec.toml"
    if name in preset_names():
        try:
            if canonical(load_spec(name).source) == canonical(spec):
                source = name
        except ConfigError:
            pass
    told = () if source == name else ("# spec.toml: the spec below",)
    out = "" if folder == name else f" --out {where}"
    return (*told, f"depthlaw run {source}{out}", f"depthlaw report {where}")
