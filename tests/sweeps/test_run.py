"""Laws of a run: same spec, same numbers, wherever it runs; what is done is kept, what fails is said."""

import dataclasses
import io
import multiprocessing
import os
import shutil
import signal
import time
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

import toymodels
from sweeps import _machine, _signals
from sweeps._config import ConfigError
from sweeps._files import StoreError
from sweeps._jobs import Result, expand, kind
from sweeps._progress import Bar, Lines, patient_console, watcher
from sweeps._run import Policy, run_sweep
from sweeps._signals import Stopped
from sweeps._spec import load_spec
from sweeps._store import Locked, Store
from sweeps.executors import Executor, InProcess, Outcome, Processes, Slot, Status, Task, Tick
from tests.sweeps.conftest import PATIENCE
from toymodels import _train, total_flops

TWO = [Slot((core,)) for core in (_machine.available_cores() * 2)[:2]]
"""Room for two processes, on two cores where there are two."""


@pytest.fixture
def spec(tiny_file):
    return load_spec(str(tiny_file))


def assert_same(one: Path, other: Path) -> None:
    """Tables and curves are equal to the last bit."""
    stores = Store(one), Store(other)
    tables = [store.table() for store in stores]
    assert len(tables[0]) > 0 and tables[0].equals(tables[1])
    for job in tables[0]["job"].unique():
        curves = [store.curves(job) for store in stores]
        assert curves[0].keys() == curves[1].keys()
        for name in curves[0]:
            assert curves[0][name].tobytes() == curves[1][name].tobytes(), name


def provenance(out: Path) -> list[dict[str, Any]]:
    """Where and how each record of a folder was made."""
    return [record["provenance"] for record in Store(out).records()]


def assert_no_workers() -> None:
    """No process of ours is left; the pool's own thread may be the one that takes note of its end."""
    waited = time.monotonic()
    while multiprocessing.active_children():
        assert time.monotonic() - waited < PATIENCE
        time.sleep(0.01)


def test_same_numbers_in_two_processes(spec, tiny_results, tmp_path, no_watcher):
    """A sweep run again in another folder, on two worker processes and not in one, gives the same bits."""
    summary = run_sweep(spec, tmp_path / "again", no_watcher, executor=Processes(TWO))
    assert (summary.jobs, summary.reused, summary.failures) == (4, 0, {})
    peaks: dict[int, int] = {}
    for about in provenance(tmp_path / "again"):
        own = about["peak_memory_bytes"] - about["mapped_files_bytes"]
        peaks[about["process"]] = max(own, peaks.get(about["process"], 0))
    assert len(peaks) == 2 and os.getpid() not in peaks
    # What the libraries take is counted once, with this process.
    assert 0 < summary.peak_memory - sum(peaks.values()) <= _machine.peak_memory()
    assert_same(tiny_results, tmp_path / "again")


def test_a_process_is_counted_once(spec, tmp_path, no_watcher, instant):
    """A sweep in this process has needed what this process has."""
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
    assert 0 < summary.peak_memory <= _machine.peak_memory()


def test_table_of_a_run(spec, tiny_results):
    """Every student of every job has its row, trained to the end, and its loss is that of its curve."""
    store = Store(tiny_results)
    table = store.table()
    assert len(table) == 2 * 2 * 3 and set(table["status"]) == {"done"} and set(table["step"]) == {20}
    for row in table.iter_rows(named=True):
        curves = store.curves(row["job"])
        assert curves["steps"].tolist() == [5, 10, 20]
        assert curves[f"loss_{row['depth']}_0"][-1] == np.float32(row["loss"])
        assert row["step_angle"] == float(np.mean(curves[f"step_angles_{row['depth']}_0"]))
    keys = table.select("teacher", "seed", "depth").rows()
    assert keys == sorted(keys)


def test_nothing_is_trained_twice(spec, tiny_results, tmp_path, no_watcher, instant):
    """A second run in the same folder trains nothing and leaves every file as it was."""
    out = shutil.copytree(tiny_results, tmp_path / "out")

    def times():
        return {path: path.stat().st_mtime_ns for path in out.rglob("*") if not path.name.startswith("lock")}

    before = times()
    summary = run_sweep(spec, out, no_watcher)
    assert (summary.jobs, summary.reused) == (4, 4)
    assert instant == []
    assert times() == before
    assert_same(tiny_results, out)


