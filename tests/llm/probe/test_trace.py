"""Laws of the causal trace: what a restored state must do, in whoever's model; and our models' own traces."""

import dataclasses
import functools
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from llm import Bytes, Hyperconnections, LoopedLM, TrainedBPE
from llm.probe import Looped, TraceSettings, causal_trace
from llm.probe._looped import LoopedTrace, states_of
from llm.probe._spans import first_of_answer, place_of, positions_in, spans
from tests.llm.probe.relay import ANSWER, Relay
from tests.llm.test_model import VOCABULARY, Reference, config_of, layers, model_of, norm

MODELS = ("linear", "additive", "passthrough", "two lanes")
SENTENCE = "a bc def!g"


@st.composite
def paths(draw):
    """A sentence's length, and who carries at each of some states, from a token to the last."""
    length = draw(st.integers(2, 8))
    path = sorted(draw(st.lists(st.integers(0, length - 1), min_size=2, max_size=8)))
    return length, [*path, length - 1]


def relayed(path, length, **options):
    sentence = "abcdefghij"[:length]
    return causal_trace(Relay(path), sentence, sentence[path[0]], answer="!", **options)


class TestKnownCause:
    """A network made by hand."""

    @hypothesis.given(paths(), st.integers(0, 5))
    def test_the_map_is_the_path(self, path, seed):
        """At each state the one carrier restores all, for every draw, and no other does anything."""
        length, path = path
        found = relayed(path, length, seed=seed)
        for s, carrier in enumerate(path):
            restored = found.restored[s]
            np.testing.assert_array_equal(restored[:, carrier], found.clean)
            others = np.delete(restored, carrier, axis=1)
            np.testing.assert_array_equal(others, np.broadcast_to(found.corrupted[:, None], others.shape))
        assert found.lowered and found.clean == pytest.approx(0.5)
        assert sorted(found.peaks()) == sorted((path.index(carrier), carrier) for carrier in set(path))

    def test_a_single_site(self):
        """Of two tokens that take over for one state each, the map has exactly that state."""
        found = relayed([1, 1, 3, 5, 5], 6)
        sites = np.argwhere(found.effect > 0.5 * found.effect.max()).tolist()
        assert sites == [[0, 1], [1, 1], [2, 3], [3, 5], [4, 5]]

    @hypothesis.given(paths())
    def test_no_noise_changes_nothing(self, path):
        """Noise 0: everything is as undisturbed, and the trace says that there is nothing to restore."""
        length, path = path
        found = relayed(path, length, noise=0.0)
        assert (found.restored == found.clean).all() and (found.corrupted == found.clean).all()
        assert not found.lowered

    @pytest.mark.parametrize("at_once", [1, 3, 4, 100])
    def test_chunks(self, at_once):
        """The map does not depend on positions at once, and each position is asked for once."""
        model = Relay([1, 3, 6])
        found = causal_trace(model, "abcdefg", "b", answer="!", at_once=at_once)
        np.testing.assert_array_equal(found.restored, relayed([1, 3, 6], 7).restored)
        for state in range(3):
            asked = [positions for _, positions, number in model.asked if number == state]
            assert sum(asked, []) == list(range(7)) and max(map(len, asked)) <= at_once

    def test_error_of_more_draws(self):
        """The mean squared standard error falls as 1/draws: over 40 seeds its relative error at 8 draws is
        about √(2/7/40) = 0.085, of the slope over a factor of 64 about 0.02; the bound is five times that."""
        counts = [8, 32, 128, 512]
        squares = [
            np.mean([relayed([0, 1], 2, draws=draws, seed=seed).corrupted_error ** 2 for seed in range(40)])
            for draws in counts
        ]
        slope = np.polyfit(np.log(counts), np.log(squares), 1)[0]
        assert abs(slope + 1) < 0.1

    def test_more_draws_begin_with_those_of_fewer(self):
        """The noise of the first draws does not depend on how many there are, but on the seed."""
        few, many, other = (
            causal_trace(Relay([1, 2]), "abc", "ab", answer="!", draws=draws, seed=seed)
            for draws, seed in ((3, 1), (9, 1), (3, 2))
        )
        np.testing.assert_array_equal(few.corrupted, many.corrupted[:3])
        np.testing.assert_array_equal(few.restored, many.restored[:, :3])
        assert (few.corrupted != other.corrupted).all()

    def test_statistics(self):
        """Means, spread and errors are those of the draws; an effect's error is that of differences."""
        found = relayed([1, 2, 4], 5, draws=7)
        s = 0
        for t in (0, 1):
            values = found.restored[s, :, t]
            assert found.probability[s, t] == pytest.approx(values.mean())
            assert found.spread[s, t] == pytest.approx(np.std(values, ddof=1))
            assert found.error[s, t] == pytest.approx(np.std(values, ddof=1) / 7**0.5)
            difference = values - found.corrupted
            assert found.effect[s, t] == pytest.approx(difference.mean())
            assert found.effect_error[s, t] == pytest.approx(np.std(difference, ddof=1) / 7**0.5)
        assert found.effect_error[0, 0] == 0 < found.error[0, 0]

    def test_peaks_but_for_rounding(self):
        """Of effects that differ by rounding the first counts; one that is nothing else is none."""
        found = relayed([1, 1, 1, 4], 5)
        up = 1e-8 * np.arange(4)[:, None, None]
        peaks = dataclasses.replace(found, restored=found.restored + up).peaks()
        assert sorted(peaks) == [(0, 1), (3, 4)]

    def test_noise_that_helps_is_said(self):
        """Where the noise raises the probability, there is nothing to restore."""
        found = causal_trace(Relay([0, 1]), "ab", "a", answer="?", draws=20)
        assert found.corrupted.mean() > found.clean and not found.lowered

    def test_noise_lies_on_the_subject(self):
        """Its deviation is noise times the embedding's, on the subject's tokens and no others."""
        model, given = Relay([1, 2]), []
        trace = model.trace

        def spied(tokens):
            found = trace(tokens)
            corrupted = found.corrupted
            found.corrupted = lambda noise: given.append(noise) or corrupted(noise)
            return found

        model.trace = spied
        found = causal_trace(model, "abcdef", "cd", answer="!", noise=2.0, draws=4000)
        (noise,) = given
        assert noise.shape == (4000, 6, 1) and found.deviation == 1.0
        assert not noise[:, [0, 1, 4, 5]].any()
        # 8000 normal numbers: the standard error of their deviation is 0.8 %.
        assert np.std(noise[:, 2:4]) == pytest.approx(1.0, rel=0.04)

    def test_states_and_what_is_known(self):
        """Chosen states come in the order of depth; those that are known are not found again."""
        model = Relay([1, 2, 4])
        whole = causal_trace(model, "abcde", "b", answer="!")
        told = []
        some = causal_trace(
            model, "abcde", "b", answer="!", states=["layer.1", "embedding"], on_state=told.append
        )
        assert [state.name for state in some.states] == ["embedding", "layer.1"]
        np.testing.assert_array_equal(some.restored, whole.restored[[0, 2]])
        assert [(one.done, one.total, one.state) for one in told] == [(1, 2, "embedding"), (2, 2, "layer.1")]
        model.asked.clear()
        known = {one.state: one.restored for one in told}
        again = causal_trace(model, "abcde", "b", answer="!", known=known)
        np.testing.assert_array_equal(again.restored, whole.restored)
        assert {state for *_, state in model.asked} == {1}

    def test_a_token_before_the_sentence(self):
        """It is a position of the map, without text, and never the subject's."""
        plain, begun = (
            causal_trace(Relay([1, last], first=first), "bcde", "b", answer="!")
            for first, last in ((None, 3), (0, 4))
        )
        assert [token.text for token in begun.tokens] == ["", "b", "c", "d", "e"]
        assert [token.is_subject for token in begun.tokens] == [False, True, False, False, False]
        assert begun.lowered and not plain.lowered  # what carries is at position 1
        assert plain.restored.shape == (2, 10, 4) and begun.restored.shape == (2, 10, 5)

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"subject": "x"}, "subject 'x' is not in 'abcab': write it as it stands there"),
            ({"subject": ""}, "subject is '': it must have a character"),
            ({"sentence": ""}, "sentence is ''"),
            ({"sentence": "a\udcff"}, "sentence is no character at 1: it must be text"),
            ({"occurrence": 3}, r"occurrence is 3: 'ab' is 2 time\(s\)"),
            ({"occurrence": 0}, "occurrence is 0: it must be at least 1"),
            ({"answer": ""}, "answer is ''"),
            ({"noise": -1.0}, "noise is -1.0: it must be a number, at least 0"),
            ({"noise": float("nan")}, "noise is nan"),
            ({"draws": 1}, "draws is 1: it must be at least 2"),
            ({"seed": -1}, "seed is -1"),
            ({"at_once": 0}, "at_once is 0"),
            ({"states": []}, "states is empty"),
            ({"states": ["layer.7"]}, "relay has no state 'layer.7'; it has layer.0"),
            ({"known": {"layer.0": np.zeros((3, 5))}}, r"known\['layer.0'\] is of shape \(3, 5\)"),
        ],
    )
    def test_refusals(self, options, sentence):
        """What cannot be traced is refused: which setting, its value, and what to do."""
        with pytest.raises(ValueError, match=sentence):
            causal_trace(Relay([0, 4]), **{"sentence": "abcab", "subject": "ab", **options})

    def test_too_long(self):
        """A sentence that the model does not read is refused, counting the token before it."""
        with pytest.raises(ValueError, match="sentence has 5 tokens: relay reads 4; shorten it"):
            causal_trace(Relay([0, 4], first=1, longest=4), "abcd", "a")

    def test_the_answer(self):
        """By default the likeliest next token; given, the first that it has after the sentence."""
        found = [causal_trace(Relay([0, 1]), "ab", "a", answer=answer) for answer in (None, "!?", "xyz")]
        assert [one.answer.id for one in found] == [ANSWER, ANSWER, ord("x")]
        assert {one.likeliest.text for one in found} == {"!"} and found[2].most == found[0].clean

    def test_occurrence(self):
        """The first, or the one that is asked for; they may overlap."""
        first, second = (causal_trace(Relay([0, 3]), "aaab", "aa", answer="!", occurrence=n) for n in (1, 2))
        assert [token.is_subject for token in first.tokens] == [True, True, False, False]
        assert [token.is_subject for token in second.tokens] == [False, True, True, False]


