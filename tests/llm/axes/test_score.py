"""Laws of scoring: losses are those of the model, whatever the batch, the tokenizer and the length."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm import Bytes, LoopedLM, ModelConfig, TrainedBPE
from llm.axes import GENERATORS, Item, Task, TaskError, score
from llm.axes._batched import Losses, losses, rounded
from llm.axes._score import _right
from llm.axes._sequence import Scored, prepared, split
from llm.probe import Looped


class Fixed(Task):
    """Items that a test gives; `kept` are its examples."""

    name, axis, source, chance, shots, fingerprint = "fixed", "reading", "a test", "", 0, "fixed"

    def __init__(self, items, kept=()):
        self.given, self.kept = list(items), list(kept)

    def items(self, count, seed):
        return self.given[:count]

    def examples(self, item, number, count, seed):
        return self.kept[:count]


def draw(vocabulary):
    """A looped model that was not trained."""
    config = ModelConfig(width=8, head_size=4, prelude=1, layers=2, coda=1, num_recur=2)
    return LoopedLM.draw(config, vocabulary, jax.random.key(0))


@pytest.fixture(scope="module")
def looped(tmp_path_factory):
    """One on bytes."""
    folder = tmp_path_factory.mktemp("bytes")
    return Looped(draw(256), Bytes().prepare(folder, lambda: iter(())), longest=64)


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """One on pairs of bytes that were joined: its tokens are words with the blank before them."""
    pytest.importorskip("tokenizers", reason="pip install 'depthlaw[llm]'")
    words = ["alpha beta gamma delta", "the answer is", "a = 12\n", "the answer is alpha"] * 20
    prepared = TrainedBPE(vocabulary=288).prepare(tmp_path_factory.mktemp("bpe"), lambda: iter(words))
    return Looped(draw(288), prepared, longest=64)


def nats_of(model, text_tokens, start):
    """−log p of the tokens from `start` on, one sequence alone and unpadded."""
    tokens = np.array([text_tokens[:-1]], np.int32)
    logits = np.asarray(model.logits(tokens, np.array([tokens.shape[1]], np.int32)))[0].astype(np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return [-logp[i - 1, text_tokens[i]] for i in range(start, len(text_tokens))]


def test_a_loss_is_that_of_the_sequence_alone(looped):
    """A task's loss is the mean over items of the mean −log p of their continuations, each run by itself
    without padding, to 1e-5; its error is the standard error of that mean."""
    task = GENERATORS["induction"]
    found = score(looped, [task], items=20, shots=0)["induction"]
    each = []
    for item in task.items(20, 0):
        tokens = [255, *(item.context + item.continuation).encode()]
        each.append(np.mean(nats_of(looped, tokens, 1 + len(item.context))))
    assert found.loss == pytest.approx(np.mean(each), abs=1e-5)
    assert found.loss_error == pytest.approx(np.std(each, ddof=1) / math.sqrt(20), rel=1e-4)
    assert found.nats_per_byte == pytest.approx(found.loss)


@pytest.mark.parametrize("batch_tokens", [1, 150])
def test_the_batch_does_not_matter(looped, batch_tokens):
    """Batches of one sequence, of some and of all give the same losses to 1e-5; the same batches, and a task
    that is scored alone or with others, the same to the bit."""
    tasks = [GENERATORS[name] for name in ("dyck", "induction")]
    whole = score(looped, tasks, items=12)
    assert whole == score(looped, tasks, items=12)
    other = score(looped, tasks, items=12, batch_tokens=batch_tokens)
    for name, one in whole.items():
        assert one.loss == pytest.approx(other[name].loss, abs=1e-5)
        assert one == score(looped, [GENERATORS[name]], items=12)[name]
        assert one.accuracy == other[name].accuracy


@given(st.integers(1, 3000), st.integers(1, 3000) | st.none())
def test_lengths_are_rounded_to_few(length, longest):
    """Up, by less than half, to one of two sizes an octave; and not beyond what a model reads."""
    if longest is not None and length > longest:
        return
    found = rounded(length, longest)
    assert length <= found <= max(8, 3 * length // 2 + 1)
    assert found == longest or found in {2**k for k in range(13)} | {3 * 2**k for k in range(13)}
    assert longest is None or found <= longest


def test_few_shapes_are_compiled(uniform):
    """200 sequences of lengths 1 to 200, in batches of 512 tokens, have 22 shapes at most: of each of 11
    sizes whole batches, and the last one."""
    sequences = [Scored([1] * (n + 1), 1, 1) for n in range(1, 201)]
    found = losses(uniform, sequences, batch_tokens=512)
    assert [len(one.nats) for one in found] == list(range(1, 201))
    assert len(uniform.shapes) <= 22
    assert all(rows & (rows - 1) == 0 and rows * length <= 512 for rows, length in uniform.shapes)


PARTS = [*"alphbet gdm=12\n ", "é", "the answer", " alpha"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


@given(context=TEXTS, continuation=TEXTS.filter(bool))
@settings(max_examples=200)
def test_the_seam(joined, context, continuation):
    """Before and after together are the tokens of the whole text; those before are the beginning of what the
    context alone has, without the blanks at its end; those after hold the whole continuation."""
    before, after, num_bytes = split(joined, context, continuation)
    assert before + after == joined.encode(context + continuation)
    kept = context.rstrip(" \t")
    assert before == joined.encode(kept)[: len(before)]
    spelled = joined.decode(after)
    assert spelled.endswith(continuation) or "\ufffd" in spelled
    assert num_bytes == len((context[len(kept) :] + continuation).encode())


def test_a_blank_goes_with_the_word(joined):
    """ "the answer is " + "alpha" is scored as "the answer is" + " alpha": the token is the word with its
    blank, as in a text; an end of a line stays with the context."""
    one, other = (
        split(joined, *parts) for parts in (("the answer is ", "alpha"), ("the answer is", " alpha"))
    )
    assert one == other and joined.decode(one[1]) == " alpha"
    before, after, num_bytes = split(joined, "a = 12\n", "the")
    assert joined.decode(before) == "a = 12\n" and joined.decode(after) == "the" and num_bytes == 3


def test_a_token_across_the_seam_is_scored(joined):
    """Where one token holds the end of the context and the beginning of the continuation, it is scored: the
    loss is that of all tokens that the continuation needs."""
    before, after, _ = split(joined, "the answer is alp", "ha")
    assert joined.decode(before) == "the answer is" and joined.decode(after) == " alpha"
    found = score(joined, [Fixed([Item("the answer is alp", ("ha",))])])["fixed"]
    tokens = [joined.first, *joined.encode("the answer is alpha")]
    assert found.loss == pytest.approx(np.mean(nats_of(joined, tokens, len(tokens) - len(after))), abs=1e-5)


def test_choices_that_tie_share(uniform):
    """A model that knows nothing answers items with choices exactly as often as chance, however long the
    choices are; and its loss is log V."""
    items = [Item(f"q{n}", tuple("x" * (1 + i) for i in range(n)), n - 1) for n in (2, 3, 4, 5)]
    found = score(uniform, [Fixed(items)])["fixed"]
    assert found.accuracy == found.chance_accuracy == np.mean([1 / n for n in (2, 3, 4, 5)])
    assert found.loss == pytest.approx(math.log(256), rel=1e-15)
    assert found.chance_loss == pytest.approx(np.mean([math.log(n) / n for n in (2, 3, 4, 5)]))


def test_the_choice_with_the_lowest_loss_a_token_is_taken(fake):
    """The right answer is chosen by its loss a token: at 0.5 a token a long one wins against a short one of
    0.4; and the loss is that of the right one, whichever is chosen."""

    def tell(prefix):
        last = prefix[-1:]
        return {"a": 0.5, "b": 0.4, "c": 0.1} if last in ":ab" else {}

    items = [Item(":", ("aaaa", "b"), 0), Item(":", ("aaaa", "b"), 1)]
    found = score(fake(tell), [Fixed(items)])["fixed"]
    assert found.accuracy == 0.5
    assert found.loss == pytest.approx((math.log(2) - math.log(0.4)) / 2, rel=1e-5)


def test_rounding_decides_nothing():
    """Choices whose losses differ by less than float32 can tell share the answer; by more, the
    lower has it."""
    item = Item(":", ("a", "b"))
    for apart, right in ((1e-8, 0.5), (-1e-8, 0.5), (1e-4, 1.0), (-1e-4, 0.0)):
        nats = [Losses(np.array([1.0]), np.ones(1)), Losses(np.array([1.0 + apart]), np.ones(1))]
        assert _right(item, nats) == right


def test_every_token_must_be_right(fake):
    """An open answer with one token that is not the most likely is wrong; tokens that tie share."""
    told = {":": {"a": 0.6, "b": 0.4}, ":a": {"b": 0.5, "c": 0.5}}
    model = fake(lambda prefix: told.get(prefix, {}))
    right = [score(model, [Fixed([Item(":", (text,))])])["fixed"].accuracy for text in ("a", "b", "ab", "bb")]
    assert right == [1, 0, 0.5, 0]


def test_examples_go_before_contexts(fake):
    """What does not fit is left out in a stated order: whole examples, the first ones first, then the left
    of the context; for all choices alike. What was kept of them is counted."""
    kept = [Item(f"Q{n}", (f" A{n}\n",)) for n in range(3)]
    item = Item("question:", (" yes", " no"), 1)
    for longest, text, shots, cut in (
        (64, "Q0 A0\n\nQ1 A1\n\nQ2 A2\n\nquestion: yes", 3, False),
        (27, "Q1 A1\n\nQ2 A2\n\nquestion: yes", 2, False),
        (26, "Q2 A2\n\nquestion: yes", 1, False),
        (13, "question: yes", 0, False),
        (12, "uestion: yes", 0, True),
        (5, ": yes", 0, True),
        (4, " yes", 0, True),
    ):
        model = fake(lambda prefix: {}, longest=longest)
        found = prepared(model, item, kept, "item 0")
        assert model.decode(found.choices[0].tokens) == text
        assert (found.shots, found.cut) == (shots, cut)
        assert all(len(one.tokens) - 1 <= longest for one in found.choices)
        assert [model.decode(one.tokens[one.start :]) for one in found.choices] == [" yes", " no"]
    assert prepared(fake(lambda prefix: {}, longest=3), item, kept, "item 0") is None


def test_what_was_cut_is_counted(fake):
    """The score says how many items lost some of their context, how many were left out, and how many examples
    there were on average."""
    items = [Item("abcdef:", ("x",)), Item("a:", ("x",)), Item("a:", ("x" * 9,))]
    found = score(fake(lambda prefix: {}, longest=7), [Fixed(items, [Item("e", ("f",))])], shots=1)["fixed"]
    assert (found.items, found.cut, found.left_out, found.shots) == (2, 1, 1, 0.5)
    with pytest.raises(TaskError, match="fixed: no item has a continuation that fake can read, 7 tokens"):
        score(fake(lambda prefix: {}, longest=7), [Fixed(items[2:])])


def test_a_single_item_has_no_error(uniform):
    """One item says nothing of the spread."""
    found = score(uniform, [Fixed([Item("a", ("b",))])])["fixed"]
    assert found.loss_error is None and found.accuracy_error is None


def test_bytes_are_those_of_the_text(uniform):
    """Nats a byte divide by the UTF-8 length of the continuation, blanks that were moved to it included."""
    tokens = Fixed([Item("a ", ("é",))])
    assert score(uniform, [tokens])["fixed"].nats_per_byte == pytest.approx(math.log(256))


def test_a_model_without_a_first_token(fake):
    """Nothing is put before a text where a model has no such token; an item without a context is refused by
    its number."""
    model = fake(lambda prefix: {"b": 1.0} if prefix == "a" else {}, first=None)
    assert score(model, [Fixed([Item("a", ("b",))])])["fixed"].accuracy == 1
    with pytest.raises(TaskError, match=r"fixed, item 1: nothing stands before 'b', and fake has no token"):
        score(model, [Fixed([Item("a", ("b",)), Item("", ("b",))])])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"items": 0}, "items is 0: it must be at least 1"),
        ({"shots": -1}, "shots is -1: it must be at least 0"),
    ],
)
def test_bad_settings(uniform, options, told):
    """Refused by name, value and rule."""
    with pytest.raises(ValueError, match=told):
        score(uniform, [GENERATORS["dyck"]], **options)


def test_progress_ends_at_one(looped):
    """The share that is done grows to 1."""
    shares = []
    score(looped, [GENERATORS["dyck"]], items=9, batch_tokens=64, on_progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1 and len(shares) > 2
