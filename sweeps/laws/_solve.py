"""One solver for every law and objective: bounded Levenberg-Marquardt on many points side by side.

Symbols as in `_problem`; w weights, r residuals, J derivatives, S the weighted sum of penalties rho(r).

A coordinate is *held* where its bounds coincide, where it sits on a bound and S falls outwards, or where it
has lost all influence. The first-order condition is judged by the *projected gradient*

    max_k |sum_i w_i rho'(r_i) J_ik| / sqrt(sum_i w_i g_i J_ik^2  (sum_i w_i g_i r_i^2 + sum_i w_i g_0 1e-8))

over the coordinates not held, with g = rho'(r)/r: the cosine between the residuals and the change that
coordinate k can make, independent of every unit. The second term of the scale is a residual of 1e-4 in log
loss, below which a fit is exact for any purpose here; without it, a fit without noise would be judged on
rounding.

Steps: the inner coordinates (amplitudes, levels) are eliminated, so that damping shortens a step in the
shape of the law and not in what follows from it. Where they are amplitudes, they are then set to what is
best at the new shape (variable projection), if that is better: the loss is linear in them, so that is one
small linear system, and the curved valley of amplitude, exponent and floor, in which other solvers crawl,
is straight. The first steps use g, whose quadratic lies above rho; then rho'' takes over, and then the
curvature of the law, taken anew every few steps: so the end of the way is Newton's, also where residuals
are not small.
"""

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sweeps.laws._law import Array, Index, Mask
from sweeps.laws._problem import Arrow, Point, Problem

