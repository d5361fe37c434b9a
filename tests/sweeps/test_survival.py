"""A sweep that is killed again and again, at any moment, ends as if nothing had happened."""

import contextlib
import functools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps._files import is_temporary
from sweeps._store import Store
from tests.sweeps.conftest import COMMAND, PATIENCE, trained

KILLS = 20
SPEC = """
[sweep]
name = "many"

[base]
width = 4
hidden_factor = 2
batch = 16
depths = [1, 2, 3]
steps = 10000
teacher = { kind = "tied", depth = 4 }
evaluation = { batches = 1, batch = 16, points = 3, first_step = 1000 }
seeds = { range = [0, 19, 1] }

[grid]
"teacher.kind" = ["tied", "independent"]

[fit]
floor = 0.0
"""


def processes() -> Iterator[tuple[int, list[str]]]:
    """Every process, with what its `stat` says after its name: state, parent, group, session, …"""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def processes_below(parent: int) -> list[int]:
    """Every process that descends from this one."""
    below: dict[int, list[int]] = {}
    for pid, fields in processes():
        below.setdefault(int(fields[1]), []).append(pid)
    found, left = [], [parent]
    while left:
        children = below.get(left.pop(), [])
        found += children
        left += children
    return found


def workers_of(driver: subprocess.Popen[bytes]) -> list[int]:
    """The processes that train for a run."""
    return [pid for pid in processes_below(driver.pid) if b"spawn_main" in command(pid)]


def start(spec: Path, out: Path, workers: str = "2", **streams: Any) -> subprocess.Popen[bytes]:
    call = ["run", str(spec), "--out", str(out), "--workers", workers, "--checkpoint-every", "0.05"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
    return subprocess.Popen([*COMMAND, *call], start_new_session=True, **streams)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_killed_at_any_moment(tmp_path):
    """Forty jobs on two processes, killed twenty times, driver or worker: the table is that of one calm run.

    No job is trained again after its record was written, nothing temporary and no process is left.
    """
    spec = tmp_path / "many.toml"
    spec.write_text(SPEC)
    calm = start(spec, tmp_path / "calm")
    assert calm.wait(300) == 0

    chance = random.Random(0)
    out = tmp_path / "stormy"
    done: dict[str, int] = {}
    kills = {"driver": 0, "worker": 0}
    interrupted = 0
    driver = start(spec, out)
    while sum(kills.values()) < KILLS:
        if chance.random() < 0.6:  # else it may hit what is just starting
            until(functools.partial(trained, out), 20)
        time.sleep(chance.uniform(0.1, 2))
        victim = chance.choice(["driver", "worker"])
        if victim == "worker":  # a driver that has just started has none yet
            until(lambda driver=driver: driver.poll() is not None or workers_of(driver), 20)
        workers = workers_of(driver)
        if driver.poll() is None and victim == "worker" and workers:
            os.kill(chance.choice(workers), signal.SIGKILL)  # the driver goes on with another
            kills[victim] += 1
            continue
        kills["driver"] += driver.poll() is None
        driver.kill()
        driver.wait()
        assert_gone(driver.pid)
        interrupted += any((out / "jobs").glob("*/checkpoint"))
        written = times(out)
        finished = {job for job in written if Store(out).record(job)["status"] == "done"}
        assert all(written[job] == stamp for job, stamp in done.items())
        done = {job: written[job] for job in finished}
        if len(done) == 40:  # all too soon: begin anew, and kill on
            out, done = tmp_path / f"stormy{sum(kills.values())}", {}
        driver = start(spec, out)
    driver.kill()
    driver.wait()
    last = start(spec, out)
    assert last.wait(300) == 0
    assert_gone(last.pid)
    written = times(out)
    assert all(written[job] == stamp for job, stamp in done.items())
    assert min(kills.values()) >= 3 and interrupted > 0

    one, other = Store(tmp_path / "calm"), Store(out)
    assert len(one.table()) == 120 and one.table().equals(other.table())
    for record in one.records():
        assert record["curves"] == other.record(record["job"])["curves"]
    left = [str(path.relative_to(out)) for path in out.rglob("*") if is_temporary(path.name)]
    assert left == [] and not any((out / "jobs").glob("*/checkpoint")) and not (out / "set_aside").exists()


def times(out: Path) -> dict[str, int]:
    """When each job's record was written, by job."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("jobs/*/record.json")}


def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait for it, but no longer than this."""
    began = time.monotonic()
    while not holds() and time.monotonic() - began < seconds:
        time.sleep(0.02)


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def assert_gone(session: int) -> None:
    """No process of the run is left; what the kill has orphaned may take a moment."""
    waited = time.monotonic()
    while left := in_session(session):
        assert time.monotonic() - waited < PATIENCE, [command(pid) for pid in left]
        time.sleep(0.05)


def in_session(session: int) -> list[int]:
    return [pid for pid, fields in processes() if int(fields[3]) == session and fields[0] != "Z"]


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        (signal.SIGTERM, 143),
    ],
)
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_signal_saves_and_stops(tmp_path, number, status, workers):
    """Ctrl-C, a scheduler's SIGTERM, a closed terminal: running jobs save, the exit status says which."""
    spec = tmp_path / "long.toml"
    spec.write_text(SPEC.replace("steps = 10000", "steps = 1000000").replace("[0, 19, 1]", "[0, 0, 1]"))
    out = tmp_path / "out"
    run = start(spec, out, workers, stderr=subprocess.PIPE)
    while not trained(out):
        assert run.poll() is None
        time.sleep(0.1)
    os.killpg(run.pid, number)
    said = run.communicate(timeout=PATIENCE)[1].decode()
    assert run.returncode == status, said
    assert said.splitlines()[-1] == f"depthlaw: stopped by {number.name}; the same command goes on from there"
    assert any((out / "jobs").glob("*/checkpoint")) and not any((out / "jobs").glob("*/record.json"))
    assert not (out / "live.json").exists()
    assert_gone(run.pid)
