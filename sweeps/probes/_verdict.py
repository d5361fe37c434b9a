"""Does a network compose, discretise, or average? Witnesses, each with its interval, and what they agree on.

The signs of the three mechanisms are those of arXiv:2602.05970. A witness speaks for all mechanisms that
its interval allows; the verdict is what every witness allows, if that is one.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sweeps.laws import DepthLaw, Fit, Regime, fit, regime
from sweeps.probes._kept import Found

if TYPE_CHECKING:
    from llm.probe import Probe, Scalar

UNRELATED = 0.2
"""Updates whose angle is within this many radians of π/2 are unrelated: a cosine of at most 0.2."""

ALONG = math.pi / 3
"""Updates at less than this angle go on where the last went: a cosine of more than a half."""

FEW = 0.05
"""Fewer tokens than this share are an exception."""

LOOPED = "norms and injections between recurrences undo what layers do"
"""Why layers of looped models are no witnesses: at a fixed point every recurrence repeats its updates, which
looks like a flow and leads nowhere. `recurrence_step` says whether they still move."""

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
    step_fit = _scaling(found, [one.probe.scalar("bulk_step").mean for one in found])
    losses = [one.about.get("loss") for one in found]
    # A toy student can reach its teacher; what a language model cannot go below has to be fitted.
    exponent_fit = _scaling(found, losses, floor=found[0].about["network"] == "run")
    probes = [one.probe for one in deepest]
    witnesses: tuple[Witness, ...] = (
        of_exponent(_alpha(exponent_fit)),
        of_update_angle(mean_of([one.scalar("bulk_update_angle") for one in probes]), _cosines(probes)),
        of_step_scaling(_alpha(step_fit)),
        of_stops(mean_of([one.scalar("early") for one in probes]), any(_differ(one) for one in probes)),
    )
    if any(state.recurrence for one in probes for state in one.states):
        witnesses = (witnesses[0], *(_silent(one.name, one.unit, LOOPED) for one in witnesses[1:]))
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


def of_update_angle(angle: tuple[float, tuple[float, float]], cosines: Sequence[float] = ()) -> Witness:
    """The mean angle between neighbouring updates in the middle half of the layers.

    cosines: mean cosines at several lags; unrelated updates have small ones at all, where those that swing to
    and fro have a mean angle of π/2 too.
    """
    value, (low, high) = angle
    if not math.isfinite(value) or not math.isfinite(high - low):
        return _silent("update angle", "radians", "no interval of the angle between updates")
    related = max((abs(cosine) for cosine in cosines if math.isfinite(cosine)), default=0.0)
    if high < ALONG:
        allows, told = frozenset({PROCEDURAL, COMPOSITIONAL}), "updates go on where the last went"
    elif not (math.pi / 2 - UNRELATED < low and high < math.pi / 2 + UNRELATED):
        allows, told = EVERY, "the angle between updates lies between the predictions, or is not known well"
    elif related > UNRELATED:
        allows, told = EVERY, f"updates some layers apart are related, with a cosine of {related:.2f}"
    else:
        allows, told = frozenset({AVERAGING, COMPOSITIONAL}), "neighbouring updates are unrelated"
    return Witness("update angle", "radians", value, (low, high), allows, told)


def of_step_scaling(gamma: tuple[float, tuple[float, float]] | None) -> Witness:
    """The exponent of the mean step of the middle layers against depth: 1 where all layers share the way.

    It speaks if its interval lies wholly inside (0.5, 1.5), as that of an exponent of loss does.
    """
    if gamma is None:
        return _silent("step scaling", "", "no three depths to compare")
    value, (low, high) = gamma
    if 0.5 < low and high < 1.5:
        allows, told = frozenset({AVERAGING, PROCEDURAL}), "the layers share one way between them"
    elif high < 0.5 or low > 1.5:
        allows, told = EVERY, "steps do not scale as 1/depth"
    else:
        allows, told = EVERY, "how steps scale with depth is not known well"
    return Witness("step scaling", "", value, (low, high), allows, told)


def of_stops(early: tuple[float, tuple[float, float]], differ: bool) -> Witness:
    """The share of tokens that stop early; differ: whether clusters of tokens stop at different depths."""
    value, (low, high) = early
    if not math.isfinite(high - low):
        return _silent("early stops", "share of tokens", "no interval of the share of tokens that stop early")
    low, high = max(0.0, low), min(1.0, high)
    if low > FEW and differ:
        allows, told = frozenset({COMPOSITIONAL}), "some tokens stop early, others do not"
    elif high < FEW and not differ:
        allows, told = frozenset({AVERAGING, PROCEDURAL}), "all tokens move through all layers"
    elif low > FEW:
        allows, told = EVERY, "tokens stop early, but not at depths of their own"
    else:
        allows, told = EVERY, "how many tokens stop early is not known well"
    return Witness("early stops", "share of tokens", value, (low, high), allows, told)


def _differ(probe: "Probe") -> bool:
    """Whether two clusters, neither an exception, stop at different depths."""
    found, stop = probe.clusters, probe.sampled["stop"]
    means = [float(np.mean(stop[found.label == k])) for k, share in enumerate(found.shares) if share > FEW]
    return len(means) > 1 and max(means) - min(means) > APART


def _cosines(probes: "Sequence[Probe]") -> list[float]:
    """Mean over networks at the lags that at least three quarters of the layers have."""
    lags = max(1, min(probe.depth for probe in probes) // 4)
    every = np.mean([probe.measures["update_cosine"].mean for probe in probes], axis=0)
    return [float(value) for value in every[:lags]]


def _silent(name: str, unit: str, why: str) -> Witness:
    return Witness(name, unit, math.nan, (math.nan, math.nan), EVERY, why)


def _listed(mechanisms: frozenset[Mechanism]) -> str:
    return " or ".join(str(one) for one in Mechanism if one in mechanisms)


def mean_of(measured: "Sequence[Scalar]") -> tuple[float, tuple[float, float]]:
    """Mean over networks with Student's 95 % interval over them; of one network, over its documents.

    Where all have the same value, up to three documents in as many as there are could have had another.
    """
    if len(measured) == 1:
        value, error, count = measured[0]
    else:
        values = np.array([one.mean for one in measured])
        count = len(values)
        value, error = float(values.mean()), float(values.std(ddof=1)) / count**0.5
    if count < 2:
        return value, (math.nan, math.nan)
    least = 3 / sum(one.documents for one in measured) if error == 0 else 0.0
    reach = max(float(scipy.stats.t.ppf(0.975, count - 1)) * error, least)
    return value, (value - reach, value + reach)


def _scaling(found: Sequence[Found], values: Sequence[object], floor: bool = False) -> Fit | None:
    """values ∝ depth^-alpha, a level for each seed, above a floor or not, of seeds with several depths.

    None for fewer than three depths (four with a floor), or values that are not all positive.
    """
    numbers = [float(value) if isinstance(value, int | float) else math.nan for value in values]
    depths = [int(one.about["depth"]) for one in found]
    seeds = [one.about.get("seed", 0) for one in found]
    of_seed = {seed: {d for d, s in zip(depths, seeds, strict=True) if s == seed} for seed in seeds}
    kept = [place for place, seed in enumerate(seeds) if len(of_seed[seed]) > 1]
    if len({depths[place] for place in kept}) < 3 + floor:
        return None
    if not all(math.isfinite(numbers[place]) and numbers[place] > 0 for place in kept):
        return None
    table = {
        "depth": [depths[place] for place in kept],
        "loss": [numbers[place] for place in kept],
        "seed": [seeds[place] for place in kept],
    }
    return fit(DepthLaw(), table, fix=None if floor else {"L_0": 0.0})


def _alpha(found: Fit | None) -> tuple[float, tuple[float, float]] | None:
    if found is None or not (found.trusted and found.identified):
        return None
    return found.estimates["alpha"], found.intervals["alpha"]
