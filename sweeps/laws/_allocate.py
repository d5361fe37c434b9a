"""How to spend a budget by a fitted law: the best size, data and recurrences, and what profiles tell.

Symbols: budget C in FLOPs, parameters N, tokens D, recurrences r. An answer comes with an interval:
percentiles of the same answer by each of the fit's bootstrap replicates, each with an optimum of its own.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from sweeps.laws._best_shape import Optima, optimum
from sweeps.laws._designs import Design
from sweeps.laws._law import Array
from sweeps.laws._result import Fit


@final
@dataclasses.dataclass(frozen=True)
class Allocation:
    """What `allocate` found.

    **Fields:** `budgets` in FLOPs, ascending; `variants` of the design; `optima` one tuple for each budget,
    of one for each variant; `confidence`; `seen` (lowest, highest) budget of the rows fitted, `None` where it
    was not said; `fit`.
    """

    budgets: tuple[float, ...]
    variants: tuple[Mapping[str, float], ...]
    optima: tuple[tuple[Optima, ...], ...]
    confidence: float
    seen: tuple[float, float] | None
    fit: Fit

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

        Budgets that have no optimum inside what was looked at are left out; a variant that has not two others
        is not in the list.

        **Raises:** ValueError for a single budget.
        """
        if len(self.budgets) < 2:
            raise ValueError("an exponent needs two or more different budgets; give e.g. 1e18 and 1e20.")
        out = []
        for index, variant in enumerate(self.variants):
            inside = [not optima[index].edge[0] for optima in self.optima]
            if sum(inside) < 2:
                continue
            found = [optima[index] for optima, has in zip(self.optima, inside, strict=True) if has]
            x = np.log(np.array(self.budgets)[inside])
            x = x - x.mean()
            for name in found[0].columns:
                if name in variant:
                    continue
                logs = np.log(np.stack([f.columns[name] for f in found]))
                slope = x @ logs / (x @ x)
                with np.errstate(divide="ignore"):  # too many failed refits: no lower end
                    ends = np.log(list(self._with_interval("", np.exp(slope)).values())).tolist()
                row = dict(zip(("exponent", "lower", "upper"), ends, strict=True))
                out.append({**variant, "column": name, **row})
        return out

    def _with_interval(self, name: str, values: Array) -> dict[str, float]:
        low = high = math.nan
        if values.size > 1:
            low, high = map(float, self.fit.ends(values[0], values[1:], self.confidence))
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
        for name, (low, high) in self.fit.ranges.items():
            value = float(found.columns[name][0])
            if not low / 1.001 <= value <= high * 1.001:
                beyond = (
                    f"{value / high:.3g} times the largest"
                    if value > high
                    else f"{value / low:.3g} of the least"
                )
                out.append(f"Extrapolated: {name} is {beyond} fitted.")
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
    return Allocation(ordered, variants, optima, confidence, seen, fit)


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
