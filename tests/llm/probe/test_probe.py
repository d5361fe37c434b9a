"""A probe of a language model: what it says does not depend on batches, padding, kills, or first tokens."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from llm import Bytes, Hyperconnections, Linear, LoopedLM, ModelConfig
from llm.probe import Accumulated, Batch, Looped, Probe, ProbeConfig, Source, TextSource, probe, result

LENGTH = 12
CONFIG = ProbeConfig(lens_every=2, sample=50)


@functools.cache
def model_of(injection: Any = Linear(), num_recur: int = 2) -> Looped:  # noqa: B008  # a frozen value
    config = ModelConfig(
        width=8,
        head_size=4,
        num_recur=num_recur,
        prelude=1,
        layers=2 * num_recur,
        coda=1,
        injection=injection,
    )
    model = LoopedLM.draw(config, 256, jax.random.key(0))
    # The head starts near zero, where all logits are alike.
    head = jax.random.normal(jax.random.key(1), model.head.shape)
    model = dataclasses.replace(model, head=head)
    return Looped(model, Bytes().prepare(Path("."), lambda: iter(())), longest=LENGTH)


def texts(count: int = 7) -> list[np.ndarray]:
    """Of lengths 2 to LENGTH."""
    rngs = [np.random.default_rng(number) for number in range(count)]
    return [rng.integers(0, 256, rng.integers(2, LENGTH + 1)).astype(np.int32) for rng in rngs]


def sequences(start: int, count: int = 7) -> Iterator[tuple[int, np.ndarray]]:
    """The texts from any of them on; two are of one document."""
    return ((max(1, number), tokens) for number, tokens in list(enumerate(texts(count)))[start:])


def source_of(at_once: int = 3, model: Looped | None = None) -> TextSource:
    return TextSource(model or model_of(), sequences, length=LENGTH, at_once=at_once, sequences=7)


def equal(one: Probe, other: Probe, rtol: float = 0.0) -> None:
    """Every number of two probes."""
    assert (one.sequences, one.tokens, one.apart) == (other.sequences, other.tokens, other.apart)
    for name, summary in one.measures.items():
        for a, b in zip(summary, other.measures[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=10 * rtol, err_msg=name)
    for name, values in one.sampled.items():
        np.testing.assert_allclose(values, other.sampled[name], rtol=rtol, atol=10 * rtol, err_msg=name)
    np.testing.assert_allclose(one.clusters.shares, other.clusters.shares, rtol=rtol)
    for a, b in ((one.head, other.head), (one.layer, other.layer)):
        assert a is not None and b is not None
        np.testing.assert_allclose(a.loss, b.loss, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(a.standard_error, b.standard_error, rtol=100 * rtol, atol=rtol)
    np.testing.assert_array_equal(one.settled, other.settled)


@functools.cache
def reference() -> Probe:
    return probe(source_of(), CONFIG)


@pytest.mark.parametrize("at_once", [1, 10])
def test_batches_do_not_matter(at_once):
    """Sequences one at a time, all at once, or with empty places: the same to rounding; the same tokens are
    sampled."""
    equal(reference(), probe(source_of(at_once), CONFIG), rtol=2e-6)


def test_less_memory_gives_the_same(monkeypatch, fits=2):
    """Where memory runs out sequences are read a half at a time, and all are read once."""
    model = model_of()
    whole, tried = model.trajectory, []

    def trajectory(tokens, lengths):
        tried.append(len(tokens))
        if len(tokens) > fits:
            raise MemoryError
        return whole(tokens, lengths)

    monkeypatch.setattr(model, "trajectory", trajectory)
    equal(reference(), probe(source_of(5), CONFIG), rtol=2e-6)
    assert tried.count(5) == 1  # what does not fit is not tried again


def test_it_counts_all_tokens_once():
    """Tokens measured and told apart are all tokens; a sequence's first token is told apart."""
    found = reference()
    lengths = [len(tokens) for tokens in texts()]
    assert found.sequences == 7
    assert found.apart == {"first": 7, "massive": 0, "not_finite": 0}
    assert found.tokens == sum(lengths) - 7


class Stop(Exception):
    """A kill."""


