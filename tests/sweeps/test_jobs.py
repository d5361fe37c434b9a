"""Laws of jobs: what a job is, what its id depends on, which are trained together."""

import dataclasses
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import _jobs
from sweeps._config import decode, encode
from sweeps._jobs import KINDS, PROVENANCE, Job, Kind, expand, kind, merge
from toymodels import KL, CohortConfig, Correlated, Evaluation, LearningRate, Tied

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
    seen = {Job("toy", config).id}
    paths = [path for path in leaves(plain) if path != ("vocabulary",) or plain["vocabulary"]]
    for path in paths:
        changed = encode(config)
        table = changed
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = other(table[path[-1]])
        seen.add(Job("toy", decode(CohortConfig, changed, "here")).id)
    assert len(paths) > 15
    assert len(seen) == 1 + len(paths)


@given(st.randoms(use_true_random=False))
def test_id_does_not_depend_on_the_order_of_keys(random):
    """The id is that of the config, in whatever order its file names the keys."""
    plain = encode(WITH_KL)
    keys = list(plain)
    random.shuffle(keys)
    shuffled = decode(CohortConfig, {key: plain[key] for key in keys}, "here")
    assert Job("toy", shuffled).id == Job("toy", WITH_KL).id


def test_id_changes_with_the_schema(monkeypatch):
    """Records of another schema are another job's."""
    before = Job("toy", SMALL).id
    monkeypatch.setattr(_jobs, "SCHEMA_VERSION", _jobs.SCHEMA_VERSION + 1)
    assert Job("toy", SMALL).id != before


def test_id_changes_with_the_kind():
    """The same config means another job to another kind."""
    assert Job("other", SMALL).id != Job("toy", SMALL).id


def test_expand():
    """A cohort of n seeds is n jobs of one seed; a job that two cohorts have in common is run once."""
    one = dataclasses.replace(SMALL, seeds=(0, 1))
    two = dataclasses.replace(SMALL, seeds=(1, 2))
    jobs = expand("toy", (one, two))
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
    jobs = expand("toy", configs)
    groups = merge(jobs)
    assert sorted(job.id for group in groups for job in group) == sorted(job.id for job in jobs)
    assert [sorted(job.config.seeds[0] for job in group) for group in groups] == [[0, 1, 2], [0, 5], [7]]
    for group in groups:
        assert len({dataclasses.replace(job.config, seeds=(0,)) for job in group}) == 1


class TestKinds:
    """What holds for every kind, so that a new one needs no test of its own for it."""

    @pytest.mark.parametrize("name", KINDS)
    def test_complete(self, name):
        """A kind is found by its name, is concrete, and one object however often it is asked for."""
        found = kind(name)
        assert isinstance(found, Kind) and not inspect.isabstract(type(found))
        assert kind(name) is found
        assert dataclasses.is_dataclass(found.config)

    @pytest.mark.parametrize("name", KINDS)
    def test_columns(self, name):
        """Columns have types that a table can hold, no name of those that every table has, and an order."""
        found = kind(name)
        assert not found.columns.keys() & {"job", *PROVENANCE}
        assert {column.type for column in found.columns.values()} <= {str, int, float, bool}
        assert set(found.sorted_by) <= {"job", *found.columns} and found.sorted_by[-1] == "job"
        # What the fitter and the progress of any sweep read.
        assert {"loss", "status"} <= found.columns.keys()

    @pytest.mark.parametrize("name", KINDS)
    def test_a_job_is_not_divided_further(self, name):
        """Splitting the config of a job gives that config again."""
        found = kind(name)
        # What has no default: how long a language model trains.
        config = found.config(**({"budget": 1e9} if name == "lm" else {}))
        for one in found.split(config):
            assert found.split(one) == [one]
