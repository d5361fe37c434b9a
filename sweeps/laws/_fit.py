"""From a table to a fit: read, solve from many starts, judge, put intervals on it."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.laws import _bootstrap as bootstrap
from sweeps.laws import _diagnosis as diagnosis
from sweeps.laws._diagnosis import Finding
from sweeps.laws._law import Array, Law
from sweeps.laws._objective import LogSquares, Objective
from sweeps.laws._problem import Problem, build, with_limits
from sweeps.laws._profile import Profile, profiles
from sweeps.laws._result import Estimate, Fit, Provenance, Status
from sweeps.laws._solve import CONVERGED_BELOW, Solution, solve
from sweeps.laws._starts import draw
from sweeps.laws._table import Rows, Table, read
from sweeps.laws._wald import covariance, spread

REFINED = 3
INTERVALS = ("auto", "pairs", "cluster", "residual", "profile", "wald", "none")
FEW_CLUSTERS = 40
"""Below this many clusters percentiles of a bootstrap are too narrow, and Student's t is used (measured: "
"docs)."""

MANY_ROWS = 2000
"""Above this many rows starts are tried on a part of them, and refits and profiles take one step."""


def fit(
    law: Law,
    table: Table,
    *,
    group: str | Sequence[str] | None = "seed",
    own: Sequence[str] | None = None,
    fix: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    objective: Objective | None = None,
    weights: str | None = None,
    noise: str | float | None = None,
    drop_top: int = 0,
    interval: str = "auto",
    confidence: float = 0.95,
    resamples: int | None = None,
    starts: int = 64,
    refit_starts: int = 1,
    budget: int = 300,
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
) -> Fit:
    r"""Fits a law of loss to a table.

    $$S = \sum_i w_i\,\rho\big(\log L(x_i; \theta) - \log L_i\big)$$

    **Arguments:**

    - `law`: e.g. `DepthLaw()`, or a formula of one's own, `OwnLaw("E + A*n**-a", ("n",))`.
    - `table`: mapping from column name to sequence with the law's columns and `loss`.
    - `group`: column(s) whose values name what rows have in common: replicates with a level each, for a law
      that has one (`law.level`), and clusters that the bootstrap draws as a whole. `"seed"` is used if the
      table has it, any other must be there. `None`: rows are independent.
    - `own`: parameters that every group has for itself (default: the law's level); all others are shared.
    - `fix`, `bounds`: name -> value, name -> (lower, upper), in the table's units.
    - `objective`: `LogSquares()` if not given. `weights`: a column. `noise`: known standard deviation of
      log loss (of the loss, for `Squares`), a number or a column.
    - `drop_top`: leave out the rows of so many highest losses (kept: below the `drop_top`-th highest).
    - `interval`: "auto" (by levels where groups have their own, by cluster where there are groups, else by
      pairs), "pairs", "cluster", "residual", "profile", "wald" or "none".
    - `confidence`: of the intervals, in (0, 1). `resamples`: bootstrap refits (1000).
    - `starts`: number of points to start from; `refit_starts`: of each refit, besides the solution itself;
      `budget`: most iterations from each. `seed`: of starts and resamples; same arguments, same fit to the
      last bit.
    - `source`: what is to be said of the table in the fit's provenance.

    **Returns:** a `Fit`.

    **Raises:** ValueError if an argument, a column or a row breaks a rule; the message says which and where.

    !!! Example

        ```python
        table = {"depth": [4, 8, 16, 32], "loss": [0.51, 0.26, 0.124, 0.063]}
        result = fit(DepthLaw(), table, fix={"L_0": 0.0})
        result.estimates["alpha"], result.intervals["alpha"], regime(result.intervals["alpha"])
        ```

    ??? cite "Reference"

        The fits of arXiv:2602.05970 were stopped after a fixed number of steps from one start; here the
        reported point satisfies the first-order condition, or `status` says that it does not.
    """
    objective = LogSquares() if objective is None else objective
    _check(confidence, interval, resamples, starts, refit_starts, budget)
    columns = _group_columns(group, table)
    limits = {name: (float(value), float(value)) for name, value in (fix or {}).items()}
    twice = set(limits) & set(bounds or {})
    if twice:
        raise ValueError(f"{sorted(twice)[0]!r} is fixed and bounded; do one of the two.")
    limits |= {name: (float(low), float(high)) for name, (low, high) in (bounds or {}).items()}
    parameters = with_limits(law.parameters, limits)
    own = ((law.level,) if law.level else ()) if own is None else tuple(own)
    for name in own:
        if name not in [p.name for p in parameters]:
            raise ValueError(f"own: {name!r} is no parameter of the law {law.name}.")
    rows = read(law, table, columns, weights, noise, drop_top)
    problem = build(law, parameters, rows, objective, own)
    if not problem.free:
        raise ValueError("every parameter is fixed: nothing is left to fit.")
    _enough(problem, law, rows)

    rng = np.random.default_rng(seed)
    begin = draw(problem, starts, rng)
    ends, reached = _best(problem, begin, budget, rng)
    solution = _reported(problem, ends, budget)
    status = _status(solution)
    theta, total = solution.theta[0], float(solution.total[0])
    if status is Status.FAILED:
        theta = np.full_like(theta, np.nan)

    found = diagnosis.of_rows(law, rows, table, columns)  # type: ignore[arg-type]  # a table is a mapping here
    found = _about_status(problem, solution, status, budget) + found
    found += diagnosis.of_freedom(problem.rows - theta.size, problem.rows)
    if own and len(rows.labels) == 1 and columns:
        found.append(
            Finding(
                "one-group",
                f"Column {', '.join(columns)} has one group: intervals leave out the variation between "
                "groups.",
                columns,
            )
        )
    size = len(problem.free)
    matrix = np.full((size, size), np.nan)
    traced: list[Profile] = []
    low, high, method, refits = (
        np.full(size, -np.inf),
        np.full(size, np.inf),
        f"none: the fit is {status}",
        None,
    )
    if status in (Status.CONVERGED, Status.AT_BOUND):
        matrix = covariance(problem, theta)
        scatter = spread(problem, theta)
        traced = profiles(problem, solution, scatter, matrix, confidence, budget, problem.rows > MANY_ROWS)
        how = _method(interval, problem, rows)
        low, high, method, refits, more = _intervals(
            how,
            problem,
            rows,
            solution,
            begin[:refit_starts],
            matrix,
            traced,
            confidence,
            resamples,
            budget,
            seed,
        )
        found += more
        found += diagnosis.of_profiles(problem, traced, law.headline, confidence)
        found += diagnosis.of_condition(problem, theta)
        found += diagnosis.of_groups(problem, law, rows, solution, budget)
        found += diagnosis.of_noise(problem, total)
        if (solution.total[0] <= problem.rows * diagnosis.NO_SCATTER**2) and objective.of_logs:
            found.append(
                Finding(
                    "no-scatter",
                    "The rows follow the law to rounding: no scatter is left to estimate an error from.",
                )
            )
        else:
            found += diagnosis.of_curvature(problem, theta)
            found += diagnosis.of_dominance(problem, theta, matrix, law.headline, rows.place)
        if 2 * reached < starts:
            found.append(
                Finding(
                    "few-starts-agree",
                    f"Only {reached} of {starts} starts reached the best objective; raise starts.",
                )
            )
    estimates = _estimates(problem, theta, low, high, matrix, status, traced)
    levels = {}
    if problem.own:
        inner = problem.split(theta[None])[0][0]
        for i, name in enumerate(problem.inner):
            values = problem.parameter(name).value(inner[:, i]).tolist()
            levels[name] = dict(zip(rows.labels, values, strict=True))
    drawn = () if refits is None else tuple(map(tuple, refits.theta[refits.good].tolist()))
    return Fit(
        law=law,
        limits=limits,
        objective_kind=objective,
        parameters=estimates,
        levels=levels,
        status=status,
        objective=total * problem.reported,
        gradient_norm=float(solution.gradient[0]),
        confidence=confidence,
        interval_method=method,
        degrees_of_freedom=problem.rows - theta.size,
        diagnosis=tuple(found),
        weights=weights,
        noise=noise,
        drop_top=drop_top,
        free=problem.free,
        covariance=tuple(map(tuple, matrix.tolist())),
        replicates=drawn,
        provenance=Provenance(
            law=law.equation,
            data_sha256=rows.sha256(),
            rows=problem.rows,
            groups=len(rows.labels),
            group_columns=columns,
            version=_version(),
            source=dict(source or {}),
        ),
    )


