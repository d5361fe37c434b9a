"""Laws of the columns that scores add to a sweep's table, and of the fits that use them."""

import numpy as np
import pytest

from sweeps import _axes
from sweeps._files import StoreError
from sweeps._source import open_source
from sweeps.laws import Fit
from tests.sweeps.made_runs import made_runs

SETTINGS = {"task": "built in, version 1", "items": 100, "shots": 0, "seed": 0, "num_recur": None}
TASKS = {
    "induction": {"axis": "reasoning", "settings": SETTINGS},
    "lookup": {"axis": "reasoning", "settings": SETTINGS},
    "dyck": {"axis": "symbolic", "settings": SETTINGS},
}
BUDGETS = [1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 64e9, 128e9]


def val_loss(flops):
    """Of a run that was never trained."""
    return 1.5 + 40 * flops**-0.2


def axis_loss(flops):
    """The loss on a task: a power of compute, and so of the validation loss less its floor."""
    return 0.5 + 90 * flops**-0.25


@pytest.fixture
def store(tmp_path):
    """Eight runs that were never trained, as records with a model each."""
    source = {
        "sweep": {"name": "made", "kind": "lm", "description": "none"},
        "base": {"model": {"width": 8, "head_size": 4, "prelude": 1, "layers": 2, "coda": 1}},
        "grid": {"budget": BUDGETS},
    }
    return made_runs(
        tmp_path / "out",
        source,
        models=False,
        flops=lambda config: config.budget,
        budget=lambda config: config.budget,
        loss=lambda config: val_loss(config.budget),
    )


def evaluated(store, tasks=TASKS, settings=SETTINGS, only=slice(None)):
    """The same runs with scores by the law of each task."""
    _axes.write_tasks(store.out, tasks)
    for record in list(store.records())[only]:
        flops = record["rows"][0]["flops"]
        scores = {
            name: {
                "settings": settings,
                "score": {
                    "loss": axis_loss(flops) * (1 + (name == "lookup")),
                    "loss_error": 0.03 if name == "induction" else 0.04,
                    "accuracy": 0.5,
                    "chance_loss": 0.7,
                },
            }
            for name in tasks
        }
        _axes.write_scores(store.out, record, scores)


def test_columns_come_after_the_ordinary_ones(store):
    """A folder without scores has the table that it had; scores add columns at its end: of each task loss,
    error, chance and accuracy, of each axis the means over its tasks."""
    before = store.table()
    assert list(before.columns) == list(store.columns()) and "induction_loss" not in before.columns
    evaluated(store)
    after = store.table()
    assert after[before.columns].equals(before) and list(after.columns) == list(store.columns())
    names = [*TASKS, "reasoning", "symbolic"]
    endings = ["loss", "loss_error", "chance", "accuracy"]
    assert after.columns[len(before.columns) :] == [f"{n}_{e}" for n in names for e in endings]
    flops = after["flops"].to_numpy()
    np.testing.assert_allclose(after["induction_loss"], axis_loss(flops))
    np.testing.assert_allclose(after["reasoning_loss"], 1.5 * axis_loss(flops))
    np.testing.assert_allclose(after["reasoning_loss_error"], 0.025)  # sqrt(0.03² + 0.04²) / 2
    np.testing.assert_allclose(after["symbolic_loss"], axis_loss(flops))
    assert all(store.columns()[name].meaning for name in after.columns)


def test_what_was_not_evaluated_is_null(store):
    """Runs without scores have nulls, and so has an axis of which a task is missing; `note` counts them."""
    assert _axes.note(store.out, store.records()) is None
    evaluated(store, only=slice(3))
    table = store.table()
    assert table["induction_loss"].null_count() == table["reasoning_loss"].null_count() == 5
    assert _axes.note(store.out, store.records()).startswith("5 model(s) have no scores on all of induction")
    new = {**TASKS, "more": {"axis": "reasoning", "settings": SETTINGS}}
    _axes.write_tasks(store.out, new)
    table = store.table()
    assert table["reasoning_loss"].null_count() == 8 and table["induction_loss"].null_count() == 5


def test_scores_of_other_settings_are_not_mixed(store):
    """Of two settings the table has those that the folder's file names; the others come back with them."""
    evaluated(store)
    other = {**TASKS, "dyck": {"axis": "symbolic", "settings": {**SETTINGS, "items": 7}}}
    _axes.write_tasks(store.out, other)
    table = store.table()
    assert table["dyck_loss"].null_count() == 8 and table["induction_loss"].null_count() == 0
    _axes.write_tasks(store.out, TASKS)
    assert store.table()["dyck_loss"].null_count() == 0


