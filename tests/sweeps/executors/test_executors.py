"""Laws of the executors: a task's bits do not depend on where it runs, nor on how often it is stopped."""

import collections
import dataclasses
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _machine
from sweeps._jobs import expand, halved, kind
from sweeps._spec import load_spec
from sweeps.executors import (
    InProcess,
    Note,
    Processes,
    Slot,
    Status,
    Stop,
    Task,
    Tick,
    Where,
    _training,
    choose,
    slots,
)
from tests.sweeps.conftest import PATIENCE, TINY
from toymodels import KL, CohortConfig, Tied, split

CORE = Slot((_machine.available_cores()[0],))


@pytest.fixture
def spec(tiny_file):
    return load_spec(str(tiny_file))


def job_of(spec, **changes):
    """One job of the tiny sweep."""
    return expand("toy", [dataclasses.replace(spec.configs[0], **{"seeds": (0,), **changes})])[0]


def no_workers():
    """No process of ours is left."""
    waited = time.monotonic()
    while multiprocessing.active_children():
        assert time.monotonic() - waited < PATIENCE
        time.sleep(0.01)


def same(one, other):
    assert one.rows == other.rows
    assert one.curves.keys() == other.curves.keys()
    for name in one.curves:
        np.testing.assert_array_equal(one.curves[name], other.curves[name])


