"""The answers of a sweep in a sentence or two, as numbers, and what they do not know, each said once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sweeps._page import Caveat, Reading
from sweeps._report import Answer, sentences, value_and_ends
from sweeps.laws import DepthLaw, Regime

MOST_READINGS = 6
"""Numbers that are shown one by one; of more, the least and the greatest."""

SYMBOLS = {"alpha": "α", "beta": "β", "phi": "φ"}

NULL = {"correlation_length": "∞"}
"""What a condition's missing value means, where the column's own text says so."""

REGIMES = {
    Regime.ENSEMBLE_AVERAGING: "layers average out noise, as under independent weights (α = 1)",
    Regime.PROCEDURAL_ASSEMBLY: "layers discretise a smooth flow, as under tied weights (α = 3, converged)",
    Regime.BETWEEN: "both are excluded: not yet converged, or weights that are correlated along depth",
    Regime.NOT_RESOLVED: "the interval allows several",
}
"""What a regime means (`sweeps.laws.regime`)."""


def named(condition: dict[str, Any], without: Sequence[str] = ()) -> str:
    """A condition in words, less the columns `without`."""
    parts = [f"{name} {_shown(name, value)}" for name, value in condition.items() if name not in without]
    return ", ".join(parts)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return NULL.get(name, "none")
    return f"{value:g}" if isinstance(value, float) else str(value)


def common(found: Sequence[Answer]) -> dict[str, Any]:
    """The part of the conditions that all answers share, where there are several."""
    if len(found) < 2:
        return {}
    first = found[0].condition
    return {name: v for name, v in first.items() if all(one.condition[name] == v for one in found)}


def ordered(found: Sequence[Answer]) -> list[Answer]:
    """By their conditions, with missing values last: they stand for what is beyond the others."""

    def place(one: Answer) -> list[tuple[bool, Any]]:
        values = one.condition.values()
        return [(value is None, "" if value is None else value) for value in values]

    return sorted(found, key=place)  # a column's values are of one type


def headline(found: Sequence[Answer]) -> tuple[str, ...]:
    """The answers in a sentence or two; none where there is no fit."""
    fitted = [one for one in found if one.fit is not None]
    if not fitted:
        return ()
    said = [_few(fitted) if len(fitted) <= MOST_READINGS else _many(fitted)]
    regimes = Counter(str(one.regime) for one in fitted if isinstance(one.law, DepthLaw))
    if regimes and len(fitted) > MOST_READINGS:
        said.append("Regimes: " + ", ".join(f"{name} {n}" for name, n in regimes.items()) + ".")
    return tuple(said)


def _few(fitted: list[Answer]) -> str:
    shared = common(fitted)
    parts = []
    for one in fitted:
        numbers = ", ".join(_number(one, name) for name in one.law.headline)
        regime = f", {one.regime}" if isinstance(one.law, DepthLaw) else ""
        where = named(one.condition, tuple(shared))
        parts.append(f"{where}: {numbers}{regime}" if where else f"{numbers}{regime}")
    within = f" ({named(shared)})" if shared else ""
    return f"{'; '.join(parts)}{within}. {_confidence(fitted)}"


def _many(fitted: list[Answer]) -> str:
    shared = common(fitted)
    name = fitted[0].law.headline[0]
    known = [one for one in fitted if one.trusted and one.fit is not None]
    if not known:
        return f"None of {len(fitted)} fits is to be trusted."
    low, high = (
        end(known, key=lambda one: one.fit.estimates[name])  # type: ignore[union-attr]  # it has a fit
        for end in (min, max)
    )
    ends = [f"{_number(one, name)} at {named(one.condition, tuple(shared))}" for one in (low, high)]
    within = f" ({named(shared)})" if shared else ""
    return f"{len(fitted)} fits{within}, from {ends[0]} to {ends[1]}. {_confidence(fitted)}"


def _confidence(fitted: list[Answer]) -> str:
    found = fitted[0].fit
    return f"In brackets: {100 * found.confidence:g} % intervals." if found else ""


def _number(one: Answer, name: str) -> str:
    assert one.fit is not None
    value, ends = value_and_ends(one.fit, name)
    doubt = "" if one.trusted else ", not to be trusted"
    doubt = doubt or ("" if one.fit.parameters[name].identified else ", not bounded by the rows")
    return f"{SYMBOLS.get(name, name)} = {value} [{ends}]{doubt}"


def readings(found: Sequence[Answer]) -> tuple[Reading, ...]:
    """The answers as numbers, where they are few."""
    fitted = [one for one in found if one.fit is not None]
    if len(fitted) > MOST_READINGS:
        return ()
    out = []
    for one in fitted:
        assert one.fit is not None
        for name in one.law.headline:
            value, ends = value_and_ends(one.fit, name)
            doubtful = not (one.trusted and one.fit.parameters[name].identified)
            out.append(
                Reading(
                    named(one.condition, tuple(common(fitted))),
                    SYMBOLS.get(name, name),
                    value,
                    f"{100 * one.fit.confidence:g} % interval: {ends}",
                    _meaning(one),
                    doubtful,
                )
            )
    return tuple(out)


def _meaning(one: Answer) -> str:
    if one.fit is None or not isinstance(one.law, DepthLaw):
        return ""
    if not one.trusted:
        return "Not to be trusted."
    times, low, high = (2**a for a in (one.fit.estimates["alpha"], *one.fit.intervals["alpha"]))
    told = f"Twice the depth divides the loss above its floor by {times:.3g} [{low:.3g} to {high:.3g}]."
    return f"{str(one.regime).capitalize()}. {told}"


def regimes(found: Sequence[Answer]) -> tuple[str, ...]:
    """What the regimes mean that are among the answers."""
    seen = {one.regime for one in found if one.fit is not None and isinstance(one.law, DepthLaw)}
    return tuple(f"{str(one).capitalize()}: {told}." for one, told in REGIMES.items() if one in seen)


def caveats(found: Sequence[Answer]) -> list[Caveat]:
    """What the fits do not know, were not given, or are not; what several say alike, once."""
    serious: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    shared = tuple(common(found))
    for one in found:
        where = named(one.condition, shared)
        if one.fit is not None and not one.fit.trusted:
            serious.setdefault(f"The fit is {one.fit.status}.", []).append(where)
        for sentence in sentences([one], conditions=False):
            group = notes if one.fit is not None and sentence in one.notes else serious
            group.setdefault(sentence[:1].upper() + sentence[1:], []).append(where)
    return [
        Caveat(sentence, tuple(filter(None, where)), kind is serious)
        for kind in (serious, notes)
        for sentence, where in kind.items()
    ]
