"""Laws of the figure of all estimates: a line a condition, in order, and what is doubtful looks so."""

import dataclasses

import pytest

from figures import estimates
from sweeps._config import ConfigError
from sweeps._report import answers, depth_question
from tests.sweeps.test_report import table


@pytest.fixture
def found():
    """Fits of two teachers with exponents near 1 and 3."""
    return answers(table(), depth_question(("teacher",), 0.0))


def test_a_line_a_condition(found):
    """Each condition has its estimate and interval, in the order of the conditions."""
    lines = estimates.compute(found[::-1])
    assert [one.name for one in lines.lines] == ["teacher independent", "teacher tied"]
    for one, answer in zip(lines.lines, found, strict=True):
        assert one.values == {"alpha": (answer.fit.estimates["alpha"], *answer.fit.intervals["alpha"])}
        assert one.sure == {"alpha": True}
    axes = estimates.plot(lines).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["teacher independent", "teacher tied"]
    low, high = axes.get_xlim()
    assert low < 1 and high > 3 and axes.get_ylim() == (1.5, -0.5)  # the first is at the top


def test_doubt_is_seen(found):
    """A fit with students missing is drawn hollow; one that was refused is counted, not drawn."""
    doubtful = [dataclasses.replace(found[0], left_out=1), dataclasses.replace(found[1], fit=None)]
    lines = estimates.compute(doubtful)
    assert lines.hidden == 1 and lines.lines[0].sure == {"alpha": False}
    faces = [
        line.get_markerfacecolor() for line in estimates.plot(lines).axes[0].lines if line.get_marker() == "o"
    ]
    assert faces == ["white"]
    with pytest.raises(ConfigError, match="nothing to draw"):
        estimates.compute(doubtful[1:])


def test_what_all_share_is_said_once(found):
    """Columns of one value are the title, without reading it as mathematics."""
    shared = [dataclasses.replace(one, condition={**one.condition, "kind": "$a_b"}) for one in found]
    lines = estimates.compute(shared)
    assert lines.shared == "kind $a_b" and "kind" not in lines.lines[0].name
    assert estimates.plot(lines).get_suptitle() == r"kind \$a_b"


def test_more_than_can_be_read(found, monkeypatch):
    """Conditions beyond the bound are counted."""
    monkeypatch.setattr(estimates, "MOST", 1)
    lines = estimates.compute(found)
    assert len(lines.lines) == 1 and lines.hidden == 1
