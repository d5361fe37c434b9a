"""Laws of the Dask executor: on workers that come and go, a sweep ends with the bits of a calm local run."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from sweeps._jobs import SCHEMA_VERSION
from sweeps._store import Store
from sweeps.executors._dask import _code_version, pack, unpack
from tests.sweeps.conftest import COMMAND, PATIENCE

pytestmark = pytest.mark.slow

SPEC = """
[sweep]
name = "long"
description = "Two jobs of a few seconds and a short one."

[base]
width = 4
hidden_factor = 2
batch = 16
depths = [1, 2, 3]
seeds = [0]
teacher = { kind = "tied", depth = 4 }
evaluation = { batches = 1, batch = 16, points = 3, first_step = 1000 }

[grid]
steps = [25000, 20000, 1000]

[fit]
by = ["steps"]
floor = 0.0
"""

OFTEN = """
import time

from sweeps._checkpoints import Checkpoints
from sweeps.executors import _training


class Resting(Checkpoints):
    def save(self, checkpoint):
        from toymodels import _train  # imports JAX, which is set up before that

        _train.SEGMENT_SECONDS = 0.05
        super().save(checkpoint)
        time.sleep(0.1)


_training.SAVING_SHARE = 1.0
_training.Checkpoints = Resting
"""
"""Lets workers save after every segment, however long that takes; segments are short, so that a job has many
left when its first checkpoints come, on however fast a machine."""


@pytest.fixture
def distributed(tmp_path, monkeypatch):
    """The library, with an empty configuration; else the test is skipped."""
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path / "dask"))
    return pytest.importorskip("distributed", reason="pip install 'depthlaw[dask]'")


class Cluster:
    """A scheduler and workers, each a process; workers have one thread and no nanny, so they stay dead."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.processes = []
        self.workers = []
        (folder / "often.py").write_text(OFTEN)
        described = folder / f"scheduler-{time.monotonic_ns()}.json"
        arguments = ("--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", described)
        self.scheduler = self.start("scheduler", *arguments, **environment)
        wait_until(lambda: described.exists() and described.read_text().endswith("}"))
        self.address = json.loads(described.read_text())["address"]

    def add_worker(self, *options, **environment):
        """Start one; it need not be there yet."""
        where = ("--local-directory", self.folder / "workers", "--memory-limit", "0")
        often = ("--preload", self.folder / "often.py")
        arguments = (self.address, "--nthreads", "1", "--no-nanny", *where, *(options or often))
        self.workers.append(self.start("worker", *arguments, **environment))

    def start(self, what, *arguments, **environment):
        path = self.folder / f"{what}-{len(self.processes)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{what}",
                    "--host",
                    "127.0.0.1",
                    "--no-dashboard",
                ]
                + [str(argument) for argument in arguments],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def ask(self, question):
        """The answer of a function of the scheduler."""
        import distributed

        with distributed.Client(self.address, set_as_default=False) as client:
            return client.run_on_scheduler(question)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def held(dask_scheduler):
    """What a scheduler holds of ours."""
    return [
        *map(str, dask_scheduler.task_metadata),
        *dask_scheduler.extensions["events"]._events,
        *map(str, dask_scheduler.tasks),
    ]


def busy(dask_worker):
    """How many tasks a worker runs, whether they are wanted or not."""
    return len(dask_worker.active_threads)


@pytest.fixture
def cluster(distributed, tmp_path):
    """Two workers."""
    made = Cluster(tmp_path)
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.close()


