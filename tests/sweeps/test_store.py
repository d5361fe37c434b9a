"""Laws of the store: a file is whole or not there, and a job is done when its record says so truly."""

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _files, _record, _store
from sweeps._config import ConfigError
from sweeps._files import StoreError, is_temporary, parse_json, remove, visible, write_atomic, write_json
from sweeps._jobs import PROVENANCE, SCHEMA_VERSION, Job, Result, expand
from sweeps._spec import parse_spec
from sweeps._store import Locked, Store
from sweeps._toy import Toy
from toymodels import CohortConfig

SOURCE = {"sweep": {"name": "x"}, "base": {"width": 4, "depths": [1, 2], "seeds": [0]}}
CONFIG = CohortConfig(width=4, depths=(1, 2), seeds=(0,))
JOB = Job("toy", CONFIG)
OTHER = Job("toy", CohortConfig(width=4, depths=(1, 2), seeds=(1,)))
ABOUT = {
    "version": "1.2",
    "commit": None,
    "dirty": True,
    "device": "abacus",
    "precision": "float32, products float32",
    "wall_seconds": 1.0,
}
FAILED = ("failed", Result([], {}), ABOUT, "RuntimeError: the reason", "where it was")


@pytest.fixture
def store(tmp_path, instant):
    """A store with the record of one job."""
    store = Store(tmp_path / "out")
    configs = parse_spec(SOURCE, "x").configs
    assert configs == (CONFIG,)
    store.out.mkdir()
    store.claim(SOURCE, expand("toy", configs))
    [result] = Toy().train([CONFIG])
    store.write(JOB, "done", result, ABOUT)
    return store


def record_of(store, job=JOB):
    return store.out / "jobs" / job.id / "record.json"


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestWriteAtomic:
    @given(st.binary(max_size=10_000), st.booleans())
    def test_whole(self, tmp_path_factory, data, durable):
        """The file holds exactly the bytes, and nothing else is left in the folder, which is made."""
        path = tmp_path_factory.mktemp("w") / "a" / "b"
        write_atomic(path, data, durable)
        assert path.read_bytes() == data and files(path.parent) == ["b"]

    @pytest.mark.parametrize("name", ["write", "fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_failure_leaves_nothing(self, tmp_path, monkeypatch, name, error):
        """A full disk or Ctrl-C at any moment leaves the old file as it was and no other."""
        path = tmp_path / "record.json"
        path.write_bytes(b"old")

        def fail(*arguments):
            raise error

        if name == "write":
            opened = os.fdopen

            def full(descriptor, mode):
                file = opened(descriptor, mode)
                monkeypatch.setattr(_files.os, "fdopen", opened)
                file.close()
                return _Full(error)

            monkeypatch.setattr(_files.os, "fdopen", full)
        else:
            monkeypatch.setattr(_files.os, name, fail)
        expected = StoreError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected) as raised:
            write_atomic(path, b"new")
        if expected is StoreError:
            assert str(raised.value) == f"{path} cannot be written: No space left on device"
        monkeypatch.undo()
        assert path.read_bytes() == b"old" and files(tmp_path) == ["record.json"]

    def test_what_is_durable_is_synced(self, tmp_path, monkeypatch):
        """File and folder have reached the disk on return, unless they need not outlive a power cut."""
        synced = []
        monkeypatch.setattr(_files.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
        write_atomic(tmp_path / "x", b"", durable=False)
        assert synced == []
        write_atomic(tmp_path / "y", b"")
        assert synced == [(tmp_path / "y").stat().st_ino, tmp_path.stat().st_ino]

    def test_links_and_pipes_stay_what_they_are(self, tmp_path):
        """What a link points to is written, and the link stays; a pipe is written to, not replaced."""
        link, pipe = tmp_path / "link", tmp_path / "pipe"
        link.symlink_to(tmp_path / "target")
        write_atomic(link, b"new")
        assert link.is_symlink() and (tmp_path / "target").read_bytes() == b"new"
        os.mkfifo(pipe)
        with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            write_atomic(pipe, b"through")
            assert reader.read() == b"through"
        assert pipe.is_fifo()

    def test_says_why(self, tmp_path):
        """A path that cannot be is refused in a sentence."""
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match=r"file/x cannot be written: "):
            write_atomic(tmp_path / "file" / "x", b"")
        with pytest.raises(StoreError, match=r"cannot be written: Is a directory"):
            write_atomic(tmp_path, b"")

    def test_permissions_are_the_users(self, tmp_path):
        """The file may be read by whom the umask allows, not by the owner alone as temporary files are."""
        write_atomic(tmp_path / "x", b"")
        mask = os.umask(0)
        os.umask(mask)
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666 & ~mask

    def test_json_knows_no_nan(self, tmp_path):
        """NaN is refused before anything is written, and where it is read."""
        with pytest.raises(ValueError, match="JSON compliant"):
            write_json(tmp_path / "x", float("nan"))
        assert files(tmp_path) == []
        for text in ("NaN", "[-Infinity]", '{"a": Infinity}'):
            with pytest.raises(ValueError, match="is not JSON"):
                parse_json(text)

    def test_what_a_kill_leaves_is_known(self, tmp_path, monkeypatch):
        """A temporary file is told from others by its name: not an editor's, not the user's, not a result."""
        monkeypatch.setattr(_files.os, "replace", lambda *_: None)
        monkeypatch.setattr(_files.os, "unlink", lambda *_: None)
        for name in ("spec.json", "record.json", "curves.npz"):
            write_atomic(tmp_path / name, b"")
        left = os.listdir(tmp_path)
        assert len(left) == 3 and all(is_temporary(name) for name in left)
        assert list(visible(tmp_path)) == []
        others = ("record.json", ".record.json.swp", ".spec.json", ".nfs0000000", "x.json.abcdefgh", "lock")
        assert not any(is_temporary(name) for name in others)


class _Full:
    """A file on a file system that is full."""

    def __init__(self, error):
        self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def write(self, data):
        raise self.error


def test_remove(tmp_path):
    """What is removed is gone, be it file, folder or link; what was not there is no error."""
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "below" / "file").write_text("")
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("folder", "link", "nothing"):
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    with pytest.raises(StoreError, match="kept/x cannot be removed: "):
        (tmp_path / "kept").rmdir()
        (tmp_path / "kept").write_text("")
        remove(tmp_path / "kept" / "x")


