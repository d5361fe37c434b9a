"""Laws of a run: same spec, same numbers, wherever it runs; what is done is kept, what fails is said."""

import dataclasses
import io
import multiprocessing
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from sweeps import _executors, _run
from sweeps._config import ConfigError
from sweeps._executors import InProcess, Outcome, Processes, Tick, available_cores, choose
from sweeps._jobs import expand
from sweeps._progress import Bar, Lines, watcher
from sweeps._run import estimate, run_sweep
from sweeps._spec import load_spec
from sweeps._store import Store, StoreError
from toymodels import total_flops


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
        assert time.monotonic() - waited < 5
        time.sleep(0.01)


def test_same_numbers_in_two_processes(spec, tiny_results, tmp_path, no_watcher):
    """A sweep run again in another folder, on two worker processes and not in one, gives the same bits."""
    summary = run_sweep(spec, tmp_path / "again", no_watcher, executor=Processes(2))
    assert (summary.jobs, summary.reused, summary.failures) == (4, 0, {})
    peaks = {about["process"]: about["peak_memory_bytes"] for about in provenance(tmp_path / "again")}
    assert len(peaks) == 2 and os.getpid() not in peaks
    assert summary.peak_memory > max(peaks.values()) + min(peaks.values()) > 2**20
    assert_same(tiny_results, tmp_path / "again")


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
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    summary = run_sweep(spec, out, no_watcher)
    assert (summary.jobs, summary.reused) == (4, 4)
    assert instant == []
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert_same(tiny_results, out)


def test_only_what_is_missing_is_trained(spec, tiny_results, tmp_path, no_watcher):
    """Without one record, that job alone is trained, and the table is as it was to the last bit."""
    out = shutil.copytree(tiny_results, tmp_path / "out")
    job = expand(spec.cohorts)[2]
    (out / "jobs" / job.id / "record.json").unlink()
    started = []
    no_watcher.start = lambda jobs, reused: started.append((set(jobs), reused))
    summary = run_sweep(spec, out, no_watcher, executor=Processes(1))
    assert started == [({job.id}, 3)] and (summary.jobs, summary.reused) == (4, 3)
    assert_same(tiny_results, out)


def test_damaged_record_is_trained_again(spec, tiny_results, tmp_path, no_watcher, instant):
    """A record cut short counts as missing."""
    out = shutil.copytree(tiny_results, tmp_path / "out")
    job = expand(spec.cohorts)[1]
    record = out / "jobs" / job.id / "record.json"
    record.write_bytes(record.read_bytes()[:100])
    run_sweep(spec, out, no_watcher, executor=InProcess())
    assert instant == [job.id]


def test_other_folder_is_refused_before_training(spec, tmp_path, no_watcher, instant):
    """Nothing is trained when the results could not be kept."""
    (tmp_path / "x").write_text("somebody's")
    with pytest.raises(ConfigError, match="choose another --out"):
        run_sweep(spec, tmp_path, no_watcher, executor=InProcess())
    assert instant == []


def test_a_failing_job_stops_no_other(spec, tmp_path, no_watcher, instant, monkeypatch):
    """What one job raises is said of that job; the others are recorded."""
    jobs = expand(spec.cohorts)
    train = _executors.train

    def fail(group, **options):
        if group[0].id == jobs[1].id:
            raise RuntimeError("the reason\nand more of it")
        return train(group, **options)

    monkeypatch.setattr(_executors, "train", fail)
    summary = run_sweep(spec, tmp_path / "out", no_watcher, executor=InProcess())
    assert summary.failures == {jobs[1].id: "tied, seed 1: RuntimeError: the reason"}
    assert 'raise RuntimeError("the reason' in summary.traces[jobs[1].id]
    done = [Store(tmp_path / "out").is_done(job) for job in jobs]
    assert done == [True, False, True, True]


def test_longest_first(spec, tmp_path, no_watcher, instant):
    """Jobs start in order of falling cost, so that no long one is left alone at the end."""
    cohorts = tuple(dataclasses.replace(spec.cohorts[0], steps=steps, seeds=(0,)) for steps in (5, 40, 20))
    many = dataclasses.replace(spec, cohorts=cohorts)
    run_sweep(many, tmp_path / "out", no_watcher, executor=InProcess())
    costs = {job.id: total_flops(job.config) for job in expand(cohorts)}
    assert [costs[job] for job in instant] == sorted(costs.values(), reverse=True)