@pytest.fixture
def long_file(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="session")
def long_results(spawn, tmp_path_factory):
    """What one process makes of the long sweep."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.toml").write_text(SPEC)
    done = spawn("run", folder / "long.toml", "--out", folder / "out", "--workers", "1")
    assert done.status == 0, done.err
    return results(folder / "out")


def results(out):
    """All that records hold but for where they were made."""
    return {record["job"]: (record["rows"], record["curves"]) for record in Store(out).records()}


def resumed(out):
    """The steps that jobs have gone on from."""
    return [step for record in Store(out).records() for step in record["provenance"]["resumed"]]


def wait_until(happened):
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.05)


@contextlib.contextmanager
def driven(*arguments):
    """The command line, running; killed if the test fails."""
    process = subprocess.Popen(
        [*COMMAND, "run", *map(str, arguments), "--checkpoint-every", "0.05"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def saved(out, least=1):
    """Jobs of which the driver has copied a checkpoint, the `least`-th or a later one."""
    seals = (out / "jobs").glob("*/checkpoint/*.json")
    return {path.parent.parent.name for path in seals if int(path.stem) >= least}


def test_same_bits(cluster, spawn, tiny_file, tiny_results, tmp_path):
    """A sweep on workers makes the records of one in this process, and leaves nothing with the scheduler."""
    done = spawn("run", tiny_file, "--out", tmp_path / "out", "--scheduler", cluster.address)
    assert done.status == 0, done.err
    assert results(tmp_path / "out") == results(tiny_results)
    assert cluster.ask(held) == []
    assert "Traceback" not in done.err and "distributed" not in done.err


def test_a_lost_worker(distributed, long_file, long_results, tmp_path):
    """A worker is killed: another goes on with its job from the checkpoint, to the same bits.

    However often: the first time by the scheduler, the second one is said to be the job's fault.
    """
    cluster = Cluster(tmp_path, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
    out = tmp_path / "out"
    try:
        cluster.add_worker()
        with driven(long_file, "--out", out, "--scheduler", cluster.address) as driver:
            for i in range(2):
                wait_until(lambda least=4 + 4 * i: saved(out, least))
                cluster.add_worker()
                cluster.workers[i].kill()
            said = driver.communicate(timeout=PATIENCE)[1]
            assert driver.returncode == 0, said
    finally:
        cluster.close()
    assert results(out) == long_results
    first, second = resumed(out)
    assert 1 < first < second
    assert "Traceback" not in said and "distributed" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_lost_driver(cluster, long_file, long_results, tmp_path, number):
    """The driver is stopped or killed: workers drop its jobs, nothing of them stays with the scheduler.

    The same command goes on from the checkpoints, and ends with the same bits.
    """
    import distributed

    out = tmp_path / "out"
    arguments = (long_file, "--out", out, "--scheduler", cluster.address)
    with driven(*arguments) as driver:
        wait_until(lambda: saved(out, 4))
        driver.send_signal(number)
        said = driver.communicate(timeout=PATIENCE)[1]
    if number == signal.SIGTERM:
        assert driver.returncode == 143, said
        assert said.splitlines()[-1] == "depthlaw: stopped by SIGTERM; the same command goes on from there"
        assert "Traceback" not in said
    with distributed.Client(cluster.address, set_as_default=False) as client:
        wait_until(lambda: not any(client.run(busy).values()))
        wait_until(lambda: client.run_on_scheduler(held) == [])
    begun = saved(out)
    assert begun
    with driven(*arguments) as driver:
        said = driver.communicate(timeout=PATIENCE)[1]
        assert driver.returncode == 0, said
    assert results(out) == long_results
    assert len(resumed(out)) == len(begun) and max(resumed(out)) > 1


def test_a_lost_scheduler(cluster, long_file, long_results, tmp_path):
    """The scheduler is killed: a sentence, status 1; on another cluster the same command goes on."""
    out = tmp_path / "out"
    with driven(long_file, "--out", out, "--scheduler", cluster.address) as driver:
        wait_until(lambda: saved(out, 4))
        cluster.scheduler.kill()
        said = driver.communicate(timeout=PATIENCE)[1]
    assert driver.returncode == 1
    sentence = "the Dask scheduler is gone: the same command goes on from the last checkpoints"
    assert said.splitlines()[-1] == f"depthlaw: {sentence}"
    assert "Traceback" not in said and "distributed" not in said
    for worker in cluster.workers:
        worker.wait(PATIENCE)
    begun = saved(out)
    another = Cluster(tmp_path)
    try:
        another.add_worker()
        another.add_worker()
        with driven(long_file, "--out", out, "--scheduler", another.address) as driver:
            said = driver.communicate(timeout=PATIENCE)[1]
            assert driver.returncode == 0, said
    finally:
        another.close()
    assert results(out) == long_results
    assert len(resumed(out)) == len(begun) and max(resumed(out)) > 1


def test_no_scheduler(distributed, spawn, tiny_file, tmp_path):
    """Nobody at the address: a sentence and status 1, in some `CONNECT_SECONDS`, for which `spawn` waits."""
    done = spawn("run", tiny_file, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith("depthlaw: no Dask scheduler answers at tcp://127.0.0.1:1: ")
    assert "Traceback" not in done.err


def test_a_failing_job(distributed, spawn, tiny_file, tiny_results, tmp_path, without_depthlaw):
    """A job that raises is recorded with its error and trace; the others have their bits.

    The scheduler need not have depthlaw.
    """
    preload = tmp_path / "preload.py"
    preload.write_text(
        "import sweeps._toy\n"
        "def failing(self, configs, train=sweeps._toy.Toy.train, **options):\n"
        "    if configs[0].seeds == (1,):\n"
        "        raise RuntimeError('the reason')\n"
        "    return train(self, configs, **options)\n"
        "sweeps._toy.Toy.train = failing\n"
    )
    cluster = Cluster(tmp_path, PYTHONPATH=without_depthlaw)
    out = tmp_path / "out"
    try:
        cluster.add_worker("--preload", preload)
        done = spawn("run", tiny_file, "--out", out, "--scheduler", cluster.address)
    finally:
        cluster.close()
    assert done.status == 1 and "2 of 4 jobs failed" in done.err
    statuses = Store(out).statuses()
    for job, result in results(tiny_results).items():
        if result[0][0]["seed"] == 1:
            record = Store(out).record(job)
            assert (record["status"], record["error"]) == ("failed", "RuntimeError: the reason")
            assert "in failing" in record["trace"]
        else:
            assert statuses[job] == "done" and results(out)[job] == result


@pytest.fixture
def without_depthlaw(tmp_path):
    """A folder for PYTHONPATH that hides depthlaw."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sweeps.py").write_text("raise ModuleNotFoundError(\"No module named 'sweeps'\")\n")
    return str(folder)


