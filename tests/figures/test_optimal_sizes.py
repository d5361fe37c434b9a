"""Laws of the figure of best sizes: exponents that were planted, and equivalent sizes by phi."""

import dataclasses

import numpy as np
import pytest

from figures import _looped_paper as paper
from figures import optimal_sizes
from sweeps._config import ConfigError
from sweeps.iso_depth._frontier import frontier, growth
from sweeps.iso_depth._grid import read
from tests.sweeps.iso_depth_grid import RECURRENCES, by_parabolas, runs

pytestmark = pytest.mark.slow


def test_planted_exponents(grid):
    """Where minima grow as C^0.3 for every r, so do the lines and the exponents of the parabolas."""
    rows = by_parabolas(
        runs(), lambda c, r: 1.2e7 * r**-0.4 * (c / 3e16) ** 0.3, lambda c, r: 3 * (c / 3e16) ** -0.05
    )
    cells = frontier(read(rows))
    found = optimal_sizes.compute(dataclasses.replace(grid, cells=cells, growth=growth(cells)))
    for one, line in zip(found.exponents["num_params"], found.growing["num_params"], strict=True):
        assert one.parabolas == pytest.approx(0.3, abs=1e-6) and one.error < 1e-6
        slope = np.polyfit(np.log(line.budgets), np.log(line.line), 1)[0]
        assert slope == pytest.approx(0.3, abs=1e-6)
        np.testing.assert_allclose(line.line, line.best, rtol=1e-6)


def test_exponents_are_the_analysis(grid):
    """Exponents and their errors are those of the analysis, by parabolas and by the joint law."""
    found = optimal_sizes.compute(grid)
    grown = {(one.num_recur, one.column): one for one in grid.growth}
    by_law = {(one["num_recur"], one["column"]): one for one in grid.optima_growth}
    for name, exponents in found.exponents.items():
        assert [one.num_recur for one in exponents] == list(RECURRENCES)
        for one in exponents:
            place = one.num_recur, name
            assert (one.parabolas, one.error) == (grown[place].exponent, grown[place].error)
            law = by_law[place]
            assert (one.law, *one.ends) == (law["exponent"], law["lower"], law["upper"])


def test_equivalent_sizes(exact, grid):
    """A looped model of unique size N is worth an unlooped one of 1 to executed / N times as many, more with
    every recurrence; where phi is the published one, so is the ratio."""
    for one in optimal_sizes.compute(exact).worth:
        assert one.ratio == pytest.approx(one.published, rel=1e-3)
    worth = optimal_sizes.compute(grid).worth
    for one in worth:
        assert 1 < one.ends[0] < one.ratio < one.ends[1] < one.executed < one.num_recur
        assert one.published_ends[0] < one.published < one.published_ends[1]
    assert np.all(np.diff([one.ratio for one in worth]) > 0)


def test_the_figure(grid):
    """Minima of every r and budget, published exponents beside ours, units on every axis."""
    found = optimal_sizes.compute(grid)
    figure = optimal_sizes.plot(found, "grid.csv")
    assert len(figure.axes) == 5 and all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
    minima = [cell for cell in grid.cells if cell.from_parabola]
    drawn = [y for line in figure.axes[0].lines if line.get_linestyle() == "None" for y in line.get_ydata()]
    assert sorted(drawn) == sorted(cell.num_params for cell in minima)
    for axes, name in zip(figure.axes[2:4], optimal_sizes.COLUMNS, strict=True):
        (diamonds,) = (line for line in axes.lines if line.get_marker() == "D")
        assert list(diamonds.get_ydata()) == list(paper.GROWTH[name].values())


def test_without_best_sizes(grid):
    """A grid whose joint law gives no best size is refused."""
    with pytest.raises(ConfigError, match="gives no best sizes"):
        optimal_sizes.compute(dataclasses.replace(grid, optima=()))


def test_twice_the_same(saved_grid, tmp_path):
    """From a saved analysis the script draws the same files to the byte."""
    for name in "ab":
        optimal_sizes.main(saved_grid, tmp_path / name)
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"optimal_sizes.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
