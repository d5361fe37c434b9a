"""Iso-FLOP parabolas and the frontier that their minima make.

Symbols: budget C, recurrences r, unique parameters N, tokens D; N*, D*, L* at a parabola's minimum. The
variance of residuals about the parabolas, s^2, is pooled over cells; with rows x = (1, u, u^2) of a cell, u
its log N, the standard error of L* is s sqrt(x*^T (X^T X)^-1 x*): to first order that of u* adds nothing,
since the parabola is level there.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.iso_depth._grid import Grid, Run
from sweeps.laws import Parabola, parabola
from sweeps.laws._law import Array

LEAST_BUDGETS = 3  # budgets that an exponent needs


@dataclass(frozen=True)
class Cell:
    """What one budget reaches with one r.

    **Fields:** `sizes` different N; `parabola` in log N, None where there is none; `num_params` N*,
    `num_tokens` D*, `loss` L* in nats, its standard error `error` (None where nothing is known of the
    scatter); `from_parabola`, or else of the best run, with the `reason`; `gap` to r = 1 at this budget and
    `gap_error`, None without r = 1.
    """

    budget: float
    num_recur: int
    sizes: int
    parabola: Parabola | None
    num_params: float
    num_tokens: float
    loss: float
    error: float | None
    from_parabola: bool
    reason: str
    gap: float | None = None
    gap_error: float | None = None


@dataclass(frozen=True)
class Order:
    """Whether the frontier's loss rises with r at a budget; the smallest `step` from one r to the next (below
    0 where it falls) and its standard error; how many `steps` there are, and how many of them are
    `resolved`, above 0 by twice their standard error."""

    budget: float
    rises: bool
    step: float
    step_error: float | None
    steps: int
    resolved: int


@dataclass(frozen=True)
class Growth:
    """N* or D* proportional to C^`exponent`, by the parabolas of `budgets` budgets; `error` is the standard
    error of the regression, with budgets - 2 degrees of freedom."""

    num_recur: int
    column: str
    exponent: float
    error: float
    budgets: int


def frontier(grid: Grid) -> tuple[Cell, ...]:
    """A cell for each budget and r that has runs."""
    places = sorted({(run.budget, run.num_recur) for run in grid.runs})
    groups = [[run for run in grid.runs if (run.budget, run.num_recur) == place] for place in places]
    fitted = [_parabola(runs) for runs in groups]
    scatter = _scatter(groups, [found for found, _ in fitted])
    cells = [_cell(runs, found, why, scatter) for runs, (found, why) in zip(groups, fitted, strict=True)]
    once = {cell.budget: cell for cell in cells if cell.num_recur == 1}
    return tuple(_with_gap(cell, once.get(cell.budget)) for cell in cells)


def _parabola(runs: Sequence[Run]) -> tuple[Parabola | None, str]:
    sizes = {run.num_params for run in runs}
    if len(sizes) < 3:
        return None, f"{len(sizes)} size(s), and a parabola needs three"
    try:
        found = parabola(np.log([run.num_params for run in runs]), [run.loss for run in runs])
    except ValueError:
        return None, "losses do not rise on both sides of a minimum"
    if found.inside:
        return found, ""
    side = "above the largest" if found.log_size > math.log(max(sizes)) else "below the smallest"
    return found, f"the parabola's minimum is {side} size"


def _matrix(log_size: Array, middle: float) -> Array:
    return np.vander(log_size - middle, 3, increasing=True)


def _scatter(groups: Sequence[Sequence[Run]], fitted: Sequence[Parabola | None]) -> float | None:
    """s; None without a degree of freedom."""
    total, freedom = 0.0, 0
    for runs, found in zip(groups, fitted, strict=True):
        if found is not None:
            log_size = np.log([run.num_params for run in runs])
            line = found.loss + found.bend * (log_size - found.log_size) ** 2 / 2
            total += float(((np.array([run.loss for run in runs]) - line) ** 2).sum())
            freedom += len(runs) - 3
    return math.sqrt(total / freedom) if freedom > 0 else None


def _cell(runs: Sequence[Run], found: Parabola | None, reason: str, scatter: float | None) -> Cell:
    # Runs of one width are averaged, lest the luckiest seed be the frontier.
    widths = {run.width: [other for other in runs if other.width == run.width] for run in runs}
    means = {width: math.fsum(run.loss for run in mine) / len(mine) for width, mine in widths.items()}
    best = widths[min(means, key=lambda width: (means[width], width))]
    budget, r, sizes = runs[0].budget, runs[0].num_recur, len({run.num_params for run in runs})
    if found is None or not found.inside:
        error = None if scatter is None else scatter / math.sqrt(len(best))
        at = best[0].num_params, best[0].num_tokens, means[best[0].width], error
        return Cell(budget, r, sizes, found, *at, False, f"{reason}; the best run is taken")
    log_size = np.log([run.num_params for run in runs])
    middle = float(log_size.mean())
    x = _matrix(np.array([found.log_size]), middle)[0]
    error = None
    if scatter is not None:
        error = scatter * float(np.linalg.norm(x @ np.linalg.pinv(_matrix(log_size, middle))))
    # log D is all but quadratic in log N along a budget.
    tokens = np.polyfit(log_size - middle, np.log([run.num_tokens for run in runs]), 2)
    data = float(np.exp(np.polyval(tokens, found.log_size - middle)))
    return Cell(budget, r, sizes, found, math.exp(found.log_size), data, found.loss, error, True, "")


def _with_gap(cell: Cell, once: Cell | None) -> Cell:
    if once is None:
        return cell
    error = _joined(cell.error, once.error) if cell is not once else 0.0
    return replace(cell, gap=cell.loss - once.loss, gap_error=error)


def _joined(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else math.hypot(one, two)


def orders(cells: Sequence[Cell]) -> tuple[Order, ...]:
    """An order for each budget with two or more r."""
    out = []
    for budget in sorted({cell.budget for cell in cells}):
        mine = sorted((cell for cell in cells if cell.budget == budget), key=lambda cell: cell.num_recur)
        steps = [(b.loss - a.loss, _joined(a.error, b.error)) for a, b in itertools.pairwise(mine)]
        if steps:
            step, error = min(steps, key=lambda pair: pair[0])
            clear = sum(e is not None and s > 2 * e for s, e in steps)
            out.append(Order(budget, step > 0, step, error, len(steps), clear))
    return tuple(out)


def growth(cells: Sequence[Cell]) -> tuple[Growth, ...]:
    """Exponents of N* and D* for each r that has a parabola's minimum at three or more budgets."""
    out = []
    for r in sorted({cell.num_recur for cell in cells}):
        mine = [cell for cell in cells if cell.num_recur == r and cell.from_parabola]
        if len(mine) < LEAST_BUDGETS:
            continue
        x = np.log([cell.budget for cell in mine])
        x = x - x.mean()
        for column in ("num_params", "num_tokens"):
            y = np.log([getattr(cell, column) for cell in mine])
            slope = float(x @ y / (x @ x))
            left = y - y.mean() - slope * x
            error = math.sqrt(float(left @ left) / (len(mine) - 2) / float(x @ x))
            out.append(Growth(r, column, slope, error, len(mine)))
    return tuple(out)
