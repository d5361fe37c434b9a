"""Laws of weights that drift along depth: stationary, of one correlation length, one path for all depths."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from toymodels import Drifting, FlowNetwork, Independent, Tied, dynamics, rms_norm
from toymodels._drift import drift_path, exact_drift

WIDTH, HIDDEN = 8, 32
KEY = jax.random.key(0)
SIGMA = {"w_in": (3 * WIDTH) ** -0.5, "bias": (3 * WIDTH) ** -0.5, "w_out": (3 * HIDDEN) ** -0.5}


@functools.cache
def weights(length, depth, resolution=None, seed=0):
    """Every weight of a teacher over its standard deviation, (layer, weight)."""
    teacher = Drifting(depth=depth, length=length, resolution=resolution)
    mlp = teacher.layers(jax.random.key(seed), WIDTH, HIDDEN).mlp
    parts = [np.asarray(getattr(mlp, name)).reshape(depth, -1) / sigma for name, sigma in SIGMA.items()]
    return np.concatenate(parts, axis=1, dtype=np.float64)


BOTH = pytest.mark.parametrize("resolution", [None, 160], ids=["exact", "sde"])
LENGTHS = pytest.mark.parametrize("length", [0.05, 0.3, 2.0])


@BOTH
@LENGTHS
def test_stationary(length, resolution):
    """At every layer weights are normal with mean 0 and variance 1/(3·fan_in), the first and the last alike.

    544 weights a layer: the mean scatters by 544^-1/2, the variance by (2/544)^1/2; five of each are allowed,
    and a Kolmogorov–Smirnov test of each of 3 layers at 1e-4. Layers of one draw hang together, so that no
    more is gained by more of them.
    """
    found = weights(length, 32, resolution)
    number = found.shape[1]
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=5 * number**-0.5)
    np.testing.assert_allclose(found.var(axis=1), 1, atol=5 * (2 / number) ** 0.5)
    for layer in (0, 15, 31):
        assert stats.kstest(found[layer], "norm").pvalue > 1e-4


@BOTH
@LENGTHS
def test_correlation_falls_exponentially_with_distance(length, resolution):
    """The correlation of a weight in layers l and l + k is exp(−k/(ℓ*·λ)), for every pair of layers.

    A correlation ρ of 544 pairs scatters by (1 − ρ²)/544^1/2: five are allowed for each of the 496 pairs, and
    0.003, by which the variance of the SDE's path is off. It is what `correlation` says.
    """
    found = weights(length, 32, resolution)
    lag = np.abs(np.subtract.outer(np.arange(32), np.arange(32)))
    expected = np.exp(-lag / 32 / length)
    allowed = 5 * (1 - expected**2) / found.shape[1] ** 0.5 + 0.003
    assert np.all(np.abs(np.corrcoef(found) - expected) < allowed)
    teacher = Drifting(depth=32, length=length)
    assert [teacher.correlation(k) for k in range(32)] == pytest.approx(expected[0])


@pytest.mark.parametrize("length", [0.05, 0.3, 2.0])
def test_the_discrete_form_is_the_recursion(length):
    """A start of 1 without noise falls as ρ^l, ρ = exp(−1/(ℓ*·λ)); noise of 1 in a layer enters by √(1 − ρ²)
    and falls alike: with that the variance stays 1."""
    layer, rho = np.arange(16), math.exp(-1 / 16 / length)
    one, zero = jnp.zeros((16, 1)).at[5].set(1), jnp.zeros((16, 1))
    start = exact_drift(jnp.ones((1, 1)), zero, length)[:, 0]
    np.testing.assert_allclose(start, rho**layer, rtol=1e-5)
    fresh = exact_drift(jnp.zeros((1, 1)), one, length)[:, 0]
    np.testing.assert_allclose(fresh[5:], (1 - rho**2) ** 0.5 * rho ** layer[:11], rtol=1e-4)
    np.testing.assert_array_equal(fresh[:5], 0)


def test_a_path_keeps_its_variance():
    """The variance of 40 000 weights at every point of an SDE's path is 1 to 0.003, which so long steps are
    off by, and five of its scatter, (2/40000)^1/2: 3.8 %."""
    count = 40_000
    start = jax.random.normal(jax.random.key(1), (1, count))
    path = drift_path(jax.random.key(2), start, jnp.ones((1, count)), 0.25, 32)
    np.testing.assert_allclose(np.asarray(path).var(axis=1), 1, atol=0.003 + 5 * (2 / count) ** 0.5)


@pytest.mark.parametrize("length", [0.05, 0.3])
def test_the_sde_and_the_exact_form_agree_in_law(length):
    """Both give increments over any k layers of variance 2(1 − exp(−k/(ℓ*·λ))): their ratio is 1.

    Over 4 draws of 544 weights and all layers but k: a draw's 544 weights are independent, so the variance
    of each form scatters by less than (2/2176)^1/2 = 0.030, and their ratio by 0.043: five are allowed.
    """
    for k in (1, 4, 16):
        variance = [
            np.mean(
                [
                    np.var(path[k:] - path[:-k])
                    for path in (weights(length, 32, resolution, seed) for seed in range(4))
                ]
            )
            for resolution in (None, 160)
        ]
        assert variance[0] == pytest.approx(2 * (1 - math.exp(-k / 32 / length)), rel=5 * 0.030)
        assert variance[1] / variance[0] == pytest.approx(1, abs=5 * 0.043)


@pytest.mark.parametrize(("length", "end"), [(0.0, Independent), (math.inf, Tied)])
@pytest.mark.parametrize("resolution", [None, 28])
def test_ends_are_the_other_teachers_exactly(length, end, resolution):
    """λ = 0 gives the independent teacher with normal weights and λ = ∞ the tied one, to the last bit."""
    if length == 0 and resolution is not None:
        pytest.skip("an SDE has no path without correlation; that it is refused is another test")
    ours = Drifting(depth=7, length=length, resolution=resolution).network(KEY, WIDTH, HIDDEN, 5)
    theirs = end(depth=7, normal_weights=True).network(KEY, WIDTH, HIDDEN, 5)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_ends_are_limits():
    """As λ → ∞ layers become `Tied`'s, and as λ → 0 `Independent`'s but for the first, which is `Tied`'s."""
    tied, own = (
        kind(depth=6, normal_weights=True).layers(KEY, WIDTH, HIDDEN).mlp.w_in for kind in (Tied, Independent)
    )
    long, short = (Drifting(depth=6, length=x).layers(KEY, WIDTH, HIDDEN).mlp.w_in for x in (1e9, 1e-3))
    np.testing.assert_allclose(long, tied, atol=1e-3)
    np.testing.assert_allclose(short[1:], own[1:], atol=1e-5)
    np.testing.assert_array_equal(short[0], tied[0])


