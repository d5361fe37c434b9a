"""How a sweep stands: written to `<out>/live.json` by the process that runs it, read by any other."""

import contextlib
import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps._files import StoreError, parse_json, remove, write_atomic
from sweeps._jobs import Job
from sweeps._store import DONE, Store
from sweeps.executors import Outcome, Tick

if TYPE_CHECKING:
    from rich.console import RenderableType

WRITE_SECONDS = 1.0
"""Between two writings of `live.json`."""

SILENT_SECONDS = 600.0
"""After which a run that has not been heard of counts as gone."""

LIVE_KEYS = {"process", "host", "began", "updated", "flops", "running"}

MOST_ROWS = 5000
"""Rows up to which the status shows the fit so far: it must stay quick."""


class Live:
    """Keeps `live.json`: which jobs run, how far they are, their newest losses."""

    def __init__(self, out: Path) -> None:
        self.path = out / "live.json"
        self.running: dict[str, dict[str, Any]] = {}
        self.flops: dict[str, int] = {}
        self.began = time.time()
        self.before: dict[str, float] = {}
        self.ended = 0.0
        self.written = 0.0
        self.started = False

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        self.flops = {key: job.flops for key, job in jobs.items()}
        self.started = True
        self._write()

    def tick(self, tick: Tick) -> None:
        entry = self.running.setdefault(tick.job_id, {"losses": {}})
        entry.update(done=tick.done, step=tick.step)
        if tick.losses is not None:
            entry["losses"] = {
                name: value for name, value in tick.losses.items() if value == value and abs(value) < 1e308
            }
        if tick.step > 0:  # what its checkpoint brought along was not done in this run
            self.before.setdefault(tick.job_id, tick.done)
        if time.time() - self.written > WRITE_SECONDS:
            self._write()

    def note(self, text: str) -> None:
        pass

    def end(self, outcome: Outcome) -> None:
        self.running.pop(outcome.job.id, None)
        key = outcome.job.id
        self.ended += self.flops.get(key, 0) * (1.0 - self.before.pop(key, 0.0))
        if time.time() - self.written > WRITE_SECONDS:
            self._write()

    def close(self) -> None:
        if self.started:  # else it is another process's
            remove(self.path)

    def _write(self) -> None:
        self.written = time.time()
        done = self.ended + sum(
            self.flops[key] * (entry["done"] - self.before.get(key, 0.0))
            for key, entry in self.running.items()
        )
        found = {
            "process": os.getpid(),
            "host": platform.node(),
            "began": self.began,
            "updated": self.written,
            "flops": done,
            "running": self.running,
        }
        with contextlib.suppress(StoreError):  # the sweep can do without
            write_atomic(self.path, json.dumps(found, allow_nan=False).encode(), durable=False)


@dataclass(frozen=True)
class Standing:
    """How a sweep stands.

    states: each job that is asked for, by id: done, diverged, failed, out of memory, running or waiting.
    live: what the run says of itself, None when none runs. left: seconds, None where they cannot be told.
    """

    name: str
    asked: dict[str, tuple[str, int]]
    states: dict[str, str]
    errors: dict[str, str]
    skipped: list[str]
    live: dict[str, Any] | None
    share: float
    flops_per_second: float | None
    left: float | None


