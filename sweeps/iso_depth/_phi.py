"""The laws of a grid: one for each r, one for all with phi free, 0 and 1, and phi of half the budgets.

Symbols: R^2 = 1 - sum (L_hat - L)^2 / sum (L - mean L)^2 and residuals L_hat - L in nats.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps._config import ConfigError
from sweeps.iso_depth._grid import CELLS, Grid
from sweeps.laws import Candidate, ChinchillaLaw, Estimate, Fit, LoopedLaw, Objective, compare, fit
from sweeps.laws._compare import Nested
from sweeps.laws._law import Array, Mask

PER_HALF = 12
"""Rows that half of the budgets needs: two for each parameter of the joint law."""


@dataclass(frozen=True)
class Architecture:
    """The Chinchilla law of one r on unique parameters; `problem` says why there is no fit."""

    num_recur: int
    rows: int
    fit: Fit | None
    r_squared: float | None
    rmse: float | None
    problem: str | None = None


@dataclass(frozen=True)
class Residuals:
    """Residuals of the runs of one r, in nats: predicted less observed."""

    num_recur: int
    rows: int
    mean: float
    rmse: float


@dataclass(frozen=True)
class Joint:
    """The joint law with phi free or held.

    **Fields:** `fit`; `r_squared`; `rmse` in nats; `held_out` root mean square of residuals of log loss in
    cells that were left out; `residuals` by r. Where phi is held: `test` of it inside phi free, which takes
    runs as independent, and `excluded`, whether the interval of phi free leaves the value out (None where phi
    is not identified).
    """

    name: str
    fit: Fit
    r_squared: float
    rmse: float
    held_out: float
    residuals: tuple[Residuals, ...]
    test: Nested | None = None
    excluded: bool | None = None


@dataclass(frozen=True)
class Half:
    """phi of the lower or the upper budgets, or the `reason` why there is none.

    Of an odd number of budgets the middle one is in both halves.
    """

    name: str
    budgets: tuple[float, ...]
    rows: int
    fit: Fit | None
    reason: str | None = None

    @property
    def phi(self) -> Estimate | None:
        """With its interval."""
        return None if self.fit is None else self.fit.parameters["phi"]


def scores(found: Fit, columns: dict[str, Array]) -> tuple[float, float, Array]:
    """R^2, the root mean square residual, and the residuals (n,) in nats."""
    loss = columns["loss"]
    with np.errstate(all="ignore"):  # a fit that failed predicts nan
        residual = found.predict(*(columns[name] for name in found.law.columns)) - loss
    total = float(((loss - loss.mean()) ** 2).sum())
    share = float((residual**2).sum()) / total if total > 0 else np.nan
    return 1 - share, float(np.sqrt((residual**2).mean())), residual


def architectures(grid: Grid, objective: Objective, starts: int) -> tuple[Architecture, ...]:
    """A fit for each r."""
    found = []
    for r in grid.recurrences:
        columns = _taken(grid.columns, grid.columns["num_recur"] == r)
        rows = columns["loss"].size
        try:
            one = fit(ChinchillaLaw(), columns, group=None, objective=objective, starts=starts)
        except ValueError as error:
            found.append(Architecture(r, rows, None, None, None, str(error)))
            continue
        found.append(Architecture(r, rows, one, *scores(one, columns)[:2]))
    return tuple(found)


def joints(
    grid: Grid, objective: Objective, resamples: int | None, starts: int, seed: int, source: dict[str, Any]
) -> tuple[Joint, ...]:
    """phi free, with a bootstrap over the cells, then phi = 0 and phi = 1. Raises ConfigError."""
    law, columns = LoopedLaw(), grid.columns
    shared: dict[str, Any] = {"group": CELLS, "objective": objective, "starts": starts, "seed": seed}
    candidates = [Candidate("phi free", law), *(Candidate(f"phi = {v}", law, {"phi": v}) for v in (0, 1))]
    try:
        free = fit(law, columns, interval="cluster", resamples=resamples, source=source, **shared)
        compared = compare(candidates, columns, **shared)
    except ValueError as error:
        raise ConfigError(f"the joint law cannot be fitted: {error}") from None
    phi, out = free.parameters["phi"], []
    for one in compared.compared:
        held = one.candidate.fix.get("phi")
        found = free if held is None else one.fit
        r_squared, rmse, residual = scores(found, columns)
        test = next((t for t in compared.nested if t.narrow == one.candidate.name), None)
        excluded = None
        if held is not None and free.identified and len(grid.budgets) > 1:
            excluded = not phi.interval[0] <= held <= phi.interval[1]
        by_r = _by_recur(grid, residual)
        out.append(Joint(one.candidate.name, found, r_squared, rmse, one.rms, by_r, test, excluded))
    return tuple(out)


def _by_recur(grid: Grid, residual: Array) -> tuple[Residuals, ...]:
    recur, out = grid.columns["num_recur"], []
    for r in grid.recurrences:
        mine = residual[recur == r]
        out.append(Residuals(r, mine.size, float(mine.mean()), float(np.sqrt((mine**2).mean()))))
    return tuple(out)


def halves(
    grid: Grid, objective: Objective, resamples: int | None, starts: int, seed: int
) -> tuple[Half, ...]:
    """phi of the lower and of the upper budgets, or why there is none."""
    count = -(-len(grid.budgets) // 2)
    return tuple(
        _half(name, grid, budgets, objective, resamples, starts, seed)
        for name, budgets in (("lower", grid.budgets[:count]), ("upper", grid.budgets[-count:]))
    )


def _half(
    name: str,
    grid: Grid,
    budgets: tuple[float, ...],
    objective: Objective,
    resamples: int | None,
    starts: int,
    seed: int,
) -> Half:
    columns = _taken(grid.columns, np.isin(grid.columns["budget"], budgets))
    rows, reason = columns["loss"].size, None
    if len(budgets) < 2:
        reason = "a single budget: size and data cannot be told apart"
    elif rows < PER_HALF:
        reason = f"{rows} runs, but at least {PER_HALF} are needed"
    elif np.unique(columns["num_recur"]).size < 2:
        reason = "a single number of recurrences"
    if reason is None:
        try:
            shared: dict[str, Any] = {"group": CELLS, "objective": objective, "starts": starts, "seed": seed}
            found = fit(LoopedLaw(), columns, interval="cluster", resamples=resamples, **shared)
            return Half(name, budgets, rows, found)
        except ValueError as error:
            reason = str(error)
    return Half(name, budgets, rows, None, reason)


def _taken(columns: dict[str, Array], mask: Mask) -> dict[str, Array]:
    return {name: column[mask] for name, column in columns.items()}
