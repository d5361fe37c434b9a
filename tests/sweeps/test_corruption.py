"""Files that go bad and disks that fill: nothing damaged is taken for a result, and a rerun mends it."""

import collections
import json
import shutil
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _toy
from sweeps._config import ConfigError
from sweeps._files import StoreError, is_temporary
from sweeps._jobs import Job, Result, expand
from sweeps._run import run_sweep
from sweeps._spec import parse_spec
from sweeps._store import Store
from sweeps.executors import Executor, Feedback, Outcome, Status, Stop, Task

from .conftest import COMMAND, Called, pretended

SPEC = parse_spec(
    {
        "sweep": {"name": "pair", "description": "Two jobs of three students."},
        "base": {
            "width": 4,
            "batch": 16,
            "depths": [1, 2, 3],
            "seeds": [0, 1],
            "steps": 20,
            "teacher": {"kind": "tied", "depth": 4},
            "evaluation": {"batches": 1, "batch": 16, "points": 3, "first_step": 5},
        },
    },
    "pair",
)
JOB, NEIGHBOUR = expand(SPEC.kind, SPEC.configs)


class Pretend(Executor):
    """Every job has its result at once, always the same; keeps the ids of those that it was given."""

    ABOUT = {
        "wall_seconds": 1.0,
        "compile_seconds": 0.0,
        "peak_memory_bytes": 0,
        "mapped_files_bytes": 0,
        "process": 1,
        "host": "here",
        "device": "abacus",
        "precision": "float32, products float32",
    }

    def __init__(self) -> None:
        self.trained: list[str] = []

    def run(self, waiting: collections.deque[Task], feedback: Feedback, stop: Stop) -> Generator[Outcome]:
        while waiting:
            task = waiting.popleft()
            for job in task.jobs:
                self.trained.append(job.id)
                found = pretended(job.config)
                result = Result(_toy.rows(job.config, found), _toy.curves(job.config, found))
                yield Outcome(job, task, Status.DONE, result, self.ABOUT)


class Notes:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def start(self, jobs: dict[str, Job], reused: int) -> None:
        pass

    def tick(self, tick: Any) -> None:
        pass

    def note(self, text: str) -> None:
        self.said.append(text)

    def end(self, outcome: Outcome) -> None:
        pass

    def close(self) -> None:
        pass


def run(out: Path) -> tuple[list[str], list[str]]:
    """Run the sweep; what was said and which jobs were trained."""
    notes, executor = Notes(), Pretend()
    summary = run_sweep(SPEC, out, notes, executor=executor)
    assert summary.failures == {} and summary.reused + len(executor.trained) == 2
    return notes.said, executor.trained


@dataclass(frozen=True)
class Sweep:
    """A finished sweep, its table, and every file as it was."""

    out: Path
    table: pl.DataFrame
    files: dict[Path, bytes]

    def at(self, job: Job, name: str) -> Path:
        return self.out / "jobs" / job.id / name

    def restore(self) -> None:
        """As if nothing had happened."""
        shutil.rmtree(self.out / "set_aside", ignore_errors=True)
        for path, data in self.files.items():
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)

    def assert_sound(self) -> None:
        """Every file is there again, with the same bytes, and nothing else."""
        found = {path for path in self.out.rglob("*") if path.is_file()}
        assert {path for path in found if "set_aside" not in path.parts} == self.files.keys()
        changed = [
            path
            for path, data in self.files.items()
            if not path.name.startswith("lock") and path.read_bytes() != data
        ]
        assert changed == []
        skipped: list[str] = []
        assert Store(self.out).table(skipped).equals(self.table) and skipped == []

    def heals(self, name: str, data: bytes | None) -> str:
        """The job's file, with these bytes in it or gone, is found out, set aside and made again.

        The neighbour is not touched. Returns what was said.
        """
        self.restore()
        path = self.at(JOB, name)
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        assert not Store(self.out).is_done(JOB) and Store(self.out).is_done(NEIGHBOUR)
        [note], trained = run(self.out)
        assert trained == [JOB.id]
        assert note.startswith(str(path)) and note.endswith(f"; set aside in {self.out / 'set_aside'}")
        if data is not None:
            assert (self.out / "set_aside" / f"{JOB.id}.1.{name}").read_bytes() == data
        self.assert_sound()
        return note


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    out = tmp_path_factory.mktemp("sound") / "out"
    assert run(out) == ([], [JOB.id, NEIGHBOUR.id])
    table = Store(out).table()
    assert len(table) == 6
    return Sweep(out, table, {path: path.read_bytes() for path in out.rglob("*") if path.is_file()})


def changed(data: bytes, place: int, by: int) -> bytes:
    """The bytes with another one at this place, counted round and round."""
    place %= len(data)
    return data[:place] + bytes([data[place] ^ by]) + data[place + 1 :]


