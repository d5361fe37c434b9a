"""The depth exponent in the Chinchilla data (arXiv:2602.05970): the converged optimum, and what it is
worth."""

import csv
from pathlib import Path

import numpy as np
import pytest

from sweeps.laws import Fit, Status, WidthDepthDataLaw, fit

PATH = Path(__file__).parents[4] / "shared" / "data" / "chinchilla_depth_width.csv"
pytestmark = pytest.mark.skipif(
    not PATH.exists(), reason="the data of arXiv:2602.05970 are not at ../shared/data"
)
NAMES = {"loss": "loss", "num_tokens": "num_tokens", "width": "d_model", "depth": "n_layers"}


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    """245 reconstructed runs."""
    with PATH.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 245
    return {name: np.array([float(row[column]) for row in rows]) for name, column in NAMES.items()}


@pytest.fixture(scope="module")
def found(table: dict[str, np.ndarray]) -> Fit:
    """The paper's fit: least squares on log L without the 40 highest losses."""
    return fit(WidthDepthDataLaw(), table, drop_top=40, interval="profile")


def test_the_converged_optimum(found: Fit) -> None:
    """To four figures: the objective is 3.02737e-3 / 100, not the 3.06807e-3 / 100 at which the paper's 50
    000 Adam steps stopped, and the exponents are those of the optimum."""
    assert found.status is Status.CONVERGED and found.gradient_norm <= 1e-8
    assert found.provenance.rows == 203 and found.degrees_of_freedom == 196
    assert 100 * found.objective == pytest.approx(3.02737e-3, abs=5e-9)
    assert 100 * found.objective < 3.06807e-3 - 4e-5
    expected = {"alpha_l": 1.3251, "alpha_m": 0.9455, "alpha_D": 0.2991, "L_0": 1.7536}
    for name, value in expected.items():
        assert found.estimates[name] == pytest.approx(value, abs=5e-5), name


def test_depth_less_two(table: dict[str, np.ndarray]) -> None:
    """With the depth counted from the third layer the exponent is 1.0975, at 3.06051e-3 / 100."""
    less = fit(WidthDepthDataLaw(), table | {"depth": table["depth"] - 2}, drop_top=40, interval="none")
    assert less.estimates["alpha_l"] == pytest.approx(1.0975, abs=5e-5)
    assert 100 * less.objective == pytest.approx(3.06051e-3, abs=5e-9)


def test_width_and_depth_move_together_and_that_is_said(found: Fit) -> None:
    """log m and log l correlate by 0.93: the finding names both columns and the number."""
    said = [f for f in found.diagnosis if f.code == "correlated-predictors"]
    assert [f.about for f in said] == [("width", "depth")]
    assert "0.93" in said[0].sentence


def test_the_exponent_is_fragile(table: dict[str, np.ndarray], found: Fit) -> None:
    """Leaving out 20 or 60 runs instead of 40 moves the depth exponent by more than 0.2, inside the 95 %
    profile interval, which is wider than half a unit."""
    low, high = found.intervals["alpha_l"]
    assert high - low > 0.5
    for drop in (20, 60):
        other = fit(WidthDepthDataLaw(), table, drop_top=drop, interval="none").estimates["alpha_l"]
        assert abs(other - found.estimates["alpha_l"]) > 0.2
        assert low < other < high


@pytest.mark.slow
def test_the_pairs_bootstrap(table: dict[str, np.ndarray]) -> None:
    """1000 resamples of the 203 runs give a 95 % interval of the depth exponent of about [0.98, 1.8].

    4000 resamples gave [0.985, 1.772], and repeated draws of 1000 of them ends with standard errors of 0.010
    and 0.017: four of those are allowed. The [0.98, 1.86] that 200 resamples once gave, whose ends have
    errors of 0.027 and 0.036, lies within four joint errors, 0.12 and 0.16. No refit fails."""
    found = fit(WidthDepthDataLaw(), table, drop_top=40, interval="pairs", resamples=1000)
    low, high = found.intervals["alpha_l"]
    assert low == pytest.approx(0.985, abs=0.042) and high == pytest.approx(1.772, abs=0.07)
    assert low == pytest.approx(0.98, abs=0.12) and high == pytest.approx(1.86, abs=0.16)
    assert not [f for f in found.diagnosis if f.code == "failed-refits"]
