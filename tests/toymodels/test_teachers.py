"""Laws of the teachers: random walk, smooth flow, and what lies between."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toymodels import Correlated, Flow, Independent, Tied, dynamics

WIDTH, HIDDEN = 16, 64
SEEDS = range(4)
X = jax.random.normal(jax.random.key(11), (WIDTH, 64))


def trajectories(teacher):
    """The states of teachers drawn from several seeds, (seed, state, width, batch)."""
    return jnp.stack([teacher.network(jax.random.key(seed), WIDTH, HIDDEN).states(X) for seed in SEEDS])


def mean_cosine(states):
    updates = [dynamics.update_angles(one, axis=1) for one in states]
    return float(jnp.mean(jnp.cos(jnp.stack(updates))))


def leaves(teacher, seed=0, width=WIDTH, hidden=HIDDEN):
    return jax.tree.leaves(teacher.layers(jax.random.key(seed), width, hidden))


@pytest.mark.parametrize(("rho", "end"), [(0.0, Independent), (1.0, Tied)])
def test_correlated_ends_are_the_other_teachers_exactly(rho, end):
    """ρ = 0 gives the independent teacher and ρ = 1 the tied one, to the last bit."""
    for ours, theirs in zip(leaves(Correlated(depth=7, rho=rho)), leaves(end(depth=7)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_correlation_keeps_the_variance_and_is_the_correlation(rho):
    """Var W = 1/(3·fan_in) at every ρ, and the correlation of a weight in two layers is ρ²."""
    w_in = leaves(Correlated(depth=2, rho=rho), width=30, hidden=1200)[0]
    first, second = np.asarray(w_in[0]).ravel(), np.asarray(w_in[1]).ravel()
    # 36 000 draws: relative standard error of the variance below √(2/n), of the correlation 1/√n; five each.
    np.testing.assert_allclose(np.var(w_in) * 30, 1 / 3, rtol=5 * (2 / first.size) ** 0.5)
    np.testing.assert_allclose(np.corrcoef(first, second)[0, 1], rho**2, atol=5 * first.size**-0.5)


def test_tied_layers_are_identical_and_independent_ones_are_not():
    """Every layer of a tied teacher holds the same numbers; no two of an independent one do."""
    for leaf in leaves(Tied(depth=5)):
        assert jnp.all(leaf == leaf[0])
    for leaf in leaves(Independent(depth=5)):
        assert not jnp.any(jnp.all((leaf[1:] == leaf[:1]).reshape(4, -1), axis=1))


def test_independent_weights_walk_randomly():
    """With independent weights E‖h_l − h_0‖² ∝ l: the log-log slope over depth is 1.

    The displacement of 4 teachers × 64 inputs at l = 128 is a sum over 128 independent layers; layers are
    shared by the inputs of a teacher, so the slope scatters by a few hundredths: 0.1 allowed.
    """
    states = trajectories(Independent(depth=128))
    moved = jnp.mean(jnp.sum((states[:, 1:] - states[:, :1]) ** 2, axis=2), axis=(0, 2))
    slope = np.polyfit(np.log(np.arange(1, 129)), np.log(moved), 1)[0]
    assert slope == pytest.approx(1, abs=0.1)


def test_independent_updates_are_orthogonal_on_average():
    """Neighbouring updates of an independent teacher have mean cosine 0 and mean angle π/2.

    A pair's cosine has standard deviation near 1/√width = 0.25; 4 × 127 independent pairs of layers give a
    standard error of 0.011: five allowed.
    """
    states = trajectories(Independent(depth=128))
    assert mean_cosine(states) == pytest.approx(0, abs=0.055)
    angles = [dynamics.update_angles(one, axis=1) for one in states]
    assert float(jnp.mean(jnp.stack(angles))) == pytest.approx(jnp.pi / 2, abs=0.055)


def test_tied_updates_align_as_the_teacher_deepens():
    """The angle between neighbouring updates of a tied teacher falls as its step, ℓ*^-1/2 at scale 1/√ℓ*.

    For longer flows the state also moves on to where the field turns less, so the fall is a little faster:
    the log-log slope over ℓ* = 16 … 256 lies between −0.4 and −1.
    """
    depths = np.array([16, 32, 64, 128, 256])
    angles = []
    for depth in depths.tolist():
        states = trajectories(Tied(depth=depth))
        angles.append(np.mean([dynamics.update_angles(one, axis=1) for one in states]))
    assert np.all(np.diff(angles) < 0)
    assert -1 < np.polyfit(np.log(depths), np.log(angles), 1)[0] < -0.4


def test_rho_interpolates_the_alignment_monotonically():
    """The mean cosine between neighbouring updates rises with ρ, from 0 at ρ = 0 towards 1 at ρ = 1."""
    cosines = [
        mean_cosine(trajectories(Correlated(depth=64, rho=rho))) for rho in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert np.all(np.diff(cosines) > 0)
    assert abs(cosines[0]) < 0.1
    assert cosines[-1] > 0.95


@pytest.mark.parametrize("kind", [Independent, Tied, Flow])
def test_residual_scale_is_a_factor_on_every_w_out(kind):
    """W₂ is multiplied by residual_scale · ℓ*^(−residual_power); W₁ and b₁ are left alone."""
    key = jax.random.key(0)
    bare, scaled = (
        kind(depth=16, residual_scale=scale, residual_power=power).network(key, WIDTH, HIDDEN)
        for scale, power in ((1.0, 0.0), (0.5, 1.0))
    )
    a, b = (net.mlp if kind is Flow else net.layers.mlp for net in (bare, scaled))
    np.testing.assert_array_equal(b.w_in, a.w_in)
    np.testing.assert_array_equal(b.bias, a.bias)
    np.testing.assert_array_equal(b.w_out, a.w_out * (0.5 / 16))


def test_time_of_the_paper_scale_is_the_root_of_the_depth():
    """With scale 1/√ℓ* the flow runs to √ℓ*; with 1/ℓ*, to 1 whatever the depth."""
    assert Tied(depth=64).time == pytest.approx(8)
    assert Tied(depth=64, residual_power=1.0).time == pytest.approx(1)
    assert Tied(depth=64, residual_scale=0.5).time == pytest.approx(4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tied(depth=0), "depth of the teacher is 0: it must be at least 1"),
        (lambda: Tied(residual_scale=0.0), "residual_scale is 0.0: it must be positive"),
        (lambda: Tied(residual_scale=float("nan")), "residual_scale is nan: it must be positive"),
        (lambda: Tied(residual_scale=float("inf")), "residual_scale is inf: it must be positive and finite"),
        (lambda: Tied(residual_power=float("nan")), "residual_power is nan: it must lie between -4 and 4"),
        (lambda: Tied(residual_power=float("inf")), "residual_power is inf: it must lie between -4 and 4"),
        (lambda: Correlated(rho=1.5), r"rho is 1.5: it must lie between 0 \(independent\) and 1 \(tied\)"),
        (lambda: Correlated(rho=-0.1), "rho is -0.1"),
        (lambda: Flow(tolerance=0.0), "tolerance is 0.0: it must be positive"),
    ],
)
def test_bad_teachers_are_refused(make, message):
    """Each rule of a teacher is checked where it is made, and says which value breaks it."""
    with pytest.raises(ValueError, match=message):
        make()
