"""What an optimum is worth: standard errors, profiles, and intervals by one of several ways.

Which way covers how often was measured (tests/sweeps/laws/test_law_coverage.py; LOG.md).
"""

import dataclasses
import math

import numpy as np

from sweeps.laws import _bootstrap as bootstrap
from sweeps.laws._bootstrap import Refits
from sweeps.laws._finding import Finding
from sweeps.laws._law import ArgumentError, Array, Mask
from sweeps.laws._optimum import MANY_ROWS, Optimum
from sweeps.laws._profile import Profile, profiles
from sweeps.laws._wald import Spread, covariance, spread

INTERVALS = ("auto", "pairs", "cluster", "residual", "profile", "wald", "none")
"""The ways to make intervals, by the name that `fit` takes; docs/laws.md says what each covers."""

FEW_CLUSTERS = 40
"""Below this many clusters percentiles of a bootstrap are too narrow, and Student's t is used."""

FEW_ROWS = 24
"""Below this many independent rows they are too, and the profile is used."""

RESAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Certainty:
    """What is known of the K free coordinates.

    **Fields:** `low`, `high` (K,) ends of the intervals, `method` how they were made; `covariance` (K, K),
    nan where there is none; `at_bound` (K,); `profiles`; `replicates` (R, K) refits that ended at an
    optimum, `failed` the share of those that did not, `few` degrees of freedom where clusters are so few that
    intervals are Student's; `findings`.
    """

    low: Array
    high: Array
    method: str
    covariance: Array
    profiles: tuple[Profile, ...] = ()
    at_bound: Mask = dataclasses.field(default_factory=lambda: np.empty(0, dtype=bool))
    replicates: Array = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    failed: float = 0.0
    few: int | None = None
    findings: tuple[Finding, ...] = ()

    def bounded(self, name: str, place: int) -> bool:
        """Whether the rows bound a free parameter, the `place`-th, on both sides: its profile is closed and
        its interval finite; where no intervals were asked for, its standard error is.
        """
        if np.isinf(self.low).all() and np.isinf(self.high).all() and not self.profiles:
            return bool(np.isfinite(self.covariance[place, place])) and not self.at_bound[place]
        closed = all(profile.closed for profile in self.profiles if profile.name == name)
        return closed and bool(np.isfinite(self.low[place]) and np.isfinite(self.high[place]))


def nothing(optimum: Optimum, why: str) -> Certainty:
    """No interval for any parameter."""
    size = len(optimum.problem.free)
    return Certainty(np.full(size, -np.inf), np.full(size, np.inf), why, np.full((size, size), np.nan))


def certainty(
    optimum: Optimum, interval: str, confidence: float, resamples: int | None, refit_starts: int, seed: int
) -> Certainty:
    """Intervals of an optimum, at a confidence; `interval` one of `INTERVALS`."""
    if not optimum.good:
        return nothing(optimum, f"none: the fit is {optimum.status}")
    problem, theta = optimum.problem, optimum.theta
    matrix, scatter = covariance(problem, theta), spread(problem, theta)
    at_bound = problem.mean(optimum.solution.at_bound.astype(np.float64))[0] > 0
    base = dataclasses.replace(nothing(optimum, "none asked for"), covariance=matrix, at_bound=at_bound)
    how = _way(interval, optimum)
    if how == "none":
        return base
    quick = problem.rows > MANY_ROWS and not problem.own
    traced = profiles(problem, optimum.solution, scatter, matrix, confidence, optimum.budget, quick)
    base = dataclasses.replace(base, profiles=tuple(traced))
    centre = problem.mean(theta[None])[0]
    half = scatter.quantile(confidence) * np.sqrt(np.diagonal(matrix))
    half = np.where(np.isfinite(half), half, np.inf)
    curvature = dataclasses.replace(
        base, low=centre - half, high=centre + half, method=_by_curvature(scatter)
    )
    if how == "wald":
        return curvature
    if how == "profile":
        return _of_profiles(curvature, optimum, scatter)
    refits = _refits(how, optimum, resamples or RESAMPLES, refit_starts, seed)
    return _of_refits(how, refits, curvature, optimum, confidence)


def _way(interval: str, optimum: Optimum) -> str:
    own, groups = optimum.problem.own, len(optimum.rows.labels)
    if interval == "auto":
        if own or groups > 1:
            return "levels" if own else "cluster"
        return "pairs" if optimum.problem.rows >= FEW_ROWS else "profile"
    if interval == "cluster" and groups < 2:
        raise ArgumentError("interval: clusters need group to name a column with two or more values.")
    return "levels" if interval == "cluster" and own else interval


