"""Do all tokens move alike? Principal components of their step angles, and clusters of them.

Symbols: tokens n of a sample, layers ℓ, components p, clusters k.
"""

from typing import NamedTuple

import numpy as np
import scipy.cluster
import scipy.ndimage
from jaxtyping import Float, Int

COMPONENTS = 3
"""Principal components that clusters are looked for in."""

STEADY = 0.01
"""Of the largest deviation: layers that vary less are not blown up to it."""

MOST = 8
"""Clusters that tokens are parted into before those that belong together are joined."""

VALLEY = 0.5
"""Two clusters are one unless the density between them falls below this share of the lower peak."""

SMALLEST = 0.001
"""Share of the sample that a cluster must have."""

FEWEST = 8
"""Tokens that a cluster must have."""

SMALLEST_SAMPLE = 64
"""Fewer tokens are one cluster: their density is known too badly to have peaks."""


BINS = 512
"""Along the line of two centres."""


class Components(NamedTuple):
    """Principal components of angles, each layer's in units of its deviation over tokens.

    mean, deviation (ℓ,), directions (p, ℓ), and the share of the variance along each.
    """

    mean: Float[np.ndarray, " layers"]
    deviation: Float[np.ndarray, " layers"]
    directions: Float[np.ndarray, "p layers"]
    explained: Float[np.ndarray, " p"]

    def points(self, vectors: Float[np.ndarray, "n layers"]) -> Float[np.ndarray, "n p"]:
        """Where tokens lie along the components."""
        return (vectors - self.mean) / self.deviation @ self.directions.T


class Clusters(NamedTuple):
    """label: of each token, 0 the largest cluster. shares: of the sample. centres: mean vectors."""

    label: Int[np.ndarray, " n"]
    shares: Float[np.ndarray, " k"]
    centres: Float[np.ndarray, "k layers"]
    components: Components


def principal_components(vectors: Float[np.ndarray, "n layers"]) -> Components:
    """At most COMPONENTS of them; none where all tokens are equal.

    In units of their deviation, since the last layers turn all tokens ten times as far as those between, and
    would hide what these do. A deviation counts as no less than STEADY of the largest.
    """
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
    deviation = np.maximum(deviation, max(STEADY * deviation.max(), 1e-300))
    _, sizes, directions = np.linalg.svd((vectors - mean) / deviation, full_matrices=False)
    power = sizes**2
    some = min(COMPONENTS, int(np.sum(power > 1e-12 * max(power.sum(), 1e-300))))
    return Components(mean, deviation, directions[:some], power[:some] / max(power.sum(), 1e-300))


def clusters(vectors: Float[np.ndarray, "n layers"], seed: int = 0) -> Clusters:
    """Clusters of tokens by their vectors of angles: as many as the density has peaks.

    In the space of the first principal components the sample is parted by k-means into MOST pieces, and
    pieces are joined while the density along the line of their centres has no valley: below VALLEY times the
    lower of its two peaks. So a cloud that is round, stretched, flat, skewed or bent is one cluster (a ring
    is not, and long tails may split), and a cluster of few tokens is seen if it lies apart. Tokens of
    clusters below SMALLEST join the nearest one. More than MOST clusters, and those that differ beyond the
    components, are not told apart. The idea of joining components until a density has a dip is Hennig's
    (*Methods for merging Gaussian mixture components*, Advances in Data Analysis and Classification 4, 2010).

    Raises ValueError without tokens or for values that are not finite.
    """
    if len(vectors) == 0 or not np.all(np.isfinite(vectors)):
        raise ValueError(f"vectors are {vectors.shape}: they must be finite, and at least one")
    vectors = np.asarray(vectors, np.float64)
    components = principal_components(vectors)
    points = components.points(vectors)
    parted = points.shape[1] > 0 and len(vectors) >= SMALLEST_SAMPLE
    label = _joined(points, _parted(points, seed)) if parted else np.zeros(len(vectors), int)
    label = _without_small(points, label)
    order = np.argsort(-np.bincount(label), kind="stable")
    label = np.argsort(order)[label]
    shares = np.bincount(label) / len(label)
    centres = np.stack([vectors[label == k].mean(axis=0) for k in range(len(shares))])
    return Clusters(label, shares, centres, components)


def _parted(points: np.ndarray, seed: int) -> np.ndarray:
    """Pieces of k-means, numbered without gaps."""
    most = min(MOST, len(np.unique(points, axis=0)))
    _, label = scipy.cluster.vq.kmeans2(points, most, minit="++", seed=seed, iter=50, missing="warn")
    return np.unique(label, return_inverse=True)[1]


def _joined(points: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Pairs without a valley are joined, nearest first, until every pair has one."""
    while True:
        centres = [points[label == k].mean(axis=0) for k in range(label.max() + 1)]
        pairs = sorted(
            ((a, b) for b in range(len(centres)) for a in range(b)),
            key=lambda pair: float(np.linalg.norm(centres[pair[0]] - centres[pair[1]])),
        )
        for a, b in pairs:
            if not _apart(points[label == a], points[label == b]):
                label = np.unique(np.where(label == b, a, label), return_inverse=True)[1]
                break
        else:
            return label


def _apart(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether the density of both, along the line of their centres, has a valley between."""
    along = second.mean(axis=0) - first.mean(axis=0)
    one, two = first @ along, second @ along
    if min(len(one), len(two)) < 2:
        return True  # a single token has no density; small clusters are dealt with later
    ends = min(one.min(), two.min()), max(one.max(), two.max())
    # Each with a width of its own: a small cluster far away is narrow, and must not be smeared.
    density = _smoothed(one, ends) + _smoothed(two, ends)
    left, right = sorted(_bin(float(part.mean()), ends) for part in (one, two))
    lowest = left + int(np.argmin(density[left : right + 1]))
    peaks = density[: lowest + 1].max(), density[lowest:].max()
    return bool(density[lowest] < VALLEY * min(peaks))


def _smoothed(values: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Tokens a bin, smoothed by Gaussian kernels of Silverman's width."""
    counts, _ = np.histogram(values, bins=BINS, range=ends)
    width = 0.9 * np.std(values) * len(values) ** -0.2 * BINS / (ends[1] - ends[0])
    smoothed: np.ndarray = scipy.ndimage.gaussian_filter1d(
        counts.astype(float), max(float(width), 1.0), mode="constant"
    )
    return smoothed


def _bin(value: float, ends: tuple[float, float]) -> int:
    return min(BINS - 1, int((value - ends[0]) / (ends[1] - ends[0]) * BINS))


def _without_small(points: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Tokens of clusters that are too small join the cluster whose centre is nearest."""
    sizes = np.bincount(label)
    large = sizes >= max(SMALLEST * len(label), FEWEST)
    if large.all() or not large.any():
        return label
    centres = np.stack([points[label == k].mean(axis=0) for k in np.flatnonzero(large)])
    nearest = np.linalg.norm(points[:, None] - centres, axis=-1).argmin(axis=1)
    kept = np.where(large[label], np.cumsum(large)[label] - 1, nearest)
    return np.unique(kept, return_inverse=True)[1]
