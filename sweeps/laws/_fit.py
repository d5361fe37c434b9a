"""From a table to a fit: read, solve from many starts, judge, put intervals on it."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.laws import _diagnosis as diagnosis
from sweeps.laws._intervals import INTERVALS, Certainty, certainty
from sweeps.laws._law import ArgumentError, Law
from sweeps.laws._objective import LogSquares, Objective
from sweeps.laws._optimum import Optimum, Status, find
from sweeps.laws._problem import Problem, build, with_limits
from sweeps.laws._result import Estimate, Fit, Provenance
from sweeps.laws._row_checks import of_rows
from sweeps.laws._table import Label, Rows, Table, group_columns, read

LARGEST_LOG = 700.0


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
      pairs, or by profile for fewer than 24 rows), "pairs", "cluster", "residual", "profile", "wald" or
      "none".
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
    if not isinstance(objective, Objective):
        raise ArgumentError(f"objective: {objective!r} is none; give e.g. LogSquares() or Huber(1e-3).")
    own = (own,) if isinstance(own, str) else own
    _check(confidence, interval, resamples, starts, refit_starts, budget, seed)
    columns = group_columns(group, table)
    limits = {name: (float(value), float(value)) for name, value in (fix or {}).items()}
    twice = set(limits) & set(bounds or {})
    if twice:
        raise ArgumentError(f"{sorted(twice)[0]!r} is fixed and bounded; do one of the two.")
    limits |= {name: (float(low), float(high)) for name, (low, high) in (bounds or {}).items()}
    parameters = with_limits(law.parameters, limits)
    own = ((law.level,) if law.level else ()) if own is None else tuple(own)
    for name in own:
        if name not in [p.name for p in parameters]:
            raise ArgumentError(f"own: {name!r} is no parameter of the law {law.name}.")
    rows = read(law, table, columns, weights, noise, drop_top)
    problem = build(law, parameters, rows, objective, own)
    if not problem.free:
        raise ArgumentError("every parameter is fixed: nothing is left to fit.")
    _enough(problem, law, rows)

    optimum = find(law, rows, problem, starts, budget, seed)
    known = certainty(optimum, interval, confidence, resamples, refit_starts, seed)
    found = of_rows(law, rows, table, columns)  # type: ignore[arg-type]  # a table is a mapping here
    found = diagnosis.of_optimum(optimum) + found + list(known.findings)
    if optimum.good:
        found += diagnosis.of_profiles(problem, known.profiles, law.headline, confidence)
        found += diagnosis.of_residuals(optimum, known.covariance)
    return Fit(
        law=law,
        limits=limits,
        objective_kind=objective,
        parameters=_estimates(optimum, known),
        levels=_levels(optimum),
        status=optimum.status,
        objective=optimum.total * problem.reported,
        gradient_norm=float(optimum.solution.gradient[0]),
        confidence=confidence,
        interval_method=known.method,
        degrees_of_freedom=optimum.freedom,
        diagnosis=tuple(found),
        weights=weights,
        noise=noise,
        drop_top=drop_top,
        free=problem.free,
        covariance=tuple(map(tuple, known.covariance.tolist())),
        replicates=tuple(map(tuple, known.replicates.tolist())),
        failed_share=known.failed,
        few_freedom=known.few,
        ranges={
            name: (float(rows.columns[name].min()), float(rows.columns[name].max())) for name in law.columns
        },
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


LEAST_RESAMPLES = 20
"""Of so few refits a standard error is known to 16 %."""


def _check(
    confidence: float,
    interval: str,
    resamples: int | None,
    starts: int,
    refit_starts: int,
    budget: int,
    seed: int,
) -> None:
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence: {confidence} is not between 0 and 1; give e.g. 0.95.")
    if interval not in INTERVALS:
        raise ArgumentError(f"interval: {interval!r} is unknown; there are {', '.join(INTERVALS)}.")
    for name, value in (("resamples", resamples), ("starts", starts), ("budget", budget)):
        if value is not None and value < 1:
            raise ArgumentError(f"{name}: {value} is less than 1; give a positive whole number.")
    if resamples is not None and resamples < LEAST_RESAMPLES:
        told = f"resamples: {resamples} are too few for an interval"
        raise ArgumentError(f"{told}; give {LEAST_RESAMPLES} or more (1000 is usual).")
    if seed < 0:
        raise ArgumentError(f"seed: {seed} is less than 0; give a whole number from 0 up.")
    if refit_starts < 0:
        raise ArgumentError(f"refit_starts: {refit_starts} is less than 0; give a whole number from 0 up.")


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
                "out, or take rows as independent (group=None, --group none)."
            )


def _levels(optimum: Optimum) -> dict[str, dict[Label | None, float]]:
    """What groups have for themselves, in the table's units."""
    problem = optimum.problem
    if not problem.own:
        return {}
    inner = problem.split(optimum.solution.theta)[0][0]
    values = {name: problem.parameter(name).value(inner[:, i]) for i, name in enumerate(problem.inner)}
    return {n: dict(zip(optimum.rows.labels, value.tolist(), strict=True)) for n, value in values.items()}


def _estimates(optimum: Optimum, known: Certainty) -> dict[str, Estimate]:
    """Values in the table's units, intervals cut at the parameters' own bounds."""
    problem = optimum.problem
    centre = problem.mean(optimum.solution.theta)[0]
    errors = np.sqrt(np.diagonal(known.covariance))
    out = {}
    for p in problem.parameters:
        if p.fixed:
            out[p.name] = Estimate(p.lower, (p.lower, p.lower), True, 0.0, p.unit, True)
            continue
        k = problem.free.index(p.name)
        value = float(p.value(centre[k]))
        drifted = optimum.status is Status.DEGENERATE  # units are not the cause
        if p.logarithmic and not drifted and (centre[k] > LARGEST_LOG or value == 0):
            raise ValueError(
                f"{p.name}: exp({centre[k]:.4g}) is outside the range of float64 in these units; divide the "
                f"columns {', '.join(problem.law.columns)} by a typical value of each."
            )
        low, high = float(p.value(known.low[k])), float(p.value(known.high[k]))
        identified = optimum.good and known.bounded(p.name, k)
        ends = max(low, p.lower), min(high, p.upper)
        out[p.name] = Estimate(value, ends, identified, float(errors[k]), p.unit)
    return out


def _version() -> str:
    try:
        return importlib.metadata.version("depthlaw")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
