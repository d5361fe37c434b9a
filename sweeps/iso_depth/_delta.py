"""Whether a recurrence is worth more in one grid than in another.

Symbols: phi of each, nu the number of its clusters less 1.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sweeps._config import ConfigError
from sweeps.iso_depth._analysis import IsoDepth
from sweeps.laws import Fit
from sweeps.laws._law import Array

CONFIDENCE = 0.95


@dataclass(frozen=True)
class DeltaPhi:
    """phi of the second grid less that of the first.

    **Fields:** `first`, `second` the two phi; `difference` with its 95 % `interval`; `positive` probability
    that it is above 0, by the bootstraps; `method`; `shared` runs that are in both grids, which the interval
    takes for different ones.
    """

    first: float
    second: float
    difference: float
    interval: tuple[float, float]
    positive: float
    method: str
    shared: int

    @property
    def sentence(self) -> str:
        """In words."""
        low, high = self.interval
        verdict = "not resolved"
        if not low <= 0 <= high:
            verdict = f"a recurrence is worth {'more' if self.difference > 0 else 'less'} in the second grid"
        out = (
            f"phi of the second grid less that of the first: {self.difference:+.3f} [{low:.3f}, {high:.3f}], "
            f"above 0 with probability {self.positive:.3g}: {verdict}."
        )
        if self.shared:
            out += f" {self.shared} run(s) are in both grids: the two are not independent."
        return out


def delta_phi(first: IsoDepth, second: IsoDepth) -> DeltaPhi:
    """The difference of phi, from the two grids' block bootstraps, taken as independent.

    Percentiles over all pairs of replicates; where either grid has so few cells that its own interval is
    Student's, Welch's t on the bootstrap standard errors. Failed refits count as beyond both ends.

    Raises ConfigError where either phi is not identified.
    """
    fits = first.free.fit, second.free.fit
    for name, one in zip(("first", "second"), fits, strict=True):
        if not one.identified or not one.replicates:
            raise ConfigError(
                f"phi of the {name} grid is not identified ({one.status}), so no difference is; add runs"
            )
    one, two = fits
    centre = two.estimates["phi"] - one.estimates["phi"]
    lost = 1 - (1 - one.failed_share) * (1 - two.failed_share)
    tail = (1 - CONFIDENCE) / 2 - lost
    few = any(f.few_freedom is not None for f in fits)
    if few:
        (error_1, nu_1), (error_2, nu_2) = (_error(f) for f in fits)
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
    shared = len(set(first.runs) & set(second.runs))
    return DeltaPhi(one.estimates["phi"], two.estimates["phi"], centre, ends, positive, method, shared)


def _drawn(found: Fit) -> Array:
    return np.array(found.replicates)[:, found.free.index("phi")]


def _error(found: Fit) -> tuple[float, int]:
    """Standard error of phi, times sqrt(C / (C - 1)) of C cells, and C - 1."""
    nu = found.provenance.groups - 1
    return float(_drawn(found).std()) * math.sqrt((nu + 1) / nu), nu
