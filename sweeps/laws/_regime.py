"""What the interval of a depth exponent says about how depth is used."""

import enum
import math


class Regime(enum.StrEnum):
    """How a network uses its depth, as far as an exponent can tell (arXiv:2602.05970)."""

    ENSEMBLE_AVERAGING = "ensemble averaging"
    PROCEDURAL_ASSEMBLY = "procedural assembly"
    BETWEEN = "between"
    NOT_RESOLVED = "not resolved"


def regime(interval: tuple[float, float] | None) -> Regime:
    """The regime that an interval of alpha allows, and no other.

    The rules, in this order:

    1. wholly inside (0.5, 1.5): `ensemble averaging`. Layers that are redundant noisy estimators give
       alpha = 1 by the central limit; 0.5 and 1.5 are a quarter of the way to the other prediction.
    2. wholly above 2: `procedural assembly`. Layers that discretise a smooth flow give 3 once converged.
       Even Euler steps with the teacher's own weights, which learn nothing, give a squared error of alpha = 2
       when the dynamics are smooth, and independent layers cannot give more than 1; so above 2 only a learnt
       discretisation of a smooth flow is left.
    3. wholly inside (1, 3): `between`. Both predictions are excluded: a student that has not converged, or a
       teacher whose weights are correlated along depth.
    4. otherwise, and for a missing or infinite interval: `not resolved`.

    The interval must be one for alpha of loss ~ depth^-alpha with the right floor, and the exponent alone is
    not a mechanism: look at the angle between neighbouring updates as well.

    **Raises:** ValueError if the lower end is above the upper end.
    """
    if interval is None or not all(math.isfinite(end) for end in interval):
        return Regime.NOT_RESOLVED
    lower, upper = interval
    if lower > upper:
        raise ValueError(f"interval: ({lower}, {upper}) has its lower end above its upper end; swap them.")
    if 0.5 < lower and upper < 1.5:
        return Regime.ENSEMBLE_AVERAGING
    if lower > 2:
        return Regime.PROCEDURAL_ASSEMBLY
    if 1 < lower and upper < 3:
        return Regime.BETWEEN
    return Regime.NOT_RESOLVED
