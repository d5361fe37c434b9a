"""The looped experiment with planted losses: 29 (budget, width) cells, four architectures each.

Symbols: width d = 64 s, recurrences r, parameters used once N_once and in the recurrent block N_rec, tokens
D. The per-run losses were not published (arXiv:2604.21106, tables of runs); these are the law's own, with
noise.
"""

import numpy as np

BUDGETS = (4.64e17, 1e18, 2.15e18, 4.64e18, 1e19, 2.15e19)
RUNS = {
    6: (0, 1),
    8: (0, 1, 2),
    10: (0, 1, 2, 3),
    12: (0, 1, 2, 3, 4),
    14: (1, 2, 3),
    16: (2, 3, 4),
    18: (3, 4, 5),
    20: (3, 4),
    24: (4, 5),
    28: (5,),
    34: (5,),
}
"""s -> which of the budgets were run at the width 64 s."""

RECURRENCES = (1, 2, 4, 8)


def looped_table(
    noise: float,
    seed: int,
    phi: float = 0.459,
    E: float = 1.57,
    alpha: float = 0.199,
    beta: float = 0.369,
    A: float = 24.0,
    B: float = 900.0,
) -> dict[str, np.ndarray]:
    """The 116 runs; `noise` is the standard deviation, in nats, of what is added to the law's loss."""
    cells = [(BUDGETS[b], 64.0 * s, r) for s, at in RUNS.items() for b in at for r in RECURRENCES]
    flops, width, recur = (np.array(column, dtype=float) for column in zip(*cells, strict=True))
    once = 48 * width**2
    recurrent = 192 / recur * width**2 + np.where(recur > 1, 2 * width**2, 0.0)
    per_token = 6 * (once + recur * recurrent) + 20 * 12 * width * 2048 + 6 * width * 32064
    tokens = flops / per_token
    loss = E + A * (once + recur**phi * recurrent) ** -alpha + B * tokens**-beta
    return {
        "num_once": once,
        "num_recurrent": recurrent,
        "num_recur": recur,
        "num_tokens": tokens,
        "flops": flops,
        "width": width,
        "loss": loss + noise * np.random.default_rng(seed).standard_normal(loss.size),
    }
