"""What a budget buys: from FLOPs and a shape to the columns of a law, and the shape that a law likes best.

Symbols: training FLOPs C, parameters N, tokens D, width m (d in looped models), depth l, recurrences r.
A design has free shape variables, searched in their logarithms, and variants, choices tried one by one.
"""

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from sweeps.laws._expression import Dual, Formula, parse
from sweeps.laws._law import Array
from sweeps.laws._problem import with_limits
from sweeps.laws._result import Fit

GRID = {1: 129, 2: 33}
"""Number of free variables -> points along each, to begin with; 13 for more."""

FINE = 0.02  # step in log shape at which Newton's method takes over
ROUNDS = 200
STEP = 1e-3  # in log shape, of differences: what they leave out moves an optimum by about 1e-7


class Design(abc.ABC):
    """How a budget is spent. Subclasses are final, immutable values; one of one's own is three methods.

    !!! Example

        ```python
        @dataclasses.dataclass(frozen=True)
        class Narrow(Design):  # depth 12, C = 6 N D with N = 12 m^2 l
            @property
            def shape(self):
                return ("width",)

            def ranges(self, flops):
                return ((1.0, math.sqrt(flops / (72 * 12))),)  # the widest is trained on one token

            def columns(self, flops, variant, width):
                size = 12 * width**2 * 12
                return {"width": width, "num_params": size, "num_tokens": flops / (6 * size)}
        ```
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[str, ...]:
        """Names of the free variables, all positive; iso-FLOP profiles run along the first."""

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        """Choices, each a name -> value; one empty choice where there is nothing to choose."""
        return ({},)

    @abc.abstractmethod
    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        """Lowest and highest value of each free variable that is looked at."""

    @abc.abstractmethod
    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        """The law's columns, and what else is to be reported, at free variables of one shape.

        **Arguments:** `flops` the budget; `variant` one of `variants`; `shape` the free variables, in order.
        """


@final
@dataclasses.dataclass(frozen=True)
class DenseDesign(Design):
    """A model of N parameters on D tokens, C = 6 N D (Kaplan et al., arXiv:2001.08361, section 2.1)."""

    @property
    def shape(self) -> tuple[str, ...]:
        return ("num_params",)

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return ((1.0, flops / 6),)

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        (size,) = shape
        return {"num_params": size, "num_tokens": flops / (6 * size)}


@final
@dataclasses.dataclass(frozen=True)
class WidthDepthDesign(Design):
    """A transformer of width m and depth l: N = 12 m^2 l without embedding, C = 6 N D."""

    @property
    def shape(self) -> tuple[str, ...]:
        return "width", "depth"

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return (1.0, math.sqrt(flops / 72)), (1.0, flops / 72)

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        width, depth = shape
        size = 12 * width**2 * depth
        return {"width": width, "depth": depth, "num_params": size, "num_tokens": flops / (6 * size)}


@final
@dataclasses.dataclass(frozen=True)
class LoopedDesign(Design):
    r"""A looped transformer: prelude, a block of `layers` / r layers that is run r times, coda.

    $$n_b = 12 d^2, \quad N_\mathrm{once} = (\mathrm{prelude} + \mathrm{coda})\,n_b, \quad
    N_\mathrm{rec} = \tfrac{\mathrm{layers}}{r}\,n_b + n_i$$

    $$C / D = 6\,(N_\mathrm{once} + r N_\mathrm{rec}) + 12\,d\,T\,\ell + 6\,d\,V$$

    with the injection matrix n_i = 2 d^2 where r > 1 (linear injection; 0 for additive and passthrough), and
    l = prelude + coda + layers executed layers; the last term is the head's. Norm scales, embedding and head
    are not counted as parameters; tokens are not rounded to whole batches.

    **Arguments:** `context` T and `vocabulary` V in tokens; `layers`, `prelude`, `coda` in layers;
    `injection` whether it has a matrix; `recurrences` the r to choose from, divisors of `layers`.

    ??? cite "Reference"

        arXiv:2604.21106, the sections on models and on FLOPs.
    """

    context: int = 2048
    vocabulary: int = 32064
    layers: int = 16
    prelude: int = 2
    coda: int = 2
    injection: bool = True
    recurrences: tuple[int, ...] = (1, 2, 4, 8)

    def __post_init__(self) -> None:
        if not self.recurrences or any(r < 1 or self.layers % r for r in self.recurrences):
            raise ValueError(
                f"recurrences: {self.recurrences} are not all divisors of layers = {self.layers}; the block "
                "has layers / r layers, so give divisors."
            )
        for name in ("context", "vocabulary", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name}: {getattr(self, name)} is less than 1; give a positive whole number."
                )

    @property
    def shape(self) -> tuple[str, ...]:
        return ("width",)

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        return tuple({"num_recur": r} for r in self.recurrences)

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return ((1.0, max(math.sqrt(flops / (72 * self.executed)), 2.0)),)

    @property
    def executed(self) -> int:
        """Layers that a token goes through."""
        return self.prelude + self.coda + self.layers

    def flops_per_token(self, width: Array, num_recur: float) -> Array:
        """Training FLOPs."""
        once, recurrent = self._parameters(width, num_recur)
        attention = 12 * width * self.context * self.executed
        return 6 * (once + num_recur * recurrent) + attention + 6 * width * self.vocabulary

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        (width,) = shape
        r = variant["num_recur"]
        once, recurrent = self._parameters(width, r)
        return {
            "width": width,
            "num_once": once,
            "num_recurrent": recurrent,
            "num_recur": np.full_like(width, r),
            "num_params": once + recurrent,
            "num_tokens": flops / self.flops_per_token(width, r),
        }

    def _parameters(self, width: Array, r: float) -> tuple[Array, Array]:
        block = 12 * np.square(width)
        matrix = 2 * np.square(width) if self.injection and r > 1 else 0.0
        return (self.prelude + self.coda) * block, self.layers / r * block + matrix


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
