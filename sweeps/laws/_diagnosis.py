"""What an optimum is not worth: bounds, open profiles, misfit, rows that dominate.

Symbols as in `_problem` and `_wald`.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from sweeps.laws._finding import Finding
from sweeps.laws._law import Array
from sweeps.laws._optimum import Optimum, Status
from sweeps.laws._problem import Problem, build
from sweeps.laws._profile import Profile
from sweeps.laws._solve import EXACT_RESIDUAL, Solution, solve

ILL_CONDITIONED_FROM = 1e3  # largest over smallest singular value of J with columns of length 1
DIFFER_AT = 0.99  # quantile above which groups are said to differ, and curvature to be there
FEW_FREEDOM = 5
DOMINANT_FROM = 1.0  # of a standard error, that leaving out one row moves a headline parameter
NO_SCATTER = EXACT_RESIDUAL**3  # rms residual of log loss that is rounding, not scatter


def of_optimum(optimum: Optimum) -> list[Finding]:
    """How it ended, and how many rows, groups and starts speak for it."""
    problem, status = optimum.problem, optimum.status
    found = []
    if status is Status.FAILED:
        found.append(
            Finding(
                "failed",
                "No start gave a finite objective: the law cannot be evaluated on these rows; "
                "divide its columns by a typical value of each.",
            )
        )
    if status is Status.DEGENERATE:
        found.append(degenerate(problem, optimum.theta))
    if status is Status.BUDGET_EXHAUSTED:
        found.append(
            Finding(
                "budget-exhausted",
                f"The gradient is not small after {optimum.budget} iteration(s), as where the optimum is "
                f"infinitely far away: try more starts or iterations (budget), bounds, or another law.",
            )
        )
    if optimum.good:
        found += of_bounds(problem, optimum.solution)
        if 2 * optimum.reached < len(optimum.starts):
            found.append(
                Finding(
                    "few-starts-agree",
                    f"Only {optimum.reached} of {len(optimum.starts)} starts reached the best objective; "
                    "raise starts.",
                )
            )
    columns = optimum.rows.group_columns
    if columns and len(optimum.rows.labels) == 1:
        found.append(
            Finding(
                "one-group",
                f"Column {', '.join(columns)} has one group: intervals leave out the variation between "
                "groups.",
                columns,
            )
        )
    return found + of_freedom(optimum.freedom, problem.rows)


def of_residuals(optimum: Optimum, covariance: Array) -> list[Finding]:
    """What the residuals at an optimum say of the law and of the rows."""
    problem, theta = optimum.problem, optimum.theta
    found = of_condition(problem, theta) + of_groups(optimum) + of_noise(problem, optimum.total)
    if problem.objective.of_logs and optimum.total <= problem.weights.sum() * NO_SCATTER**2:
        said = "The rows follow the law to rounding: no scatter is left to estimate an error from."
        return [*found, Finding("no-scatter", said)]
    found += of_curvature(problem, theta)
    return found + of_dominance(optimum, covariance)


def of_freedom(freedom: int, rows: int) -> list[Finding]:
    if freedom >= FEW_FREEDOM:
        return []
    return [
        Finding(
            "few-degrees-of-freedom",
            f"{rows} rows leave {freedom} degree(s) of freedom: the scatter, and with it every interval, is "
            "hardly known.",
        )
    ]


def of_bounds(problem: Problem, solution: Solution) -> list[Finding]:
    """A finding for each shared parameter on a bound."""
    found = []
    for name in problem.free:
        places = problem.places(name)
        if places.size > 1 or not solution.at_bound[0, places[0]]:
            continue
        p = problem.parameter(name)
        lower, upper = problem.bounds(name)
        value = solution.theta[0, places[0]]
        side, bound, way = (
            ("lower", p.lower, "lower") if value - lower < upper - value else ("upper", p.upper, "higher")
        )
        found.append(
            Finding(
                "at-bound",
                f"{name} sits on its {side} bound {bound:.6g}: the rows would take it {way} still or are "
                "indifferent, so its estimate is the bound and not a measurement, and the other estimates "
                "hold for that value of it.",
                (name,),
            )
        )
    return found


def of_profiles(
    problem: Problem, profiles: Sequence[Profile], headline: tuple[str, ...], confidence: float
) -> list[Finding]:
    """A finding for each parameter whose profile is open, with the range of the headline over it."""
    found = []
    for profile in profiles:
        if profile.closed:
            continue
        p = problem.parameter(profile.name)
        low, high = (float(p.value(end)) for end in (profile.lower, profile.upper))
        flat = profile.open_below and profile.open_above
        what = "not identified" if flat else "not bounded " + ("below" if profile.open_below else "above")
        others = [name for name in headline if name != profile.name and name in problem.free]
        ranges = []
        for name in others:
            k = problem.free.index(name)
            q = problem.parameter(name)
            ends = [float(q.value(end)) for end in profile.over(k)]
            ranges.append(f"{name} then runs from {ends[0]:.3g} to {ends[1]:.3g}")
        more = f", and {' and '.join(ranges)}" if ranges else ""
        found.append(
            Finding(
                "not-identified",
                f"{profile.name} is {what}: values from {low:.3g} to {high:.3g} fit about equally well "
                f"({100 * confidence:g} % profile){more}.",
                (profile.name, *others),
            )
        )
    return found


def of_condition(problem: Problem, theta: Array) -> list[Finding]:
    """How nearly the parameters can stand in for each other at the solution (P,)."""
    point = problem.at(theta[None])
    jacobian = point.jacobian[0] * np.sqrt(problem.weights)
    length = np.sqrt((jacobian**2).sum(1))
    if problem.own or not (length > 0).all():
        return []
    # What amplitudes can take over is projected out first: a unit must not make a law ill-conditioned.
    unit = jacobian / length[:, None]
    count = len(problem.inner)
    q, _ = np.linalg.qr(unit[:count].T)
    rest = unit[count:] - (unit[count:] @ q) @ q.T
    left = np.sqrt((rest**2).sum(1))
    parts = np.concatenate([unit[:count], rest / np.where(left > 0, left, 1.0)[:, None]])
    values, right = np.linalg.eigh(parts @ parts.T)
    condition = float(np.sqrt(values[-1] / max(values[0], 1e-300)))
    shape = float(left.min(initial=1.0))
    worst = max(condition, 1 / shape if shape > 0 else np.inf)
    if worst < ILL_CONDITIONED_FROM:
        return []
    names = [problem.free[k] for k in np.flatnonzero(np.abs(right[:, 0]) > 0.3)]
    if 1 / max(shape, 1e-300) > condition:
        names = [problem.outer[int(left.argmin())], *problem.inner]
    return [
        Finding(
            "ill-conditioned",
            f"{' and '.join(names)} can all but stand in for each other (condition {worst:.3g}): their "
            "estimates move together with small changes of the rows.",
            tuple(names),
        )
    ]


def degenerate(problem: Problem, theta: Array) -> Finding:
    """Which parameters trade against each other at a singular solution (P,)."""
    point = problem.at(theta[None])
    jacobian = point.jacobian[0] * np.sqrt(problem.weights)
    length = np.sqrt((jacobian**2).sum(1))
    mass = np.sqrt(problem.weights.sum())
    faint = [name for k, name in enumerate(problem.free) if length[k] <= 1e-9 * mass]
    if faint:
        return Finding(
            "degenerate",
            f"No prediction depends on {' and '.join(faint)} any more: their term has vanished. Fit a law "
            "without it, or, as factors of terms are kept above 0, give bounds of either sign.",
            tuple(faint),
        )
    _, right = np.linalg.eigh((jacobian @ jacobian.T) / np.outer(length, length))
    names = [problem.free[k] for k in np.flatnonzero(np.abs(right[:, 0]) > 0.1)]
    return Finding(
        "degenerate",
        f"The rows do not determine {' and '.join(names)} separately: changing them together leaves every "
        "prediction as it is. The estimates are one of many equally good sets; fix one, or add rows.",
        tuple(names),
    )


def of_curvature(problem: Problem, theta: Array) -> list[Finding]:
    """Whether a square of log column, beside what the parameters can do, helps (F test, 1 %)."""
    if problem.own:
        return []
    point = problem.at(theta[None])
    root = np.sqrt(problem.weights * problem.objective.grip(point.residual)[0])
    residual = point.residual[0] * root
    basis, _ = np.linalg.qr((point.jacobian[0] * root).T)
    rest = residual - basis @ (basis.T @ residual)
    freedom = problem.rows - theta.size - 1
    if freedom < FEW_FREEDOM or (residual**2).sum() <= problem.rows * NO_SCATTER**2:
        return []
    found = []
    for name in problem.law.columns:
        x = np.log(problem.formula.columns[name])
        if np.unique(x).size < 4:
            continue
        square = (x - x.mean()) ** 2 * root
        square = square - basis @ (basis.T @ square)
        if (square**2).sum() <= 1e-12 * ((x**2) * root**2).sum():
            continue
        gain = float((square @ rest) ** 2 / (square**2).sum())
        left = float((rest**2).sum()) - gain
        if gain * freedom > left * stats.f.ppf(DIFFER_AT, 1, freedom):
            found.append(
                Finding(
                    "curvature",
                    f"Residuals bend along {name} (F test, 1 %): the law misses something of how the loss "
                    "depends on it, so extrapolation beyond the rows is not to be trusted.",
                    (name,),
                )
            )
    return found


def of_dominance(optimum: Optimum, covariance: Array) -> list[Finding]:
    """Rows without which a headline parameter would move by more than a standard error.

    One Newton step tells which rows may; those are left out, and the rest is fitted again.
    """
    problem, theta = optimum.problem, optimum.theta
    if problem.own or not np.isfinite(covariance).all() or problem.rows < 4:
        return []
    point = problem.at(theta[None])
    weights = problem.weights * problem.objective.grip(point.residual)[0]
    jacobian = point.jacobian[0]
    try:
        solved = np.linalg.solve((jacobian * weights) @ jacobian.T, jacobian)
    except np.linalg.LinAlgError:
        return []
    leverage = np.minimum((jacobian * solved).sum(0) * weights, 1 - 1e-9)
    errors = np.sqrt(np.diagonal(covariance))
    moved = np.abs(solved * (weights * point.residual[0] / (1 - leverage))) / errors[:, None]
    names = [name for name in optimum.law.headline if name in problem.free]
    places = [problem.free.index(name) for name in names]
    likely = [int(moved[k].argmax()) for k in places if moved[k].max() > DOMINANT_FROM / 2]
    found = []
    for row in dict.fromkeys(likely):
        kept = problem.weights.copy()
        kept[row] = 0
        again = solve(problem, theta[None], optimum.budget, weights=kept[None]).theta[0]
        for name, k in zip(names, places, strict=True):
            share = abs(again[k] - theta[k]) / errors[k]
            if share > DOMINANT_FROM:
                found.append(
                    Finding(
                        "dominant-rows",
                        f"Without row {int(optimum.rows.place[row])}, whose loss is {problem.loss[row]:.6g}, "
                        f"{name} moves by {share:.1f} standard errors: look at that row.",
                        (name,),
                    )
                )
    return found


def of_groups(optimum: Optimum) -> list[Finding]:
    """Whether groups differ in a shared parameter, by F test of one value for each group.

    The test is exact for a law that is linear in its coordinates, such as the depth law with a floor of 0.
    """
    problem, law, rows = optimum.problem, optimum.law, optimum.rows
    solution, total, budget = optimum.solution, optimum.total, optimum.budget
    if not problem.own or not problem.objective.quadratic or total <= problem.rows * NO_SCATTER**2:
        return []
    names = []
    for name in problem.outer:
        own = (*problem.inner, name)
        wider = build(law, problem.parameters, rows, problem.objective, own)
        freedom = problem.rows - wider.lower.size
        if freedom < 1:
            continue
        inner, outer = problem.split(solution.theta)
        values = {n: inner[0, :, i] for i, n in enumerate(problem.inner)}
        values |= {n: np.full(problem.groups, outer[0, i]) for i, n in enumerate(problem.outer)}
        start = np.concatenate(
            [np.stack([values[n] for n in wider.inner], axis=1).ravel(), [values[n][0] for n in wider.outer]]
        )
        least = float(solve(wider, start[None], budget).total[0])
        limit = stats.f.ppf(DIFFER_AT, problem.groups - 1, freedom)
        if (total - least) * freedom > least * (problem.groups - 1) * limit:
            names.append(name)
    if not names:
        return []
    sentence = f"The groups differ in {' and '.join(names)} beyond the scatter of rows (F test, 1 %)."
    if len(problem.outer) > 1:
        sentence += (
            f" Shared values of {' and '.join(problem.outer)} need then not be means over groups, and an "
            "interval can miss those: fix one, or fit each group."
        )
    return [Finding("groups-differ", sentence, tuple(names))]


def of_noise(problem: Problem, total: float) -> list[Finding]:
    """Whether residuals are larger than known noise (chi-square test, 1 %)."""
    freedom = problem.rows - problem.lower.size
    if not problem.noise_known or not problem.objective.quadratic or freedom < 1:
        return []
    total *= 1.0 if problem.objective.of_logs else problem.unit**2
    if total <= stats.chi2.ppf(DIFFER_AT, freedom):
        return []
    return [
        Finding(
            "misfit",
            f"Residuals are {np.sqrt(total / freedom):.2f} times as large as the noise that was given "
            "(chi-square test, 1 %): the law is wrong or the noise is larger.",
        )
    ]