def test_full_disk_ends_the_run(spec, tmp_path, no_watcher, instant, monkeypatch):
    """A record that cannot be written ends the run there and then: no job is begun, none goes on."""

    def full(*arguments):
        raise StoreError("no space")

    class Closing(InProcess):
        closed = False

        def run(self, jobs, on_tick):
            try:
                yield from super().run(jobs, on_tick)
            finally:
                self.closed = True

    executor = Closing()
    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(StoreError, match="no space") as raised:
        run_sweep(spec, tmp_path / "out", no_watcher, executor=executor)
    # Closed although the traceback still holds on to everything.
    assert raised.tb is not None and len(instant) == 1 and executor.closed


def test_killed_worker(spec, tiny_results, tmp_path, no_watcher):
    """A worker that is killed is said, does not hang the run, and takes no other job with it."""
    endless = dataclasses.replace(spec.cohorts[0], seeds=(0,), steps=10**9)
    short = dataclasses.replace(spec.cohorts[0], seeds=(1,))

    def kill():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.05)
        killed.extend(child.pid for child in children)
        os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    thread = threading.Thread(target=kill)
    thread.start()
    outcomes = []
    both = dataclasses.replace(spec, cohorts=(short, endless))
    no_watcher.end = outcomes.append
    summary = run_sweep(both, tmp_path / "out", no_watcher, executor=Processes(1))
    thread.join()
    assert list(summary.failures.values()) == [
        "tied, seed 0: its worker process died (out of memory, or killed)"
    ]
    assert [outcome.error is None for outcome in outcomes] == [False, True]
    assert Store(tmp_path / "out").is_done(expand((short,))[0])
    assert_no_workers()


def test_closing_ends_the_workers(spec, monkeypatch):
    """When nobody waits for the outcomes any more, no worker is left, whatever it was doing."""

    began = time.monotonic()

    def give_up(*_):
        if time.monotonic() - began > 2:  # by now they have their jobs and import what these need
            assert len(multiprocessing.active_children()) == 2
            raise InterruptedError

    monkeypatch.setattr(_executors, "with_ticks", give_up)
    endless = tuple(dataclasses.replace(c, seeds=(0,), steps=10**9) for c in spec.cohorts)
    with pytest.raises(InterruptedError):
        next(Processes(2).run(expand(endless), lambda tick: None))
    assert_no_workers()


def test_choice_of_executor(spec, monkeypatch):
    """One job, one worker or an accelerator: this process; else as many as asked for, cores or jobs allow."""
    jobs = expand(spec.cohorts)
    monkeypatch.setattr(_executors, "available_cores", lambda: [0, 1])
    assert isinstance(choose(jobs[:1], None), InProcess)
    assert isinstance(choose(jobs, 1), InProcess)
    for workers, expected in ((None, 2), (3, 3), (9, 4)):
        chosen = choose(jobs, workers)
        assert isinstance(chosen, Processes) and chosen.workers == expected
    monkeypatch.setattr(_executors, "accelerated", lambda: True)
    assert isinstance(choose(jobs, None), InProcess)


def test_accelerator_trains_seeds_side_by_side(spec, monkeypatch, instant):
    """Where JAX has a GPU, jobs that differ in seed alone are one cohort, and each still has its outcome."""
    import jax

    groups = []
    train = _executors.train
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(
        _executors, "train", lambda group, **more: (groups.append(len(group)), train(group, **more))[1]
    )
    outcomes = list(InProcess().run(expand(spec.cohorts), lambda tick: None))
    assert groups == [2, 2]
    assert [outcome.job for outcome in outcomes] == expand(spec.cohorts)
    assert all(outcome.error is None for outcome in outcomes)


def test_cpu_flags_unless_told(monkeypatch):
    """XLA runs a CPU program on one thread, in order, unless XLA_FLAGS already says of a flag what it is."""
    threads = "--xla_cpu_multi_thread_eigen=false"
    order = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
    for before, after in (
        ("", f"{threads} {order}"),
        ("--a=b", f"--a=b {threads} {order}"),
        ("--xla_cpu_multi_thread_eigen=true", f"--xla_cpu_multi_thread_eigen=true {order}"),
        (f"{order} {threads}", f"{order} {threads}"),
    ):
        monkeypatch.setenv("XLA_FLAGS", before)
        _executors.set_cpu_flags()
        assert os.environ["XLA_FLAGS"] == after


