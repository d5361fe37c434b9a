"""Laws of toy sweeps: a cohort of one seed is a job, and its students' rows say what was trained."""

import dataclasses
import math
import types

import numpy as np
import pytest

from sweeps._jobs import Checkpoint, Job, Progress, kind
from sweeps._toy import Toy
from toymodels import (
    KL,
    CohortConfig,
    Correlated,
    Drifting,
    Evaluation,
    Independent,
    LearningRate,
    Tied,
    memory_bytes,
    num_params,
    student_forward_flops,
    total_flops,
)

from .conftest import pretended

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


def test_rows_say_what_was_trained(instant):
    """A row a student, columns as documented, with the config's values and the last of the losses."""
    [(found, arrays, gone, *_)] = Toy().train([WITH_KL])
    assert gone is None
    assert [(row["depth"], row["temperature"]) for row in found] == [(1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0)]
    for row in found:
        assert tuple(row) == tuple(Toy.columns)
        for name, column in Toy.columns.items():
            assert row[name] is None or type(row[name]) is column.type, name
        assert (row["seed"], row["status"], row["steps"], row["step"]) == (3, "done", 20, 20)
        assert (row["width"], row["hidden"], row["vocabulary"], row["batch"]) == (4, 8, 5, 16)
        assert (row["teacher"], row["objective"], row["given_head"]) == ("tied", "kl", False)
        assert row["num_params"] == num_params(WITH_KL, row["depth"])
        assert row["flops"] == 3 * student_forward_flops(WITH_KL, row["depth"]) * 16 * 20
        k = WITH_KL.temperatures.index(row["temperature"])
        assert row["loss"] == arrays[f"loss_{row['depth']}_{k}"][-1]
    assert [row["update_angle"] for row in found] == [None, None, 1.5, 1.5]
    assert all(len(arrays[f"loss_{d}_{k}"]) == len(arrays["steps"]) for d in (1, 2) for k in (0, 1))
    assert len(arrays["step_angles_teacher"]) == 4 and len(arrays["update_angles_teacher"]) == 3


@pytest.mark.parametrize(
    ("teacher", "length", "correlation", "label"),
    [
        (Drifting(depth=4, length=0.5), 0.5, math.exp(-0.5), "drifting 0.5, seed 3"),
        (Drifting(depth=4, length=0.0), 0.0, 0.0, "drifting 0, seed 3"),
        (Drifting(depth=4, length=math.inf), None, 1.0, "drifting inf, seed 3"),
        (Tied(depth=4, normal_weights=True), None, 1.0, "tied, seed 3"),
        (Independent(depth=4, normal_weights=True), 0.0, 0.0, "independent, seed 3"),
        (Correlated(depth=4, rho=0.5), None, 0.25, "correlated 0.5, seed 3"),
    ],
)
def test_rows_say_how_weights_vary_along_depth(instant, teacher, length, correlation, label):
    """The correlation length in depths, null where correlation does not fall; the correlation of neighbouring
    layers; the law of the weights. A job's label tells teachers of one kind apart."""
    config = dataclasses.replace(SMALL, teacher=teacher)
    [([row], *_)] = Toy().train([config])
    assert row["correlation_length"] == length
    assert row["layer_correlation"] == pytest.approx(correlation)
    assert row["normal_weights"] is teacher.normal_weights
    assert Job("toy", config).label == label


def test_seeds_trained_together_keep_their_rows(instant):
    """Jobs trained as one cohort each get the rows of their own seed."""
    configs = Toy().split(dataclasses.replace(SMALL, seeds=(3, 9)))
    together = Toy().train(configs)
    assert [[row["seed"] for row in found] for found, *_ in together] == [[3], [9]]
    assert together[0].rows[0]["loss"] != together[1].rows[0]["loss"]
    assert [result.rows for result in together] == [Toy().train([config])[0].rows for config in configs]


def test_no_temperature_without_a_head(instant):
    """Temperature, vocabulary and head are null without a head, ρ where the teacher has none."""
    [([row], *_)] = Toy().train([SMALL])
    assert [row[name] for name in ("temperature", "vocabulary", "given_head", "rho")] == [None] * 4
    correlated = dataclasses.replace(SMALL, teacher=Correlated(depth=4, rho=0.25))
    [([row], *_)] = Toy().train([correlated])
    assert row["rho"] == 0.25


@pytest.fixture(scope="module")
def diverged():
    """A student trained at a rate at which its states overflow."""
    [([row], arrays, gone, *_)] = Toy().train([dataclasses.replace(SMALL, learning_rate=LearningRate(1e12))])
    assert gone == f"loss or gradient not finite: depth 2 at step {row['step']}"
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
    [([row], *_)] = Toy().train([SMALL])
    assert row["status"] == "diverged" and row["loss"] is None and row["step"] == SMALL.steps


