"""Statistics that accumulate equal those of all values at once, however the values come."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.probe._statistics import BINS, Histogram, Moments, Ratios, Sample, Scale, summed

CUTS = st.lists(st.integers(0, 60), max_size=6).map(sorted)


def values_of(seed: int, rows: int = 3, tokens: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, tokens)) * [[1], [30], [0.01]] + [[0], [1e3], [-1]]).astype(np.float32)


UNSCALED = Scale(np.zeros(3), np.ones(3), np.zeros(3, bool))


def parts_of(cuts: list[int], tokens: int = 60) -> list[np.ndarray]:
    """Which tokens are in each part."""
    ends = [0, *cuts, tokens]
    return [(np.arange(tokens) >= a) & (np.arange(tokens) < b) for a, b in itertools.pairwise(ends)]


def add(moments: Moments, values: np.ndarray, counted: np.ndarray) -> None:
    part = summed(values[:, None], counted[None], UNSCALED.static)
    moments.add(*(np.asarray(array) for array in part[:3]))


def counted_in(histogram: Histogram, values: np.ndarray, counted: np.ndarray) -> None:
    part = summed(values[:, None], counted[None], histogram.scale)
    histogram.add(*(np.asarray(array) for array in part[3:]))


@given(st.integers(0, 1000), CUTS)
def test_moments_of_parts_are_those_of_the_whole(seed, cuts):
    """Count, mean and standard deviation do not depend on how the values are cut into batches."""
    values = values_of(seed)
    moments = Moments(3)
    for part in parts_of(cuts):
        add(moments, values, part)
    wide = values.astype(np.float64)
    assert (moments.count == 60).all()
    np.testing.assert_allclose(moments.mean, wide.mean(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moments.deviation, wide.std(axis=1, ddof=1), rtol=1e-4)


@given(st.integers(0, 1000), CUTS)
def test_what_is_not_finite_is_left_out(seed, cuts):
    """Moments are those of the finite values of each row; a row without any has count 0."""
    values = values_of(seed)
    values[0, ::7], values[1, ::3], values[2] = np.nan, np.inf, np.nan
    moments = Moments(3)
    for part in parts_of(cuts):
        add(moments, values, part)
    for row in (0, 1):
        kept = values[row][np.isfinite(values[row])].astype(np.float64)
        assert moments.count[row] == len(kept)
        np.testing.assert_allclose(moments.mean[row], kept.mean(), rtol=1e-5, atol=1e-5)
    assert moments.count[2] == 0 and np.isnan(moments.deviation[2])


@given(st.integers(0, 1000), CUTS, st.sampled_from([False, True]))
def test_quantiles_are_right_to_a_bin(seed, cuts, log):
    """Quantiles differ from NumPy's of all values at once by at most a bin and the gap between neighbours;
    tokens that are not counted change nothing."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(size=(1, 600))).astype(np.float32)
    counted = rng.random(600) < 0.8
    low, high = (1e-3, 1e3) if log else (0.0, 20.0)
    histogram = Histogram(Scale(np.array([low]), np.array([high]), np.array([log])))
    for part in parts_of([10 * cut for cut in cuts], 600):
        counted_in(histogram, values, part & counted)
    kept = np.sort(values[0][counted])
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    found = histogram.quantiles(shares)[:, 0]
    width = kept * (np.log(high / low) / BINS) if log else np.full_like(kept, (high - low) / BINS)
    for share, value in zip(shares, found, strict=True):
        place = share * (len(kept) - 1)
        around = kept[max(0, int(place) - 1)], kept[min(len(kept) - 1, int(place) + 2)]
        slack = width[min(len(kept) - 1, int(place) + 2)]
        assert around[0] - slack <= value <= around[1] + slack
    assert histogram.counts.sum() == counted.sum()
    assert (histogram.least, histogram.most) == (kept[0], kept[-1])


