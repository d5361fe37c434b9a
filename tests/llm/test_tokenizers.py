"""Tokenizers lose nothing, count every byte once, and keep the separator out of texts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm._prepared import Prepared
from llm._readers import CorpusError
from llm._tokenizers import SAVED, Bytes, FromFile, Tokenizer, TrainedBPE

tokenizers = pytest.importorskip("tokenizers")

TRAINING = [
    "def add(one, other):\n    return one + other\n" * 20,
    "the layers of a network average their noise; the layers assemble a smooth flow\n" * 20,
    "Grüße aus Köln — žluťoučký kůň, 深さ, 🙂\n" * 5,
    Path(json.__file__).read_text(encoding="utf-8"),
]
HARD = [
    " leading and trailing ",
    "tab\t\r\n\n\n",
    "naïve 深さ 🙂🙂 \u0000 \uffff",
    "<s> </s> <|separator|> <0x41> <unk>",
    "a",
    "x" * 1000,
]


def _llama_like(path: Path, fallback: bool = True, template: bool = True) -> Path:
    """A tokenizer.json as Llama 2's is: "▁" for spaces and before a text, byte fallback, `<s>` first."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", *"abcdefghijklmnopqrstuvwxyz<>|", "é", "▁a", "th", "the", "▁the"]
    merges = [("▁", "a"), ("t", "h"), ("th", "e"), ("▁", "the")]
    model = tokenizers.models.BPE(
        vocab={word: id for id, word in enumerate(words)},
        merges=merges,
        unk_token="<unk>",
        byte_fallback=fallback,
        fuse_unk=True,
    )
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    made.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    if template:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
        )
    made.enable_truncation(4)
    made.enable_padding()
    made.save(str(path))
    return path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> dict[str, Prepared]:
    """Every kind, ready for use."""
    root = tmp_path_factory.mktemp("tokenizers")
    kinds: dict[str, Tokenizer] = {
        "bytes": Bytes(),
        "bpe": TrainedBPE(400),
        "file": FromFile(str(_llama_like(root / "llama.json"))),
    }
    return {name: kind.prepare(root / name, lambda: iter(TRAINING)) for name, kind in kinds.items()}


