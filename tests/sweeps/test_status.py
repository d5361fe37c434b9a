"""Laws of the status: it says what the records and the running process say."""

import json
import os
import platform
import time
from pathlib import Path

import pytest
from rich.console import Console

from sweeps import _status
from sweeps._jobs import Job, Result, expand
from sweeps._spec import load_spec
from sweeps._status import Live, Reader, duration, shown
from sweeps._store import Store
from sweeps.executors import Outcome, Status, Task, Tick

DEAD = 2**22 + 1
"""A process that cannot be: beyond the largest number that Linux gives."""


@pytest.fixture
def jobs(tiny_file) -> list[Job]:
    spec = load_spec(str(tiny_file))
    return expand(spec.kind, spec.configs)


@pytest.fixture
def store(tiny_file, jobs, tmp_path) -> Store:
    """A sweep of four jobs of which one is done and one has failed."""
    store = Store(tmp_path / "out")
    store.out.mkdir()
    store.claim(load_spec(str(tiny_file)).source, jobs)
    store.write(jobs[0], "done", Result([], {}), {"wall_seconds": 1.0})
    store.write(jobs[1], "failed", Result([], {}), {}, "RuntimeError: the reason", "where")
    return store


@pytest.fixture
def live(store, jobs, monkeypatch) -> Live:
    """The process that runs all but the one that is done, with every tick written at once."""
    monkeypatch.setattr(_status, "WRITE_SECONDS", -1.0)
    live = Live(store.out)
    live.start({job.id: job for job in jobs[1:]}, 1)
    return live


def ended(job: Job) -> Outcome:
    return Outcome(job, Task((job,), Path("nowhere")), Status.DONE, Result([], {}), {"wall_seconds": 1.0})


def test_states(store, jobs):
    """Every job that is asked for has one state: that of its record, else running or waiting."""
    standing = Reader(store.out).read()
    assert list(standing.states.values()) == ["done", "failed", "waiting", "waiting"]
    assert standing.errors == {jobs[1].id: "RuntimeError: the reason"}
    assert standing.live is None and standing.left is None
    assert standing.share == pytest.approx(jobs[0].flops / sum(job.flops for job in jobs))


def test_running_jobs_are_seen(store, jobs, live):
    """Share, step and newest losses of a running job are those of its last ticks; a NaN is left out."""
    live.tick(Tick(jobs[2].id, 0.25, 5, {"loss_1_0": 0.5, "loss_2_0": float("nan")}))
    live.tick(Tick(jobs[2].id, 0.5, 10, None))
    standing = Reader(store.out).read()
    assert standing.states[jobs[2].id] == "running" and standing.states[jobs[3].id] == "waiting"
    entry = standing.live["running"][jobs[2].id]
    assert (entry["done"], entry["step"], entry["losses"]) == (0.5, 10, {"loss_1_0": 0.5})
    assert standing.share == pytest.approx((jobs[0].flops + jobs[2].flops / 2) / sum(j.flops for j in jobs))


def test_a_failed_job_that_is_tried_again_runs(store, jobs, live):
    """The record of its failure is still there, and it is running."""
    live.tick(Tick(jobs[1].id, 0.5, 10, None))
    assert Reader(store.out).read().states[jobs[1].id] == "running"


def test_pace_counts_what_this_run_has_done(store, jobs, live, monkeypatch):
    """FLOPs a second are those of this run over its time: what a checkpoint brought along is not its work."""
    began = live.began
    monkeypatch.setattr(_status.time, "time", lambda: began + 10)
    live.tick(Tick(jobs[2].id, 0.0, 0, None))
    live.tick(Tick(jobs[2].id, 0.6, 12, None))  # went on from 0.6
    live.tick(Tick(jobs[2].id, 0.8, 16, None))
    standing = Reader(store.out).read()
    assert standing.flops_per_second == pytest.approx(0.2 * jobs[2].flops / 10)
    left = 0.2 * jobs[2].flops + jobs[1].flops + jobs[3].flops
    assert standing.left == pytest.approx(left / standing.flops_per_second)
    live.end(ended(jobs[2]))
    assert Reader(store.out).read().flops_per_second == pytest.approx(0.4 * jobs[2].flops / 10)


def test_a_dead_process_runs_nothing(store, jobs, live):
    """What a killed run has left of itself is not believed: by its process here, by its silence elsewhere."""
    live.tick(Tick(jobs[2].id, 0.5, 10, None))
    path = store.out / "live.json"
    found = json.loads(path.read_text())
    assert (found["process"], found["host"]) == (os.getpid(), platform.node())
    for change, alive in (
        ({}, True),
        ({"process": DEAD}, False),
        ({"process": DEAD, "host": "elsewhere"}, True),
        ({"host": "elsewhere", "updated": time.time() - 2 * _status.SILENT_SECONDS}, False),
    ):
        path.write_text(json.dumps({**found, **change}))
        standing = Reader(store.out).read()
        assert (standing.live is not None) == alive, change
        assert (standing.states[jobs[2].id] == "running") == alive
    path.write_text("{")
    assert Reader(store.out).read().live is None


def test_it_ends_with_the_run(store, live):
    """A run that has ended leaves nothing of itself; one that never began removes nothing of another's."""
    Live(store.out).close()
    assert (store.out / "live.json").exists()
    live.close()
    assert not (store.out / "live.json").exists()


def test_only_what_has_changed_is_read_again(store, jobs, monkeypatch):
    """A second look reads the records that are new or changed, and no other."""
    read = []
    record = Store.record
    monkeypatch.setattr(
        Store, "record", lambda self, key, head: (read.append(key), record(self, key, head))[1]
    )
    reader = Reader(store.out)
    reader.read()
    assert sorted(read) == sorted(job.id for job in jobs[:2])
    read.clear()
    store.write(jobs[1], "done", Result([], {}), {})
    store.write(jobs[2], "diverged", Result([], {}), {})
    states = reader.read().states
    assert sorted(read) == sorted(job.id for job in jobs[1:3])
    assert list(states.values()) == ["done", "done", "diverged", "waiting"]


def test_a_damaged_record_is_named(store, jobs):
    """It counts as waiting, which it is, and the reader is told which file it was."""
    path = store.folder(jobs[0].id) / "record.json"
    path.write_bytes(path.read_bytes()[:-1])
    standing = Reader(store.out).read()
    assert standing.states[jobs[0].id] == "waiting"
    assert len(standing.skipped) == 1 and str(path) in standing.skipped[0]


def test_shown(store, jobs, live, capsys):
    """All of it for a person: counts, pace, running jobs with their losses, failures with their reason."""
    live.tick(Tick(jobs[2].id, 0.5, 10, {"loss_3_0": 0.012345}))
    Console(width=160).print(shown(Reader(store.out).read()))
    said = capsys.readouterr().out
    assert said.startswith("tiny: 1 done, 1 failed, 1 running, 1 waiting of 4 jobs\n")
    assert f"process {os.getpid()} on {platform.node()}" in said
    for part in ("independent, seed 0", "50%", "3_0: 0.0123", "RuntimeError: the reason", jobs[1].id):
        assert part in said


def test_durations():
    """In the largest unit that there are two of."""
    seconds = (3, 119, 120, 7199, 7200, 172_799, 172_800)
    assert [duration(value) for value in seconds] == [
        "3 seconds",
        "119 seconds",
        "2.0 minutes",
        "120.0 minutes",
        "2.0 hours",
        "48.0 hours",
        "2.0 days",
    ]
