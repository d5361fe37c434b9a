"""Laws of the figure of the five axes."""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

from figures import five_axes
from sweeps._terminal import BadTable


@pytest.fixture
def table():
    """Six models of two r on two axes; one was not evaluated, and one diverged."""
    flops = np.array([1e9, 1e10, 1e11] * 2)
    loss = 1 + 5 * flops**-0.1
    return pl.DataFrame(
        {
            "flops": flops,
            "loss": [*loss[:-1], None],
            "num_recur": [1, 1, 1, 4, 4, 4],
            "reasoning_loss": [None, *(loss[1:] + 1)],
            "reasoning_loss_error": [0.1] * 6,
            "reasoning_chance": [0.5] * 6,
            "symbolic_loss": loss / 2,
            "symbolic_loss_error": [0.1] * 6,
            "symbolic_chance": [1.0] * 6,
        }
    )


def test_a_panel_is_an_axis(table):
    """Axes are in the paper's order, with a series for each r, and models without a score or a validation
    loss left out; chance is that of the tasks."""
    reasoning, symbolic = five_axes.compute(table)
    assert (reasoning.axis, symbolic.axis) == ("reasoning", "symbolic")
    assert [series.num_recur for series in reasoning.series] == [1, 4]
    assert [series.y.size for series in reasoning.series] == [2, 2]
    assert [series.y.size for series in symbolic.series] == [3, 2]
    assert reasoning.chance == 0.5
    np.testing.assert_allclose(symbolic.series[0].y, table["symbolic_loss"][:3])
    np.testing.assert_allclose(symbolic.series[0].x["loss"], table["loss"][:3])


def test_all_models_are_drawn(table):
    """Above against compute, below against validation loss, with every model and a line at chance, or its
    number where the line would be far off."""
    figure = five_axes.plot(five_axes.compute(table))
    assert len(figure.axes) == 4
    for axes, column in zip(figure.axes, ["flops", "flops", "loss", "loss"], strict=True):
        drawn = np.concatenate([bars[0].get_xdata() for bars in axes.containers])
        assert set(drawn) <= set(table[column].to_list())
        assert axes.get_xlabel() == five_axes.COLUMNS[column] and "nats" in axes.get_ylabel()
    near, far = figure.axes[1], figure.axes[0]
    assert [line.get_ydata()[0] for line in near.lines if line.get_linestyle() == "--"] == [1.0]
    assert near.get_ylim()[0] < 1.0 < near.get_ylim()[1] and not near.texts
    assert far.get_ylim()[0] > 0.5 and far.texts[0].get_text() == "chance: 0.50, below"


def test_a_table_without_recurrences(table):
    """Anybody's table has one series."""
    (panel, _) = five_axes.compute(table.drop("num_recur"))
    assert [series.num_recur for series in panel.series] == [None]
    five_axes.plot([panel])


def test_nothing_to_draw_is_refused(table):
    """A table without scores is refused with what makes them."""
    with pytest.raises(BadTable, match="no model has scores on an axis: `depthlaw evaluate`"):
        five_axes.compute(table.select("flops", "loss"))
    empty = table.with_columns(pl.lit(None, pl.Float64).alias(f"{a}_loss") for a in ("reasoning", "symbolic"))
    with pytest.raises(BadTable):
        five_axes.compute(empty)


@pytest.mark.slow
def test_twice_the_same(table, tmp_path):
    """A table draws the same files to the byte, and leaves no figure open."""
    path = tmp_path / "table.csv"
    table.write_csv(path)
    first = five_axes.draw(five_axes.load(path), tmp_path / "a")
    second = five_axes.draw(five_axes.load(path), tmp_path / "b")
    assert [one.name for one in first] == ["five_axes.png", "five_axes.pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes() and one.stat().st_size > 5000
    assert not plt.get_fignums()
