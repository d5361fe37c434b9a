"""Laws of the cohort engine: a cohort is its students alone, whatever the layout."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toymodels import (
    KL,
    MSE,
    CohortConfig,
    Correlated,
    Evaluation,
    Flow,
    Independent,
    LearningRate,
    Plan,
    Purpose,
    Tied,
    _train,
    draw_student,
    draw_teacher,
    memory_bytes,
    num_params,
    purpose_key,
    split,
    train_cohort,
)

SMALL = CohortConfig(
    teacher=Tied(depth=6),
    width=4,
    depths=(1, 3),
    seeds=(0, 5),
    batch=16,
    steps=30,
    learning_rate=LearningRate(1e-2, reference_depth=4.0, hold_fraction=0.5, final_fraction=0.1),
    evaluation=Evaluation(batches=2, batch=16, points=4, first_step=3),
)
WITH_KL = dataclasses.replace(
    SMALL, teacher=Independent(depth=6), objective=KL((0.1, 1.0)), vocabulary=7, seeds=(0, 5)
)
CONFIGS = pytest.mark.parametrize("config", [SMALL, WITH_KL], ids=["mse", "kl"])
MOSTLY_MSE = pytest.mark.parametrize(
    "config", [SMALL, pytest.param(WITH_KL, marks=pytest.mark.slow)], ids=["mse", "kl"]
)

# Thirty Adam steps of 1e-2 turn a rounding of 2^-23 in a gradient into at most a relative rounding of
# each step, and a sign where a gradient is itself rounding: losses agree to a few parts in 10^4.
SAME = {"rtol": 1e-3, "atol": 1e-7}


def losses(result):
    return {(s.depth, s.seed, s.temperature): s.losses for s in result.students}


def assert_same(ours, theirs, **tolerance):
    assert ours.keys() == theirs.keys()
    for key in ours:
        np.testing.assert_allclose(ours[key], theirs[key], err_msg=str(key), **tolerance)


@pytest.fixture(scope="module")
def whole():
    """Both configs trained as one cohort, replicates one after another."""
    return {id(config): train_cohort(config, plan=Plan(vmapped=False)) for config in (SMALL, WITH_KL)}


def train_alone(config, depth, seed, temperature):
    """One student trained by a plain loop over steps: optax, autodiff, nothing shared."""
    teacher = draw_teacher(config, seed)
    student = draw_student(config, seed, depth)
    rate = config.learning_rate
    held = round(rate.hold_fraction * config.steps)

    def schedule(step):
        share = jnp.clip((step - held) / (config.steps - held), 0, 1)
        return rate.peak(depth) * (1 - (1 - rate.final_fraction) * share)

    optimiser = optax.adam(schedule, config.adam.beta1, config.adam.beta2, config.adam.epsilon)
    moments = optimiser.init(student)

    def mean_loss(student, x):
        target = config.objective.target(teacher, x)
        return jnp.mean(config.objective.losses(student, x, target, teacher.head, temperature))

    @jax.jit
    def step(student, moments, x):
        gradient = jax.grad(mean_loss)(student, x)
        updates, moments = optimiser.update(gradient, moments)
        return optax.apply_updates(student, updates), moments

    def held_out(student):
        key = purpose_key(seed, Purpose.EVALUATION)
        shape = (config.width, config.evaluation.batch)
        keys = [jax.random.fold_in(key, index) for index in range(config.evaluation.batches)]
        batches = [jax.random.normal(key, shape) for key in keys]
        return float(np.mean([mean_loss(student, x) for x in batches]))

    found = []
    for index in range(config.steps):
        key = jax.random.fold_in(purpose_key(seed, Purpose.DATA), index)
        student, moments = step(student, moments, jax.random.normal(key, (config.width, config.batch)))
        if index + 1 in config.evaluation.at(config.steps):
            found.append(held_out(student))
    return np.array(found)


@CONFIGS
def test_a_cohort_is_its_students_alone(config, whole):
    """Each student's held-out losses equal those of a plain training loop for that student alone."""
    cohort = losses(whole[id(config)])
    for depth, seed, temperature in ((1, 5, config.temperatures[-1]), (3, 0, config.temperatures[0])):
        alone = train_alone(config, depth, seed, temperature)
        np.testing.assert_allclose(cohort[depth, seed, temperature], alone, **SAME)


