"""How many recurrences a step has: a pure draw with the mean that was asked for."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from llm import ModelConfig, Recurrences, SampledRecurrences, recurrences

STEPS = 1000


def config_of(num_recur: int, k: int | None = None, **sampled: float) -> ModelConfig:
    drawn = SampledRecurrences(**sampled) if sampled else None
    return ModelConfig(layers=num_recur, num_recur=num_recur, backprop_recurrences=k, sampled=drawn)


def drawn(config: ModelConfig, seed: int = 0, steps: int = STEPS) -> np.ndarray:
    """r of every step."""
    return np.array([sum(recurrences(config, seed, step)) for step in range(steps)])


@hypothesis.given(st.integers(1, 8), st.data())
def test_without_sampling_every_step_has_r(r, data):
    """r − k without gradient, then k with; all of them where k is left out."""
    k = data.draw(st.integers(1, r))
    step = data.draw(st.integers(0, 10**9))
    assert recurrences(config_of(r, k), 0, step) == Recurrences(r - k, k)
    assert recurrences(config_of(r), 0, step) == Recurrences(0, r)


@hypothesis.given(st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.integers(1, 8))
def test_a_draw_depends_on_seed_and_step_alone(seed, step, r):
    """The same again, whatever was drawn in between, and from 1 to `most`."""
    config = config_of(r, spread=0.5, most=8)
    first = recurrences(config, seed, step)
    recurrences(config, seed + 1, step + 1)
    assert recurrences(config, seed, step) == first
    assert first.detached == 0 and 1 <= first.kept <= 8


def test_seeds_and_steps_draw_for_themselves():
    """Neighbouring seeds agree as often as independent draws, and neighbouring steps are uncorrelated: both
    within five standard errors."""
    config = config_of(6, spread=0.5, most=1000)
    one, other = drawn(config, 0), drawn(config, 1)
    share = np.sum((np.bincount(one, minlength=200) / STEPS) * (np.bincount(other, minlength=200) / STEPS))
    assert abs(np.mean(one == other) - share) < 5 * (share / STEPS) ** 0.5
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 5 / STEPS**0.5
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / STEPS**0.5


@pytest.mark.parametrize("r", [1, 3, 8])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_mean_and_variance_are_those_of_the_law(r, spread):
    """1 + Poisson(λ), λ = (r − 1)·e^τ with E[λ] = r − 1: the mean is r within five standard errors, and the
    variance (r − 1) + (r − 1)²·(exp(spread²) − 1), so that without spread it is 1 + Poisson(r − 1). The
    variance's bound is five of its own errors, from the fourth moment of the draws. Nothing is cut off."""
    found = drawn(config_of(r, spread=spread, most=10**6))
    variance = (r - 1) + (r - 1) ** 2 * (np.exp(spread**2) - 1)
    assert abs(found.mean() - r) <= 5 * (variance / STEPS) ** 0.5
    fourth = np.mean((found - found.mean()) ** 4)
    assert abs(found.var() - variance) <= 5 * ((fourth - found.var() ** 2) / STEPS) ** 0.5


def test_without_spread_it_is_poisson():
    """Shares of r = 1 … 7 at num_recur 3 within five standard errors of 1 + Poisson(2)."""
    found = drawn(config_of(3, spread=0.0, most=100))
    probability = np.exp(-2.0)
    for count in range(7):
        error = (probability * (1 - probability) / STEPS) ** 0.5
        assert abs(np.mean(found == count + 1) - probability) < 5 * error
        probability *= 2 / (count + 1)


def test_most_is_the_most():
    """Draws above `most` become `most`; those below are as they were."""
    free, cut = drawn(config_of(4, spread=0.5, most=10**6)), drawn(config_of(4, spread=0.5, most=5))
    assert free.max() > 5
    assert np.array_equal(cut, np.minimum(free, 5))


@pytest.mark.parametrize(("k", "most", "kinds"), [(None, 5, 5), (3, 5, 3), (3, 16, 3), (16, 16, 16)])
def test_as_many_programs_as_recurrences_keep_gradients(k, most, kinds):
    """What a program is compiled for, `kept`, takes at most min(k, most) values; the last k of r are kept."""
    found = [recurrences(config_of(4, k, spread=0.5, most=most), 0, step) for step in range(STEPS)]
    assert len({step.kept for step in found}) <= kinds
    for step in found:
        assert step.kept == min(k or most, sum(step))
    assert any(step.detached for step in found) == (k is not None and k < most)
