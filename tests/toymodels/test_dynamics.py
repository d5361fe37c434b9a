"""Laws of the geometry of trajectories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toymodels import dynamics

ENTRIES = st.floats(-10, 10, width=32).map(lambda value: 0.0 if abs(value) < 1e-3 else value)
VECTORS = hnp.arrays(np.float32, 6, elements=ENTRIES)
TRAJECTORIES = hnp.arrays(np.float32, (5, 3, 4), elements=ENTRIES)


angle = dynamics.angle
MEASURES = {
    name: getattr(dynamics, name)
    for name in (
        *("step_angles", "update_angles", "norms", "angles_to_end", "relative_progress"),
        *("update_cosines", "independent_updates"),
    )
}


def rotation(seed, size):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0].astype(np.float32)


@given(VECTORS)
def test_equal_vectors_are_at_zero_and_opposite_ones_at_pi(u):
    """θ(u, u) = 0 and θ(u, −u) = π, exactly, for every u ≠ 0."""
    assume(np.any(u != 0))
    assert angle(u, u) == 0
    assert angle(u, -u) == np.float32(np.pi)


@given(VECTORS)
def test_a_zero_vector_is_orthogonal_to_everything(u):
    """θ(u, 0) = θ(0, u) = θ(0, 0) = π/2, exactly."""
    for a, b in ((u, 0 * u), (0 * u, u), (0 * u, 0 * u)):
        assert angle(a, b) == np.float32(np.pi / 2)


@given(VECTORS, VECTORS)
def test_an_angle_lies_between_zero_and_pi_and_is_symmetric(u, v):
    """0 ≤ θ(u, v) = θ(v, u) ≤ π; a compiled difference of unit vectors may round by a last bit."""
    theta = angle(u, v)
    assert 0 <= theta <= np.float32(np.pi)
    np.testing.assert_allclose(theta, angle(v, u), atol=4 * 2.0**-23)


@given(VECTORS, VECTORS, st.floats(1e-4, 1e4), st.floats(1e-4, 1e4), st.integers(0, 100))
def test_an_angle_ignores_rotation_and_positive_scale(u, v, a, b, seed):
    """θ(a·Ru, b·Rv) = θ(u, v) for a, b > 0 and R a rotation, up to rounding of unit vectors."""
    assume(np.any(u != 0) and np.any(v != 0))
    turned = rotation(seed, 6)
    moved = angle(np.float32(a) * (turned @ u), np.float32(b) * (turned @ v))
    # Entries below 1e-3 of the largest 10 lose digits in the product; six float32 roundings of unit vectors.
    np.testing.assert_allclose(moved, angle(u, v), atol=6 * 6 * 2.0**-23)


@given(VECTORS, VECTORS, VECTORS)
def test_angles_obey_the_triangle_inequality(u, v, w):
    """θ(u, w) ≤ θ(u, v) + θ(v, w) for non-zero vectors: the angle is a distance on the sphere."""
    assume(all(np.any(x != 0) for x in (u, v, w)))
    direct = angle(u, w)
    assert direct <= angle(u, v) + angle(v, w) + 1e-5


@pytest.mark.parametrize("theta", [1e-30, 1e-20, 1e-6, 1e-3, 0.1, 1.0, 3.1, np.pi - 1e-3])
def test_small_angles_keep_their_digits(theta):
    """An angle is right to float32 rounding relative to its size near 0: arccos would give 0 or 3e-4."""
    u, v = jnp.array([1.0, 0.0]), jnp.array([np.cos(theta), np.sin(theta)], dtype=jnp.float32)
    np.testing.assert_allclose(dynamics.angle(u, v), theta, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-36, 1e-30, 1e30, 1e37])
def test_huge_and_tiny_vectors_neither_overflow_nor_vanish(scale):
    """Angles and norms hold over float32's whole range, though squares do not."""
    u, v = scale * jnp.array([3.0, 0.0]), scale * jnp.array([0.0, 3.0])
    np.testing.assert_allclose(dynamics.angle(u, v), np.pi / 2, rtol=1e-6)
    np.testing.assert_allclose(dynamics.norm(jnp.array([0.3, 0.4]) * scale), 0.5 * scale, rtol=1e-6)


