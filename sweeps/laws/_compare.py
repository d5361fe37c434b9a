"""Which of several laws a table speaks for: held-out error for any, a ratio test where one contains another.

Symbols: rows i with weight w, residual s and penalty rho(s); S the weighted sum of penalties; candidate 0
inside candidate 1, which has q parameters more and nu degrees of freedom. The statistic is

    F = (S_0 - S_1) / (q step),    step = (sum w rho'^2 / nu) / (2 sum w rho'' / sum w)

at candidate 1, compared with F(q, nu): for least squares the usual ((S_0 - S_1) / q) / (S_1 / nu), for
another penalty the robust ratio test (Huber, Robust Statistics, 1981, section 7.6); `step` is that of
`_wald`, so a value is rejected where the profile interval of the same confidence leaves it out.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from scipy import stats

from sweeps.laws._fit import fit
from sweeps.laws._law import Array, Index, Law, Parameter
from sweeps.laws._objective import LogSquares, Objective
from sweeps.laws._problem import Problem, build, with_limits
from sweeps.laws._result import Fit
from sweeps.laws._solve import Solution, solve
from sweeps.laws._starts import draw
from sweeps.laws._table import Rows, Table, group_columns, read
from sweeps.laws._wald import spread

LEVEL = 0.05


@final
@dataclasses.dataclass(frozen=True)
class Candidate:
    """A law with what is fixed and bounded, e.g. `Candidate("phi = 1", LoopedLaw(), fix={"phi": 1})`."""

    name: str
    law: Law
    fix: Mapping[str, float] = dataclasses.field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The law's, with these bounds."""
        limits = {name: (float(value), float(value)) for name, value in self.fix.items()}
        return with_limits(self.law.parameters, {**limits, **self.bounds})


@final
@dataclasses.dataclass(frozen=True)
class Compared:
    """One candidate.

    **Fields:** `fit` to all rows; `held_out` mean penalty of rows that were left out; `rms` root mean square
    of their residuals of log loss; `worse` its held-out error less that of the best candidate, and `error`
    the standard error of that difference, over the units that were left out.
    """

    candidate: Candidate
    fit: Fit
    held_out: float
    rms: float
    worse: float
    error: float


