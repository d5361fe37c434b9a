"""The commands about a fit: compare, sensitivity, holdout, allocate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps._terminal import fail, say
from sweeps.cli._options import (
    BOUND,
    DELTA,
    DERIVE,
    DROP_INVALID,
    DROP_TOP,
    FIX,
    GROUP,
    LAW,
    MAP,
    OBJECTIVE,
    OUT,
    OVERESTIMATES,
    SEED,
    TABLE,
    ObjectiveName,
    fit_options,
    groups_of,
    objective_of,
    print_rows,
    read_fit,
    refused,
)


def compare(
    source: TABLE,
    law: Annotated[
        list[str],
        typer.Option(
            "--law",
            metavar="LAW[; NAME=VALUE]",
            help="A law, with what is fixed in it: 'looped; phi=0'; repeatable.",
        ),
    ],
    map: MAP = [],  # noqa: B006
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    drop_top: DROP_TOP = 0,
    group: GROUP = [],  # noqa: B006
    objective: OBJECTIVE = None,
    delta: DELTA = None,
    overestimates: OVERESTIMATES = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation.")] = 5,
    seed: SEED = 0,
    out: OUT = None,
) -> None:
    """Laws against each other on one table: likelihood ratio, and held-out error."""
    from sweeps._source import law_named, names_in, open_source, parse_fixed
    from sweeps.laws import Candidate
    from sweeps.laws import compare as compared

    if len(law) < 2:
        raise typer.BadParameter("give --law at least twice: there is nothing to compare")
    names = [text.partition(";")[0].strip() for text in law]
    also = [name for text in names for name in names_in(text)]
    opened = open_source(source, names[0], map, derive, drop_invalid, also)
    candidates = []
    for text, name in zip(law, names, strict=True):
        fixed = [part.strip() for part in text.split(";")[1:] if part.strip()]
        candidates.append(Candidate(text, law_named(name, opened.table.columns), parse_fixed(fixed, {})))
    try:
        found = compared(
            candidates,
            opened.table,
            group=groups_of(group, opened),
            objective=objective_of([one.law for one in candidates], objective, delta, overestimates),
            folds=folds,
            seed=seed,
            drop_top=drop_top,
        )
    except ValueError as error:
        raise refused(error, opened.table) from None
    print_rows(found.rows(), out)
    for sentence in found.sentences():
        say(sentence)
    bad = [one.candidate.name for one in found.compared if not one.fit.trusted]
    if bad:
        fail(f"not to be trusted, since {', '.join(bad)} did not end at an optimum", 1)


def sensitivity(
    source: TABLE,
    law: LAW = "depth",
    parameter: Annotated[
        str | None, typer.Option(help="Which (default: what the law is fitted for).")
    ] = None,
    drops: Annotated[
        str, typer.Option("--drop-top", metavar="FIRST:LAST[:STEP]", help="Highest losses left out.")
    ] = "0:100:5",
    objective: Annotated[
        list[ObjectiveName], typer.Option("--objective", help="What is minimised; repeatable.")
    ] = [ObjectiveName.LOG_SQUARES, ObjectiveName.HUBER],  # noqa: B006
    delta: Annotated[list[float], typer.Option(help="Huber's delta in log loss; repeatable.")] = [1e-3],  # noqa: B006
    map: MAP = [],  # noqa: B006
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    group: GROUP = [],  # noqa: B006
    fix: FIX = [],  # noqa: B006
    bound: BOUND = [],  # noqa: B006
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it (PNG and PDF).")
    ] = None,
    out: OUT = None,
) -> None:
    """How an answer depends on choices that nobody reports: rows left out, objective, Huber's delta."""
    from sweeps._source import fixed_by_spec, open_source, parse_bounds, parse_fixed
    from sweeps.laws import Huber, scan

    opened = open_source(source, law, map, derive, drop_invalid)
    held = parse_fixed(fix, fixed_by_spec(opened))
    free = [name for name in opened.law.headline if name not in held]
    name = parameter or (free or opened.law.headline)[0]
    objectives: list[Any] = []
    try:
        for kind in objective:
            chosen = objective_of([opened.law], kind, None, None)
            if isinstance(chosen, Huber):
                objectives += [Huber(d, chosen.overestimates) for d in delta]
            else:
                objectives.append(chosen)
        rows = scan(
            opened.law,
            opened.table,
            drop_top=_range(drops),
            objectives=tuple(objectives),
            parameter=name,
            fix=held,
            bounds=parse_bounds(bound),
            group=groups_of(group, opened),
        )
    except ValueError as error:
        raise refused(error, opened.table) from None
    print_rows(rows, out)
    if all(row["reason"] for row in rows):
        fail(f"no choice gives a fit: {rows[0]['reason']}", 1)
    if plot is not None:
        from figures.sensitivity import draw

        for path in draw(rows, name, plot.parent, plot.stem):
            say(f"wrote {path}")