@jax.jit
@jax.grad
def gradient(states):
    return sum(jnp.sum(measure(states)) for measure in MEASURES.values())


@given(TRAJECTORIES)
def test_gradients_are_finite_everywhere(states):
    """d/dstates of every measure is finite, also at repeated and zero states and zero updates."""
    repeated = np.concatenate([states[:2], states[1:2], 0 * states[:1], states[:1]])
    for trajectory in (states, repeated, 0 * states):
        assert np.all(np.isfinite(gradient(trajectory)))


def test_the_gradient_of_an_angle_is_the_gradient():
    """Away from the edges it equals a central difference, in float64."""
    with jax.enable_x64(True):
        key_u, key_v, key_d = jax.random.split(jax.random.key(0), 3)
        u, v, d = (jax.random.normal(key, (7,)) for key in (key_u, key_v, key_d))
        slope = (dynamics.angle(u + 1e-6 * d, v) - dynamics.angle(u - 1e-6 * d, v)) / 2e-6
        # Rounding of angles near 1 over a step of 2e-6: 2^-52 / 2e-6 · few.
        np.testing.assert_allclose(jnp.dot(jax.grad(dynamics.angle)(u, v), d), slope, atol=1e-9)


@given(TRAJECTORIES, st.floats(1e-3, 1e3), st.integers(0, 100))
def test_measures_of_a_trajectory_ignore_rotation_and_scale(states, scale, seed):
    """All angles and the relative progress are unchanged when every state is turned and scaled; norms scale.

    Held where no state or update nearly vanishes: there rounding decides the direction.
    """
    assume(np.linalg.norm(states, axis=-1).min() > 0.5)
    assume(np.linalg.norm(np.diff(states, axis=0), axis=-1).min() > 0.5)
    assume(np.linalg.norm(states[-1] - states[0], axis=-1).min() > 0.5)
    moved = np.float32(scale) * states @ rotation(seed, 4).T
    # Rounding of states up to 10 moves a difference of 0.5 by 20 · 2^-23 · few relative to its length.
    for name in ("step_angles", "update_angles", "angles_to_end"):
        np.testing.assert_allclose(MEASURES[name](moved), MEASURES[name](states), atol=1e-4)
    before, after = (np.asarray(MEASURES["relative_progress"](one)) for one in (states, moved))
    np.testing.assert_allclose(after, before, atol=1e-4 * max(1, np.max(np.abs(before))))
    np.testing.assert_allclose(MEASURES["norms"](moved), scale * MEASURES["norms"](states), rtol=1e-5)


def test_a_straight_line_has_no_turn_and_even_progress():
    """h_l = h_0 + l·d: update angles 0, progress l/ℓ."""
    states = jnp.array([1.0, 2.0, -1.0]) + jnp.arange(6.0)[:, None] * jnp.array([0.5, 0.25, 1.0])
    assert jnp.all(dynamics.update_angles(states) == 0)
    np.testing.assert_allclose(dynamics.relative_progress(states), np.arange(6) / 5, rtol=1e-6)


def test_a_circle_turns_evenly():
    """States on a circle, θ apart: step angles θ, updates at θ·lag to each other, norms 1."""
    theta = 0.2
    states = jnp.stack([jnp.cos(theta * jnp.arange(9)), jnp.sin(theta * jnp.arange(9))], axis=-1)
    np.testing.assert_allclose(dynamics.step_angles(states), theta, rtol=1e-5)
    for lag in (1, 2, 5):
        np.testing.assert_allclose(dynamics.update_angles(states, lag=lag), lag * theta, rtol=1e-5)
    np.testing.assert_allclose(dynamics.angles_to_end(states), theta * np.arange(8, -1, -1), atol=1e-6)
    np.testing.assert_allclose(dynamics.norms(states), 1, rtol=1e-6)


def test_a_closed_trajectory_has_no_progress():
    """Where the end is the beginning, relative progress is 0 throughout, as documented."""
    states = jnp.array([[1.0, 0.0], [5.0, 2.0], [1.0, 0.0]])
    assert jnp.all(dynamics.relative_progress(states) == 0)


