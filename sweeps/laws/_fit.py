"""From a table to a fit: read, solve from many starts, judge, put intervals on it."""

import importlib.metadata

import numpy as np

from sweeps.laws import _diagnosis as diagnosis
from sweeps.laws._intervals import from_groups, from_residuals, nothing, wider
from sweeps.laws._law import Array, Law
from sweeps.laws._problem import build
from sweeps.laws._result import Fit, Provenance, Status
from sweeps.laws._solution import Solution, best_of
from sweeps.laws._solve import solve
from sweeps.laws._table import Table, read

REFIT_STARTS = 2  # besides the solution itself


def fit(
    law: Law,
    table: Table,
    *,
    group: str | None = "seed",
    confidence: float = 0.95,
    resamples: int = 2000,
    starts: int = 16,
    budget: int = 200,
    seed: int = 0,
) -> Fit:
    r"""Fits a law of loss to a table by least squares of log residuals.

    $$S = \sum_i \big(\log L(x_i; \theta, c_{g(i)}) - \log L_i\big)^2$$

    Every group g (a seed, with its own teacher) has its own level c_g, so groups that miss some depths do not
    bend the exponent; the other parameters are shared. Which parameter is the level is the law's to say.

    **Arguments:**

    - `law`: e.g. `DepthLaw(floor=0.0)`.
    - `table`: mapping from column name to sequence with the law's columns and `loss`.
    - `group`: column of the replicates; `"seed"` is used if the table has it, any other must be there.
      `None`: rows are independent and share one level.
    - `confidence`: of the intervals, in (0, 1).
    - `resamples`: most bootstrap refits. `starts`: number of points to start from. `budget`: most iterations
      from each. `seed`: of the starts and the resamples; same arguments, same fit to the last bit.

    **Returns:** a `Fit`. Its intervals are, with two or more groups, by bootstrap over groups (Student t, and
    never narrower than from the residuals); with one, from the residuals. See `sweeps.laws._intervals`.

    **Raises:** ValueError if an argument, a column or a row breaks a rule; the message says which and where.

    !!! Example

        ```python
        table = {"depth": [4, 8, 16, 32], "loss": [0.51, 0.26, 0.124, 0.063]}
        result = fit(DepthLaw(floor=0.0), table)
        result.estimates["alpha"], result.intervals["alpha"], regime(result.intervals["alpha"])
        ```

    ??? cite "Reference"

        The fits of arXiv:2602.05970 were stopped after a fixed number of steps from one start; here the
        reported point satisfies the first-order condition, or `status` says that it does not.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1; give e.g. 0.95.")
    for name, value in (("resamples", resamples), ("starts", starts), ("budget", budget)):
        if value < 1:
            raise ValueError(f"{name}: {value} is less than 1; give a positive whole number.")
    rows = read(law, table, group)
    problem = build(law, rows, frozenset({law.level}))
    limits = problem.lower[problem.index[:, 0]], problem.upper[problem.index[:, 0]]
    rng = np.random.default_rng(seed)
    begin = problem.spread(law.starts(problem.columns, np.exp(problem.log_loss), limits, starts, rng))
    ends = solve(problem, begin, budget)
    solution = best_of(ends, 1)
    status = _status(solution)
    theta, objective = solution.theta[0], float(solution.objective[0])
    further = begin[:REFIT_STARTS]
    if status is Status.FAILED:
        theta = np.full_like(theta, np.nan)
    natural = problem.natural(theta, np.full(problem.groups, 1 / problem.groups))

    notes = _about_rows(rows.group_column, group, problem.groups)
    errors = nothing(law, f"the fit is {status}")
    half, method = errors.half(confidence), errors.method
    if status is Status.DEGENERATE:
        notes.append(diagnosis.degenerate(problem, theta))
    if status is Status.FAILED:
        notes.append("No start gave a finite objective: the law cannot be evaluated on these rows.")
    if status is Status.BUDGET_EXHAUSTED:
        notes.append(f"The gradient is not small after {budget} iteration(s); raise budget or starts.")
    if status in (Status.CONVERGED, Status.AT_BOUND):
        notes += diagnosis.bounds(problem, solution.at_bound[0], theta)
        errors = from_residuals(problem, theta, objective)
        half, method = errors.half(confidence), errors.method
        if problem.groups > 1:
            between = from_groups(problem, theta, further, resamples, budget, seed)
            half, more = wider(between, errors, law, confidence)
            method = f"{between.method}; not narrower than {method}" if between.freedom else between.method
            notes += more
            notes += diagnosis.differences(problem, rows, theta, objective, budget)
        if objective <= rows.loss.size * diagnosis.NO_SCATTER**2:
            notes.append("The rows follow the law to rounding: no scatter is left to estimate an error from.")
        reached = int((ends.objective <= objective * (1 + 1e-6) + 1e-20).sum())
        if 2 * reached < starts:
            notes.append(f"Only {reached} of {starts} starts reached the best objective; raise starts.")
    if status in (Status.CONVERGED, Status.AT_BOUND, Status.DEGENERATE):
        notes += diagnosis.profiles(problem, theta, objective, further, budget)

    estimates, intervals = _report(law, natural, half)
    return Fit(
        law=law,
        estimates=estimates,
        intervals=intervals,
        confidence=confidence,
        interval_method=method,
        levels=dict(zip(rows.labels, problem.levels(theta).tolist(), strict=True)),
        status=status,
        objective=objective,
        gradient_norm=float(solution.gradient[0]),
        degrees_of_freedom=rows.loss.size - int((problem.lower < problem.upper).sum()),
        notes=tuple(notes),
        provenance=Provenance(
            law=law.equation,
            data_sha256=rows.sha256(),
            rows=rows.loss.size,
            groups=problem.groups,
            group_column=rows.group_column,
            version=_version(),
        ),
    )


def _status(solution: Solution) -> Status:
    if not np.isfinite(solution.objective[0]):
        return Status.FAILED
    if solution.singular[0]:
        return Status.DEGENERATE
    if not solution.converged[0]:
        return Status.BUDGET_EXHAUSTED
    return Status.AT_BOUND if solution.at_bound[0].any() else Status.CONVERGED


def _about_rows(column: str | None, asked: str | None, groups: int) -> list[str]:
    if column is None and asked is not None:
        return [f"The table has no column {asked!r}: rows are taken as independent."]
    if column is not None and groups == 1:
        return [f"Column {column!r} has one group: intervals leave out the variation between groups."]
    return []


def _report(law: Law, natural: Array, half: Array) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Estimates and intervals in the table's units, intervals cut at the parameters' own bounds."""
    estimates, intervals = {}, {}
    for k, p in enumerate(law.parameters):
        reach = np.inf if np.isnan(natural[k]) else half[k]
        middle = np.nan_to_num(natural[k])
        with np.errstate(over="ignore", under="ignore"):
            ends = np.array([middle - reach, natural[k], middle + reach])
            low, value, high = (np.exp(ends) if p.logarithmic else ends).tolist()
        if p.logarithmic and value in (0, np.inf):
            raise ValueError(
                f"{p.name}: exp({natural[k]:.4g}) is outside the range of float64 in these units; divide the "
                f"columns {', '.join(law.columns)} by a typical value of each."
            )
        if p.fixed:
            low = value = high = p.lower
        estimates[p.name] = value
        intervals[p.name] = (max(low, p.lower), min(high, p.upper))
    return estimates, intervals


def _version() -> str:
    try:
        return importlib.metadata.version("depthlaw")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