KEEP = Policy(keep_models=True)


@pytest.fixture(scope="module")
def kept(tiny_file, tmp_path_factory):
    """A sweep whose models were kept, its jobs, and what was said."""
    spec, out = load_spec(str(tiny_file)), tmp_path_factory.mktemp("kept") / "out"
    nothing = lambda *_: None  # noqa: E731
    said = []
    watcher = types.SimpleNamespace(start=nothing, tick=nothing, note=said.append, end=nothing, close=nothing)
    run_sweep(spec, out, watcher, executor=InProcess(), policy=KEEP)
    return Store(out), expand(spec.kind, spec.configs), said


class TestModels:
    """`--keep-models`."""

    def test_they_are_what_was_trained(self, kept):
        """Every student is there, to the last bit; rows are those of a training that keeps none."""
        store, jobs, said = kept
        assert said == []
        for job in jobs:
            (without,) = kind("toy").train([job.config])
            assert without.model is None and without.rows == store.record(job.id)["rows"]
            students = store.model(job.id)
            trained = toymodels.train_cohort(job.config).students
            assert list(students) == [(student.depth, student.temperature) for student in trained]
            for student in trained:
                found = students[student.depth, student.temperature]
                pairs = zip(jax.tree.leaves(found), jax.tree.leaves(student.network), strict=True)
                assert all(one.dtype == other.dtype and (one == other).all() for one, other in pairs)

    def test_jobs_that_kept_none_are_trained_again(self, spec, tiny_results, tmp_path, no_watcher, instant):
        """Once, and said; with their models they are done."""
        shutil.copytree(tiny_results, tmp_path / "out")
        store, jobs, said = Store(tmp_path / "out"), expand(spec.kind, spec.configs), []
        with pytest.raises(StoreError, match="was run without keeping its model: the same"):
            store.model(jobs[0].id)
        no_watcher.note = said.append
        run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
        assert instant == [] and said == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(toymodels, "train_cohort", _train.train_cohort)
            run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess(), policy=KEEP)
        assert said == ["4 job(s) had ended without keeping their models: trained again"]
        assert all(store.has_model(job.id) for job in jobs)
        for policy in (KEEP, Policy()):
            run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess(), policy=policy)
        assert instant == []

    def test_a_job_that_fails_at_it_keeps_its_record(
        self, spec, tiny_results, tmp_path, no_watcher, monkeypatch
    ):
        """What had ended is not lost by training it again for its model; the failure is in the summary."""
        shutil.copytree(tiny_results, tmp_path / "out")

        def fail(*_, **__):
            raise RuntimeError("the reason")

        monkeypatch.setattr(type(kind("toy")), "train", fail)
        summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess(), policy=KEEP)
        assert len(summary.failures) == 4
        assert_same(tmp_path / "out", tiny_results)

    def test_damage_is_said(self, kept, tmp_path):
        """A model that is not what its record names is not taken for it."""
        store, jobs, _ = kept
        shutil.copytree(store.out, tmp_path / "out")
        store = Store(tmp_path / "out")
        path = store.folder(jobs[0].id) / "model.npz"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(StoreError, match=r"model\.npz is not what its record names"):
            store.model(jobs[0].id)
        path.unlink()
        assert not store.has_model(jobs[0].id)
        with pytest.raises(StoreError, match=r"model\.npz, which its record names, cannot be read: No such"):
            store.model(jobs[0].id)


def test_only_what_is_missing_is_trained(spec, tiny_results, tmp_path, no_watcher):
    """Without one record, that job alone is trained, and the table is as it was to the last bit."""
    out = shutil.copytree(tiny_results, tmp_path / "out")
    job = expand(spec.kind, spec.configs)[2]
    (out / "jobs" / job.id / "record.json").unlink()
    started = []
    no_watcher.start = lambda jobs, reused: started.append((set(jobs), reused))
    summary = run_sweep(spec, out, no_watcher, executor=Processes(TWO[:1]))
    assert started == [({job.id}, 3)] and (summary.jobs, summary.reused) == (4, 3)
    assert_same(tiny_results, out)


