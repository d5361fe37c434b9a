"""MuonH against its equations and symmetries; the groups of an optimiser, their rates and their schedule."""

import dataclasses
import functools
import re
from typing import Any

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from llm._muonh import COEFFICIENTS, SAFETY, STEPS, frobenius, muonh, polar
from llm._optim import GROUPS, AdamW, MuonH, Optimiser, Transfer, decayed, transferred

# Few: each is compiled once.
SHAPES = ((1, 7), (3, 16, 2), (2, 2, 4, 16))
MUONH = muonh(0.1)


class Model(eqx.Module):
    """A parameter of every group, one None, and a `__call__`, as models have."""

    blocks: dict[str, Any]
    embedding: Any
    head: Any
    lanes: Any
    injection: None = None

    def __call__(self, x):
        return x

    @staticmethod
    def random(seed: int = 0) -> "Model":
        up, out, scale, embedding, head, lanes = (
            draw(6 * seed + i, *shape)
            for i, shape in enumerate([(3, 8, 16), (8, 8), (3, 8), (11, 8), (8, 11), (2,)])
        )
        return Model({"up": up, "out": out, "scale": scale}, embedding, head, {"alpha": lanes})


LABELS = Model({"up": "matrix", "out": "matrix", "scale": "scale"}, "embedding", "head", {"alpha": "lane"})
RATES = {"matrix": 0.02, "embedding": 0.3, "head": 0.004, "scale": 0.005, "lane": 0.01}


def parameter(group: str, model: Model) -> Any:
    """The parameter of the group (of two matrices, the stack)."""
    return {
        "matrix": model.blocks["up"],
        "embedding": model.embedding,
        "head": model.head,
        "scale": model.blocks["scale"],
        "lane": model.lanes["alpha"],
    }[group]


def draw(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def moved(optimiser: optax.GradientTransformation, w: Any, grads: list) -> Any:
    """The parameters after one update for each gradient."""
    state = optimiser.init(w)
    for grad in grads:
        w, state = _update(optimiser, w, state, grad)
    return w


@functools.partial(jax.jit, static_argnums=0)
def _update(optimiser: optax.GradientTransformation, w: Any, state: Any, grad: Any) -> Any:
    change, state = optimiser.update(grad, state, w)
    return optax.apply_updates(w, change), state


def norms(x: Any) -> np.ndarray:
    return np.linalg.norm(np.asarray(x, np.float64), axis=(-2, -1))


def polynomial(sigma: np.ndarray) -> np.ndarray:
    """p of singular values in units of the Frobenius norm, in float64."""
    x = sigma / SAFETY
    for a, b, c in COEFFICIENTS:
        x = a * x + b * x**3 + c * x**5
    return x


# MuonH


@jax.jit
def _train(w: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    """After 40 updates of random gradients."""
    optimiser = muonh(rate)

    def step(carry, key):
        w, state = carry
        update, state = optimiser.update(jax.random.normal(key, w.shape), state, w)
        return (optax.apply_updates(w, update), state), None

    return jax.lax.scan(step, (w, optimiser.init(w)), jax.random.split(key, 40))[0][0]


@hypothesis.given(st.sampled_from(SHAPES), st.integers(0, 2**30), st.floats(-4, 4), st.floats(1e-4, 0.9))
@hypothesis.settings(max_examples=30)
def test_norms_stay(shape, seed, spread, rate):
    """Every matrix of a stack keeps its own Frobenius norm over 40 updates, to 1e-6 (8 units of rounding)."""
    scales = np.exp(spread * np.asarray(draw(seed, *shape[:-2])))[..., None, None]
    start = jnp.asarray(scales * np.asarray(draw(seed + 1, *shape)))
    np.testing.assert_allclose(norms(_train(start, rate, jax.random.key(seed))), norms(start), rtol=1e-6)


def test_norm_of_a_large_matrix_stays():
    """262,144 entries lose no digits of the norm: 1e-6 after five updates."""
    start = draw(0, 256, 1024)
    after = moved(MUONH, start, [draw(1 + i, 256, 1024) for i in range(5)])
    np.testing.assert_allclose(norms(after), norms(start), rtol=1e-6)


def test_one_step_of_numpy():
    """Two updates equal the equations written out in NumPy in float64, matrix by matrix, to 1e-5."""
    mu, rate = 0.95, 0.1
    start, grads = draw(0, 3, 8, 16), [draw(1, 3, 8, 16), draw(2, 3, 8, 16)]
    got = moved(MUONH, start, grads)
    for layer in range(3):
        w = np.asarray(start[layer], np.float64)
        radius, m = np.linalg.norm(w), np.zeros_like(w)
        for grad in grads:
            g = np.asarray(grad[layer], np.float64)
            m = mu * m + (1 - mu) * g
            left, sigma, right = np.linalg.svd(mu * m + (1 - mu) * g, full_matrices=False)
            u = left @ np.diag(polynomial(sigma / np.linalg.norm(sigma))) @ right
            w = w - rate * radius * u / np.linalg.norm(u)
            w = w * radius / np.linalg.norm(w)
        np.testing.assert_allclose(got[layer], w, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (16, 64), (64, 16)])
@pytest.mark.parametrize("smallest", [1e-1, 1e-6])
def test_polar_maps_singular_values_and_nothing_else(shape, smallest):
    """Singular values follow the polynomials, however small; vectors stay: to 1e-4 (measured 1e-5)."""
    rng = np.random.default_rng(0)
    n = min(shape)
    left, right = (np.linalg.qr(rng.normal(size=(side, n)))[0] for side in shape)
    sigma = np.geomspace(1, smallest, n)
    sigma /= np.linalg.norm(sigma)
    got = jax.jit(polar)(jnp.asarray(7 * left @ np.diag(sigma) @ right.T, jnp.float32))
    np.testing.assert_allclose(got, left @ np.diag(polynomial(sigma)) @ right.T, atol=1e-4)


def test_band_of_five_steps():
    """Above a thousandth of the norm, singular values end in the documented [0.846, 1.142]; below, 970·σ."""
    values = polynomial(np.geomspace(1e-3, 1, 100_000))
    assert 0.846 < values.min() < 0.847 and 1.141 < values.max() < 1.142
    assert polynomial(np.array([1e-6]))[0] == pytest.approx(970e-6, rel=1e-3)
    found = np.linalg.svd(np.asarray(polar(draw(0, 4, 32, 128))), compute_uv=False)
    assert found.min() > 0.846 and found.max() < 1.142


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if len(shape) > 2])
def test_a_stack_is_its_matrices(shape):
    """Each matrix of a stack moves as it would alone, to rounding."""
    scale = jnp.exp(draw(9, *shape[:-2]))[..., None, None]
    start, grads = scale * draw(0, *shape), [draw(1, *shape) / scale, draw(2, *shape)]
    stacked = moved(MUONH, start, grads)
    for i in np.ndindex(shape[:-2]):
        alone = moved(MUONH, start[i], [g[i] for g in grads])
        np.testing.assert_allclose(stacked[i], alone, atol=1e-6 * float(frobenius(start[i])))


