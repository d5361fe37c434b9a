"""What a table must be: each rule broken once, and the message that names column, row, rule and remedy."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from sweeps.laws import DepthLaw, Status, fit

DEPTH = [3, 4, 6, 8, 12, 16]
NO_FLOOR = {"L_0": 0.0}
LOSS = [0.35, 0.24, 0.17, 0.12, 0.085, 0.06]


def _with(**columns: Any) -> dict[str, Any]:
    return {"depth": DEPTH, "loss": LOSS, **columns}


def _loss(row: int, value: Any) -> dict[str, Any]:
    return _with(loss=[value if i == row else loss for i, loss in enumerate(LOSS)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"depth": DEPTH}, r"column 'loss' is missing from the table; the law needs .*depth, loss: rename"),
        ({"loss": LOSS}, r"column 'depth' is missing"),
        (_loss(2, 0.0), r"column 'loss', row 2 \(depth 6\): 0 must be > 0, since the fit works with logar"),
        (_loss(5, -0.1), r"column 'loss', row 5 \(depth 16\): -0.1 must be > 0.*correct the row or leave"),
        (_with(loss=[0, 0, 1, 1, 1, 0]), r"column 'loss', row 0 \(depth 3\): 0 must .*; 2 more such row"),
        (_with(depth=[3, 4, 0, 8, 12, 16]), r"column 'depth', row 2: 0 must be > 0"),
        (_with(depth=[3, 4, -6, 8, 12, 16]), r"column 'depth', row 2: -6 must be > 0"),
        (_loss(1, math.nan), r"column 'loss', row 1: nan is not finite"),
        (_loss(1, math.inf), r"column 'loss', row 1: inf is not finite; correct the row"),
        (_loss(3, None), r"column 'loss', row 3: None is not a number; convert the column .*, or leave out"),
        (_loss(3, "0.1"), r"column 'loss', row 3: '0.1' is not a number|column 'loss', row 0: '0.35' is not"),
        (_loss(3, 1j), r"column 'loss', row 0: .* is not a number"),
        (_with(loss=[True] * 6), r"column 'loss', row 0: True is not a number"),
        (_with(loss=[[loss] for loss in LOSS]), r"column 'loss' has 2 dimensions; give one value for each"),
        (_with(loss=[{}] * 6), r"column 'loss' cannot be read as numbers .*convert it first"),
        (_with(loss=LOSS[:4]), r"columns differ in length \(depth 6, loss 4\); every row needs a value"),
        (_with(seed=[0, 0]), r"columns differ in length \(depth 6, loss 6, seed 2\)"),
        (
            _with(depth=[4, 8] * 3),
            r"column\(s\) depth: 2 distinct depth\(s\).*but c, alpha need at least 3; add rows, or fix",
        ),
        ({"depth": [], "loss": []}, r"column\(s\) depth: 0 distinct depth"),
        (_with(seed=[0, 0, 0, 1, 1, None]), r"column 'seed', row 5: None names no group; .*group=None"),
        (_with(seed=[0, 0, 0, 1, 1, math.nan]), r"column 'seed', row 5: nan names no group"),
        (
            _with(seed=[0, 0, 0, 0, 0, 7]),
            r"group 7: only 1 different point\(s\), but every group has its own c .*leave the group out",
        ),
        (
            _with(loss=np.ma.masked_array(LOSS, [0, 0, 0, 0, 1, 0])),
            r"column 'loss', row 4: None is not a num",
        ),
        (pl.DataFrame(_loss(1, None)), r"column 'loss', row 1: nan is not finite"),
    ],
)
def test_a_broken_rule_names_column_row_and_remedy(table: Any, message: str) -> None:
    """No row is dropped or clamped: the table is refused and the message says what to do."""
    with pytest.raises(ValueError, match=message):
        fit(DepthLaw(), table, fix=NO_FLOOR)


def test_a_free_floor_needs_a_fourth_depth() -> None:
    """Three parameters need four depths for anything to be left over to judge them by."""
    table = {"depth": [3, 4, 6] * 2, "loss": LOSS}
    with pytest.raises(
        ValueError, match=r"3 distinct depth.*c, alpha, L_0 need at least 4; add rows, or fix a parameter"
    ):
        fit(DepthLaw(), table)
    assert fit(DepthLaw(), table, fix=NO_FLOOR, interval="none").degrees_of_freedom == 4


def test_a_group_needs_one_more_depth_than_it_has_parameters() -> None:
    """A group pays for what it has for itself first: two depths for a level, three for a level and a
    floor."""
    table = {"depth": DEPTH * 2, "loss": LOSS * 2, "seed": [0] * 10 + [1] * 2}
    assert fit(DepthLaw(), table, interval="none").degrees_of_freedom == 12 - 4
    with pytest.raises(
        ValueError, match=r"group 1: only 2 different point\(s\).*own c, L_0 and needs at least 3"
    ):
        fit(DepthLaw(), table, own=("c", "L_0"), interval="none")


def test_a_known_floor_may_lie_above_a_loss() -> None:
    """Losses scatter, so one may lie below the true floor: that row has a residual like any other. The
    planted exponent comes back within four of its standard errors."""
    depth = np.tile([3.0, 4, 6, 8, 12, 16, 64], 4)
    noise = np.random.default_rng(0).normal(0, 0.02, depth.size)
    table = {"depth": depth, "loss": (0.5 * depth**-1.2 + 1) * np.exp(noise)}
    assert table["loss"].min() < 1
    found = fit(DepthLaw(), table, fix={"L_0": 1.0}, interval="wald")
    assert found.status is Status.CONVERGED
    assert found.estimates["alpha"] == pytest.approx(1.2, abs=4 * found.parameters["alpha"].error)


@pytest.mark.parametrize("argument", [{"group": "run"}, {"weights": "run"}, {"noise": "run"}])
def test_a_column_asked_for_must_be_there(argument: dict[str, Any]) -> None:
    """Only the default group, seed, may be absent; then rows are independent."""
    with pytest.raises(
        ValueError, match=r"column 'run' is missing from the table, but was asked for; name one"
    ):
        fit(DepthLaw(), _with(), **argument)
    found = fit(DepthLaw(), _with(), interval="none").provenance
    assert (found.groups, found.group_columns) == (1, ())


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("argument", ["weights", "noise"])
def test_weights_and_noise_are_positive(argument: str, value: float) -> None:
    """A weight or a standard deviation of zero or less is refused by its row."""
    with pytest.raises(
        ValueError, match=rf"column 'w', row 2 ?.*: {value:g} must be > 0, as a weight or a stand"
    ):
        fit(DepthLaw(), _with(w=[1, 1, value, 1, 1, 1]), **{argument: "w"})


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"confidence": 1.0}, r"confidence: 1.0 is not between 0 and 1"),
        ({"confidence": math.nan}, r"confidence: nan is not between"),
        ({"resamples": 0}, r"resamples: 0 is less than 1"),
        ({"refit_starts": -1}, r"refit_starts: -1 is less than 0"),
        ({"drop_top": -1}, r"drop_top: -1 is less than 0"),
        ({"drop_top": 6}, r"drop_top: 6 leaves none of 6 rows"),
        ({"noise": 0.0}, r"noise: 0.0 is not a finite number > 0"),
        ({"noise": math.nan}, r"noise: nan is not a finite number > 0"),
        ({"interval": "best"}, r"interval: 'best' is unknown; there are auto, pairs, cluster"),
        ({"interval": "cluster"}, r"interval: clusters need group to name a column with two or more"),
        ({"own": ("d",)}, r"own: 'd' is no parameter of the law depth"),
        ({"fix": {"M": 0.0}}, r"'M' is no parameter of the law; it has c, alpha, L_0"),
        ({"bounds": {"M": (0.0, 1.0)}}, r"'M' is no parameter of the law; it has c, alpha, L_0"),
        ({"bounds": {"alpha": (2.0, 1.0)}}, r"alpha: the bounds 2 to 1 leave no value"),
        ({"fix": {"alpha": 1.0}, "bounds": {"alpha": (0, 2)}}, r"'alpha' is fixed and bounded; do one"),
        ({"fix": {"c": 1.0, "alpha": 1.0, "L_0": 0.0}}, r"every parameter is fixed: nothing is left"),
        ({"starts": 0}, r"starts: 0 is less than 1"),
        ({"budget": 0}, r"budget: 0 is less than 1; give a positive whole number"),
    ],
)
def test_arguments_in_range(argument: dict[str, Any], message: str) -> None:
    """Arguments out of range are refused by name."""
    with pytest.raises(ValueError, match=message):
        fit(DepthLaw(), _with(), **argument)


def test_any_table_gives_the_same_fit() -> None:
    """Lists, arrays, float32 of the same values and a polars frame give the same fit to the last bit."""
    depth, loss = DEPTH * 2, np.array([*LOSS, *(1.1 * np.array(LOSS)[[0, 1, 3, 2, 4, 5]])], dtype=np.float32)
    seed = [0] * 6 + [1] * 6
    reference = fit(DepthLaw(), {"depth": depth, "loss": loss.tolist(), "seed": seed})
    for table in (
        {"depth": np.array(depth, dtype=np.int8), "loss": loss, "seed": np.array(seed)},
        {"depth": tuple(map(float, depth)), "loss": loss.astype(np.float64), "seed": tuple(seed)},
        pl.DataFrame({"depth": depth, "loss": loss, "seed": seed, "note": ["x"] * 12}),
    ):
        assert fit(DepthLaw(), table) == reference


def test_the_order_of_rows_does_not_matter() -> None:
    """Rows in any order give the same fit to the last bit, and the same data hash; another loss does not."""
    rng = np.random.default_rng(0)
    seed = np.repeat([5, 2], 6)
    table = {"depth": np.tile(DEPTH, 2), "loss": np.tile(LOSS, 2) * rng.uniform(0.9, 1.1, 12), "seed": seed}
    first = fit(DepthLaw(), table)
    order = rng.permutation(12)
    assert fit(DepthLaw(), {name: column[order] for name, column in table.items()}) == first
    changed = table | {"loss": np.where(np.arange(12) == 3, 0.13, table["loss"])}
    assert fit(DepthLaw(), changed).provenance.data_sha256 != first.provenance.data_sha256
    assert list(first.levels["c"]) == [2, 5]
