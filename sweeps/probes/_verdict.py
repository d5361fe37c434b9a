"""Does a network compose, discretise, or average? Witnesses, each with its interval, and what they agree on.

The signs of the three mechanisms are those of arXiv:2602.05970. A witness speaks for all mechanisms that
its interval allows; the verdict is what every witness allows, if that is one.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from sweeps._config import ConfigError
from sweeps.laws import DepthLaw, Fit, Regime, fit, regime
from sweeps.probes._kept import Found

UNRELATED = 0.2
"""Updates whose angle is within this many radians of π/2 are unrelated: a cosine of at most 0.2."""

ALONG = math.pi / 3
"""Updates at less than this angle go on where the last went: a cosine of more than a half."""

EARLY = 0.75
"""A token stops early that has gone its way by this share of the layers."""

FEW = 0.05
"""Fewer tokens than this share are an exception."""

APART = 0.1
"""Clusters stop at different depths if their mean stops are this far apart, as shares of the layers."""


class Mechanism(enum.StrEnum):
    """How a network uses its depth."""

    ENSEMBLE_AVERAGING = "ensemble averaging"
    PROCEDURAL_ASSEMBLY = "procedural assembly"
    COMPOSITIONAL_ASSEMBLY = "compositional assembly"


AVERAGING, PROCEDURAL, COMPOSITIONAL = Mechanism
EVERY = frozenset(Mechanism)


@dataclass(frozen=True)
class Witness:
    """One sign. value, interval: what was measured, with 95 %; NaN where it was not. allows: the mechanisms
    that it leaves; told: why, in a few words."""

    name: str
    unit: str
    value: float
    interval: tuple[float, float]
    allows: frozenset[Mechanism]
    told: str


@dataclass(frozen=True)
class Verdict:
    """What all witnesses allow: one mechanism, or None (`not resolved`), and why."""

    question: dict[str, object]
    networks: int
    depths: tuple[int, ...]
    mechanism: Mechanism | None
    told: str
    witnesses: tuple[Witness, ...]
    step_fit: Fit | None
    exponent_fit: Fit | None


def verdicts(found: Sequence[Found]) -> list[Verdict]:
    """One for each question, of the networks that share it."""
    questions: list[tuple[dict[str, object], list[Found]]] = []
    for one in found:
        for question, members in questions:
            if question == one.question:
                members.append(one)
                break
        else:
            questions.append((one.question, [one]))
    return [verdict(question, members) for question, members in questions]


def verdict(question: dict[str, object], found: Sequence[Found]) -> Verdict:
    """Of networks that differ in depth and seed alone."""
    depths = tuple(sorted({int(one.about["depth"]) for one in found}))
    deepest = [one for one in found if one.about["depth"] == depths[-1]]
    step_fit = _scaling(found, [one.probe.scalar("bulk_step")[0] for one in found])
    losses = [one.about.get("loss") for one in found]
    # A toy student can reach its teacher; what a language model cannot go below has to be fitted.
    exponent_fit = _scaling(found, losses, floor=found[0].about["network"] == "run")
    witnesses = (
        of_exponent(_alpha(exponent_fit)),
        of_update_angle(_mean_of([one.probe.scalar("bulk_update_angle") for one in deepest])),
        of_step_scaling(_alpha(step_fit)),
        of_stops([(one.probe.clusters, one.probe.sampled["stop"]) for one in deepest]),
    )
    mechanism, told = agreed(witnesses)
    return Verdict(question, len(found), depths, mechanism, told, witnesses, step_fit, exponent_fit)


def agreed(witnesses: Sequence[Witness]) -> tuple[Mechanism | None, str]:
    """The one mechanism that all allow; else None, and which disagree or what is left open."""
    left = EVERY.intersection(*(witness.allows for witness in witnesses))
    speaking = [witness for witness in witnesses if witness.allows != EVERY]
    if len(left) == 1:
        return next(iter(left)), " and ".join(witness.told for witness in speaking)
    if not left:
        said = "; ".join(f"{one.name} allows {_listed(one.allows)}" for one in speaking)
        return None, f"the witnesses disagree: {said}"
    return None, f"the witnesses leave open {_listed(left)}"


def of_exponent(alpha: tuple[float, tuple[float, float]] | None) -> Witness:
    """The exponent of loss against depth; composition makes no prediction of it."""
    if alpha is None:
        return _silent("exponent", "", "no depths whose losses bound it")
    value, interval = alpha
    found = regime(interval)
    allows = {
        Regime.ENSEMBLE_AVERAGING: frozenset({AVERAGING, COMPOSITIONAL}),
        Regime.PROCEDURAL_ASSEMBLY: frozenset({PROCEDURAL, COMPOSITIONAL}),
    }.get(found, EVERY)
    return Witness("exponent", "", value, interval, allows, f"loss falls as depth^-{value:.2f} ({found})")


def of_update_angle(angle: tuple[float, tuple[float, float]]) -> Witness:
    """The mean angle between neighbouring updates in the middle half of the layers."""
    value, (low, high) = angle
    if not math.isfinite(value) or not math.isfinite(high - low):
        return _silent("update angle", "radians", "no interval of the angle between updates")
    if high < ALONG:
        allows, told = frozenset({PROCEDURAL, COMPOSITIONAL}), "updates go on where the last went"
    elif math.pi / 2 - UNRELATED < low and high < math.pi / 2 + UNRELATED:
        allows, told = frozenset({AVERAGING, COMPOSITIONAL}), "neighbouring updates are unrelated"
    else:
        allows, told = EVERY, "the angle between updates lies between the predictions"
    return Witness("update angle", "radians", value, (low, high), allows, told)


def of_step_scaling(gamma: tuple[float, tuple[float, float]] | None) -> Witness:
    """The exponent of the mean step of the middle layers against depth: 1 where all layers share the way.

    It speaks if its interval lies wholly inside (0.5, 1.5), as that of an exponent of loss does."""
    if gamma is None:
        return _silent("step scaling", "", "no three depths to compare")
    value, (low, high) = gamma
    shared = 0.5 < low and high < 1.5
    allows = frozenset({AVERAGING, PROCEDURAL}) if shared else EVERY
    told = "the layers share one way between them" if shared else "steps do not scale as 1/depth"
    return Witness("step scaling", "", value, (low, high), allows, told)


def of_stops(sampled: "Sequence[tuple[object, np.ndarray]]") -> Witness:
    """The share of tokens that stop early, where clusters of tokens stop at different depths."""
    stops = np.concatenate([stop for _, stop in sampled])
    early, count = int(np.sum(stops <= EARLY)), len(stops)
    interval = scipy.stats.binomtest(early, count).proportion_ci(method="wilson")
    value, low, high = early / count, float(interval.low), float(interval.high)
    differ = any(_differ(clusters, stop) for clusters, stop in sampled)
    if low > FEW and differ:
        allows, told = frozenset({COMPOSITIONAL}), "some tokens stop early, others do not"
    elif high < FEW:
        allows, told = frozenset({AVERAGING, PROCEDURAL}), "all tokens move through all layers"
    else:
        allows, told = EVERY, "tokens stop early, but not at depths of their own"
    return Witness("early stops", "share of tokens", value, (low, high), allows, told)


def _differ(found: object, stop: np.ndarray) -> bool:
    """Whether two clusters, neither an exception, stop at different depths."""
    label, shares = found.label, found.shares  # type: ignore[attr-defined]
    means = [float(np.mean(stop[label == k])) for k in range(len(shares)) if shares[k] > FEW]
    return len(means) > 1 and max(means) - min(means) > APART


def _silent(name: str, unit: str, why: str) -> Witness:
    return Witness(name, unit, math.nan, (math.nan, math.nan), EVERY, why)


def _listed(mechanisms: frozenset[Mechanism]) -> str:
    return " or ".join(str(one) for one in Mechanism if one in mechanisms)


def _mean_of(measured: Sequence[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """Mean over networks with Student's interval over them; of one network, over its sequences."""
    values = np.array([value for value, _ in measured])
    if len(values) == 1:
        value, error = measured[0]
        reach = 1.96 * error
    else:
        value = float(values.mean())
        reach = float(scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    return value, (value - reach, value + reach)


def _scaling(found: Sequence[Found], values: Sequence[object], floor: bool = False) -> Fit | None:
    """values ∝ depth^-alpha, a level for each seed, above a floor or not; None for fewer than three depths
    (four with a floor), or values that are not all positive."""
    numbers = [float(value) if isinstance(value, int | float) else math.nan for value in values]
    depths = [int(one.about["depth"]) for one in found]
    if len(set(depths)) < 3 + floor or not all(math.isfinite(number) and number > 0 for number in numbers):
        return None
    seeds = [one.about.get("seed", 0) for one in found]
    try:
        table = {"depth": depths, "loss": numbers, "seed": seeds}
        return fit(DepthLaw(), table, fix=None if floor else {"L_0": 0.0})
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _alpha(found: Fit | None) -> tuple[float, tuple[float, float]] | None:
    if found is None or not (found.trusted and found.identified):
        return None
    return found.estimates["alpha"], found.intervals["alpha"]