@pytest.mark.parametrize("batches", [1, 2])
def test_a_stopped_probe_goes_on_to_the_same(batches):
    """From the arrays after any batch: equal to the last bit."""
    kept: dict[str, np.ndarray] = {}
    seen = itertools.count(1)

    def on_progress(progress):
        nonlocal kept
        if next(seen) == batches:
            kept = {name: array.copy() for name, array in progress.arrays().items()}
            raise Stop

    with pytest.raises(Stop):
        probe(source_of(), CONFIG, on_progress=on_progress)
    equal(reference(), probe(source_of(), CONFIG, resume=kept))


def test_arrays_of_another_probe_are_refused():
    """Another network's, or none at all."""
    other = Accumulated(model_of(num_recur=1).states, CONFIG).arrays()
    with pytest.raises(ValueError, match="the arrays are those of another probe"):
        probe(source_of(), CONFIG, resume=other)
    with pytest.raises(ValueError, match="done: the arrays are those of another probe"):
        probe(source_of(), CONFIG, resume={})


class Planted(Source):
    """Another source, whose states at a position are another thing."""

    def __init__(self, source: TextSource, position: int, factor: float) -> None:
        self.source, self.position, self.factor = source, position, factor
        self.states, self.sequences, self.model = source.states, source.sequences, None

    def batches(self, start: int = 0) -> Iterator[Batch]:
        for batch in self.source.batches(start):
            states = np.array(batch.states)
            states[:, :, self.position] *= self.factor
            states[:, :, self.position, 0] *= self.factor
            yield batch._replace(states=states)