@final
@dataclasses.dataclass(frozen=True)
class Nested:
    """A test of `narrow` inside `wide`, by name. **Fields:** `statistic` F; `freedom` (q, nu); `p`, nan where
    there is no test, for which there is a `reason`."""

    narrow: str
    wide: str
    statistic: float
    freedom: tuple[int, float]
    p: float
    reason: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the narrow one is, at 5 %."""
        return self.p < LEVEL


@final
@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    **Fields:** `compared`, in the order given; `nested` tests of every pair of which one contains the other;
    `folds`; `units`, the number of things that were left out, and `by`, what they are.
    """

    compared: tuple[Compared, ...]
    nested: tuple[Nested, ...]
    folds: int
    units: int
    by: str

    @property
    def best(self) -> Compared:
        """The candidate of lowest held-out error."""
        return min(self.compared, key=lambda c: math.inf if math.isnan(c.held_out) else c.held_out)

    def worse(self, compared: Compared) -> bool:
        """Whether a candidate's held-out error is above the best one's beyond chance (5 %, Student's t)."""
        return compared.worse > float(stats.t.ppf(1 - LEVEL / 2, self.units - 1)) * compared.error

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict for each candidate; the test is inside the candidate of most free parameters."""
        out = []
        for c in self.compared:
            tests = [test for test in self.nested if test.narrow == c.candidate.name]
            test = max(tests, key=lambda t: t.freedom[0], default=None)
            out.append(
                {
                    "candidate": c.candidate.name,
                    "law": c.candidate.law.equation,
                    "free": len(c.fit.free),
                    "degrees_of_freedom": c.fit.degrees_of_freedom,
                    "status": str(c.fit.status),
                    "objective": c.fit.objective,
                    "held_out": c.held_out,
                    "rms": c.rms,
                    "worse": c.worse,
                    "worse_error": c.error,
                    "best": c is self.best,
                    "inside": test.wide if test else None,
                    "statistic": test.statistic if test else None,
                    "p": test.p if test else None,
                    "rejected": test.rejected if test else None,
                }
            )
        return out

    def sentences(self) -> list[str]:
        """What was found, in words."""
        best = self.best
        out = [
            f"{best.candidate.name} has the lowest held-out error, {100 * best.rms:.3g} % of the loss "
            f"({self.folds} folds over {self.units} {self.by})."
        ]
        for c in self.compared:
            if c is best:
                continue
            if math.isnan(c.held_out):
                out.append(f"{c.candidate.name} could not be fitted in every fold ({c.fit.status}).")
                continue
            verdict = "worse" if self.worse(c) else "not distinguishable from it"
            out.append(
                f"{c.candidate.name} has {100 * c.rms:.3g} %, {verdict} (difference of held-out penalties "
                f"{c.worse:.3g}, standard error {c.error:.3g})."
            )
        for test in self.nested:
            q, nu = test.freedom
            verdict = "rejected" if test.rejected else "not rejected"
            numbers = f"F = {test.statistic:.3g} on {q} and {nu:.0f} degrees of freedom, p = {test.p:.2g}"
            said = test.reason or f"{verdict} at {100 * LEVEL:g} % ({numbers})"
            out.append(f"{test.narrow} within {test.wide}: {said}.")
        return out


def compare(
    candidates: Sequence[Candidate],
    table: Table,
    *,
    group: str | Sequence[str] | None = "seed",
    objective: Objective | None = None,
    folds: int = 5,
    starts: int = 16,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Fits several laws to the same rows and compares them.

    **Arguments:**

    - `candidates`: at least two.
    - `group`, `objective`, `starts`: as in `fit`, for the fits to all rows and those of each fold. `options`:
      `own`, `weights`, `noise`, `drop_top` and `budget` of `fit`.
    - `folds`: parts of the cross-validation, at most as many as there are units. It leaves out whole groups,
      or rows where there are none, or where groups have levels of their own (nothing predicts the level of a
      group that was never seen). `seed`: of the folds and the starts.

    The ratio test takes rows as independent: where rows of a group go together, trust the held-out errors. A
    value that is fixed at a bound of the wider candidate makes it conservative.

    **Raises:** ValueError as `fit`; for fewer than two candidates, two of one name, and fewer than two folds.

    !!! Example

        ```python
        law = LoopedLaw()
        free, none = Candidate("phi free", law), Candidate("phi = 0", law, fix={"phi": 0})
        print(*compare([free, none], table).sentences(), sep="\\n")
        ```

    ??? cite "Reference"

        arXiv:2604.21106 compares phi free, 0 and 1 by R^2 on the rows that were fitted.
    """
    names = [c.name for c in candidates]
    if len(names) < 2:
        raise ValueError(f"candidates: {len(names)} given, but a comparison needs at least two.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"candidates: two are called {twice[0]!r}; give each a name of its own.")
    if folds < 2:
        raise ValueError(f"folds: {folds} is less than 2; give e.g. 5.")
    objective = LogSquares() if objective is None else objective
    options |= {"group": group, "objective": objective, "starts": starts, "seed": seed, "interval": "none"}
    tried = [_tried(c, table, options) for c in candidates]
    rows = tried[0].rows
    order = np.argsort(rows.place)
    whole = len(rows.labels) > 1 and not any(t.problem.own for t in tried)
    fold = _folds(rows, whole, folds, seed)[order]
    unit = (rows.group if whole else np.arange(rows.loss.size))[order]
    weights, loss = rows.weights[order], rows.loss[order]
    mass = weights / weights.sum()

    held = [t.left_out(fold) for t in tried]
    penalties = [objective.penalty(residual) * t.unit**2 for t, residual in zip(tried, held, strict=True)]
    errors = [float(mass @ penalty) for penalty in penalties]
    best = int(np.nanargmin(errors)) if not np.isnan(errors).all() else 0
    compared = []
    for i, t in enumerate(tried):
        with np.errstate(all="ignore"):  # a loss below 0 has no logarithm: the rms is nan then
            logs = held[i] if objective.of_logs else np.log1p(held[i] * t.unit / loss)
        difference = _difference(penalties[i] - penalties[best], weights, unit)
        rms = math.sqrt(float(mass @ logs**2))
        compared.append(Compared(t.candidate, t.fit, errors[i], rms, *difference))
    nested = [_test(a, b) for a, b in itertools.permutations(tried, 2) if _inside(a.candidate, b.candidate)]
    units = int(unit.max()) + 1
    return Comparison(
        tuple(compared), tuple(nested), int(fold.max()) + 1, units, "groups" if whole else "rows"
    )


@dataclasses.dataclass(frozen=True)
class _Tried:
    """A candidate's `fit`, and what it came from: the best end, `solution`, of the starts `begin`."""

    candidate: Candidate
    fit: Fit
    rows: Rows
    problem: Problem
    begin: Array
    solution: Solution
    budget: int

    @property
    def unit(self) -> float:
        """Of residuals."""
        return 1.0 if self.problem.objective.of_logs else self.problem.unit

    def left_out(self, fold: Index) -> Array:
        """Residual of each row at the optimum of the other folds, all folds solved side by side; nan where
        that is no optimum. Both `fold` (n,) and the residuals are in the order of the table.
        """
        # The canonical order of rows depends on the law's columns, so that candidates differ in it.
        order = np.argsort(self.rows.place)
        mine = np.empty_like(fold)
        mine[order] = fold
        count = int(fold.max()) + 1
        kept = np.arange(count)[:, None] != mine
        starts = np.concatenate([self.solution.theta, self.begin])
        weights = np.repeat(kept * self.problem.weights, len(starts), axis=0)
        ends = solve(self.problem, np.tile(starts, (count, 1)), self.budget, weights=weights).best(count)
        found = np.where(ends.converged[:, None], self.problem.at(ends.theta).residual, np.nan)
        return found[mine, np.arange(mine.size)][order]


def _tried(c: Candidate, table: Table, options: dict[str, Any]) -> _Tried:
    try:
        found = fit(c.law, table, fix=c.fix, bounds=c.bounds, **options)
    except ValueError as error:
        raise ValueError(f"candidate {c.name!r}: {error}") from None
    columns = group_columns(options["group"], table)
    rows = read(c.law, table, columns, found.weights, found.noise, found.drop_top)
    own = options.get("own")
    own = ((c.law.level,) if c.law.level else ()) if own is None else tuple(own)
    problem = build(c.law, c.parameters, rows, options["objective"], own)
    begin = draw(problem, options["starts"], np.random.default_rng(options["seed"]))
    budget = options.get("budget", 300)
    return _Tried(c, found, rows, problem, begin, solve(problem, begin, budget).best(1), budget)


def _folds(rows: Rows, whole: bool, folds: int, seed: int) -> Index:
    """The fold (n,) of each row: of its group, or by rows in turn, those of a group spread over all folds."""
    rng = np.random.default_rng(seed)
    if whole:
        return (rng.permutation(len(rows.labels)) % folds)[rows.group]
    order = np.lexsort((rng.permutation(rows.loss.size), rows.group))
    fold = np.empty(rows.loss.size, dtype=np.intp)
    fold[order] = np.arange(rows.loss.size) % folds
    return fold


def _difference(penalty: Array, weights: Array, unit: Index) -> tuple[float, float]:
    """Weighted mean of differences, and its standard error over units."""
    sums, masses = np.bincount(unit, weights * penalty), np.bincount(unit, weights)
    mean = float(sums.sum() / masses.sum())
    spread = float(((sums - mean * masses) ** 2).sum()) * sums.size / (sums.size - 1)
    return mean, math.sqrt(spread) / float(masses.sum())


def _inside(narrow: Candidate, wide: Candidate) -> bool:
    """Whether the narrow candidate is the wide one with more of its parameters fixed."""
    if (narrow.law.formula, narrow.law.columns) != (wide.law.formula, wide.law.columns):
        return False
    pairs = [(p, q) for p, q in zip(narrow.parameters, wide.parameters, strict=True)]
    differ = [(p, q) for p, q in pairs if (p.lower, p.upper) != (q.lower, q.upper)]
    return bool(differ) and all(p.fixed and q.lower <= p.lower <= q.upper for p, q in differ)


def _test(narrow: _Tried, wide: _Tried) -> Nested:
    q = narrow.fit.degrees_of_freedom - wide.fit.degrees_of_freedom
    scatter = spread(wide.problem, wide.solution.theta[0])
    total_0, total_1 = float(narrow.solution.total[0]), float(wide.solution.total[0])
    reason = ""
    if not (narrow.fit.trusted and wide.fit.trusted):
        reason = f"no test, the fits are {narrow.fit.status} and {wide.fit.status}"
    elif total_0 < total_1 * (1 - 1e-6):
        reason = "no test, the wider law fits worse than what it contains; raise starts"
    elif not scatter.step > 0:
        reason = "no test, nothing is known of the scatter: no degree of freedom, or no residual below delta"
    statistic = math.nan if reason else max(total_0 - total_1, 0.0) / scatter.step / q
    known = math.isinf(scatter.freedom)
    p = float(stats.chi2.sf(q * statistic, q) if known else stats.f.sf(statistic, q, scatter.freedom))
    return Nested(narrow.candidate.name, wide.candidate.name, statistic, (q, scatter.freedom), p, reason)
