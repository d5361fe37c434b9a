"""One solver for every law: bounded Levenberg-Marquardt on many problems side by side.

Symbols: B problems (starts x resamples), P coordinates theta, n rows with weights w, residuals r, Jacobian J,
objective S = sum_i w_i r_i^2. A coordinate is *held* where its bounds coincide or where it sits on a bound
and the objective falls outwards; the step is taken in the others. Everything is in float64.

Gauss-Newton steps are quick where residuals are small. Where they are large and the optimum is flat, they
overshoot for ever at the level of rounding, so from iteration `NEWTON_AFTER` on the matrix of the step is the
Hessian of S / 2, by differences of the exact gradient, wherever that is positive definite.

The first-order condition is judged by the *projected gradient*

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
STOP_BELOW = 1e-9  # a margin, so that the verdict does not hang on the last rounding
EXACT_RESIDUAL = 1e-4
NEWTON_AFTER = 25
SINGULAR_BELOW = 1e-7  # smallest over largest singular value of J with columns of length 1
ON_BOUND_WITHIN = 1e-9  # of the distance between the bounds
CHUNK = 4_000_000  # numbers in one batch of Jacobians: 32 MB


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


def solve(
    problem: Problem,
    starts: Array,
    budget: int,
    lower: Array | None = None,
    upper: Array | None = None,
    weights: Array | None = None,
) -> Solution:
    """Minimises the weighted sum of squares from each start.

    **Arguments:** `starts` (B, P); `budget` the most iterations, >= 1; `lower`, `upper` (B, P) in place of
    the problem's bounds; `weights` (B, n), 1 if not given.
    """
    shape = starts.shape
    lower = np.broadcast_to(problem.lower if lower is None else lower, shape)
    upper = np.broadcast_to(problem.upper if upper is None else upper, shape)
    rows = problem.log_loss.size
    root = np.sqrt(np.broadcast_to(1.0 if weights is None else weights, (shape[0], rows)))
    step = max(1, CHUNK // (rows * shape[1]))
    parts = []
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, shape[0], step):
            some = slice(at, at + step)
            parts.append(_solve(problem, starts[some], budget, lower[some], upper[some], root[some]))
    names = [field.name for field in dataclasses.fields(Solution)]
    return Solution(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def best_of(solution: Solution, sets: int) -> Solution:
    """The best of B / `sets` starts for each of `sets` problems, whose starts lie side by side.

    Among starts whose objective is the lowest to within 1e-9 of itself, the one of smallest gradient.
    """
    objective = np.where(np.isfinite(solution.objective), solution.objective, np.inf).reshape(sets, -1)
    lowest = objective.min(axis=1, keepdims=True)
    tied = objective <= lowest * (1 + 1e-9) + 1e-24
    which = np.where(tied, solution.gradient.reshape(sets, -1), np.inf).argmin(axis=1)
    return solution.take(np.arange(sets) * objective.shape[1] + which)


def _solve(problem: Problem, starts: Array, budget: int, lower: Array, upper: Array, root: Array) -> Solution:
    theta = np.clip(starts, lower, upper)
    residual = problem.residuals(theta) * root
    objective = (residual**2).sum(1)
    damping = np.full(theta.shape[0], 1e-3)
    live = np.flatnonzero(np.isfinite(objective))
    for iteration in range(budget):
        jacobian = problem.jacobian(theta[live]) * root[live, :, None]
        gradient = np.einsum("bnp,bn->bp", jacobian, residual[live])
        held = _held(theta[live], gradient, lower[live], upper[live])
        length = np.sqrt((jacobian**2).sum(1))
        size = _relative(gradient, length, held, objective[live], root[live])
        going = (size > STOP_BELOW) & (damping[live] < 1e12) & np.isfinite(length).all(1)
        live = live[going]
        if live.size == 0:
            break
        jacobian, gradient, held = jacobian[going], gradient[going], held[going]
        # Columns of length 1, so that the damping means the same for each coordinate; zero ones stay put.
        length = np.where(held | (length[going] == 0), np.inf, length[going])
        jacobian = jacobian / length[:, None, :]
        normal = jacobian.transpose(0, 2, 1) @ jacobian
        diagonal = np.arange(theta.shape[1])
        added = np.where(np.isinf(length), 1.0, damping[live][:, None])
        normal[:, diagonal, diagonal] += added
        if iteration >= NEWTON_AFTER:
            hessian = _hessian(problem, theta[live], lower[live], upper[live], root[live], length)
            hessian[:, diagonal, diagonal] += added
            convex = np.linalg.eigvalsh(hessian)[:, 0] > SINGULAR_BELOW**2
            normal = np.where(convex[:, None, None], hessian, normal)
        move = -np.linalg.solve(normal, (gradient / length)[..., None])[..., 0] / length
        trial = np.clip(theta[live] + move, lower[live], upper[live])
        trial_residual = problem.residuals(trial) * root[live]
        trial_objective = (trial_residual**2).sum(1)
        # Near the optimum the objective is flat to rounding, and only the gradient can tell progress.
        slack = 1e-12 * objective[live] + 1e-26 * problem.log_loss.size
        better = trial_objective <= objective[live] + slack
        chosen = live[better]
        theta[chosen] = trial[better]
        residual[chosen] = trial_residual[better]
        objective[chosen] = trial_objective[better]
        damping[live] = np.where(better, np.maximum(damping[live] / 10, 1e-12), damping[live] * 4)
    return _verdict(problem, theta, objective, residual, lower, upper, root)


def _hessian(problem: Problem, theta: Array, lower: Array, upper: Array, root: Array, length: Array) -> Array:
    """Second derivatives (B, P, P) of S / 2 by theta * length; 0 where a length is infinite.

    Differences of the exact gradient over a change of `EXACT_RESIDUAL` in log loss, within the bounds.
    """
    out = np.zeros((*theta.shape, theta.shape[1]))
    size = EXACT_RESIDUAL * np.sqrt((root**2).sum(1))
    for k in range(theta.shape[1]):
        ends, slopes = [], []
        for side in (1, -1):
            at = theta.copy()
            at[:, k] = np.clip(theta[:, k] + side * size / length[:, k], lower[:, k], upper[:, k])
            jacobian = problem.jacobian(at) * root[..., None]
            slopes.append(np.einsum("bnp,bn->bp", jacobian, problem.residuals(at) * root))
            ends.append(at[:, k])
        width = (ends[0] - ends[1]) * length[:, k]
        moved = np.isfinite(width) & (width > 0)
        out[moved, k] = ((slopes[0] - slopes[1]) / length)[moved] / width[moved, None]
    out = np.where(np.isfinite(out).all((1, 2), keepdims=True), out, 0.0)
    return (out + out.transpose(0, 2, 1)) / 2


def _verdict(
    problem: Problem, theta: Array, objective: Array, residual: Array, lower: Array, upper: Array, root: Array
) -> Solution:
    """The facts about the points reached, computed afresh from the points themselves."""
    jacobian = problem.jacobian(theta) * root[..., None]
    gradient = np.einsum("bnp,bn->bp", jacobian, residual)
    held = _held(theta, gradient, lower, upper)
    length = np.sqrt((jacobian**2).sum(1))
    size = _relative(gradient, length, held, objective, root)
    near = ON_BOUND_WITHIN * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    at_bound = (lower < upper) & ((theta - lower <= near) | (upper - theta <= near))
    # A bound that nothing presses against does not hold its coordinate: flat data stay flat at L_0 = 0.
    pressed = _shares(gradient, length, objective, root) > CONVERGED_BELOW
    included = (lower < upper) & ~(at_bound & pressed)
    finite = np.isfinite(jacobian).all((1, 2)) & np.isfinite(objective)
    unit = np.where(included & finite[:, None], np.where(length > 1e-12, length, np.inf), np.inf)
    values = np.linalg.svd(np.where(finite[:, None, None], jacobian, 0) / unit[:, None, :], compute_uv=False)
    count = included.sum(1)
    rank_fits = count <= values.shape[1]
    last = np.take_along_axis(values, np.clip(count - 1, 0, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    singular = (count > 0) & (~rank_fits | (last <= SINGULAR_BELOW * values[:, 0]))
    return Solution(theta, objective, np.where(finite, size, np.inf), singular, at_bound)


def _held(theta: Array, gradient: Array, lower: Array, upper: Array) -> Mask:
    return (lower == upper) | ((theta <= lower) & (gradient >= 0)) | ((theta >= upper) & (gradient <= 0))


def _relative(gradient: Array, length: Array, held: Mask, objective: Array, root: Array) -> Array:
    """The projected gradient of the module's docstring."""
    return np.where(held, 0.0, _shares(gradient, length, objective, root)).max(axis=1)


def _shares(gradient: Array, length: Array, objective: Array, root: Array) -> Array:
    """|J_k . r| / (|J_k| scale) for every coordinate; one that changes nothing counts as 0."""
    scale = np.sqrt(objective) + EXACT_RESIDUAL * np.sqrt((root**2).sum(1))
    return np.abs(gradient) / (np.where(length > 0, length, np.inf) * scale[:, None])
