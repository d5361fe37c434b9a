"""Points to start from: the shape of the law at random, its amplitudes by least squares of what that leaves.

Symbols: m amplitudes a_j, L = sum_j a_j phi_j(shape) + rest(shape); amplitudes minimise the sum of squared
relative errors, none below zero. So the starts are where the data are, in whatever units, and the same for
every unit.
"""

import numpy as np

from sweeps.laws._expression import Dual, amplitudes
from sweeps.laws._law import Array
from sweeps.laws._problem import Problem

SWEEPS = 30
SMALLEST = 1e-4  # of the typical loss, that a term has in a start


def draw(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """Coordinates (count, P)."""
    factors = [
        p.name for p in problem.parameters if p.name in amplitudes(problem.law.formula, problem.law.columns)
    ]
    shapes = {
        p.name: _shape(problem, p.name, count, rng) for p in problem.parameters if p.name not in factors
    }
    found: dict[str, Array] = {}
    if factors:
        found = _amplitudes(problem, factors, shapes, count)
    values = {**shapes, **found}
    out = []
    for name in problem.free:
        p = problem.parameter(name)
        value = np.clip(values[name], p.lower, p.upper)
        out.append(np.log(np.maximum(value, 1e-300)) if p.logarithmic else value)
    return np.clip(problem.spread(np.stack(out, axis=1)), problem.lower, problem.upper)


def _shape(problem: Problem, name: str, count: int, rng: np.random.Generator) -> Array:
    p = problem.parameter(name)
    if p.fixed:
        return np.full(count, p.lower)
    if p.likely is not None:
        low, high = max(p.likely[0], p.lower), min(p.likely[1], p.upper)
        if low >= high:  # the bounds are elsewhere
            low, high = (
                end if np.isfinite(end) else other
                for end, other in ((p.lower, p.upper - 1), (p.upper, p.lower + 1))
            )
        return rng.uniform(low, high, count)
    if np.isfinite(p.lower) and np.isfinite(p.upper):
        return rng.uniform(p.lower, p.upper, count)
    # Nothing is known of it: a pure number, a value of a column, or one over that.
    columns = [problem.formula.columns[c] for c in problem.law.columns]
    drawn = np.stack([rng.choice(column, count) for column in columns])
    choices = np.concatenate([rng.uniform(0.05, 2.5, (1, count)), drawn, 1 / drawn])
    return choices[rng.integers(0, len(choices), count), np.arange(count)]


def _amplitudes(problem: Problem, names: list[str], shapes: dict[str, Array], count: int) -> dict[str, Array]:
    step = max(1, 200_000 // problem.rows)
    parts = []
    with np.errstate(all="ignore"):
        for at in range(0, count, step):
            some = {name: value[at : at + step] for name, value in shapes.items()}
            parts.append(_projected(problem, names, some, min(step, count - at)))
    return dict(zip(names, np.concatenate(parts).T, strict=True))


def _projected(problem: Problem, names: list[str], shapes: dict[str, Array], count: int) -> Array:
    """Amplitudes (count, m) for shapes (count,)."""
    duals = {name: Dual(value[:, None], {}) for name, value in shapes.items()}
    for name in names:
        duals[name] = Dual(np.ones((count, 1)), {name: np.ones((1, 1))})
    found = problem.formula.at(duals)
    relative = np.sqrt(problem.weights) / problem.loss
    if not problem.objective.of_logs:
        relative = np.sqrt(problem.weights) / problem.unit
    basis = np.stack([np.broadcast_to(found.slopes[name], (count, problem.rows)) for name in names], axis=1)
    rest = np.broadcast_to(found.value, (count, problem.rows)) - basis.sum(1)
    # Each term as a share of the typical loss, so that small and large amplitudes are alike.
    size = np.sqrt(((basis * relative) ** 2).mean(-1, keepdims=True))
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    scaled = basis * (relative / size)
    wanted = (problem.loss - rest) * relative
    normal = scaled @ scaled.transpose(0, 2, 1)
    right = (scaled @ wanted[..., None])[..., 0]
    typical = np.sqrt((relative * problem.loss) ** 2).mean()
    lower = np.array([SMALLEST * typical if problem.parameter(name).logarithmic else 0.0 for name in names])
    free_sign = np.array([problem.parameter(name).lower < 0 for name in names])
    lower = np.where(free_sign, -np.inf, lower)
    fixed = {name: problem.parameter(name).lower for name in names if problem.parameter(name).fixed}
    a = np.full((count, len(names)), typical / len(names))
    for j, name in enumerate(names):
        if name in fixed:
            a[:, j] = fixed[name] * size[:, j, 0]
    for _ in range(SWEEPS):  # coordinate descent, which keeps the bounds
        for j, name in enumerate(names):
            if name in fixed:
                continue
            slope = (normal[:, j] * a).sum(1) - right[:, j]
            a[:, j] = np.maximum(a[:, j] - slope / np.maximum(normal[:, j, j], 1e-300), lower[j])
    return np.nan_to_num(a / size[..., 0], nan=1.0)
