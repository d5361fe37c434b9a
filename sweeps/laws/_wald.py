"""Standard errors from the curvature at the optimum.

Symbols as in `_problem`; psi = rho' the slope of the penalty at the residuals, nu = n - P degrees of
freedom. The covariance of the coordinates is that of an M-estimator (Huber, Robust Statistics, 1981,
section 7.6),

    tau^2 (J^T W J)^-1,    tau^2 = (sum w psi^2 / nu) / m^2,    m = (sum w psi' - P psi'(0) w) / (nu w),

with w in the last the mean weight: the P rows that a fit passes through exactly tell nothing of how often a
residual is small, which matters where Huber's delta is below the noise (intervals then covered 0.88 for
0.95, now 0.94); for least squares the usual s^2 (J^T W J)^-1. Where the noise is known, weights are inverse
variances and tau = 1 for least squares.
"""

import dataclasses

import numpy as np
from scipy import stats

from sweeps.laws._law import Array
from sweeps.laws._problem import Problem
from sweeps.laws._solve import SINGULAR_BELOW, smallest_eigenvalue


@dataclasses.dataclass(frozen=True)
class Spread:
    """How far penalties scatter.

    **Fields:** `variance` tau^2; `freedom` nu, infinite where the noise is known; `step` the rise of the
    total of penalties for one standard error of a parameter, tau^2 m / 2; nan where
    there is no freedom.
    """

    variance: float
    freedom: float
    step: float

    def quantile(self, confidence: float) -> float:
        """Of Student's t, two sides."""
        return float(stats.t.ppf((1 + confidence) / 2, self.freedom)) if self.freedom > 0 else float("nan")


def spread(problem: Problem, theta: Array) -> Spread:
    """At the solution (P,)."""
    residual, weights = problem.at(theta[None]).residual[0], problem.weights
    freedom = problem.rows - problem.lower.size
    flat = float(problem.objective.bend(np.zeros((1, 1)))[0, 0])
    share = float(weights @ problem.objective.bend(residual) / weights.mean())
    bend = (share - theta.size * flat) / freedom if freedom > 0 else np.nan
    if problem.noise_known and problem.objective.quadratic:
        bend = flat
        variance = 1.0 if problem.objective.of_logs else problem.unit**-2
        return Spread(variance, np.inf, variance * bend / 2)
    if freedom < 1 or not bend > 0:
        return Spread(np.nan, freedom, np.nan)
    variance = float(weights @ problem.objective.slope(residual) ** 2) / freedom / bend**2
    return Spread(variance, freedom, variance * bend / 2)


def covariance(problem: Problem, theta: Array) -> Array:
    """Of the K free coordinates, inner ones averaged over groups, at the solution (P,); nan where singular.

    A coordinate on its bound is treated as free, which makes an interval too wide rather than too narrow.
    """
    count, size = len(problem.inner), len(problem.free)
    variance = spread(problem, theta).variance
    point = problem.at(theta[None])
    weights = problem.weights * np.ones((1, 1))
    matrix = problem.matrix(point.jacobian, weights)
    out = np.zeros(theta[None].shape, dtype=bool)
    diagonal = matrix.diagonal()
    nothing = np.full((size, size), np.nan)
    if not (np.isfinite(variance) and np.isfinite(diagonal).all() and (diagonal > 0).all()):
        return nothing
    if smallest_eigenvalue(matrix, diagonal, out, problem)[0] <= SINGULAR_BELOW:
        return nothing
    inner, border, outer = matrix.inner[0], matrix.border[0], matrix.outer[0]
    inverse = np.linalg.inv(inner)
    by_outer = inverse @ border
    schur = np.linalg.inv(outer - np.einsum("gio,gip->op", border, by_outer))
    mean = by_outer.mean(0)
    full = np.zeros((size, size))
    full[:count, :count] = inverse.sum(0) / problem.groups**2 + mean @ schur @ mean.T
    full[:count, count:] = -mean @ schur
    full[count:, :count] = full[:count, count:].T
    full[count:, count:] = schur
    return variance * full if (np.diagonal(full) > 0).all() else nothing  # else rounding has taken over
