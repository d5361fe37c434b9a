"""Laws of the figure of an iso-depth grid: it draws the analysis, all of it, and labels what it draws."""

import dataclasses
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from figures import _grid, iso_depth
from sweeps._formats import read_table
from sweeps._source import open_source
from sweeps.iso_depth import CELLS, COLUMNS, analyse
from sweeps.iso_depth._delta import _together
from sweeps.iso_depth._frontier import frontier, orders
from sweeps.iso_depth._grid import Grid, read
from sweeps.laws import Huber, LoopedLaw, fit, parabola
from tests.sweeps.iso_depth_grid import BUDGETS, RECURRENCES, WIDTHS, by_law, runs

QUICK = {"resamples": 40, "starts": 4}


@pytest.fixture(scope="module")
def found():
    """A grid in which the largest budget has no minimum among its sizes."""
    return analyse(by_law(runs(widths=(96, 128, 192, 256)), 0.003), **QUICK)


@pytest.fixture(scope="module")
def panels(found):
    """What is drawn of it."""
    return iso_depth.compute(found)


def test_profiles(panels, found):
    """A profile for each r at each budget, with all its runs; its parabola goes through its minimum."""
    assert list(panels.profiles) == list(BUDGETS)
    for profiles in panels.profiles.values():
        assert [profile.num_recur for profile in profiles] == list(RECURRENCES)
        for profile in profiles:
            assert profile.size.size == 4 and profile.x[[0, -1]] == pytest.approx(
                [profile.size.min(), profile.size.max()]
            )
            assert profile.y.min() >= profile.cell.parabola.loss - 1e-12
    assert not all(cell.from_parabola for cell in found.cells)


def test_the_frontier_is_the_laws(panels, found):
    """The line of each r is the joint law at its best sizes."""
    for line in panels.frontiers:
        wanted = [row["loss"] for row in found.optima if row["num_recur"] == line.num_recur]
        assert np.interp(BUDGETS[::2], line.x, line.y) == pytest.approx(wanted[::2], rel=1e-9)
        assert len(line.cells) == len(BUDGETS)


def test_residuals_are_predicted_less_observed(panels, found):
    """Every run is in the panels of the fit and of the residuals, whose means are those of the analysis."""
    assert sum(values.size for values in panels.observed.values()) == len(found.runs)
    for one in found.free.residuals:
        assert panels.residual[one.num_recur].mean() == pytest.approx(one.mean)


def test_the_figure(panels):
    """Panels for each budget, frontier, fit and residuals, with units on every axis; one colour for each r;
    crosses at minima, dashed lines where there is none."""
    figure = iso_depth.plot(panels, "grid.csv")
    axes = figure.axes
    assert len(axes) == len(BUDGETS) + 3
    for one in axes:
        assert one.get_xlabel() and ("nats" in one.get_ylabel())
    assert "FLOP" in axes[-3].get_xlabel() and "φ = 0." in figure.get_suptitle()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [f"r = {r}" for r in RECURRENCES]
    for one, profiles in zip(axes, panels.profiles.values(), strict=False):
        crosses = [line for line in one.lines if line.get_marker() == "x"]
        dashed = [line for line in one.lines if line.get_linestyle() == "--"]
        inside = sum(profile.cell.from_parabola for profile in profiles)
        assert (len(crosses), len(dashed)) == (inside, len(profiles) - inside)
    markers = [line for line in axes[-2].lines if line.get_marker() not in (None, "None")]
    assert len({line.get_color() for line in markers}) == len({line.get_marker() for line in markers}) == 4