def holdout(
    source: TABLE,
    along: Annotated[str, typer.Option(metavar="COLUMN", help="Rows that are large in it are held out.")],
    law: LAW = "depth",
    fraction: Annotated[float | None, typer.Option(help="Share of rows to hold out (0.2).")] = None,
    above: Annotated[float | None, typer.Option(help="Hold out rows above this value.")] = None,
    map: MAP = [],  # noqa: B006
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    drop_top: DROP_TOP = 0,
    group: GROUP = [],  # noqa: B006
    fix: FIX = [],  # noqa: B006
    bound: BOUND = [],  # noqa: B006
    objective: OBJECTIVE = None,
    delta: DELTA = None,
    overestimates: OVERESTIMATES = None,
    out: OUT = None,
) -> None:
    """Fit the small sizes, predict the large ones: how far the law can be trusted beyond its rows."""
    from sweeps._source import fixed_by_spec, open_source
    from sweeps.laws import holdout as held_out

    opened = open_source(source, law, map, derive, drop_invalid)
    options = fit_options(
        opened, fixed_by_spec(opened), fix, bound, None, objective, delta, overestimates, drop_top
    )
    try:
        found = held_out(
            opened.law,
            opened.table,
            by=along,
            fraction=0.2 if fraction is None and above is None else fraction,
            above=above,
            group=groups_of(group, opened),
            **options,
        )
    except ValueError as error:
        raise refused(error, opened.table) from None
    print_rows(found.rows(), out)
    for sentence in found.sentences():
        say(sentence)
    if not found.fit.trusted:
        fail(f"not to be trusted: the fit to the small sizes is {found.fit.status}", 1)


def allocate(
    artefact: Annotated[Path, typer.Argument(metavar="FIT", help="What `fit --json` wrote.")],
    budget: Annotated[list[float], typer.Option("--budget", help="Training FLOPs; repeatable.")] = [],  # noqa: B006
    recur: Annotated[
        list[int], typer.Option("--recur", help="Recurrences to choose from (looped; 1 2 4 8); repeatable.")
    ] = [],  # noqa: B006
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="The loss along an iso-FLOP profile instead, and what a parabola says."
        ),
    ] = False,
    equivalent: Annotated[
        str | None,
        typer.Option(metavar="ONCE,RECURRENT,R", help="The size that the looped law takes this model for."),
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Of the intervals (the fit's own).")] = None,
    out: OUT = None,
) -> None:
    """The sizes that a budget buys best, with intervals; iso-FLOP profiles; equivalent sizes."""
    from dataclasses import replace

    from sweeps._config import ConfigError
    from sweeps.laws import DenseDesign, Design, LoopedDesign, WidthDepthDesign, isoflop, parabola_bias
    from sweeps.laws import allocate as allocated
    from sweeps.laws import equivalent as equivalent_to

    found = read_fit(artefact)
    designs: dict[str, Design] = {
        "chinchilla": DenseDesign(),
        "width-depth-data": WidthDepthDesign(),
        "looped": LoopedDesign(),
    }
    if (equivalent is None) == (not budget):
        raise typer.BadParameter("give --budget, or --equivalent")
    try:
        if equivalent is not None:
            once, recurrent, r = _numbers(equivalent)
            print_rows([equivalent_to(found, once, recurrent, r)], out)
            return
        if found.law.name not in designs:
            raise ValueError(f"the law {found.law.name} has no budget; there are {', '.join(designs)}.")
        design = designs[found.law.name]
        if recur and isinstance(design, LoopedDesign):
            design = replace(design, recurrences=tuple(recur))
        if not profile:
            answer = allocated(found, design, budget, confidence)
            print_rows(answer.rows(), out)
            if len(set(budget)) > 1:
                for grown in answer.exponents():
                    chosen = "".join(f"{name} {grown[name]}: " for name in design.variants[0])
                    ends = f"[{grown['lower']:.3f}, {grown['upper']:.3f}]"
                    say(f"{chosen}{grown['column']} grows as C^{grown['exponent']:.3f} {ends}")
            return
        rows = []
        for flops in budget:
            for variant in design.variants:
                line = isoflop(found, design, flops, variant=variant)
                for i in range(line.loss.size):
                    row: dict[str, Any] = {"flops": flops}
                    row |= {name: float(column[i]) for name, column in line.columns.items()}
                    row |= {
                        "loss": float(line.loss[i]),
                        "lower": float(line.lower[i]),
                        "upper": float(line.upper[i]),
                    }
                    rows.append(row)
                bias = parabola_bias(line)
                where = "".join(f", {name} {value}" for name, value in variant.items())
                say(
                    f"C = {flops:g}{where}: best N {bias['size']:.4g}; a parabola in log N through these "
                    f"points says {bias['parabola_size']:.4g}, {bias['factor']:.3f} times as much"
                )
        print_rows(rows, out)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _numbers(text: str) -> tuple[float, float, float]:
    try:
        once, recurrent, r = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write ONCE,RECURRENT,R", param_hint="--equivalent") from None
    return once, recurrent, r


def _range(text: str) -> tuple[int, ...]:
    """FIRST:LAST[:STEP], both ends included."""
    try:
        first, last, *step = (int(part) for part in text.split(":"))
        if first < 0 or last < first or len(step) > 1 or (step and step[0] < 1):
            raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: write FIRST:LAST or FIRST:LAST:STEP", param_hint="--drop-top"
        ) from None
    return tuple(range(first, last + 1, *step))