def test_what_is_planted_in_first_tokens_changes_nothing():
    """States a thousand times as large at position 0, with an entry a million times: with skip_first = 1
    every measure of the other tokens, their sample and clusters are equal to the last bit."""
    config = dataclasses.replace(CONFIG, lens_every=None)
    plain, planted = (probe(Planted(source_of(), 0, factor), config) for factor in (1.0, 1000.0))
    for name, summary in plain.measures.items():
        for a, b in zip(summary, planted.measures[name], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    for name, values in plain.sampled.items():
        np.testing.assert_array_equal(values, planted.sampled[name])
    assert plain.clusters.shares.tolist() == planted.clusters.shares.tolist()
    ratio = planted.apart_norms["first"] / plain.apart_norms["first"]
    assert (ratio > 1000).all()


def test_massive_tokens_are_told_apart_or_kept():
    """A token with one entry a million times the others is massive, wherever it stands; `keep_massive` counts
    it among all."""
    config = dataclasses.replace(CONFIG, lens_every=None, skip_first=0)
    apart = probe(Planted(source_of(), 1, 1000.0), config)
    assert apart.apart == {"first": 0, "massive": 7, "not_finite": 0}  # every sequence has a second token
    kept = probe(Planted(source_of(), 1, 1000.0), dataclasses.replace(config, keep_massive=True))
    assert kept.apart == {"first": 0, "massive": 0, "not_finite": 0}
    assert kept.tokens == apart.tokens + 7
    assert kept.measures["norm"].mean[0] > 10 * apart.measures["norm"].mean[0]


@pytest.mark.parametrize("injection", [Linear(), Hyperconnections(2)], ids=["linear", "lanes"])
def test_the_lens_of_the_last_state_is_the_model(injection):
    """The loss through the head at the last state, and through the last layer at the one before, is the
    model's own loss of the same tokens; there all first choices are final."""
    model = model_of(injection)
    found = probe(source_of(model=model), CONFIG)
    total, count = 0.0, 0
    for tokens in texts()[::2]:
        logits = np.asarray(model.logits(tokens[None], np.array([len(tokens)])))[0].astype(np.float64)
        log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        of_tokens = -log_p[np.arange(len(tokens) - 1), tokens[1:]][1:]
        total, count = total + of_tokens.sum(), count + len(of_tokens)
    assert found.head is not None and found.layer is not None and found.settled is not None
    np.testing.assert_allclose(found.head.loss[-1], total / count, atol=1e-5)
    np.testing.assert_allclose(found.layer.loss[-1], total / count, atol=1e-5)
    assert found.settled[-1] == 1 and (np.diff(found.settled) >= 0).all()


def test_settled_is_where_the_first_choice_becomes_final():
    """By hand: the share of predictions whose first choice through the head is that of the last state from a
    state on."""
    model, config = model_of(), dataclasses.replace(CONFIG, lens_every=1)
    expected, count = np.zeros(len(model.states)), 0
    for tokens in texts():
        states = model.trajectory(tokens[None], np.array([len(tokens)]))[:, 0]
        choices = np.stack([np.asarray(model.read_out(h[None]))[0].argmax(axis=-1) for h in states])
        for column in choices[:, 1 : len(tokens) - 1].T:
            final = [bool((column[number:] == column[-1]).all()) for number in range(len(column))]
            expected += final
            count += 1
    np.testing.assert_allclose(probe(source_of(), config).settled, expected / count)


def test_memory_does_not_grow_with_tokens():
    """What is kept of one sequence and of many has as many bytes, but for the sample, which is bounded."""
    sizes = []
    for count in (2, 7):
        source = TextSource(
            model_of(), functools.partial(sequences, count=count), length=LENGTH, at_once=1, sequences=count
        )
        newest: list[Any] = []
        probe(source, dataclasses.replace(CONFIG, sample=5), on_progress=newest.append)
        sizes.append(sum(array.nbytes for array in newest[-1].arrays().values()))
    assert sizes[0] == sizes[1]


def test_a_state_that_is_not_finite_is_told_apart():
    """Tokens with a NaN or an infinity are counted, and change nothing of the others."""
    config = dataclasses.replace(CONFIG, lens_every=None, skip_first=0, keep_massive=True)
    plain = probe(Planted(source_of(), 1, 1.0), config)
    with np.errstate(invalid="ignore", over="ignore"):
        broken = probe(Planted(source_of(), 1, np.inf), config)
    assert broken.apart["not_finite"] == 7 and broken.tokens == plain.tokens - 7
    assert all(np.isfinite(summary.mean[0]) for name, summary in broken.measures.items() if len(summary.mean))


def test_errors_are_those_of_documents():
    """Mean and standard error of a measure, from sums over documents: the sandwich of a ratio, by hand."""
    model, config = model_of(), dataclasses.replace(CONFIG, lens_every=None)
    found = probe(source_of(), config)
    sums: dict[int, list[float]] = {}
    for document, tokens in sequences(0):
        states = model.trajectory(tokens[None], np.array([len(tokens)]))
        norms = np.linalg.norm(np.asarray(states, np.float64)[2, 0, 1:], axis=-1)
        sums.setdefault(document, []).extend(norms)
    x, n = np.array([[sum(values), len(values)] for values in sums.values()]).T
    ratio, m = x.sum() / n.sum(), len(x)
    assert m == 6
    error = (m / (m - 1) * np.sum((x - ratio * n) ** 2)) ** 0.5 / n.sum()
    summary = found.measures["norm"]
    np.testing.assert_allclose(summary.mean[2], ratio, rtol=1e-6)
    np.testing.assert_allclose(summary.standard_error[2], error, rtol=1e-5)
    assert summary.documents[2] == np.sum(n > 0)


def test_nothing_to_measure_is_said():
    """Texts shorter than skip_first leave no token."""
    with pytest.raises(
        ValueError, match=r"none of the \d+ tokens is left to measure: .* lower skip_first \(99"
    ):
        probe(source_of(), dataclasses.replace(CONFIG, skip_first=99, lens_every=None))
    with pytest.raises(ValueError, match="none of the 0 tokens"):
        result(Accumulated(model_of().states, CONFIG))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("skip_first", -1, "must be at least 0"),
        ("lens_every", 0, "must be at least 1, or None"),
        ("sample", 0, "must be at least 1"),
        ("seed", -1, "must lie in"),
    ],
)
def test_configs_are_checked(field, value, told):
    """The message names the field, its value and the rule."""
    with pytest.raises(ValueError, match=f"{field} is {value}: it {told}"):
        ProbeConfig(**{field: value})


def test_a_source_is_checked():
    """No more positions than the model reads; at least one sequence at once."""
    with pytest.raises(ValueError, match="length is 13: the model reads at most 12 positions"):
        TextSource(model_of(), sequences, length=13, at_once=1)
    with pytest.raises(ValueError, match="at_once is 0: it must be at least 1"):
        TextSource(model_of(), sequences, length=12, at_once=0)