class TestRecord:
    @pytest.mark.slow
    def test_cut_short_at_any_length(self, sweep):
        """A record that lacks any number of its last 1024 bytes."""
        whole = sweep.files[sweep.at(JOB, "record.json")]
        for length in range(len(whole) - 1024, len(whole)):
            note = sweep.heals("record.json", whole[:length])
            assert "is not a whole record: its end or its hash is missing or wrong" in note

    @pytest.mark.parametrize("length", [0, 1, 2, 100])
    def test_hardly_there(self, sweep, length):
        """A record of which next to nothing was written."""
        sweep.heals("record.json", sweep.files[sweep.at(JOB, "record.json")][:length])

    @pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 0.999])
    def test_zeros(self, sweep, share):
        """A record whose end, or all of it, a power cut has left as zeros: its length is right."""
        whole = sweep.files[sweep.at(JOB, "record.json")]
        kept = int(share * len(whole))
        sweep.heals("record.json", whole[:kept] + bytes(len(whole) - kept))

    @given(st.integers(0, 10**6), st.integers(1, 255))
    def test_one_byte_changed(self, sweep, place, by):
        """A record with any one of its bytes changed, be it in a number, a name or the seal."""
        sweep.heals("record.json", changed(sweep.files[sweep.at(JOB, "record.json")], place, by))

    @given(st.binary(max_size=300))
    def test_anything_else(self, sweep, data):
        """Any other bytes in a record's place."""
        sweep.heals("record.json", data)

    def test_another_job_s(self, sweep):
        """The record of another job, whole as it is, alone or with its curves."""
        note = sweep.heals("record.json", sweep.files[sweep.at(NEIGHBOUR, "record.json")])
        assert f"is not this job's record: its job is not '{JOB.id}'" in note
        sweep.restore()
        shutil.copytree(sweep.out / "jobs" / NEIGHBOUR.id, sweep.out / "jobs" / JOB.id, dirs_exist_ok=True)
        [note], trained = run(sweep.out)
        assert trained == [JOB.id] and "is not this job's record" in note
        sweep.assert_sound()


