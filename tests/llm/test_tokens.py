"""Shards are the documents' tokens in order, whatever happened in between; batches are pure functions."""

import dataclasses
import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm import _pack, _shards, _tokens
from llm._batches import _permutation
from llm._corpus import Embedded, Files
from llm._pack import UNFINISHED, side_of, training_documents
from llm._readers import CorpusError
from llm._tokenizers import Bytes, FromFile, TrainedBPE
from llm._tokens import META, DataConfig, Tokens, build, check_tokens, default_cache, open_tokens

SEPARATOR = 255
SHARE = 0.3


def _texts(number: int = 60) -> list[str]:
    return [f"document {i}: " + "äbc "[i % 4] * (7 * i % 50) for i in range(number)]


def _corpus(folder: Path, texts: list[str]) -> Files:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    os.utime(path, ns=(1, 1))
    return Files((str(path),))


def _config(folder: Path, texts: list[str] | None = None, **changes) -> DataConfig:
    corpus = _corpus(folder, _texts() if texts is None else texts)
    return DataConfig(**({"corpus": corpus, "context": 15, "validation": SHARE} | changes))


def _all(side: _shards.Side) -> np.ndarray:
    return side.take(np.arange(len(side)))


def sequences_of(tokens, separator, length):
    """The sequences of whole documents: the law that the files follow, for documents that fit into memory."""
    documents = [np.concatenate(([separator], ids)) for ids in tokens]
    stream = np.concatenate([np.zeros(0, np.int64), *documents])
    return stream[: len(stream) // length * length].reshape(-1, length)


def _expected(texts: list[str], side: str, length: int, share: float = SHARE) -> np.ndarray:
    chosen = [text.encode() for text in texts if text and side_of(text.encode(), share) == side]
    return sequences_of([np.frombuffer(data, np.uint8) for data in chosen], SEPARATOR, length)


def _files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder of shards; times of writing, which are in meta.json, left out."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    meta = json.loads(found.pop(META))
    for side in meta["sides"].values():
        for shard in side["shards"]:
            del shard["mtime_ns"]
    return found | {META: json.dumps(meta).encode()}


@pytest.fixture
def small_shards(monkeypatch) -> None:
    """Files of a few sequences, and few documents at once."""
    monkeypatch.setattr(_shards, "SHARD_BYTES", 200)
    monkeypatch.setattr(_pack, "BATCH_DOCUMENTS", 4)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Tokens:
    folder = tmp_path_factory.mktemp("tokens")
    return build(_config(folder), folder / "cache")


def test_sequences_are_the_documents_with_a_separator_before_each(tokens) -> None:
    """A side is separator + tokens of its documents, cut every T + 1; a tail that fills none is dropped."""
    for name in ("train", "validation"):
        side = getattr(tokens, name)
        expected = _expected(_texts(), name, 16)
        np.testing.assert_array_equal(_all(side), expected)
        assert len(side) == len(expected) > 0
        about = tokens.about[name]
        assert about["tokens"] // 16 == about["sequences"] == len(side)
        assert about["tokens"] == about["bytes"] + about["documents"]  # a byte a token, and the separators
    assert _all(tokens.train).dtype == np.int32
    assert (_all(tokens.train).reshape(-1)[0], tokens.separator) == (SEPARATOR, SEPARATOR)


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=12),
    context=st.integers(1, 20),
    share=st.floats(0.01, 0.99),
)
def test_packing_any_documents(tmp_path_factory, texts, context, share) -> None:
    """All documents and contexts: the sequences joined are a prefix of the stream, or an error says why."""
    folder = tmp_path_factory.mktemp("any")
    config = _config(folder, texts, context=context, validation=share)
    expected = {side: _expected(texts, side, context + 1, share) for side in ("train", "validation")}
    if not all(len(sequences) for sequences in expected.values()):
        with pytest.raises(CorpusError, match="empty corpus|side has"):
            build(config, folder)
        return
    tokens = build(config, folder)
    for side, sequences in expected.items():
        np.testing.assert_array_equal(_all(getattr(tokens, side)), sequences)


