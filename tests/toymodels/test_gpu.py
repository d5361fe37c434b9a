"""What must hold on a GPU: float32 stays float32, and neither vmapping nor the device changes a result.

Bounds, for losses after K = 20 steps with sums over at most n = 256 numbers, unit roundoff u = 2^-24. Two
orders of summation differ by about √n·u (rounding errors taken as independent: Higham & Mary, 2019,
doi:10.1137/18M1226312), and what the steps leave adds up the same way: √(K·n)·u = 4e-6. `ROUNDING` is
2.5 times that. On a CPU, vmapped and mapped cohorts were seen to differ by 2e-7, and one ulp of noise on
every input moved the losses by 4e-7; products rounded to TF32 moved them by 7e-5 to 2.5e-4, so the bound
tells the two apart.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toymodels import (
    KL,
    MSE,
    AbstractNetwork,
    CohortConfig,
    CohortResult,
    Evaluation,
    Independent,
    LearningRate,
    Objective,
    Plan,
    Purpose,
    ResidualNetwork,
    memory_limit,
    purpose_key,
    train_cohort,
)
from toymodels._layers import RMS_EPS, Euler
from toymodels._plan import MEMORY_SHARE

pytestmark = pytest.mark.gpu

ROUNDING = 1e-5
OBJECTIVES = (MSE(), KL(temperatures=(0.1, 1.0)))


@pytest.fixture(autouse=True)
def gpu() -> jax.Device:
    """JAX's first GPU. Asked for when a test runs, so that collecting tests starts no backend."""
    device = jax.local_devices()[0]
    if device.platform != "gpu":
        pytest.skip(f"JAX has no GPU here: its default device is a {device.platform}")
    return device


def _config(objective: Objective, depths: tuple[int, ...], seeds: tuple[int, ...]) -> CohortConfig:
    return CohortConfig(
        teacher=Independent(depth=16),
        objective=objective,
        vocabulary=32 if objective.needs_head else None,
        width=16,
        depths=depths,
        seeds=seeds,
        batch=256,
        steps=20,
        learning_rate=LearningRate(base=3e-3),
        evaluation=Evaluation(batches=2, batch=256, points=3, first_step=1),
    )


@functools.cache
def _cohort(objective: Objective) -> CohortResult:
    return train_cohort(_config(objective, depths=(2, 4), seeds=(0, 1)))


def _losses(result: CohortResult) -> np.ndarray:
    return np.stack([student.losses for student in result.students])


def test_products_keep_all_bits() -> None:
    """(1 + 2^-12)·1 is exact in float32, and 1 in TF32, whose fraction has 10 bits."""
    value = 1 + 2.0**-12
    with jax.default_matmul_precision("highest"):
        product = jax.jit(jnp.matmul)(value * jnp.eye(256), jnp.ones((256, 256)))
    np.testing.assert_array_equal(np.asarray(product), np.float32(value))


def test_held_out_losses_are_those_of_float64() -> None:
    """The engine's losses equal those computed in float64 from the weights that it returns.

    On a CPU they differ by 1e-7. With products rounded to TF32 the worst student is off by 4e-5 or more:
    the bound lies between, a factor of 8 below that.
    """
    result = _cohort(MSE())
    evaluation = result.config.evaluation
    teachers = {teacher.seed: teacher.network for teacher in result.teachers}
    for student in result.students:
        key = purpose_key(student.seed, Purpose.EVALUATION)
        squares = []
        for index in range(evaluation.batches):
            x = jax.random.normal(jax.random.fold_in(key, index), (result.config.width, evaluation.batch))
            squares.append((_in_float64(student.network, x) - _in_float64(teachers[student.seed], x)) ** 2)
        np.testing.assert_allclose(student.losses[-1], np.mean(squares), rtol=5e-6)


def _in_float64(network: AbstractNetwork, x: jax.Array) -> np.ndarray:
    assert isinstance(network, ResidualNetwork) and isinstance(network.layers, Euler)
    mlp = network.layers.mlp
    weights = (np.asarray(leaf, np.float64) for leaf in (mlp.w_in, mlp.bias, mlp.w_out))

    def rms_norm(h: np.ndarray) -> np.ndarray:
        return h / np.sqrt(np.mean(h * h, axis=0) + RMS_EPS)

    h = rms_norm(np.asarray(x, np.float64))
    for w_in, bias, w_out in zip(*weights, strict=True):
        h = h + w_out @ np.maximum(w_in @ rms_norm(h) + bias[:, None], 0) ** 2
    return rms_norm(h)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_vmapped_cohort_equals_one_student_alone(objective: Objective) -> None:
    """A student's losses do not depend on who is trained beside it, but for rounding."""
    assert Plan.choose(_cohort(objective).config).vmapped
    alone = train_cohort(_config(objective, depths=(4,), seeds=(1,)))
    for student in alone.students:
        beside = _cohort(objective).student(depth=4, seed=1, temperature=student.temperature)
        np.testing.assert_allclose(student.losses, beside.losses, rtol=ROUNDING)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_cpu_and_gpu_agree(objective: Objective) -> None:
    """The same cohort on the CPU reaches the same losses, but for rounding."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        on_cpu = train_cohort(_cohort(objective).config, plan=Plan(vmapped=False))
    np.testing.assert_allclose(_losses(on_cpu), _losses(_cohort(objective)), rtol=ROUNDING)


def test_memory_limit_is_the_device_s(gpu: jax.Device) -> None:
    """A cohort may use a share of the GPU's memory, not of the machine's."""
    stats = gpu.memory_stats()
    assert stats is not None
    assert memory_limit() == int(MEMORY_SHARE * stats["bytes_limit"]) > 2**28