def _best(problem: Problem, begin: Array, budget: int, rng: np.random.Generator) -> tuple[Solution, int]:
    """The best end of all starts, and how many reached it.

    Of many rows, a part tells the optima apart: the best few of its ends are the starts for all rows.
    """
    if problem.rows <= 2 * MANY_ROWS or problem.own:
        ends = solve(problem, begin, budget)
        best = ends.best(1)
    else:
        some = np.sort(rng.choice(problem.rows, MANY_ROWS, replace=False))
        ends = solve(problem.part(some), begin, budget)
        order = np.argsort(np.where(np.isfinite(ends.total), ends.total, np.inf), kind="stable")
        apart = [order[0]]
        for i in order:  # one start for each optimum
            if np.isfinite(ends.total[i]) and ends.total[i] > ends.total[apart[-1]] * (1 + 1e-3):
                apart.append(i)
        best = solve(problem, ends.theta[apart[:REFINED]], budget).best(1)
        return best, int((ends.total <= ends.total[order[0]] * (1 + 1e-6) + 1e-20).sum())
    total = float(best.total[0])
    return best, int((ends.total <= total * (1 + 1e-6) + 1e-20).sum())


def _check(
    confidence: float, interval: str, resamples: int | None, starts: int, refit_starts: int, budget: int
) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1; give e.g. 0.95.")
    if interval not in INTERVALS:
        raise ValueError(f"interval: {interval!r} is unknown; there are {', '.join(INTERVALS)}.")
    for name, value in (("resamples", resamples), ("starts", starts), ("budget", budget)):
        if value is not None and value < 1:
            raise ValueError(f"{name}: {value} is less than 1; give a positive whole number.")
    if refit_starts < 0:
        raise ValueError(f"refit_starts: {refit_starts} is less than 0; give a whole number from 0 up.")


