"""The profile of a parameter: how well the law can fit with it held elsewhere.

Symbols: S(v) the lowest total of penalties with the parameter's coordinate held at v, S* the lowest of all.
A value is *compatible* at a confidence where S(v) - S* <= t^2 step, with t Student's quantile and step as
in `_wald`: the profile likelihood interval; for least squares S(v) <= S* (1 + t^2 / nu).
"""

import dataclasses
import math

import numpy as np

from sweeps.laws._law import Array
from sweeps.laws._problem import Problem
from sweeps.laws._solve import Solution, solve
from sweeps.laws._wald import Spread

ROUNDS = 24
CLOSE = 1e-3  # of the height, at which an end is found
FARTHEST = 30.0  # from the optimum, in large changes of the coordinate: there a profile is called flat


@dataclasses.dataclass(frozen=True)
class Profile:
    """One parameter's.

    **Fields:** `name`; `lower`, `upper` ends of the compatible coordinates; `open_below`, `open_above`
    whether that end is a bound, or as far as was looked, and not where the fit gets worse; `at` (k,) values
    that were tried, ascending, `rise` (k,) the square root of (S - S*) / (t^2 step) there, and `theta` (k,
    K) all free coordinates, inner ones averaged over groups.
    """

    name: str
    lower: float
    upper: float
    open_below: bool
    open_above: bool
    at: Array
    rise: Array
    theta: Array

    @property
    def closed(self) -> bool:
        """Whether the rows bound the parameter on both sides."""
        return not (self.open_below or self.open_above)

    def over(self, index: int) -> tuple[float, float]:
        """The range of another coordinate over the compatible values of this one."""
        values = self.theta[self.rise <= 1 + 2 * CLOSE, index]
        return float(values.min()), float(values.max())


@dataclasses.dataclass
class _Side:
    """The search for one end: `good` and `bad` are the outermost compatible and the innermost other value.

    factor: 0, or where the coordinate's unit is not known its value at the optimum: then the search goes by
    the logarithm of the coordinate over that.
    """

    factor: float
    name: str
    place: int
    sign: int
    limit: float
    centre: float
    step: float
    good: float
    good_rise: float
    theta: Array
    bad: float | None = None
    bad_rise: float = np.inf
    done: bool = False
    open: bool = False

    def coordinate(self, value: float) -> float:
        """What a value of the search stands for."""
        return self.factor * math.exp(value) if self.factor else value

    def next(self) -> float:
        """Where to look: farther out, or between the two."""
        if self.bad is None:
            reach = abs(self.good - self.centre)
            # S rises as the square of the distance near the optimum: aim a little beyond 1.
            guess = reach * 1.1 / self.good_rise if self.good_rise > 0.3 else 4 * reach
            out = self.centre + self.sign * max(min(guess, 4 * reach), 1.2 * reach, self.step)
            return min(out, self.limit) if self.sign > 0 else max(out, self.limit)
        width = self.bad - self.good
        share = (1 - self.good_rise) / (self.bad_rise - self.good_rise) if np.isfinite(self.bad_rise) else 0.5
        return self.good + width * min(max(share, 0.1), 0.9)

    def heard(self, value: float, rise: float, theta: Array) -> None:
        """Take in how the fit is there."""
        if rise <= 1:
            self.good, self.good_rise, self.theta = value, rise, theta
            if value == self.limit:
                self.done = self.open = True
            self.done = self.done or rise >= 1 - CLOSE
        else:
            self.bad, self.bad_rise = value, rise
        if self.bad is not None and abs(self.bad - self.good) <= 1e-4 * abs(self.bad - self.centre):
            self.done = True


