"""Local exponents with intervals: where along depth a power law holds, and where it bends."""

import itertools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from sweeps.laws._depth import local_exponents


class LocalExponent(NamedTuple):
    """The slope between two neighbouring depths.

    shallow, deep: the depths. depth: their geometric mean. exponent: mean over replicates, and the ends of
    its interval, infinite where there is only one. replicates: how many.
    """

    shallow: float
    deep: float
    depth: float
    exponent: float
    lower: float
    upper: float
    replicates: int


def local_exponents_of(
    depth: npt.ArrayLike, loss: npt.ArrayLike, group: Sequence[Hashable], confidence: float = 0.95
) -> list[LocalExponent]:
    r"""Exponents between the neighbouring depths of a table, each with its interval.

    A replicate (a seed, with its own teacher) that has both depths gives
    $\alpha = -\log(L_{j+1}/L_j)/\log(\ell_{j+1}/\ell_j)$. The mean over replicates gets Student's interval.
    Neighbouring slopes share a loss, so an error in it moves one up and the other down.

    **Arguments:** columns of equal length, one row a student; `depth` and `loss` finite and positive.

    **Returns:** one for each two neighbouring depths that a replicate has both of, in order of depth.

    **Raises:** ValueError where the arguments are not as said, or a replicate has two losses at one depth.
    """
    x, y = np.asarray(depth, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    if not (x.ndim == y.ndim == 1 and len(x) == len(y) == len(group)):
        raise ValueError(
            f"depth, loss and group have {x.shape}, {y.shape} and {len(group)} rows; not one each."
        )
    for name, values in (("depth", x), ("loss", y)):
        if (bad := np.flatnonzero(~(np.isfinite(values) & (values > 0)))).size:
            raise ValueError(f"{name}: {values[bad[0]]} in row {bad[0]} is not finite and > 0; leave it out.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: it must lie between 0 and 1.")
    losses: dict[tuple[Hashable, float], float] = {}
    for row, key in enumerate(zip(group, x.tolist(), strict=True)):
        if key in losses:
            raise ValueError(f"row {row}: replicate {key[0]} has two losses at depth {key[1]:g}.")
        losses[key] = y[row]
    found = []
    for shallow, deep in itertools.pairwise(np.unique(x).tolist()):
        both = [one for one in dict.fromkeys(group) if {(one, shallow), (one, deep)} <= losses.keys()]
        if not both:
            continue
        pairs = [(losses[one, shallow], losses[one, deep]) for one in both]
        (place,), slopes = local_exponents([shallow, deep], pairs)
        mean, reach = float(np.mean(slopes)), np.inf
        if len(both) > 1:
            error = float(np.std(slopes, ddof=1)) / len(both) ** 0.5
            reach = float(stats.t.ppf(0.5 + confidence / 2, len(both) - 1)) * error
        found.append(LocalExponent(shallow, deep, float(place), mean, mean - reach, mean + reach, len(both)))
    return found