CONVERGED_BELOW = 1e-8
STOP_BELOW = 1e-9  # a margin, so that no verdict hangs on the last rounding
EXACT_RESIDUAL = 1e-4
ON_BOUND_WITHIN = 1e-9  # of a large change
NO_INFLUENCE = 1e-9  # change of log loss for a large change of the coordinate
SINGULAR_BELOW = 1e-13  # smallest eigenvalue of J^T W J with columns of length 1
BEND_AFTER, NEWTON_AFTER, NEWTON_EVERY = 6, 8, 8
LONGEST_STEP = 3.0
THREADS = min(8, os.cpu_count() or 1)
CHUNK = 60_000  # numbers in an array (B, n): small enough for the processor's cache


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where the solver stopped, for each of B points.

    **Fields:** `theta` (B, P); `total` (B,) of penalties at theta; `gradient` (B,) the projected gradient;
    `singular` (B,) whether the matrix of the coordinates that are not pressed against a bound has lost its
    rank; `at_bound` (B, P).
    """

    theta: Array
    total: Array
    gradient: Array
    singular: Mask
    at_bound: Mask

    @property
    def converged(self) -> Mask:
        """(B,) whether the first-order condition holds and the optimum is a point."""
        return (self.gradient <= CONVERGED_BELOW) & np.isfinite(self.total) & ~self.singular

    def take(self, index: Index) -> "Solution":
        """The points named by `index`."""
        return Solution(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))

    def best(self, sets: int) -> "Solution":
        """The best of B / `sets` points for each of `sets` problems, whose points lie side by side.

        Among points whose total is the lowest to within 1e-9 of itself, the one of smallest gradient.
        """
        total = np.where(np.isfinite(self.total), self.total, np.inf).reshape(sets, -1)
        lowest = total.min(axis=1, keepdims=True)
        tied = total <= lowest * (1 + 1e-9) + 1e-24
        which = np.where(tied, self.gradient.reshape(sets, -1), np.inf).argmin(axis=1)
        return self.take(np.arange(sets) * total.shape[1] + which)


def solve(
    problem: Problem,
    starts: Array,
    budget: int,
    *,
    lower: Array | None = None,
    upper: Array | None = None,
    weights: Array | None = None,
    loss: Array | None = None,
) -> Solution:
    """Minimises from each start.

    **Arguments:** `starts` (B, P); `budget` the most iterations, >= 1; `lower`, `upper` (B, P), `weights`,
    `loss` (B, n) in place of the problem's own.
    """
    shape = starts.shape
    lower = np.broadcast_to(problem.lower if lower is None else lower, shape)
    upper = np.broadcast_to(problem.upper if upper is None else upper, shape)
    step = max(1, CHUNK // problem.rows)

    def part(at: int) -> Solution:
        some = slice(at, at + step)
        batch_weights = None if weights is None else weights[some]
        batch_loss = None if loss is None else loss[some]
        with np.errstate(all="ignore"):  # of this thread
            batch = _Batch(problem, starts[some], lower[some], upper[some], batch_weights, batch_loss)
            return batch.solve(budget)

    places = range(0, max(shape[0], 1), step)
    if len(places) == 1:
        return part(0)
    with ThreadPoolExecutor(min(len(places), THREADS)) as pool:  # NumPy lets other threads run meanwhile
        parts = list(pool.map(part, places))
    names = [field.name for field in dataclasses.fields(Solution)]
    return Solution(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def judge(problem: Problem, theta: Array) -> Solution:
    """The facts about points (B, P), which stay where they are."""
    lower, upper = (np.broadcast_to(bound, theta.shape) for bound in (problem.lower, problem.upper))
    with np.errstate(all="ignore"):
        return _Batch(problem, theta, lower, upper, None, None).verdict()


class _Batch:
    """Points that are moved together; those that have arrived are put away."""

    def __init__(
        self,
        problem: Problem,
        starts: Array,
        lower: Array,
        upper: Array,
        weights: Array | None,
        loss: Array | None,
    ) -> None:
        self.problem, self.lower, self.upper, self.weights, self.loss = problem, lower, upper, weights, loss
        self.theta = np.clip(starts, lower, upper)
        self.point = problem.at(self.theta, weights, loss)
        self.damping = np.full(len(starts), 1e-3)
        self.bent: Arrow | None = None

    def take(self, index: Mask) -> "_Batch":
        out = object.__new__(_Batch)
        out.problem, out.point, out.damping = self.problem, self.point.take(index), self.damping[index]
        out.theta, out.lower, out.upper = self.theta[index], self.lower[index], self.upper[index]
        out.weights = None if self.weights is None else self.weights[index]
        out.loss = None if self.loss is None else self.loss[index]
        out.bent = None if self.bent is None else self.bent.take(index)
        return out

    def weighted(self, values: Array) -> Array:
        return values * (self.problem.weights if self.weights is None else self.weights)

    def solve(self, budget: int) -> Solution:
        count = len(self.theta)
        names = [field.name for field in dataclasses.fields(Solution)]
        ends: list[tuple[Index, Solution]] = []
        where, batch = np.arange(count), self
        for iteration in range(budget):
            facts = _Facts(batch)
            going = (facts.size > STOP_BELOW) & (batch.damping < 1e12) & np.isfinite(batch.point.total)
            if going.sum() < 0.7 * len(where):
                ends.append((where[~going], batch.take(~going).verdict()))
                where, batch = where[going], batch.take(going)
                if where.size == 0:
                    break
                facts = _Facts(batch)
                going = np.ones(where.size, dtype=bool)
            batch.step(facts, going, iteration)
        if where.size:
            ends.append((where, batch.verdict()))
        order = np.argsort(np.concatenate([index for index, _ in ends]))
        return Solution(*(np.concatenate([getattr(s, name) for _, s in ends])[order] for name in names))

    def step(self, facts: "_Facts", going: Mask, iteration: int) -> None:
        """Move those that are going, each if that does not raise its total."""
        problem = self.problem
        matrix = facts.matrix
        if iteration >= BEND_AFTER and not problem.objective.quadratic:
            bend = self.weighted(problem.objective.bend(self.point.residual))
            matrix = problem.matrix(self.point.jacobian, bend)
        damping = self.damping
        if iteration >= NEWTON_AFTER:
            if self.bent is None or iteration % NEWTON_EVERY == 0:
                self.bent = self._bent(facts)
            exact = matrix + self.bent
            least = smallest_eigenvalue(exact, facts.matrix.diagonal(), facts.still, problem)
            matrix = exact.where(least > SINGULAR_BELOW, matrix)
        move = self._move(matrix, facts)
        longest = LONGEST_STEP * np.maximum(problem.large(self.theta), np.abs(self.theta))
        move = np.clip(np.nan_to_num(move), -longest, longest)
        theta = np.clip(self.theta + move, self.lower, self.upper)
        theta[~going] = self.theta[~going]
        trial = problem.at(theta, self.weights, self.loss)
        if problem.amplitudes:
            projected = self._projected(theta, trial)
            second = problem.at(projected, self.weights, self.loss)
            better = second.total < trial.total
            theta[better] = projected[better]
            trial.put(better, second.take(better))
        # Near the optimum the total is flat to rounding, and only the gradient can tell progress.
        slack = 1e-12 * self.point.total + 1e-26 * facts.mass
        moved = (theta != self.theta).any(1)
        better = going & moved & (trial.total <= self.point.total + slack)
        self.theta[better] = theta[better]
        self.point.put(better, trial.take(better))
        self.damping = np.where(
            better, np.maximum(damping / 10, 1e-12), np.where(going, damping * 4, damping)
        )

    def _move(self, matrix: Arrow, facts: "_Facts") -> Array:
        """The damped step; a coordinate on a bound that it would take out of it is held instead."""
        still = facts.still
        for _ in range(1 + self.theta.shape[1]):
            move = eliminated(matrix, facts.matrix, facts.gradient, still, self.damping, self.problem)
            out = ((self.theta >= self.upper) & (move > 0)) | ((self.theta <= self.lower) & (move < 0))
            if not (out & ~still).any():
                break
            still = still | out
        return move

    def _projected(self, theta: Array, point: Point) -> Array:
        """The amplitudes that are best at the shapes of `theta`, by relative errors weighted with g."""
        problem, count = self.problem, len(self.problem.inner)
        logarithmic = np.array([problem.parameter(name).logarithmic for name in problem.inner])
        loss = problem.loss if self.loss is None else self.loss
        if problem.objective.of_logs:
            ratio = np.exp(point.residual)
            terms = point.jacobian[:, :count] * ratio[:, None]
        else:
            ratio = point.residual * (problem.unit / loss) + 1
            terms = point.jacobian[:, :count] * (problem.unit / loss)[..., None, :]
        # terms: each amplitude's part of the prediction over the loss (or that of one unit of it).
        factors = np.where(logarithmic, 1.0, theta[:, :count])
        wanted = 1 - ratio + (terms * factors[..., None]).sum(1)
        weights = self.weighted(problem.objective.grip(self.point.residual))
        if not problem.objective.of_logs:
            weights = weights * (loss / problem.unit) ** 2
        scaled = terms * weights[:, None]
        normal = scaled @ terms.transpose(0, 2, 1)
        right = (scaled @ wanted[..., None])[..., 0]
        length = np.sqrt(np.diagonal(normal, axis1=1, axis2=2))
        length = np.where(length > 0, length, 1.0)
        normal = normal / (length[:, :, None] * length[:, None, :]) + 1e-12 * np.eye(count)
        best = _solved(normal, (right / length)[..., None])[..., 0] / length
        out = theta.copy()
        out[:, :count] = np.where(logarithmic, theta[:, :count] + np.log(np.maximum(best, 1e-3)), best)
        return np.clip(np.where(np.isfinite(out), out, theta), self.lower, self.upper)

    def _bent(self, facts: "_Facts") -> Arrow:
        """The part of the second derivatives of S that is due to the curvature of the law: sum w rho' r''.

        By differences of J with the slopes held, over a change of 1e-4 in log loss, within the bounds.
        """
        problem = self.problem
        slope = self.weighted(problem.objective.slope(self.point.residual))
        length = np.sqrt(facts.matrix.diagonal())
        ideal = EXACT_RESIDUAL * np.sqrt(facts.mass)[:, None] / np.where(length > 0, length, np.inf)
        step = np.where(facts.still, 0.0, np.minimum(ideal, 1e-3 * problem.large(self.theta)))
        step = np.where(self.theta + step > self.upper, -step, step)
        inner, outer = [], []
        for name in problem.free:
            places = problem.places(name)
            theta = self.theta.copy()
            theta[:, places] += step[:, places]
            theta = np.clip(theta, self.lower, self.upper)
            width = (theta - self.theta)[:, places]
            width = np.where(width == 0, np.inf, width)
            point = problem.at(theta, self.weights, self.loss)
            change = problem.gradient(point.jacobian - self.point.jacobian, slope)
            by_inner, by_outer = problem.split(change)
            inner.append(by_inner / width[:, :, None])
            outer.append(by_outer / width if places.size == 1 else by_outer)
        count = len(problem.inner)
        blocks = np.stack(inner, axis=-1)
        square = blocks[..., :count]
        corner = np.stack(outer, axis=-1)[..., count:]
        bent = Arrow(
            (square + square.swapaxes(-1, -2)) / 2,
            blocks[..., count:],
            (corner + corner.swapaxes(-1, -2)) / 2,
        )
        return bent.where(np.isfinite(change.sum(1)), Arrow(*(np.zeros_like(b) for b in bent.blocks)))

    def verdict(self) -> Solution:
        """The facts about the points reached, computed from the points themselves."""
        facts = _Facts(self)
        near = ON_BOUND_WITHIN * self.problem.large(self.theta)
        at_bound = (self.lower < self.upper) & (
            (self.theta - self.lower <= near) | (self.upper - self.theta <= near)
        )
        # A bound that nothing presses against does not hold its coordinate: flat data stay flat at 0.
        pressed = facts.share > CONVERGED_BELOW
        out = (self.lower == self.upper) | (at_bound & pressed)
        lost = facts.faint & (self.lower < self.upper) & ~at_bound
        singular = lost.any(1) | (
            smallest_eigenvalue(facts.matrix, facts.matrix.diagonal(), out | lost, self.problem)
            <= SINGULAR_BELOW
        )
        finite = np.isfinite(self.point.total)
        return Solution(
            self.theta, self.point.total, np.where(finite, facts.size, np.inf), singular & finite, at_bound
        )


class _Facts:
    """Gradient, matrix and projected gradient of a batch where it stands.

    **Fields:** `gradient` (B, P); `matrix`; `share` (B, P) the cosines; `faint`, `still` (B, P) coordinates
    without influence, and held; `size` (B,) the projected gradient; `mass` (B,) the sum of w g(0).
    """

    def __init__(self, batch: _Batch) -> None:
        problem, residual, jacobian = batch.problem, batch.point.residual, batch.point.jacobian
        grip = batch.weighted(problem.objective.grip(residual))
        slope = grip * residual
        self.gradient = problem.gradient(jacobian, slope)
        self.matrix = problem.matrix(jacobian, grip)
        still = np.zeros((1, 1))
        self.mass = batch.weighted(np.broadcast_to(problem.objective.grip(still), residual.shape)).sum(1)
        length = np.sqrt(self.matrix.diagonal())
        scale = np.sqrt((slope * residual).sum(1) + EXACT_RESIDUAL**2 * self.mass)
        self.faint = length * problem.large(batch.theta) <= NO_INFLUENCE * np.sqrt(self.mass)[:, None]
        self.share = np.abs(self.gradient) / (np.where(self.faint, np.inf, length) * scale[:, None])
        on_lower = (batch.theta <= batch.lower) & (self.gradient >= 0)
        on_upper = (batch.theta >= batch.upper) & (self.gradient <= 0)
        self.still = (batch.lower == batch.upper) | on_lower | on_upper | self.faint
        self.size = np.where(self.still, 0.0, self.share).max(axis=1, initial=0.0)


def eliminated(
    matrix: Arrow, scale: Arrow, gradient: Array, still: Mask, damping: Array, problem: Problem
) -> Array:
    """The damped step (B, P): inner coordinates eliminated, then those shared by all."""
    gi, go = problem.split(np.where(still, 0.0, gradient))
    si, so = problem.split(still)
    lam = damping[:, None]
    di, do = problem.split(scale.diagonal())
    # Held coordinates: no coupling, a unit on the diagonal.
    inner = np.where(si[..., :, None] | si[..., None, :], 0.0, matrix.inner)
    border = np.where(si[..., :, None] | so[:, None, None, :], 0.0, matrix.border)
    outer = np.where(so[:, :, None] | so[:, None, :], 0.0, matrix.outer)
    k = np.arange(inner.shape[-1])
    inner[..., k, k] += np.where(si, 1.0, lam[..., None] * di + 1e-300)
    solved = _solved(inner, np.concatenate([border, gi[..., None]], axis=-1))
    by_outer, by_gradient = solved[..., :-1], solved[..., -1]
    schur = outer - np.einsum("bgio,bgip->bop", border, by_outer)
    rest = go - np.einsum("bgio,bgi->bo", border, by_gradient)
    j = np.arange(schur.shape[-1])
    # The part of a shape's own length that its amplitudes cannot take over; never less than rounding.
    own = np.maximum(schur[:, j, j], 1e-12 * do)
    schur[:, j, j] += np.where(so, 1.0, lam * own + 1e-300)
    move_outer = -_solved(schur, rest[..., None])[..., 0]
    move_inner = -by_gradient - np.einsum("bgio,bo->bgi", by_outer, move_outer)
    return np.concatenate([move_inner.reshape(len(gradient), -1), move_outer], axis=1)


def _solved(matrix: Any, right: Any) -> Any:
    """Solutions of many small systems; a singular one gives zeros, which no step is made of."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        flat, out = matrix.reshape(-1, *matrix.shape[-2:]), np.zeros(right.shape)
        columns = right.reshape(-1, *right.shape[-2:])
        target = out.reshape(-1, *right.shape[-2:])
        for i in range(len(flat)):
            try:
                target[i] = np.linalg.solve(flat[i], columns[i])
            except np.linalg.LinAlgError:
                continue
        return out