@given(
    documents=st.lists(st.lists(st.integers(0, 254), max_size=9), max_size=9),
    length=st.integers(2, 12),
)
def test_sequences_are_a_prefix_of_the_stream(documents, length) -> None:
    """The reference itself: nothing but a tail shorter than a sequence is lost, nothing is added."""
    stream = [id for ids in documents for id in (SEPARATOR, *ids)]
    sequences = sequences_of([np.array(ids, np.int64) for ids in documents], SEPARATOR, length)
    joined = sequences.reshape(-1).tolist()
    assert joined == stream[: len(joined)]
    assert len(stream) - len(joined) < length


def test_files_are_bounded_and_a_sequence_is_in_one(tmp_path, small_shards) -> None:
    """Small files or one: the same sequences; each file holds whole sequences, within the bound."""
    tokens = build(_config(tmp_path), tmp_path / "cache")
    sizes = [path.stat().st_size for path in sorted(tokens.folder.glob("train-*.bin"))]
    assert len(sizes) > 5 and max(sizes) <= 200 and {size % 32 for size in sizes} == {0}
    np.testing.assert_array_equal(_all(tokens.train), _expected(_texts(), "train", 16))
    mixed = np.random.default_rng(0).permutation(len(tokens.train))
    np.testing.assert_array_equal(tokens.train.take(mixed), _expected(_texts(), "train", 16)[mixed])
    assert tokens.train.take([]).shape == (0, 16)
    for wrong in ([-1], [len(tokens.train)]):
        with pytest.raises(IndexError, match="sequence .*: there are 0 … "):
            tokens.train.take(wrong)


def test_sides_do_not_depend_on_order_and_keep_duplicates_together(tmp_path) -> None:
    """A document's side is its own: any order, any neighbours; a text that occurs twice is on one side."""
    texts = _texts()
    backwards = build(_config(tmp_path / "b", texts[::-1] + texts[:9]), tmp_path)
    np.testing.assert_array_equal(
        _all(backwards.validation), _expected(texts[::-1] + texts[:9], "validation", 16)
    )
    training = list(training_documents(_corpus(tmp_path / "c", texts), SHARE))
    assert set(training) == {text for text in texts if side_of(text.encode(), SHARE) == "train"}


@given(share=st.floats(0.05, 0.95))
def test_the_share_is_the_share(share) -> None:
    """Of many texts about `share` are held out, and a larger share holds all of those out too."""
    texts = [str(number).encode() for number in range(2000)]
    held = {text for text in texts if side_of(text, share) == "validation"}
    assert abs(len(held) / 2000 - share) < 5 * (share * (1 - share) / 2000) ** 0.5
    assert held <= {text for text in texts if side_of(text, min(1.0, share + 0.05)) == "validation"}


class Killed(Exception):
    """What stands for the end of a process."""


@pytest.mark.parametrize("kind", [Bytes(), TrainedBPE(300)], ids=lambda kind: kind.kind)
def test_a_killed_build_goes_on_and_ends_with_the_same_bytes(tmp_path, small_shards, kind) -> None:
    """Killed after any batch: nothing opens; the same call goes on to the same files, byte for byte."""
    if kind.kind == "bpe":
        pytest.importorskip("tokenizers")
    config = _config(tmp_path, tokenizer=kind)
    whole = build(config, tmp_path / "whole")
    for survive in range(0, 15, 3):
        cache = tmp_path / f"killed-{survive}"
        seen: list[_pack.BuildProgress] = []

        def kill(progress, seen=seen, survive=survive) -> None:
            if progress.stage == "tokens":
                seen.append(progress)
                if len(seen) > survive:
                    raise Killed

        with pytest.raises(Killed):
            build(config, cache, kill)
        folder = cache / whole.folder.name
        assert not (folder / META).exists()
        with pytest.raises(CorpusError, match="holds no whole token shards: .*meta.json cannot be read"):
            open_tokens(folder)
        again: list[_pack.BuildProgress] = []
        resumed = build(config, cache, again.append)
        assert _files(folder) == _files(whole.folder)
        assert resumed.hash == whole.hash and resumed.about == whole.about
        if survive >= 9:  # what was done is not done again
            assert [p.stage for p in again].count("tokens") < 15
            assert again[-1].documents == 60