def test_damaged_record_is_trained_again(spec, tiny_results, tmp_path, no_watcher, instant):
    """A record cut short counts as missing, is named and is kept aside."""
    out = shutil.copytree(tiny_results, tmp_path / "out")
    job = expand(spec.kind, spec.configs)[1]
    record = out / "jobs" / job.id / "record.json"
    cut = record.read_bytes()[:100]
    record.write_bytes(cut)
    notes = []
    no_watcher.note = notes.append
    run_sweep(spec, out, no_watcher, executor=InProcess())
    assert instant == [job.id]
    assert [str(record) in note for note in notes] == [True]
    assert (out / "set_aside" / f"{job.id}.1.record.json").read_bytes() == cut


def test_other_folder_is_refused_before_training(spec, tmp_path, no_watcher, instant):
    """Nothing is trained when the results could not be kept."""
    (tmp_path / "x").write_text("somebody's")
    with pytest.raises(ConfigError, match="choose another --out"):
        run_sweep(spec, tmp_path, no_watcher, executor=InProcess())
    assert instant == []


class Scripted(Executor):
    """Ends each task as `script` says of its label and attempt: None is done, an Outcome's fields are not."""

    def __init__(self, script):
        self.script = script
        self.tried = []

    def run(self, waiting, feedback, stop):
        while waiting and not stop.requested:
            task = waiting.popleft()
            (job,) = task.jobs
            self.tried.append((job.label, task.attempt, task.max_bytes))
            fields = self.script(job.label, task.attempt)
            if fields is None:
                yield from InProcess().run(type(waiting)([task]), feedback, stop)
            else:
                yield Outcome(job, task, result=Result([], {}), provenance={}, **fields)


FAILED = {"status": Status.FAILED, "error": "RuntimeError: the reason", "trace": "where it was"}
DIED = {"status": Status.FAILED, "error": "its process died", "died": True}


def only(label, fields):
    return lambda name, attempt: fields if name == label else None


def test_a_failing_job_stops_no_other(spec, tmp_path, no_watcher, instant):
    """What a job raises is said of that job and recorded, and stops no other; the next run tries it again."""
    jobs = expand(spec.kind, spec.configs)
    executor = Scripted(only("tied, seed 1", FAILED))
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=executor)
    assert summary.failures == {jobs[1].id: ("tied, seed 1", "RuntimeError: the reason")}
    assert summary.traces == {jobs[1].id: "where it was"}
    store = Store(tmp_path / "out")
    assert [store.is_done(job) for job in jobs] == [True, False, True, True]
    assert store.statuses()[jobs[1].id] == "failed"
    record = store.record(jobs[1].id)
    assert (record["error"], record["trace"], record["rows"]) == (FAILED["error"], FAILED["trace"], [])
    again = run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
    assert (again.reused, again.failures) == (3, {}) and store.is_done(jobs[1])


def test_retry(spec, tmp_path, no_watcher, instant):
    """A failed job is tried again as often as the policy says, and recorded as failed after that."""
    for retry, attempts in ((0, 1), (2, 3)):
        executor = Scripted(only("tied, seed 1", FAILED))
        out = tmp_path / str(retry)
        summary = run_sweep(spec, out, no_watcher, executor=executor, policy=Policy(retry=retry))
        assert [attempt for label, attempt, _ in executor.tried if label == "tied, seed 1"] == list(
            range(1, attempts + 1)
        )
        assert len(summary.failures) == 1
    second = Scripted(lambda name, attempt: FAILED if attempt == 1 else None)
    assert run_sweep(spec, tmp_path / "x", no_watcher, executor=second, policy=Policy(retry=1)).failures == {}


def test_a_death_is_no_failure(spec, tmp_path, no_watcher, instant):
    """A job whose process dies is tried three times unasked, with all the memory that there is."""
    executor = Scripted(only("tied, seed 1", DIED))
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=executor)
    tried = [(attempt, limit) for label, attempt, limit in executor.tried if label == "tied, seed 1"]
    assert tried == [(1, None), (2, None), (3, None)]
    assert [label for label, _ in summary.failures.values()] == ["tied, seed 1"]
    once = Scripted(lambda name, attempt: DIED if attempt == 1 else None)
    assert run_sweep(spec, tmp_path / "x", no_watcher, executor=once).failures == {}


