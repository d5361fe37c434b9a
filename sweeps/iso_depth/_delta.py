"""Whether a recurrence is worth more in one grid than in another.

Symbols: phi of each, nu the number of its clusters less 1.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from sweeps._config import ConfigError
from sweeps.iso_depth._analysis import IsoDepth
from sweeps.iso_depth._grid import CELLS, Grid
from sweeps.laws import Estimate, Fit, Huber, LoopedLaw, Objective, OwnLaw, fit
from sweeps.laws._bootstrap import standard_error
from sweeps.laws._law import Array

CONFIDENCE = 0.95

TOGETHER = OwnLaw(
    "E + A * (num_once + num_recur**(phi + delta_phi * (grid - 1)) * num_recurrent)**-alpha"
    " + B * num_tokens**-beta",
    ("num_once", "num_recur", "grid", "num_recurrent", "num_tokens"),
)
"""One law for two grids, in which phi alone differs; `grid` is 1 or 2."""

WEAK = ("failed-refits", "few-starts-agree")
"""What is said of the one law; other findings are of the grids' columns, and are said with each."""


@dataclass(frozen=True)
class DeltaPhi:
    """phi of the second grid less that of the first, over the budgets that both have.

    **Fields:** `budgets`; `first`, `second` the law of each; the `difference` of their phi with its 95 %
    `interval`, which takes the grids as independent; `positive` probability that it is above 0, by the
    bootstraps; `method`; `shared` runs that are in both grids; `together` one law for both grids, in which
    phi alone differs: its bootstrap draws a cell of both grids at once, so that runs are compared with their
    like, and runs of r = 1 that are in both count once.
    """

    budgets: tuple[float, ...]
    first: Fit
    second: Fit
    difference: float
    interval: tuple[float, float]
    positive: float
    method: str
    shared: int
    together: Fit

    @property
    def by_one_law(self) -> Estimate:
        """The difference by `together`; its `identified` says whether the rows bound it."""
        return self.together.parameters["delta_phi"]

    @property
    def sentence(self) -> str:
        """In words."""
        low, high = self.interval
        one, other = (_shown(found.parameters["phi"]) for found in (self.first, self.second))
        out = (
            f"phi of the second grid less that of the first, over the {len(self.budgets)} budgets that both "
            f"have ({other} and {one}): by a law for each {self.difference:+.3f} [{low:.3f}, {high:.3f}], "
            f"above 0 with probability {self.positive:.3g}: {_verdict(self.difference, self.interval)}; by "
            "one law for both, in which phi alone differs, "
        )
        together = self.by_one_law
        if together.identified:
            out += f"{_shown(together, '+')}: {_verdict(together.estimate, together.interval)}."
        else:
            out += f"not identified ({self.together.status})."
        for finding in self.together.diagnosis:
            if finding.code in WEAK:
                out += f" One law: {finding.sentence}"
        if self.shared:
            out += f" {self.shared} run(s) are in both grids: the two laws are not independent."
        return out


def _shown(value: Estimate, sign: str = "") -> str:
    low, high = value.interval
    return f"{value.estimate:{sign}.3f} [{low:.3f}, {high:.3f}]"


def _verdict(difference: float, interval: tuple[float, float]) -> str:
    if interval[0] <= 0 <= interval[1]:
        return "not resolved"
    return f"a recurrence is worth {'more' if difference > 0 else 'less'} in the second grid"


