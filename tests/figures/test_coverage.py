"""Laws of the figure of coverage."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from figures import coverage
from sweeps._terminal import BadTable

ROWS = pl.DataFrame(
    {
        "case": ["depth", "depth", "looped", "looped"],
        "interval": ["wald", "pairs", "wald", "cluster"],
        "parameter": ["alpha", "alpha", "phi", "phi"],
        "tables": [100, 100, 40, 40],
        "share": [0.95, 0.9, 1.0, 0.925],
    }
)


def test_every_share_has_its_place_and_error():
    """A mark stands at its case, and its bar is Wilson's interval of so many tables, also where all of them
    held the truth."""
    found = coverage.compute(ROWS)
    assert found.cases == ("depth: α", "looped: φ")
    wald = found.lines[0]
    assert [wald.interval, *wald.place] == ["wald", 0, 1]
    for share, reach, tables in zip(wald.share, wald.reach.T, (100, 40), strict=True):
        z = stats.norm.ppf(0.975)
        centre = (share + z**2 / (2 * tables)) / (1 + z**2 / tables)
        half = z / (1 + z**2 / tables) * np.sqrt(share * (1 - share) / tables + z**2 / (4 * tables**2))
        assert share - reach[0] == pytest.approx(centre - half)
        assert share + reach[1] == pytest.approx(centre + half)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": [0.95, 1.2, 1.0, 0.9]}, "a share of 0 to 1"),
        ({"tables": [0, 1, 1, 1]}, "one or more tables"),
        ({"share": [None, 0.5, 0.5, 0.5]}, "must stand in every row"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, change, message):
    """Shares outside 0 to 1, cases of no table and missing columns are refused in a sentence."""
    path = tmp_path / "table.csv"
    ROWS.with_columns(**{name: pl.Series(values) for name, values in change.items()}).write_csv(path)
    with pytest.raises(BadTable, match=message):
        coverage.load(path)
    ROWS.drop("interval").write_csv(path)
    with pytest.raises(BadTable, match="has no column 'interval'"):
        coverage.load(path)


def test_the_same_table_gives_the_same_files(tmp_path):
    """Drawing twice writes the same PNG and PDF to the last byte."""
    ROWS.write_csv(tmp_path / "table.csv")
    one, other = (coverage.draw(tmp_path / "table.csv", tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