def _group_columns(group: str | Sequence[str] | None, table: Table) -> tuple[str, ...]:
    if group == "seed" and "seed" not in table:
        return ()
    return () if group is None else (group,) if isinstance(group, str) else tuple(group)


def _enough(problem: Problem, law: Law, rows: Rows) -> None:
    """Raises ValueError where there are not more different points than free parameters."""
    points = np.stack([rows.columns[name] for name in law.columns])
    names = [p.name for p in problem.parameters if not p.fixed]
    need = len(names) + 1
    count = np.unique(points, axis=1).shape[1]
    if count < need:
        what = f"{count} different point(s)"
        if len(law.columns) == 1:
            what = f"{count} distinct {law.columns[0]}(s) {np.unique(points).tolist()}"
        raise ValueError(
            f"column(s) {', '.join(law.columns)}: {what}, but {', '.join(names)} need at least {need}; add "
            "rows, or fix a parameter."
        )
    for index, label in enumerate(rows.labels) if problem.own else ():
        mine = np.unique(points[:, rows.group == index], axis=1).shape[1]
        if mine < len(problem.inner) + 1:
            raise ValueError(
                f"group {label!r}: only {mine} different point(s), but every group has its own "
                f"{', '.join(problem.inner)} and needs at least {len(problem.inner) + 1}; leave the group "
                "out, or pass "
                "group=None to treat rows as independent with one level."
            )


def _reported(problem: Problem, best: Solution, budget: int) -> Solution:
    """The solution at the values that are reported, so that what is said of it is true of them."""
    if not np.isfinite(best.total[0]):
        return best
    theta = problem.rounded(best.theta[0])[None]
    held = solve(problem, theta, 1, lower=theta, upper=theta)  # a point, judged with everything held
    free = solve(problem, theta, 1)
    same = np.array_equal(free.theta, theta)
    return free if same else Solution(theta, held.total, best.gradient, best.singular, best.at_bound)


def _status(solution: Solution) -> Status:
    if not np.isfinite(solution.total[0]):
        return Status.FAILED
    if solution.singular[0]:
        return Status.DEGENERATE
    if solution.gradient[0] > CONVERGED_BELOW:
        return Status.BUDGET_EXHAUSTED
    return Status.AT_BOUND if solution.at_bound[0].any() else Status.CONVERGED


def _about_status(problem: Problem, solution: Solution, status: Status, budget: int) -> list[Finding]:
    if status is Status.FAILED:
        return [
            Finding("failed", "No start gave a finite objective: the law cannot be evaluated on these rows.")
        ]
    if status is Status.DEGENERATE:
        return [diagnosis.degenerate(problem, solution.theta[0])]
    if status is Status.BUDGET_EXHAUSTED:
        return [
            Finding(
                "budget-exhausted",
                f"The gradient is not small after {budget} iteration(s); raise budget or starts.",
            )
        ]
    return diagnosis.of_bounds(problem, solution)


def _method(interval: str, problem: Problem, rows: Rows) -> str:
    if interval == "auto":
        if problem.own:
            return "levels"
        return "cluster" if len(rows.labels) > 1 else "pairs"
    if interval == "cluster" and len(rows.labels) < 2:
        raise ValueError("interval: clusters need group to name a column with two or more values.")
    return "levels" if interval == "cluster" and problem.own else interval