@pytest.fixture
def older_depthlaw(tmp_path):
    """A folder for PYTHONPATH that makes depthlaw an older version."""
    about = tmp_path / "older" / "depthlaw-0.0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: depthlaw\nVersion: 0.0.1\n")
    return str(about.parent)


def test_other_code(distributed, spawn, tiny_file, tmp_path, without_depthlaw, older_depthlaw):
    """A worker with another version of depthlaw, or none, fails no job: a sentence says what to install."""
    cluster = Cluster(tmp_path, PYTHONPATH=without_depthlaw)
    out = tmp_path / "out"
    try:
        for path, expected in (
            (without_depthlaw, "workers need depthlaw as it is here: ModuleNotFoundError: No module named"),
            (older_depthlaw, f"has depthlaw 0.0.1 (schema {SCHEMA_VERSION}), not {_code_version()}: install"),
        ):
            cluster.add_worker("--no-dashboard", PYTHONPATH=path)
            done = spawn("run", tiny_file, "--out", out, "--scheduler", cluster.address)
            assert done.status == 1 and expected in done.err.splitlines()[-1], done.err
            assert "Traceback" not in done.err
            cluster.workers.pop().kill()
    finally:
        cluster.close()
    assert Store(out).statuses() == {}


SLURM = """
jobqueue:
  slurm:
    queue: long-queue
    cores: 1
    processes: 1
    memory: 3GB
    walltime: "07:06:05"
    job-extra-directives: ["--gres=gpu:1"]
    worker-extra-args: ["--no-dashboard", "--preload", OFTEN]
    scheduler-options: {host: 127.0.0.1, dashboard_address: "127.0.0.1:0"}
distributed:
  deploy:
    lost-worker-timeout: 1s
"""


@pytest.fixture
def slurm(distributed, tmp_path):
    """A user's description of Slurm jobs."""
    pytest.importorskip("dask_jobqueue", reason="pip install 'depthlaw[dask]'")
    (tmp_path / "dask").mkdir()
    (tmp_path / "often.py").write_text(OFTEN)
    (tmp_path / "dask" / "jobqueue.yaml").write_text(SLURM.replace("OFTEN", str(tmp_path / "often.py")))


