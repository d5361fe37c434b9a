"""Laws of the objectives."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toymodels import KL, LAYERS, MSE, Independent, ResidualNetwork, Tied, draw_layers

WIDTH, HIDDEN, VOCABULARY = 6, 24, 11
X = jax.random.normal(jax.random.key(5), (WIDTH, 7))
TEACHER = Independent(depth=5).network(jax.random.key(0), WIDTH, HIDDEN, VOCABULARY)
TEMPERATURES = [0.01, 0.1, 1.0, 3.0]


def student(seed, with_head=True):
    """A student with weights of its own, not zero."""
    layers = draw_layers(LAYERS["euler"], jax.random.key(seed), 3, WIDTH, HIDDEN)
    head = 3 * jax.random.normal(jax.random.key(seed + 1), (VOCABULARY, WIDTH)) if with_head else None
    return ResidualNetwork(head=head, layers=layers)


@functools.partial(jax.jit, static_argnums=0)
def losses(objective, student, temperature=1.0):
    return objective.losses(student, X, objective.target(TEACHER, X), TEACHER.head, temperature)


@given(st.integers(0, 1000), st.sampled_from(TEMPERATURES), st.booleans())
def test_kl_is_never_negative(seed, temperature, given_head):
    """KL(teacher‖student) ≥ 0 for every example, up to float32 rounding of a sum of 11 terms."""
    values = losses(KL((temperature,), given_head), student(seed, not given_head), temperature)
    assert values.shape == (7,)
    assert jnp.all(values >= -VOCABULARY * 2.0**-23)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_kl_of_the_teacher_itself_is_zero(temperature):
    """The teacher's own weights have KL 0: with its head given, and with its head divided by T learnt."""
    itself = ResidualNetwork(head=None, layers=TEACHER.layers)
    assert jnp.all(losses(KL((temperature,), given_head=True), itself, temperature) == 0)
    learnt = dataclasses.replace(TEACHER, head=TEACHER.head / temperature)
    # Logits z/T: dividing before or after the product rounds by 2^-23 of logits up to ~1/T.
    np.testing.assert_allclose(
        losses(KL((temperature,)), learnt, temperature), 0, atol=20 * 2.0**-23 / temperature
    )


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_kl_is_the_formula(temperature):
    """Σ_v p*_v (log p*_v − log p_v), p* = softmax(z*/T), p the student's at T = 1 or, head given, at T."""
    with_head, without = student(3), student(3, with_head=False)
    for objective, net, logits in (
        (KL((temperature,)), with_head, with_head.logits(X)),
        (KL((temperature,), True), without, TEACHER.head @ without(X) / temperature),
    ):
        p_teacher = np.float64(jax.nn.softmax(TEACHER.logits(X, temperature), axis=0))
        log_ratio = jax.nn.log_softmax(TEACHER.logits(X, temperature), axis=0)
        log_ratio = np.float64(log_ratio - jax.nn.log_softmax(logits, axis=0))
        np.testing.assert_allclose(
            losses(objective, net, temperature), (p_teacher * log_ratio).sum(0), rtol=1e-4, atol=1e-5
        )


def test_an_untrained_students_kl_is_the_teachers_missing_entropy():
    """Against zero logits KL = log n − H(teacher)."""
    blank = ResidualNetwork.student(
        LAYERS["euler"], jax.random.key(0), width=WIDTH, hidden=HIDDEN, depth=2, vocabulary=VOCABULARY
    )
    p = np.float64(jax.nn.softmax(TEACHER.logits(X), axis=0))
    expected = np.log(VOCABULARY) + (p * np.log(p)).sum(0)
    np.testing.assert_allclose(losses(KL(), blank), expected, rtol=1e-4, atol=1e-6)


def test_mse_is_the_mean_square_over_the_width():
    """Mean over features of the squared difference of final normalised states, one number an example."""
    teacher = dataclasses.replace(TEACHER, head=None)
    net = student(4, with_head=False)
    expected = np.mean((np.float64(net(X)) - np.float64(teacher(X))) ** 2, axis=0)
    values = MSE().losses(net, X, MSE().target(teacher, X), None, 1.0)
    np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [Tied, Independent])
@pytest.mark.parametrize("depth", [1, 4, 9])
def test_a_student_with_the_teachers_weights_has_no_loss(kind, depth):
    """At a depth equal to the teacher's, the teacher's own weights reach loss 0 exactly, at any depth."""
    teacher = kind(depth=depth).network(jax.random.key(1), WIDTH, HIDDEN)
    copy = ResidualNetwork(head=None, layers=teacher.layers)
    assert jnp.all(MSE().losses(copy, X, MSE().target(teacher, X), None, 1.0) == 0)


@pytest.mark.parametrize(
    ("temperatures", "message"),
    [
        ((), "temperatures is empty: name at least one"),
        ((1.0, 0.0), "temperatures holds 0.0: every temperature must be positive"),
        ((-1.0,), "temperatures holds -1.0"),
        ((float("nan"),), "temperatures holds nan"),
        ((0.5, 0.5), "temperatures holds a value twice"),
    ],
)
def test_bad_temperatures_are_refused(temperatures, message):
    """Each rule is checked where the objective is made."""
    with pytest.raises(ValueError, match=message):
        KL(temperatures)