@hypothesis.given(st.integers(-60, 60), st.floats(1, 2))
def test_the_scale_of_gradients_does_not_matter(exponent, mantissa):
    """All gradients times c > 0, from 1e-18 to 1e18: the same weights."""
    start, grads = draw(0, 3, 8, 16), [draw(1, 3, 8, 16), draw(2, 3, 8, 16)]
    c = mantissa * 2.0**exponent
    np.testing.assert_allclose(
        moved(MUONH, start, [c * g for g in grads]), moved(MUONH, start, grads), atol=1e-5
    )


@pytest.mark.parametrize("shape", [(16, 2), (8, 8)])
def test_transposing_everything_transposes_the_result(shape):
    """MuonH knows no difference between inputs and outputs."""
    start, grads = draw(0, *shape), [draw(1, *shape), draw(2, *shape)]
    np.testing.assert_allclose(
        moved(MUONH, start.T, [g.T for g in grads]), moved(MUONH, start, grads).T, atol=1e-5
    )


def test_a_zero_gradient_moves_nothing():
    """Exactly: no rounding, no NaN, and the other matrices of the stack move on."""
    start = draw(0, 3, 8, 16)
    after = moved(MUONH, start, [draw(1, 3, 8, 16).at[0].set(0)] * 3)
    np.testing.assert_array_equal(after[0], start[0])
    assert norms(after[1:] - start[1:]).min() > 0.1


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_a_gradient_that_is_not_finite_shows(bad):
    """It is not taken for a zero gradient."""
    after = moved(MUONH, draw(0, 3, 8, 16), [draw(1, 3, 8, 16).at[0, 1, 1].set(bad)])
    assert not np.isfinite(after[0]).any() and np.isfinite(after[1:]).all()