class TestBatchSystem:
    def test_what_is_submitted(self, slurm):
        """A job is what the user describes, and starts a Dask worker of this Python."""
        program = (
            "from sweeps.executors._dask import batch_cluster\n"
            "with batch_cluster('slurm') as cluster:\n"
            "    print(cluster.job_script())"
        )
        script = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
        )
        assert script.stderr == ""
        lines = script.stdout.splitlines()
        for directive in ("-p long-queue", "--cpus-per-task=1", "--mem=3G", "-t 07:06:05", "--gres=gpu:1"):
            assert f"#SBATCH {directive}" in lines
        assert any(
            line.startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://") for line in lines
        )

    def test_refusals(self, distributed, spawn, tiny_file, tmp_path):
        """An unknown system, and a description that lacks what a job needs: where to say it."""
        for name, *expected in (
            ("slrum", "did you mean 'slurm'?"),
            ("slurm", "cores and memory", "jobqueue.slurm in ~/.config/dask/jobqueue.yaml"),
        ):
            done = spawn("run", tiny_file, "--out", tmp_path / "out", "--cluster", name)
            assert done.status == 2, done.err
            assert all(part in done.err.splitlines()[-1] for part in expected)
            assert "Traceback" not in done.err

    def test_no_job_is_taken(self, slurm, spawn, tiny_file, tmp_path):
        """The batch system is not there, or refuses: what it says, and status 1."""
        out = ("--out", tmp_path / "out", "--cluster", "slurm")
        done = spawn("run", tiny_file, *out)
        assert done.status == 1 and "slurm takes no job" in done.err and "sbatch" in done.err
        assert "Traceback" not in done.err
        script(tmp_path / "bin" / "sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1")
        done = spawn("run", tiny_file, *out, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        assert done.status == 1
        assert done.err.splitlines()[-1] == "depthlaw: slurm takes no job: sbatch: error: invalid partition"

    def test_jobs_that_end_are_replaced(self, slurm, long_file, long_results, tmp_path, monkeypatch):
        """A job whose time is over is asked for again, its work goes on, and no job stays in the queue."""
        queue = tmp_path / "queue"
        queue.mkdir()
        script(
            tmp_path / "bin" / "sbatch",
            f"cd {queue}; n=$(ls | grep -c '\\.sh$'); n=$((n + 1)); cp $1 $n.sh",
            "setsid bash $n.sh > $n.log 2>&1 & echo $! > $n.pid; echo Submitted batch job $n",
        )
        script(tmp_path / "bin" / "scancel", f"cd {queue}; touch $1.cancelled; kill -9 -$(cat $1.pid)")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        out = tmp_path / "out"
        try:
            arguments = (long_file, "--out", out, "--cluster", "slurm", "--workers", "1")
            with driven(*arguments) as driver:
                wait_until(lambda: saved(out, 4))
                os.killpg(int((queue / "1.pid").read_text()), signal.SIGKILL)
                said = driver.communicate(timeout=PATIENCE)[1]
                assert driver.returncode == 0, said
            assert results(out) == long_results
            assert resumed(out) and max(resumed(out)) > 1
            assert "asked slurm for 1 job(s)" in said and "Traceback" not in said
            assert sorted(path.name for path in queue.glob("*.sh")) == ["1.sh", "2.sh"]
            assert (queue / "2.cancelled").exists()
        finally:
            for path in queue.glob("*.pid"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(path.read_text()), signal.SIGKILL)


def script(path, *lines):
    """An executable."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_missing_library(call, tiny_file, tmp_path, monkeypatch):
    """Without the library: how to install it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = call("run", tiny_file, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert done.status == 2
    assert "distributed is not installed: pip install 'depthlaw[dask]'" in done.err


def test_packed_and_unpacked(tmp_path):
    """A packed checkpoint replaces what was there, file by file, and nothing temporary is left."""
    new, old = tmp_path / "new", tmp_path / "old"
    for folder, number in ((new, "2"), (old, "1"), (old, "2")):
        (folder / number / "arrays").mkdir(parents=True)
        (folder / number / "arrays" / "data").write_bytes(folder.name.encode())
        (folder / f"{number}.json").write_bytes(folder.name.encode())
    unpack(pack(new), old)
    files = {path.relative_to(old).as_posix(): path.read_bytes() for path in old.rglob("*") if path.is_file()}
    assert files == {"2/arrays/data": b"new", "2.json": b"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
