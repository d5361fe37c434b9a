"""What the rows do not tell, each finding with a code and a sentence.

Symbols as in `_problem` and `_wald`. Findings never change a number: they say what a number is worth.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from sweeps.laws._law import Array, Law
from sweeps.laws._problem import Problem, build
from sweeps.laws._profile import Profile
from sweeps.laws._solve import EXACT_RESIDUAL, Solution, solve
from sweeps.laws._table import Rows

CORRELATED_FROM = 0.9
ILL_CONDITIONED_FROM = 1e3  # largest over smallest singular value of J with columns of length 1
DIFFER_AT = 0.99  # quantile above which groups are said to differ, and curvature to be there
FEW_FREEDOM = 5
DOMINANT_FROM = 1.0  # of a standard error, that leaving out one row moves a headline parameter
NO_SCATTER = EXACT_RESIDUAL**3  # rms residual of log loss that is rounding, not scatter
RUN_COLUMNS = ("run", "run_id", "job", "run_name")
CUT_COLUMNS = ("bptt_k", "num_backprop", "k")
RUN_LENGTH = ("step", "num_tokens", "tokens", "flops")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is to be known about a fit.

    **Fields:** `code` one of `CODES`; `sentence`; `about` parameters or columns that it is about.
    """

    code: str
    sentence: str
    about: tuple[str, ...] = ()


CODES = {
    "not-identified": "a parameter's profile is flat, or open at a bound",
    "at-bound": "an estimate is its bound",
    "degenerate": "parameters trade against each other without any change of the prediction",
    "failed": "no start gave a finite objective",
    "budget-exhausted": "the first-order condition does not hold",
    "few-starts-agree": "most starts ended elsewhere",
    "ill-conditioned": "some combination of parameters is all but undetermined",
    "correlated-predictors": "columns of the law move together",
    "few-levels": "a column has few different values",
    "few-degrees-of-freedom": "hardly more rows than parameters",
    "duplicate-rows": "rows that are equal in every column of the law",
    "dominant-rows": "one row moves a headline parameter by more than its standard error",
    "curvature": "residuals bend along a column: the law is not the right one",
    "checkpoint-rows": "several rows of one run, taken as independent",
    "mixed-truncation": "runs with all and with some recurrences in the backward pass, in one fit of phi",
    "other-recurrences": "runs evaluated with other recurrences than they were trained with",
    "failed-refits": "bootstrap refits that did not end at an optimum",
    "groups-differ": "groups differ in a parameter that they share",
    "groups-agree": "groups agree better than the scatter within them explains",
    "one-group": "a single group, so nothing is known of the variation between groups",
    "no-scatter": "the rows follow the law to rounding",
    "misfit": "residuals are larger than the noise that was given",
}


def of_rows(law: Law, rows: Rows, table: Mapping[str, Any], clustered: tuple[str, ...]) -> list[Finding]:
    """What can be said before fitting."""
    found = []
    for name in law.columns:
        levels = np.unique(rows.columns[name])
        if levels.size < 3:
            values = " and ".join(f"{level:g}" for level in levels)
            what = "can be found" if levels.size < 2 else "can be told from another shape"
            found.append(
                Finding(
                    "few-levels",
                    f"{name} has {levels.size} different value(s) only ({values}): no exponent of it {what}.",
                    (name,),
                )
            )
    logs = {name: np.log(column) for name, column in rows.columns.items()}
    for a, b in itertools.combinations(law.columns, 2):
        if np.ptp(logs[a]) == 0 or np.ptp(logs[b]) == 0:
            continue
        correlation = float(np.corrcoef(logs[a], logs[b])[0, 1])
        if abs(correlation) >= CORRELATED_FROM:
            whole = float(np.corrcoef(np.log(rows.everything[a]), np.log(rows.everything[b]))[0, 1])
            left_out = rows.everything[a].size - rows.loss.size
            more = f" ({whole:.2f} with the {left_out} rows that were left out)" if left_out else ""
            found.append(
                Finding(
                    "correlated-predictors",
                    f"log {a} and log {b} have a correlation of {correlation:.2f}{more}: what one does is "
                    "hard to tell "
                    "from what the other does, and their exponents depend on choices such as the objective "
                    "and "
                    "the rows that are left out.",
                    (a, b),
                )
            )
    everything = np.stack([*rows.columns.values(), rows.loss, rows.group])
    repeated = everything.shape[1] - np.unique(everything, axis=1).shape[1]
    if repeated:
        found.append(
            Finding(
                "duplicate-rows",
                f"{repeated} row(s) repeat another in every column of the law and in the loss: they count "
                "twice. "
                "Leave them out, or give weights.",
            )
        )
    return found + _runs(law, rows, table, clustered) + _recurrences(law, rows, table)


def _column(table: Mapping[str, Any], name: str, rows: Rows) -> np.ndarray | None:
    """A further column of the table in the order of the rows; None where there is none."""
    if name not in table:
        return None
    values = table[name]
    return np.asarray(list(values), dtype=object)[rows.place]


