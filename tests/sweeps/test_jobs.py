"""Laws of jobs and rows: what a job is, what its id depends on, what its students' rows say."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _jobs
from sweeps._config import decode, encode
from sweeps._jobs import COLUMNS, Job, expand, merge, train
from toymodels import (
    KL,
    CohortConfig,
    Correlated,
    Evaluation,
    LearningRate,
    Tied,
    num_params,
    student_forward_flops,
)

SMALL = CohortConfig(
    teacher=Tied(depth=4),
    width=4,
    hidden_factor=2,
    batch=16,
    depths=(2,),
    seeds=(3,),
    steps=20,
    evaluation=Evaluation(batches=1, batch=16, points=3, first_step=5),
)
WITH_KL = dataclasses.replace(SMALL, objective=KL((0.5, 1.0)), vocabulary=5, depths=(1, 2))


def leaves(plain, path=()):
    """The path of every number, text and list of a config."""
    for key, value in plain.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        elif key != "kind":
            yield (*path, key)


def other(value):
    """A value that the same field may have."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [*value, max(value) + 1]
    if value is None:
        return 4
    if isinstance(value, str):
        return "midpoint"
    return value * 0.5 if isinstance(value, float) else value + 1


@pytest.mark.parametrize("config", [SMALL, WITH_KL, dataclasses.replace(SMALL, teacher=Correlated(depth=4))])
def test_id_changes_with_every_field(config):
    """Two jobs whose configs differ in any one field have different ids."""
    plain = encode(config)
    seen = {Job(config).id}
    paths = [path for path in leaves(plain) if path != ("vocabulary",) or plain["vocabulary"]]
    for path in paths:
        changed = encode(config)
        table = changed
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = other(table[path[-1]])
        seen.add(Job(decode(CohortConfig, changed, "here")).id)
    assert len(paths) > 15
    assert len(seen) == 1 + len(paths)


@given(st.randoms(use_true_random=False))
def test_id_does_not_depend_on_the_order_of_keys(random):
    """The id is that of the config, in whatever order its file names the keys."""
    plain = encode(WITH_KL)
    keys = list(plain)
    random.shuffle(keys)
    assert Job(decode(CohortConfig, {key: plain[key] for key in keys}, "here")).id == Job(WITH_KL).id


def test_id_changes_with_the_schema(monkeypatch):
    """Records of another schema are another job's."""
    before = Job(SMALL).id
    monkeypatch.setattr(_jobs, "SCHEMA_VERSION", _jobs.SCHEMA_VERSION + 1)
    assert Job(SMALL).id != before


def test_expand():
    """A cohort of n seeds is n jobs of one seed; a job that two cohorts have in common is run once."""
    one = dataclasses.replace(SMALL, seeds=(0, 1))
    two = dataclasses.replace(SMALL, seeds=(1, 2))
    jobs = expand((one, two))
    assert [job.config.seeds for job in jobs] == [(0,), (1,), (2,)]
    assert len({job.id for job in jobs}) == 3
    assert {dataclasses.replace(job.config, seeds=(3,)) for job in jobs} == {SMALL}


def test_merge_groups_jobs_that_differ_in_seed_alone():
    """Jobs side by side differ in their seed and in nothing else; none is lost, none is doubled."""
    configs = (
        dataclasses.replace(SMALL, seeds=(0, 1, 2)),
        dataclasses.replace(SMALL, seeds=(0, 5), steps=21),
        dataclasses.replace(SMALL, seeds=(7,), learning_rate=LearningRate(0.5)),
    )
    jobs = expand(configs)
    groups = merge(jobs)
    assert sorted(job.id for group in groups for job in group) == sorted(job.id for job in jobs)
    assert [sorted(job.config.seeds[0] for job in group) for group in groups] == [[0, 1, 2], [0, 5], [7]]
    for group in groups:
        assert len({dataclasses.replace(job.config, seeds=(0,)) for job in group}) == 1


