"""Laws of the figure of a causal trace: it draws the trace's map, subject and recurrences marked."""

import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from figures import _style, causal_trace
from llm.probe import CausalTrace, State, TracedToken, TraceSettings
from sweeps._causal import as_json

LOOPED = (
    State("embedding", "embedding", is_layer=False),
    State("prelude.0", "prelude"),
    State("prelude.1", "prelude"),
    *(
        State(name, "recurrence", i, is_layer=name.count(".") == 2)
        for i in range(2)
        for name in (f"inject.{i}", f"recurrence.{i}.0", f"recurrence.{i}.1", f"recurrence.{i}")
    ),
    State("coda.0", "coda"),
)


def made(texts=("", "$a_$", "\\b", "\n", " c", "漢", "\x07"), states=LOOPED, subject=(1, 2)):
    """A trace with a map of random numbers."""
    rng = np.random.default_rng(0)
    return CausalTrace(
        model="made",
        settings=TraceSettings("$a_$\\b\n c漢\x07", "a_$\\", answer=" d", draws=4),
        tokens=tuple(TracedToken(i, text, i in subject) for i, text in enumerate(texts)),
        answer=TracedToken(3, " d"),
        likeliest=TracedToken(3, " d"),
        most=0.9,
        states=tuple(states),
        deviation=1.5,
        clean=0.9,
        corrupted=np.array([0.1, 0.2, 0.15, 0.12]),
        restored=rng.uniform(0.1, 0.9, (len(states), 4, len(texts))),
    )


@pytest.fixture
def figure():
    return causal_trace.plot(causal_trace.compute(made()), "runs")


def test_the_map_is_the_traces(figure):
    """The image holds the mean probability of each state (from the embedding up) and token."""
    (image,) = figure.axes[0].images
    np.testing.assert_array_equal(np.asarray(image.get_array()), made().probability)
    assert image.origin == "lower" and image.get_cmap().name == "cividis"
    assert figure.axes[0].get_ylim() == (-0.5, len(LOOPED) - 0.5)


def test_the_subject_is_marked(figure):
    """Its tokens, and no others, have a mark, a colour and weight: colour alone tells not everybody."""
    ticks = figure.axes[0].get_xticklabels()
    marked = [label.get_text().startswith(causal_trace.SUBJECT) for label in ticks]
    assert marked == [False, True, True, False, False, False, False]
    for label, mark in zip(ticks, marked, strict=True):
        assert (label.get_fontweight() == "bold") is mark
        assert (to_hex(label.get_color(), False).upper() == _style.RED) is mark


def test_recurrences_are_apart():
    """Each part and recurrence is a band with its name, and states are named within it."""
    drawn = causal_trace.compute(made())
    assert [(band.label, band.begin, band.end) for band in drawn.bands] == [
        ("embedding", 0, 1),
        ("prelude", 1, 3),
        ("recurrence 0", 3, 7),
        ("recurrence 1", 7, 11),
        ("coda", 11, 12),
    ]
    assert drawn.states == [
        *("embedding", "layer 0", "layer 1"),
        *("injected", "layer 0", "layer 1", "end") * 2,
        "layer 0",
    ]
    axes = causal_trace.plot(drawn).axes[0]
    assert [line.get_ydata()[0] for line in axes.lines] == [0.5, 2.5, 6.5, 10.5]
    assert [text.get_text() for text in axes.texts] == [band.label for band in drawn.bands]


def test_odd_texts():
    """Dollar signs are no formula, newlines and what no font has are escaped, a space can be seen."""
    drawn = causal_trace.compute(made())
    figure = causal_trace.plot(drawn)
    figure.canvas.draw()
    texts = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    mark = causal_trace.SUBJECT
    assert texts == ["(begin)", f"{mark}$a_$", f"{mark}\\\\b", "\\n", "␣c", "\\u6f22", "\\x07"]
    assert "'␣d'" not in drawn.title and "' d' follows with probability 0.9" in drawn.title


def test_the_bar_shows_both_ends(figure):
    """The colour bar marks the clean probability and that with noise, and names its unit."""
    bar = figure.axes[1]
    assert sorted({line.get_ydata()[0] for line in bar.lines}) == pytest.approx([0.1425, 0.9])
    assert bar.get_ylabel() == "probability of the answer"


def test_the_bar_reaches_both_ends():
    """Also where no state that was restored comes near them."""
    between = dataclasses.replace(made(), restored=np.full((len(LOOPED), 4, 7), 0.5))
    low, high = causal_trace.plot(causal_trace.compute(between)).axes[1].get_ylim()
    assert (low, high) == pytest.approx((0.1425, 0.9))


def test_the_caption_says_what_is_drawn(figure):
    """Noise, draws, and how sure a cell is; and where the map is not to be trusted, that."""
    text = figure.get_supxlabel().replace("\n", " ")
    assert "noise of 3 times" in text and "mean over 4 draws" in text and "Model: runs." in text
    assert f"standard error of a cell {made().error.max():.2g}" in text
    vain = dataclasses.replace(made(), corrupted=np.array([0.9, 0.95, 0.91, 0.92]))
    assert "nothing to restore" in causal_trace.compute(vain).caption


def test_many_tokens_and_states():
    """Of more tokens and states than can have a label, every so many have one, and the subject's all."""
    states = [State(f"layer.{i}", "layer") for i in range(130)]
    subject = (7, 8, 9)
    figure = causal_trace.plot(causal_trace.compute(made("ab" * 60, states, subject)))
    axes = figure.axes[0]
    assert set(subject) < set(axes.get_xticks()) and len(axes.get_xticks()) <= causal_trace.WIDEST + 3
    assert len(axes.get_yticks()) <= causal_trace.HIGHEST
    assert max(figure.get_size_inches()) < 13


def test_it_draws(tmp_path, monkeypatch):
    """PNG and PDF, without a display, twice the same to the byte, and no figure is left open."""
    monkeypatch.delenv("DISPLAY", raising=False)
    first, second = (causal_trace.draw(made(), tmp_path / name, "map", "runs") for name in "ab")
    assert [path.name for path in first] == ["map.png", "map.pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert 5_000 < one.stat().st_size < 500_000
    assert not plt.get_fignums()


def test_main(tmp_path, capsys):
    """The script draws what was saved, and refuses in a sentence what is no trace."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(as_json(made(), "runs")), encoding="utf-8")
    causal_trace.main(path, tmp_path)
    assert (tmp_path / "causal_trace.png").exists() and "causal_trace.pdf" in capsys.readouterr().out
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit, match="causal_trace: .*trace.json is not a causal trace"):
        causal_trace.main(path, tmp_path)
