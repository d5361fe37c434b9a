"""Corpora yield the documents that are there, in one order, and say what is wrong with those that are not."""

import gzip
import itertools
import json
import os
import sys
from pathlib import Path

import polars as pl
import pytest

from llm._corpus import LEFT_OUT, Corpus, Embedded, Files, Hub, _standard_library
from llm._readers import PIECE, CorpusError

TEXTS = ["one", "zwei Wörter", "три", "𝟜\nlines", ""]


def _jsonl(path: Path, rows: list[dict], opened=open) -> Path:
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


def _rows(texts: list[str]) -> list[dict]:
    return [{"id": number, "text": text} for number, text in enumerate(texts)]


def _read(*paths: Path, **options) -> list[str]:
    return list(Files(tuple(map(str, paths)), **options).documents())


def test_embedded_is_the_standard_library_without_tests_and_packages() -> None:
    """Every file of the standard library once, none of tests or packages; about the 12 MB of its doc."""
    corpus = Embedded()
    paths = _standard_library()
    assert {path.suffix for path in paths} <= {".py", ".txt", ".rst"}
    assert not any(LEFT_OUT & set(path.parts[-4:-1]) for path in paths)
    assert Path(os.__file__).resolve() in {path.resolve() for path in paths}
    documents = list(corpus.documents())
    assert len(documents) == len(paths) == corpus.extent().documents
    assert 5e6 < sum(len(text.encode()) for text in documents) < 5e7
    version = ".".join(map(str, sys.version_info[:3]))
    assert version in corpus.version and corpus.version in corpus.fingerprint()
    assert corpus.fingerprint() == Embedded().fingerprint()


def test_an_embedded_file_that_cannot_be_read_is_named(monkeypatch, tmp_path) -> None:
    """A file of the standard library that has gone since it was listed."""
    monkeypatch.setattr("llm._corpus._standard_library", lambda: [tmp_path / "gone.py"])
    for read in (Embedded().fingerprint, Embedded().extent, lambda: list(Embedded().documents())):
        with pytest.raises(CorpusError, match="gone.py cannot be read: No such file"):
            read()


def test_an_embedded_corpus_without_source_is_refused(monkeypatch, tmp_path) -> None:
    """A Python without its library's source has nothing to read, and says what to do."""
    monkeypatch.setattr("llm._corpus._standard_library_root", lambda: tmp_path)
    with pytest.raises(CorpusError, match="empty corpus: .* holds no source; name a corpus of kind files"):
        Embedded().fingerprint()


def test_text_files_are_one_document_each_byte_for_byte(tmp_path) -> None:
    """A text file is one document, whatever its suffix: line ends kept, gzip undone, a BOM dropped."""
    (tmp_path / "a.md").write_bytes("# Ä\r\nb\n".encode())
    (tmp_path / "b").write_bytes(b"no suffix")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "d.txt").write_bytes(b"\xef\xbb\xbfmarked")
    assert _read(tmp_path) == ["# Ä\r\nb\n", "no suffix", "packed", "marked"]


def test_a_single_text_is_cut_into_documents(tmp_path) -> None:
    """A file that is the whole corpus is cut at ends of lines, or where a line is too long, and nothing is
    lost; beside another file it is one document."""
    lines = "".join(f"line {i} " + "x" * (i * 37 % 900) + "\r\n" for i in range(300))
    text = lines + "y" * 5 * PIECE + "\nend"
    path = tmp_path / "input.txt"
    path.write_bytes(text.encode())
    documents = _read(path)
    assert "".join(documents) == text and len(documents) > 10
    assert all(PIECE <= len(piece) <= 2 * PIECE for piece in documents[:-1])
    assert sum(not piece.endswith("\n") for piece in documents) <= 4
    assert list(Files((str(path),)).documents(start=3)) == documents[3:]
    assert Files((str(tmp_path),)).extent() == (None, len(text))
    (tmp_path / "other.txt").write_text("short")
    assert _read(tmp_path) == [text, "short"]