def test_rows_say_what_was_trained(instant):
    """A row a student, columns as documented, with the config's values and the last of the losses."""
    job = Job(WITH_KL)
    [(found, arrays)] = train([job])
    assert [(row["depth"], row["temperature"]) for row in found] == [(1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0)]
    for row in found:
        assert tuple(row) == tuple(COLUMNS)
        for name, column in COLUMNS.items():
            assert row[name] is None or type(row[name]) is column.type, name
        assert (row["job"], row["seed"], row["status"]) == (job.id, 3, "done")
        assert (row["width"], row["hidden"], row["vocabulary"], row["batch"]) == (4, 8, 5, 16)
        assert (row["teacher"], row["objective"], row["given_head"]) == ("tied", "kl", False)
        assert row["num_params"] == num_params(WITH_KL, row["depth"])
        assert row["flops"] == 3 * student_forward_flops(WITH_KL, row["depth"]) * 16 * 20
        k = WITH_KL.temperatures.index(row["temperature"])
        assert row["loss"] == arrays[f"loss_{row['depth']}_{k}"][-1]
    assert [row["update_angle"] for row in found] == [None, None, 1.5, 1.5]
    assert all(len(arrays[f"loss_{d}_{k}"]) == len(arrays["steps"]) for d in (1, 2) for k in (0, 1))
    assert len(arrays["step_angles_teacher"]) == 4 and len(arrays["update_angles_teacher"]) == 3


def test_seeds_trained_together_keep_their_rows(instant):
    """Jobs trained as one cohort each get the rows of their own seed."""
    jobs = expand((dataclasses.replace(SMALL, seeds=(3, 9)),))
    trained = train(jobs)
    assert [[row["seed"] for row in found] for found, _ in trained] == [[3], [9]]
    assert [[row["job"] for row in found] for found, _ in trained] == [[job.id] for job in jobs]
    assert trained[0][0][0]["loss"] != trained[1][0][0]["loss"]


def test_no_temperature_without_a_head(instant):
    """Temperature, vocabulary and head are null without a head, ρ where the teacher has none."""
    [([row], _)] = train([Job(SMALL)])
    assert [row[name] for name in ("temperature", "vocabulary", "given_head", "rho")] == [None] * 4
    correlated = dataclasses.replace(SMALL, teacher=Correlated(depth=4, rho=0.25))
    [([row], _)] = train([Job(correlated)])
    assert row["rho"] == 0.25


@pytest.fixture(scope="module")
def diverged():
    """A student trained at a rate at which its states overflow."""
    job = Job(dataclasses.replace(SMALL, learning_rate=LearningRate(1e12)))
    [([row], arrays)] = train([job])
    return row, arrays


def test_diverged_row(diverged):
    """A student that became non-finite has no loss, says so, and counts the steps that it was trained."""
    row, arrays = diverged
    assert row["status"] == "diverged" and row["loss"] is None
    assert 0 < row["step"] < SMALL.steps
    assert row["flops"] == 3 * student_forward_flops(SMALL, 2) * SMALL.batch * row["step"]
    assert np.isnan(arrays["loss_2_0"]).any()


def test_a_row_holds_no_nan(diverged):
    """A number that is not finite is null, in any column: JSON and the fitter know no NaN."""
    row, _ = diverged
    assert all(math.isfinite(value) for value in row.values() if isinstance(value, float))
    assert row["update_angle"] is None  # NaN in the arrays: the student's states overflowed
    assert row["teacher_update_angle"] > 0


def test_a_loss_that_is_not_finite_is_no_result(instant, monkeypatch):
    """A student stopped by nothing in training, whose held-out loss overflows, has diverged as well."""
    import toymodels

    pretend = toymodels.train_cohort

    def overflowing(config, **options):
        result = pretend(config)
        result.students[0].losses[-1] = np.inf
        return result

    monkeypatch.setattr(toymodels, "train_cohort", overflowing)
    [([row], _)] = train([Job(SMALL)])
    assert row["status"] == "diverged" and row["loss"] is None and row["step"] == SMALL.steps
