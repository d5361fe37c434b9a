"""The command `iso-depth`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps._terminal import console, fail, say
from sweeps.cli._fits import _write_text
from sweeps.cli._options import (
    DELTA,
    DERIVE,
    DROP_INVALID,
    MAP,
    OBJECTIVE,
    OVERESTIMATES,
    RESAMPLES,
    SEED,
    STARTS,
    TABLE,
    objective_of,
)

if TYPE_CHECKING:
    from sweeps.iso_depth import IsoDepth


def iso_depth(
    source: TABLE,
    against: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Another grid: its phi less that of the first.")
    ] = None,
    injection: Annotated[
        str | None, typer.Option(help="Take the runs of r = 1 and those that are injected so.")
    ] = None,
    against_injection: Annotated[
        str | None, typer.Option(help="The same of the other grid; without --against, of the same table.")
    ] = None,
    map: MAP = [],  # noqa: B006  # typer copies it
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    objective: OBJECTIVE = None,
    delta: DELTA = None,
    overestimates: OVERESTIMATES = None,
    resamples: RESAMPLES = None,
    starts: STARTS = 64,
    seed: SEED = 0,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Everything, as JSON; '-' for standard output."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it (PNG and PDF).")
    ] = None,
) -> None:
    """What one recurrence is worth: phi, frontier and best sizes of a grid of looped language models."""
    import json as text

    from sweeps._config import ConfigError
    from sweeps._source import open_source
    from sweeps.iso_depth import COLUMNS, analyse, as_json, caveats, delta_phi, sentences
    from sweeps.iso_depth._shown import tables
    from sweeps.laws import LoopedLaw

    chosen = objective_of([LoopedLaw()], objective, delta, overestimates)

    def analysed(path: Path, injection: str | None) -> "tuple[IsoDepth, int]":
        opened = open_source(path, "looped", map, derive, drop_invalid, (*COLUMNS, "flops"))
        found = analyse(
            opened.table,
            injection=injection,
            objective=chosen,
            resamples=resamples,
            starts=starts,
            seed=seed,
            source=opened.said,
        )
        return found, opened.missing

    if against is None and against_injection is not None:
        against = source
    found, missing = analysed(source, injection)
    other, more = analysed(against, against_injection or injection) if against is not None else (None, 0)
    for sentence in caveats(found):
        say(sentence)
    for sentence in caveats(other) if other is not None else ():
        say(f"{against}: {sentence}")
    to_stdout = json is not None and str(json) == "-"
    if not to_stdout:
        for table in tables(found):
            console().print(table)
        for sentence in sentences(found):
            console().print(sentence, highlight=False)
    difference, problem = None, ""
    if other is not None:
        try:
            difference = delta_phi(
                found, other, objective=chosen, resamples=resamples, starts=starts, seed=seed
            )
        except ConfigError as error:  # what was found of each grid is not lost by it
            problem = str(error)
    if difference is not None and not to_stdout:
        console().print(difference.sentence, highlight=False)
    if json is not None:
        tree = as_json(found)
        if other is not None:
            tree["against"] = as_json(other)
        if difference is not None:
            tree["delta_phi"] = as_json(difference)
        _write_text(json, text.dumps(tree, indent=1, allow_nan=False))
    if plot is not None:
        from figures.iso_depth import draw

        for path in draw(found, plot.parent, plot.stem, source.name):
            say(f"wrote {path}")
    if missing + more:
        fail(f"{missing + more} job(s) have no record yet: the same `depthlaw run` continues", 1)
    if not found.free.fit.trusted:
        fail(f"not to be trusted: the joint law's fit is {found.free.fit.status}", 1)
    if not found.phi.identified:
        fail("the runs do not bound phi: see above", 1)
    if problem:
        fail(problem, 1)
    if difference is not None and not (difference.together.trusted and difference.by_one_law.identified):
        fail(f"not to be trusted: the one law for both grids is {difference.together.status}", 1)
    diverged = found.diverged + (0 if other is None else other.diverged)
    if diverged:
        fail(f"not to be trusted: {diverged} diverged run(s) are missing from it", 1)