def test_a_build_whose_remains_are_damaged_starts_anew(tmp_path, small_shards) -> None:
    """Remains of a killed build that are cut, garbled or incomplete do not spoil the next."""
    config = _config(tmp_path)
    whole = build(config, tmp_path / "whole")

    def kill(progress) -> None:
        if progress.documents >= 48:
            raise Killed

    def cut(folder: Path) -> None:
        os.truncate(folder / UNFINISHED, 100)

    def garble(folder: Path) -> None:
        (folder / UNFINISHED).write_bytes(b"x")

    def lose(folder: Path) -> None:
        (folder / "train-00000.bin").unlink()

    for damage in (cut, garble, lose):
        cache = tmp_path / damage.__name__
        with pytest.raises(Killed):
            build(config, cache, kill)
        assert (cache / whole.folder.name / UNFINISHED).exists()
        damage(cache / whole.folder.name)
        assert _files(build(config, cache).folder) == _files(whole.folder)


def test_progress_says_how_far_it_is(tmp_path, small_shards) -> None:
    """Documents and bytes grow; the share ends at 1 where the extent is known, and is None where not."""
    texts = _texts()
    for number, text in enumerate(texts):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{number:02}.txt").write_text(text, encoding="utf-8")
    seen: list[_pack.BuildProgress] = []
    config = _config(tmp_path / "rows", corpus=Files((str(tmp_path / "texts"),)))
    build(config, tmp_path, seen.append)
    assert [progress.documents for progress in seen] == list(range(4, 61, 4))
    assert seen[-1].share == 1.0 and seen[-1].num_bytes == sum(len(text.encode()) for text in texts)
    seen.clear()
    build(_config(tmp_path / "rows"), tmp_path, seen.append)
    assert {progress.share for progress in seen} == {None}