@pytest.mark.parametrize("length", [0.1, 1.0, math.inf])
@pytest.mark.parametrize("depth", [4, 6, 16, 48])
def test_a_path_refines(length, depth):
    """Read at 2n layers, every second layer is what is read at n, to the last bit; so for every divisor."""
    read = functools.partial(weights, length, resolution=96)
    np.testing.assert_array_equal(read(2 * depth)[::2], read(depth))
    np.testing.assert_array_equal(read(96)[:: 96 // depth], read(depth))


@pytest.mark.parametrize("length", [pytest.param(0.1, marks=pytest.mark.slow), 1.0])
def test_one_key_is_one_path_at_any_resolution(length):
    """Solved with half the steps, the weights of one key are nearly the same, since the Brownian motion is.

    The root mean square difference at 160 and 320 steps is below a hundredth of a standard deviation, where
    that of two keys is √2.
    """
    coarse, fine = (weights(length, 4, resolution) for resolution in (160, 320))
    assert np.sqrt(np.mean((coarse - fine) ** 2)) < 0.01
    assert np.sqrt(np.mean((coarse - weights(length, 4, 160, seed=1)) ** 2)) > 1


@pytest.mark.parametrize("length", [pytest.param(0.1, marks=pytest.mark.slow), 1.0])
def test_order_of_convergence(length):
    """At residual scale 1/ℓ* the teacher's map tends to the flow along its path, as ℓ*^-1.

    Euler's method has order 1/2 for coefficients that are as rough as a Brownian path, but order 1 where, as
    here, what it leaves out in one step has mean 0 given the past. The log-log slope over ℓ* = 4 … 16, of the
    mean distance of 3 teachers, is 1 to a tenth; the path has 8 steps or more a layer.
    """
    settings = {"length": length, "residual_power": 1.0, "resolution": 128}
    x = jax.random.normal(jax.random.key(3), (WIDTH, 50))
    gaps = []
    for key in map(jax.random.key, range(3)):
        ends = [Drifting(depth=n, **settings).network(key, WIDTH, HIDDEN)(x) for n in (4, 8, 16)]
        limit = Drifting(depth=4, **settings).flow(key, WIDTH, HIDDEN)(x)
        gaps.append([float(jnp.sqrt(jnp.mean((end - limit) ** 2))) for end in ends])
    assert np.polyfit(np.log([4, 8, 16]), np.log(np.mean(gaps, axis=0)), 1)[0] == pytest.approx(-1, abs=0.1)


def test_what_has_a_limit():
    """Independent layers at scale 1/ℓ* leave the state where it is, as ℓ*^-1/2, and at 1/√ℓ* move it as far
    at every depth; tied layers at 1/ℓ* move it as far at every depth, and at 1/√ℓ* ever further, as ℓ*.

    Mean square displacement of 8 teachers × 50 inputs: slopes over ℓ* = 8 … 128 of −1, 0, 0 and at least
    1/2 (the state's length grows too, and the field turns it less), to 0.15.
    """
    x = jax.random.normal(jax.random.key(3), (WIDTH, 50))
    depths = [8, 32, 128]

    def slope(kind, power):
        moved = []
        for depth in depths:
            teacher = kind(depth=depth, residual_power=power, normal_weights=True)
            ends = [teacher.network(jax.random.key(seed), WIDTH, HIDDEN).states(x)[-1] for seed in range(8)]
            moved.append(float(jnp.mean((jnp.stack(ends) - rms_norm(x)) ** 2)))
        return np.polyfit(np.log(depths), np.log(moved), 1)[0]

    assert slope(Independent, 1.0) == pytest.approx(-1, abs=0.15)
    assert slope(Independent, 0.5) == pytest.approx(0, abs=0.15)
    assert slope(Tied, 1.0) == pytest.approx(0, abs=0.15)
    assert slope(Tied, 0.5) > 0.5


def test_a_flow_without_drift_is_the_flow_of_one_layer():
    """λ = ∞: Heun's method along a path of equal weights tends to `FlowNetwork` as the square of the step."""
    x = jax.random.normal(jax.random.key(3), (WIDTH, 5))
    errors = []
    for resolution in (8, 16, 32):
        teacher = Drifting(depth=8, length=math.inf, residual_scale=2.0, resolution=resolution)
        flow = teacher.flow(KEY, WIDTH, HIDDEN)
        mlp = jax.tree.map(lambda w: w[0], flow.path)
        exact = FlowNetwork(head=None, mlp=mlp, num_states=1, tolerance=1e-7)
        errors.append(float(jnp.abs(flow(x) - exact(x)).max()))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 2, atol=0.3)


def test_states_of_a_flow_are_read_at_the_layers():
    """`states` are those of the flow at t = l/ℓ*: one that is read at twice as many holds the same."""
    x = jax.random.normal(jax.random.key(3), (WIDTH, 5))
    coarse, fine = (Drifting(depth=n, length=0.5, resolution=16).flow(KEY, WIDTH, HIDDEN) for n in (4, 8))
    # At equal time: the paper's scale makes a deeper teacher's longer.
    fine = fine.__class__(head=None, path=coarse.path, num_states=8)
    states = fine.states(x)
    assert states.shape == (9, WIDTH, 5) and coarse.depth == 4
    np.testing.assert_array_equal(states[::2], coarse.states(x))
    np.testing.assert_array_equal(states[0], rms_norm(x))
    np.testing.assert_allclose(rms_norm(states[-1]), coarse(x), atol=1e-6)
    with pytest.raises(ValueError, match="num_states is 6: it must divide the path's 16 steps"):
        fine.__class__(head=None, path=coarse.path, num_states=6)


def test_updates_turn_less_the_longer_the_correlation():
    """The mean angle between neighbouring updates falls strictly with λ, from π/2 to that of a flow."""
    x = jax.random.normal(jax.random.key(3), (WIDTH, 100))
    angles = [
        np.mean(
            [
                dynamics.update_angles(
                    Drifting(depth=32, length=length).network(jax.random.key(seed), WIDTH, HIDDEN).states(x),
                    1,
                )
                for seed in range(4)
            ]
        )
        for length in (0.0, 0.03, 0.1, 0.3, 1.0, 5.0, math.inf)
    ]
    assert np.all(np.diff(angles) < 0)
    assert angles[0] == pytest.approx(np.pi / 2, abs=0.1) and angles[-1] < 0.15


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": -0.1}, r"length is -0.1: it must lie between 0 \(independent\) and inf \(tied\)"),
        ({"length": math.nan}, "length is nan"),
        ({"normal_weights": False}, "normal_weights is False: weights that drift are normal at every layer"),
        (
            {"depth": 12, "resolution": 256},
            "resolution is 256: it must be a multiple of the teacher.s depth, 12$",
        ),
        ({"depth": 1, "resolution": 0}, "resolution is 0: it must be a multiple"),
        (
            {"depth": 8, "length": 0.01, "resolution": 64},
            "length is 0.01: a path of 64 steps resolves lengths from 0.125 up; raise resolution",
        ),
        ({"depth": 8, "length": 0.0, "resolution": 64}, "length is 0.0: a path of 64 steps"),
    ],
)
def test_bad_drifts_are_refused(settings, message):
    """Each rule is checked where the teacher is made, and says which value breaks it."""
    with pytest.raises(ValueError, match=message):
        Drifting(**settings)


def test_an_exact_form_has_no_path():
    """Without a resolution there are no weights between layers, and so no flow."""
    with pytest.raises(ValueError, match="resolution is not set: the exact form has no weights between two"):
        Drifting(depth=4).flow(KEY, WIDTH, HIDDEN)
