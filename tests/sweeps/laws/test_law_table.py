"""What a table must be: each rule broken once, and the message that names column, row, rule and remedy."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from sweeps.laws import DepthLaw, fit

DEPTH = [3, 4, 6, 8, 12, 16]
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
            r"column 'depth': 2 distinct depth\(s\) \[4.0, 8.0\].*at least 3; add depths",
        ),
        ({"depth": [], "loss": []}, r"column 'depth': 0 distinct depth"),
        (_with(seed=[0, 0, 0, 1, 1, None]), r"column 'seed', row 5: None names no group; .*group=None"),
        (_with(seed=[0, 0, 0, 1, 1, math.nan]), r"column 'seed', row 5: nan names no group"),
        (
            _with(seed=[0, 0, 0, 0, 0, 7]),
            r"group 7: only 1 distinct depth\(s\) \[16.0\].*leave the group out",
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
        fit(DepthLaw(floor=0.0), table)


def test_a_free_floor_needs_a_fourth_depth() -> None:
    """Three parameters need four depths for anything to be left over to judge them by."""
    table = {"depth": [3, 4, 6] * 2, "loss": LOSS}
    with pytest.raises(
        ValueError, match=r"3 distinct depth.*c, alpha and a free L_0 need at least 4.*floor=0.0"
    ):
        fit(DepthLaw(), table)
    assert fit(DepthLaw(floor=0.0), table).degrees_of_freedom == 4


def test_a_group_with_a_free_floor_needs_three_depths() -> None:
    """A group pays for its own level first."""
    with pytest.raises(ValueError, match=r"group 'b': only 2 distinct depth.*needs at least 3"):
        fit(DepthLaw(), _with(seed=["a", "a", "a", "a", "b", "b"]))


@pytest.mark.parametrize("floor", [0.06, 0.2])
def test_a_floor_lies_below_every_loss(floor: float) -> None:
    """With a floor at or above a loss there is no positive c: refused, naming the row that says so."""
    message = rf"floor: {floor} is not below the smallest loss 0.06 \(column 'loss', row 5, depth 16\)"
    with pytest.raises(ValueError, match=message):
        fit(DepthLaw(floor=floor), _with())


def test_a_group_column_asked_for_must_be_there() -> None:
    """Only the default, seed, may be absent; then the fit says that it took rows as independent."""
    with pytest.raises(ValueError, match=r"column 'run' is missing .*group='run'.*or pass group=None"):
        fit(DepthLaw(floor=0.0), _with(), group="run")
    notes = fit(DepthLaw(floor=0.0), _with()).notes
    assert "The table has no column 'seed': rows are taken as independent." in notes


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"confidence": 1.0}, r"confidence: 1.0 is not between 0 and 1"),
        ({"confidence": math.nan}, r"confidence: nan is not between"),
        ({"resamples": 0}, r"resamples: 0 is less than 1"),
        ({"starts": 0}, r"starts: 0 is less than 1"),
        ({"budget": 0}, r"budget: 0 is less than 1; give a positive whole number"),
    ],
)
def test_arguments_in_range(argument: dict[str, Any], message: str) -> None:
    """Arguments out of range are refused by name."""
    with pytest.raises(ValueError, match=message):
        fit(DepthLaw(floor=0.0), _with(), **argument)


def test_any_table_gives_the_same_fit() -> None:
    """Lists, arrays, float32 of the same values and a polars frame give the same fit to the last bit."""
    depth, loss = DEPTH * 2, np.array([*LOSS, *(1.1 * np.array(LOSS[::-1]))], dtype=np.float32)
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
    assert list(first.levels) == [2, 5]
