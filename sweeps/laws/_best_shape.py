"""The shape that a fitted law likes best at a budget.

Symbols: training FLOPs C; shape variables are searched in their logarithms.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from sweeps.laws._designs import Design
from sweeps.laws._expression import Dual, Formula, parse
from sweeps.laws._law import Array
from sweeps.laws._problem import with_limits
from sweeps.laws._result import Fit

GRID = {1: 129, 2: 33}
"""Number of free variables -> points along each, to begin with; 13 for more."""
FINE = 0.02  # step in log shape at which Newton's method takes over
ROUNDS = 200
STEP = 1e-3  # in log shape, of differences: what they leave out moves an optimum by about 1e-7


def losses(fit: Fit, columns: tuple[str, ...], draws: bool) -> Callable[[Mapping[str, Array]], Array]:
    """The law as a function of columns (n,) or (B, n), giving (B, n): by the estimates first, then, with
    `draws`, by each of the fit's replicates.

    **Raises:** ValueError where the law needs a column that is not among `columns`, or the fit is no optimum.
    """
    missing = [name for name in fit.law.columns if name not in columns]
    if missing:
        raise ValueError(
            f"the law {fit.law.name} needs the column {missing[0]!r}, and the design gives "
            f"{', '.join(columns)}; use a design that gives it."
        )
    if not fit.trusted:
        raise ValueError(f"the fit is no optimum ({fit.status}), so nothing can be allocated by it.")
    values = {}
    for p in with_limits(fit.law.parameters, fit.limits):
        at = np.array([fit.estimates[p.name]])
        if draws and fit.replicates and p.name in fit.free:
            drawn = np.array(fit.replicates)[:, fit.free.index(p.name)]
            at = np.concatenate([at, p.value(drawn)])
        values[p.name] = Dual(at[:, None], {})
    tree = parse(fit.law.formula)

    def loss(at: Mapping[str, Array]) -> Array:
        mine = {name: np.asarray(at[name], dtype=np.float64) for name in fit.law.columns}
        with np.errstate(all="ignore"):
            value = Formula(tree, mine).at(values).value
        return np.where(np.isfinite(value), value, np.inf)

    return loss


@dataclasses.dataclass(frozen=True)
class Optima:
    """The best shape by the estimates, and by each replicate: B of them.

    **Fields:** `columns` name -> (B,) of the design there; `loss` (B,); `edge` (B,) whether it is an end of
    what was looked at, and so no optimum.
    """

    columns: dict[str, Array]
    loss: Array
    edge: Array


def optimum(
    fit: Fit, design: Design, flops: float, variant: Mapping[str, float], draws: bool = True
) -> Optima:
    """The shape of lowest loss at a budget: a grid in log shape, finer around its best, then Newton's method.

    **Raises:** ValueError as `losses`, and for a budget that is no positive number.
    """
    if not (math.isfinite(flops) and flops > 0):
        raise ValueError(f"budget: {flops} is not a finite number of FLOPs > 0.")
    low, high = np.log(np.array(design.ranges(flops), dtype=np.float64)).T
    size = low.size

    def columns(at: Array) -> dict[str, Array]:
        return columns_at(design, flops, variant, *np.exp(np.moveaxis(at, -1, 0)))

    law = losses(fit, tuple(columns(low)), draws)

    def loss(at: Array) -> Array:
        return law(columns(at))

    count = GRID.get(size, 13)
    axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, size)
    best = grid[loss(grid).argmin(axis=1)]

    step = np.tile((high - low) / (count - 1), (len(best), 1))
    around = np.array(list(itertools.product((0.0, -1.0, 1.0), repeat=size)))  # where it is first: ties stay
    for _ in range(ROUNDS):
        if (step <= FINE).all():
            break
        points = np.clip(best[:, None] + step[:, None] / 2 * around, low, high)
        which = loss(points).argmin(axis=1)
        stay = np.abs(around[which]).max(axis=1) == 0
        best = points[np.arange(len(best)), which]
        step[stay] /= 2
    fine = _newton(loss, best, low, high)
    better = loss(fine[:, None])[:, 0] < loss(best[:, None])[:, 0]
    best = np.where(better[:, None], fine, best)
    edge = ((best - low <= FINE) | (high - best <= FINE)).any(axis=1)
    return Optima(columns(best), loss(best[:, None])[:, 0], edge)


def columns_at(design: Design, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
    """The design's columns, those that it gives as one number repeated."""
    found = design.columns(flops, variant, *shape)
    return {name: np.broadcast_to(np.asarray(v, np.float64), np.shape(shape[0])) for name, v in found.items()}


def _newton(loss: Callable[[Array], Array], best: Array, low: Array, high: Array) -> Array:
    """Newton's steps from points (B, K), each at most ten times FINE, where the loss is convex."""
    size = best.shape[1]
    unit = STEP * np.eye(size)
    pairs = list(itertools.combinations(range(size), 2))
    corners = [a * unit[i] + b * unit[j] for i, j in pairs for a in (1, -1) for b in (1, -1)]
    around = np.concatenate([np.zeros((1, size)), unit, -unit, *([np.array(corners)] if corners else [])])
    for _ in range(20):
        value = loss(best[:, None] + around)
        with np.errstate(invalid="ignore"):
            plus, minus = value[:, 1 : size + 1], value[:, size + 1 : 2 * size + 1]
            gradient = (plus - minus) / (2 * STEP)
            matrix = np.zeros((len(best), size, size))
            k = np.arange(size)
            matrix[:, k, k] = (plus + minus - 2 * value[:, :1]) / STEP**2
            for place, (i, j) in enumerate(pairs):
                four = value[:, 2 * size + 1 + 4 * place :][:, :4]
                cross = four[:, 0] - four[:, 1] - four[:, 2] + four[:, 3]
                matrix[:, i, j] = matrix[:, j, i] = cross / (4 * STEP**2)
        finite = np.isfinite(matrix).all((1, 2)) & np.isfinite(gradient).all(1)
        convex = np.zeros(len(best), dtype=bool)
        convex[finite] = np.linalg.eigvalsh(matrix[finite])[:, 0] > 0
        move = np.zeros_like(best)
        if convex.any():
            move[convex] = -np.linalg.solve(matrix[convex], gradient[convex][..., None])[..., 0]
        move = np.clip(move, -10 * FINE, 10 * FINE)
        best = np.clip(best + move, low, high)
        if np.abs(move).max() < 1e-10:
            break
    return best