def test_a_death_for_want_of_memory_halves_it(spec, tmp_path, no_watcher, instant):
    """A job whose process the system has killed for its memory is tried with less, as long as that can be."""
    executor = Scripted(only("tied, seed 1", {**DIED, "status": Status.OUT_OF_MEMORY}))
    notes = []
    no_watcher.note = notes.append
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=executor)
    limits = [limit for label, _, limit in executor.tried if label == "tied, seed 1"]
    assert limits[0] is None and len(limits) > 1
    assert limits[1:] == sorted(set(limits[1:]), reverse=True)
    assert all("trying again in parts of" in note for note in notes) and len(notes) == len(limits) - 1
    assert [label for label, _ in summary.failures.values()] == ["tied, seed 1"]
    assert Store(tmp_path / "out").statuses()[next(iter(summary.failures))] == "out of memory"


def test_fail_fast(spec, tmp_path, no_watcher, instant):
    """Told to, a sweep ends at the first failure; what had not begun is counted, and runs the next time."""
    executor = Scripted(lambda name, attempt: FAILED)
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=executor, policy=Policy(fail_fast=True))
    assert (len(summary.failures), summary.not_run) == (1, 3)


def test_a_removed_folder_ends_the_run(spec, tmp_path, no_watcher, instant):
    """Who removes the folder of a running sweep ends it: nothing is written where nothing could be found."""
    out = tmp_path / "out"
    no_watcher.end = lambda outcome: shutil.rmtree(out)
    with pytest.raises(StoreError, match="has been removed or emptied"):
        run_sweep(spec, out, no_watcher, executor=InProcess())
    assert len(instant) == 2 and not out.exists()


def test_removed_records_are_missed(spec, tmp_path, no_watcher, instant):
    """A record that somebody removes while the sweep runs counts as not run."""
    out = tmp_path / "out"
    no_watcher.end = lambda outcome: shutil.rmtree(out / "jobs" / outcome.job.id)
    assert run_sweep(spec, out, no_watcher, executor=InProcess()).not_run == 4


def test_a_signal_that_was_lost_stops_the_run(spec, tmp_path, no_watcher, instant, monkeypatch):
    """One that came before the jobs began, whose exception a library swallowed, stops them all the same."""
    monkeypatch.setattr(_signals, "_came", [signal.SIGTERM])
    with pytest.raises(Stopped) as stopped:
        run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
    assert stopped.value.signal == signal.SIGTERM and instant == []


def test_two_sweeps_in_one_folder(spec, tmp_path, no_watcher, instant):
    """While one runs, another is refused and says who is there; when it has ended, the folder is free."""

    class Second(InProcess):
        def run(self, waiting, feedback, stop):
            with pytest.raises(Locked, match=f"in use by process {os.getpid()} on ") as refused:
                run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
            said.append(str(refused.value))
            yield from super().run(waiting, feedback, stop)

    said = []
    run_sweep(spec, tmp_path / "out", no_watcher, executor=Second())
    assert len(said) == 1 and len(instant) == 4
    assert run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess()).reused == 4


def test_extend(spec, tmp_path, no_watcher, instant):
    """A changed spec is refused with what differs; told to, its cells are added and the others kept."""
    out = tmp_path / "out"
    run_sweep(spec, out, no_watcher, executor=InProcess())
    source = {**spec.source, "base": {**spec.source["base"], "seeds": [1, 2]}}
    more = dataclasses.replace(
        spec, source=source, configs=tuple(dataclasses.replace(c, seeds=(1, 2)) for c in spec.configs)
    )
    with pytest.raises(ConfigError, match=r"--extend. base.seeds: \[0, 1\] there, \[1, 2\] now"):
        run_sweep(more, out, no_watcher, executor=InProcess())
    assert len(instant) == 4
    summary = run_sweep(more, out, no_watcher, executor=InProcess(), policy=Policy(extend=True))
    assert (summary.jobs, summary.reused, len(instant)) == (4, 2, 6)
    assert set(Store(out).table()["seed"]) == {0, 1, 2}
    assert Store(out).spec() == source and (out / "spec-1.json").exists()


def test_a_new_fit_of_the_same_cells_is_no_other_spec(spec, tmp_path, no_watcher, instant):
    """Name, description and fit may change: what was trained is the same."""
    out = tmp_path / "out"
    run_sweep(spec, out, no_watcher, executor=InProcess())
    source = {**spec.source, "fit": {"by": ["teacher"]}, "sweep": {"name": "renamed"}}
    renamed = dataclasses.replace(spec, source=source)
    assert run_sweep(renamed, out, no_watcher, executor=InProcess()).reused == 4
    assert Store(out).spec() == source


