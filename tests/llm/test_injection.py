"""Injections by their equations, one recurrence at a time, without a model."""

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest

from llm import Additive, Hyperconnections, Linear, Passthrough

SHAPE = (2, 3, 4)
SIMPLE = [Linear(), Additive(), Passthrough()]
ALL = [*SIMPLE, *(Hyperconnections(lanes) for lanes in (1, 2, 3))]


def draw(seed: int, *shape: int) -> jnp.ndarray:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("injection", ALL, ids=str)
def test_counts_are_those_of_the_arrays(injection):
    """Parameters of all recurrences and of single ones sum to what is drawn; every array has a group."""
    for width, r in ((4, 1), (6, 3)):
        drawn = injection.draw(width, r)
        size = sum(leaf.size for leaf in drawn.values())
        assert injection.recurrent_params(width) + injection.once_params(r) == size
        assert drawn.keys() == injection.labels.keys()


@pytest.mark.parametrize("injection", SIMPLE, ids=str)
def test_untrained_the_first_recurrence_reads_the_prelude(injection):
    """Without lanes the block of recurrence 0 reads e itself, as does the only one of a plain transformer."""
    e = draw(0, *SHAPE)
    assert np.array_equal(injection.read(injection.draw(4, 2), e, injection.start(e), 0), e)


@pytest.mark.parametrize("injection", SIMPLE, ids=str)
def test_without_lanes_the_state_is_the_output(injection):
    """write gives s, which is what the coda reads."""
    e, s = draw(0, *SHAPE), draw(1, *SHAPE)
    state = injection.write(injection.draw(4, 2), injection.start(e), s, 0)
    assert np.array_equal(injection.finish(state), s)


def test_linear_reads_both():
    """W·[e ‖ h]; it starts as [I ‖ 0], which reads e alone."""
    e, h, matrix = draw(0, *SHAPE), draw(1, *SHAPE), draw(2, 8, 4)
    expected = np.concatenate([e, h], axis=-1) @ matrix
    assert np.allclose(Linear().read({"inject": matrix}, e, h, 1), expected, atol=1e-5)
    assert np.array_equal(Linear().read(Linear().draw(4, 2), e, h, 1), e)
    assert np.array_equal(Linear().start(e), e)


def test_additive_reads_the_sum():
    """h + e, with h_0 = 0."""
    e, h = draw(0, *SHAPE), draw(1, *SHAPE)
    assert np.array_equal(Additive().read({}, e, h, 1), e + h)
    assert np.array_equal(Additive().start(e), np.zeros(SHAPE))


def test_passthrough_reads_the_state():
    """h, whatever e is, with h_0 = e."""
    e, h = draw(0, *SHAPE), draw(1, *SHAPE)
    assert np.array_equal(Passthrough().read({}, e, h, 1), h)
    assert np.array_equal(Passthrough().start(e), e)


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_lanes_are_mixed_as_written(lanes):
    """Recurrence i reads Σ_k α_i[k]·lane_k, then lane_j ← Σ_k M_i[j, k]·lane_k + β_i[j]·s; the coda reads the
    sum. Of four recurrences with parameters of two, the third has those of the first."""
    injection = Hyperconnections(lanes)
    parameters = {"alpha": draw(0, 2, lanes), "mixing": draw(1, 2, lanes, lanes), "beta": draw(2, 2, lanes)}
    alpha, mixing, beta = (np.asarray(parameters[name], np.float64) for name in ("alpha", "mixing", "beta"))
    e, state = draw(3, *SHAPE), draw(4, lanes, *SHAPE)
    by_hand = np.asarray(state, np.float64)
    for i in range(4):
        read = np.einsum("k,k...->...", alpha[i % 2], by_hand)
        assert np.allclose(injection.read(parameters, e, state, i), read, atol=1e-4)
        s = draw(5 + i, *SHAPE)
        state = injection.write(parameters, state, s, i)
        by_hand = np.einsum("jk,k...->j...", mixing[i % 2], by_hand) + np.multiply.outer(beta[i % 2], s)
        assert np.allclose(state, by_hand, atol=1e-4)
    assert np.allclose(injection.finish(state), by_hand.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize(("lanes", "r"), [(1, 2), (2, 5), (3, 4)])
def test_lanes_start_as_the_paper_says(lanes, r):
    """α_i = one-hot(i mod K), M_i = I, β_i = 1, every lane e."""
    injection = Hyperconnections(lanes)
    drawn = injection.draw(4, r)
    assert drawn["alpha"].tolist() == [[float(k == i % lanes) for k in range(lanes)] for i in range(r)]
    assert drawn["mixing"].tolist() == [np.eye(lanes).tolist()] * r
    assert np.array_equal(drawn["beta"], np.ones((r, lanes)))
    e = draw(0, *SHAPE)
    assert np.array_equal(injection.start(e), [e] * lanes)


@hypothesis.given(st.integers(1, 64), st.integers(1, 8))
def test_flops_of_an_injection(width, lanes):
    """2·2d² a token and recurrence for a matrix of 2d², 2·(K² + 2K)·d for lanes, and else none."""
    assert Linear().forward_flops(width) == 4 * width**2
    assert Hyperconnections(lanes).forward_flops(width) == 2 * (lanes**2 + 2 * lanes) * width
    assert Additive().forward_flops(width) == Passthrough().forward_flops(width) == 0


@pytest.mark.parametrize("lanes", [0, -1])
def test_lanes_are_at_least_one(lanes):
    """The message says so."""
    with pytest.raises(ValueError, match=f"lanes is {lanes}: it must be at least 1"):
        Hyperconnections(lanes)


def test_kinds_are_the_names_in_specs():
    """A spec chooses an injection by its kind."""
    kinds = [injection.kind for injection in (*SIMPLE, Hyperconnections())]
    assert kinds == ["linear", "additive", "passthrough", "hyperconnections"]
