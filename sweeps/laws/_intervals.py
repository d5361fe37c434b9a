"""Standard errors of the law's coordinates: from the residuals, and from a bootstrap over groups.

Symbols: G groups, P coordinates of the problem of which p are free, n rows, K parameters.

Why not the percentiles of the bootstrap: with G groups it has C(2G - 1, G) distinct resamples, three for
G = 2, and its variance is too small by (G - 1)/G. For G <= 8 its percentile interval covers far less than it
says. So the bootstrap gives a standard error, scaled by sqrt(G / (G - 1)), and Student's t with G - 1
degrees of freedom gives the width; for balanced rows and a floor fixed at 0 that is exactly the t interval
of the exponents of the groups.

Why a second interval: two groups that agree by luck would make the first absurdly narrow. The scatter of rows
within groups is a lower bound on what is unknown, so no interval is narrower than that from the residuals
with a level for each group.

Coverage of the 95 % interval of alpha in simulation (tests/sweeps/laws/test_law_coverage.py; six depths,
noise 0.05, 1200 tables, 300 for eight groups; "spread" is the standard deviation of alpha between groups, one
group's own standard error being 0.035):

| L_0 | spread | G = 1 | 2 | 3 | 4 | 8 |
|---|---|---|---|---|---|---|
| fixed at 0 | 0 | 0.950 | 0.988 | 0.987 | 0.983 | 0.990 |
| fixed at 0 | 0.035 | | 0.976 | 0.959 | 0.965 | 0.973 |
| fixed at 0 | 0.15 | | 0.948 | 0.943 | 0.952 | 0.947 |
| free, true 0.02 | 0 | 0.964 | 0.996 | 0.993 | 0.984 | 0.957 |
| free, true 0.02 | 0.035 | | 0.996 | 0.993 | 0.984 | 0.960 |
| free, true 0.02 | 0.15 | | 0.988 | 0.977 | 0.935 | **0.71** |

So it covers too much where groups do not differ, which is the price of the second interval; and a free L_0
shared by groups whose exponents differ widely biases alpha, which `_diagnosis.differences` says in a note.
"""

import dataclasses
import itertools
import math

import numpy as np
from scipy import stats

from sweeps.laws._law import Array, Law
from sweeps.laws._problem import Problem
from sweeps.laws._solution import SINGULAR_BELOW, best_of
from sweeps.laws._solve import solve

FAILED_AT_MOST = 0.05  # of the bootstrap's probability, above which it gives no standard error


@dataclasses.dataclass(frozen=True)
class Errors:
    """Standard errors of the K coordinates and the degrees of freedom of their Student t.

    **Fields:** `error` (K,), infinite where there is none; `freedom`; `method` in words; `notes` sentences.
    """

    error: Array
    freedom: int
    method: str
    notes: tuple[str, ...] = ()

    def half(self, confidence: float) -> Array:
        """Half-widths (K,) of the intervals."""
        return self.error * (stats.t.ppf((1 + confidence) / 2, self.freedom) if self.freedom > 0 else 1.0)


def nothing(law: Law, why: str, notes: tuple[str, ...] = ()) -> Errors:
    """No interval for any parameter."""
    return Errors(np.full(len(law.parameters), np.inf), 0, f"none: {why}", notes)


def from_residuals(problem: Problem, theta: Array, objective: float) -> Errors:
    """Student t from the residuals, by the delta method: the Jacobian at the solution (P,).

    A coordinate on its bound is treated as free, which makes the interval too wide rather than too narrow.
    """
    free = problem.lower < problem.upper
    freedom = problem.log_loss.size - int(free.sum())
    if freedom < 1:
        return nothing(problem.law, "as many parameters as rows")
    jacobian = problem.jacobian(theta[None])[0][:, free]
    length = np.sqrt((jacobian**2).sum(0))
    _, values, right = np.linalg.svd(jacobian / np.where(length > 0, length, np.inf), full_matrices=False)
    if values[-1] <= SINGULAR_BELOW * values[0]:
        return nothing(problem.law, "the Jacobian is singular at the solution")
    share = np.full(problem.groups, 1 / problem.groups)
    contrast = (problem.matrix @ problem.averaging(share))[:, free] / length
    error = math.sqrt(objective / freedom) * np.sqrt(((contrast @ right.T / values) ** 2).sum(1))
    method = f"from the residuals (delta method, Student t with {freedom} degrees of freedom)"
    return Errors(error, freedom, method)


