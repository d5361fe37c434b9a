"""The table of published numbers and ours: what its verdicts mean."""

import hypothesis
import hypothesis.strategies as st
import pytest

from figures.published._looped import accounting
from figures.published._row import Number, Verdict, apart, claimed, counted, markdown, measured

ENDS = st.floats(-10, 10)


@hypothesis.given(ENDS, ENDS, ENDS, ENDS)
def test_numbers_agree_where_their_intervals_meet(a, b, c, d):
    """Two intervals have a point in common, or the rows differ; which of them is published is no matter."""
    (a, b), (c, d) = sorted((a, b)), sorted((c, d))
    theirs, ours = Number((a + b) / 2, a, b), Number((c + d) / 2, c, d)
    met = max(a, c) <= min(b, d)
    wanted = Verdict.AGREE if met else Verdict.DIFFER
    assert measured("", "", theirs, ours, "").verdict is wanted
    assert measured("", "", ours, theirs, "").verdict is wanted
    assert measured("", "", (a, b), ours, "").verdict is wanted


@pytest.mark.parametrize(
    ("published", "verdict"), [(1.2, Verdict.AGREE), (1.31, Verdict.DIFFER), (0.99, Verdict.DIFFER)]
)
def test_a_number_without_interval_is_a_point(published, verdict):
    """It agrees where it lies in ours, ends included."""
    assert measured("", "", Number(published), Number(1.1, 1.0, 1.3), "").verdict is verdict


def test_counts_are_met_to_the_printed_digit():
    """Ours are rounded as theirs are printed; one that is off by a digit makes the row differ."""
    good = counted("", "", ("35.4", "973"), (35.44e6, 972.6e6), 1e6)
    assert (good.verdict, good.ours) == (Verdict.AGREE, "35.4, 973")
    bad = counted("", "", ("35.4", "973"), (35.46e6, 973e6), 1e6)
    assert bad.verdict is Verdict.DIFFER and "1 of 2" in bad.scale


def test_the_accounting_meets_every_published_count():
    """44 numbers of parameters, the tokens of both runs, and the worked example; no single r gives the
    printed column of tokens."""
    verdicts = [row.verdict for row in accounting()]
    assert verdicts == [Verdict.AGREE, Verdict.AGREE, Verdict.DIFFER, Verdict.AGREE]


def test_the_table_counts_its_verdicts():
    """Its first line says how many rows agree, differ or are apart; cells with a bar stay one cell."""
    rows = [
        claimed("p", "a|b", "yes", "yes", "s", True),
        claimed("p", "c", "yes", "no", "s", False, "since"),
        apart("p", "d", "1", "2", "s", "other data"),
    ]
    lines = markdown(rows).splitlines()
    assert lines[0] == "3 published numbers and claims: 1 agree, 1 differ, 1 not comparable."
    assert lines[4] == "| p | a\\|b | yes | yes | s | agree |"
    assert lines[5].endswith("| differ: since |") and lines[6].endswith("| not comparable: other data |")
