"""Laws of the layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toymodels import LAYERS, MLP, Euler, Midpoint, rms_norm

WIDTH, HIDDEN = 5, 12
KINDS = pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)


def plain_mlp(mlp, h):
    """The equation of A1, written as it stands there, for one state."""
    normed = h / jnp.sqrt(jnp.mean(h**2))
    return mlp.w_out @ (jnp.maximum(mlp.w_in @ normed + mlp.bias, 0) ** 2)


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
def test_rms_norm_has_unit_mean_square_and_forgets_scale(seed, scale):
    """mean(rms_norm(h)²) = 1 and rms_norm(c·h) = rms_norm(h), up to ε relative to the mean square."""
    h = jax.random.normal(jax.random.key(seed), (WIDTH, 3))
    # ε = 2^-23 beside a mean square of at least scale²·0.01: below 0.1 only for scales above 1e-3 · few.
    allowed = 1e-5 + 2.0**-23 / float(jnp.min(jnp.mean((scale * h) ** 2, axis=0)))
    np.testing.assert_allclose(jnp.mean(rms_norm(scale * h) ** 2, axis=0), 1, rtol=allowed)
    np.testing.assert_allclose(rms_norm(scale * h), rms_norm(h), rtol=allowed, atol=1e-6)


def test_rms_norm_of_the_zero_state_is_zero_with_a_finite_gradient():
    """ε keeps the zero state and its gradient finite."""
    zero = jnp.zeros(WIDTH)
    assert jnp.all(rms_norm(zero) == 0)
    assert jnp.all(jnp.isfinite(jax.jacobian(rms_norm)(zero)))


@given(st.integers(0, 1000))
def test_mlp_is_the_equation(seed):
    """MLP(h) = W₂ relu(W₁ rms_norm(h) + b₁)², for a state, a batch, and a batch of batches alike."""
    key_mlp, key_h = jax.random.split(jax.random.key(seed))
    mlp = MLP.draw(key_mlp, WIDTH, HIDDEN)
    h = jax.random.normal(key_h, (WIDTH, 2, 3))
    expected = jax.vmap(jax.vmap(lambda one: plain_mlp(mlp, one), -1, -1), -1, -1)(h)
    np.testing.assert_allclose(mlp(h), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mlp(h[:, 0]), expected[:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mlp(h[:, 0, 0]), expected[:, 0, 0], rtol=1e-5, atol=1e-6)


@given(st.integers(0, 1000))
def test_the_written_gradient_is_the_gradient(seed):
    """The hand-written backward pass equals automatic differentiation of the equation, in float64."""
    with jax.enable_x64(True):
        key_mlp, key_h, key_out = jax.random.split(jax.random.key(seed), 3)
        mlp = MLP.draw(key_mlp, WIDTH, HIDDEN)
        h = jax.random.normal(key_h, (WIDTH, 4))
        weights = jax.random.normal(key_out, (WIDTH, 4))
        plain = jax.vmap(plain_mlp, (None, -1), -1)
        ours = jax.grad(lambda mlp, h: jnp.sum(weights * mlp(h)), argnums=(0, 1))(mlp, h)
        theirs = jax.grad(lambda mlp, h: jnp.sum(weights * plain(mlp, h)), argnums=(0, 1))(mlp, h)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            # The plain version has no ε: 2^-23 relative to a mean square that is seldom below 0.01.
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 1000), st.randoms())
def test_hidden_units_have_no_order(seed, random):
    """Permuting hidden units (rows of W₁ and b₁, columns of W₂) changes nothing but rounding."""
    key_mlp, key_h = jax.random.split(jax.random.key(seed))
    mlp = MLP.draw(key_mlp, WIDTH, HIDDEN)
    order = list(range(HIDDEN))
    random.shuffle(order)
    order = np.array(order)
    permuted = MLP(w_in=mlp.w_in[order], bias=mlp.bias[order], w_out=mlp.w_out[:, order])
    h = jax.random.normal(key_h, (WIDTH, 3))
    np.testing.assert_allclose(permuted(h), mlp(h), rtol=1e-5, atol=1e-6)


def test_weights_are_uniform_in_one_over_root_fan_in():
    """Every weight lies in ±1/√fan_in and has that uniform's variance, fan_in^-1/3, b₁ with W₁'s fan-in."""
    mlp = MLP.draw(jax.random.key(0), 30, 400)
    for weights, fan_in in ((mlp.w_in, 30), (mlp.bias, 30), (mlp.w_out, 400)):
        assert float(jnp.max(jnp.abs(weights))) <= fan_in**-0.5
        # The variance of n draws has a relative standard error of √(0.8/n); 400 draws: 5 of them is 0.22.
        np.testing.assert_allclose(jnp.var(weights) * fan_in, 1 / 3, rtol=5 * (0.8 / weights.size) ** 0.5)


@KINDS
def test_scaled_by_zero_is_the_identity(kind):
    """With every W₂ zero a layer hands its state on unchanged, to the last bit."""
    layer = kind.draw(jax.random.key(0), WIDTH, HIDDEN).scaled(0.0)
    h = jax.random.normal(jax.random.key(1), (WIDTH, 3))
    assert jnp.all(layer(h) == h)


@KINDS
def test_names_and_counts_are_what_a_config_uses(kind):
    """`mlps_per_layer` is the number of MLPs that a layer holds."""
    layer = kind.draw(jax.random.key(0), WIDTH, HIDDEN)
    one = MLP.draw(jax.random.key(0), WIDTH, HIDDEN)
    of_layer, of_mlp = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (layer, one))
    assert of_layer == kind.mlps_per_layer * of_mlp


def test_euler_and_midpoint_are_their_equations():
    """Euler: h + f(h). Midpoint: h + f₂(h + f₁(h)/2), each f normalising its own input."""
    h = jax.random.normal(jax.random.key(1), (WIDTH, 3))
    euler = Euler.draw(jax.random.key(0), WIDTH, HIDDEN)
    np.testing.assert_array_equal(euler(h), h + euler.mlp(h))
    midpoint = Midpoint.draw(jax.random.key(0), WIDTH, HIDDEN)
    plain = jax.vmap(plain_mlp, (None, -1), -1)
    half = h + plain(midpoint.first, h) / 2
    np.testing.assert_allclose(midpoint(h), h + plain(midpoint.second, half), rtol=1e-5, atol=1e-6)
