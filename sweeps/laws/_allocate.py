"""How to spend a budget by a fitted law: the best size, data and recurrences, and what profiles tell.

Symbols: budget C in FLOPs, parameters N, tokens D, recurrences r. An answer comes with an interval:
percentiles of the same answer by each of the fit's bootstrap replicates, each with an optimum of its own.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from sweeps.laws._designs import Design, Optima, columns_at, optimum
from sweeps.laws._law import Array
from sweeps.laws._result import Fit


@final
@dataclasses.dataclass(frozen=True)
class Allocation:
    """What `allocate` found.

    **Fields:** `budgets` in FLOPs, ascending; `variants` of the design; `optima` one tuple for each budget,
    of one for each variant; `confidence`; `seen` (lowest, highest) budget of the rows fitted, `None` where it
    was not said.
    """

    budgets: tuple[float, ...]
    variants: tuple[Mapping[str, float], ...]
    optima: tuple[tuple[Optima, ...], ...]
    confidence: float
    seen: tuple[float, float] | None

    def rows(self) -> list[dict[str, Any]]:
        """A flat dict for each budget and variant: `flops`, what was chosen, every column of the design at
        the optimum and `loss`, each with `_lower` and `_upper` (nan where the fit has no replicates); `best`
        whether no other variant has a lower loss, `best_share` the share of replicates of which that is true;
        `note`.
        """
        out = []
        for flops, optima in zip(self.budgets, self.optima, strict=True):
            table = np.stack([found.loss for found in optima])
            lowest = table.argmin(axis=0)
            for index, (variant, found) in enumerate(zip(self.variants, optima, strict=True)):
                row: dict[str, Any] = {"flops": flops, **variant}
                for name, values in {**found.columns, "loss": found.loss}.items():
                    if name not in variant:
                        row |= self._with_interval(name, values)
                row["best"] = bool(lowest[0] == index)
                row["best_share"] = float((lowest[1:] == index).mean()) if lowest.size > 1 else math.nan
                row["note"] = " ".join(self._notes(flops, found))
                out.append(row)
        return out

    def exponents(self) -> list[dict[str, Any]]:
        """How the optimum grows, N* proportional to C^a: a dict for each variant and column of the design,
        with the `exponent` (slope of its logarithm on log C over the budgets), `lower` and `upper`.

        **Raises:** ValueError for a single budget.
        """
        if len(self.budgets) < 2:
            raise ValueError("an exponent needs two or more different budgets; give e.g. 1e18 and 1e20.")
        x = np.log(np.array(self.budgets))
        x = x - x.mean()
        out = []
        for index, variant in enumerate(self.variants):
            found = [optima[index] for optima in self.optima]
            for name in found[0].columns:
                if name in variant:
                    continue
                logs = np.log(np.stack([f.columns[name] for f in found]))
                slope = x @ logs / (x @ x)
                ends = self._with_interval("", slope).values()
                row = dict(zip(("exponent", "lower", "upper"), ends, strict=True))
                out.append({**variant, "column": name, **row})
        return out

    def _with_interval(self, name: str, values: Array) -> dict[str, float]:
        low = high = math.nan
        if values.size > 1:
            tail = (1 - self.confidence) / 2
            low, high = (float(end) for end in np.quantile(values[1:], [tail, 1 - tail]))
        return {name: float(values[0]), f"{name}_lower": low, f"{name}_upper": high}

    def _notes(self, flops: float, found: Optima) -> list[str]:
        out = []
        if found.edge[0]:
            out.append("No optimum: the loss falls up to the end of what was looked at.")
        elif found.edge.any():
            share = found.edge[1:].mean()
            out.append(f"{100 * share:.1f} % of the replicates have no optimum inside what was looked at.")
        if found.loss.size == 1:
            out.append("The fit has no replicates, so no intervals: fit with interval='pairs' or 'cluster'.")
        if self.seen is not None and not self.seen[0] <= flops <= self.seen[1]:
            low, high = self.seen
            if flops > high:
                out.append(f"Extrapolated: {flops / high:.3g} times the largest budget fitted, {high:.3g}.")
            else:
                out.append(f"Extrapolated: {flops / low:.3g} times the smallest budget fitted, {low:.3g}.")
        return out


def allocate(
    fit: Fit,
    design: Design,
    budgets: Sequence[float],
    confidence: float | None = None,
    *,
    seen: tuple[float, float] | None = None,
) -> Allocation:
    r"""The compute-optimal shape at each budget, for each variant of the design.

    $$\min_x L(x, D) \quad\text{where}\quad \mathrm{FLOPs}(x, D) = C,\ x \text{ the shape}$$

    **Arguments:** `fit` of a law whose columns the design gives; `budgets` in FLOPs; `confidence` (the fit's
    own); `seen` the lowest and highest budget of the rows that were fitted, so that extrapolation is said.

    For the Chinchilla law at C = 6 N D this is N* = G (C / 6)^(beta / (alpha + beta)) with
    G = (alpha A / (beta B))^(1 / (alpha + beta)) (arXiv:2203.15556, equation 4).

    **Raises:** ValueError for no budget, one that is no positive number, a column that the design does not
    give, a fit that is no optimum, and a confidence outside (0, 1).

    !!! Example

        ```python
        result = fit(LoopedLaw(), table, interval="pairs")
        allocate(result, LoopedDesign(), [1e19, 1e20], seen=(4.64e17, 2.15e19)).rows()
        ```
    """
    confidence = fit.confidence if confidence is None else confidence
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: {confidence} is not between 0 and 1; give e.g. 0.95.")
    ordered = tuple(sorted({float(flops) for flops in budgets}))
    if not ordered:
        raise ValueError("budgets: there is none; give e.g. [1e18, 1e19].")
    variants = design.variants
    optima = tuple(tuple(optimum(fit, design, flops, v) for v in variants) for flops in ordered)
    return Allocation(ordered, variants, optima, confidence, seen)


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
    """loss = `loss` + `bend` (log N - `log_size`)^2 / 2; `inside`: whether that minimum is between the points."""

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

    The loss rises more steeply on one side of its minimum than on the other, and a parabola is symmetric. With
    sizes spread evenly about the minimum (in log N) the parabola's lies on the flatter side, by the square of the
    span; with most sizes on one side of it, whichever, on the steeper side.

    **Arguments:** `profile` of `isoflop`, at the sizes that were or will be trained; `size` the column that
    is N.

    **Returns:** `flops`, the variant, `size` and `loss` at the law's optimum, `parabola_size` and
    `parabola_loss` at the parabola's, `log_size_bias` and `loss_bias` the parabola's less the law's, `factor`
    of the size, `inside`.

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


def equivalent(fit: Fit, num_once: float, num_recurrent: float, num_recur: float) -> dict[str, float]:
    r"""The size of a model without recurrence that the looped law takes this one for.

    $$N_\mathrm{eff} = N_\mathrm{once} + r^\varphi N_\mathrm{rec}$$

    **Returns:** `unique` parameters N_once + N_rec, `executed` N_once + r N_rec, `effective` with `lower` and
    `upper`, the ends of the interval of phi (the size rises with phi, so nothing is lost by that).

    **Raises:** ValueError for a law without phi, r < 1 and sizes that are not positive.

    ??? cite "Reference"

        arXiv:2604.21106: where r = 1 has 1 B parameters, r = 4 has 410 M and loses as one of 580 M does.
    """
    if "phi" not in fit.parameters:
        raise ValueError(
            f"the law {fit.law.name} has no phi, so no size is equivalent by it; fit LoopedLaw()."
        )
    given = {"num_once": num_once, "num_recurrent": num_recurrent, "num_recur": num_recur}
    for name, value in given.items():
        if not (math.isfinite(value) and value > 0) or (name == "num_recur" and value < 1):
            raise ValueError(
                f"{name}: {value} must be finite and {'>= 1' if name == 'num_recur' else '> 0'}."
            )

    def size(phi: float) -> float:
        return float(num_once + np.power(num_recur, phi) * num_recurrent)

    phi = fit.parameters["phi"]
    return {
        "unique": size(0),
        "executed": size(1),
        "effective": size(phi.estimate),
        "lower": size(phi.interval[0]),
        "upper": size(phi.interval[1]),
    }