def test_a_second_call_reads_nothing(tmp_path, monkeypatch) -> None:
    """What is built is opened: no document is read, and nothing is written."""
    config = _config(tmp_path)
    first = build(config, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setattr(Files, "documents", lambda *_: pytest.fail("read again"))
    assert build(config, tmp_path).hash == first.hash
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_two_at_once_build_once(tmp_path, monkeypatch) -> None:
    """The second waits for the first, and reads what that has made."""
    config = _config(tmp_path)
    builds = []
    made = _tokens._build
    monkeypatch.setattr(_tokens, "_build", lambda *rest: (builds.append(1), made(*rest)))
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(build(config, tmp_path).hash)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1 and len(found) == 4 and len(set(found)) == 1


def test_the_hash_is_that_of_the_content(tmp_path) -> None:
    """Another place or time: the same hash. Another text, context, side or tokenizer: another."""
    base = build(_config(tmp_path / "a"), tmp_path)
    moved = build(_config(tmp_path / "b"), tmp_path)
    assert moved.folder != base.folder and moved.hash == base.hash
    others = [
        _config(tmp_path / "c", [*_texts(), "one more document"]),
        _config(tmp_path / "a", context=14),
        _config(tmp_path / "a", validation=0.4),
    ]
    hashes = {build(config, tmp_path).hash for config in others} | {base.hash}
    assert len(hashes) == 4


@given(
    seed=st.integers(0, 2**64 - 1), start=st.integers(0, 10**12), sequences=st.integers(1, 50), data=st.data()
)
def test_batches_are_a_pure_function_of_seed_and_step(tokens, seed, start, sequences, data) -> None:
    """Batches of consecutive steps are one stream, wherever it is entered and however it is cut."""
    batch = tokens.batch(seed, start, sequences)
    assert batch.shape == (sequences, 16) and batch.dtype == np.int32
    j = data.draw(st.integers(0, sequences - 1))
    np.testing.assert_array_equal(tokens.batch(seed, start * sequences + j, 1)[0], batch[j])


@given(seed=st.integers(0, 2**32), epoch=st.integers(0, 1000))
def test_an_epoch_has_every_sequence_once(tokens, seed, epoch) -> None:
    """Each epoch is a permutation of the training sequences, and another than the one before."""
    n = len(tokens.train)
    whole = tokens.batch(seed, epoch, n)
    order = [row.tobytes() for row in whole]
    assert sorted(order) == sorted(row.tobytes() for row in _all(tokens.train))
    np.testing.assert_array_equal(np.sort(_permutation(seed, epoch, n)), np.arange(n))
    assert not np.array_equal(_permutation(seed, epoch, n), _permutation(seed, epoch + 1, n))
    assert not np.array_equal(_permutation(seed, epoch, n), _permutation(seed + 1, epoch, n))


def test_the_order_is_the_one_of_all_times() -> None:
    """The permutation is pinned: another NumPy, machine or release gives the same training run."""
    assert _permutation(3, 1, 12).tolist() == [9, 7, 8, 3, 5, 6, 4, 0, 10, 2, 1, 11]


def test_impossible_batches_are_refused(tokens) -> None:
    """Seeds that are no key, steps before the first, batches of nothing."""
    for arguments in ((-1, 0, 1), (2**64, 0, 1), (0, -1, 1), (0, 0, 0)):
        with pytest.raises(ValueError, match=r"seed must lie in \[0, 2\^64\), step be at least 0, sequences"):
            tokens.batch(*arguments)
    with pytest.raises(ValueError, match="sequences is 0: it must be at least 1"):
        next(tokens.validation_batches(0))


@pytest.mark.parametrize("sequences", [1, 2, 3, 1000])
def test_validation_batches_are_all_sequences_in_order(tokens, sequences) -> None:
    """The real rows are the validation side, once each; every batch has the full shape."""
    batches = list(tokens.validation_batches(sequences))
    assert {batch.shape for batch, _ in batches} == {(sequences, 16)}
    real = np.concatenate([batch[:count] for batch, count in batches])
    np.testing.assert_array_equal(real, _all(tokens.validation))
    assert all(count == sequences for _, count in batches[:-1])


@pytest.mark.parametrize("limit", [1, 3, 10**6])
def test_a_limited_validation_is_spread_evenly(tokens, limit) -> None:
    """So many real rows, of all parts of the validation side, whatever the batch."""
    whole = _all(tokens.validation)
    count = min(limit, len(whole))
    chosen = whole[np.arange(count) * len(whole) // count]
    for sequences in (1, 2, 7):
        batches = tokens.validation_batches(sequences, limit)
        np.testing.assert_array_equal(np.concatenate([batch[:real] for batch, real in batches]), chosen)


def test_bytes_of_tokens_are_the_bytes_of_text(tokens) -> None:
    """token_bytes summed over a side is the text in it: bits per byte divide by that."""
    for name in ("train", "validation"):
        ids = _all(getattr(tokens, name))
        lost = tokens.about[name]["tokens"] - ids.size
        counted = tokens.token_bytes[ids].sum()
        assert tokens.about[name]["bytes"] - lost <= counted <= tokens.about[name]["bytes"]


def test_wide_vocabularies_take_four_bytes() -> None:
    """2 bytes a token up to 2^16 ids, 4 beyond; no id is cut."""
    assert _shards.ShardFormat(9, 2**16).dtype.itemsize == 2
    assert _shards.ShardFormat(9, 2**16 + 1).dtype.itemsize == 4


SIDES_TOLD = {
    "no text": ([], {}, "empty corpus: .* has no document with text in it; name other text"),
    "empty texts": (["", ""], {}, "empty corpus: .* has no document with text in it; name other text"),
    "no validation": (
        ["a" * 99],
        {"validation": 1e-9},
        r"the validation side has no document: take more documents that differ, or raise validation",
    ),
    "no training": (
        ["a" * 99],
        {"validation": 1 - 1e-9},
        r"the train side has no document: take more documents that differ, or lower validation",
    ),
    "long context": (_texts(), {"context": 10**6}, r"the train side has .* a sequence of 1000001 "),
}


@pytest.mark.parametrize("case", SIDES_TOLD)
def test_a_side_without_a_sequence_is_refused(tmp_path, case) -> None:
    """Which side, how much there is, what to change; nothing that could be opened is left."""
    texts, changes, told = SIDES_TOLD[case]
    with pytest.raises(CorpusError, match=told):
        build(_config(tmp_path, texts, **changes), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob(META))


def _cut(folder: Path) -> None:
    os.truncate(folder / "train-00000.bin", 32)


def _lose(folder: Path) -> None:
    (folder / "validation-00000.bin").unlink()


def _flip(folder: Path) -> None:
    path = folder / "train-00000.bin"
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)


def _garble(folder: Path) -> None:
    (folder / META).write_text("{")


def _age(folder: Path) -> None:
    _edit(folder, lambda meta: meta.update(format=0))


def _tamper(folder: Path) -> None:
    _edit(folder, lambda meta: meta.update(separator=3))


def _recount(folder: Path) -> None:
    (folder / "token_bytes.npy").write_bytes(bytes(1024))


def _edit(folder: Path, change) -> None:
    meta = json.loads((folder / META).read_text())
    change(meta)
    (folder / META).write_text(json.dumps(meta))


@pytest.mark.parametrize(
    "damage, told",
    [
        (_cut, r"train-00000.bin is damaged: 32 bytes, \d+ were written; remove .* and build it again"),
        (_lose, "validation-00000.bin is missing: remove .* and build it again"),
        (_flip, "train-00000.bin is damaged: its hash is not that of what was written"),
        (_garble, "meta.json is damaged; remove"),
        (_age, "meta.json is of format 0, this is format 1: remove"),
        (_tamper, "is damaged: meta.json or token_bytes.* is not as it was written"),
        (_recount, "is damaged: meta.json or token_bytes.* is not as it was written"),
    ],
)
def test_damaged_shards_are_refused(tmp_path, tokens, damage, told) -> None:
    """A copy opens; damaged, it is refused with the file's name and what to do."""
    folder = tmp_path / "copy"
    shutil.copytree(tokens.folder, folder, copy_function=shutil.copy)
    assert open_tokens(folder).hash == open_tokens(folder, verify=True).hash == tokens.hash
    damage(folder)
    with pytest.raises(CorpusError, match=told):
        open_tokens(folder)


def test_damage_that_keeps_size_and_time_is_found_on_request(tmp_path, tokens) -> None:
    """With `verify` the contents are read, whatever the file's time says."""
    folder = tmp_path / "copy"
    shutil.copytree(tokens.folder, folder)
    times = (folder / "train-00000.bin").stat().st_mtime_ns
    _flip(folder)
    os.utime(folder / "train-00000.bin", ns=(times, times))
    with pytest.raises(CorpusError, match="its hash is not that of what was written"):
        open_tokens(folder, verify=True)


def test_shards_of_another_config_are_refused(tokens) -> None:
    """Another context or tokenizer than the config's: both are named."""
    config = DataConfig(context=15)
    assert open_tokens(tokens.folder, config).hash == tokens.hash
    with pytest.raises(CorpusError, match="holds sequences for context 15, not 31: set context to that"):
        open_tokens(tokens.folder, DataConfig(context=31))
    with pytest.raises(CorpusError, match="was made with tokenizer .*'bytes'.*, not .*'bpe'"):
        open_tokens(tokens.folder, dataclasses.replace(config, tokenizer=TrainedBPE(300)))


def test_a_tokenizer_is_known_by_its_content(tmp_path) -> None:
    """Shards made with a tokenizer.json are opened with a copy of it, wherever it lies, and with no other."""
    folder = tmp_path / "made"
    made = build(_config(tmp_path, tokenizer=TrainedBPE(260)), folder).folder / "tokenizer.json"
    paths = [tmp_path / "one.json", tmp_path / "copy.json", tmp_path / "other.json"]
    for path in paths:
        path.write_bytes(made.read_bytes())
    paths[-1].write_text(json.dumps(json.loads(made.read_text()) | {"padding": None}, indent=1))
    one, copy, other = (
        _config(tmp_path, tokenizer=FromFile(str(path), separator=TrainedBPE.SEPARATOR)) for path in paths
    )
    tokens = build(one, folder)
    assert open_tokens(tokens.folder, copy).hash == tokens.hash
    check_tokens(tokens, copy)
    with pytest.raises(CorpusError, match=r"one.json'.*sha256 .*, not .*other.json'.*: take that tokenizer"):
        check_tokens(tokens, other)


def test_what_a_killed_build_was_writing_is_removed(tmp_path) -> None:
    """The next build of the same shards clears it away."""
    config = _config(tmp_path)
    folder = build(config, tmp_path / "cache").folder
    (folder / META).unlink()
    left = folder / ".train-00000.bin.abcd1234"
    left.write_bytes(b"half")
    build(config, tmp_path / "cache")
    assert not left.exists() and (folder / META).exists()


def test_ids_outside_the_vocabulary_are_refused(tmp_path, tokens, monkeypatch) -> None:
    """While building and in foreign shards: which token, which id, where the vocabulary ends."""
    from llm._tokenizers import _PreparedBytes

    monkeypatch.setattr(_PreparedBytes, "encode_batch", lambda _, texts: [np.array([7, 256]) for _ in texts])
    with pytest.raises(
        CorpusError, match="'document 0: ': token 1 is id 256, the vocabulary ends at 255; these tokens"
    ):
        build(_config(tmp_path), tmp_path)
    folder = tmp_path / "foreign"
    shutil.copytree(tokens.folder, folder)
    path = folder / "train-00000.bin"
    foreign = np.fromfile(path, "<u2")
    foreign[5] = 999
    foreign.tofile(path)

    def sign(meta: dict) -> None:
        meta["sides"]["train"]["shards"][0]["sha256"] = hashlib.sha256(foreign.tobytes()).hexdigest()
        meta["hash"] = _tokens._content_hash(meta)

    _edit(folder, sign)
    with pytest.raises(CorpusError, match="train-00000.bin: token 5 is id 999, the vocabulary ends at 255"):
        open_tokens(folder)


def test_a_corpus_that_changes_while_it_is_read_is_refused(tmp_path) -> None:
    """Files that were written to during the build make no shards under the old fingerprint."""
    config = _config(tmp_path)
    with pytest.raises(CorpusError, match="the text has changed while it was read; build again"):
        build(config, tmp_path / "cache", lambda _: os.utime(tmp_path / "rows.jsonl", ns=(2, 2)))
    assert not list((tmp_path / "cache").rglob(META))


def test_a_cache_that_cannot_be_written_is_named(tmp_path) -> None:
    """A file where the folder should be: says which."""
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CorpusError, match="cache.* cannot be written: "):
        build(_config(tmp_path), tmp_path / "cache")