class TestClaim:
    def test_same_spec(self, store):
        """The folder of a spec can be claimed again by it, in whatever order it names its keys."""
        before = {path: path.stat().st_mtime_ns for path in store.out.iterdir()}
        store.claim({"base": dict(reversed(SOURCE["base"].items())), "sweep": SOURCE["sweep"]}, [JOB])
        assert store.spec() == SOURCE
        assert {path: path.stat().st_mtime_ns for path in store.out.iterdir()} == before

    def test_other_spec(self, store):
        """The folder of another spec is refused, and stays as it was."""
        before = files(store.out)
        with pytest.raises(ConfigError, match="holds results of another spec: choose another --out, or add "):
            store.claim({"sweep": {"name": "y"}}, [])
        assert files(store.out) == before and store.spec() == SOURCE

    def test_what_differs_is_said(self, store):
        """Each key that differs is named with both values, wherever it is; name, description and fit may."""
        other = {
            "sweep": {"name": "y", "description": "renamed"},
            "base": {"width": 8, "depths": [1, 2]},
            "case": [{"steps": 3}, {"teacher": {"kind": "tied"}}],
            "grid": {"batch": [1, 2]},
            "fit": {"by": ["seed"]},
        }
        with pytest.raises(ConfigError) as refused:
            store.claim(other, [])
        assert str(refused.value) == (
            f"{store.out} holds results of another spec: choose another --out, or add to it with --extend. "
            "base.seeds: [0] there, not set now; base.width: 4 there, 8 now; case[0].steps: not set there, 3 "
            'now; case[1].teacher.kind: not set there, "tied" now; grid.batch: not set there, [1, 2] now'
        )

    def test_name_description_and_fit_may_change(self, store):
        """They say nothing of what is trained: the newest holds."""
        renamed = {
            **SOURCE,
            "sweep": {"name": "y", "description": "renamed"},
            "fit": {"by": ["depth"], "floor": 0.1},
        }
        store.claim(renamed, [JOB])
        assert store.spec() == renamed
        assert not (store.out / "spec-1.json").exists()

    def test_extend(self, store):
        """Told to, a folder takes another spec and its jobs; every one before is kept, records stay."""
        specs = [SOURCE, {**SOURCE, "base": {"width": 5}}, {**SOURCE, "base": {"width": 6}}]
        for spec in specs[1:]:
            store.claim(spec, [OTHER], extend=True)
        assert store.spec() == specs[-1] and store.asked().keys() == {OTHER.id}
        kept = [json.loads((store.out / f"spec-{number}.json").read_text()) for number in (1, 2)]
        assert kept == specs[:-1]
        assert store.is_done(JOB)

    def test_asked(self, store):
        """Beside the spec stands what it asks for, with labels and costs, for those who only look."""
        assert store.asked() == {JOB.id: ("independent, seed 0", JOB.flops)}

    @pytest.mark.parametrize(
        "damage", [None, b"", b"\0\0\0\0", b"[]", b'{"a": 3}', b'{"a": [1, "b"]}', b"{}"]
    )
    def test_a_list_of_jobs_that_is_damaged_is_written_anew(self, store, damage):
        """A run killed before it wrote the list, or a list that has been damaged, is no hindrance."""
        path = store.out / "jobs.json"
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        if damage != b"{}":
            with pytest.raises((ConfigError, StoreError), match=r"jobs\.json"):
                store.asked()
        store.claim(SOURCE, [JOB])
        assert store.asked() == {JOB.id: (JOB.label, JOB.flops)}

    def test_a_claim_that_was_cut_short(self, tmp_path, monkeypatch):
        """Wherever a first claim is killed, the next one succeeds."""
        write = _store.write_json

        for writes in (0, 1):
            left = [writes]

            def killed(path, value, left=left):
                if left[0] == 0:
                    raise KeyboardInterrupt
                left[0] -= 1
                write(path, value)

            store = Store(tmp_path / str(writes))
            monkeypatch.setattr(_store, "write_json", killed)
            with pytest.raises(KeyboardInterrupt), store.locked():
                store.claim(SOURCE, [JOB])
            monkeypatch.setattr(_store, "write_json", write)
            with store.locked():
                store.claim(SOURCE, [JOB])
            assert store.spec() == SOURCE and store.asked().keys() == {JOB.id}

    def test_foreign_folder(self, tmp_path):
        """A folder with files of somebody else, or a file, is refused and left alone."""
        (tmp_path / "thesis.tex").write_text("important")
        with pytest.raises(ConfigError, match="exists and is not a folder of results: choose another"):
            Store(tmp_path).claim(SOURCE, [])
        with pytest.raises(ConfigError, match="exists and is not a folder of results: choose another"):
            with Store(tmp_path / "thesis.tex").locked():
                raise AssertionError("a file cannot be held")
        assert files(tmp_path) == ["thesis.tex"] and (tmp_path / "thesis.tex").read_text() == "important"

    def test_empty_folder(self, tmp_path):
        """An empty folder can be claimed, and one with the hidden remains of a stopped write."""
        (tmp_path / ".spec.json.abc").write_text("")
        Store(tmp_path).claim(SOURCE, [])
        assert Store(tmp_path).spec() == SOURCE

    def test_no_results(self, tmp_path):
        """What is not a folder of results is said to be none, and a spec that is damaged to be so."""
        (tmp_path / "file").write_text("")
        for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
            with pytest.raises(ConfigError, match="is not a folder of results: it has no spec.json"):
                Store(path).spec()
        (tmp_path / "spec.json").write_text('{"sweep":')
        with pytest.raises(StoreError, match="spec.json cannot be read"):
            Store(tmp_path).spec()
        (tmp_path / "spec.json").write_text("[]")
        with pytest.raises(StoreError, match="spec.json is not what it should be: an object"):
            Store(tmp_path).spec()
        for kind in ('"other"', "3", "null"):
            (tmp_path / "spec.json").write_text(f'{{"sweep": {{"kind": {kind}}}}}')
            with pytest.raises(StoreError, match=r"spec\.json is of a kind, .*, that this version does"):
                Store(tmp_path).table()