TEXTS = st.text(st.sampled_from("ab é漢🙂\ufffd\n\u0301"), max_size=8)


class TestSpans:
    """Which characters a token has."""

    @hypothesis.given(TEXTS, st.data())
    def test_any_cutting_of_bytes(self, text, data):
        """However a text's bytes are cut into tokens, one has a character if it has any byte of it."""
        raw = text.encode()
        cuts = sorted(data.draw(st.sets(st.integers(1, max(len(raw) - 1, 1)))) & set(range(1, len(raw))))
        ends = list(zip([0, *cuts], [*cuts, len(raw)], strict=True)) if raw else []
        full, found = spans(
            range(len(ends)), lambda ids: b"".join(raw[slice(*ends[i])] for i in ids).decode(errors="replace")
        )
        assert full == text
        begins = np.cumsum([0, *(len(letter.encode()) for letter in text)])
        for (begin, end), span in zip(ends, found, strict=True):
            has = [c for c in range(len(text)) if begins[c] < end and begin < begins[c + 1]]
            assert list(range(span.begin, span.end)) == has

    def test_bytes(self):
        """Each byte of é belongs to it; the last one shows it."""
        prepared = Bytes().prepare(Path(), lambda: iter([]))
        full, found = spans([int(id) for id in prepared.encode_batch(["aéb"])[0]], prepared.decode)
        assert [(span.begin, span.end, span.text) for span in found] == [
            (0, 1, "a"),
            (1, 2, "\ufffd"),
            (1, 2, "é"),
            (2, 3, "b"),
        ]
        assert positions_in(place_of("é", full), found) == [1, 2]

    def test_bpe(self, bpe):
        """A subject takes all tokens that hold some of it: "spa" is in one, "e sp" in two."""
        ids = [int(id) for id in bpe.encode_batch(["in the space"])[0]]
        full, found = spans(ids, bpe.decode)
        assert [span.text for span in found] == ["in", " the", " space"]
        assert [positions_in(place_of(subject, full), found) for subject in ("spa", "e sp", "in")] == [
            [2],
            [1, 2],
            [0],
        ]

    def test_answers_of_bpe(self, bpe):
        """The answer's first token is the one after the sentence's; a space that would join it is named."""

        def encode(text):
            return [int(id) for id in bpe.encode_batch([text])[0]]

        (space,) = encode(" space")
        assert first_of_answer("in the", " space in", encode("in the"), encode) == space
        for rest in ("", " in the"):
            with pytest.raises(ValueError, match=f"begin the answer with it: ' space{rest}'"):
                first_of_answer("in the ", f"space{rest}", encode("in the "), encode)
        with pytest.raises(ValueError, match="begin the answer with a space"):
            first_of_answer("in th", "e space", encode("in th"), encode)


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    """Trained on so few words that all are tokens."""
    text = "in the space " * 40
    return TrainedBPE(vocabulary=267).prepare(tmp_path_factory.mktemp("bpe"), lambda: iter([text]))