@MOSTLY_MSE
@pytest.mark.parametrize("plan", [Plan(True, 1), Plan(False, 1, unroll=2)], ids=["vmapped", "unrolled"])
def test_the_plan_does_not_change_the_result(config, plan, whole):
    """Replicates side by side, or layers written out, give the same losses up to rounding."""
    assert_same(losses(train_cohort(config, plan=plan)), losses(whole[id(config)]), **SAME)


@MOSTLY_MSE
def test_a_split_cohort_gives_the_same_students(config, whole):
    """Split until nothing more can be, every student has the same losses: seeds decide, not company."""
    limit = max(memory_bytes(part, False) for part in _singles(config))
    parts = split(config, False, limit)
    assert len(parts) > len(config.seeds)
    cohort = train_cohort(config, plan=Plan(False, 1), max_bytes=limit)
    assert_same(losses(cohort), losses(whole[id(config)]), **SAME)
    assert [teacher.seed for teacher in cohort.teachers] == list(config.seeds)


def _singles(config):
    """Cohorts of one student each."""
    for depth in config.depths:
        one = dataclasses.replace(config, depths=(depth,), seeds=config.seeds[:1])
        if isinstance(config.objective, KL):
            objective = dataclasses.replace(config.objective, temperatures=config.objective.temperatures[:1])
            one = dataclasses.replace(one, objective=objective)
        yield one


@CONFIGS
def test_every_part_of_a_split_fits_and_none_is_lost(config):
    """Parts are below the limit and together hold every (depth, seed, temperature) once."""
    limit = max(memory_bytes(part, False) for part in _singles(config))
    parts = split(config, False, limit)
    assert all(memory_bytes(part, False) <= limit for part in parts)
    students = [
        (d, s, t) for part in parts for d in part.depths for s in part.seeds for t in part.temperatures
    ]
    wanted = {(d, s, t) for d in config.depths for s in config.seeds for t in config.temperatures}
    assert len(students) == len(wanted) and set(students) == wanted


def test_a_student_that_cannot_fit_is_refused():
    """The message says how much is needed, how much may be used, and what to lower."""
    with pytest.raises(
        ValueError, match=r"single student of depth .* needs about .* lower batch, width or depth"
    ):
        train_cohort(SMALL, max_bytes=1000)


