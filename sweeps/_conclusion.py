"""What the rows of a sweep say to what its spec asks: answers, and all that is not known of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps import _headline
from sweeps._config import ConfigError
from sweeps._grids import of_terminal
from sweeps._page import Caveat, Grid, Reading
from sweeps._report import Answer, answers, exponents_table, parameters_table, question_of, title
from sweeps._spec import NO_LAW, FitSpec

if TYPE_CHECKING:
    import polars as pl

    from sweeps.iso_depth import IsoDepth

MOST_PARAMETERS = 4
"""Fits of which all parameters are shown."""

LOOPED = "looped"


@dataclass(frozen=True)
class Conclusion:
    """**Fields:** `answers`, a sentence or two; `readings`, its numbers; `findings`, further sentences;
    `caveats`; `fits`, tables; `found`, a fit for each condition, and `grid`, an iso-depth grid analysed
    (None: it is none)."""

    answers: tuple[str, ...]
    readings: tuple[Reading, ...] = ()
    findings: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    fits: tuple[Grid, ...] = ()
    found: tuple[Answer, ...] = ()
    grid: "IsoDepth | None" = None


def conclude(rows: "pl.DataFrame", asked: FitSpec) -> Conclusion:
    """The conclusion from the rows of a folder of results; that there is none, where there is none."""
    if rows.is_empty():
        return Conclusion(("There are no rows, so there is no answer.",))
    if asked.law == NO_LAW:
        return Conclusion((f"The spec asks for no fit: the {len(rows)} rows speak for themselves.",))
    refused: tuple[Caveat, ...] = ()
    if asked.law == LOOPED and not asked.by:
        try:
            return _of_grid(rows)
        except (ConfigError, ValueError) as error:
            refused = (Caveat(f"No analysis as an iso-depth grid: {error}", serious=True),)
    try:
        found = answers(rows, question_of(asked))
    except (ConfigError, ValueError) as error:
        told = "There is no answer: the rows cannot be fitted."
        return Conclusion((told,), caveats=(*refused, Caveat(str(error), serious=True)))
    return _of_answers(_headline.ordered(found), refused)


def _of_answers(found: list[Answer], refused: tuple[Caveat, ...]) -> Conclusion:
    told = _headline.headline(found) or ("There is no answer: none of the conditions could be fitted.",)
    fits = [of_terminal(exponents_table(found))]
    fitted = [one for one in found if one.fit is not None]
    if len(fitted) <= MOST_PARAMETERS:
        for one in fitted:
            assert one.fit is not None
            where = _headline.named(one.condition)
            caption = title(one.fit).replace("\n", "; ")
            caption = f"{where}: {caption}" if where else caption
            rows = one.fit.provenance.data_sha256
            note = f"Intervals: {one.fit.interval_method}. SHA-256 of the rows: {rows}."
            fits.append(of_terminal(parameters_table(one.fit), caption, note))
    return Conclusion(
        told,
        _headline.readings(found),
        _headline.regimes(found),
        (*refused, *_headline.caveats(found)),
        tuple(fits),
        tuple(found),
    )


def _of_grid(rows: "pl.DataFrame") -> Conclusion:
    from sweeps.iso_depth import analyse, caveats, sentences
    from sweeps.iso_depth._shown import tables

    grid = analyse(rows)
    phi, fit = grid.phi, grid.free.fit
    doubts = []
    if not fit.trusted:
        doubts.append(Caveat(f"The joint law's fit is {fit.status}.", serious=True))
    if not phi.identified:
        doubts.append(Caveat("The runs do not bound phi.", serious=True))
    if grid.diverged:
        doubts.append(Caveat(f"{grid.diverged} diverged run(s) are left out.", serious=True))
    low, high = phi.interval
    reading = Reading(
        "",
        "φ",
        f"{phi.estimate:.3f}",
        f"{100 * fit.confidence:g} % interval: {low:.3f} to {high:.3f}",
        "What one more recurrence of a block is worth: nothing at 0, a block of its own at 1.",
        not (fit.trusted and phi.identified),
    )
    return Conclusion(
        _of_phi(grid),
        (reading,),
        tuple(sentences(grid)),
        (*doubts, *(Caveat(one) for one in caveats(grid))),
        tuple(of_terminal(one) for one in tables(grid)),
        grid=grid,
    )


def _of_phi(grid: "IsoDepth") -> tuple[str, ...]:
    """The answer of a grid in two sentences; how its interval was made is among the findings."""
    phi, most = grid.phi, max(run.num_recur for run in grid.runs)
    if not (grid.free.fit.trusted and phi.identified):
        return ("What a recurrence is worth is not known: these runs do not bound φ.",)
    low, high = phi.interval
    times = [f"{most**value:.2f}" for value in (phi.estimate, low, high)]
    told = (
        f"φ = {phi.estimate:.3f} [{low:.3f} to {high:.3f}]: running a block {most} times is worth {times[0]} "
        f"[{times[1]} to {times[2]}] blocks of their own. In brackets: {100 * grid.free.fit.confidence:g} % "
        "intervals."
    )
    if grid.monotone is None:
        return (told,)
    steps, clear = (sum(getattr(order, name) for order in grid.orders) for name in ("steps", "resolved"))
    how = "rises with r" if grid.monotone else "does not rise with r"
    return (
        told,
        f"At equal compute, the frontier's loss {how} at every budget; {clear} of {steps} steps from one r "
        "to the next are beyond twice their standard error.",
    )