def profiles(
    problem: Problem,
    best: Solution,
    spread: Spread,
    covariance: Array,
    confidence: float,
    budget: int,
    quick: bool = False,
) -> list[Profile]:
    """The profiles of the free parameters that all groups share, at the solution `best` (one point).

    **Arguments:** `covariance` (K, K), nan where there is none: its standard errors are the first guess.
    `quick`: an end by curvature is taken where the fit there is as much worse as curvature says, within a
    tenth.
    """
    theta, total = best.theta[0], float(best.total[0])
    height = spread.quantile(confidence) ** 2 * spread.step + _rounding(problem)
    if not np.isfinite(height):
        return []
    shared = [name for name in problem.free if problem.places(name).size == 1]
    names = tuple(shared)
    errors = np.sqrt(np.diagonal(covariance))
    tried: dict[str, list[tuple[float, float, Array]]] = {name: [(0.0, 0.0, theta)] for name in names}
    sides = []
    for name in names:
        place = int(problem.places(name)[0])
        at = float(theta[place])
        tried[name] = [(at, 0.0, theta)]
        factor = at if problem.relative[place] else 0.0
        centre, scale = (0.0, 1.0) if factor else (at, max(float(problem.scale[place]), 1e-300))
        error = errors[problem.free.index(name)] / (abs(factor) or 1.0)
        step = spread.quantile(confidence) * error if np.isfinite(error) and error > 0 else 0.1 * scale
        step = min(max(step, 1e-12 * scale), scale)
        for sign in (-1, 1):
            # Of a negative value, more of the logarithm is less of the value.
            bound = problem.lower[place] if (sign < 0) == (factor >= 0) else problem.upper[place]
            if factor:
                bound = math.log(bound / factor) if 0 < bound / factor < math.inf else sign * math.inf
            limit = centre + sign * FARTHEST * scale
            limit = max(limit, bound) if sign < 0 else min(limit, bound)
            side = _Side(factor, name, place, sign, limit, centre, step, centre, 0.0, theta)
            side.done = side.open = limit == centre
            sides.append(side)
    if quick and np.isfinite(covariance).all():
        _by_curvature(problem, sides, theta, total, height, covariance, tried)
    for _ in range(ROUNDS):
        going = [side for side in sides if not side.done]
        if not going:
            break
        values = [side.next() for side in going]
        held = np.array([side.coordinate(value) for side, value in zip(going, values, strict=True)])
        found = _held(problem, going, held, theta, budget)
        for i, side in enumerate(going):
            rise = float(np.sqrt(max(found.total[i] - total, 0.0) / height))
            rise = rise if np.isfinite(rise) else np.inf
            side.heard(values[i], rise, found.theta[i])
            tried[side.name].append((float(held[i]), rise, found.theta[i]))
    out = []
    for j, name in enumerate(names):
        low, high = sides[2 * j], sides[2 * j + 1]
        if low.factor < 0:
            low, high = high, low
        points = sorted(tried[name], key=lambda point: point[0])
        places = np.array([p[0] for p in points])
        rises = np.array([p[1] for p in points])
        means = problem.mean(np.array([p[2] for p in points]))
        ends = low.coordinate(low.good), high.coordinate(high.good)
        out.append(Profile(name, *ends, _open(low), _open(high), places, rises, means))
    return out


def _by_curvature(
    problem: Problem,
    sides: list[_Side],
    theta: Array,
    total: float,
    height: float,
    covariance: Array,
    tried: dict[str, list[tuple[float, float, Array]]],
) -> None:
    """Ends the search on each side where the point that curvature gives for its end is one."""
    points = np.tile(theta, (len(sides), 1))
    for i, side in enumerate(sides):
        k = problem.free.index(side.name)
        points[i] += side.sign * side.step / covariance[k, k] * covariance[k]
    inside = ((points >= problem.lower) & (points <= problem.upper)).all(1)
    inside &= np.array([not side.factor for side in sides])
    for i in map(int, np.flatnonzero(inside)):
        side = sides[i]
        rise = float(np.sqrt(max(problem.at(points[i : i + 1]).total[0] - total, 0.0) / height))
        if abs(rise - 1) < 0.1 and side.step < abs(side.limit - side.centre):
            side.good, side.good_rise, side.theta, side.done = points[i, side.place], rise, points[i], True
            side.bad, side.bad_rise = side.good, rise
            tried[side.name].append((side.good, min(rise, 1.0), points[i]))


def _open(side: _Side) -> bool:
    return side.open or (side.bad is None and not side.done)


def _held(problem: Problem, sides: list[_Side], values: Array, theta: Array, budget: int) -> Solution:
    """The best with one coordinate held for each side, from its outermost good point and the optimum."""
    starts = np.array([point for side in sides for point in (side.theta, theta)])
    lower, upper = (np.tile(bound, (len(starts), 1)) for bound in (problem.lower, problem.upper))
    places = np.repeat([side.place for side in sides], 2)
    rows = np.arange(len(starts))
    lower[rows, places] = upper[rows, places] = np.repeat(values, 2)
    return solve(problem, starts, budget, lower=lower, upper=upper).best(len(sides))


def _rounding(problem: Problem) -> float:
    """A total of penalties that is rounding, not misfit."""
    return float(problem.weights.sum()) * 1e-24