class TestOneTask:
    """`run_task`, which every executor calls."""

    @pytest.fixture(autouse=True)
    def short_segments(self, monkeypatch):
        from toymodels import _train

        monkeypatch.setattr(_train, "SEGMENT_SECONDS", 0.0)

    @pytest.fixture
    def stopping(self):
        """Says stop at the n-th question."""

        def make(n):
            asked = iter(range(10**6))
            return lambda: next(asked) >= n

        return make

    def test_stopped_and_resumed_is_as_never_stopped(self, spec, tmp_path, stopping):
        """However often a task is stopped, it ends with the same bits, and says where it went on."""
        job = job_of(spec, steps=30)
        whole = _training.run_task(Task((job,), tmp_path / "a"), print, lambda: False)[0]
        assert whole.status is Status.DONE and whole.provenance["resumed"] == []
        task = Task((job,), tmp_path / "b")
        for _ in range(3):
            (outcome,) = _training.run_task(task, print, stopping(6))
            assert outcome.status is Status.STOPPED
        (outcome,) = _training.run_task(task, print, lambda: False)
        same(outcome.result, whole.result)
        assert outcome.provenance["resumed"] == [6, 12, 18]

    def test_checkpoints_are_taken_as_time_passes(self, spec, tmp_path):
        """Every `every` seconds, and no more often than their cost allows."""
        saved = []
        task = Task((job_of(spec),), tmp_path / "c", every=0.0)
        _training.run_task(task, print, lambda: False, lambda: saved.append(time.monotonic()))
        assert len(saved) >= 1
        saved.clear()
        never = dataclasses.replace(task, checkpoint=tmp_path / "d", every=1000.0)
        _training.run_task(never, print, lambda: False, lambda: saved.append(0.0))
        assert saved == [] and not (tmp_path / "d").exists()

    def test_a_damaged_checkpoint_is_said_and_not_used(self, spec, tmp_path, stopping):
        """Whatever file of it is changed: the task says so, begins anew and ends with the same bits."""
        job = job_of(spec, steps=30)
        whole = _training.run_task(Task((job,), tmp_path / "a"), print, lambda: False)[0]
        task = Task((job,), tmp_path / "b")
        _training.run_task(task, print, stopping(6))
        files = sorted(path for path in (tmp_path / "b").rglob("*") if path.is_file())
        for i, damaged in enumerate(files):
            folder = tmp_path / str(i)
            shutil.copytree(tmp_path / "b", folder)
            path = folder / damaged.relative_to(tmp_path / "b")
            path.write_bytes(path.read_bytes()[:-1] + b"?")
            said = []
            (outcome,) = _training.run_task(
                dataclasses.replace(task, checkpoint=folder), said.append, lambda: False
            )
            same(outcome.result, whole.result)
            assert outcome.provenance["resumed"] == []
            assert [str(folder) in m.text for m in said if isinstance(m, Note)] == [True]
            assert not folder.exists()

    def test_an_unfinished_checkpoint_is_as_if_it_were_not_there(self, spec, tmp_path, stopping):
        """Without its seal the newest does not count, and the next one to be written removes what is left."""
        task = Task((job_of(spec, steps=30),), tmp_path / "c")
        _training.run_task(task, print, stopping(6))
        (tmp_path / "c" / "2").mkdir()
        (tmp_path / "c" / "3.orbax-checkpoint-tmp").mkdir()
        (outcome,) = _training.run_task(task, print, stopping(6))
        assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["4", "4.json"]
        (outcome,) = _training.run_task(task, print, lambda: False)
        assert outcome.provenance["resumed"] == [6, 12]

    def test_a_checkpoint_of_other_jobs_is_not_used(self, spec, tmp_path, stopping):
        """A folder that holds another config's checkpoint is as if it held none."""
        _training.run_task(Task((job_of(spec, seeds=(1,)),), tmp_path / "c"), print, stopping(3))
        said = []
        task = Task((job_of(spec),), tmp_path / "c")
        (outcome,) = _training.run_task(task, said.append, lambda: False)
        assert outcome.status is Status.DONE and outcome.provenance["resumed"] == []
        notes = [message.text for message in said if isinstance(message, Note)]
        assert notes == ["tied, seed 0: its checkpoint is of other jobs or another version: it starts anew"]

    def test_an_error_is_the_outcome(self, spec, tmp_path, monkeypatch):
        """What a training raises is said in a sentence, with its trace."""

        def fail(*_, **__):
            raise RuntimeError("the reason\nand more of it")

        monkeypatch.setattr(type(kind("toy")), "train", fail)
        (outcome,) = _training.run_task(Task((job_of(spec),), tmp_path), print, lambda: False)
        assert (outcome.status, outcome.error) == (Status.FAILED, "RuntimeError: the reason")
        assert 'raise RuntimeError("the reason' in outcome.trace

    def test_an_error_that_says_all(self, spec, tmp_path, monkeypatch, stopping):
        """What the kind explains is that sentence alone, without a trace; the checkpoint is not blamed, and
        stays for when it has been put right."""
        job = job_of(spec)
        task = Task((job,), tmp_path / "c", every=0.0)
        _training.run_task(task, print, stopping(3))
        before = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file()}

        def fail(*_, **__):
            raise ValueError("a.txt is empty: write something into it")

        toy = type(kind("toy"))
        monkeypatch.setattr(toy, "train", fail)
        monkeypatch.setattr(toy, "explains", lambda self, error: isinstance(error, ValueError))
        said = []
        (outcome,) = _training.run_task(task, said.append, lambda: False)
        assert (outcome.status, outcome.trace) == (Status.FAILED, "")
        assert outcome.error == "a.txt is empty: write something into it"
        assert not any(isinstance(message, Note) for message in said)
        after = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file()}
        assert before and after == before

    def test_out_of_memory_halves_the_cohort(self, spec, tmp_path, monkeypatch):
        """Memory that does not suffice is halved, and said, until it does."""
        train = type(kind("toy")).train
        limits = []

        def tight(self, configs, *, max_bytes=None, **options):
            limits.append(max_bytes)
            if len(limits) < 2:
                raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes")
            return train(self, configs, max_bytes=max_bytes, **options)

        monkeypatch.setattr(type(kind("toy")), "train", tight)
        said = []
        job = job_of(spec, depths=(1, 2, 3, 4, 5))
        (outcome,) = _training.run_task(Task((job,), tmp_path), said.append, lambda: False)
        assert outcome.status is Status.DONE and len(outcome.result.rows) == 5
        whole = kind("toy").memory_bytes([job.config])
        assert limits[0] is None and whole // 2 <= limits[1] < whole
        assert outcome.provenance["max_bytes"] == limits[1]
        notes = [message.text for message in said if isinstance(message, Note)]
        assert len(notes) == 1 and "out of memory: trying again in parts of" in notes[0]

    def test_too_little_memory_for_one_student(self, spec, tmp_path, monkeypatch):
        """When a single student is too much, the job is out of memory, not failed."""

        def exhausted(self, configs, **_):
            raise MemoryError("no room")

        monkeypatch.setattr(type(kind("toy")), "train", exhausted)
        (outcome,) = _training.run_task(Task((job_of(spec),), tmp_path), print, lambda: False)
        assert (outcome.status, outcome.error) == (Status.OUT_OF_MEMORY, "MemoryError: no room")
        assert outcome.provenance["max_bytes"] == kind("toy").least_bytes([job_of(spec).config])

    def test_progress_is_told(self, spec, tmp_path):
        """Ticks rise from 0 to 1, and those of an evaluation carry the losses by the names of the curves."""
        ticks = []
        job = job_of(spec)
        (outcome,) = _training.run_task(Task((job,), tmp_path), ticks.append, lambda: False)
        shares = [tick.done for tick in ticks]
        assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
        with_losses = [tick for tick in ticks if tick.losses is not None]
        assert [tick.step for tick in with_losses] == [5, 10, 20]
        for name, value in with_losses[-1].losses.items():
            assert value == outcome.result.curves[name][-1]