def test_shards_are_kept_in_the_users_cache(monkeypatch, tmp_path) -> None:
    """Where compiled programs are kept too: XDG_CACHE_HOME, or .cache at home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "depthlaw" / "corpora"
    assert build(_config(tmp_path)).folder.parent == default_cache()
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "depthlaw" / "corpora"

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CorpusError, match="there is no home folder .*: set XDG_CACHE_HOME"):
        default_cache()


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"context": 0}, "context is 0: it must be at least 1"),
        ({"validation": 0.0}, "validation is 0.0: it must lie strictly between 0 and 1"),
        ({"validation": 1.0}, "validation is 1.0: it must lie strictly between 0 and 1"),
    ],
)
def test_rules_are_checked_where_the_config_is_made(changes, told) -> None:
    """A rule that is broken names field, value and rule."""
    with pytest.raises(ValueError, match=told):
        DataConfig(**changes)


def test_the_embedded_corpus_builds_by_default(tmp_path) -> None:
    """The default config needs nothing but Python: thousands of sequences of its library, on both sides."""
    assert DataConfig() == DataConfig(corpus=Embedded(), tokenizer=Bytes())
    tokens = build(DataConfig(), tmp_path)
    assert len(tokens.train) > 2000 and len(tokens.validation) >= 1
    assert "standard library" in tokens.about["corpus"]