def test_a_step_is_as_long_as_its_rate():
    """Before it is projected back, a small step is η · norm long: the chord to second order in η."""
    start = draw(0, 3, 8, 8)
    change = moved(muonh(1e-2), start, [draw(1, 3, 8, 8)]) - start
    # Only the part of the step along the sphere survives: sin of its angle with W.
    u = polar(draw(1, 3, 8, 8))
    cosine = jnp.sum(u * start, axis=(1, 2)) / (frobenius(u) * frobenius(start))
    np.testing.assert_allclose(norms(change) / norms(start), 1e-2 * np.sqrt(1 - cosine**2), rtol=0.02)


def test_what_muonh_refuses():
    """Vectors, matrices of norm zero, missing parameters, more steps than coefficients."""
    with pytest.raises(
        ValueError, match=r"\['scale'\] has shape \(3,\): MuonH takes matrices .* another group"
    ):
        muonh(0.1).init({"scale": jnp.ones(3)})
    with pytest.raises(ValueError, match=r"\['w'\] has a matrix of norm 0: .* start from other values"):
        muonh(0.1).init({"w": draw(0, 2, 3, 3).at[1].set(0)})
    with pytest.raises(ValueError, match="params is None: MuonH projects them"):
        muonh(0.1).update(jnp.ones((2, 2)), muonh(0.1).init(jnp.ones((2, 2))))
    for steps in (0, STEPS + 1):
        with pytest.raises(ValueError, match=f"steps is {steps}: it must lie in 1 to 5"):
            polar(jnp.ones((2, 2)), steps)


def test_a_matrix_of_norm_zero_stays_zero_under_jit():
    """Where values cannot be looked at, it is not refused: it stays as documented."""
    w, optimiser = jnp.zeros((3, 3)), muonh(0.1)
    state = jax.jit(optimiser.init)(w)
    update, _ = optimiser.update(draw(0, 3, 3), state, w)
    np.testing.assert_array_equal(update, w)


# Groups


@pytest.mark.parametrize("optimiser", [MuonH(), AdamW()], ids=lambda o: o.kind)
def test_groups_outside_matrix_are_adamw_without_decay(optimiser):
    """Each equals `optax.adamw` with no decay, on its own, at its rate's schedule, to rounding."""
    start, grads, steps = Model.random(), [Model.random(1 + i) for i in range(4)], 4
    after = moved(optimiser.transformation(RATES, LABELS, steps), start, grads)
    for group in set(GROUPS) - {"matrix"}:
        schedule = optax.linear_schedule(RATES[group], 0.1 * RATES[group], steps - 1)
        alone = optax.adamw(schedule, 0.8, 0.95, 1e-10, weight_decay=0.0)
        want = moved(alone, parameter(group, start), [parameter(group, g) for g in grads])
        np.testing.assert_allclose(parameter(group, after), want, rtol=1e-5, atol=1e-6)


def test_matrices_of_muonh_are_muonh():
    """The group `matrix` equals `muonh` on its own, at its rate's schedule."""
    start, grads, steps = Model.random(), [Model.random(1 + i) for i in range(4)], 4
    after = moved(MuonH(momentum=0.9).transformation(RATES, LABELS, steps), start, grads)
    alone = muonh(optax.linear_schedule(0.02, 0.002, steps - 1), 0.9)
    for name in ("up", "out"):
        want = moved(alone, start.blocks[name], [g.blocks[name] for g in grads])
        np.testing.assert_allclose(after.blocks[name], want, atol=1e-5)


def test_decay_of_adamw_reaches_matrices_only():
    """A decay λ takes η·λ·W more from a matrix and nothing from the rest."""
    start, grad = Model.random(), Model.random(1)
    plain, decaying = (
        moved(AdamW(weight_decay=decay).transformation(RATES, LABELS, 10), start, [grad])
        for decay in (0.0, 0.5)
    )
    np.testing.assert_allclose(
        plain.blocks["up"] - decaying.blocks["up"], RATES["matrix"] * 0.5 * start.blocks["up"], atol=1e-6
    )
    for group in set(GROUPS) - {"matrix"}:
        np.testing.assert_array_equal(parameter(group, plain), parameter(group, decaying))


