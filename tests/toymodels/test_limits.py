"""Laws of the limit of infinite depth: what the layers discretise, and how fast."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toymodels import MLP, Euler, Flow, FlowNetwork, Midpoint, ResidualNetwork, Tied, rms_norm

WIDTH, HIDDEN = 8, 32
DEPTHS = np.array([8, 16, 32, 64, 128, 256])


def field(key, time):
    """An MLP whose flow over one unit is that of a drawn MLP over `time`."""
    return MLP.draw(key, WIDTH, HIDDEN).scaled(time)


def errors(layer_of):
    """Root mean square distance to the flow at its end, for networks of each depth, in float64."""
    with jax.enable_x64(True):
        mlp = field(jax.random.key(2), time=2.0)
        x = jax.random.normal(jax.random.key(3), (WIDTH, 50))
        exact = FlowNetwork(head=None, mlp=mlp, num_states=1, tolerance=1e-11).states(x)[-1]
        found = []
        for depth in DEPTHS.tolist():
            layer = layer_of(mlp.scaled(1 / depth))
            layers = jax.tree.map(lambda leaf, depth=depth: jnp.repeat(leaf[None], depth, axis=0), layer)
            end = ResidualNetwork(head=None, layers=layers).states(x)[-1]
            found.append(float(jnp.sqrt(jnp.mean((end - exact) ** 2))))
        return np.array(found)


@pytest.mark.parametrize(
    ("layer_of", "order"), [(Euler, 1), (lambda mlp: Midpoint(mlp, mlp), 2)], ids=["euler", "midpoint"]
)
def test_order_of_convergence(layer_of, order):
    """The state's distance to the flow falls as ℓ^-1 for Euler and ℓ^-2 for midpoint layers.

    Regression of log error on log depth over six depths. relu² has a kink in its second derivative, which
    lowers the second order slightly at moderate depths: a tenth of the order is allowed.
    """
    slope = np.polyfit(np.log(DEPTHS), np.log(errors(layer_of)), 1)[0]
    assert -slope == pytest.approx(order, rel=0.1)


def test_midpoint_beats_euler_with_the_same_number_of_mlps():
    """At equal cost (twice as many Euler layers) the second-order method is nearer to the flow."""
    euler, midpoint = errors(Euler), errors(lambda mlp: Midpoint(mlp, mlp))
    assert np.all(midpoint[:-1] < euler[1:])


def test_a_tied_teacher_approaches_its_flow():
    """At equal time, tied teachers of growing depth tend to `Flow` drawn from the same key, as ℓ*^-1."""
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(3), (WIDTH, 50))
        key = jax.random.key(4)
        settings = {"residual_scale": 2.0, "residual_power": 1.0}
        limit = Flow(depth=4, tolerance=1e-10, **settings).network(key, WIDTH, HIDDEN)(x)
        gaps = [
            float(jnp.max(jnp.abs(Tied(depth=depth, **settings).network(key, WIDTH, HIDDEN)(x) - limit)))
            for depth in (16, 32, 64, 128, 256)
        ]
    slope = np.polyfit(np.log([16, 32, 64, 128, 256]), np.log(gaps), 1)[0]
    assert slope == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("seed", [2, 5])
def test_the_stated_tolerance_is_kept(tolerance, seed):
    """The root mean square error at the end is below ten tolerances.

    The tolerance bounds each step's error; over a time of 4 errors of some twenty steps add up. Measured:
    0.98 to 4.4 tolerances for these fields.
    """
    with jax.enable_x64(True):
        mlp = field(jax.random.key(seed), time=4.0)
        x = jax.random.normal(jax.random.key(3), (WIDTH, 50))
        fine, coarse = (
            FlowNetwork(head=None, mlp=mlp, num_states=1, tolerance=tol).states(x)[-1]
            for tol in (1e-11, tolerance)
        )
        assert float(jnp.sqrt(jnp.mean((coarse - fine) ** 2))) < 10 * tolerance


def test_states_of_a_flow_start_at_the_input_and_end_at_the_output():
    """`states` holds ℓ* + 1 states, from rms_norm(x) to the one whose normalisation is the output."""
    teacher = Flow(depth=6).network(jax.random.key(0), WIDTH, HIDDEN, vocabulary=5)
    x = jax.random.normal(jax.random.key(3), (WIDTH, 4))
    states = teacher.states(x)
    assert states.shape == (7, WIDTH, 4) and teacher.depth == 6
    np.testing.assert_array_equal(states[0], rms_norm(x))
    # Both are within the tolerance of the same flow.
    np.testing.assert_allclose(rms_norm(states[-1]), teacher(x), atol=1e-4)
    assert teacher.logits(x).shape == (5, 4)