@pytest.mark.parametrize("axis", [1, 2, -1, -2])
def test_features_may_lie_on_any_axis(axis):
    """Moving the feature axis moves nothing else."""
    states = jax.random.normal(jax.random.key(0), (5, 3, 4))
    moved = jnp.moveaxis(states, -1, axis)
    for name in MEASURES:
        measure = MEASURES[name]
        np.testing.assert_allclose(measure(moved, axis=axis), measure(states), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 3, -3, -4])
def test_the_depth_axis_is_no_feature_axis(axis):
    """Axis 0 is depth; it, and axes that are not there, are refused."""
    with pytest.raises(
        ValueError, match=rf"axis={axis} is not a feature axis of states with shape \(5, 3, 4\)"
    ):
        dynamics.step_angles(jnp.zeros((5, 3, 4)), axis=axis)


def test_a_lag_below_one_is_refused():
    """An update has no earlier self to compare with."""
    with pytest.raises(ValueError, match="lag is 0: it must be at least 1"):
        dynamics.update_angles(jnp.zeros((5, 4)), lag=0)


def walk(updates):
    """The trajectory from 0 with these updates (ℓ, …, d)."""
    return np.concatenate([np.zeros_like(updates[:1]), np.cumsum(updates, axis=0)])


@given(hnp.arrays(np.float32, 5, elements=st.floats(0.125, 8, width=32)), VECTORS)
def test_parallel_updates_are_one(lengths, direction):
    """Updates of any length in one direction: cosines of 1 at every lag, and one independent update."""
    assume(np.linalg.norm(direction) > 0.1)
    states = walk(lengths[:, None] * direction / np.linalg.norm(direction))
    np.testing.assert_allclose(MEASURES["update_cosines"](states)[:4], 1, atol=1e-5)
    np.testing.assert_allclose(MEASURES["independent_updates"](states), 1, rtol=1e-5)


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_orthogonal_updates_are_as_many_as_they_are(depth):
    """ℓ orthogonal updates of one length: cosines of 0, ℓ independent updates."""
    states = walk(3 * np.eye(depth, 8, dtype=np.float32))
    found = dynamics.update_cosines(states, lags=9)
    assert found.shape == (9,) and np.isnan(found[depth - 1 :]).all()
    np.testing.assert_allclose(found[: depth - 1], 0, atol=1e-6)
    np.testing.assert_allclose(dynamics.independent_updates(states), depth, rtol=1e-6)


def test_a_random_walk_has_as_many_independent_updates_as_steps():
    """Sixteen normal updates in 4000 dimensions: 16 to four standard errors of the mean over 50 walks, each
    with a relative deviation of sqrt(2 (ℓ - 1) / (ℓ d)); cosines of 0 to four of 1 / sqrt(d pairs walks)."""
    updates = np.random.default_rng(0).standard_normal((16, 50, 4000)).astype(np.float32)
    found = np.asarray(dynamics.independent_updates(walk(updates)))
    assert found.mean() == pytest.approx(16, abs=4 * 16 * np.sqrt(2 * 15 / 16 / 4000 / 50))
    cosines = np.asarray(dynamics.update_cosines(walk(updates))).mean(axis=1)
    assert (np.abs(cosines) < 4 / np.sqrt(4000 * 50 * (16 - np.arange(1, 9)))).all()


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_cosines_of_updates_that_forget(rho):
    """Updates that keep a share ρ of the one before, u' = ρ u + sqrt(1 - ρ²) ξ: cosines are ρ^k."""
    rng, updates = np.random.default_rng(1), []
    update = rng.standard_normal((20, 4000))
    for _ in range(24):
        updates.append(update)
        update = rho * update + np.sqrt(1 - rho**2) * rng.standard_normal(update.shape)
    found = np.asarray(dynamics.update_cosines(walk(np.array(updates, np.float32)))).mean(axis=1)
    np.testing.assert_allclose(found, rho ** np.arange(1, 9), atol=0.01)


