"""Laws of the figure of a scan."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

from figures import sensitivity
from sweeps.laws import ComputeLaw, Huber, LogSquares
from sweeps.laws._sensitivity import scan


def row(drop_top, estimate, lower, upper, objective="log-squares", delta=None, identified=True):
    """A row of a scan."""
    nothing = math.isnan(estimate)
    return {
        "drop_top": drop_top,
        "objective": objective,
        "delta": delta,
        "overestimates": None if delta is None else 1.0,
        "rows": None if nothing else 50 - drop_top,
        "value": math.nan if nothing else 1e-4 / (1 + drop_top),
        "status": None if nothing else "converged",
        "parameter": "alpha",
        "estimate": estimate,
        "lower": lower,
        "upper": upper,
        "identified": identified,
        "reason": "too few rows" if nothing else "",
    }


@pytest.fixture
def rows():
    """Two objectives; one choice not identified, one open above, one that could not be fitted."""
    return [
        row(0, 1.0, 0.8, 1.2),
        row(10, 1.1, 0.9, math.inf, identified=False),
        row(20, math.nan, math.nan, math.nan, identified=False),
        row(10, 1.3, -40.0, 1.5, "huber", 1e-3, identified=False),
        row(0, 1.2, 1.1, 1.3, "huber", 1e-3),
    ]


def test_each_objective_is_a_line(rows):
    """Rows of one objective and delta are one line, ordered by what was dropped, with nothing lost."""
    squares, huber = sensitivity.compute(rows)
    assert (squares.label, huber.label) == ("log-squares", "huber, δ = 0.001")
    assert huber.dropped.tolist() == [0, 10] and huber.estimate.tolist() == [1.2, 1.3]
    assert squares.identified.tolist() == [True, False, False]
    assert squares.dropped.size + huber.dropped.size == len(rows)


def test_filled_markers_are_the_identified_fits(rows):
    """Hollow markers are on all fits, filled ones on the identified; a cross is what was not fitted."""
    left, right = sensitivity.plot(sensitivity.compute(rows), "alpha").axes
    for axes, column in ((left, "estimate"), (right, "value")):
        hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        filled = [line for line in axes.lines if line.get_marker() in ("o", "s") and line not in hollow]
        fitted = [r[column] for r in rows if r["rows"]]
        assert sorted(y for line in hollow for y in line.get_ydata()) == sorted(fitted)
        sure = [r[column] for r in rows if r["identified"]]
        assert sorted(y for line in filled for y in line.get_ydata()) == sorted(sure)
    assert sum(line.get_xdata().size for line in left.lines if line.get_marker() == "x") == 1
    assert "1 of 5 choices not fitted" in left.get_title()
    assert left.get_ylabel() == "α" and "runs" in left.get_xlabel() and right.get_ylabel()


def test_an_open_interval_ends_at_the_axis(rows):
    """An infinite or far end of a fit that is not identified is an arrow: it does not stretch the axis."""
    left = sensitivity.plot(sensitivity.compute(rows), "alpha").axes[0]
    low, high = left.get_ylim()
    assert 0.5 < low < 0.8 and 1.3 < high < 1.6
    bars = np.concatenate([path.vertices for bars in left.collections for path in bars.get_paths()])
    assert bars[:, 1].min() == low and bars[:, 1].max() == high
    for marker, end in ((11, low), (10, high)):
        arrows = [line.get_ydata() for line in left.lines if line.get_marker() == marker]
        assert np.concatenate(arrows).tolist() == [end]


def test_objectives_do_not_hide_each_other(rows):
    """At one number of dropped runs the bars of two objectives stand side by side, near each other."""
    left = sensitivity.plot(sensitivity.compute(rows), "alpha").axes[0]
    places = sorted(
        x for line in left.lines if line.get_markerfacecolor() == "white" for x in line.get_xdata()
    )
    assert len(set(places)) == 4
    assert places[1] - places[0] == pytest.approx(places[3] - places[2]) and places[1] < 5 < places[2]


def test_a_scan_draws(tmp_path):
    """What `scan` returns is drawn, twice the same to the byte, and no figure is left open."""
    rng = np.random.default_rng(0)
    flops = 10 ** rng.uniform(0, 2, 30)
    table = {"flops": flops, "loss": (1 + 3 * flops**-0.7) * np.exp(0.02 * rng.standard_normal(30))}
    objectives = (LogSquares(), Huber(1e-2), Huber(1e-2, 10.0))
    rows = scan(ComputeLaw(), table, drop_top=(0, 10, 27), objectives=objectives, starts=8)
    first = sensitivity.draw(rows, "alpha", tmp_path / "a", "scan")
    second = sensitivity.draw(rows, "alpha", tmp_path / "b", "scan")
    assert [path.name for path in first] == ["scan.png", "scan.pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000
    assert not plt.get_fignums()
    assert "asymmetric, δ = 0.01, overestimates × 10" in [line.label for line in sensitivity.compute(rows)]


def test_a_scan_in_which_nothing_could_be_fitted_draws(tmp_path):
    """Crosses only, on axes that are there all the same."""
    nothing = [row(n, math.nan, math.nan, math.nan, identified=False) for n in (0, 5)]
    assert all(path.exists() for path in sensitivity.draw(nothing, "alpha", tmp_path, "nothing"))


def test_no_rows_are_refused():
    """An empty scan is refused in a sentence."""
    with pytest.raises(ValueError, match="no choices to draw"):
        sensitivity.compute([])
