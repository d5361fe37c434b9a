"""One solver for every law: bounded Levenberg-Marquardt on many problems side by side.

Symbols as in `_solution`; the B problems are starts x resamples. The step is taken in the coordinates that
are not held, in float64.

Gauss-Newton steps are quick where residuals are small. Where they are large and the optimum is flat, they
overshoot for ever at the level of rounding, so from iteration `NEWTON_AFTER` on the matrix of the step is the
Hessian of S / 2, by differences of the exact gradient, wherever that is positive definite.
"""

import dataclasses

import numpy as np

from sweeps.laws._law import Array
from sweeps.laws._problem import Problem
from sweeps.laws._solution import EXACT_RESIDUAL, SINGULAR_BELOW, Solution, held, relative, verdict

STOP_BELOW = 1e-9  # a margin below CONVERGED_BELOW, so that no verdict hangs on the last rounding
NEWTON_AFTER = 25
CHUNK = 4_000_000  # numbers in one batch of Jacobians: 32 MB


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


def _solve(problem: Problem, starts: Array, budget: int, lower: Array, upper: Array, root: Array) -> Solution:
    theta = np.clip(starts, lower, upper)
    residual = problem.residuals(theta) * root
    objective = (residual**2).sum(1)
    damping = np.full(theta.shape[0], 1e-3)
    live = np.flatnonzero(np.isfinite(objective))
    for iteration in range(budget):
        jacobian = problem.jacobian(theta[live]) * root[live, :, None]
        gradient = np.einsum("bnp,bn->bp", jacobian, residual[live])
        still = held(theta[live], gradient, lower[live], upper[live])
        length = np.sqrt((jacobian**2).sum(1))
        size = relative(gradient, length, still, objective[live], root[live])
        going = (size > STOP_BELOW) & (damping[live] < 1e12) & np.isfinite(length).all(1)
        live = live[going]
        if live.size == 0:
            break
        jacobian, gradient, still = jacobian[going], gradient[going], still[going]
        # Columns of length 1, so that the damping means the same for each coordinate; zero ones stay put.
        length = np.where(still | (length[going] == 0), np.inf, length[going])
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
    return verdict(problem, theta, objective, residual, lower, upper, root)


def _hessian(problem: Problem, theta: Array, lower: Array, upper: Array, root: Array, length: Array) -> Array:
    """Second derivatives (B, P, P) of S / 2 by theta * length; 0 where a length is infinite.

    Differences of the exact gradient over a change of `EXACT_RESIDUAL` in log loss, but at most 1e-3 in the
    coordinate (a logarithm, an exponent, or a multiple of the typical loss), within the bounds.
    """
    out = np.zeros((*theta.shape, theta.shape[1]))
    size = EXACT_RESIDUAL * np.sqrt((root**2).sum(1))[:, None] / length
    size = np.where(np.isfinite(length), np.minimum(size, 1e-3), 0.0)
    for k in range(theta.shape[1]):
        ends, slopes = [], []
        for side in (1, -1):
            at = theta.copy()
            at[:, k] = np.clip(theta[:, k] + side * size[:, k], lower[:, k], upper[:, k])
            jacobian = problem.jacobian(at) * root[..., None]
            slopes.append(np.einsum("bnp,bn->bp", jacobian, problem.residuals(at) * root))
            ends.append(at[:, k])
        width = (ends[0] - ends[1]) * length[:, k]
        moved = np.isfinite(width) & (width > 0)
        out[moved, k] = ((slopes[0] - slopes[1]) / length)[moved] / width[moved, None]
    out = np.where(np.isfinite(out).all((1, 2), keepdims=True), out, 0.0)
    return (out + out.transpose(0, 2, 1)) / 2