def test_progress_is_told(spec, monkeypatch, instant):
    """Each job of a group ticks with its share of the steps, the last one always."""
    from toymodels import Progress

    train = _executors.train

    def ticking(group, on_progress):
        for step in range(21):
            on_progress(Progress(step, 20, None))
        return train(group)

    monkeypatch.setattr(_executors, "train", ticking)
    ticks: list[Tick] = []
    jobs = expand(spec.cohorts)[:2]
    _executors.run_group(jobs, ticks.append)
    assert {tick.job_id for tick in ticks} == {job.id for job in jobs}
    assert [tick.done for tick in ticks][-2:] == [1.0, 1.0]
    assert len(ticks) < 10  # not one a step


def test_provenance(tiny_results):
    """A record says how long, on what and with which versions it was made."""
    for about in provenance(tiny_results):
        assert about["wall_seconds"] > 0 and about["peak_memory_bytes"] > 2**20 and about["devices"] == 1
        assert about["versions"]["jax"][0].isdigit() and "python" in about["versions"]


def test_estimate(spec, monkeypatch):
    """Jobs, students and FLOPs are counted exactly; time is FLOPs over rate, shared by the workers."""
    monkeypatch.setattr(_run, "_matmul_rate", lambda *shape: 1e6)
    monkeypatch.setattr(_executors, "available_cores", lambda: [0, 1])
    cost = estimate(spec)
    flops = sum(total_flops(job.config) for job in expand(spec.cohorts))
    assert (cost.jobs, cost.students, cost.flops, cost.workers) == (4, 12, flops, 2)
    compiling = 2 * _run.COMPILE_SECONDS
    assert cost.seconds == pytest.approx(compiling + flops / (_run.MATMUL_SHARE * 1e6) / 2)
    alone = estimate(spec, workers=1)
    assert alone.seconds - compiling == pytest.approx(2 * (cost.seconds - compiling))
    assert estimate(spec, workers=9).workers == 2


def test_matmul_rate_is_a_rate():
    """The measured rate is one that a core can have: between 10 MFLOP/s and 10 TFLOP/s."""
    assert 1e7 < _run._matmul_rate(32, 8, 256) < 1e13
    assert available_cores()


class TestProgress:
    @pytest.fixture
    def outcomes(self, spec):
        jobs = expand(spec.cohorts)
        rows = [{"status": "done"}, {"status": "diverged"}]
        return [
            Outcome(jobs[0], rows[:1], {}, {"wall_seconds": 3.2}),
            Outcome(jobs[1], rows, {}, {"wall_seconds": 3.2}),
            Outcome(jobs[2], [], {}, {}, "RuntimeError: [red]no[/red] memory"),
        ]

    def test_lines(self, outcomes):
        """Without a terminal: a line when it starts and a line a job, with what went wrong as it is."""
        out = io.StringIO()
        lines = watcher(Console(file=out, width=80))
        assert type(lines) is Lines
        lines.start({outcome.job.id: outcome.job for outcome in outcomes}, 4)
        for outcome in outcomes:
            lines.tick(Tick(outcome.job.id, 0.5))
            lines.end(outcome)
        lines.close()
        assert out.getvalue().splitlines() == [
            "3 job(s) to run, 4 already done",
            "[1/3] tied, seed 0: 1 students, 3 s",
            "[2/3] tied, seed 1: 2 students, 1 diverged, 3 s",
            "[3/3] independent, seed 0: failed: RuntimeError: [red]no[/red] memory",
        ]

    def test_bar(self, outcomes):
        """On a terminal: a bar that stands at the share of the FLOPs that are done, and ends full."""
        bar = watcher(Console(file=io.StringIO(), force_terminal=True, width=80))
        assert type(bar) is Bar
        bar.start({outcome.job.id: outcome.job for outcome in outcomes}, 0)
        bar.tick(Tick(outcomes[0].job.id, 0.5))
        [task] = bar.bar.tasks
        weights = [total_flops(outcome.job.config) for outcome in outcomes]
        assert task.completed == pytest.approx(0.5 * weights[0]) and task.total == pytest.approx(sum(weights))
        for outcome in outcomes:
            bar.end(outcome)
        assert task.finished
        bar.close()
