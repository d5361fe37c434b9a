"""Where a solver stopped, and whether that is an optimum.

Symbols: B problems, P coordinates theta, n rows with weights w, residuals r, Jacobian J, objective
S = sum_i w_i r_i^2. A coordinate is *held* where its bounds coincide or where it sits on a bound and the
objective falls outwards. The first-order condition is judged by the *projected gradient*

    max_k |J_k . r| / (|J_k| (|r| + 1e-4 sqrt(n)))    over the coordinates not held,

the cosine between the residuals and the change that coordinate k can make. The second term of the scale is
a residual of 1e-4 in log loss, below which a fit is exact for any purpose here; without it, a fit without
noise would be judged on rounding errors. `CONVERGED_BELOW` is the bound on it.
"""

import dataclasses

import numpy as np

from sweeps.laws._law import Array, Index, Mask
from sweeps.laws._problem import Problem

CONVERGED_BELOW = 1e-8
EXACT_RESIDUAL = 1e-4
SINGULAR_BELOW = 1e-7  # smallest over largest singular value of J with columns of length 1
ON_BOUND_WITHIN = 1e-9  # of the distance between the bounds


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where the solver stopped, for each of B problems.

    **Fields:** `theta` (B, P); `objective` (B,); `gradient` (B,) the projected gradient of the module's
    docstring; `singular` (B,) whether J has lost
    its rank to within `SINGULAR_BELOW` (a coordinate on a bound is left out if the objective presses it
    there); `at_bound` (B, P).
    """

    theta: Array
    objective: Array
    gradient: Array
    singular: Mask
    at_bound: Mask

    @property
    def converged(self) -> Mask:
        """(B,) whether the first-order condition holds and the optimum is a point."""
        return (self.gradient <= CONVERGED_BELOW) & np.isfinite(self.objective) & ~self.singular

    def take(self, index: Index) -> "Solution":
        """The problems named by `index`."""
        return Solution(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def best_of(solution: Solution, sets: int) -> Solution:
    """The best of B / `sets` starts for each of `sets` problems, whose starts lie side by side.

    Among starts whose objective is the lowest to within 1e-9 of itself, the one of smallest gradient.
    """
    objective = np.where(np.isfinite(solution.objective), solution.objective, np.inf).reshape(sets, -1)
    lowest = objective.min(axis=1, keepdims=True)
    tied = objective <= lowest * (1 + 1e-9) + 1e-24
    which = np.where(tied, solution.gradient.reshape(sets, -1), np.inf).argmin(axis=1)
    return solution.take(np.arange(sets) * objective.shape[1] + which)


def verdict(
    problem: Problem, theta: Array, objective: Array, residual: Array, lower: Array, upper: Array, root: Array
) -> Solution:
    """The facts about the points reached, computed afresh from the points themselves."""
    jacobian = problem.jacobian(theta) * root[..., None]
    gradient = np.einsum("bnp,bn->bp", jacobian, residual)
    still = held(theta, gradient, lower, upper)
    length = np.sqrt((jacobian**2).sum(1))
    size = relative(gradient, length, still, objective, root)
    near = ON_BOUND_WITHIN * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    at_bound = (lower < upper) & ((theta - lower <= near) | (upper - theta <= near))
    # A bound that nothing presses against does not hold its coordinate: flat data stay flat at L_0 = 0.
    pressed = shares(gradient, length, objective, root) > CONVERGED_BELOW
    included = (lower < upper) & ~(at_bound & pressed)
    finite = np.isfinite(jacobian).all((1, 2)) & np.isfinite(objective)
    unit = np.where(included & finite[:, None], np.where(length > 1e-12, length, np.inf), np.inf)
    values = np.linalg.svd(np.where(finite[:, None, None], jacobian, 0) / unit[:, None, :], compute_uv=False)
    count = included.sum(1)
    rank_fits = count <= values.shape[1]
    last = np.take_along_axis(values, np.clip(count - 1, 0, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    singular = (count > 0) & (~rank_fits | (last <= SINGULAR_BELOW * values[:, 0]))
    return Solution(theta, objective, np.where(finite, size, np.inf), singular, at_bound)


def held(theta: Array, gradient: Array, lower: Array, upper: Array) -> Mask:
    """Coordinates (B, P) that are fixed, or on a bound with the objective falling outwards."""
    return (lower == upper) | ((theta <= lower) & (gradient >= 0)) | ((theta >= upper) & (gradient <= 0))


def relative(gradient: Array, length: Array, still: Mask, objective: Array, root: Array) -> Array:
    """The projected gradient of the module's docstring."""
    return np.where(still, 0.0, shares(gradient, length, objective, root)).max(axis=1)


def shares(gradient: Array, length: Array, objective: Array, root: Array) -> Array:
    """|J_k . r| / (|J_k| scale) for every coordinate; one that changes nothing counts as 0."""
    scale = np.sqrt(objective) + EXACT_RESIDUAL * np.sqrt((root**2).sum(1))
    return np.abs(gradient) / (np.where(length > 0, length, np.inf) * scale[:, None])
