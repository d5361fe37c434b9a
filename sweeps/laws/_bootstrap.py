"""Fits of resampled rows.

Symbols: R resamples, n rows, C clusters, G groups with levels of their own.

Pairs: n rows drawn of n. Clusters: C clusters drawn of C, each with all its rows. Residuals: the law's
prediction and, on it, residuals drawn of all, each multiplied by sqrt(n / (n - P)), since fitted residuals
are too small. Levels: groups drawn of G, each with its own level; with G groups there are C(2G - 1, G)
distinct resamples, three for G = 2, and where these are few all of them are solved, weighted by their
probability.

A refit that does not end at an optimum says nothing about where one is: it is counted, reported, and taken
to lie beyond both ends of every interval.
"""

import dataclasses
import itertools
import math

import numpy as np
from scipy import stats

from sweeps.laws._law import Array, Index, Mask
from sweeps.laws._problem import Problem
from sweeps.laws._solve import SINGULAR_BELOW, solve

FURTHEST = 3.0
"""How far a refit counts in a standard error: of normal ones nearly six standard deviations."""


@dataclasses.dataclass(frozen=True)
class Refits:
    """What refits gave.

    **Fields:** `theta` (R, K) the free coordinates, inner ones averaged over the groups drawn; `chance`
    (R,) the probability of each; `good` (R,) whether it ended at an optimum; `clusters` the number of
    things drawn; `said` how, in words.
    """

    theta: Array
    chance: Array
    good: Mask
    clusters: int
    said: str

    @property
    def failed(self) -> int:
        return int((~self.good).sum())

    @property
    def lost(self) -> float:
        """Probability of the refits that failed."""
        return float(self.chance[~self.good].sum())

    def percentiles(self, confidence: float) -> tuple[Array, Array]:
        """Ends (K,) that leave (1 - confidence)/2 on each side, failed refits counted on both."""
        tail = (1 - confidence) / 2 - self.lost
        size = self.theta.shape[1]
        if tail <= 0 or not self.good.any():
            return np.full(size, -np.inf), np.full(size, np.inf)
        kept, chance = self.theta[self.good], self.chance[self.good] / self.chance[self.good].sum()
        tail /= 1 - self.lost
        ends = [_quantiles(kept[:, k], chance, tail) for k in range(size)]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def error(self) -> Array:
        """Standard errors (K,)."""
        return standard_error(self.theta[self.good], self.clusters, self.chance[self.good])

    def student(self, centre: Array, confidence: float) -> tuple[Array, Array]:
        """Ends (K,) by Student's t with C - 1 degrees of freedom; failed refits count as in `percentiles`."""
        tail = (1 - confidence) / 2 - self.lost
        low, high = self.percentiles(confidence)
        if tail <= 0 or not self.good.any():
            return low, high
        half = self.error() * stats.t.ppf(1 - tail, self.clusters - 1)
        if not self.failed:
            return centre - half, centre + half
        return np.minimum(centre - half, low), np.maximum(centre + half, high)

    def drawn(self, count: int) -> Array:
        """The good refits (R', K), each as often as its chance of `count` says, at least once."""
        kept, chance = self.theta[self.good], self.chance[self.good]
        if np.ptp(self.chance) == 0:
            return kept
        return np.repeat(kept, np.maximum(np.rint(count * chance / chance.sum()), 1).astype(np.intp), axis=0)


def standard_error(values: Array, clusters: int, chance: Array | None = None) -> Array:
    """Standard errors (...) from the values (R, ...) of refits, each of some `chance`.

    The standard deviation of the values, but none is taken to lie further from the median than `FURTHEST`
    times half of the range that holds 95 % of them: one refit in a thousand that ended elsewhere would else
    make it several times as large. Times sqrt(C / (C - 1)): a resample of few clusters C scatters too little.
    """
    weights = None if chance is None or np.ptp(chance) == 0 else chance / chance.sum()
    quantiles = [0.025, 0.5, 0.975]
    low, middle, high = np.quantile(values, quantiles, axis=0, method="inverted_cdf", weights=weights)
    reach = np.where(high > low, FURTHEST * (high - low) / 2, np.inf)
    kept = np.clip(values, middle - reach, middle + reach)
    mean = np.average(kept, axis=0, weights=weights)
    return np.sqrt(np.average((kept - mean) ** 2, axis=0, weights=weights) * clusters / (clusters - 1))


