"""Iso-FLOP profiles by a fitted law, and what a parabola through one gets wrong.

Symbols: budget C in FLOPs, parameters N.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from sweeps.laws._best_shape import Optima, columns_at, optimum
from sweeps.laws._designs import Design
from sweeps.laws._law import Array
from sweeps.laws._result import Fit


@dataclasses.dataclass(frozen=True)
class _Held(Design):
    """A design with its first free variable held at a value."""

    design: Design
    value: float

    @property
    def shape(self) -> tuple[str, ...]:
        return self.design.shape[1:]

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return self.design.ranges(flops)[1:]

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        return self.design.columns(flops, variant, np.full_like(shape[0], self.value), *shape)


@final
@dataclasses.dataclass(frozen=True)
class IsoFlop:
    """The loss along one shape variable at one budget, all others at their best.

    **Fields:** `flops`; `variant`; `along` the variable; `columns` name -> (n,) of the design; `loss`,
    `lower`, `upper` (n,) the law and the interval of its value, nan where the fit has none; `best` the law's
    optimum.
    """

    flops: float
    variant: Mapping[str, float]
    along: str
    columns: dict[str, Array]
    loss: Array
    lower: Array
    upper: Array
    best: Optima


def isoflop(
    fit: Fit,
    design: Design,
    flops: float,
    at: npt.ArrayLike | None = None,
    *,
    variant: Mapping[str, float] | None = None,
    points: int = 9,
    span: float = 3.0,
) -> IsoFlop:
    """An iso-FLOP profile by the law.

    **Arguments:** `at` values of the design's first free variable; if not given, `points` of them in equal
    ratios, from the law's optimum divided by `span` to that times `span`. `variant`: the design's first, if
    not given.

    **Raises:** ValueError as `allocate`, and for values that are not positive.
    """
    variant = design.variants[0] if variant is None else variant
    if set(variant) != set(design.variants[0]):
        raise ValueError(
            f"variant: {dict(variant)} is none of the design; give e.g. {dict(design.variants[0])}."
        )
    best = optimum(fit, design, flops, variant, draws=False)
    along = design.shape[0]
    if at is None:
        if points < 1 or not span > 1:
            raise ValueError(f"points = {points}, span = {span}: give at least 1 point and a factor > 1.")
        at = best.columns[along][0] * np.geomspace(1 / span, span, points)
    values = np.atleast_1d(np.asarray(at, dtype=np.float64))
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"at: every {along} must be finite and > 0.")
    if len(design.shape) > 1:
        found = [optimum(fit, _Held(design, v), flops, variant, draws=False).columns for v in values.tolist()]
        columns = {name: np.concatenate([f[name] for f in found]) for name in found[0]}
    else:
        columns = columns_at(design, flops, variant, values)
    mine = [columns[name] for name in fit.law.columns]
    try:
        lower, upper = fit.interval(*mine)
    except ValueError:  # no replicates and no covariance
        lower, upper = np.full((2, values.size), np.nan)
    return IsoFlop(flops, variant, along, columns, fit.predict(*mine), lower, upper, best)


@final
@dataclasses.dataclass(frozen=True)
class Parabola:
    """loss = `loss` + `bend` (log N - `log_size`)^2 / 2; `inside`: whether its minimum is among the sizes."""

    log_size: float
    loss: float
    bend: float
    inside: bool


def parabola(log_size: npt.ArrayLike, loss: npt.ArrayLike) -> Parabola:
    """The least-squares parabola of losses (n,) over log N (n,), and its minimum.

    So arXiv:2604.21106 and arXiv:2203.15556 (approach 2) read the best size off each budget.

    **Raises:** ValueError for fewer than three different sizes, and points without a minimum.
    """
    x, y = (np.asarray(values, dtype=np.float64) for values in (log_size, loss))
    if x.shape != y.shape or x.ndim != 1 or np.unique(x).size < 3:
        raise ValueError(f"a parabola needs a loss at each of three or more different sizes, not {x.size}.")
    middle, width = x.mean(), np.ptp(x)
    a, b, c = np.polyfit((x - middle) / width, y, 2)
    if not a > 0:
        raise ValueError("the parabola has no minimum: losses do not rise on both sides; add sizes.")
    best = -b / (2 * a)
    place = middle + width * best
    inside = bool(x.min() <= place <= x.max())
    return Parabola(float(place), float(c + b * best / 2), float(2 * a / width**2), inside)


def parabola_bias(profile: IsoFlop, size: str = "num_params") -> dict[str, Any]:
    """What a parabola through a profile gets wrong although nothing is noisy.

    The loss rises more steeply on one side of its minimum than on the other, and a parabola is symmetric.
    With sizes spread evenly about the minimum (in log N) the parabola's lies on the flatter side, by the
    square of the span; with most sizes on one side of it, whichever, on the steeper side.

    **Arguments:** `profile` of `isoflop`, at the sizes that were or will be trained; `size` the column that
    is N.

    **Returns:** `flops`, the variant, `size` and `loss` at the law's optimum, `parabola_size` and
    `parabola_loss` at the parabola's, `log_size_bias` and `loss_bias` the parabola's less the law's, `factor`
    of the size, `inside`.

    **Raises:** ValueError for a size that is no column of the profile, and as `parabola`.

    ??? cite "Reference"

        Parabolas in log N are what arXiv:2604.21106 reads its compute-optimal sizes from.
    """
    if size not in profile.columns:
        raise ValueError(f"size: the design has no {size!r}; it has {', '.join(profile.columns)}.")
    found = parabola(np.log(profile.columns[size]), profile.loss)
    own, loss = float(profile.best.columns[size][0]), float(profile.best.loss[0])
    bias = found.log_size - math.log(own)
    return {
        "flops": profile.flops,
        **profile.variant,
        "size": own,
        "loss": loss,
        "parabola_size": math.exp(found.log_size),
        "parabola_loss": found.loss,
        "log_size_bias": bias,
        "loss_bias": found.loss - loss,
        "factor": math.exp(bias),
        "inside": found.inside,
    }