class Slow:
    """Every state of a pass of one sequence, one after another in float64 NumPy; each can be changed."""

    def __init__(self, model: LoopedLM, length: int) -> None:
        self.reference, self.model = Reference(model, length), model
        self.blocks = {
            part: [jax.tree.map(lambda leaf, j=j: leaf[j : j + 1], blocks) for j in range(len(blocks.query))]
            for part in ("prelude", "recurrent", "coda")
            for blocks in [getattr(self.reference.w, part)]
        }

    def __call__(self, h: np.ndarray, num_recur: int, change=lambda number, state: state):
        """Probabilities after the last token, and all states, from embeddings h (T, d) before the norm."""
        reference, w, found = self.reference, self.reference.w, []
        injection, learnt = reference.injection, w.injection

        def visit(state: np.ndarray) -> np.ndarray:
            found.append(change(len(found), state))
            return found[-1]

        def through(part, h):
            for block in self.blocks[part]:
                h = visit(layers(block, h, reference.seen))
            return h

        e = through("prelude", visit(norm(h, w.embedding_scale)))
        state = reference.start(e)
        for i in range(num_recur):
            if isinstance(injection, Hyperconnections):
                alpha, mixing, beta = (
                    learnt[name][i % len(learnt[name])] for name in ("alpha", "mixing", "beta")
                )
                read = np.einsum("k,ktd->td", alpha, state)
            else:
                name = injection.kind
                both = np.concatenate([e, state], axis=-1)
                read = both @ learnt["inject"] if name == "linear" else state + e * (name == "additive")
            s = norm(through("recurrent", visit(read)), w.recurrence_scale)
            if isinstance(injection, Hyperconnections):
                s = np.einsum("kj,jtd->ktd", mixing, state) + beta[:, None, None] * s
            state = visit(s)
        h = through("coda", state.sum(axis=0) if isinstance(injection, Hyperconnections) else state)
        z = 15 * np.tanh(norm(h[-1], w.final_scale) @ w.head[:, : self.model.vocabulary] / 15)
        return np.exp(z - z.max()) / np.exp(z - z.max()).sum(), found