def test_a_pattern_chooses_files_of_folders(tmp_path) -> None:
    """Files whose names do not fit are left out of folders, and taken where they are named."""
    for name in ("a.txt", "b.png", "c/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert _read(tmp_path, pattern="*.txt") == ["a.txt", "c/d.txt"]
    assert _read(tmp_path / "b.png", tmp_path / "c", pattern="*.txt") == ["b.png", "c/d.txt"]
    with pytest.raises(CorpusError, match=r"empty corpus: no files that fit '\*\.md' in "):
        _read(tmp_path, pattern="*.md")


@pytest.mark.parametrize("name", ["a.zip", "a.jsonl.zst", "a.tar.gz", "a.TGZ"])
def test_packed_files_are_refused_by_name(tmp_path, name) -> None:
    """What is not read is not taken for a text."""
    (tmp_path / name).write_bytes(gzip.compress(b"plain", mtime=0))
    with pytest.raises(CorpusError, match=rf"{name} is packed as \.[a-zA-Z]+, which is not read: unpack it"):
        _read(tmp_path / name)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson", "rows.jsonl.gz", "rows.parquet"])
def test_tables_are_one_document_a_row(tmp_path, name, monkeypatch) -> None:
    """JSON lines and Parquet give the field of each row, in order, from any row on."""
    monkeypatch.setattr("llm._readers.ROWS", 2)
    path = tmp_path / name
    if name.endswith("parquet"):
        pl.DataFrame(_rows(TEXTS)).write_parquet(path)
    else:
        _jsonl(path, _rows(TEXTS), gzip.open if name.endswith("gz") else open)
    corpus = Files((str(path),))
    assert list(corpus.documents()) == TEXTS
    assert list(corpus.documents(start=3)) == TEXTS[3:]
    with pytest.raises(CorpusError, match="'id' is 0: it must be a text|column 'id' holds Int64"):
        _read(path, field="id")


def test_blank_lines_of_json_lines_are_no_documents(tmp_path) -> None:
    """Blank lines, CRLF and a BOM do not disturb JSON lines."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n  \n{"text": "b"}')
    assert _read(path) == ["a", "b"]


def test_folders_are_read_in_the_order_of_paths_without_hidden_files(tmp_path) -> None:
    """A folder is all its files, sorted by path, at any depth; hidden files and folders are left out."""
    for name in ("b/2.txt", "b/1.txt", "a.txt", ".git/x.txt", ".hidden", "c/d/e.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert _read(tmp_path) == ["a.txt", "b/1.txt", "b/2.txt", "c/d/e.txt"]
    assert _read(tmp_path / "c", tmp_path / "a.txt") == ["c/d/e.txt", "a.txt"]


def test_fingerprints_follow_content_and_do_not_read_it(tmp_path) -> None:
    """Size or time of change alters the fingerprint of files; looking again does not."""
    path = tmp_path / "a.txt"
    path.write_text("one")
    corpus = Files((str(path),))
    first = corpus.fingerprint()
    assert corpus.fingerprint() == first == corpus.version
    os.utime(path, ns=(1, 1))
    assert corpus.fingerprint() != first
    later = corpus.fingerprint()
    path.write_text("four")
    os.utime(path, ns=(1, 1))
    assert corpus.fingerprint() != later


def test_the_extent_is_told_where_it_is_known(tmp_path) -> None:
    """Texts: their count and bytes. Compressed files and tables: nothing, rather than a guess."""
    (tmp_path / "a.txt").write_text("123")
    (tmp_path / "b.txt").write_text("45")
    assert Files((str(tmp_path),)).extent() == (2, 5)
    _jsonl(tmp_path / "c.jsonl", _rows(TEXTS))
    assert Files((str(tmp_path),)).extent() == (None, None)
    assert Hub("x", limit=7).extent() == (7, None)


BROKEN = {
    "latin.txt": ("fünf".encode("latin-1"), "latin.txt: byte 1 is not UTF-8; convert the file"),
    "latin.jsonl": (
        b'{"text": "ok"}\n{"text": "f\xfcnf"}\n',
        r"latin.jsonl: byte 26 is not UTF-8",
    ),
    "cut.jsonl": (b'{"text": "ok"}\n\n{"text": "o', "cut.jsonl, line 3 is not JSON: Unterminated"),
    "list.jsonl": (b"[1]\n", r'list.jsonl, line 1 is no object: a line must be like \{"text": ...\}'),
    "other.jsonl": (b'{"texts": "a"}\n', "other.jsonl, line 1 has no 'text': did you mean 'texts'"),
    "null.jsonl": (b'{"text": null}\n', "null.jsonl, line 1: 'text' is None: it must be a text"),
    "half.jsonl": (b'{"text": "ab\\ud800"}\n', "line 1: character 2 of 'text' is half of a surrogate pair"),
    "cut.txt.gz": (
        gzip.compress(b"abc" * 100, mtime=0)[:-9],
        "cut.txt.gz cannot be read: Compressed file ended",
    ),
    "not.txt.gz": (b"plain", "not.txt.gz cannot be read: Not a gzipped file"),
    "not.parquet": (b"plain text, and no table", "not.parquet cannot be read: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_files_are_named_with_the_place_of_the_damage(tmp_path, name) -> None:
    """A file that is not what its name says: which file, which byte or line, what is wrong."""
    data, told = BROKEN[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=told):
        _read(tmp_path / name)


def test_parquet_errors_name_column_and_row(tmp_path) -> None:
    """A missing column comes with the nearest name; a null with its row."""
    path = tmp_path / "t.parquet"
    pl.DataFrame({"texts": ["a", None]}).write_parquet(path)
    with pytest.raises(
        CorpusError, match=r"t.parquet has no column 'text': did you mean 'texts'\?; set field"
    ):
        _read(path)
    with pytest.raises(CorpusError, match="t.parquet, row 2: 'texts' is None: it must be a text"):
        _read(path, field="texts")


def test_what_is_not_there_is_named(tmp_path) -> None:
    """Missing paths, folders without a file, and links to nothing."""
    with pytest.raises(CorpusError, match="gone.txt does not exist: name a file or a folder that does"):
        _read(tmp_path / "gone.txt")
    with pytest.raises(CorpusError, match="empty corpus: no files in "):
        Files((str(tmp_path),)).fingerprint()
    (tmp_path / "link").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(CorpusError, match="gone.txt cannot be read|link cannot be read: No such file"):
        Files((str(tmp_path),)).fingerprint()
    (tmp_path / "link").unlink()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CorpusError, match="loop cannot be read: Too many levels of symbolic links"):
        Files((str(tmp_path),)).fingerprint()
    for name, told in (("~nobody-of-this-name/x", "home directory"), ("a" * 300, "File name too long")):
        with pytest.raises(CorpusError, match=f"{name} cannot be read: .*{told}.*; name another path"):
            Files((name,)).fingerprint()


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    """A pipe in a folder is left out, and refused where it is named: reading it would never end."""
    (tmp_path / "a.txt").write_text("text")
    os.mkfifo(tmp_path / "pipe.txt")
    assert _read(tmp_path) == ["text"]
    with pytest.raises(CorpusError, match="pipe.txt is no file: name a file or a folder"):
        _read(tmp_path / "pipe.txt")


def test_what_is_named_twice_is_read_once(tmp_path) -> None:
    """A folder twice, and a folder with a file in it."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(name)
    assert _read(tmp_path, tmp_path) == ["a", "b"]
    assert _read(tmp_path, tmp_path / "a.txt") == ["a", "b"]
    assert _read(tmp_path / "b.txt", tmp_path) == ["b", "a"]


def test_a_folder_of_the_hub_that_is_not_there(tmp_path) -> None:
    """A local folder is told from the name of a data set by how it begins."""
    pytest.importorskip("datasets", reason="pip install 'depthlaw[llm]'")
    gone = tmp_path / "gone"
    with pytest.raises(CorpusError, match=f"data set {gone} does not exist: name a folder that does"):
        list(Hub(str(gone)).documents())


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: Files(()), r"paths is \(\): it must name at least one"),
        (lambda: Files(("",)), "paths is '': it must not be empty"),
        (lambda: Files(("a",), field=" "), "field is ' ': it must not be empty"),
        (lambda: Files(("a",), pattern=""), "pattern is '': it must not be empty"),
        (lambda: Hub(""), "dataset is '': it must not be empty"),
        (lambda: Hub("x", subset=""), "subset is '': it must not be empty"),
        (lambda: Hub("x", limit=0), "limit is 0: it must be at least 1; leave it out to read everything"),
    ],
)
def test_rules_are_checked_where_the_config_is_made(make, told) -> None:
    """A rule that is broken names field, value and rule."""
    with pytest.raises(ValueError, match=told):
        make()


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Path:
    """A folder in the hub's layout: a table for each split, in two files for training."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "data").mkdir()
    pl.DataFrame(_rows(TEXTS[:3])).write_parquet(folder / "data" / "train-00000-of-00002.parquet")
    pl.DataFrame(_rows(TEXTS[3:])).write_parquet(folder / "data" / "train-00001-of-00002.parquet")
    pl.DataFrame(_rows(["held out"])).write_parquet(folder / "data" / "test-00000-of-00001.parquet")
    return folder


@pytest.fixture(autouse=True)
def _no_network(monkeypatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_hub_folder_streams_its_rows(hub) -> None:
    """Rows in order over all files of a split; from any document on; the first `limit` only."""
    name = str(hub)
    assert list(Hub(name).documents()) == TEXTS
    assert list(Hub(name).documents(start=2)) == TEXTS[2:]
    assert list(Hub(name, limit=4).documents()) == TEXTS[:4]
    assert list(Hub(name, limit=4).documents(start=3)) == TEXTS[3:4]
    assert list(Hub(name, split="test").documents()) == ["held out"]


def test_a_hub_folder_of_json_lines_streams_too(tmp_path) -> None:
    """The same with JSON lines, and a field of another name."""
    _jsonl(tmp_path / "train.jsonl", [{"body": text} for text in TEXTS])
    assert list(Hub(str(tmp_path), field="body").documents()) == TEXTS
    with pytest.raises(CorpusError, match="document 0 has no 'bodi': did you mean 'body'"):
        list(Hub(str(tmp_path), field="bodi").documents())


def test_hub_errors_name_the_data_set(hub, tmp_path) -> None:
    """Unknown splits and data sets, in one sentence with the data set's name."""
    with pytest.raises(CorpusError, match="hub.* cannot be read: .*(split|validation)"):
        list(Hub(str(hub), split="validation").documents())
    with pytest.raises(CorpusError, match="data set nobody/nothing cannot be read: "):
        list(Hub("nobody/nothing").documents())