KINDS = ["bytes", "bpe", "file"]


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), min_size=1))
def test_texts_come_back_and_every_byte_is_counted_once(prepared, kind, text) -> None:
    """decode(encode(text)) = text; the ids' bytes sum to its UTF-8 length (+ 1 where a space is added)."""
    _check_round_trip(prepared[kind], text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", HARD)
def test_hard_texts_come_back_too(prepared, kind, text) -> None:
    """The same for white space, control characters, and texts that spell special tokens out."""
    _check_round_trip(prepared[kind], text)


def _check_round_trip(tokenizer: Prepared, text: str) -> None:
    (ids,) = tokenizer.encode_batch([text])
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes[ids].sum() == len(text.encode()) + tokenizer.prefix_bytes
    assert tokenizer.separator not in ids
    assert ids.min() >= 0 and ids.max() < tokenizer.vocabulary == len(tokenizer.token_bytes)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_texts_one_by_one(prepared, kind) -> None:
    """A text's ids do not depend on its neighbours: nothing is padded or cut."""
    together = prepared[kind].encode_batch(HARD)
    for text, ids in zip(HARD, together, strict=True):
        np.testing.assert_array_equal(ids, prepared[kind].encode_batch([text])[0])
    assert prepared[kind].encode_batch([]) == []


def test_only_llamas_tokenizer_counts_a_space_of_its_own(prepared) -> None:
    """prefix_bytes is 1 where "▁" is put before every text, and 0 otherwise."""
    assert {kind: prepared[kind].prefix_bytes for kind in KINDS} == {"bytes": 0, "bpe": 0, "file": 1}


@pytest.mark.parametrize("kind, separator", [("bytes", 255), ("bpe", 0), ("file", 1)])
def test_separators_stand_for_no_text(prepared, kind, separator) -> None:
    """A separator has no bytes and decodes to nothing."""
    tokenizer = prepared[kind]
    assert tokenizer.separator == separator
    assert tokenizer.token_bytes[separator] == 0
    assert tokenizer.decode([separator]) == ""


def test_training_is_deterministic_and_kept(tmp_path) -> None:
    """Two trainings give one file, byte for byte; where it is there, nothing is trained or read."""
    for name in ("one", "two"):
        tokenizer = TrainedBPE(350).prepare(tmp_path / name, lambda: iter(TRAINING))
        assert tokenizer.vocabulary == 350
    assert (tmp_path / "one" / SAVED).read_bytes() == (tmp_path / "two" / SAVED).read_bytes()

    def never() -> None:
        raise AssertionError("read again")

    again = TrainedBPE(350).prepare(tmp_path / "one", never)
    np.testing.assert_array_equal(again.encode_batch(HARD)[2], tokenizer.encode_batch(HARD)[2])


def test_training_reads_no_more_than_its_sample(tmp_path) -> None:
    """The document with which sample_bytes is reached is the last one that is read."""
    read = []

    def documents():
        for text in TRAINING:
            read.append(text)
            yield text

    TrainedBPE(260, sample_bytes=10).prepare(tmp_path, documents)
    assert read == TRAINING[:1]


def test_too_little_text_for_the_vocabulary_is_refused(tmp_path) -> None:
    """A vocabulary that the text cannot fill: how many there are, how many are asked for, what to do."""
    with pytest.raises(CorpusError, match=r"yield \d+ tokens, vocabulary asks for 5000: lower vocabulary"):
        TrainedBPE(5000).prepare(tmp_path, lambda: iter(TRAINING))
    assert not (tmp_path / SAVED).exists()


def test_a_foreign_tokenizer_is_kept_beside_the_shards(tmp_path) -> None:
    """The copy is used when the original has gone; the fingerprint follows the content, not the place."""
    path = _llama_like(tmp_path / "llama.json")
    kind = FromFile(str(path))
    before = kind.prepare(tmp_path / "kept", lambda: iter(())).encode_batch(HARD)
    copy = tmp_path / "copy.json"
    copy.write_bytes(path.read_bytes())
    assert FromFile(str(copy)).fingerprint() == kind.fingerprint()
    path.unlink()
    after = kind.prepare(tmp_path / "kept", lambda: iter(())).encode_batch(HARD)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_separator_can_be_named(tmp_path) -> None:
    """Any special token can separate; the vocabulary and the rest stay."""
    path = _llama_like(tmp_path / "llama.json", template=False)
    named = FromFile(str(path), separator="</s>").prepare(tmp_path / "a", lambda: iter(()))
    assert named.separator == 2


def test_byte_level_files_of_others_are_counted_too(tmp_path) -> None:
    """A byte-level tokenizer.json with merges counts bytes by the characters that stand for them."""
    TrainedBPE(300).prepare(tmp_path / "a", lambda: iter(TRAINING))
    kind = FromFile(str(tmp_path / "a" / SAVED), separator="<|separator|>")
    tokenizer = kind.prepare(tmp_path / "b", lambda: iter(()))
    for text in HARD:
        _check_round_trip(tokenizer, text)


def _lossy(path: Path) -> Path:
    return _llama_like(path, fallback=False)


def _nameless(path: Path) -> Path:
    return _llama_like(path, template=False)


def _broken(path: Path) -> Path:
    path.write_text(json.dumps({"model": 1}))
    return path


def _edited(path: Path, change: Callable[[dict], None]) -> Path:
    """A tokenizer whose file has been changed."""
    tree = json.loads(_llama_like(path).read_text())
    change(tree)
    path.write_text(json.dumps(tree))
    return path


def _shared_id(path: Path) -> Path:
    return _edited(path, lambda tree: tree["model"]["vocab"].update(twice=tree["model"]["vocab"]["<0x41>"]))


def _stray_id(path: Path) -> Path:
    return _edited(path, lambda tree: tree["model"]["vocab"].update(stray=10**6))


def _foreign_first(path: Path) -> Path:
    def change(tree: dict) -> None:
        processor = tree["post_processor"]
        text = json.dumps(processor).replace("<s>", "<z>")
        tree["post_processor"] = json.loads(text)
        tree["post_processor"]["special_tokens"]["<z>"]["ids"] = [5000]

    return _edited(path, change)


@pytest.mark.parametrize(
    "write, separator, told",
    [
        (_shared_id, None, r"has two tokens of id \d+, '.*' and '.*': repair it"),
        (_stray_id, None, r"has \d+ tokens, of ids up to 1000000: a model would have a row for each id"),
        (_foreign_first, None, "puts '<z>' before a text, which is none of its tokens: set separator"),
        (
            _lossy,
            None,
            "t.json is neither byte-level nor has byte fallback, and loses text: take one that is",
        ),
        (_nameless, None, "puts no token before a text: set separator; special tokens: </s>, <s>, <unk>"),
        (_llama_like, "<S>", "has no special token '<S>': did you mean '<s>'"),
        (_llama_like, "the", "has no special token 'the'"),
        (_broken, None, "tokenizer .*t.json cannot be read: .*; name a tokenizer.json as the library"),
        (lambda path: path, None, "tokenizer .*t.json cannot be read: No such file"),
    ],
)
def test_tokenizers_that_cannot_be_used_are_named(tmp_path, write, separator, told) -> None:
    """Which file, what is wrong with it, what to do; nothing is kept."""
    kind = FromFile(str(write(tmp_path / "t.json")), separator)
    with pytest.raises(CorpusError, match=told):
        kind.prepare(tmp_path / "kept", lambda: iter(()))
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: TrainedBPE(256), "vocabulary is 256: it must be at least 257, bytes and separator"),
        (lambda: TrainedBPE(300, sample_bytes=0), "sample_bytes is 0: it must be at least 1"),
        (lambda: FromFile(" "), "path is ' ': it must name a tokenizer.json"),
    ],
)
def test_rules_are_checked_where_the_config_is_made(make, told) -> None:
    """A rule that is broken names field, value and rule."""
    with pytest.raises(ValueError, match=told):
        make()


def test_a_missing_library_is_one_sentence(monkeypatch, tmp_path) -> None:
    """Without `tokenizers` the message is the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(CorpusError, match=r"tokenizers is not installed: pip install 'depthlaw\[llm\]'"):
        TrainedBPE(300).prepare(tmp_path, lambda: iter(TRAINING))