class Reader:
    """Reads how the sweep in a folder stands, again and again: only what has changed is read anew."""

    def __init__(self, out: Path) -> None:
        self.store = Store(out)
        self.known: dict[str, tuple[tuple[int, int], str, str | None]] = {}

    def read(self) -> Standing:
        """How it stands now.

        Raises ConfigError where the folder holds no results, StoreError where they cannot be read.
        """
        name = self.store.spec().get("sweep", {}).get("name", self.store.out.name)
        asked = self.store.asked()
        live = self._live()
        running = live["running"] if live else {}
        states, errors, skipped = {}, {}, []
        for key in asked:
            try:
                ended = self._ended(key)
            except StoreError as error:
                skipped.append(str(error))
                ended = None
            if key in running and (ended is None or ended[0] not in DONE):
                states[key] = "running"
                continue
            states[key], error_said = ended or ("waiting", None)
            if error_said:
                errors[key] = error_said
        return self._counted(name, asked, states, errors, skipped, live)

    def _ended(self, key: str) -> tuple[str, str | None] | None:
        try:
            stat = os.stat(f"{self.store.out}/jobs/{key}/record.json")
        except FileNotFoundError:
            self.known.pop(key, None)
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        if key not in self.known or self.known[key][0] != stamp:
            record = self.store.record(key, head=True)
            self.known[key] = (stamp, record["status"], record["error"])
        return self.known[key][1:]

    def _live(self) -> dict[str, Any] | None:
        try:
            live: dict[str, Any] = parse_json((self.store.out / "live.json").read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(live, dict) or not LIVE_KEYS <= live.keys():
            return None
        silent = time.time() - live["updated"] > SILENT_SECONDS  # its number may be another's by now
        here = live["host"] == platform.node()
        return None if silent or (here and not _is_alive(live["process"])) else live

    @staticmethod
    def _counted(
        name: str,
        asked: dict[str, tuple[str, int]],
        states: dict[str, str],
        errors: dict[str, str],
        skipped: list[str],
        live: dict[str, Any] | None,
    ) -> Standing:
        total = sum(flops for _, flops in asked.values())
        done = 0.0
        for key, (_, flops) in asked.items():
            if states[key] in DONE:
                done += flops
            elif states[key] == "running" and live is not None:
                done += flops * live["running"][key]["done"]
        rate = left = None
        if live is not None and live["flops"] > 0 and live["updated"] > live["began"]:
            rate = live["flops"] / (live["updated"] - live["began"])
            left = (total - done) / rate
        share = done / total if total else 1.0
        return Standing(name, asked, states, errors, skipped, live, share, rate, left)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def shown(standing: Standing, fit: "RenderableType | None" = None) -> "RenderableType":
    """For a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    counts = {state: 0 for state in (*DONE, "failed", "out of memory", "running", "waiting")}
    for state in standing.states.values():
        counts[state] += 1
    named = [f"{count} {state}" for state, count in counts.items() if count]
    parts: list[Any] = [
        Text(f"{standing.name}: {', '.join(named)} of {len(standing.asked)} jobs"),
        Text(_pace(standing)),
    ]
    if standing.live is not None and counts["running"]:
        table = Table("running", "done", "step", "newest losses")
        for key, entry in standing.live["running"].items():
            if standing.states.get(key) == "running":
                losses = "  ".join(
                    f"{name.removeprefix('loss_')}: {v:.3g}" for name, v in entry["losses"].items()
                )
                label = standing.asked[key][0]
                table.add_row(label, f"{entry['done']:.0%}", str(entry["step"]), losses)
        parts.append(table)
    if standing.errors:
        table = Table("missing job", "what", "state", "why")
        for key, error in standing.errors.items():
            table.add_row(key, standing.asked[key][0], standing.states[key], error)
        parts.append(table)
    if fit is not None:
        parts += [Text("the fit so far:"), fit]
    parts += [Text(sentence) for sentence in standing.skipped]
    return Group(*parts)


def _pace(standing: Standing) -> str:
    share = f"{standing.share:.0%} of the FLOPs are done"
    if standing.live is None:
        return f"{share}; nothing runs here"
    where = f"process {standing.live['process']} on {standing.live['host']}"
    if standing.flops_per_second is None or standing.left is None:
        return f"{share}; {where}"
    return (
        f"{share}, at {standing.flops_per_second:.3g} a second; about {duration(standing.left)} left; {where}"
    )


def duration(seconds: float) -> str:
    """For a person, in the largest unit that there are two of."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