def test_scores_of_another_model_are_not_shown(store):
    """A job that was trained again has another model, whose scores are not there yet."""
    evaluated(store)
    record = next(store.records())
    assert len(_axes.read_scores(store.out, record)) == 3
    assert _axes.read_scores(store.out, {**record, "model": "another"}) == {}


@pytest.mark.parametrize("name", ["axes.json", "jobs/{job}/axes.json"])
def test_damage_shows(store, name):
    """A file of scores of which a byte has changed is not read: its columns are empty or gone, and a sentence
    says which file it is and what to do; the rows stay."""
    evaluated(store)
    job = next(store.records())["job"]
    path = store.out / name.format(job=job)
    path.write_bytes(path.read_bytes().replace(b'"items": 100', b'"items": 900', 1))
    skipped = []
    table = store.table(skipped)
    assert len(table) == 8 and len(skipped) == 1
    assert (
        f"{path} is not what it should be: its end or its hash is missing or wrong; remove it" in skipped[0]
    )
    if name == "axes.json":
        assert "induction_loss" not in table.columns
        with pytest.raises(StoreError, match="axes.json"):
            _axes.read_tasks(store.out)
    else:
        assert table["induction_loss"].null_count() == 1


def test_what_a_killed_process_left_is_no_score(store):
    """A file that was being written when its process died is none, and the next run of the sweep removes
    it."""
    evaluated(store)
    (store.out / "jobs" / next(store.records())["job"] / ".axes.json.abcd1234").write_text("{")
    assert store.table()["induction_loss"].null_count() == 0
    store.heal(lambda sentence: None)
    assert not list(store.out.rglob(".axes.json.*"))


def test_axis_loss_against_compute(store, call, tmp_path):
    """`fit DIR --law compute --map loss=TASK_loss` fits the task's loss to compute: the exponent that was
    planted; and says what the loss is."""
    evaluated(store)
    done = call(
        "fit",
        store.out,
        *("--law", "compute", "--map", "loss=induction_loss", "--json", tmp_path / "fit.json"),
    )
    assert done.status == 0, done.err
    assert "the loss is induction_loss; the validation loss is the column val_loss" in done.err
    assert Fit.from_json((tmp_path / "fit.json").read_text()).estimates == pytest.approx(
        {"E": 0.5, "A": 90, "alpha": 0.25}, rel=1e-4
    )


@pytest.mark.parametrize(
    ("law", "maps"),
    [
        ("E + A*val**p", ["--map", "loss=induction_loss", "--map", "val=loss"]),
        ("E + A*val_loss**p", ["--map", "loss=induction_loss"]),
        ("E + A*val**p", ["--map", "loss=induction_loss", "--derive", "val=val_loss-1.5"]),
    ],
)
def test_axis_loss_against_validation_loss(store, call, tmp_path, law, maps):
    """The same against the validation loss, by the name that the call gives it, by its own, or less its
    floor: of this the exponent is the planted 0.25 / 0.2."""
    evaluated(store)
    done = call("fit", store.out, "--law", law, *maps, "--json", tmp_path / "fit.json")
    found = Fit.from_json((tmp_path / "fit.json").read_text())
    table = store.table()
    if "--derive" in maps:
        assert found.estimates["p"] == pytest.approx(1.25, rel=1e-4), done.err
    else:
        opened = open_source(store.out, law, maps[1::2])
        assert opened.table["loss"].to_list() == table["induction_loss"].to_list()
        column = "val_loss" if "val_loss" in law else "val"
        assert opened.table[column].to_list() == table["loss"].to_list()
        assert found.objective < 1e-5


def test_rows_without_scores_are_refused_or_left_out(store, call):
    """A fit of a task's loss where some runs have none names them, and says what would make them."""
    evaluated(store, only=slice(6))
    done = call("fit", store.out, "--law", "compute", "--map", "loss=dyck_loss")
    assert done.status == 2 and "2 of 8 rows cannot be fitted" in done.err
    assert "2 model(s) have no scores on all of induction, lookup, dyck" in done.err
    done = call("fit", store.out, "--law", "compute", "--map", "loss=dyck_loss", "--drop-invalid")
    assert done.status == 0, done.err


def test_the_validation_loss_keeps_its_name(store):
    """Who fits the validation loss, or names it, gets no column that was not asked for."""
    evaluated(store)
    assert "val_loss" not in open_source(store.out, "compute").table.columns
    assert "val_loss" not in open_source(store.out, "compute", ["loss=bpb", "v=loss"]).table.columns