def delta_phi(
    first: IsoDepth,
    second: IsoDepth,
    *,
    objective: Objective | None = None,
    resamples: int | None = None,
    starts: int = 64,
    seed: int = 0,
) -> DeltaPhi:
    """The difference of phi between two grids, over the budgets that both have.

    By a law for each, as in arXiv:2604.21106: percentiles over all pairs of replicates of the grids' block
    bootstraps, taken as independent; where either has so few cells that its own interval is Student's,
    Welch's t on the bootstrap standard errors. Failed refits count as beyond both ends. And by one law for
    both, `TOGETHER`. Options are those of `analyse`.

    Raises ConfigError where the grids have no two budgets in common, or either phi is not identified.
    """
    budgets = tuple(sorted({run.budget for run in first.runs} & {run.budget for run in second.runs}))
    if len(budgets) < 2:
        raise ConfigError(
            f"the two grids have {len(budgets)} budget(s) in common: what size and what data do can be told "
            "apart over two or more"
        )
    options: dict[str, Any] = {
        "group": CELLS,
        "objective": Huber(1e-3) if objective is None else objective,
        "interval": "cluster",
        "resamples": resamples,
        "starts": starts,
        "seed": seed,
    }
    grids = [Grid(tuple(run for run in one.runs if run.budget in budgets), 0, ()) for one in (first, second)]
    fits = []
    for name, whole, grid in zip(("first", "second"), (first, second), grids, strict=True):
        try:
            found = whole.free.fit if grid.runs == whole.runs else fit(LoopedLaw(), grid.columns, **options)
        except ValueError as error:
            raise ConfigError(f"phi of the {name} grid cannot be fitted: {error}") from None
        if not found.identified or not found.replicates:
            raise ConfigError(
                f"phi of the {name} grid is not identified ({found.status}), so no difference is; add runs"
            )
        fits.append(found)
    return DeltaPhi(
        budgets=budgets,
        shared=len(set(grids[0].runs) & set(grids[1].runs)),
        first=fits[0],
        second=fits[1],
        together=_together(grids[0], grids[1], options),
        **_apart(fits[0], fits[1]),
    )


def _apart(one: Fit, two: Fit) -> dict[str, Any]:
    """By a law for each: the fields of `DeltaPhi`."""
    centre = two.estimates["phi"] - one.estimates["phi"]
    lost = 1 - (1 - one.failed_share) * (1 - two.failed_share)
    tail = (1 - CONFIDENCE) / 2 - lost
    if any(f.few_freedom is not None for f in (one, two)):
        (error_1, nu_1), (error_2, nu_2) = _error(one), _error(two)
        error = math.hypot(error_1, error_2)
        nu = error**4 / (error_1**4 / nu_1 + error_2**4 / nu_2) if error > 0 else min(nu_1, nu_2)
        half = float(stats.t.ppf(1 - tail, nu)) * error if tail > 0 else math.inf
        ends = centre - half, centre + half
        positive = float(stats.t.cdf(centre / error, nu)) if error > 0 else float(centre > 0)
        method = f"two bootstraps over cells, Welch's t with {nu:.1f} degrees of freedom"
    else:
        pairs = (_drawn(two)[:, None] - _drawn(one)).ravel()
        kept = tail / (1 - lost)
        low, high = np.quantile(pairs, [kept, 1 - kept]).tolist() if tail > 0 else (-math.inf, math.inf)
        ends = low, high
        positive = float((pairs > 0).mean())
        method = "two bootstraps over cells, percentiles over all pairs of replicates"
    return {
        "difference": centre,
        "interval": ends,
        "positive": positive,
        "method": method,
    }


def _together(first: Grid, second: Grid, options: dict[str, Any]) -> Fit:
    """`TOGETHER`, fitted."""
    # Without a recurrence there is no phi: such a run says the same whichever grid it is counted to.
    seen = {run for run in first.runs if run.num_recur == 1}
    other = dataclasses.replace(second, runs=tuple(run for run in second.runs if run not in seen))
    parts = [first.columns, other.columns]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["grid"] = np.repeat([1.0, 2.0], [len(first.runs), len(other.runs)])
    return fit(TOGETHER, columns, **options)


def _drawn(found: Fit) -> Array:
    return np.array(found.replicates)[:, found.free.index("phi")]


def _error(found: Fit) -> tuple[float, int]:
    """Standard error of phi by C cells, and C - 1."""
    cells = found.provenance.groups
    return float(standard_error(_drawn(found), cells)), cells - 1
