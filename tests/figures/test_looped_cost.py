"""Laws of the figure of costs: it counts what the paper prints, and what its formulas say."""

import numpy as np
import pytest

from figures import _looped_paper as paper
from figures import looped_cost


@pytest.fixture(scope="module")
def computed():
    """Counts and tokens."""
    return looped_cost.compute()


def test_published_sizes(computed):
    """Unique parameters of all 44 models are the printed ones, to the last printed digit."""
    for found, s in zip(computed[0].unique, sorted(paper.NUM_PARAMS), strict=True):
        assert [round(value / 1e6, 1) for value in found] == list(paper.NUM_PARAMS[s])


def test_flops_are_the_papers_formula(computed):
    """6 (N_once + r N_rec) + 12 d T a layer + 6 d V for a token's training, of matrices alone; a recurrence
    without gradient costs 2 and 4; inference costs a third."""
    counts, _ = computed
    d, r = counts.widths[:, None], np.array(paper.RECURRENCES)
    once, recurrent = 4 * 12 * d**2, 16 / r * 12 * d**2 + np.where(r > 1, 2 * d**2, 0)
    attention, head = 12 * d * paper.CONTEXT, 6 * d * 32_064
    np.testing.assert_allclose(counts.training, 6 * (once + r * recurrent) + 20 * attention + head)
    detached = r - np.ceil(r / 2)
    saved = detached * (4 * recurrent + 16 / r * attention * 2 / 3)
    np.testing.assert_allclose(counts.truncated, counts.training - saved)
    np.testing.assert_allclose(counts.inference, counts.training / 3)


def test_ratios(computed):
    """r = 1 is the unit; unique parameters fall with r and executed ones rise by injections alone; the
    effective ones of the worked example are the published 0.58 once the injection is left out."""
    counts, _ = computed
    for name in ("unique", "executed", "effective", "training", "truncated", "inference"):
        np.testing.assert_array_equal(counts.ratio(name)[:, 0], 1)
    assert np.all(np.diff(counts.ratio("unique")) < 0)
    assert np.all(counts.ratio("executed") >= 1) and np.all(counts.ratio("executed") < 1.07)
    assert counts.ratio("unique")[:, 2] == pytest.approx(paper.UNIQUE, abs=0.005)
    injections = 2 * counts.widths**2 * 4 ** paper.PHI["all"][0]
    bare = (counts.effective[:, 2] - injections) / counts.unique[:, 0]
    assert bare == pytest.approx(paper.EFFECTIVE, abs=0.005)


def test_published_tokens(computed):
    """A budget buys what the paper printed to 3 % at r = 1, 2 and 4, and less at r = 8, which spends most; 29
    cells each."""
    for one in computed[1]:
        assert one.excess.size == 29 and np.all(one.reach > 0)
    excess = np.stack([one.excess for one in computed[1]])
    assert np.abs(excess[:3]).max() < 0.03 and np.all(np.diff(excess, axis=0) < 0)


@pytest.mark.slow
def test_twice_the_same(tmp_path, capsys):
    """The script draws the same files to the byte, with units on every axis."""
    for name in "ab":
        looped_cost.main(tmp_path / name)
    assert capsys.readouterr().out.count("looped_cost.p") == 4
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"looped_cost.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
    figure = looped_cost.plot(*looped_cost.compute())
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