class TestLock:
    HOLD = (
        "import sys, time\nfrom pathlib import Path\nfrom sweeps._store import Store\n"
        "with Store(Path(sys.argv[1])).locked():\n    print('held', flush=True)\n    time.sleep(600)\n"
    )

    @pytest.fixture
    def holder(self, tmp_path):
        """Another process that holds the folder, and how to end it at once."""
        command = [sys.executable, "-c", self.HOLD, str(tmp_path / "out")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"held\n"
            yield process
            process.kill()

    def test_another_process_is_refused(self, holder, tmp_path):
        """While one process holds the folder, no other can, and is told which one does."""
        store = Store(tmp_path / "out")
        wanted = (
            f"{store.out} is in use by process {holder.pid} on {socket.gethostname()}: "
            "wait for it, or choose another --out"
        )
        for _ in range(2):
            with pytest.raises(Locked, match=f"^{re.escape(wanted)}$"):
                with store.locked():
                    raise AssertionError("two processes hold one folder")

    def test_a_process_that_was_killed_is_no_hindrance(self, holder, tmp_path):
        """The lock ends with its process, though that could do nothing for it, and the file stays."""
        holder.kill()
        holder.wait()
        assert (tmp_path / "out" / "lock-holder").read_text().startswith(f"process {holder.pid} ")
        with Store(tmp_path / "out").locked():
            assert (tmp_path / "out" / "lock-holder").read_text().startswith(f"process {os.getpid()} ")

    def test_ends_with_its_block(self, tmp_path):
        """Free again afterwards, also after an error; meanwhile not even the same process gets it twice."""
        store = Store(tmp_path / "out")
        with pytest.raises(KeyError), store.locked():
            with pytest.raises(Locked, match=f"in use by process {os.getpid()} on "):
                with Store(tmp_path / "out").locked():
                    raise AssertionError("held twice")
            raise KeyError
        with store.locked():
            pass

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        """What cannot be locked is said in a sentence."""
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="lock cannot be written: Not a directory"):
            with Store(tmp_path / "file" / "out").locked():
                raise AssertionError("held nothing")