@MOSTLY_MSE
def test_the_same_config_gives_the_same_bits(config, whole):
    """On one machine and plan, a repeated training gives every loss and weight to the last bit."""
    again = train_cohort(config, plan=Plan(False, 1))
    for a, b in zip(again.students, whole[id(config)].students, strict=True):
        np.testing.assert_array_equal(a.losses, b.losses)
        for one, other in zip(jax.tree.leaves(a.network), jax.tree.leaves(b.network), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_division_over_devices_changes_rounding_at_most():
    """Seeds, temperatures or batches divided over devices train to the same losses up to rounding.

    Seeds come first, then temperatures; a batch is divided for long steps only, and only evenly.
    """
    code = f"""
import dataclasses
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
from toymodels import *
config = dataclasses.replace({WITH_KL!r}, seeds=(0, 1), objective=KL((0.1, 1.0)))
whole = train_cohort(config, plan=Plan(False))
assert Plan.choose(config) == Plan(False, 2, 2), Plan.choose(config)
for plan in (Plan(False, seeds=2), Plan(False, temperatures=2), Plan(False, 2, 2), Plan(False, batch=2)):
    for one, other in zip(whole.students, train_cohort(config, plan=plan).students, strict=True):
        np.testing.assert_allclose(other.losses, one.losses, rtol=1e-3, atol=1e-7, err_msg=str(plan))
        np.testing.assert_allclose(other.geometry.update_angles, one.geometry.update_angles, rtol=1e-3)

one = dataclasses.replace(config, seeds=(0,), objective=KL((1.0,)))
large = dataclasses.replace(one, width=256, batch=1024)
assert Plan.choose(one) == Plan(False), Plan.choose(one)
assert Plan.choose(large) == Plan(False, batch=4), Plan.choose(large)
assert Plan.choose(dataclasses.replace(large, batch=1023)) == Plan(False)
assert Plan.choose(dataclasses.replace(large, seeds=(0, 1))) == Plan(False, seeds=2, batch=2)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.fixture(scope="module")
def snapshots():
    """Snapshots of `WITH_KL`, divided into parts of one seed, after every segment of a step."""
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "SEGMENT_SECONDS", 0.0)
        result = train_cohort(
            WITH_KL,
            plan=Plan(False),
            max_bytes=memory_bytes(dataclasses.replace(WITH_KL, seeds=(0,)), False),
            on_progress=lambda progress: taken.append(progress.snapshot()),
        )
    return result, taken


@given(at=st.integers(0, 65))
@settings(deadline=None, max_examples=12)
def test_a_resumed_training_ends_with_the_same_bits(snapshots, at):
    """From whatever step it goes on, within a part, at an evaluation or between parts: nothing tells."""
    whole, taken = snapshots
    snapshot = taken[at % len(taken)]
    limit = memory_bytes(dataclasses.replace(WITH_KL, seeds=(0,)), False)
    steps = []
    again = train_cohort(
        WITH_KL,
        plan=Plan(False),
        max_bytes=limit,
        resume=snapshot,
        on_progress=lambda progress: steps.append(progress.step),
    )
    assert all(step > snapshot.step for step in steps)
    for one, other in zip(whole.students, again.students, strict=True):
        np.testing.assert_array_equal(one.losses, other.losses)
        np.testing.assert_array_equal(one.geometry.update_angles, other.geometry.update_angles)
        assert one.trained_steps == other.trained_steps
        jax.tree.map(np.testing.assert_array_equal, one.network, other.network)


def test_float32_whatever_jax_is_set_to(whole):
    """With 64-bit numbers allowed, the same cohort is trained to the same bits."""
    with jax.enable_x64(True):
        again = train_cohort(SMALL, plan=Plan(False))
    for one, other in zip(whole[id(SMALL)].students, again.students, strict=True):
        np.testing.assert_array_equal(one.losses, other.losses)
        assert other.losses.dtype == np.float32


def test_a_snapshot_of_another_training_is_refused(snapshots):
    """Other students, another division or other shapes: refused, never trained on."""
    snapshot = snapshots[1][40]
    with pytest.raises(ValueError, match="divided otherwise"):
        train_cohort(WITH_KL, plan=Plan(False), resume=snapshot)
    wider = dataclasses.replace(WITH_KL, width=8)
    limit = memory_bytes(dataclasses.replace(wider, seeds=(0,)), False)
    with pytest.raises(ValueError, match="shapes or types"):
        train_cohort(wider, plan=Plan(False), max_bytes=limit, resume=snapshot)


@dataclass(frozen=True)
class Counted(MSE):
    """MSE that counts how often it is traced."""

    kind: ClassVar[str] = "counted"
    traces: ClassVar[int] = 0

    def losses(self, student, x, target, teacher_head, temperature):
        Counted.traces += 1
        return super().losses(student, x, target, teacher_head, temperature)


def test_training_is_traced_once():
    """One trace a depth for training and one for evaluation, however many segments, steps, seeds, cohorts."""
    config = dataclasses.replace(SMALL, objective=Counted())
    Counted.traces = 0
    for seeds, steps in (((0, 1), config.steps), ((2, 3), config.steps), ((0, 1), config.steps + 7)):
        train_cohort(dataclasses.replace(config, seeds=seeds, steps=steps))
    assert Counted.traces == 2 * len(config.depths)


def test_a_diverged_student_is_stopped_and_hurts_nobody():
    """A student whose loss turns non-finite keeps its last finite weights; the others go on as without it."""
    calm = CohortConfig(
        teacher=Tied(depth=6),
        width=4,
        depths=(1, 2),
        seeds=(0,),
        batch=16,
        steps=20,
        learning_rate=LearningRate(1e-2),
        evaluation=Evaluation(1, 16, 3, 5),
    )
    poisoned = dataclasses.replace(calm, objective=Poisoned(from_step=7))
    result = train_cohort(poisoned)
    shallow, deep = result.students
    assert (deep.diverged, deep.trained_steps) == (True, 7)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(deep.network))
    assert (shallow.diverged, shallow.trained_steps) == (False, 20)
    alone = train_cohort(calm).student(depth=1, seed=0)
    np.testing.assert_array_equal(shallow.losses, alone.losses)


@dataclass(frozen=True)
class Poisoned(MSE):
    """MSE whose loss is NaN for students of two layers once their weights have moved `from_step` times.

    Adam's first steps move every weight by the learning rate, 1e-2, so W₂ tells how many have been made.
    """

    kind: ClassVar[str] = "poisoned"
    from_step: int = 7

    def losses(self, student, x, target, teacher_head, temperature):
        values = super().losses(student, x, target, teacher_head, temperature)
        if student.depth < 2:
            return values
        moved = jnp.max(jnp.abs(student.layers.mlp.w_out))
        return jnp.where(moved > (self.from_step - 0.5) * 1e-2, jnp.nan, values)


def test_no_student_is_done_without_a_finite_loss():
    """With a rate that overflows float32, students diverge; whoever does not has finite losses to show."""
    result = train_cohort(dataclasses.replace(WITH_KL, learning_rate=LearningRate(1e30)))
    assert any(student.diverged for student in result.students)
    for student in result.students:
        assert student.diverged or (
            np.isfinite(student.losses[-1]) and student.trained_steps == WITH_KL.steps
        )


@pytest.mark.parametrize(
    "teacher", [Tied(depth=6), Correlated(depth=6, rho=0.5), Flow(depth=6)], ids=lambda teacher: teacher.kind
)
def test_training_leaves_the_teacher_alone(teacher):
    """After training the teacher's weights are those that were drawn; tied layers are still identical."""
    config = dataclasses.replace(SMALL, teacher=teacher, steps=5)
    result = train_cohort(config)
    for taught in result.teachers:
        drawn = draw_teacher(config, taught.seed)
        for one, other in zip(jax.tree.leaves(taught.network), jax.tree.leaves(drawn), strict=True):
            np.testing.assert_array_equal(one, other)
        if teacher.kind == "tied":
            assert all(jnp.all(leaf == leaf[0]) for leaf in jax.tree.leaves(taught.network.layers))


def test_seeds_draw_different_teachers_students_and_data():
    """Two seeds share no weights and no losses; two depths share their teacher and inputs."""
    result = train_cohort(dataclasses.replace(SMALL, steps=5))
    a, b = (result.student(depth=3, seed=seed) for seed in SMALL.seeds)
    assert not np.any(a.losses == b.losses)
    assert not bool(eqx.tree_equal(a.network, b.network))
    keys = {tuple(jax.random.key_data(purpose_key(0, purpose)).tolist()) for purpose in Purpose}
    assert len(keys) == len(Purpose)


def test_training_lowers_the_loss():
    """A deep enough student learns: thirty steps take more than a tenth off the untrained loss."""
    config = dataclasses.replace(SMALL, evaluation=dataclasses.replace(SMALL.evaluation, first_step=1))
    for student in train_cohort(config).students:
        assert student.losses[-1] < 0.9 * student.losses[0]


def test_geometry_is_that_of_the_final_network():
    """Recorded angles are the means over the first held-out batch of the trained network's states."""
    from toymodels import dynamics

    result = train_cohort(SMALL)
    student = result.student(depth=3, seed=5)
    key = jax.random.fold_in(purpose_key(5, Purpose.EVALUATION), 0)
    states = student.network.states(jax.random.normal(key, (SMALL.width, SMALL.evaluation.batch)))
    for recorded, measure in (
        (student.geometry.step_angles, dynamics.step_angles),
        (student.geometry.update_angles, dynamics.update_angles),
    ):
        np.testing.assert_allclose(recorded, np.mean(measure(states, axis=1), axis=-1), rtol=1e-4)
    assert result.student(depth=1, seed=5).geometry.update_angle is None


def test_progress_reaches_the_end_in_order():
    """`on_progress` counts steps upwards to the last and carries the newest losses."""
    seen = []
    result = train_cohort(SMALL, on_progress=seen.append)
    steps = [progress.step for progress in seen]
    assert steps == sorted(steps) and steps[-1] == SMALL.steps
    np.testing.assert_array_equal(seen[-1].losses[0, 0, 0], result.student(depth=1, seed=0).losses[-1])


@pytest.mark.parametrize("layer", ["euler", "midpoint"])
@pytest.mark.parametrize(
    "config", [SMALL, WITH_KL, dataclasses.replace(WITH_KL, objective=KL(given_head=True))]
)
def test_num_params_counts_what_is_trained(config, layer):
    """`num_params` is the number of entries of a student's trained arrays."""
    config = dataclasses.replace(config, layer=layer)
    for depth in config.depths:
        leaves = jax.tree.leaves(draw_student(config, 0, depth))
        assert num_params(config, depth) == sum(leaf.size for leaf in leaves)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (LearningRate(1.0), [1, 1, 1]),
        (LearningRate(1.0, reference_depth=4.0), [1, 1, 1]),
        (LearningRate(1.0, None, 0.0, 0.0), [1, 0.5, 0.01]),
        (LearningRate(1.0, None, 0.8, 0.1), [1, 1, 0.1 + 0.9 * 0.05]),
    ],
)
def test_the_rate_is_held_then_falls_linearly(rate, expected):
    """At steps 0, 50 and 99 of 100, for a student of four layers."""
    found = [float(rate.at(step, 100, 4)) for step in (0, 50, 99)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_rates_of_the_paper():
    """6e-4·2/√ℓ and 6e-4·4/√ℓ, and constant in depth without a reference."""
    assert LearningRate(6e-4, 4.0).peak(16) == pytest.approx(6e-4 * 2 / 4)
    assert LearningRate(6e-4, 16.0).peak(9) == pytest.approx(6e-4 * 4 / 3)
    assert LearningRate(6e-4).peak(9) == 6e-4


def test_evaluations_are_spaced_in_log_step_and_end_with_the_last():
    """Increasing, unique, from first_step to the last; the ratio of neighbours is even for large steps."""
    at = np.array(Evaluation(points=40, first_step=100).at(40_000))
    assert (at[0], at[-1]) == (100, 40_000) and np.all(np.diff(at) > 0)
    np.testing.assert_allclose(at[1:] / at[:-1], (400) ** (1 / 39), rtol=0.01)
    assert Evaluation(points=5, first_step=100).at(3) == (3,)


def test_the_memory_estimate_is_near_what_xla_plans():
    """For a cell dominated by activations the estimate is within a factor of two of XLA's own plan."""
    from toymodels._program import Program, compiled
    from toymodels._train import _draw

    config = CohortConfig(teacher=Tied(depth=16), width=32, depths=(6, 24), seeds=(0,), batch=1024, steps=10)
    plan = Plan(False, 1)
    states, streams = _draw(config, plan)
    segment, _, _ = compiled(Program.of(config, plan))
    planned = segment.lower(states, streams, jnp.ones(1), 0, 1, 1).compile().memory_analysis()
    total = planned.temp_size_in_bytes + planned.argument_size_in_bytes
    assert 0.5 < memory_bytes(config, vmapped=False) / total < 2