def _runs(law: Law, rows: Rows, table: Mapping[str, Any], clustered: tuple[str, ...]) -> list[Finding]:
    for name in RUN_COLUMNS:
        run = _column(table, name, rows)
        if run is None or name in clustered:
            continue
        for length in RUN_LENGTH:
            column = _column(table, length, rows)
            if column is None:
                continue
            per_run: dict[Any, set[Any]] = {}
            for key, value in zip(run, column, strict=True):
                per_run.setdefault(key, set()).add(value)
            several = sum(len(values) > 1 for values in per_run.values())
            # A job that trains students of many depths has many rows of one length.
            if several and 2 * several >= len(per_run):
                return [
                    Finding(
                        "checkpoint-rows",
                        f"{several} of {len(per_run)} runs (column {name!r}) have rows at several {length}: "
                        "checkpoints of one run err together, so intervals are too narrow. Keep each run's "
                        "last "
                        f"row, or give --group {name}.",
                        (name, length),
                    )
                ]
    return []


def _recurrences(law: Law, rows: Rows, table: Mapping[str, Any]) -> list[Finding]:
    if "num_recur" not in law.columns:
        return []
    found, recur = [], rows.columns["num_recur"]
    for name in CUT_COLUMNS:
        kept = _column(table, name, rows)
        if kept is None or any(not isinstance(value, int | float) for value in kept):
            continue
        cut = kept.astype(np.float64) < recur
        if cut.any() and not cut.all() and (~cut & (recur > 1)).any():
            found.append(
                Finding(
                    "mixed-truncation",
                    f"{int(cut.sum())} row(s) were trained with fewer recurrences in the backward pass "
                    f"({name}) than num_recur, the others with all: phi of the two differs, so fit them "
                    "apart.",
                    (name,),
                )
            )
    trained = _column(table, "r_train", rows)
    if trained is not None and all(isinstance(value, int | float) for value in trained):
        other = int((trained.astype(np.float64) != recur).sum())
        if other:
            found.append(
                Finding(
                    "other-recurrences",
                    f"{other} row(s) were evaluated at another number of recurrences than r_train: what a "
                    "recurrence is worth in training is not what it is worth afterwards.",
                    ("r_train",),
                )
            )
    return found


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
                "hold for "
                "that value of it.",
                (name,),
            )
        )
    return found


def of_profiles(
    problem: Problem, profiles: list[Profile], headline: tuple[str, ...], confidence: float
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
    # Columns are centred on their own exponent's mean first: a unit must not make a law ill-conditioned.
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
            "estimates "
            "move together with small changes of the rows.",
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
            f"{' and '.join(faint)} no longer change any prediction: the term that they stand in has "
            "vanished. Fit "
            "a law without it.",
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
    """Whether a square of log column, beside what the parameters can do, lowers the sum of squares (F "
    "test, 1 %)."""
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
                    "depends "
                    "on it, so extrapolation beyond the rows is not to be trusted.",
                    (name,),
                )
            )
    return found


def of_dominance(
    problem: Problem, theta: Array, covariance: Array, headline: tuple[str, ...], place: Any
) -> list[Finding]:
    """Rows without which a headline parameter would move by more than a standard error (one Newton step)."""
    if problem.own or not np.isfinite(covariance).all() or problem.rows < 4:
        return []
    point = problem.at(theta[None])
    weights = problem.weights * problem.objective.grip(point.residual)[0]
    jacobian = point.jacobian[0]
    matrix = (jacobian * weights) @ jacobian.T
    try:
        solved = np.linalg.solve(matrix, jacobian)
    except np.linalg.LinAlgError:
        return []
    leverage = np.minimum((jacobian * solved).sum(0) * weights, 1 - 1e-9)
    moved = solved * (weights * point.residual[0] / (1 - leverage))
    found = []
    for name in headline:
        if name not in problem.free:
            continue
        k = problem.free.index(name)
        share = np.abs(moved[k]) / np.sqrt(covariance[k, k])
        row = int(share.argmax())
        if share[row] > DOMINANT_FROM:
            found.append(
                Finding(
                    "dominant-rows",
                    f"Row {int(place[row]) + 1} (loss {problem.loss[row]:.6g}) moves {name} by "
                    f"{share[row]:.1f} "
                    "standard errors: look at that row, and at the fit without it.",
                    (name,),
                )
            )
    return found


def of_groups(problem: Problem, law: Law, rows: Rows, solution: Solution, budget: int) -> list[Finding]:
    """Whether groups differ in a shared parameter, by F test of one value for each group.

    The test is exact for a law that is linear in its coordinates, such as the depth law with a floor of 0.
    """
    total = float(solution.total[0])
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
            "interval "
            "can miss those: fix one, or fit each group."
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
            "(chi-square "
            "test, 1 %): the law is wrong or the noise is larger.",
        )
    ]