def test_values_outside_of_the_range_count_at_its_ends():
    """A quantile there is the least or largest value, not the range's end; NaN counts nowhere."""
    histogram = Histogram(Scale(np.array([0.0]), np.array([1.0]), np.array([False])))
    counted_in(histogram, np.array([[-5.0, 0.5, 7.0, np.nan]], np.float32), np.ones(4, bool))
    assert histogram.counts.sum() == 3
    np.testing.assert_allclose(histogram.quantiles(np.array([0.0, 1.0]))[:, 0], [0.0, 1.0], atol=1 / BINS)
    assert (histogram.least, histogram.most) == (-5.0, 7.0)


def test_a_row_without_values_has_no_quantiles():
    """NaN, rather than a number that nothing gave."""
    histogram = Histogram(Scale(np.array([0.0]), np.array([1.0]), np.array([False])))
    assert np.isnan(histogram.quantiles(np.array([0.5]))).all()


def sampled(order: list[int], batch: int, size: int, seed: int = 0) -> Sample:
    """A sample of sequences of four tokens, whose values name sequence and position."""
    sample = Sample(size, 1, seed)
    for first in range(0, len(order), batch):
        some = order[first : first + batch]
        numbers = np.concatenate([sample.priorities(sequence, 4) for sequence in some])
        values = np.array([[10 * sequence + place for sequence in some for place in range(4)]], np.float32)
        sample.add(values, numbers, np.tile([False, True, True, True], len(some)))
    return sample


@given(st.permutations(range(12)), st.integers(1, 12), st.integers(1, 40))
def test_a_sample_depends_on_neither_batches_nor_order(order, batch, size):
    """The same tokens are kept, never those that are not to be."""
    one, other = sampled(list(range(12)), 1, size), sampled(order, batch, size)
    assert np.array_equal(one.numbers, other.numbers)
    assert np.array_equal(one.values, other.values)
    assert one.values.shape[1] == min(size, 36)
    assert not (one.values[0] % 10 == 0).any()


def test_a_sample_is_uniform():
    """Every token is kept equally often: counts over 400 seeds are within five standard deviations."""
    kept = np.zeros(120)
    for seed in range(400):
        kept[sampled(list(range(12)), 12, 9, seed).values[0].astype(int)] += 1
    expected = 400 * 9 / 36
    chosen = np.array([10 * sequence + place for sequence in range(12) for place in (1, 2, 3)])
    assert kept.sum() == kept[chosen].sum() == 3600
    assert np.abs(kept[chosen] - expected).max() < 5 * (expected * 0.75) ** 0.5


@pytest.mark.parametrize("tokens", [1, 2])
def test_few_values_have_no_deviation(tokens):
    """The standard deviation of one value is not 0 but unknown."""
    moments = Moments(1)
    ones = np.ones((1, 1), np.float32)
    for _ in range(tokens):
        moments.add(ones, ones, 0 * ones)
    assert np.isnan(moments.deviation[0]) == (tokens == 1)


@pytest.mark.parametrize("related", [0.0, 1.0])
def test_the_error_of_a_ratio_covers_its_mean(related):
    """Of 300 means over 40 documents of very different lengths, whose values have a part in common, 91 to
    98 % lie within two standard errors of the truth, 0 (of normal values 95 %; longer ones weigh more)."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        ratios = Ratios(1)
        for length in rng.integers(5, 60, 40):
            values = related * rng.normal() + rng.normal(size=length)
            ratios.add(np.array([values.sum()]), np.array([float(length)]))
        inside += abs(ratios.mean[0]) < 2.02 * ratios.standard_error[0]
    assert 0.91 < inside / 300 < 0.98


def test_one_cluster_has_no_error():
    """What is known of one document says nothing of others."""
    ratios = Ratios(2)
    ratios.add(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    assert ratios.mean[0] == 0.5 and np.isnan(ratios.mean[1])
    assert np.isnan(ratios.standard_error).all()
