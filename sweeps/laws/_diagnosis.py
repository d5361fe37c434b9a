"""Sentences about what the rows do not tell.

Symbols: S the objective, t Student's t quantile, nu the degrees of freedom. A value of a parameter is
*compatible* when the best S with the parameter held there is at most S_min (1 + t^2 / nu): the profile
interval of least squares, at 95 %.
"""

import numpy as np
from scipy import stats

from sweeps.laws._law import Array
from sweeps.laws._problem import Problem, build
from sweeps.laws._solution import EXACT_RESIDUAL, Solution, best_of
from sweeps.laws._solve import solve
from sweeps.laws._table import Rows

GRID = 41
DIFFER_AT = 0.99  # quantile of F above which groups are said to differ
NO_SCATTER = EXACT_RESIDUAL**3  # rms residual of log loss that is rounding, not scatter


def bounds(problem: Problem, at_bound: Array, theta: Array) -> list[str]:
    """A sentence for each parameter on a bound (P,), saying which and what it means."""
    notes = []
    for k, parameter in enumerate(problem.law.parameters):
        place = int(problem.index[k, 0])
        if parameter.name == problem.law.level or not at_bound[place]:
            continue
        lower, upper = (_natural(problem, k, b[place]) for b in (problem.lower, problem.upper))
        low = theta[place] - problem.lower[place] < problem.upper[place] - theta[place]
        side, bound, way = ("lower", lower, "lower") if low else ("upper", upper, "higher")
        notes.append(
            f"{parameter.name} sits on its {side} bound {bound:.6g}: the rows would take it {way} still or "
            "are indifferent, so its estimate is the bound and not a measurement, and the other estimates "
            "hold for that value of it."
        )
    return notes


def profiles(problem: Problem, theta: Array, objective: float, starts: Array, budget: int) -> list[str]:
    """A sentence for each bounded parameter that is compatible with one of its bounds.

    It gives the range of every other shared parameter over the compatible values.
    """
    notes: list[str] = []
    parameters = problem.law.parameters
    freedom = problem.log_loss.size - int((problem.lower < problem.upper).sum())
    candidates = np.concatenate([theta[None], starts])
    for k, parameter in enumerate(parameters):
        place = int(problem.index[k, 0])
        ends = problem.lower[place], problem.upper[place]
        if ends[0] == ends[1] or not np.isfinite(ends).all() or freedom < 1:
            continue
        allowed = objective * (1 + stats.t.ppf(0.975, freedom) ** 2 / freedom)
        allowed += problem.log_loss.size * NO_SCATTER**2
        if (_held_at(problem, place, np.array(ends), candidates, budget).objective > allowed).all():
            continue
        grid = np.linspace(*ends, GRID)
        found = _held_at(problem, place, grid, candidates, budget)
        fits = found.objective <= allowed
        # Where the compatible values end between two points of the grid, look closer.
        fine = [np.linspace(grid[i], grid[i + 1], GRID) for i in np.flatnonzero(fits[1:] != fits[:-1])]
        span, others = grid[fits], problem.natural(found.theta[fits], _equal(problem))
        if fine:
            closer = np.concatenate(fine)
            found = _held_at(problem, place, closer, candidates, budget)
            near = found.objective <= allowed
            span = np.concatenate([span, closer[near]])
            others = np.concatenate([others, problem.natural(found.theta[near], _equal(problem))])
        if np.ptp(span) <= NO_SCATTER * (ends[1] - ends[0]):
            continue
        low, high = (_natural(problem, k, float(v)) for v in (span.min(), span.max()))
        ranges = " and ".join(
            f"{p.name} then runs from {others[:, j].min():.3g} to {others[:, j].max():.3g}"
            for j, p in enumerate(parameters)
            if j != k and p.name != problem.law.level and not p.fixed
        )
        what = "not identified" if fits.all() else "not told apart from its bound"
        notes.append(
            f"{parameter.name} is {what}: values from {low:.3g} to {high:.3g} fit about equally well (95 % "
            f"profile), and {ranges}."
        )
    return notes


def differences(problem: Problem, rows: Rows, theta: Array, objective: float, budget: int) -> list[str]:
    """Sentences if groups differ in a shared parameter, by F test of one value for each group.

    The test is exact for a law that is linear in its coordinates, such as the depth law with a floor of 0.
    """
    law, groups = problem.law, problem.groups
    shared = [p.name for p in law.parameters if not p.fixed and p.name not in problem.own]
    if groups < 2 or objective <= problem.log_loss.size * NO_SCATTER**2:
        return []
    names = []
    for name in shared:
        wider = build(law, rows, problem.own | {name})
        freedom = problem.log_loss.size - int((wider.lower < wider.upper).sum())
        start, first = np.empty(wider.lower.size), problem.index
        for k, places in enumerate(wider.index):
            start[places] = theta[first[k]]
        own = float(solve(wider, start[None], budget).objective[0])
        limit = stats.f.ppf(DIFFER_AT, groups - 1, max(freedom, 1))
        if freedom > 0 and (objective - own) * freedom > own * (groups - 1) * limit:
            names.append(name)
    if not names:
        return []
    notes = [f"The groups differ in {' and '.join(names)} beyond the scatter of rows (F test, 1 %)."]
    if len(shared) > 1:
        notes.append(
            f"Shared values of {' and '.join(shared)} need then not be means over groups, and an interval "
            "can miss those: fix one, or fit each group."
        )
    return notes


def degenerate(problem: Problem, theta: Array) -> str:
    """Which parameters trade against each other at a singular solution (P,)."""
    free = problem.lower < problem.upper
    jacobian = problem.jacobian(theta[None])[0][:, free]
    length = np.sqrt((jacobian**2).sum(0))
    direction = np.abs(np.linalg.svd(jacobian / np.where(length > 0, length, 1.0))[2][-1])
    moved = np.flatnonzero(free)[direction > 0.1]
    names = [p.name for k, p in enumerate(problem.law.parameters) if np.isin(problem.index[k], moved).any()]
    return (
        f"The rows do not determine {' and '.join(names)} separately: changing them together leaves every "
        "prediction as it is. The estimates are one of many equally good sets; fix one, or add rows."
    )


def _held_at(problem: Problem, place: int, values: Array, candidates: Array, budget: int) -> Solution:
    """The best solution with one coordinate held at each of `values`."""
    tries = len(candidates)
    lower, upper = (np.tile(b, (len(values) * tries, 1)) for b in (problem.lower, problem.upper))
    lower[:, place] = upper[:, place] = np.repeat(values, tries)
    return best_of(solve(problem, np.tile(candidates, (len(values), 1)), budget, lower, upper), len(values))


def _equal(problem: Problem) -> Array:
    return np.full(problem.groups, 1 / problem.groups)


def _natural(problem: Problem, k: int, value: float) -> float:
    """A bounded coordinate in the table's units."""
    return float(problem.matrix[k, k] * value + problem.offset[k])