@given(
    depths=st.sets(st.integers(1, 9), min_size=1).map(tuple),
    temperatures=st.sets(st.floats(0.1, 1), min_size=1, max_size=3).map(tuple),
    seeds=st.integers(1, 3),
)
def test_memory_can_be_halved_down_to_the_least(depths, temperatures, seeds):
    """Halving ends, at a limit that the cohort can be divided to; one below that cannot be kept to."""
    config = CohortConfig(
        teacher=Tied(depth=4),
        objective=KL(temperatures),
        width=4,
        vocabulary=4,
        depths=depths,
        seeds=tuple(range(seeds)),
        batch=16,
    )
    jobs, limits = expand("toy", [config]), [None]
    while (less := halved(jobs, limits[-1])) is not None:
        assert limits[-1] is None or less < limits[-1]
        limits.append(less)
        assert split(config, False, less)
    least = kind("toy").least_bytes([job.config for job in jobs])
    assert limits[-1] in (None, least)
    with pytest.raises(ValueError, match="a single student"):
        split(config, False, least - 1)


def deque_of(tmp_path, *jobs):
    return collections.deque(Task((job,), tmp_path / job.id) for job in jobs)


class TestProcesses:
    @pytest.mark.slow
    def test_a_killed_process_takes_its_task_alone(self, spec, tmp_path):
        """Its task has died, the other is done, and no process is left."""
        endless, short = job_of(spec, steps=10**9), job_of(spec, seeds=(1,))
        killed = []

        def feedback(message):
            if isinstance(message, Tick) and message.job_id == endless.id and not killed:
                (child,) = multiprocessing.active_children()
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)

        run = Processes([CORE]).run(deque_of(tmp_path, endless, short), feedback, Stop())
        outcomes = list(run)
        assert [(o.job, o.status, o.died) for o in outcomes] == [
            (endless, Status.FAILED, True),
            (short, Status.DONE, False),
        ]
        no_workers()

    def test_stop_saves_what_runs(self, spec, tmp_path):
        """Told to stop, a running task saves and ends, none is begun, and no process is left."""
        endless, other = job_of(spec, steps=10**9), job_of(spec, seeds=(1,))
        stop = Stop()

        def feedback(message):
            if isinstance(message, Tick) and message.step > 0:
                stop.requested = True

        waiting = deque_of(tmp_path, endless, other)
        outcomes = list(Processes([CORE]).run(waiting, feedback, stop))
        assert [(outcome.job, outcome.status) for outcome in outcomes] == [(endless, Status.STOPPED)]
        assert [task.jobs for task in waiting] == [(other,)]
        assert (tmp_path / endless.id).is_dir()
        no_workers()

    def test_closing_ends_the_processes(self, spec, tmp_path):
        """When nobody waits for the outcomes any more, no process is left, whatever it was doing."""
        endless = [job_of(spec, steps=10**9, seeds=(seed,)) for seed in (0, 1)]

        def give_up(message):
            assert len(multiprocessing.active_children()) == 2
            raise InterruptedError

        with pytest.raises(InterruptedError):
            next(Processes([CORE, CORE]).run(deque_of(tmp_path, *endless), give_up, Stop()))
        no_workers()

    @pytest.mark.slow
    def test_signals_are_the_drivers(self, spec, tmp_path):
        """SIGTERM and SIGINT sent to a worker, as by a terminal or a scheduler to all, do not end it."""
        job = job_of(spec, steps=2000)

        def feedback(message):
            if isinstance(message, Tick) and message.done < 1:
                for child in multiprocessing.active_children():
                    os.kill(child.pid, signal.SIGTERM)
                    os.kill(child.pid, signal.SIGINT)

        outcomes = list(Processes([CORE]).run(deque_of(tmp_path, job), feedback, Stop()))
        assert [outcome.status for outcome in outcomes] == [Status.DONE]

    @pytest.mark.slow
    def test_processes_that_do_not_start(self, tmp_path):
        """A script without a main guard, which its processes import, is told so; it does not run for ever."""
        (tmp_path / "tiny.toml").write_text(TINY)
        script = tmp_path / "script.py"
        script.write_text(
            "from pathlib import Path\nfrom sweeps._run import run_sweep\n"
            "from sweeps._spec import load_spec\nfrom sweeps._progress import Lines\n"
            "from rich.console import Console\nfrom sweeps.executors import Where\n"
            "run_sweep(load_spec('tiny.toml'), Path('out'), Lines(Console()), where=Where(workers=2))\n"
        )
        done = subprocess.run(
            [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(
            "sweeps.executors._interface.ExecutorError: worker pro"
        )
        assert not any((tmp_path / "out" / "jobs").glob("*/record.json"))


class TestChoice:
    def test_of_executor(self, spec, monkeypatch):
        """One job or one process: here; else as many as asked for, cores or jobs allow; Dask when named."""
        jobs = expand(spec.kind, spec.configs)
        monkeypatch.setattr(_machine, "available_cores", lambda: [0, 1])
        assert isinstance(choose(jobs[:1], Where()), InProcess)
        assert isinstance(choose(jobs, Where(workers=1)), InProcess)
        assert isinstance(choose(jobs, Where(executor="in-process")), InProcess)
        for where, expected in ((Where(), 2), (Where(workers=3), 3), (Where(workers=9), 4)):
            chosen = choose(jobs, where)
            assert isinstance(chosen, Processes) and len(chosen.slots) == expected
        assert choose(jobs[:1], Where()).share_cores and not choose(jobs, Where(workers=1)).share_cores
        assert isinstance(choose(jobs[:1], Where(executor="processes")), Processes)

    def test_of_slots(self, monkeypatch):
        """Without GPUs a slot a core, or all cores for each; with them one a GPU, several sharing it."""
        monkeypatch.setattr(_machine, "available_cores", lambda: [3, 5])
        monkeypatch.setattr(_machine, "accelerated", lambda: False)
        assert slots(None) == [Slot((3,)), Slot((5,))]
        assert slots(2) == slots(None)
        assert slots(1) == [Slot((3, 5))] and slots(3) == [Slot((3, 5))] * 3
        monkeypatch.setattr(_machine, "accelerated", lambda: True)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-7")
        assert [slot.environment for slot in slots(None)] == [
            {"CUDA_VISIBLE_DEVICES": "2"},
            {"CUDA_VISIBLE_DEVICES": "GPU-7"},
        ]
        assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in slots(3)] == ["2", "GPU-7", "2"]
        assert {slot.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] for slot in slots(3)} == {"0.450"}
        assert slots(1)[0].cores == (3, 5)