LENGTH, DRAWS = 5, 2


@functools.cache
def case(name, trained, num_recur):
    """A model, its trace of a sequence, noise on positions 1 and 2, and all that the slow pass finds."""
    model = model_of(config_of(name, trained))
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, VOCABULARY, LENGTH)
    noise = np.zeros((DRAWS, LENGTH, 16), np.float32)
    noise[:, 1:3] = 2 * rng.standard_normal((DRAWS, 2, 16))
    slow, embedded = Slow(model, LENGTH), np.asarray(model.embedding, np.float64)[tokens]
    clean, states = slow(embedded, num_recur)
    return LoopedTrace(model, tokens, num_recur), noise, (slow, embedded, clean, states)


CASES = [
    ("linear", 1, 1),
    ("two lanes", 1, 1),
    ("additive", 2, 2),
    ("passthrough", 2, 2),
    *((name, 2, 3) for name in MODELS),
]


@pytest.mark.parametrize(("name", "trained", "num_recur"), CASES)
class TestLoopedTrace:
    """Traces of our own models."""

    def test_equals_a_slow_one(self, name, trained, num_recur):
        """Clean, corrupted and every state restored at every position: as a pass in NumPy that replaces it.
        2e-6 is five times the largest difference of float32 that was measured."""
        trace, noise, (slow, embedded, clean, states) = case(name, trained, num_recur)
        close = functools.partial(np.testing.assert_allclose, rtol=0, atol=2e-6)
        close(trace.clean(), clean)
        close(trace.corrupted(noise), [slow(embedded + one, num_recur)[0] for one in noise])
        for number, wanted in enumerate(states):
            found = trace.restored(noise, number, np.arange(LENGTH))
            for draw, t in [*((0, t) for t in range(LENGTH)), (1, number % LENGTH)]:

                def change(at, state, t=t, number=number, wanted=wanted):
                    if at == number:
                        state = state.copy()
                        state[..., t, :] = wanted[..., t, :]
                    return state

                close(found[draw, t], slow(embedded + noise[draw], num_recur, change)[0])

    def test_laws(self, name, trained, num_recur):
        """The last state at the last position restores all; at others nothing. Before the noise nothing does.
        The embedding of all that is noisy restores all of it, and where nothing is, nothing."""
        trace, noise, (*_, states) = case(name, trained, num_recur)
        last, clean, corrupted = len(states) - 1, trace.clean(), trace.corrupted(noise)
        found = trace.restored(noise, last, np.arange(LENGTH))
        np.testing.assert_allclose(found[:, -1], np.broadcast_to(clean, corrupted.shape), rtol=0, atol=1e-6)
        unchanged = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-6)
        for t in range(LENGTH - 1):
            unchanged(found[:, t], corrupted)
        for number in range(last + 1):
            unchanged(trace.restored(noise, number, np.array([0]))[:, 0], corrupted)
        for t in (0, 3, 4):
            unchanged(trace.restored(noise, 0, np.array([t]))[:, 0], corrupted)
        one = noise * (np.arange(LENGTH) == 2)[:, None].astype(np.float32)
        unchanged(trace.restored(one, 0, np.array([2]))[:, 0], np.broadcast_to(clean, corrupted.shape))
        unchanged(trace.corrupted(0 * noise), np.broadcast_to(clean, corrupted.shape))

    def test_states(self, name, trained, num_recur):
        """States are named in the order in which the model makes them."""
        model = model_of(config_of(name, trained))
        assert [state.name for state in states_of(model, num_recur)] == made_by(model, num_recur)


