"""Laws of the store: a file is whole or not there, and a job is done when its record says so truly."""

import errno
import json
import os
import shutil

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _store
from sweeps._config import ConfigError
from sweeps._jobs import COLUMNS, Job, train
from sweeps._spec import parse_spec
from sweeps._store import Store, StoreError, write_atomic, write_json
from toymodels import CohortConfig

SOURCE = {"sweep": {"name": "x"}, "base": {"width": 4, "depths": [1, 2], "seeds": [0]}}
CONFIG = CohortConfig(width=4, depths=(1, 2), seeds=(0,))


@pytest.fixture
def store(tmp_path, instant):
    """A store with the record of one job."""
    store = Store(tmp_path / "out")
    store.claim(SOURCE)
    job = Job(CONFIG)
    [(rows, curves)] = train([job])
    store.write(job, rows, curves, {"wall_seconds": 1.0})
    assert parse_spec(SOURCE, "x").cohorts == (CONFIG,)
    return store


def record_of(store):
    return store.out / "jobs" / Job(CONFIG).id / "record.json"


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestWriteAtomic:
    @given(st.binary(max_size=10_000))
    def test_whole(self, tmp_path_factory, data):
        """The file holds exactly the bytes, and nothing else is left in the folder, which is made."""
        path = tmp_path_factory.mktemp("w") / "a" / "b"
        write_atomic(path, data)
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
                monkeypatch.setattr(_store.os, "fdopen", opened)
                file.close()
                return _Full(error)

            monkeypatch.setattr(_store.os, "fdopen", full)
        else:
            monkeypatch.setattr(_store.os, name, fail)
        expected = StoreError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected) as raised:
            write_atomic(path, b"new")
        if expected is StoreError:
            assert str(raised.value) == f"{path} cannot be written: No space left on device"
        monkeypatch.undo()
        assert path.read_bytes() == b"old" and files(tmp_path) == ["record.json"]

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
        """NaN is refused before anything is written."""
        with pytest.raises(ValueError, match="JSON compliant"):
            write_json(tmp_path / "x", float("nan"))
        assert files(tmp_path) == []


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


class TestClaim:
    def test_same_spec(self, store):
        """The folder of a spec can be claimed again by it, in whatever order it names its keys."""
        store.claim({"base": dict(reversed(SOURCE["base"].items())), "sweep": SOURCE["sweep"]})
        assert store.spec() == SOURCE

    def test_other_spec(self, store):
        """The folder of another spec is refused, and stays as it was."""
        before = files(store.out)
        with pytest.raises(ConfigError, match="holds results of another spec: choose another --out"):
            store.claim({"sweep": {"name": "y"}})
        assert files(store.out) == before and store.spec() == SOURCE

    def test_foreign_folder(self, tmp_path):
        """A folder with files of somebody else, or a file, is refused and left alone."""
        (tmp_path / "thesis.tex").write_text("important")
        for path in (tmp_path, tmp_path / "thesis.tex"):
            with pytest.raises(ConfigError, match="exists and is not a folder of results: choose another"):
                Store(path).claim(SOURCE)
        assert files(tmp_path) == ["thesis.tex"] and (tmp_path / "thesis.tex").read_text() == "important"

    def test_empty_folder(self, tmp_path):
        """An empty folder can be claimed, and one with the hidden remains of a stopped write."""
        (tmp_path / ".spec.json.abc").write_text("")
        Store(tmp_path).claim(SOURCE)
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
        with pytest.raises(StoreError, match="spec.json is not a spec"):
            Store(tmp_path).spec()


