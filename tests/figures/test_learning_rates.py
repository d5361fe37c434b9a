"""Laws of the figure of learning rates: a planted best rate and what is lost beside it."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figures import learning_rates
from sweeps._config import ConfigError
from sweeps._terminal import BadTable
from tests.sweeps.iso_depth_grid import by_law, runs

BEND = 0.08


def grid():
    """A grid whose rate falls with the width and rises with r."""
    rate = 0.1 / pl.col("width") * pl.col("num_recur") ** 0.1
    return by_law(runs(seeds=2), 0.003).with_columns(matrix_rate=rate)


def sweep(best=1.2, rates=(0.5, 1.0, 2.0)):
    """Losses on parabolas in log rate, whose minima are at `best` times the grid's rate."""
    cells = grid().filter(pl.col("budget") == 1e16, pl.col("width") < 200, pl.col("seed") == 0)
    cells = cells.join(pl.DataFrame({"factor": list(rates)}), how="cross")
    loss = 3 + BEND * (pl.col("factor") / best).log() ** 2 / 2
    return cells.with_columns(loss=loss, matrix_rate=pl.col("matrix_rate") * pl.col("factor"))


@settings(max_examples=20, deadline=None)
@given(best=st.floats(0.6, 1.8))
def test_planted_rate(best):
    """The best rate and what the grid's rate loses are those that were planted, in every cell."""
    cells, scatter = learning_rates.compute(sweep(best), grid())
    assert len(cells) == 2 * 4 and scatter is not None
    for cell in cells:
        assert cell.rate == pytest.approx([0.5, 1, 2])
        assert cell.inside and cell.best == pytest.approx(best, rel=1e-6)
        assert cell.regret == pytest.approx(BEND * math.log(best) ** 2 / 2, abs=1e-9)


def test_a_minimum_outside():
    """Where the best rate lies beyond those tried, the cell is not inside, and drawn hollow and dashed."""
    cells, scatter = learning_rates.compute(sweep(3.0), grid())
    assert not any(cell.inside for cell in cells)
    *panels, regret = learning_rates.plot(cells, scatter).axes
    for axes in panels:
        assert {line.get_linestyle() for line in axes.lines if line.get_marker() == "None"} == {"--"}
        assert not [line for line in axes.lines if line.get_marker() == "x"]
    marks = [line for line in regret.lines if line.get_marker() != "None"]
    assert len(marks) == len(cells) and {line.get_markerfacecolor() for line in marks} == {"white"}


def test_losses_that_only_fall():
    """Without a minimum there is no parabola, and nothing is said of what is lost."""
    rows = sweep().with_columns(loss=3 - pl.col("factor") * 0.01 - pl.col("factor").log() ** 2)
    cells, _ = learning_rates.compute(rows, grid())
    assert all(cell.parabola is None and math.isnan(cell.regret) and not cell.inside for cell in cells)
    learning_rates.plot(cells, None)


@pytest.mark.parametrize(
    ("rates", "own", "message"),
    [
        (sweep(rates=(0.5, 1.0)), grid(), r"has 2 rate\(s\): a parabola needs three"),
        (sweep(), grid().filter(pl.col("num_recur") != 4), r"the grid has 0 rate\(s\) at budget 1e\+16"),
        (
            sweep(),
            grid().with_columns(matrix_rate=pl.col("matrix_rate") * (1 + pl.col("seed"))),
            r"the grid has 2 rate\(s\)",
        ),
        (pl.concat([sweep(), sweep().with_columns(budget=2e16)]), grid(), "the rates have 2 budgets"),
    ],
)
def test_other_sweeps_are_refused(rates, own, message):
    """Too few rates, a grid that does not say its own, or says two, and several budgets are refused."""
    with pytest.raises(ConfigError, match=message):
        learning_rates.compute(rates, own)


def test_a_missing_column(tmp_path):
    """A table without rates is refused."""
    sweep().drop("matrix_rate").write_csv(tmp_path / "rates.csv")
    grid().write_csv(tmp_path / "grid.csv")
    with pytest.raises(BadTable, match="rates.csv has no column 'matrix_rate'"):
        learning_rates.load(tmp_path / "rates.csv", tmp_path / "grid.csv")


@pytest.mark.slow
def test_twice_the_same(tmp_path):
    """The script draws the same files to the byte; every loss is in the panel of its width."""
    sweep().write_csv(tmp_path / "rates.csv")
    grid().write_csv(tmp_path / "grid.csv")
    for name in "ab":
        learning_rates.main(tmp_path / "rates.csv", tmp_path / "grid.csv", tmp_path / name)
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"learning_rates.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
    cells, scatter = learning_rates.compute(sweep(), grid())
    figure = learning_rates.plot(cells, scatter)
    assert [axes.get_title() for axes in figure.axes[:-1]] == ["Width 96", "Width 160"]
    assert all(axes.get_xlabel() and "nats" in axes.get_ylabel() for axes in figure.axes)
    drawn = np.concatenate(
        [line.get_ydata() for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    )
    wanted = np.concatenate([cell.loss for cell in cells if cell.width == 96])
    assert set(wanted) <= set(drawn)