def test_accelerator_trains_seeds_side_by_side(spec, tmp_path, monkeypatch, instant):
    """Jobs that differ in seed alone can be one task, and each still has its outcome."""
    jobs = expand(spec.kind, spec.configs)[:2]
    task = Task(tuple(jobs), tmp_path / "checkpoint")
    outcomes = list(InProcess().run(collections.deque([task]), print, Stop()))
    # The first job's folder has the checkpoint of both: it ends last.
    assert [outcome.job for outcome in outcomes] == jobs[::-1]
    assert [outcome.result.rows[0]["seed"] for outcome in outcomes] == [1, 0]


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
        _machine.set_up_jax()
        assert os.environ["XLA_FLAGS"] == after


def test_processes_ask_for_huge_pages(monkeypatch):
    """Which glibc reads when a process starts; what the user says of it stands."""
    show = [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"]
    for before in ("glibc.malloc.check=0", ""):
        monkeypatch.setenv("GLIBC_TUNABLES", before)
        _machine.ask_for_huge_pages()
        assert subprocess.check_output(show, text=True).strip() == before
    monkeypatch.delenv("GLIBC_TUNABLES")
    _machine.ask_for_huge_pages()
    assert subprocess.check_output(show, text=True).strip() == "glibc.malloc.hugetlb=1"


def test_compiled_programs_are_kept_unless_told(monkeypatch, tmp_path):
    """In the user's cache, a folder for each kind of processor; where the user says, where that is said."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _machine.set_up_jax()
    assert Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path / "depthlaw"
    monkeypatch.setattr(_machine, "_processor", lambda: "another")
    assert str(_machine.cache_folder()) != os.environ["JAX_COMPILATION_CACHE_DIR"]
    monkeypatch.setattr(_machine.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _machine.cache_folder() is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    _machine.set_up_jax()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == ""
