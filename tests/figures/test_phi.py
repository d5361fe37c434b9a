"""Laws of the figure of phi: rows are the analyses', published values stand beside them."""

import dataclasses
import json

import numpy as np
import pytest

from figures import _looped_paper as paper
from figures import phi
from sweeps._config import ConfigError
from sweeps.iso_depth import analyse, as_json, delta_phi
from tests.sweeps.iso_depth_grid import by_law, runs

from .conftest import QUICK

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(grid, tmp_path_factory):
    """The grid against one of phi = 0.3 and against one of phi = 0.8."""
    paths = []
    for case, planted in (("truncated", 0.3), ("hyperconnections", 0.8)):
        other = analyse(by_law(runs(), 0.003, seed=7, phi=planted), **QUICK)
        tree = as_json(grid) | {
            "against": as_json(other),
            "delta_phi": as_json(delta_phi(grid, other, **QUICK)),
        }
        paths.append(tmp_path_factory.mktemp("phi") / f"{case}.json")
        paths[-1].write_text(json.dumps(tree))
    return paths


@pytest.fixture(scope="module")
def found(files):
    """Both comparisons."""
    return phi.load(*files)


def test_rows(found, grid):
    """Rows are phi of all budgets, of both halves, of the budgets that the cases have, and of the cases, with
    their intervals; differences lie on the side that was planted, by two laws and by one."""
    panels = phi.compute(found)
    first, second = found.values()
    wanted = [
        grid.phi,
        *(half.phi for half in grid.halves),
        first.delta.first.parameters["phi"],
        first.delta.second.parameters["phi"],
        second.delta.second.parameters["phi"],
    ]
    assert [(row.estimate, row.ends, row.identified) for row in panels.values] == [
        (one.estimate, one.interval, one.identified) for one in wanted
    ]
    assert panels.values[0].published_ends == paper.PHI_ENDS
    two_1, one_1, two_2, one_2 = panels.differences
    assert two_1.ends[1] < 0 < two_2.ends[0] and one_1.ends[1] < 0 < one_2.ends[0]
    assert (two_1.estimate, two_1.ends) == (first.delta.difference, first.delta.interval)
    assert one_2.estimate == second.delta.by_one_law.estimate
    assert two_1.published == one_1.published == pytest.approx(0.380 - 0.453)


def test_a_refit_far_away_is_counted(found):
    """Refits that lie far from the others are counted, and leave the rest of the histogram its room."""
    near = phi.compute(found)
    assert near.beyond == 0 and near.draws.size == QUICK["resamples"]
    grid = next(iter(found.values()))
    far = dataclasses.replace(grid, draws=np.append(grid.draws, -3.0))
    panels = phi.compute({**found, next(iter(found)): far})
    assert panels.beyond == 1 and panels.draws.size == QUICK["resamples"]
    axes = phi.plot(panels).axes[-1]
    assert "beyond: 1" in axes.get_title() and axes.get_xlim()[0] > 0
    assert sum(patch.get_height() for patch in axes.patches[1:]) == QUICK["resamples"]


def test_what_is_not_identified_is_hollow(found):
    """A row without a bound has no bar, and a hollow mark."""
    panels = phi.compute(found)
    loose = dataclasses.replace(panels.values[1], identified=False, ends=(-np.inf, np.inf))
    figure = phi.plot(dataclasses.replace(panels, values=(panels.values[0], loose, *panels.values[2:])))
    first, second = (bars for bars in figure.axes[0].containers[0:4:2])
    assert first[0].get_markerfacecolor() != "white" and first.has_xerr
    assert second[0].get_markerfacecolor() == "white" and not second.has_xerr


def test_other_files_are_refused(files, grid, tmp_path):
    """An analysis without a difference, and comparisons with two grids, are refused in a sentence."""
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(as_json(grid)))
    with pytest.raises(ConfigError, match="plain.json has no difference of phi: `depthlaw iso-depth GRID"):
        phi.load(plain, files[1])
    tree = json.loads(files[1].read_text())
    tree["runs"][0]["loss"] += 0.1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(tree))
    with pytest.raises(ConfigError, match="compare with different grids"):
        phi.load(files[0], other)
    with pytest.raises(SystemExit, match="phi: .*nothing.json cannot be read"):
        phi.main(tmp_path / "nothing.json", files[1], tmp_path)


def test_twice_the_same(files, tmp_path):
    """The script draws the same files to the byte."""
    for name in "ab":
        phi.main(*files, tmp_path / name)
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"phi.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