@given(TRAJECTORIES)
def test_there_is_no_less_than_one_independent_update(states):
    """The straight way is the shortest: at least 1, but 0 where nothing moved, inf where it came back; and
    the mean cosine at a lag is that of the angles at it."""
    found = np.asarray(MEASURES["independent_updates"](states))
    moved = np.any(np.diff(states, axis=0) != 0, axis=(0, 2))
    assert (found[moved] >= 1 - 1e-5).all() and (found[~moved] == 0).all()
    back = moved & np.all(states[-1] == states[0], axis=-1)
    assert np.isinf(found[back]).all()
    cosines = MEASURES["update_cosines"](states)
    angles = MEASURES["update_angles"](states)
    np.testing.assert_allclose(cosines[0], np.cos(angles).mean(axis=0), atol=1e-6)
    assert np.isnan(cosines[3:]).all()


def test_lags_below_one_are_refused():
    """There is no update before the first."""
    with pytest.raises(ValueError, match="lags is 0: it must be at least 1"):
        dynamics.update_cosines(np.zeros((3, 2)), lags=0)


GEOMETRY = jax.jit(dynamics.geometry, static_argnums=(1, 2))


@given(hnp.arrays(np.float32, (5, 3, 4), elements=ENTRIES), st.floats(1e-20, 1e20))
def test_all_measures_at_once_are_those_taken_one_by_one(states, scale):
    """`geometry` equals the functions of the same names, of states as large or small as float32 can hold;
    angles to 1e-5 where the update is no tiny share of the largest entry."""
    found = GEOMETRY((states * np.float32(scale)).astype(np.float32), None, 8)
    sizes = np.linalg.norm(np.diff(states, axis=0), axis=-1)
    assume(np.all((sizes == 0) | (sizes > 1e-3)))
    for name in ("angles_to_end", "relative_progress", "step_angles", "update_angles"):
        expected = MEASURES[name](states)
        np.testing.assert_allclose(getattr(found, name), expected, atol=2e-4, err_msg=name)
    np.testing.assert_allclose(found.norms, MEASURES["norms"](states) * scale, rtol=1e-5)
    np.testing.assert_allclose(found.largest, np.abs(states).max(axis=-1) * scale, rtol=1e-5)
    np.testing.assert_allclose(found.update_cosines, MEASURES["update_cosines"](states), atol=1e-5)
    one_by_one = np.asarray(MEASURES["independent_updates"](states))
    back = np.linalg.norm(states[-1] - states[0], axis=-1) < 1e-2  # a small difference loses its digits
    np.testing.assert_allclose(np.asarray(found.independent_updates)[~back], one_by_one[~back], rtol=1e-3)


@given(st.sampled_from([(0, 1), (0, 6), (1, 2, 5), (0, 2, 3, 4, 6), tuple(range(7))]), st.integers(0, 100))
def test_steps_that_are_no_layers_have_no_part_in_updates(layers, seed):
    """What is said of updates is what a trajectory of the layers' updates alone would say; states and step
    angles are those of all."""
    states = np.random.default_rng(seed).normal(size=(8, 2, 5)).astype(np.float32)
    found = GEOMETRY(states, layers, 3)
    updates = np.diff(states, axis=0)[list(layers)]
    alone = np.concatenate([0 * updates[:1], np.cumsum(updates, axis=0)])
    of_alone = GEOMETRY(alone, None, 3)
    np.testing.assert_allclose(found.update_angles, of_alone.update_angles, atol=1e-5)
    np.testing.assert_allclose(found.update_cosines, of_alone.update_cosines, atol=1e-5)
    np.testing.assert_allclose(found.independent_updates, of_alone.independent_updates, rtol=1e-4)
    np.testing.assert_allclose(found.step_angles, MEASURES["step_angles"](states), atol=1e-5)


def test_layers_that_are_no_steps_are_refused():
    """There is no step after the last state."""
    with pytest.raises(ValueError, match=r"layers are \[0, 2\]: the trajectory has steps 0 to 1"):
        dynamics.geometry(np.zeros((3, 2)), [0, 2])
    with pytest.raises(ValueError, match="lags is 0: it must be at least 1"):
        dynamics.geometry(np.zeros((3, 2)), lags=0)