class TestCurves:
    def test_cut_short_or_gone(self, sweep):
        """Curves of which any part is missing."""
        whole = sweep.files[sweep.at(JOB, "curves.npz")]
        for length in (0, 1, len(whole) // 2, len(whole) - 22, len(whole) - 1):
            assert "is not what its record names" in sweep.heals("curves.npz", whole[:length])
        assert "which its record names, cannot be read: No such file" in sweep.heals("curves.npz", None)

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_zeros(self, sweep, share):
        """Curves whose end, or all of it, is zeros."""
        whole = sweep.files[sweep.at(JOB, "curves.npz")]
        kept = int(share * len(whole))
        sweep.heals("curves.npz", whole[:kept] + bytes(len(whole) - kept))

    @given(st.integers(0, 10**6), st.integers(1, 255))
    def test_one_byte_changed(self, sweep, place, by):
        """Curves with any one of their bytes changed: who reads them before the rerun is told so too."""
        data = changed(sweep.files[sweep.at(JOB, "curves.npz")], place, by)
        sweep.heals("curves.npz", data)
        sweep.at(JOB, "curves.npz").write_bytes(data)
        with pytest.raises(StoreError, match=r"curves\.npz is not what its record names"):
            Store(sweep.out).curves(JOB.id)

    def test_another_job_s(self, sweep):
        """The curves of another job, whole as they are."""
        sweep.heals("curves.npz", sweep.files[sweep.at(NEIGHBOUR, "curves.npz")])


class TestSpec:
    @given(st.integers(0, 10**6), st.integers(1, 255))
    def test_one_byte_changed(self, sweep, place, by):
        """A spec with one byte changed is refused in a sentence, or says the same: nothing is trained.

        What says the same is written anew; what is refused stays.
        """
        sweep.restore()
        path = sweep.out / "spec.json"
        damaged = changed(path.read_bytes(), place, by)
        path.write_bytes(damaged)
        try:
            assert run(sweep.out) == ([], [])
        except (ConfigError, StoreError) as error:
            assert str(sweep.out) in str(error) and "\n" not in str(error)
            assert path.read_bytes() == damaged
            sweep.restore()
        else:
            assert json.loads(path.read_bytes()) == SPEC.source
            sweep.restore()
        sweep.assert_sound()

    @given(st.integers(0, 10**6), st.integers(1, 255))
    def test_one_byte_of_the_list_of_jobs(self, sweep, place, by):
        """The list of jobs follows from the spec: damaged, it is written anew."""
        sweep.restore()
        path = sweep.out / "jobs.json"
        path.write_bytes(changed(path.read_bytes(), place, by))
        assert run(sweep.out) == ([], [])
        assert json.loads(path.read_bytes()) == json.loads(sweep.files[path])


def test_the_command_line_says_so(
    call: Callable[..., Called], tiny_file: Path, tmp_path: Path, instant: list[str]
) -> None:
    """`run` names each damaged file on standard error, trains those jobs again, and ends well."""
    arguments = ("run", tiny_file, "--out", tmp_path / "out", "--workers", "1")
    before = call(*arguments)
    records = sorted(tmp_path.glob("out/jobs/*/record.json"))
    records[0].write_bytes(bytes(5000))
    records[1].with_name("curves.npz").unlink()
    instant.clear()
    done = call(*arguments)
    assert done.status == 0 and done.out == before.out
    assert sorted(instant) == [record.parent.name for record in records[:2]]
    said = [line for line in done.err.splitlines() if "set aside in" in line]
    assert len(said) == 2
    assert any(line.startswith(f"{records[0]} is not a whole record") for line in said)
    assert any(line.startswith(str(records[1].with_name("curves.npz"))) for line in said)


MOUNT = 'disk=$1; shift; mount -t tmpfs -o size=1m tmpfs "$disk" || exit; '


@pytest.fixture(scope="module")
def mounting(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Run a shell script where it may mount file systems, which end with it; its lines.

    Its arguments: an empty folder to mount on, `$disk`, then what is given.
    """
    disk = tmp_path_factory.mktemp("disk")
    for unshare in (["unshare", "-rm"], ["unshare", "-m"]):
        command = [*unshare, "sh", "-c"]
        try:
            subprocess.run([*command, MOUNT, "sh", str(disk)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue

        def script(text: str, *arguments: str | Path, command: list[str] = command) -> list[str]:
            called = [*command, f"{MOUNT}{text}", "sh", str(disk), *map(str, arguments)]
            done = subprocess.run(called, capture_output=True, text=True, check=True)
            return done.stdout.splitlines()

        return script
    pytest.skip("no file system can be mounted: needs unshare(1), and user namespaces or root")


FILL = """
kept=$1 spec=$2 free=$3 every=$4; shift 4
run() {
    "$@" run "$spec" --out "$disk/out" --workers 1 --checkpoint-every "$every" >/dev/null 2>"$kept/$when.err"
    echo $?
    mkdir -p "$disk/out"
    cp -r "$disk/out" "$kept/$when"
}
cat /dev/zero >"$disk/filler" 2>/dev/null
truncate -s "-${free}K" "$disk/filler"
when=full; run "$@"
rm "$disk/filler"
when=then; run "$@"
"""
"""Run on a disk with so many KiB left, then again with space; keeps what was there and said each time."""


@pytest.mark.slow
@pytest.mark.parametrize(("free", "every"), [(0, 60), (12, 60), (28, 60), (40, 60)])
def test_full_disk(free, every, mounting, tiny_file, tiny_results, tmp_path):
    """Space runs out, early or late, for a record or a checkpoint: status 1, and nothing half-written counts.

    With space again the same command finishes, to the same numbers, and leaves nothing behind.
    """
    assert mounting(FILL, tmp_path, tiny_file, free, every, *COMMAND) == ["1", "0"]
    said = (tmp_path / "full.err").read_text()
    last = said.splitlines()[-1]
    assert last.startswith("depthlaw: ") and last.endswith(" cannot be written: No space left on device")
    assert "Traceback" not in said
    sound = {record["job"]: record["rows"] for record in Store(tiny_results).records()}
    skipped: list[str] = []
    full = list(Store(tmp_path / "full").records(skipped))
    assert skipped == [] and len(full) < 4
    assert all(record["rows"] == sound[record["job"]] for record in full if record["status"] == "done")
    assert Store(tmp_path / "then").table().equals(Store(tiny_results).table())
    left = [path for path in (tmp_path / "then").rglob("*") if is_temporary(path.name)]
    assert left == [] and not list((tmp_path / "then").glob("jobs/*/checkpoint"))
    assert not (tmp_path / "then" / "set_aside").exists()


@pytest.mark.slow
def test_a_full_disk_is_no_lack_of_memory(mounting, tiny_file, tmp_path):
    """A checkpoint that cannot be written is said in one sentence, and changes nothing about the training."""
    mounting(FILL, tmp_path, tiny_file, 40, 0, *COMMAND)
    said = (tmp_path / "full.err").read_text()
    assert "out of memory" not in said and "Traceback" not in said
    assert "No space left on device: it goes on without this checkpoint" in said


READ_ONLY = """
results=$1 spec=$2; shift 2
cp -r "$results" "$disk/out"
mount -o remount,ro "$disk"
for arguments in "run $spec --out $disk/out" "run $spec --out $disk/new" "table $disk/out" \
    "fit $disk/out" "status $disk/out"; do
    "$@" $arguments 2>&1 >/dev/null
    echo "status $?"
done
"""


@pytest.mark.slow
def test_read_only(mounting, tiny_file, tiny_results):
    """Where nothing can be written `run` says so in a sentence; what only reads works as ever."""
    lines = mounting(READ_ONLY, tiny_results, tiny_file, *COMMAND)
    statuses = [line.removeprefix("status ") for line in lines if line.startswith("status ")]
    assert statuses == ["1", "1", "0", "0", "0"]
    said = [line for line in lines if line.startswith("depthlaw: ")]
    for sentence, name in zip(said, ("out", "new"), strict=True):
        assert sentence.endswith(f"/{name}/lock cannot be written: Read-only file system")