def resealed(data, **fields):
    """The record with other fields, whole: as a program would write it that means something else by it."""
    return _record.sealed(_record.unsealed(data) | fields)


def with_row(data, **columns):
    """The record with other values in its first row, whole."""
    rows = _record.unsealed(data)["rows"]
    return resealed(data, rows=[rows[0] | columns, *rows[1:]])


NOT_WHOLE = "is not a whole record: its end or its hash is missing or wrong"
OTHER_COLUMNS = "has rows with other columns than this version writes"


class TestRecords:
    def test_round_trip(self, store, instant):
        """Rows and curves come back as they were written, each row with its job and where it comes from."""
        [result] = Toy().train([CONFIG])
        skipped = []
        origin = {name: ABOUT[name] for name in PROVENANCE}
        wanted = [{"job": JOB.id, **row, **origin} for row in result.rows]
        assert store.table(skipped).to_dicts() == wanted and skipped == []
        found = store.curves(JOB.id)
        assert found.keys() == result.curves.keys()
        assert all(np.array_equal(found[name], result.curves[name]) for name in found)
        [record] = store.records()
        assert record["status"] == "done" and record["provenance"] == ABOUT
        assert store.record(JOB.id) == record and store.statuses() == {JOB.id: "done"}
        assert store.is_done(JOB) and not store.is_done(OTHER)

    def test_schema(self, store, tmp_path):
        """A table has the job, the kind's columns and the origin, in order and type, rows or none."""
        types = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
        columns = {**Toy.columns, **PROVENANCE}
        expected = {"job": pl.String, **{name: types[column.type] for name, column in columns.items()}}
        (tmp_path / "empty").mkdir()
        empty = Store(tmp_path / "empty")
        empty.claim(SOURCE, [])
        assert list(store.columns()) == list(expected)
        for table in (store.table(), empty.table()):
            assert dict(table.schema) == expected and table.columns == list(expected)

    def test_what_is_left_unsaid_is_null(self, store):
        """Where a record says nothing of its origin, the table has nulls."""
        [result] = Toy().train([CONFIG])
        store.write(JOB, "done", result, {})
        assert store.table().select(*PROVENANCE).unique().rows() == [(None,) * len(PROVENANCE)]

    def test_sorted(self, store, instant):
        """Rows stand in the order of their settings, whatever the order of their jobs' ids."""
        seeds = range(2, 12)
        for config in Toy().split(CohortConfig(width=4, depths=(3, 1), seeds=tuple(seeds))):
            [result] = Toy().train([config])
            store.write(Job("toy", config), "done", result, ABOUT)
        keys = store.table().select("seed", "depth").rows()
        assert keys == [(0, 1), (0, 2), *((seed, depth) for seed in seeds for depth in (1, 3))]

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda data: data[: len(data) // 2], NOT_WHOLE),
            (lambda data: data[:-1], NOT_WHOLE),
            (lambda data: data + b"\n", NOT_WHOLE),
            (lambda data: b"", "is not a whole record: it is empty"),
            (lambda data: bytes(len(data)), NOT_WHOLE),
            (lambda data: b"\xff\xfe", NOT_WHOLE),
            (lambda data: data.replace(b'"step": 40000', b'"step": NaN'), NOT_WHOLE),
            (lambda data: data.replace(b'"step": 40000', b'"step": 40001'), NOT_WHOLE),
            (lambda data: b"null", NOT_WHOLE),
            (lambda data: b"[]", NOT_WHOLE),
            (lambda data: b'{"rows": []}', NOT_WHOLE),
            (
                lambda data: json.dumps(parse_json(data) | {"schema": 1}).encode(),
                "is not a whole record: it is of schema 1, and this version writes 2",
            ),
            (lambda data: resealed(data, schema=3), "is not this job's record: its schema is not 2"),
            (lambda data: resealed(data, job="abc"), f"is not this job's record: its job is not '{JOB.id}'"),
            (lambda data: resealed(data, kind="no"), "is of a kind, 'no', that this version does not know"),
            (lambda data: resealed(data, rows=None), OTHER_COLUMNS),
            (lambda data: resealed(data, rows=[3]), OTHER_COLUMNS),
            (lambda data: resealed(data, rows=[{"loss": 3}]), OTHER_COLUMNS),
            (lambda data: with_row(data, depth="one"), OTHER_COLUMNS),
            (lambda data: with_row(data, depth=1.5), OTHER_COLUMNS),
            (lambda data: with_row(data, depth=True), OTHER_COLUMNS),
            (lambda data: with_row(data, more=1), OTHER_COLUMNS),
        ],
    )
    def test_damaged_record(self, store, damage, message):
        """A record that is cut short, changed, foreign or another job's is not done, and is named."""
        assert SCHEMA_VERSION == 2  # which the messages say
        path = record_of(store)
        path.write_bytes(damage(path.read_bytes()))
        assert not store.is_done(JOB)
        skipped = []
        assert len(store.table(skipped)) == 0 and store.statuses() == {}
        [sentence] = skipped
        assert sentence.startswith(f"{path} {message}")
        with pytest.raises(StoreError, match=re.escape(message)):
            store.record(JOB.id)
        with pytest.raises(StoreError, match=re.escape(message)):
            store.curves(JOB.id)

    def test_seal(self, store):
        """A record is a JSON object whose last entry is the SHA-256 of all that comes before it."""
        data = record_of(store).read_bytes()
        body, _, end = data.rpartition(b",\n")
        assert json.loads(data)["sha256"] == hashlib.sha256(body).hexdigest()
        assert end == b' "sha256": "%s"\n}\n' % hashlib.sha256(body).hexdigest().encode()

    def test_missing_curves(self, store):
        """A record without the curves that it names is not done."""
        record_of(store).with_name("curves.npz").unlink()
        assert not store.is_done(JOB)

    def test_copied_record(self, store):
        """A record that lies in another job's folder is not that job's."""
        path = record_of(store)
        shutil.copytree(path.parent, path.parent.parent / OTHER.id)
        assert not store.is_done(OTHER)
        skipped = []
        assert len(store.table(skipped)) == 2 and len(skipped) == 1

    @pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut short", b"\x93NUMPY", None])
    def test_damaged_curves(self, store, data):
        """Curves that are missing or damaged are said to be so."""
        path = record_of(store).with_name("curves.npz")
        path.unlink()
        message = "curves.npz, which its record names, cannot be read: No such file"
        if data is not None:
            path.write_bytes(data)
            message = "curves.npz is not what its record names"
        with pytest.raises(StoreError, match=message):
            store.curves(JOB.id)

    def test_no_record(self, store):
        """A job that has no record has no curves either."""
        for read in (store.record, store.curves):
            with pytest.raises(FileNotFoundError):
                read(OTHER.id)

    def test_diverged_is_said(self, store, instant):
        """A record with a diverged student is done and says so; its null loss reaches the table."""
        [result] = Toy().train([OTHER.config])
        result.rows[0] |= {"status": "diverged", "loss": None}
        store.write(OTHER, "diverged", result, {})
        assert store.statuses() == {JOB.id: "done", OTHER.id: "diverged"} and store.is_done(OTHER)
        assert store.table().filter(pl.col("status") == "diverged")["loss"].to_list() == [None]

    def test_failed_is_said(self, store):
        """A failure keeps its sentence and trace, has no rows, is not done, and leaves its checkpoint."""
        store.checkpoint(OTHER.id).mkdir(parents=True)
        store.write(OTHER, *FAILED)
        record = store.record(OTHER.id)
        assert (record["error"], record["trace"]) == FAILED[-2:]
        assert store.statuses()[OTHER.id] == "failed" and not store.is_done(OTHER)
        assert len(store.table()) == 2 and store.checkpoint(OTHER.id).exists()
        with pytest.raises(StoreError, match="curves.npz, which its record names, cannot be read"):
            store.curves(OTHER.id)

    def test_done_needs_no_checkpoint(self, store):
        """With the record of a job that is done its checkpoint goes."""
        (store.checkpoint(OTHER.id) / "1").mkdir(parents=True)
        [result] = Toy().train([OTHER.config])
        store.write(OTHER, "done", result, ABOUT)
        assert sorted(os.listdir(store.folder(OTHER.id))) == ["curves.npz", "record.json"]

    @pytest.mark.parametrize("name", ["curves.npz", "record.json"])
    def test_killed_while_it_was_written(self, store, monkeypatch, name):
        """Killed before the curves or before the record, a job is not done and leaves no record."""

        def killed(path, data):
            if path.name == name:
                raise KeyboardInterrupt
            write_atomic(path, data)

        [result] = Toy().train([OTHER.config])
        monkeypatch.setattr(_store, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            store.write(OTHER, "done", result, ABOUT)
        assert not store.is_done(OTHER) and store.statuses() == {JOB.id: "done"}


def test_the_head_of_a_record_is_the_record_up_to_its_rows(store):
    """Whatever texts it holds, head and whole agree in every field of the head; damage shows in both."""
    job = Job("toy", CONFIG)
    store.write(job, "failed", Result([], {}), {}, 'an error\n "rows": [', ',\n "rows": ')
    head, whole = store.record(job.id, head=True), store.record(job.id)
    assert head == {key: whole[key] for key in head} and {"status", "error", "config"} <= head.keys()
    path = record_of(store)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match="is not a whole record"):
        store.record(job.id, head=True)


