"""What theory expects of teachers, held against the teachers themselves."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toymodels import Correlated, Drifting, Independent, Tied, theory

WIDTH, DEPTH, SEEDS = 48, 24, 8
TEACHERS = {
    "independent": Independent(depth=DEPTH),
    "tied": Tied(depth=DEPTH),
    "half shared": Correlated(depth=DEPTH, rho=0.7),
    "short": Drifting(depth=DEPTH, length=0.1),
    "long": Drifting(depth=DEPTH, length=1.0),
    "thin layers": Drifting(depth=DEPTH, length=0.3, residual_power=1.0, residual_scale=2.0),
}
every = pytest.mark.parametrize("name", TEACHERS)


@functools.cache
def simulated(name):
    """Inner products of states and of updates over the width, mean over inputs, (seed, l, l') both."""
    x = jax.random.normal(jax.random.key(11), (WIDTH, 32))
    states, updates = [], []
    for seed in range(SEEDS):
        h = TEACHERS[name].network(jax.random.key(seed), WIDTH, 4 * WIDTH).states(x)
        for found, of in ((states, h), (updates, jnp.diff(h, axis=0))):
            found.append(jnp.einsum("lmb,kmb->lk", of, of) / of.shape[1] / of.shape[2])
    return np.stack(states).astype(float), np.stack(updates).astype(float)


def assert_is_mean(draws, expected, relative):
    """The mean over seeds is as expected, to five standard errors and a share of the largest."""
    error = np.std(draws, axis=0, ddof=1) / len(draws) ** 0.5
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 5 * error + relative * np.abs(expected).max())


@every
def test_states_and_updates_are_as_expected(name):
    """⟨h_l, h_l'⟩ and ⟨Δh_l, Δh_l'⟩ of teachers of width 48 are the mean field's, for every pair of layers.

    Corrections are of order 1/width: 3 % of the largest update, and of how far the squared length of a state
    goes, are allowed besides the scatter of 8 teachers.
    """
    expected = theory.mean_field(TEACHERS[name], WIDTH)
    states, updates = simulated(name)
    assert_is_mean(states - 1, expected.states - 1, 0.03)
    assert_is_mean(updates, expected.updates, 0.03)


@every
def test_angles_between_updates_are_as_expected(name):
    """The mean cosine at lags 1 to 8, and the angle, are the mean field's to 0.03."""
    expected = theory.mean_field(TEACHERS[name], WIDTH)
    _, updates = simulated(name)
    mean = updates.mean(axis=0)
    size = np.sqrt(np.diagonal(mean))
    cosines = [np.mean(np.diagonal(mean / size / size[:, None], lag)) for lag in range(1, 9)]
    np.testing.assert_allclose(expected.update_cosines(8), cosines, atol=0.03)
    assert math.cos(expected.update_angle) == pytest.approx(cosines[0], abs=0.03)


def test_ends():
    """Independent layers: orthogonal updates, E‖h_l‖² = ‖h_0‖² + l·g_0. Tied: nearly parallel ones."""
    walk, flow = (theory.mean_field(TEACHERS[name], WIDTH) for name in ("independent", "tied"))
    assert walk.update_angle == pytest.approx(np.pi / 2) and flow.update_angle < 0.06
    variance = 1 / 3 + 1 / (3 * WIDTH)
    step = TEACHERS["independent"].step ** 2 * variance**2 / 2
    np.testing.assert_allclose(np.diagonal(walk.states), 1 + step * np.arange(DEPTH + 1), rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(walk.updates), step, rtol=1e-12)
    # Steps of the squared length `step` at right angles to states of squared length 1 + l·step.
    own = np.diagonal(walk.states)
    np.testing.assert_allclose(walk.step_angles, np.arccos(np.sqrt(own[:-1] / own[1:])), rtol=1e-9)


@given(st.floats(0, math.pi), st.floats(0, math.pi))
def test_the_kernel_falls_from_1_to_0(one, other):
    """E relu(u)²relu(u')² over its value for u = u' falls with their angle: 1, at π/2 1/6, at π 0."""
    low, high = sorted((one, other))
    assert theory.relu_square_kernel(low) >= theory.relu_square_kernel(high) - 1e-12
    assert 0 <= theory.relu_square_kernel(high) + 1e-12 and theory.relu_square_kernel(low) <= 1 + 1e-12
    np.testing.assert_allclose(
        theory.relu_square_kernel(np.array([0, np.pi / 2, np.pi])), [1, 1 / 6, 0], atol=1e-12
    )


def test_the_kernel_is_the_mean():
    """Against two million draws at three angles, to five standard errors."""
    u, v = np.random.default_rng(0).normal(size=(2, 2_000_000))
    for angle in (0.3, 1.2, 2.0):
        other = math.cos(angle) * u + math.sin(angle) * v
        product = np.maximum(u, 0) ** 2 * np.maximum(other, 0) ** 2
        error = product.std() / product.size**0.5
        assert product.mean() == pytest.approx(1.5 * theory.relu_square_kernel(angle), abs=5 * error)


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 1e6))
def test_where_the_exponent_bends(length, ratio):
    """One layer a correlation length is the crossover, whose exponent is 2; below it less, above it more."""
    crossover = theory.crossover_depth(length)
    exponent = float(theory.local_exponent(ratio * crossover * length))
    assert 1 <= exponent <= 3
    if ratio < 0.99:
        assert exponent < 2
    if ratio > 1.01:
        assert exponent > 2
    assert theory.local_exponent(crossover * length) == pytest.approx(2)


def test_the_exponent_is_the_slope_of_the_loss():
    """1 + 2x²/(1 + x²): 1.4 at half a layer a length, 2.6 at two; the slope of L ∝ x⁻¹/(1 + x²)."""
    np.testing.assert_allclose(theory.local_exponent(np.array([0.5, 2.0])), [1.4, 2.6])
    x = np.geomspace(0.01, 100, 400)
    slope = -np.gradient(-np.log(x) - np.log(1 + x**2), np.log(x))
    np.testing.assert_allclose(theory.local_exponent(x)[1:-1], slope[1:-1], atol=1e-3)


def test_how_the_cosine_falls():
    """Between states that hardly turn, by (7/3)·k/(ℓ*λ) at first: c_k·J(ϑ)/J(0) at cos ϑ = c_k."""
    c = 1 - 1e-5
    assert (1 - c * theory.relu_square_kernel(math.acos(c))) / 1e-5 == pytest.approx(7 / 3, rel=1e-2)


def test_one_layer_has_no_neighbour():
    """Cosines that no two updates have are NaN."""
    found = theory.mean_field(Tied(depth=1), WIDTH)
    assert np.isnan(found.update_cosines(2)).all() and math.isnan(found.update_angle)
    assert np.isnan(theory.mean_field(Tied(depth=2), WIDTH).update_cosines(2)).tolist() == [False, True]


def test_no_bend_at_the_ends():
    """Independent teachers have no depth at which they look smooth, tied ones none at which they do not."""
    assert theory.crossover_depth(0.0) == math.inf and theory.crossover_depth(math.inf) == 0
    assert theory.local_exponent(0.0) == 1 and theory.local_exponent(math.inf) == 3
    with pytest.raises(ValueError, match="length is -1.0: it must be at least 0"):
        theory.crossover_depth(-1.0)
