"""Laws of the figure of the law of each r: what was planted, and what is not identified."""

import dataclasses
import math

import numpy as np
import pytest

from figures import _looped_paper as paper
from figures import architectures
from sweeps._config import ConfigError
from tests.sweeps.iso_depth_grid import PLANTED, RECURRENCES

pytestmark = pytest.mark.slow


def test_planted_exponents(exact):
    """All counts go with the width squared, so at one r the joint law is a Chinchilla law with its exponents
    and floor."""
    found = architectures.compute(exact)
    for name in ("alpha", "beta", "E"):
        for point in found.parameters[name]:
            assert point.estimate == pytest.approx(PLANTED[name], rel=0.05), (name, point.num_recur)
    assert min(ours for ours, _ in found.r_squared.values()) > 0.9999


def test_points_are_the_analysis(grid):
    """Estimates, intervals and what is identified are those of the fits; the published ones stand beside."""
    found = architectures.compute(grid)
    for one in grid.architectures:
        for name, points in found.parameters.items():
            (point,) = (p for p in points if p.num_recur == one.num_recur)
            known = one.fit.parameters[name]
            assert (point.estimate, point.ends, point.identified) == (
                known.estimate,
                known.interval,
                known.identified,
            )
            assert point.published == paper.CHINCHILLA[one.num_recur][name]


def test_no_end_is_an_arrow(grid):
    """An end that is not known, or 0 on a logarithmic axis, is an arrow at the axis' end; what is not
    identified is hollow; all that is finite lies inside."""
    found = architectures.compute(grid)
    points = {
        name: (dataclasses.replace(one[0], ends=(-math.inf, math.inf), identified=False), *one[1:])
        for name, one in found.parameters.items()
    }
    points["A"] = (dataclasses.replace(points["A"][0], ends=(0.0, 1e3)), *points["A"][1:])
    figure = architectures.plot(dataclasses.replace(found, parameters=points))
    for axes, (name, drawn) in zip(figure.axes, points.items(), strict=False):
        low, high = axes.get_xlim()
        values = [v for p in drawn for v in (p.estimate, p.published, *p.ends) if math.isfinite(v)]
        assert all(low < v < high for v in values if v > 0 or name not in architectures.LOG)
        arrows = [line for line in axes.lines if line.get_marker() in "<>"]
        assert len(arrows) == (1 if name == "A" else 2)
        for line in arrows:
            assert float(line.get_xdata()[0]) == (low if line.get_marker() == "<" else high)
        hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        assert len(hollow) == sum(not point.identified for point in drawn)


def test_r_without_a_fit(grid):
    """An r whose law could not be fitted is left out and named; where none could, the grid is refused."""
    lost = tuple(
        dataclasses.replace(one, fit=None, r_squared=None, problem="too few rows")
        for one in grid.architectures
    )
    some = dataclasses.replace(grid, architectures=(lost[0], *grid.architectures[1:]))
    found = architectures.compute(some)
    assert found.refused == {1: "too few rows"} and list(found.r_squared) == list(RECURRENCES[1:])
    assert "r = 1 has no fit: too few rows" in architectures.plot(found).get_supxlabel().replace("\n", " ")
    with pytest.raises(ConfigError, match="no r of this grid has a fit of its own: too few rows"):
        architectures.compute(dataclasses.replace(grid, architectures=lost))


def test_an_axis_of_one_value():
    """Equal values have an axis of some width."""
    point = architectures.Point(1, 2.0, (2.0, 2.0), True, np.nan)
    for name in ("E", "A"):
        low, high = architectures.limits(name, (point,))
        assert low < 2.0 < high


def test_twice_the_same(saved_grid, tmp_path):
    """From a saved analysis the script draws the same files to the byte."""
    for name in "ab":
        architectures.main(saved_grid, tmp_path / name)
    for suffix in ("png", "pdf"):
        one, other = (tmp_path / name / f"architectures.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
