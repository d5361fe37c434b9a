"""The optimum of a law on rows: found from many starts, judged at the values that are reported."""

import dataclasses
import enum

import numpy as np

from sweeps.laws._law import Array, Law
from sweeps.laws._problem import Problem
from sweeps.laws._solve import CONVERGED_BELOW, ON_BOUND_WITHIN, Solution, judge, solve
from sweeps.laws._starts import draw
from sweeps.laws._table import Rows

MANY_ROWS = 2000
"""Above twice as many rows, starts are tried on so many of them; above this, refits and profiles take one "
"step."""

REFINED = 3
SAME_WITHIN = 1e-6  # of the objective: ends that are one optimum


class Status(enum.StrEnum):
    """How a fit ended.

    - `CONVERGED`: the projected gradient at the reported parameters is small, all off their bounds.
    - `AT_BOUND`: the same, with a parameter on its bound; the diagnosis says which and what that means.
    - `BUDGET_EXHAUSTED`: the projected gradient is not small; raise `budget` or `starts`.
    - `DEGENERATE`: the optimum is not a point; the diagnosis says which parameters trade against each other.
    - `FAILED`: no start gave a finite objective; the estimates are nan.
    """

    CONVERGED = "converged"
    AT_BOUND = "at a bound"
    BUDGET_EXHAUSTED = "budget exhausted"
    DEGENERATE = "degenerate"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class Optimum:
    """Where the best start ended.

    **Fields:** `law`, `rows`, `problem`; `solution` one point; `starts` (B, P) all that were tried,
    `reached` how many of them ended there; `budget` of iterations.
    """

    law: Law
    rows: Rows
    problem: Problem
    solution: Solution
    starts: Array
    reached: int
    budget: int

    @property
    def theta(self) -> Array:
        """(P,)."""
        return self.solution.theta[0]

    @property
    def total(self) -> float:
        """Of the penalties."""
        return float(self.solution.total[0])

    @property
    def freedom(self) -> int:
        """Rows less free coordinates."""
        return self.problem.rows - self.problem.lower.size

    @property
    def status(self) -> Status:
        if not np.isfinite(self.total):
            return Status.FAILED
        if self.solution.singular[0]:
            return Status.DEGENERATE
        if self.solution.gradient[0] > CONVERGED_BELOW:
            return Status.BUDGET_EXHAUSTED
        return Status.AT_BOUND if self.solution.at_bound[0].any() else Status.CONVERGED

    @property
    def good(self) -> bool:
        """Whether it is an optimum, and a single one."""
        return self.status in (Status.CONVERGED, Status.AT_BOUND)


def find(law: Law, rows: Rows, problem: Problem, starts: int, budget: int, seed: int) -> Optimum:
    """The best of so many starts.

    Of many rows, a part tells the optima apart: the best few of its ends are the starts for all rows.
    """
    rng = np.random.default_rng(seed)
    begin = draw(problem, starts, rng)
    if problem.rows <= 2 * MANY_ROWS or problem.own:
        ends = solve(problem, begin, budget)
        best = ends.best(1)
    else:
        some = np.sort(rng.choice(problem.rows, MANY_ROWS, replace=False))
        ends = solve(problem.part(some), begin, budget)
        best = solve(problem, ends.theta[_different(ends.total)], budget).best(1)
    lowest = ends.best(1).total[0]
    reached = int((ends.total <= lowest * (1 + SAME_WITHIN) + 1e-20).sum())
    if np.isfinite(best.total[0]):
        best = judge(problem, problem.rounded(_on_bounds(problem, best))[None])
    else:
        best = dataclasses.replace(best, theta=np.full_like(best.theta, np.nan))
    return Optimum(law, rows, problem, best, begin, reached, budget)


def _on_bounds(problem: Problem, best: Solution) -> Array:
    """The point (P,), coordinates that are by their bounds put on them: a bound is reported exactly."""
    theta = best.theta[0].copy()
    for bound in (problem.lower, problem.upper):
        near = best.at_bound[0] & (np.abs(theta - bound) <= ON_BOUND_WITHIN * problem.large(theta[None])[0])
        theta[near] = bound[near]
    moved = problem.at(theta[None]).total[0]
    return theta if moved <= best.total[0] * (1 + 1e-9) + 1e-24 * problem.weights.sum() else best.theta[0]


def _different(total: Array) -> list[int]:
    """The best end of each of the best few optima."""
    order = np.argsort(np.where(np.isfinite(total), total, np.inf), kind="stable").tolist()
    apart = order[:1]
    for i in order[1:]:
        if np.isfinite(total[i]) and total[i] > total[apart[-1]] * (1 + 1e-3):
            apart.append(i)
    return apart[:REFINED]