def from_groups(
    problem: Problem, theta: Array, starts: Array, resamples: int, budget: int, seed: int
) -> Errors:
    """Bootstrap over the G >= 2 groups, each with its level: standard error, Student t with G - 1.

    Every distinct resample is solved and weighted by its probability when there are at most `resamples` of
    them (G <= 7 for 2000); otherwise `resamples` are drawn from `seed`.

    **Arguments:** `theta` (P,) the solution; `starts` (s, P) further points to start each refit from.
    """
    groups = problem.groups
    counts, probability, said = _resamples(groups, resamples, seed)
    sets = counts.shape[0]
    candidates = np.concatenate([theta[None], starts])
    repeated = np.repeat(counts, candidates.shape[0], axis=0)
    level = problem.index[[p.name for p in problem.law.parameters].index(problem.law.level)]
    # The level of a group that was not drawn has no rows: hold it where it is.
    absent = np.zeros((repeated.shape[0], theta.size), dtype=bool)
    absent[:, level.min() : level.min() + groups] = repeated == 0
    refit = best_of(
        solve(
            problem,
            np.where(absent, theta, np.tile(candidates, (sets, 1))),
            budget,
            lower=np.where(absent, theta, problem.lower),
            upper=np.where(absent, theta, problem.upper),
            weights=repeated[:, level - level.min()],
        ),
        sets,
    )
    good = refit.converged
    lost = float(probability[~good].sum())
    notes: tuple[str, ...] = ()
    if lost > 0:
        end = "they are left out of the standard error."
        if lost > FAILED_AT_MOST:
            end = "too many for a standard error over groups, so no interval is given."
        notes = (
            f"{int((~good).sum())} of {sets} bootstrap refits ({100 * lost:.1f} % by probability) did not "
            f"converge to a single optimum; {end}",
        )
    if lost > FAILED_AT_MOST:
        return nothing(problem.law, "too many bootstrap refits failed", notes)
    natural = problem.natural(refit.theta, counts / groups)[good]
    chance = probability[good] / probability[good].sum()
    variance = chance @ (natural - chance @ natural) ** 2
    method = (
        f"bootstrap over {groups} groups ({said}), standard error x sqrt(n / (n - 1)), Student t with "
        f"{groups - 1} degree(s) of freedom"
    )
    return Errors(np.sqrt(variance * groups / (groups - 1)), groups - 1, method, notes)


def wider(between: Errors, within: Errors, law: Law, confidence: float) -> tuple[Array, tuple[str, ...]]:
    """Half-widths (K,), each the wider of two, and what the comparison of the two says."""
    notes = list(between.notes)
    halves = between.half(confidence), within.half(confidence)
    both = np.isfinite(between.error) & np.isfinite(within.error) & (within.error > 0)
    shared = [k for k, p in enumerate(law.parameters) if both[k] and not p.fixed and p.name != law.level]
    agree = [law.parameters[k].name for k in shared if halves[1][k] > halves[0][k]]
    if agree:
        notes.append(
            f"The groups agree better on {', '.join(agree)} than the scatter within them explains: that "
            "interval is the one from the residuals."
        )
    return np.maximum(*halves), tuple(notes)


def _resamples(groups: int, resamples: int, seed: int) -> tuple[Array, Array, str]:
    """How often each group is drawn (R, G), the probability of each resample (R,), and how they were got."""
    distinct = math.comb(2 * groups - 1, groups)
    if distinct <= resamples:
        drawn = np.array(list(itertools.combinations_with_replacement(range(groups), groups)))
        counts = (drawn[:, :, None] == np.arange(groups)).sum(1).astype(np.float64)
        ways = [math.factorial(groups) / math.prod(math.factorial(int(c)) for c in row) for row in counts]
        return counts, np.array(ways) / groups**groups, f"all {distinct} distinct resamples"
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=resamples).astype(np.float64)
    return counts, np.full(resamples, 1 / resamples), f"{resamples} resamples"