def _by_curvature(scatter: Spread) -> str:
    known = np.isinf(scatter.freedom)
    return f"curvature (delta method, {'known noise' if known else _student(int(scatter.freedom))})"


def _student(freedom: int) -> str:
    return f"Student t with {freedom} degree(s) of freedom"


def _of_profiles(curvature: Certainty, optimum: Optimum, scatter: Spread) -> Certainty:
    low, high = curvature.low.copy(), curvature.high.copy()
    for profile in curvature.profiles:
        k = optimum.problem.free.index(profile.name)
        bounds = optimum.problem.bounds(profile.name)  # infinite, mostly
        low[k] = bounds[0] if profile.open_below else profile.lower
        high[k] = bounds[1] if profile.open_above else profile.upper
    said = f"profile ({'known noise' if np.isinf(scatter.freedom) else _student(int(scatter.freedom))})"
    if optimum.problem.own:
        said += f"; {curvature.method} for what groups have of their own"
    return dataclasses.replace(curvature, low=low, high=high, method=said)


def _refits(how: str, optimum: Optimum, resamples: int, refit_starts: int, seed: int) -> Refits:
    problem, theta, rows = optimum.problem, optimum.theta, optimum.rows
    further, budget = optimum.starts[:refit_starts], optimum.budget
    if how == "levels":
        return bootstrap.of_levels(problem, theta, further, resamples, budget, seed)
    if how == "residual":
        return bootstrap.of_residuals(problem, theta, further, resamples, budget, seed)
    cluster, what = (rows.group, "groups") if how == "cluster" else (np.arange(problem.rows), "rows")
    if problem.rows > MANY_ROWS and not problem.own:
        return bootstrap.by_one_step(problem, theta, cluster, resamples, seed, what)
    return bootstrap.of_clusters(problem, theta, further, cluster, resamples, budget, seed, what)


def _of_refits(
    how: str, refits: Refits, curvature: Certainty, optimum: Optimum, confidence: float
) -> Certainty:
    problem, few = optimum.problem, None
    found = []
    if refits.failed:
        found.append(
            Finding(
                "failed-refits",
                f"{refits.failed} of {len(refits.good)} bootstrap refits ({100 * refits.lost:.1f} % by "
                "probability) did not converge to a single optimum; they are counted as beyond both ends of "
                "every interval.",
            )
        )
    if how in ("levels", "cluster") and refits.clusters < FEW_CLUSTERS:
        centre = problem.mean(optimum.theta[None])[0]
        low, high = refits.student(centre, confidence)
        few = refits.clusters - 1
        said = f"{refits.said}, standard error x sqrt(C / (C - 1)), {_student(refits.clusters - 1)}"
    else:
        if len(refits.good) * (1 - confidence) < 2:
            raise ArgumentError(
                f"resamples: {len(refits.good)} are too few for intervals at {confidence:g}; give "
                f"{math.ceil(2 / (1 - confidence))} or more (1000 is usual)."
            )
        low, high = refits.percentiles(confidence)
        said = f"{refits.said}, percentiles"
    if how == "levels":
        # Two groups that agree by luck would make the interval absurdly narrow.
        narrow = (curvature.high - curvature.low > high - low) & np.isfinite(curvature.high)
        agree = [name for k, name in enumerate(problem.free) if name in problem.outer and narrow[k]]
        if agree:
            found.append(
                Finding(
                    "groups-agree",
                    f"The groups agree better on {', '.join(agree)} than the scatter within them explains: "
                    "that interval is the one from the curvature.",
                    tuple(agree),
                )
            )
        low, high = np.minimum(low, curvature.low), np.maximum(high, curvature.high)
        said += f"; not narrower than {curvature.method}"
    for profile in curvature.profiles:  # refits that stay on a bound say nothing of how far off it rows reach
        k = problem.free.index(profile.name)
        if curvature.at_bound[k]:
            low[k], high[k] = min(low[k], profile.lower), max(high[k], profile.upper)
    return dataclasses.replace(
        curvature,
        low=low,
        high=high,
        method=said,
        replicates=refits.drawn(RESAMPLES),
        failed=refits.lost,
        few=few,
        findings=tuple(found),
    )
