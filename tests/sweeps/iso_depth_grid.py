"""Grids of looped models with planted losses, in the accounting of `LoopedDesign`.

Symbols: budget C, width d, recurrences r, unique parameters N, tokens D; losses in nats a token.
"""

import numpy as np
import polars as pl

from sweeps.laws import LoopedDesign

PLANTED = {"E": 1.57, "A": 24.0, "alpha": 0.199, "B": 900.0, "beta": 0.369, "phi": 0.459}
"""Near the joint law of arXiv:2604.21106."""

BUDGETS = (1e16, 3e16, 1e17)
WIDTHS = (96, 160, 256, 384)
RECURRENCES = (1, 2, 4, 8)


def runs(budgets=BUDGETS, widths=WIDTHS, recurrences=RECURRENCES, seeds=1):
    """A row for each (budget, width, r, seed), with all columns but the loss."""
    design, parts = LoopedDesign(), []
    for budget in budgets:
        for r in recurrences:
            columns = design.columns(budget, {"num_recur": r}, np.array(widths, dtype=float))
            for seed in range(seeds):
                parts.append(pl.DataFrame({**columns, "budget": budget, "flops": budget, "seed": seed}))
    kinds = pl.when(pl.col("num_recur") > 1).then(pl.lit("linear")).otherwise(None)
    nothing = pl.lit(None, pl.Int64)
    return pl.concat(parts).with_columns(injection=kinds, backprop_recurrences=nothing, status=pl.lit("done"))


def by_law(rows, noise=0.0, seed=0, **parameters):
    """Losses by the joint law, with normal scatter of `noise` nats."""
    p = PLANTED | parameters
    at = {name: rows[name].to_numpy() for name in ("num_once", "num_recurrent", "num_recur", "num_tokens")}
    size = at["num_once"] + at["num_recur"] ** p["phi"] * at["num_recurrent"]
    loss = p["E"] + p["A"] * size ** -p["alpha"] + p["B"] * at["num_tokens"] ** -p["beta"]
    scatter = noise * np.random.default_rng(seed).standard_normal(len(rows))
    return rows.with_columns(loss=pl.Series(loss + scatter))


def by_parabolas(rows, best, loss, bend=0.1):
    """Losses on exact parabolas in log N: `best` and `loss` give N* and L* of (budget, r)."""
    values = [
        loss(c, r) + bend * np.log(n / best(c, r)) ** 2 / 2
        for c, r, n in rows.select("budget", "num_recur", "num_params").iter_rows()
    ]
    return rows.with_columns(loss=pl.Series(values))