def test_a_job_is_a_seed():
    """A cohort of n seeds is n jobs that differ in their seed alone, each told from others by its label."""
    configs = Toy().split(dataclasses.replace(SMALL, seeds=(4, 0, 2)))
    assert [config.seeds for config in configs] == [(4,), (0,), (2,)]
    assert {dataclasses.replace(config, seeds=(3,)) for config in configs} == {SMALL}
    assert [Job("toy", config).label for config in configs] == [
        "tied, seed 4",
        "tied, seed 0",
        "tied, seed 2",
    ]


def test_costs_are_those_of_the_cohort():
    """FLOPs, memory and rows are what `toymodels` says of the same students, together where trained so."""
    toy = Toy()
    configs = toy.split(dataclasses.replace(WITH_KL, seeds=(0, 1)))
    assert toy.flops(WITH_KL) == Job("toy", WITH_KL).flops == total_flops(WITH_KL)
    assert toy.num_rows(WITH_KL) == 4
    together = dataclasses.replace(WITH_KL, seeds=(0, 1))
    assert toy.memory_bytes(configs) == memory_bytes(together, vmapped=False)
    assert toy.product(WITH_KL) == (8, 4, 16)


def test_program_and_companions():
    """Seed and steps leave the compiled program as it is; only the seed may differ among companions."""
    toy = Toy()
    seeds, steps, wider = (
        dataclasses.replace(SMALL, **change) for change in ({"seeds": (9,)}, {"steps": 21}, {"width": 5})
    )
    programs = [toy.program(config) for config in (SMALL, seeds, steps, wider)]
    assert programs[0] == programs[1] == programs[2] != programs[3]
    companions = [toy.companions(config) for config in (SMALL, seeds, steps, wider)]
    assert companions[0] == companions[1] and len(set(companions)) == 3


def test_found_by_its_name():
    """Specs find it as `toy`, with the cohort as config."""
    assert type(kind("toy")) is Toy and kind("toy").config is CohortConfig


class TestProgress:
    """What a training says of itself on the way."""

    @pytest.fixture
    def said(self, monkeypatch):
        """What two seeds at two temperatures say in a training of two parts, half a part a segment."""
        import toymodels

        configs = Toy().split(dataclasses.replace(WITH_KL, seeds=(3, 9)))
        whole = np.arange(8.0).reshape(2, 2, 2)  # (depth, seed, temperature)

        def train_cohort(config, *, resume, on_progress, max_bytes):
            assert config.seeds == (3, 9) and max_bytes == 100
            for step, losses in ((10, None), (20, whole), (30, whole[:1]), (40, None)):
                snapshot = types.SimpleNamespace(arrays={"x": np.array(step)}, step=step, parts="two")
                on_progress(toymodels.Progress(step, 40, losses, lambda taken=snapshot: taken))
            resumed.append(resume)
            return pretended(config)

        resumed = []
        monkeypatch.setattr(toymodels, "train_cohort", train_cohort)
        told = []
        start = Checkpoint({"x": np.array(5)}, {"step": 5, "parts": "two"})
        Toy().train(configs, resume=start, max_bytes=100, on_progress=told.append)
        return told, resumed

    def test_share_and_step(self, said):
        """The share is of all parts; the step is that share of the steps asked for."""
        told, _ = said
        assert all(isinstance(progress, Progress) for progress in told)
        assert [progress.done for progress in told] == [0.25, 0.5, 0.75, 1.0]
        assert [progress.step for progress in told] == [5, 10, 15, 20]

    def test_losses_are_named_as_curves(self, said):
        """Losses of the whole cohort reach each job by its curves' names; those of a part alone do not."""
        told, _ = said
        names = ("loss_1_0", "loss_1_1", "loss_2_0", "loss_2_1")
        assert [progress.losses is None for progress in told] == [True, False, True, True]
        assert told[1].losses == [
            dict(zip(names, (0.0, 1.0, 4.0, 5.0), strict=True)),
            dict(zip(names, (2.0, 3.0, 6.0, 7.0), strict=True)),
        ]

    def test_checkpoints_go_there_and_back(self, said):
        """A checkpoint holds the snapshot as arrays and plain values; resumed from, it is that snapshot."""
        told, [resumed] = said
        checkpoint = told[2].checkpoint()
        assert checkpoint.about == {"step": 30, "parts": "two"} and checkpoint.arrays["x"] == 30
        assert (resumed.step, resumed.parts, resumed.arrays["x"]) == (5, "two", 5)
