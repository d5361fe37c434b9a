"""The grid's own accounting, and what the joint law buys by it.

Symbols: width d, recurrences r, parameters N, tokens D, training FLOPs C.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from sweeps.iso_depth._grid import Grid
from sweeps.laws import Design, Fit, allocate, equivalent
from sweeps.laws._law import Array

WITHIN = 0.01  # relative, of what the accounting gives at a run's width
BEYOND = 4.0  # widths that are looked at: so many times beyond those of the grid


@dataclass(frozen=True)
class Account:
    """Of one r: each entry (a, b) stands for a d^2 + b d."""

    num_recur: int
    num_once: tuple[float, float]
    num_recurrent: tuple[float, float]
    flops_per_token: tuple[float, float]


@final
@dataclass(frozen=True)
class GridDesign(Design):
    r"""What a budget buys, read off the runs: at fixed depth and context every count is a d^2 + b d.

    Matrices and the FLOPs in them go with d^2; norm scales, attention scores and the head with d (what lanes
    have besides, a few scalars, is within `WITHIN`). So no architecture needs to be known, and truncated
    backpropagation is accounted for as it was run.

    **Fields:** `accounts`, one for each r; `widths` (lowest, highest) of the runs.
    """

    accounts: tuple[Account, ...]
    widths: tuple[float, float]

    @property
    def shape(self) -> tuple[str, ...]:
        return ("width",)

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        return tuple({"num_recur": account.num_recur} for account in self.accounts)

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return ((self.widths[0] / BEYOND, self.widths[1] * BEYOND),)

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        (width,) = shape
        account = next(a for a in self.accounts if a.num_recur == variant["num_recur"])
        once, recurrent = _at(account.num_once, width), _at(account.num_recurrent, width)
        return {
            "width": width,
            "num_once": once,
            "num_recurrent": recurrent,
            "num_recur": np.full_like(width, account.num_recur),
            "num_params": once + recurrent,
            "num_tokens": flops / _at(account.flops_per_token, width),
        }


def design(grid: Grid) -> GridDesign | str:
    """The accounting of a grid, or why there is none, in a sentence."""
    columns, accounts = grid.columns, []
    columns["flops_per_token"] = columns["flops"] / columns["num_tokens"]
    widths = float(columns["width"].min()), float(columns["width"].max())
    ends = np.array([widths[0] / BEYOND, widths[1] * BEYOND])
    for r in grid.recurrences:
        mine = columns["num_recur"] == r
        width, found = columns["width"][mine], []
        if np.unique(width).size < 2:
            return f"r = {r} has a single width, so how its size goes with the width is not known."
        for name in ("num_once", "num_recurrent", "flops_per_token"):
            pair = _coefficients(width, columns[name][mine])
            misses = np.abs(_at(pair, width) / columns[name][mine] - 1).max()
            if misses > WITHIN or _at(pair, ends).min() <= 0:
                return "sizes and FLOPs are not of the form a width^2 + b width."
            found.append(pair)
        accounts.append(Account(r, *found))
    return GridDesign(tuple(accounts), widths)


def _at(pair: tuple[float, float], width: Array) -> Array:
    return pair[0] * width**2 + pair[1] * width


def _coefficients(width: Array, count: Array) -> tuple[float, float]:
    """Least squares of relative errors."""
    matrix = np.stack([width**2 / count, width / count], axis=1)
    a, b = np.linalg.lstsq(matrix, np.ones_like(count), rcond=None)[0].tolist()
    return a, b


def optima(
    found: Fit, plan: GridDesign, budgets: tuple[float, ...]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The best sizes by the joint law at each budget and r, and how they grow with C.

    A row has what `sweeps.laws.Allocation.rows` gives, and `equivalent` with `_lower` and `_upper`: the size
    of a model without recurrence that has the same loss on as many tokens. Growth is empty for one budget.
    """
    answer = allocate(found, plan, budgets, seen=(budgets[0], budgets[-1]))
    rows = answer.rows()
    for row in rows:
        same = equivalent(found, row["num_once"], row["num_recurrent"], row["num_recur"])
        row["equivalent"] = same["effective"]
        row["equivalent_lower"], row["equivalent_upper"] = same["lower"], same["upper"]
    return rows, answer.exponents() if len(budgets) > 1 else []