@pytest.mark.parametrize("optimiser", [MuonH(), AdamW()], ids=lambda o: o.kind)
def test_every_group_has_its_own_rate(optimiser):
    """A group's rate halved halves that group's first step and no other's."""
    start, grad = Model.random(), Model.random(1)

    @jax.jit
    def first_steps(rates):
        part = optimiser.transformation(rates, LABELS, 10)
        update, _ = part.update(grad, part.init(start), start)
        return {group: jnp.linalg.norm(parameter(group, update)) for group in GROUPS}

    whole = first_steps(RATES)
    for group in GROUPS:
        half = first_steps({**RATES, group: RATES[group] / 2})
        # A chord of the sphere is not quite linear in the rate.
        assert {other: float(half[other] / whole[other]) for other in GROUPS} == pytest.approx(
            {other: 0.5 if other == group else 1 for other in GROUPS}, rel=0.01
        )


def test_groups_without_parameters():
    """A model needs not have every group."""
    optimiser = MuonH().transformation(RATES, {"w": "matrix"}, 3)
    w = {"w": draw(0, 4, 4)}
    assert float(jnp.linalg.norm(moved(optimiser, w, [w])["w"])) > 0


def test_labels_and_rates_that_are_refused():
    """Each in one sentence that names the parameter."""
    params, optimiser = Model.random(), MuonH()
    unknown = dataclasses.replace(LABELS, head="heads")
    with pytest.raises(ValueError, match=r"label of \.head is 'heads': it must be one of matrix, embedding"):
        optimiser.transformation(RATES, unknown, 3)
    with pytest.raises(ValueError, match=r"label of \.head is Array\(.*: it must be one of"):
        optimiser.transformation(RATES, dataclasses.replace(LABELS, head=jnp.ones(2)), 3)
    missing = dataclasses.replace(LABELS, embedding=None)
    with pytest.raises(ValueError, match=r"parameter \.embedding has no label: label it with one of matrix"):
        optimiser.transformation(RATES, missing, 3).init(params)
    with pytest.raises(ValueError, match=r"label of \.head belongs to no parameter"):
        optimiser.transformation(RATES, LABELS, 3).init(dataclasses.replace(params, head=None))
    with pytest.raises(
        ValueError, match="rates has matrix: it must have a rate for each of matrix, embedding"
    ):
        optimiser.transformation({"matrix": 0.1}, LABELS, 3)


def test_one_compilation_serves_all_lengths_and_rates():
    """Rates and the number of steps are arguments of the compiled step: it is traced once."""
    optimiser, start, grad, traces = MuonH(), Model.random(), Model.random(1), 0

    @jax.jit
    def update(w, state, rates, steps):
        nonlocal traces
        traces += 1
        change, state = optimiser.transformation(rates, LABELS, steps).update(grad, state, w)
        return optax.apply_updates(w, change), state

    def train(rates, steps):
        w, state = start, optimiser.transformation(rates, LABELS, steps).init(start)
        for _ in range(2):
            w, state = update(w, state, rates, steps)
        return w

    doubled = {group: 2 * rate for group, rate in RATES.items()}
    for rates, steps in ((RATES, 2), (doubled, 5)):
        want = moved(optimiser.transformation(rates, LABELS, steps), start, [grad, grad])
        for got, expected in zip(jax.tree.leaves(train(rates, steps)), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-6)
    assert traces == 1


# Rates


@hypothesis.given(
    st.integers(1, 2**31 - 1), st.sampled_from([0.0, 0.1]) | st.floats(1e-6, 1), st.floats(1e-5, 1)
)
def test_the_schedule_begins_and_ends_exactly(steps, final_fraction, peak):
    """Update 0 has the whole rate, update steps − 1 exactly `final_fraction` of it; a single one all."""
    rate = decayed(1.0, steps, final_fraction)
    assert float(rate(0)) == 1
    assert float(rate(jnp.int32(steps - 1))) == (1 if steps == 1 else np.float32(final_fraction))
    assert float(rate(1.5 * steps)) == np.float32(final_fraction)
    assert float(decayed(peak, steps, final_fraction)(0)) == np.float32(peak)


def test_the_schedule_is_linear():
    """Halfway, 0.55 of the rate; compiled and not, at any length the same."""
    assert float(decayed(2.0, 11, 0.1)(5)) == pytest.approx(1.1)
    steps = 101
    rates = jax.jit(lambda n: jax.vmap(decayed(1.0, n, 0.1))(jnp.arange(101)))(steps)
    np.testing.assert_allclose(np.diff(rates), -0.009, rtol=1e-4)
    assert float(rates[0]) == 1 and float(rates[-1]) == np.float32(0.1)