class TestHeal:
    def healed(self, store):
        """What is said while the store is healed."""
        notes = []
        store.heal(notes.append)
        return notes

    def test_a_sound_store_is_left_alone(self, store):
        """Nothing is said, moved, removed or written where nothing is wrong."""
        store.write(OTHER, *FAILED)
        before = {path: path.stat().st_mtime_ns for path in store.out.rglob("*")}
        assert self.healed(store) == []
        assert {path: path.stat().st_mtime_ns for path in store.out.rglob("*")} == before

    def test_a_bad_record_is_set_aside(self, store):
        """It is named with the reason, and kept byte by byte with its curves where nothing reads it."""
        path = record_of(store)
        cut, curves = path.read_bytes()[:-5], path.with_name("curves.npz").read_bytes()
        path.write_bytes(cut)
        aside = store.out / "set_aside"
        assert self.healed(store) == [f"{path} {NOT_WHOLE}; set aside in {aside}"]
        assert not path.exists() and self.healed(store) == []
        assert (aside / f"{JOB.id}.1.record.json").read_bytes() == cut
        assert (aside / f"{JOB.id}.1.curves.npz").read_bytes() == curves
        skipped = []
        assert len(store.table(skipped)) == 0 and skipped == []

    def test_nothing_is_ever_overwritten(self, store):
        """However often a job's record goes bad, each stays."""
        path = record_of(store)
        for number in range(1, 4):
            path.write_text(f"bad {number}")
            self.healed(store)
        kept = [(store.out / "set_aside" / f"{JOB.id}.{n}.record.json").read_text() for n in (1, 2, 3)]
        assert kept == ["bad 1", "bad 2", "bad 3"]

    @pytest.mark.parametrize("data", [None, b"", b"\0" * 100])
    def test_bad_curves(self, store, data):
        """A record beside curves that it does not name is set aside with them, and what is wrong is said."""
        path = record_of(store).with_name("curves.npz")
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        [note] = self.healed(store)
        assert note.startswith(str(path)) and not record_of(store).exists() and not path.exists()
        assert len(files(store.out / "set_aside")) == (1 if data is None else 2)

    def test_another_schema(self, store):
        """The records of an older version are set aside as what they are, not as damaged."""
        path = record_of(store)
        path.write_text(json.dumps({"schema": 1, "job": JOB.id, "rows": []}, indent=1))
        [note] = self.healed(store)
        assert f"{path} is not a whole record: it is of schema 1, and this version writes 2" in note

    def test_a_record_that_is_a_folder(self, store):
        """Even a folder in a record's place is moved out of the way."""
        path = record_of(store)
        path.unlink()
        path.mkdir()
        (path / "x").write_text("")
        [note] = self.healed(store)
        assert note.startswith(f"{path} is not a whole record: ") and not path.exists()
        assert f"{JOB.id}.1.record.json/x" in files(store.out / "set_aside")

    def test_leftovers_of_killed_writes_go(self, store):
        """Temporary files of the folder and of its jobs are removed; other hidden files are not ours."""
        for path in (store.out / ".spec.json.a1b2c3d4", record_of(store).with_name(".curves.npz.a_b2c3d4")):
            path.write_text("half")
        mine = [store.out / ".notes", store.out / ".spec.json.swp"]
        for path in mine:
            path.write_text("mine")
        before = files(store.out)
        assert self.healed(store) == []
        assert len(files(store.out)) == len(before) - 2 and all(path.exists() for path in mine)
        assert [name for name in files(store.out) if is_temporary(name.rpartition("/")[2])] == []

    def test_checkpoints(self, store):
        """A checkpoint beside a record that is done is removed; one that is still needed stays."""
        for job in (JOB, OTHER):
            (store.checkpoint(job.id) / "1").mkdir(parents=True)
            (store.checkpoint(job.id) / "1" / "arrays").write_text("")
        store.write(OTHER, *FAILED)
        unfinished = store.checkpoint("0123456789ab")
        unfinished.mkdir(parents=True)
        assert self.healed(store) == []
        assert not store.checkpoint(JOB.id).exists()
        assert (store.checkpoint(OTHER.id) / "1" / "arrays").exists() and unfinished.exists()

    def test_a_bad_record_beside_a_checkpoint(self, store):
        """When the record goes, the checkpoint is what the job goes on from."""
        store.checkpoint(JOB.id).mkdir()
        record_of(store).write_text("{")
        assert len(self.healed(store)) == 1 and store.checkpoint(JOB.id).exists()

    def test_before_the_first_job(self, tmp_path):
        """A folder without jobs, and one with a stray file among them, have nothing to heal."""
        (tmp_path / "out").mkdir()
        store = Store(tmp_path / "out")
        store.claim(SOURCE, [JOB])
        assert self.healed(store) == []
        (store.out / "jobs").mkdir()
        (store.out / "jobs" / "notes.txt").write_text("mine")
        assert self.healed(store) == [] and (store.out / "jobs" / "notes.txt").exists()
        assert list(store.records()) == []
