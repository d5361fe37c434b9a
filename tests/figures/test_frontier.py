"""Laws of the figure of the frontier: lines are the laws at their best sizes, marks the grid's minima."""

import dataclasses

import numpy as np
import pytest

from figures import _looped_paper as paper
from figures import frontier
from sweeps._config import ConfigError
from tests.sweeps.iso_depth_grid import BUDGETS, RECURRENCES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def panels(grid):
    """What is drawn of the grid."""
    return frontier.compute(grid)


def test_lines_are_the_laws(panels, grid):
    """With phi free the line of each r goes through the best losses of the analysis; gaps are its
    differences to r = 1."""
    free = panels.laws[0]
    for line in free.lines:
        wanted = [row["loss"] for row in grid.optima if row["num_recur"] == line.num_recur]
        assert np.interp(BUDGETS[::2], line.budgets, line.loss) == pytest.approx(wanted[::2], rel=1e-9)
    first = free.lines[0]
    for gap, line in zip(panels.gaps, free.lines[1:], strict=True):
        np.testing.assert_allclose(gap.loss, line.loss - first.loss)


def test_the_less_a_recurrence_is_worth_the_wider_is_the_frontier(panels):
    """At phi = 1 all r have one frontier but for what injections cost and add; at phi = 0 their gaps are
    wider than at the planted phi of 0.459, where those of the grid are."""
    free, one, nothing = (law.lines[-1].loss - law.lines[0].loss for law in panels.laws)
    assert [law.name for law in panels.laws] == ["φ free", "φ = 1", "φ = 0"]
    assert np.all(np.abs(one) < 0.2 * free) and np.all(nothing > 1.2 * free)
    observed = [cell.gap for cell in panels.cells if cell.num_recur == RECURRENCES[-1]]
    assert np.mean(observed) == pytest.approx(free.mean(), rel=0.2)


def test_the_figure(panels):
    """Every minimum is in each panel of a law, titles say R² ours and published, gaps have error bars, and
    the published ones are bands."""
    figure = frontier.plot(panels, "grid.csv")
    *laws, gaps = figure.axes
    for axes, law in zip(laws, panels.laws, strict=True):
        drawn = {float(y) for bars in axes.containers for y in bars[0].get_ydata()}
        assert drawn == {cell.loss for cell in panels.cells}
        assert axes.get_title().startswith(law.name) and "R²" in axes.get_title()
        assert "FLOP" in axes.get_xlabel() and "nats" in axes.get_ylabel()
    drawn = [float(bars[0].get_ydata()[0]) for bars in gaps.containers]
    assert drawn == [cell.gap for cell in panels.cells if cell.num_recur > 1]
    bands = [(patch.get_y(), patch.get_y() + patch.get_height()) for patch in gaps.patches]
    np.testing.assert_allclose(bands, list(paper.GAPS.values()))


def test_without_accounting(grid):
    """A grid whose sizes are not accounted for has no frontier by a law, and is refused."""
    with pytest.raises(ConfigError, match="no accounting of sizes and FLOPs"):
        frontier.compute(dataclasses.replace(grid, design=None))


def test_twice_the_same(saved_grid, tmp_path, capsys):
    """From a saved analysis the script draws the same files to the byte, and refuses what is none."""
    for name in "ab":
        frontier.main(saved_grid, tmp_path / name)
    assert capsys.readouterr().out.count("frontier.p") == 4
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"frontier.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
    with pytest.raises(SystemExit, match=r"frontier: .*nothing.json cannot be read"):
        frontier.main(tmp_path / "nothing.json", tmp_path)