def _quantiles(values: Array, chance: Array, tail: float) -> tuple[float, float]:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(chance[order]) - chance[order] / 2
    return float(np.interp(tail, below, values[order])), float(np.interp(1 - tail, below, values[order]))


def of_clusters(
    problem: Problem,
    theta: Array,
    further: Array,
    cluster: Index,
    resamples: int,
    budget: int,
    seed: int,
    what: str,
) -> Refits:
    """Clusters drawn, rows of one cluster together; `cluster` (n,) numbers from 0.

    **Arguments:** `theta` (P,) the solution; `further` (s, P) other points to start each refit from.
    """
    count = int(cluster.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=resamples)
    good, means = _refit(problem, theta, further, budget, drawn, cluster)
    chance = np.full(resamples, 1 / resamples)
    return Refits(means, chance, good, count, f"bootstrap over {count} {what}, {resamples} resamples")


def by_one_step(
    problem: Problem, theta: Array, cluster: Index, resamples: int, seed: int, what: str
) -> Refits:
    """As `of_clusters`, each refit one Newton step from the solution, which is all that many rows need.

    The step's error is of second order in its length, which falls as 1 / sqrt(n).
    """
    count, size = int(cluster.max()) + 1, len(problem.free)
    point = problem.at(theta[None])
    residual, jacobian = point.residual, point.jacobian[0]
    slope = jacobian * (problem.weights * problem.objective.slope(residual)[0])
    bend = jacobian * (problem.weights * problem.objective.bend(residual)[0])
    row, column = np.triu_indices(size)
    parts = np.concatenate([slope, bend[row] * jacobian[column]])
    sums = np.stack([np.bincount(cluster, part, minlength=count) for part in parts], axis=1)
    rng = np.random.default_rng(seed)
    drawn = (np.bincount(rng.integers(0, count, count), minlength=count) for _ in range(resamples))
    totals = np.stack([counts.astype(np.float64) @ sums for counts in drawn])
    matrix = np.empty((resamples, size, size))
    matrix[:, row, column] = matrix[:, column, row] = totals[:, size:]
    length = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), 0))
    scaled = (
        matrix / np.where(length > 0, length, 1.0)[:, :, None] / np.where(length > 0, length, 1.0)[:, None]
    )
    good: Mask = np.array(np.isfinite(scaled).all((1, 2)) & (length > 0).all(1))
    good[good] = np.linalg.eigvalsh(scaled[good])[:, 0] > SINGULAR_BELOW
    means = np.tile(theta, (resamples, 1))
    for i in np.flatnonzero(good):
        means[i] += _step_within(matrix[i], totals[i, :size], theta, problem.lower, problem.upper)
    chance = np.full(resamples, 1 / resamples)
    said = f"bootstrap over {count} {what}, {resamples} resamples of one Newton step"
    return Refits(means, chance, good, count, said)


def _step_within(matrix: Array, gradient: Array, theta: Array, lower: Array, upper: Array) -> Array:
    """The Newton step (K,); a coordinate that it takes beyond a bound ends there, the others follow."""
    step, held = np.zeros(theta.size), np.zeros(theta.size, dtype=bool)
    for _ in range(theta.size):
        free = ~held
        right = gradient[free] + matrix[np.ix_(free, held)] @ step[held]
        step[free] = -np.linalg.solve(matrix[np.ix_(free, free)], right)
        out = free & ((theta + step < lower) | (theta + step > upper))
        if not out.any():
            break
        step[out] = np.clip(theta + step, lower, upper)[out] - theta[out]
        held |= out
        if held.all():
            break
    return step