def test_an_update_in_training_has_the_schedules_rate():
    """Adam's steps under a constant gradient of ones are its rates: 0.01, 0.0055, 0.001, 0.001 …"""
    optimiser = MuonH().transformation(RATES, {"a": "lane"}, 3)
    w, grads = {"a": jnp.zeros(1)}, {"a": jnp.ones(1)}
    places = [float(moved(optimiser, w, [grads] * n)["a"][0]) for n in range(5)]
    np.testing.assert_allclose(np.diff(places), [-0.01, -0.0055, -0.001, -0.001], rtol=1e-4)


def test_the_papers_rates_at_the_reference():
    """Width 640, batches of 2^18 tokens, 983 M tokens: the rates of arXiv:2604.21106 as they are printed."""
    rates = MuonH(transfer=Transfer()).rates(width=640, batch_tokens=2**18, num_tokens=983_040_000)
    assert rates == {"matrix": 0.014, "embedding": 0.3, "head": 0.004, "scale": 0.005, "lane": 0.01}
    assert 983_040_000 == 10 * 240 * 640**2 == 3750 * 2**18


def test_transfer_by_hand():
    """d = 160, B = 2^16, D = D_ref·2^5: 4^½ = 2; 4^-0.558 = 0.461374; 32^-0.32 = 2^-1.6 = 0.329877."""
    rates = MuonH(transfer=Transfer()).rates(width=160, batch_tokens=2**16, num_tokens=983_040_000 * 32)
    want = {
        "matrix": 0.014 * 0.461374 * 0.329877,  # 2.1308e-3
        "embedding": 0.3 * 2 * 0.461374,  # 0.27682
        "head": 0.004 * 2 * 0.461374,  # 3.6910e-3
        "scale": 0.005 * 2,
        "lane": 0.01 * 2,
    }
    assert rates == pytest.approx(want, rel=1e-5)
    assert rates["matrix"] == pytest.approx(2.1308e-3, rel=1e-4)


@hypothesis.given(st.integers(1, 10**4), st.integers(1, 10**7), st.integers(1, 10**12))
def test_transfer_goes_by_ratios_alone(width, batch_tokens, num_tokens):
    """Re-based where one trains, the rates are as they are; None is that everywhere. All are plain floats."""
    here = {"width": width, "batch_tokens": batch_tokens, "num_tokens": num_tokens}
    rebased = transferred(RATES, **here, transfer=Transfer(**here))
    assert rebased == transferred(RATES, **here, transfer=None) == RATES
    assert MuonH().rates(**here) == RATES | {"matrix": 0.014}
    assert AdamW().rates(**here) == RATES | {"matrix": 0.001}
    for rates in (rebased, transferred(RATES, **here, transfer=Transfer()), AdamW().rates(**here)):
        assert list(rates) == list(GROUPS) and {type(rate) for rate in rates.values()} == {float}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MuonH(matrix=-1.0), "matrix is -1.0: it must be a finite rate, 0 or more"),
        (lambda: AdamW(lane=float("nan")), "lane is nan: it must be a finite rate, 0 or more"),
        (lambda: MuonH(beta1=1.0), "beta1 is 1.0: it must lie in [0, 1)"),
        (lambda: AdamW(beta2=-0.1), "beta2 is -0.1: it must lie in [0, 1)"),
        (lambda: MuonH(epsilon=0.0), "epsilon is 0.0: it must be positive"),
        (lambda: MuonH(momentum=1.0), "momentum is 1.0: it must lie in [0, 1)"),
        (lambda: MuonH(final_fraction=1.1), "final_fraction is 1.1: it must lie in [0, 1]"),
        (lambda: AdamW(weight_decay=-0.1), "weight_decay is -0.1: it must be finite, 0 or more"),
        (lambda: Transfer(width=0), "width is 0: it must be at least 1"),
        (lambda: Transfer(token_exponent=float("inf")), "token_exponent is inf: it must be finite"),
        (
            lambda: transferred(RATES, width=64, batch_tokens=0, num_tokens=1, transfer=None),
            "batch_tokens is 0: it must be at least 1",
        ),
        (
            lambda: transferred({"heads": 1.0}, width=64, batch_tokens=1, num_tokens=1, transfer=None),
            "rates has heads: it must have a rate for each of matrix, embedding, head, scale, lane",
        ),
    ],
)
def test_rules_of_configs(make, message):
    """Each rule names the field, the value and what it must be."""
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_optimisers_have_kinds():
    """The kinds of a spec's `optimiser` table."""
    assert {o.kind for o in Optimiser.__subclasses__()} == {"muonh", "adamw"}