class TestRecords:
    def test_round_trip(self, store, instant):
        """Rows and curves come back as they were written."""
        [(rows, curves)] = train([Job(CONFIG)])
        skipped = []
        assert store.table(skipped).to_dicts() == rows and skipped == []
        found = store.curves(Job(CONFIG).id)
        assert found.keys() == curves.keys()
        assert all(np.array_equal(found[name], curves[name]) for name in curves)
        [record] = store.records()
        assert record["status"] == "done" and record["provenance"] == {"wall_seconds": 1.0}
        assert store.is_done(Job(CONFIG))
        assert not store.is_done(Job(CohortConfig(width=5, depths=(1, 2), seeds=(0,))))

    def test_schema(self, store, tmp_path):
        """The table's columns and types are those of COLUMNS, with rows and without."""
        types = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
        expected = {name: types[column.type] for name, column in COLUMNS.items()}
        empty = Store(tmp_path / "empty")
        empty.claim(SOURCE)
        for table in (store.table(), empty.table()):
            assert dict(table.schema) == expected

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda text: text[: len(text) // 2], "is not a whole record"),
            (lambda text: text[:-2], "is not a whole record"),
            (lambda text: "", "is not a whole record"),
            (lambda text: b"\xff\xfe", "is not a whole record"),
            (lambda text: text.replace('"step": 40000', '"step": NaN'), "is not a whole record"),
            (lambda text: "null", "is not this job's record"),
            (lambda text: "[]", "is not this job's record"),
            (lambda text: '{"rows": []}', "is not this job's record: its schema is not 1"),
            (lambda text: changed(text, schema=2), "is not this job's record: its schema is not 1"),
            (lambda text: changed(text, job="abc"), "is not this job's record: its job is not '"),
            (
                lambda text: changed(text, config={"width": 5}),
                "is not this job's record: its config is anoth",
            ),
            (lambda text: changed(text, config=None), "is not this job's record: its config is another's"),
            (lambda text: changed(text, rows=None), "has rows with other columns than this version writes"),
            (lambda text: changed(text, rows=[3]), "has rows with other columns than this version writes"),
            (lambda text: changed(text, rows=[{"loss": 3}]), "has rows with other columns"),
            (lambda text: text.replace('"depth": 1,', '"depth": "one",'), "has rows with other columns"),
            (lambda text: text.replace('"depth": 1,', '"depth": 1.5,'), "has rows with other columns"),
        ],
    )
    def test_damaged_record(self, store, damage, message):
        """A record that is cut short, empty, foreign or another job's is not done, and is named."""
        path = record_of(store)
        damaged = damage(path.read_text())
        path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
        assert not store.is_done(Job(CONFIG))
        skipped = []
        assert len(store.table(skipped)) == 0
        [sentence] = skipped
        assert str(path) in sentence and message in sentence

    def test_missing_rows_or_curves(self, store):
        """A record with fewer rows than students, or without its curves, is not done."""
        path = record_of(store)
        whole = path.read_text()
        path.write_text(changed(whole, rows=json.loads(whole)["rows"][:1]))
        assert not store.is_done(Job(CONFIG))
        path.write_text(whole)
        assert store.is_done(Job(CONFIG))
        path.with_name("curves.npz").unlink()
        assert not store.is_done(Job(CONFIG))

    def test_copied_record(self, store):
        """A record that lies in another job's folder is not that job's."""
        path = record_of(store)
        other = Job(CohortConfig(width=4, depths=(1, 2), seeds=(1,)))
        shutil.copytree(path.parent, path.parent.parent / other.id)
        assert not store.is_done(other)
        skipped = []
        assert len(store.table(skipped)) == 2 and len(skipped) == 1

    @pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut short", b"\x93NUMPY", None])
    def test_damaged_curves(self, store, data):
        """Curves that are missing or damaged are said to be so."""
        path = record_of(store).with_name("curves.npz")
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(StoreError, match="curves.npz cannot be read"):
            store.curves(Job(CONFIG).id)

    def test_diverged_is_said(self, store, instant):
        """A record with a diverged student says so, and its null loss survives the way to the table."""
        job = Job(CohortConfig(width=4, depths=(1, 2), seeds=(1,)))
        [(rows, curves)] = train([job])
        rows[0] |= {"status": "diverged", "loss": None}
        store.write(job, rows, curves, {})
        assert {record["status"] for record in store.records()} == {"done", "diverged"}
        assert store.table().filter(pl.col("status") == "diverged")["loss"].to_list() == [None]


def changed(text, **fields):
    """The record with other fields."""
    return json.dumps(json.loads(text) | fields)