def of_residuals(
    problem: Problem, theta: Array, further: Array, resamples: int, budget: int, seed: int
) -> Refits:
    """Residuals drawn and laid on the law's prediction."""
    rng = np.random.default_rng(seed)
    residual = problem.at(theta[None]).residual[0] * np.sqrt(problem.weights)
    freedom = max(problem.rows - theta.size, 1)
    residual = (residual - residual.mean()) * math.sqrt(problem.rows / freedom)
    candidates = np.concatenate([theta[None], further])
    value = np.broadcast_to(problem.formula.at(problem.duals(theta[None])).value, (1, problem.rows))[0]
    means, good = [], []
    for some in _portions(problem, resamples, len(candidates)):
        drawn = rng.choice(residual, size=(some, problem.rows)) / np.sqrt(problem.weights)
        if problem.objective.of_logs:
            loss = value * np.exp(-drawn)
        else:
            loss = value - drawn * problem.unit
        starts = np.tile(candidates, (some, 1))
        found = solve(problem, starts, budget, loss=np.repeat(loss, len(candidates), axis=0)).best(some)
        means.append(problem.mean(found.theta))
        good.append(found.converged)
    chance = np.full(resamples, 1 / resamples)
    said = f"bootstrap over the residuals, {resamples} resamples"
    return Refits(np.concatenate(means), chance, np.concatenate(good), problem.rows, said)


def of_levels(
    problem: Problem, theta: Array, further: Array, resamples: int, budget: int, seed: int
) -> Refits:
    """Groups drawn, each with what it has for itself."""
    groups = problem.groups
    distinct = math.comb(2 * groups - 1, groups)
    if distinct <= resamples:
        drawn = np.array(list(itertools.combinations_with_replacement(range(groups), groups)))
        counts = (drawn[:, :, None] == np.arange(groups)).sum(1)
        ways = [math.factorial(groups) / math.prod(math.factorial(int(c)) for c in row) for row in counts]
        chance = np.array(ways) / groups**groups
        said = f"bootstrap over {groups} groups (all {distinct} distinct resamples)"
    else:
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=resamples)
        chance = np.full(resamples, 1 / resamples)
        said = f"bootstrap over {groups} groups ({resamples} resamples)"
    good, means = _refit(problem, theta, further, budget, counts, problem.group, counts / groups)
    return Refits(means, chance, good, groups, said)


def _refit(
    problem: Problem,
    theta: Array,
    further: Array,
    budget: int,
    counts: Index,
    cluster: Index,
    share: Array | None = None,
) -> tuple[Mask, Array]:
    """Whether each refit ended at an optimum, and its coordinates (R, K), averaged with shares (R, G).

    What belongs to a group that was not drawn has no rows: it is held where it is.
    """
    candidates = np.concatenate([theta[None], further])
    tries = len(candidates)
    means, good = [], []
    at = 0
    for some in _portions(problem, len(counts), tries):
        mine = counts[at : at + some]
        weights = np.repeat(mine, tries, axis=0)[:, cluster] * problem.weights
        starts = np.tile(candidates, (some, 1))
        lower, upper = problem.lower, problem.upper
        if problem.own:
            absent = problem.totals(weights) == 0
            held = np.zeros(starts.shape, dtype=bool)
            held[:, : absent.shape[1] * len(problem.inner)] = np.repeat(absent, len(problem.inner), axis=1)
            starts = np.where(held, theta, starts)
            lower, upper = np.where(held, theta, lower), np.where(held, theta, upper)
        found = solve(problem, starts, budget, lower=lower, upper=upper, weights=weights).best(some)
        good.append(found.converged)
        means.append(problem.mean(found.theta, None if share is None else share[at : at + some]))
        at += some
    return np.concatenate(good), np.concatenate(means)


def _portions(problem: Problem, resamples: int, tries: int) -> list[int]:
    """How many resamples to solve at a time, so that their weights stay small."""
    most = max(1, 4_000_000 // (problem.rows * tries))
    return [min(most, resamples - at) for at in range(0, resamples, most)]
