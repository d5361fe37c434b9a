"""Clusters are peaks of density: as many as there are, whatever their shape and size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm.probe import clusters, principal_components

TOKENS, LAYERS = 3000, 20
SEEDS = st.integers(0, 30)


def cloud(rng: np.random.Generator, shape: str) -> np.ndarray:
    """One peak, whatever its shape."""
    if shape == "round":
        return 0.5 + 0.05 * rng.normal(size=(TOKENS, LAYERS))
    if shape == "stretched":
        return 0.5 + rng.normal(size=(TOKENS, LAYERS)) @ (0.1 * rng.normal(size=(LAYERS, LAYERS)))
    if shape == "even":
        return rng.uniform(size=(TOKENS, LAYERS))
    if shape == "skewed":
        along = rng.exponential(size=(TOKENS, 1))
        return along * np.ones(LAYERS) + 0.01 * rng.normal(size=(TOKENS, LAYERS))
    along = rng.uniform(-2, 2, TOKENS)
    noise = [0.1 * rng.normal(size=TOKENS) for _ in range(LAYERS - 2)]
    return np.stack([along, along**2, *noise], axis=1)


@pytest.mark.parametrize("shape", ["round", "stretched", "even", "skewed", "bent"])
@given(SEEDS)
@settings(max_examples=8)
def test_one_cloud_is_one_cluster(shape, seed):
    """Neither correlation, nor flat or long tails, nor a bend makes two of one peak."""
    found = clusters(cloud(np.random.default_rng(seed), shape), seed)
    assert found.shares.tolist() == [1.0]


@given(SEEDS, st.sampled_from([0.5, 0.3, 0.05, 0.004]))
@settings(max_examples=16)
def test_two_clouds_apart_are_two_clusters(seed, share):
    """Half of the tokens, or one in 250 as in Pythia (arXiv:2602.05970): labels and shares are right."""
    rng = np.random.default_rng(seed)
    vectors = cloud(rng, "round")
    few = round(share * TOKENS)
    vectors[:few, LAYERS // 2 :] = 0.0
    found = clusters(vectors, seed)
    np.testing.assert_allclose(found.shares, [1 - few / TOKENS, few / TOKENS])
    assert len(set(found.label[:few])) == 1 and len(set(found.label[few:])) == 1
    of_few = found.label[0]
    np.testing.assert_allclose(found.centres[of_few], vectors[:few].mean(axis=0))


@given(SEEDS)
@settings(max_examples=8)
def test_three_clouds_are_three_clusters(seed):
    """In directions of their own."""
    rng = np.random.default_rng(seed)
    vectors = cloud(rng, "round")
    vectors[:1000] += 0.3
    vectors[1000:2000, :5] += 0.6
    found = clusters(vectors, seed)
    np.testing.assert_allclose(found.shares, 1 / 3)


@given(SEEDS)
@settings(max_examples=4)
def test_overlapping_clouds_are_not_parted(seed):
    """Two normal clouds whose centres are one standard deviation apart have one peak."""
    rng = np.random.default_rng(seed)
    vectors = 0.05 * rng.normal(size=(TOKENS, 3))
    vectors[: TOKENS // 2, 0] += 0.05
    assert clusters(vectors, seed).shares.tolist() == [1.0]


@given(st.sampled_from([1, 8, 20, 63, 64, 100, 150]), SEEDS)
@settings(max_examples=30)
def test_few_tokens_of_one_cloud_are_one_cluster(tokens, seed):
    """No clusters of a handful, whatever its scatter; and none of a hundred, but for one sample in ten."""
    vectors = np.random.default_rng(seed).normal(size=(tokens, LAYERS))
    found = clusters(vectors).shares
    assert found.tolist() == [1.0] or (tokens >= 64 and found[0] > 0.7)


def test_lone_tokens_join_the_nearest_cluster():
    """An outlier is no cluster; and equal tokens are one."""
    rng = np.random.default_rng(0)
    vectors = cloud(rng, "round")
    vectors[0] += 5
    assert clusters(vectors).shares.tolist() == [1.0]
    assert clusters(np.ones((100, 4))).shares.tolist() == [1.0]


@given(SEEDS, st.permutations(range(LAYERS)))
@settings(max_examples=8)
def test_the_order_of_layers_does_not_matter(seed, order):
    """Angles are a vector: its entries may be named as one likes."""
    rng = np.random.default_rng(seed)
    vectors = cloud(rng, "round")
    vectors[:900, :10] += 0.4
    shares = [clusters(part, seed).shares for part in (vectors, vectors[:, list(order)])]
    np.testing.assert_allclose(*shares)


@given(SEEDS)
@settings(max_examples=8)
def test_components_are_those_of_the_correlation(seed):
    """Directions are the eigenvectors of the matrix of correlations, their shares its eigenvalues over their
    sum; so the unit of a layer's angle does not matter."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 5))
    found = principal_components(vectors)
    values, directions = np.linalg.eigh(np.corrcoef(vectors.T))
    np.testing.assert_allclose(found.explained, values[::-1][:3] / values.sum(), rtol=1e-9)
    cosines = np.sum(found.directions * directions.T[::-1][:3], axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-9)
    scaled = principal_components(vectors * [3, 2, 1, 0.5, 0.2])
    np.testing.assert_allclose(scaled.points(vectors * [3, 2, 1, 0.5, 0.2]) ** 2, found.points(vectors) ** 2)


@given(SEEDS)
@settings(max_examples=8)
def test_a_layer_that_turns_all_far_hides_no_cluster(seed):
    """Two clouds that differ by 0.04 rad in ten layers, beside a layer that scatters by 0.3."""
    rng = np.random.default_rng(seed)
    vectors = 0.04 + 0.004 * rng.normal(size=(TOKENS, LAYERS))
    vectors[: TOKENS // 2, 5:15] = 0.0
    vectors[:, -1] += 0.3 * rng.normal(size=TOKENS)
    np.testing.assert_allclose(clusters(vectors, seed).shares, 0.5)


@pytest.mark.parametrize("vectors", [np.zeros((0, 3)), np.array([[1.0, np.nan]])])
def test_what_has_no_place_is_refused(vectors):
    """No tokens, and angles that are not numbers."""
    with pytest.raises(ValueError, match="must be finite, and at least one"):
        clusters(vectors)
