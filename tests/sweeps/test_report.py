"""Laws of the answers: one fit a condition, and whatever is left out, refused or unknown is said."""

import dataclasses
import datetime
import io
import json
import math

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from sweeps._config import ConfigError
from sweeps._report import answers, as_json, depth_question, exponents_table, sentences
from sweeps.laws import Regime


def table(**columns):
    """Losses 2 · depth^-1 and depth^-3 of two teachers, two seeds each, with a scatter of a percent."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "teacher": teacher,
            "seed": seed,
            "depth": depth,
            "loss": loss,
            "status": "done",
            "update_angle": 0.5,
        }
        for teacher, c, alpha in (("independent", 2.0, 1.0), ("tied", 1.0, 3.0))
        for seed in (0, 1)
        for depth in (2, 4, 8, 16)
        for loss in [c * depth**-alpha * math.exp(0.01 * rng.standard_normal())]
    ]
    return pl.DataFrame(rows).with_columns(**columns)


def ask(rows, by, group=("seed",)):
    """The answers of the depth law above a floor of 0."""
    return answers(rows, dataclasses.replace(depth_question(by, 0.0), group=group))


def test_a_fit_each_condition():
    """Every combination of the columns `by` has its own exponent and regime."""
    found = ask(table(), ("teacher",))
    assert [answer.condition for answer in found] == [{"teacher": "independent"}, {"teacher": "tied"}]
    # A scatter of 0.01 in log loss over log depths of variance 0.6, eight rows: ± 0.005.
    assert [answer.fit.estimates["alpha"] for answer in found] == pytest.approx([1, 3], abs=0.03)
    assert [answer.regime for answer in found] == [Regime.ENSEMBLE_AVERAGING, Regime.PROCEDURAL_ASSEMBLY]
    assert [(answer.rows, answer.left_out, answer.trusted) for answer in found] == [(8, 0, True)] * 2
    assert found[0].update_angle == 0.5 and found[0].teacher_update_angle is None
    [all_in_one] = ask(table(), ())
    assert all_in_one.condition == {} and all_in_one.rows == 16


def test_diverged_students_are_left_out_and_said():
    """A diverged row is no part of the fit, is counted, said, and takes the trust away."""
    loss = pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col("loss"))
    status = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("diverged")).otherwise(pl.col("status"))
    found = ask(table(loss=loss, status=status), ("teacher",))
    without = ask(table()[[0, 1, 2, *range(4, 16)]], ("teacher",))
    assert found[0].fit.estimates == without[0].fit.estimates
    assert [(answer.rows, answer.left_out, answer.trusted) for answer in found] == [
        (7, 1, False),
        (8, 0, True),
    ]
    assert "teacher independent: 1 diverged row(s) left out of the fit." in sentences(found)


@pytest.mark.parametrize("status", [pl.lit("finished"), pl.lit(3), pl.lit(None), pl.lit(None, pl.String)])
def test_other_peoples_status(status):
    """A status that is not `diverged`, in whatever type, leaves no row out."""
    found = ask(table(status=status), ())
    assert [(answer.rows, answer.left_out) for answer in found] == [(16, 0)]


def test_a_refused_condition_is_no_other_ones():
    """One condition's bad row refuses that fit alone, and is named as the table counts it."""
    loss = pl.when(pl.int_range(pl.len()) == 13).then(-1.0).otherwise(pl.col("loss"))
    status = pl.when(pl.int_range(pl.len()) == 9).then(pl.lit("diverged")).otherwise(pl.col("status"))
    found = ask(table(loss=loss, status=status), ("teacher",))
    assert found[0].trusted and found[0].fit is not None
    assert found[1].fit is None and not found[1].trusted and found[1].regime is Regime.NOT_RESOLVED
    assert "column 'loss', row 14 (depth 4): -1 must be > 0" in found[1].problem
    assert any(said.startswith("teacher tied: no fit: column 'loss', row 14") for said in sentences(found))


def test_missing_columns():
    """A column that is not there is refused by name, before any fit."""
    for by, group, lost in (
        (("techer",), ("seed",), "techer"),
        ((), ("run",), "run"),
        (("x", "y"), ("seed",), "x"),
    ):
        with pytest.raises(ConfigError, match=f"column '{lost}' is not in the table: it has teacher, seed, "):
            ask(table(), by, group)
    for column in ("depth", "loss"):
        with pytest.raises(ConfigError, match=f"column '{column}' is not in the table: it has teacher, seed"):
            ask(table().drop(column), ())
    [answer] = ask(table().select("depth", "loss"), ())
    assert answer.fit.provenance.group_columns == () and answer.fit.levels == {}


def test_nothing_to_fit():
    """A table without rows has no answers; two depths have one without a fit."""
    assert ask(table().clear(), ("teacher",)) == []
    [answer] = ask(table().filter(pl.col("depth") < 8), ())
    assert answer.fit is None and "2 distinct depth(s) [2.0, 4.0]" in answer.problem


def test_json_holds_only_json():
    """Answers become strict JSON, whatever a table's columns hold: no NaN, no infinity, no date."""
    odd = table(
        teacher=pl.when(pl.col("teacher") == "tied").then(math.nan).otherwise(math.inf),
        day=pl.lit(datetime.date(2026, 1, 1)),
        update_angle=pl.lit("wide"),
    )
    few = odd.filter((pl.col("depth") < 8) & pl.col("teacher").is_nan())
    for found in (ask(odd, ("teacher", "day", "day")), ask(few, ("teacher",))):
        plain = [as_json(answer) for answer in found]
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert {entry["teacher"] for entry in plain} == {None}
        assert {entry["update_angle"] for entry in plain} == {None}
    assert plain[0]["alpha"] is None and plain[0]["interval"] == [None, None]
    assert "2 distinct depth(s)" in plain[0]["notes"][0]


def test_table_for_a_terminal():
    """The terminal's table has a row an answer, with the exponent and its interval, or why there is none."""
    found = ask(table(), ("teacher",))
    refused = ask(table().filter(pl.col("depth") < 8), ("teacher",))
    console = Console(width=160, file=io.StringIO())
    console.print(exponents_table([found[0], refused[1]]))
    text = console.file.getvalue()
    low, high = found[0].fit.intervals["alpha"]
    assert f"{found[0].fit.estimates['alpha']:.3f}" in text and f"{low:.3f} to {high:.3f}" in text
    assert "ensemble averaging" in text and "refused" in text
