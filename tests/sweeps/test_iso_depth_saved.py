"""Laws of saved analyses: what is read back is what was written."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sweeps._config import ConfigError
from sweeps.iso_depth import analyse, as_json, delta_phi, saved
from sweeps.laws import Fit

from .iso_depth_grid import BUDGETS, by_law, runs

QUICK = {"resamples": 40, "starts": 4}


@pytest.fixture(scope="module")
def found():
    """A grid with noise, repeated seeds, and a diverged run."""
    rows = by_law(runs(seeds=2), 0.004, seed=5)
    return analyse(rows, source={"table": "grid.csv"}, **QUICK)


def bare(value):
    """A value without what is not saved: replicates of fits."""
    if isinstance(value, Fit):
        return json.loads(dataclasses.replace(value, replicates=()).to_json())
    if dataclasses.is_dataclass(value):
        return {one.name: bare(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items()}
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def write(path, tree):
    """A file of JSON."""
    path.write_text(json.dumps(tree, allow_nan=False))
    return path


def test_round_trip(found, tmp_path):
    """An analysis that was saved is read back equal in every field, but for the replicates, of which phi's
    are kept in their order; it predicts what it did."""
    back = saved(write(tmp_path / "a.json", as_json(found)))
    assert bare(back.found) == bare(found) and back.found.phi == found.phi
    law = found.free.fit
    np.testing.assert_array_equal(back.draws, np.array(law.replicates)[:, law.free.index("phi")])
    columns = [1e6, 3e6, 4.0, 1e8]
    assert back.found.free.fit.predict(*columns) == law.predict(*columns)
    assert back.against is None and back.delta is None


def test_without_what_may_be_missing(tmp_path):
    """A grid without noise, design, growth, or a fit of half of the budgets comes back as it was."""
    few = analyse(by_law(runs(BUDGETS[:2], (96, 160), (1, 4)), 0.002), **QUICK)
    few = dataclasses.replace(few, design=None, optima=(), optima_growth=())
    assert few.noise is None and any(half.fit is None for half in few.halves)
    assert bare(saved(write(tmp_path / "a.json", as_json(few))).found) == bare(few)


def test_a_number_that_is_none(found, tmp_path):
    """What is not finite is null in the file, and nan again where a number has to be."""
    lost = dataclasses.replace(found.free, held_out=math.nan, rmse=math.nan)
    odd = dataclasses.replace(found, joint=(lost, *found.joint[1:]))
    tree = as_json(odd)
    assert tree["joint"][0]["rmse"] is None
    assert math.isnan(saved(write(tmp_path / "a.json", tree)).found.free.rmse)


def test_two_grids(found, tmp_path):
    """With another grid its analysis and the difference of phi come back too."""
    other = analyse(by_law(runs(), 0.004, seed=6, phi=0.7), **QUICK)
    difference = delta_phi(found, other, **QUICK)
    tree = as_json(found) | {"against": as_json(other), "delta_phi": as_json(difference)}
    back = saved(write(tmp_path / "a.json", tree))
    assert bare(back.against) == bare(other) and bare(back.delta) == bare(difference)
    assert back.delta.sentence == difference.sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is no analysis of a grid"),
        ("{", "is no analysis of a grid"),
        ('{"phi": 1}', r"is no analysis of a grid \(it has no 'runs'\); `depthlaw iso-depth TABLE --json"),
        ('{"runs": [{}]}', "is no analysis of a grid"),
        ('{"runs": 3}', "is no analysis of a grid"),
    ],
)
def test_a_file_that_is_none(tmp_path, text, message):
    """Anything else is refused in a sentence that says what writes one."""
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as refused:
        saved(path)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path):
    """So is a file that is missing."""
    with pytest.raises(ConfigError, match="nothing.json cannot be read: No such file"):
        saved(tmp_path / "nothing.json")
