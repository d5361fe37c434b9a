"""What tests of figures share: an analysed grid with a planted law."""

import json

import pytest

from sweeps.iso_depth import analyse, as_json
from tests.sweeps.iso_depth_grid import by_law, runs

QUICK = {"resamples": 40, "starts": 4}


@pytest.fixture(scope="session")
def grid():
    """The analysis of 96 runs by the joint law, with two seeds and 0.003 nats of noise."""
    return analyse(by_law(runs(seeds=2), 0.003, seed=3), **QUICK)


@pytest.fixture(scope="session")
def exact():
    """The same without noise, one seed."""
    return analyse(by_law(runs()), **QUICK)


@pytest.fixture
def saved_grid(grid, tmp_path):
    """The file of its analysis."""
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(as_json(grid)))
    return path
