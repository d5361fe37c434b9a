"""Laws of the figure of case studies: like is compared with like, and by how much it differs is planted."""

import math

import polars as pl
import pytest

from figures import _looped_paper as paper
from figures import case_studies
from sweeps._config import ConfigError
from sweeps.iso_depth._grid import read
from sweeps.iso_depth._noise import noise
from tests.sweeps.iso_depth_grid import BUDGETS, WIDTHS, by_law, runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain():
    """Two seeds of every run, with noise."""
    return by_law(runs(seeds=2), 0.004, seed=1)


@pytest.fixture(scope="module")
def case(plain):
    """One seed of the lower budgets and three widths, each loss 0.01 r below the plain grid's mean."""
    means = plain.group_by("budget", "num_recur", "width").agg(loss=pl.col("loss").mean())
    rows = plain.filter(pl.col("seed") == 0).drop("loss").join(means, on=["budget", "num_recur", "width"])
    rows = rows.filter(pl.col("budget").is_in(BUDGETS[:2]), pl.col("width") != WIDTHS[0])
    looped = pl.col("num_recur") > 1
    return rows.with_columns(
        loss=pl.when(looped).then(pl.col("loss") - 0.01 * pl.col("num_recur")).otherwise("loss"),
        num_tokens=pl.when(looped).then(1.25 * pl.col("num_tokens")).otherwise("num_tokens"),
    )


@pytest.fixture
def ablation():
    """Two seeds of the four injections."""
    kinds = ["additive", "passthrough", "linear", "hyperconnections"]
    return pl.DataFrame(
        {
            "injection": kinds * 2,
            "budget": 7e11,
            "width": 16,
            "num_recur": 4,
            "loss": [2.1, 2.5, 2.0, 1.9, 2.3, 3.5, 2.2, 2.1],
        }
    )


def test_planted_differences(plain, case):
    """Differences are those that were planted, of every cell with r > 1 that both grids have; their error is
    that of a run and a mean of two by the scatter of seeds."""
    grid = read(plain)
    found = case_studies.compute(grid, read(case), "a case")
    assert found.loss.size == 2 * 3 * 3
    assert set(found.width) == set(WIDTHS[1:]) and set(found.budget) == set(BUDGETS[:2])
    assert found.loss == pytest.approx(-0.01 * found.num_recur)
    assert found.mean(4) == pytest.approx(-0.04)
    assert found.tokens == pytest.approx(1.25)
    assert found.error == pytest.approx(noise(grid).sd * math.sqrt(1.5))


def test_without_repeated_seeds(case):
    """Where nothing is known of the scatter there are no bars, and the figure is drawn all the same."""
    found = case_studies.compute(read(case), read(case), "a case")
    assert all(math.isnan(error) for error in found.error) and not found.loss.any()


def test_grids_without_a_common_run(plain, case):
    """Grids of other budgets cannot be compared run by run."""
    upper = plain.filter(pl.col("budget") == BUDGETS[2])
    with pytest.raises(ConfigError, match="a case: no run of it has the budget, width and r > 1"):
        case_studies.compute(read(upper), read(case), "a case")


def test_injections(ablation, tmp_path):
    """Losses are less the linear injection's mean, in the paper's order."""
    path = tmp_path / "table.csv"
    ablation.write_csv(path)
    found = case_studies.ablation(path)
    assert list(found.loss) == list(case_studies.ORDER) and set(found.loss) == set(paper.INJECTIONS)
    assert found.loss["linear"] == pytest.approx([-0.1, 0.1])
    assert found.loss["passthrough"] == pytest.approx([0.4, 1.4])
    assert found.said == "r = 4, width 16, 7e11 FLOP"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop("width"), "has no column 'width'"),
        (
            lambda rows: rows.with_columns(width=pl.when(pl.col("loss") > 3).then(8).otherwise(16)),
            "has 2 cell",
        ),
        (lambda rows: rows.filter(pl.col("injection") != "linear"), "with the linear injection"),
        (lambda rows: rows.clear(), "has 0 cell"),
    ],
)
def test_other_ablations_are_refused(ablation, tmp_path, change, message):
    """A table that lacks a column, a cell or the linear injection, or has several cells, is refused."""
    path = tmp_path / "table.csv"
    change(ablation).write_csv(path)
    with pytest.raises(ConfigError, match=message):
        case_studies.ablation(path)


def test_twice_the_same(plain, case, ablation, tmp_path):
    """The script draws the same files to the byte; every difference is in its panel."""
    paths = [tmp_path / f"{name}.csv" for name in ("plain", "truncated", "lanes", "injections")]
    for path, rows in zip(paths, (plain, case, case, ablation), strict=True):
        rows.write_csv(path)
    for name in "ab":
        case_studies.main(*paths, tmp_path / name)
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"case_studies.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
    found = case_studies.compute(read(plain), read(case), "a case")
    axes = case_studies.plot([found, found], case_studies.ablation(paths[3])).axes[0]
    drawn = [y for bars in axes.containers for y in bars[0].get_ydata()]
    assert sorted(drawn) == sorted(found.loss)
    with pytest.raises(SystemExit, match=r"case_studies: .*nothing.csv does not exist"):
        case_studies.main(tmp_path / "nothing.csv", *paths[1:], tmp_path)