def test_it_draws(found, tmp_path):
    """PNG and PDF, twice the same to the byte, and no figure is left open."""
    first, second = (iso_depth.draw(found, tmp_path / name, "iso", "grid.csv") for name in "ab")
    assert [path.name for path in first] == ["iso.png", "iso.pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert 10_000 < one.stat().st_size < 500_000
    assert not plt.get_fignums()


def test_grids_that_lack_something(tmp_path):
    """Without parabolas, without a design, and with more budgets than panels, it draws what there is."""
    budgets = np.geomspace(1e16, 1e18, 8).tolist()
    many = analyse(by_law(runs(budgets, WIDTHS[:2], recurrences=(1, 4)), 0.003), **QUICK)
    drawn = iso_depth.compute(many)
    assert len(drawn.profiles) == iso_depth.MOST_BUDGETS and drawn.budgets == 8
    assert {budgets[0], budgets[-1]} < set(drawn.profiles)
    assert all(profile.x.size == 0 for profiles in drawn.profiles.values() for profile in profiles)
    bare = dataclasses.replace(many, design=None, optima=(), optima_growth=())
    assert all(frontier.y.size == 0 for frontier in iso_depth.compute(bare).frontiers)
    assert all(path.exists() for path in iso_depth.draw(bare, tmp_path, "bare"))


def test_main(tmp_path, capsys, monkeypatch):
    """The script draws a table, and refuses in a sentence one that is none."""
    monkeypatch.setattr(_grid, "analyse", lambda table, **options: analyse(table, **options, **QUICK))
    by_law(runs(BUDGETS[:2], recurrences=(1, 4)), 0.003).write_csv(tmp_path / "grid.csv")
    iso_depth.main(tmp_path / "grid.csv", tmp_path / "out")
    assert capsys.readouterr().out.count("iso_depth.p") == 2
    with pytest.raises(SystemExit, match="iso_depth: .*nothing.csv does not exist"):
        iso_depth.main(tmp_path / "nothing.csv", tmp_path / "out")


TABLES = Path(iso_depth.__file__).parent / "tables"


GRIDS = sorted(path.stem for path in TABLES.glob("llm_*.json") if "_against_" not in path.stem)


@pytest.mark.parametrize("name", GRIDS)
def test_stored_fits_are_those_of_their_tables(name):
    """What the repository says of a grid follows from its table: estimates, losses and order."""
    stored, path = json.loads((TABLES / f"{name}.json").read_text()), TABLES / f"{name}.csv"
    grid = read(open_source(path, "looped", also=(*COLUMNS, "flops")).table)
    found = fit(LoopedLaw(), grid.columns, objective=Huber(1e-3), interval="none", starts=16)
    assert found.estimates["phi"] == pytest.approx(stored["phi"]["estimate"], rel=1e-6)
    cells = frontier(grid)
    assert all(order.rises for order in orders(cells)) == stored["monotone"]
    assert [cell.loss for cell in cells] == pytest.approx([cell["loss"] for cell in stored["cells"]])
    assert len(grid.runs) == len(stored["runs"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llm_cpu", "llm_cpu_truncated"])
def test_intervals_do_not_hang_on_the_seed_of_the_bootstrap(name):
    """The width of phi's interval by 400 refits of three seeds scatters by a tenth at most (by chance 4 %),
    although a refit in a thousand ends at phi = -3, which made it three times as wide."""
    grid = read(open_source(TABLES / f"{name}.csv", "looped", also=(*COLUMNS, "flops")).table)
    widths = []
    for seed in range(3):
        options = {"objective": Huber(1e-3), "interval": "cluster", "resamples": 400, "starts": 16}
        low, high = fit(LoopedLaw(), grid.columns, group=CELLS, seed=seed, **options).intervals["phi"]
        widths.append(high - low)
    assert np.std(widths) < 0.1 * np.mean(widths)


def test_the_rate_of_the_grid_is_near_the_best_for_every_r():
    """Of `llm_cpu_rates`: by a parabola in the logarithm of the rate, the middle one loses at most 0.002 nats
    at each width and r, so that no r is held back by it."""
    table = read_table(TABLES / "llm_cpu_rates.csv").sort("matrix_rate")
    cells = table.partition_by("width", "num_recur")
    assert len(cells) == 8
    for cell in cells:
        best = parabola(np.log(cell["matrix_rate"]), cell["loss"])
        assert best.inside and cell["loss"][1] - best.loss < 0.002


PAGE = (TABLES.parents[1] / "docs/language-models.md").read_text(encoding="utf-8")


def test_phi_in_the_readme():
    """The page on language models says the phi and the interval of the stored fit."""
    stored = json.loads((TABLES / "llm_cpu.json").read_text())["phi"]
    low, high = stored["interval"]
    words = f"phi = {stored['estimate']:.3f} [{low:.3f}, {high:.3f}]"
    assert words in " ".join(PAGE.split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hyperconnections", r"Hyperconnections raise phi by (\S+) .*?, or by (\S+) "),
        ("truncated", r"truncated backpropagation changes it by (\S+) .*?, or (\S+) "),
    ],
)
def test_differences_of_phi_in_the_readme(name, said):
    """The page on language models says by how much phi differs over the budgets that two tables have, by two
    laws and by one."""
    tables = [TABLES / f"{table}.csv" for table in ("llm_cpu", f"llm_cpu_{name}")]
    grids = [read(open_source(path, "looped", also=(*COLUMNS, "flops")).table) for path in tables]
    shared = set(grids[0].budgets) & set(grids[1].budgets)
    grids = [Grid(tuple(run for run in grid.runs if run.budget in shared), 0, ()) for grid in grids]
    options = {"objective": Huber(1e-3), "interval": "none", "starts": 64}
    one, other = (fit(LoopedLaw(), grid.columns, **options).estimates["phi"] for grid in grids)
    together = _together(*grids, options).estimates["delta_phi"]
    found = re.search(said, " ".join(PAGE.split()))
    assert [float(number) for number in found.groups()] == pytest.approx([other - one, together], abs=0.0051)