def test_longest_first(spec, tmp_path, no_watcher, instant):
    """Jobs start in order of falling cost, so that no long one is left alone at the end."""
    cohorts = tuple(dataclasses.replace(spec.configs[0], steps=steps, seeds=(0,)) for steps in (5, 40, 20))
    many = dataclasses.replace(spec, configs=cohorts)
    run_sweep(many, tmp_path / "out", no_watcher, executor=InProcess())
    costs = {job.id: total_flops(job.config) for job in expand("toy", cohorts)}
    assert [costs[job] for job in instant] == sorted(costs.values(), reverse=True)


def test_full_disk_ends_the_run(spec, tmp_path, no_watcher, instant, monkeypatch):
    """A record that cannot be written ends the run there and then: no job is begun, none goes on."""

    def full(*arguments):
        raise StoreError("no space")

    class Closing(InProcess):
        closed = False

        def run(self, *arguments):
            try:
                yield from super().run(*arguments)
            finally:
                self.closed = True

    executor = Closing()
    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(StoreError, match="no space") as raised:
        run_sweep(spec, tmp_path / "out", no_watcher, executor=executor)
    # Closed although the traceback still holds on to everything.
    assert raised.tb is not None and len(instant) == 1 and executor.closed


def test_provenance(tiny_results):
    """A record says how long, on what and with which versions it was made."""
    for about in provenance(tiny_results):
        assert about["wall_seconds"] > 0 and about["peak_memory_bytes"] > 2**20 and about["devices"] == 1
        assert about["versions"]["jax"][0].isdigit() and "python" in about["versions"]


class TestProgress:
    @pytest.fixture
    def outcomes(self, spec):
        jobs = expand(spec.kind, spec.configs)
        rows = [{"status": "done"}, {"status": "diverged"}]
        tasks = [Task((job,), Path("nowhere")) for job in jobs]
        about = {"wall_seconds": 3.2}
        return [
            Outcome(jobs[0], tasks[0], Status.DONE, Result(rows[:1], {}), about),
            Outcome(jobs[1], tasks[1], Status.DIVERGED, Result(rows, {}), about),
            Outcome(
                jobs[2], tasks[2], Status.FAILED, Result([], {}), {}, "RuntimeError: [red]no[/red] memory"
            ),
        ]

    def test_lines(self, outcomes):
        """Without a terminal: a line when it starts and a line a job, with what went wrong as it is."""
        out = io.StringIO()
        lines = watcher(Console(file=out, width=80))
        assert type(lines) is Lines
        lines.start({outcome.job.id: outcome.job for outcome in outcomes}, 4)
        for outcome in outcomes:
            lines.tick(Tick(outcome.job.id, 0.5, 10, None))
            lines.end(outcome)
        lines.close()
        assert out.getvalue().splitlines() == [
            "3 job(s) to run, 4 already done",
            "[1/3] tied, seed 0: 1 rows, 3 s",
            "[2/3] tied, seed 1: 2 rows, 1 diverged, 3 s",
            "[3/3] independent, seed 0: failed: RuntimeError: [red]no[/red] memory",
        ]

    def test_a_closed_terminal_ends_nothing(self, outcomes):
        """What cannot be told is not told; the sweep goes on."""

        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

        lines = Lines(patient_console(Closed()))
        lines.start({outcome.job.id: outcome.job for outcome in outcomes}, 0)
        for outcome in outcomes:
            lines.end(outcome)
        assert lines.ended == 3

    def test_bar(self, outcomes):
        """On a terminal: a bar that stands at the share of the FLOPs that are done, and ends full."""
        bar = watcher(Console(file=io.StringIO(), force_terminal=True, width=80))
        assert type(bar) is Bar
        bar.start({outcome.job.id: outcome.job for outcome in outcomes}, 0)
        bar.tick(Tick(outcomes[0].job.id, 0.5, 10, None))
        [task] = bar.bar.tasks
        weights = [total_flops(outcome.job.config) for outcome in outcomes]
        assert task.completed == pytest.approx(0.5 * weights[0]) and task.total == pytest.approx(sum(weights))
        for outcome in outcomes:
            bar.end(outcome)
        assert task.finished
        bar.close()