def test_the_fingerprint_of_a_hub_data_set_is_what_picks_its_rows(hub) -> None:
    """All fields but the text's name count, and the files of a local folder; no network is asked."""
    corpora = [
        Hub("a/b"),
        Hub("a/c"),
        Hub("a/b", revision="0123abc"),
        Hub("a/b", subset="en"),
        Hub("a/b", split="test"),
        Hub("a/b", limit=10),
        Hub(str(hub)),
    ]
    assert len({corpus.fingerprint() for corpus in corpora}) == len(corpora)
    assert Hub("a/b", subset="en", revision="0123abc").version == "a/b, en, train, 0123abc"


def test_a_missing_library_is_one_sentence(monkeypatch) -> None:
    """Without `datasets` the message is the command that installs it."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"datasets is not installed: pip install 'depthlaw\[llm\]'"):
        list(Hub("a/b").documents())


@pytest.mark.parametrize("corpus", [Embedded(), Files(("a",)), Hub("a")], ids=lambda corpus: corpus.kind)
def test_every_kind_is_a_value(corpus: Corpus) -> None:
    """Configs compare and hash by value, and kinds differ."""
    copy = type(corpus)(**vars(corpus))
    assert copy == corpus and hash(copy) == hash(corpus)
    for one, other in itertools.combinations((Embedded, Files, Hub), 2):
        assert one.kind != other.kind