def _intervals(
    how: str,
    problem: Problem,
    rows: Rows,
    solution: Solution,
    further: Array,
    matrix: Array,
    traced: list[Profile],
    confidence: float,
    resamples: int | None,
    budget: int,
    seed: int,
) -> tuple[Array, Array, str, bootstrap.Refits | None, list[Finding]]:
    """Ends (K,) of the coordinates, how they were made, the refits, and what is to be said."""
    theta = solution.theta[0]
    centre = problem.mean(theta[None])[0]
    scatter = spread(problem, theta)
    half = scatter.quantile(confidence) * np.sqrt(np.diagonal(matrix))
    half = np.where(np.isfinite(half), half, np.inf)
    freedom = (
        "known noise" if np.isinf(scatter.freedom) else f"Student t, {scatter.freedom:.0f} degrees of freedom"
    )
    curvature = f"curvature (delta method, {freedom})"
    if how == "none":
        return np.full(centre.size, -np.inf), np.full(centre.size, np.inf), "none asked for", None, []
    if how == "wald":
        return centre - half, centre + half, curvature, None, []
    if how == "profile":
        low, high = centre - half, centre + half
        for profile in traced:
            k = problem.free.index(profile.name)
            low[k], high[k] = profile.lower, profile.upper
        rest = f"; {curvature} for what groups have of their own" if problem.own else ""
        return low, high, f"profile ({freedom}){rest}", None, []
    arguments = (resamples or 1000, budget, seed)
    cluster, what = (rows.group, "groups") if how == "cluster" else (np.arange(problem.rows), "rows")
    if how == "levels":
        refits = bootstrap.of_levels(problem, theta, further, *arguments)
    elif how == "residual":
        refits = bootstrap.of_residuals(problem, theta, further, *arguments)
    elif problem.rows > MANY_ROWS and not problem.own:
        refits = bootstrap.by_one_step(problem, theta, cluster, resamples or 1000, seed, what)
    else:
        refits = bootstrap.of_clusters(problem, theta, further, cluster, *arguments, what)
    found = []
    if refits.failed:
        found.append(
            Finding(
                "failed-refits",
                f"{refits.failed} of {len(refits.good)} bootstrap refits ({100 * refits.lost:.1f} % by "
                "probability) "
                "did not converge to a single optimum; they are counted as beyond both ends of every "
                "interval.",
            )
        )
    if how in ("levels", "cluster") and refits.clusters < FEW_CLUSTERS:
        low, high = refits.student(centre, confidence)
        student = f"Student t with {refits.clusters - 1} degree(s) of freedom"
        said = f"{refits.said}, standard error x sqrt(C / (C - 1)), {student}"
    else:
        low, high = refits.percentiles(confidence)
        said = f"{refits.said}, percentiles"
    if how == "levels" and np.isfinite(low).all():
        # Two groups that agree by luck would make the interval absurdly narrow.
        agree = [
            name
            for k, name in enumerate(problem.free)
            if name in problem.outer and half[k] > (high[k] - low[k]) / 2
        ]
        if agree:
            found.append(
                Finding(
                    "groups-agree",
                    f"The groups agree better on {', '.join(agree)} than the scatter within them explains: "
                    "that "
                    "interval is the one from the curvature.",
                    tuple(agree),
                )
            )
        low, high = np.minimum(low, centre - half), np.maximum(high, centre + half)
        said += f"; not narrower than {curvature}"
    return low, high, said, refits, found


def _estimates(
    problem: Problem,
    theta: Array,
    low: Array,
    high: Array,
    matrix: Array,
    status: Status,
    traced: list[Profile],
) -> dict[str, Estimate]:
    """Values in the table's units, intervals cut at the parameters' own bounds."""
    centre = problem.mean(theta[None])[0]
    closed = {profile.name: profile.closed for profile in traced}
    good = status in (Status.CONVERGED, Status.AT_BOUND)
    out = {}
    for p in problem.parameters:
        if p.fixed:
            out[p.name] = Estimate(p.lower, (p.lower, p.lower), True, 0.0, p.unit, True)
            continue
        k = problem.free.index(p.name)
        value = float(p.value(centre[k]))
        if p.logarithmic and value in (0, np.inf):
            raise ValueError(
                f"{p.name}: exp({centre[k]:.4g}) is outside the range of float64 in these units; divide the "
                f"columns {', '.join(problem.law.columns)} by a typical value of each."
            )
        ends = max(float(p.value(low[k])), p.lower), min(float(p.value(high[k])), p.upper)
        if not good:
            ends = max(-np.inf, p.lower), min(np.inf, p.upper)
        identified = good and closed.get(p.name, bool(np.isfinite(low[k]) and np.isfinite(high[k])))
        error = float(np.sqrt(matrix[k, k])) if np.isfinite(matrix[k, k]) else float("nan")
        out[p.name] = Estimate(value, ends, bool(identified), error, p.unit)
    return out


def _version() -> str:
    try:
        return importlib.metadata.version("depthlaw")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