def made_by(model, num_recur):
    """The names of its states, in the order in which they are made."""
    names = []
    jax.eval_shape(lambda: names.extend(model.states(jnp.zeros((1, 1), jnp.int32), num_recur)))
    return names


def test_states_beyond_ten():
    """The tenth layer and recurrence come after the ninth, not after the first."""
    model = model_of(dataclasses.replace(config_of("passthrough", 1), layers=11, prelude=11))
    assert [state.name for state in states_of(model, 11)] == made_by(model, 11)


def test_of_a_looped_trace():
    """A state or a position that there is not is refused."""
    trace, noise, _ = case("linear", 1, 1)
    with pytest.raises(ValueError, match="state is 99: it must be from 0 to"):
        trace.restored(noise, 99, np.array([0]))
    with pytest.raises(ValueError, match=r"positions are \[5\]: they must be from 0 to 4"):
        trace.restored(noise, 0, np.array([5]))


@pytest.fixture(scope="module")
def looped():
    """A model of bytes with lanes, run oftener than it would have been in training."""
    config = config_of("two lanes", 2)
    drawn = LoopedLM.draw(config, 256, jax.random.key(0))
    head = jax.random.normal(jax.random.key(1), drawn.head.shape)
    model = dataclasses.replace(drawn, head=head)
    return Looped(model, Bytes().prepare(Path(), lambda: iter([])), num_recur=3, longest=32, name="lanes")


class TestOfALoopedModel:
    """The whole trace of one of our models."""

    def test_chunks_and_rows(self, looped):
        """The map does not depend on positions at once: the model pads them to the same program."""
        whole, parts = (
            causal_trace(looped, SENTENCE, "bc", draws=7, at_once=at_once) for at_once in (None, 2)
        )
        np.testing.assert_allclose(whole.restored, parts.restored, rtol=0, atol=1e-6)
        assert whole.restored.shape == (len(looped.states), 7, 1 + len(SENTENCE))

    def test_axis(self, looped):
        """States tell their part and recurrence, so that the axis can be (recurrence, layer)."""
        found = causal_trace(looped, SENTENCE, "a", draws=2)
        assert [(state.name, state.part, state.recurrence) for state in found.states] == [
            ("embedding", "embedding", None),
            ("prelude.0", "prelude", None),
            *(
                (name, "recurrence", i)
                for i in range(3)
                for name in (f"inject.{i}", f"recurrence.{i}.0", f"recurrence.{i}.1", f"recurrence.{i}")
            ),
            ("coda.0", "coda", None),
        ]

    def test_repeats(self, looped):
        """The same call gives the same map to the last bit."""
        first, second = (causal_trace(looped, SENTENCE, "def", draws=3) for _ in range(2))
        np.testing.assert_array_equal(first.restored, second.restored)
        assert first.settings == second.settings == TraceSettings(SENTENCE, "def", draws=3)