def smallest_eigenvalue(matrix: Arrow, diagonal: Array, out: Mask, problem: Problem) -> Array:
    """(B,) of the matrix with its columns scaled to length 1 by `diagonal`, without the coordinates `out`.

    Of the inner blocks and of what is left of the outer one; that of the whole can be smaller still.
    """
    length = np.sqrt(np.where(out, 1.0, diagonal))
    li, lo = problem.split(length)
    oi, oo = problem.split(out)
    inner = matrix.inner / (li[..., :, None] * li[..., None, :])
    inner = np.where(oi[..., :, None] | oi[..., None, :], np.eye(inner.shape[-1]), inner)
    border = matrix.border / (li[..., :, None] * lo[:, None, None, :])
    border = np.where(oi[..., :, None] | oo[:, None, None, :], 0.0, border)
    outer = matrix.outer / (lo[:, :, None] * lo[:, None, :])
    outer = np.where(oo[:, :, None] | oo[:, None, :], np.eye(outer.shape[-1]), outer)
    finite: Mask = np.array(
        np.isfinite(inner).all((1, 2, 3))
        & np.isfinite(border).all((1, 2, 3))
        & np.isfinite(outer).all((1, 2))
    )
    inner = np.where(finite[:, None, None, None], inner, 0.0)
    border, outer = (
        np.where(finite[:, None, None, None], border, 0.0),
        np.where(finite[:, None, None], outer, 0.0),
    )
    least = np.linalg.eigvalsh(inner).min((1, 2), initial=1.0)
    k = np.arange(inner.shape[-1])
    inner[..., k, k] += 1e-300 + 1e-15 * (least <= SINGULAR_BELOW)[:, None, None]
    schur = outer - np.einsum("bgio,bgip->bop", border, _solved(inner, border))
    return np.minimum(least, np.linalg.eigvalsh(schur).min(1, initial=1.0))
