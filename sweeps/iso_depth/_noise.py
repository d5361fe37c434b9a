"""How much runs scatter that differ only in their seed. Symbols: nu degrees of freedom."""

import math
from dataclasses import dataclass

from scipy import stats

from sweeps.iso_depth._grid import Grid, Run


@dataclass(frozen=True)
class Noise:
    """Pooled over `cells` that were run with several seeds.

    **Fields:** `sd` in nats, `interval` (95 %, by chi square, for normal scatter), `freedom` nu.
    """

    sd: float
    interval: tuple[float, float]
    freedom: int
    cells: int


def noise(grid: Grid) -> Noise | None:
    """sqrt(sum (L - cell's mean)^2 / nu), nu the repeated runs; None where none is repeated."""
    cells: dict[tuple[float, int, float], list[Run]] = {}
    for run in grid.runs:
        if run.seed is not None:
            cells.setdefault(run.place, []).append(run)
    several = [[run.loss for run in runs] for runs in cells.values() if len(runs) > 1]
    freedom = sum(len(losses) - 1 for losses in several)
    if not freedom:
        return None
    means = [math.fsum(losses) / len(losses) for losses in several]
    total = math.fsum((x - m) ** 2 for losses, m in zip(several, means, strict=True) for x in losses)
    low, high = (math.sqrt(total / float(stats.chi2.ppf(p, freedom))) for p in (0.975, 0.025))
    return Noise(math.sqrt(total / freedom), (low, high), freedom, len(several))
