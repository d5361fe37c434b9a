"""The commands `fit` and `predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps._terminal import console, fail, say
from sweeps.cli._options import (
    BOUND,
    CONFIDENCE,
    DELTA,
    DERIVE,
    DROP_INVALID,
    DROP_TOP,
    FIX,
    GROUP,
    INTERVAL,
    LAW,
    MAP,
    NOISE,
    OBJECTIVE,
    OUT,
    OVERESTIMATES,
    OWN,
    RESAMPLES,
    SEED,
    STARTS,
    TABLE,
    WEIGHTS,
    IntervalName,
    fit_options,
    groups_of,
    noise_of,
    read_fit,
    refused,
    write_rows,
)

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from sweeps._report import Answer
    from sweeps._source import Source
    from sweeps.laws import Fit, Law


def fit(
    source: TABLE,
    law: LAW = "depth",
    by: Annotated[
        list[str] | None, typer.Option(help="Column(s) that tell one fit from another; repeatable.")
    ] = None,
    map: MAP = [],  # noqa: B006  # typer copies it
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    drop_top: DROP_TOP = 0,
    group: GROUP = [],  # noqa: B006
    own: OWN = None,
    fix: FIX = [],  # noqa: B006
    bound: BOUND = [],  # noqa: B006
    objective: OBJECTIVE = None,
    delta: DELTA = None,
    overestimates: OVERESTIMATES = None,
    weights: WEIGHTS = None,
    noise: NOISE = None,
    interval: INTERVAL = IntervalName.AUTO,
    confidence: CONFIDENCE = 0.95,
    resamples: RESAMPLES = None,
    starts: STARTS = 64,
    seed: SEED = 0,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Everything, as JSON; '-' for standard output."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw parts, residuals and profiles (PNG and PDF)."),
    ] = None,
    accept_unidentified: Annotated[
        bool,
        typer.Option("--accept-unidentified", help="Exit 0 also where the rows do not bound the answer."),
    ] = False,
) -> None:
    """Fit a law to a table, ours or your own: estimates, intervals, and what the rows cannot tell."""
    from sweeps._report import Question, answers
    from sweeps._source import fixed_by_spec, open_source

    also = [name for name in (weights, noise) if name is not None]
    opened = open_source(source, law, map, derive, drop_invalid, also)
    options = fit_options(
        opened, fixed_by_spec(opened), fix, bound, own, objective, delta, overestimates, drop_top
    )
    options |= {"interval": str(interval), "confidence": confidence, "resamples": resamples}
    options |= {"starts": starts, "seed": seed, "weights": weights, "noise": noise_of(noise)}
    asked = tuple(by) if by is not None else opened.spec.by if opened.spec and law == "depth" else ()
    question = Question(opened.law, asked, groups_of(group, opened), {**options, "source": opened.said})
    found = answers(opened.table, question)
    to_stdout = json is not None and str(json) == "-"
    _show(found, opened.law, quiet=to_stdout)
    if json is not None and len(found) == 1 and not found[0].condition and found[0].fit is None:
        say(f"no fit, so {json} is not written")
    elif json is not None:
        _write_text(json, _as_text(found))
    if plot is not None:
        _plot(found, opened, plot)
    if opened.missing:
        fail(f"{opened.missing} job(s) of {source} have no record yet: the same `depthlaw run` continues", 1)
    if not found:
        fail("there are no rows, so there is no fit", 1)
    bad = sum(not answer.trusted for answer in found)
    if bad:
        fail(f"{bad} of {len(found)} fits are not to be trusted: see above", 1)
    vague = [answer for answer in found if not answer.identified]
    if vague and not accept_unidentified:
        names = ", ".join(name for name in opened.law.headline if name not in options["fix"])
        fail(
            f"the rows do not bound {names} in {len(vague)} of {len(found)} fits: see above; "
            "--accept-unidentified takes the answer as it is",
            1,
        )


def predict(
    artefact: Annotated[Path, typer.Argument(metavar="FIT", help="What `fit --json` wrote.")],
    source: Annotated[
        Path | None, typer.Argument(metavar="[TABLE]", help="Sizes to predict, and losses to compare with.")
    ] = None,
    at: Annotated[
        list[str], typer.Option("--at", metavar="NAME=V,V", help="Values of a column; repeatable.")
    ] = [],  # noqa: B006
    map: MAP = [],  # noqa: B006
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    out: OUT = None,
) -> None:
    """The loss at new sizes, with intervals, from a saved fit."""
    import numpy as np
    import polars as pl

    from sweeps._config import ConfigError
    from sweeps._formats import HIDDEN, read_table
    from sweeps._tables import derived, mapped, numbers, parse_map, valid
    from sweeps.laws import evaluate

    found = read_fit(artefact)
    columns = found.law.columns
    if (source is None) == (not at):
        raise typer.BadParameter(f"give a TABLE, or --at for each of {', '.join(columns)}")
    if source is not None:
        table = derived(mapped(read_table(source), parse_map(map)), derive, evaluate, drop_invalid)
        for name in columns:
            if name not in table.columns:
                known = ", ".join(name for name in table.columns if name not in HIDDEN)
                raise ConfigError(f"column {name!r} is not in the table: it has {known}")
        # Sizes without a loss are predicted too, unless rows are to be left out as the fit did.
        first = "loss" if drop_invalid and "loss" in table.columns else columns[0]
        table, notes = valid(table, first, columns, drop_invalid)
        for note in notes:
            say(note)
        table = table.drop(HIDDEN, strict=False)
    else:
        table = _grid(at, columns)
    values = [table[name].to_numpy() for name in columns]
    try:
        mean, predicted = found.predict(*values), _by_group(found, table, values)
        table = table.with_columns(pl.Series("predicted", predicted))
        if found.trusted and (found.replicates or np.isfinite(np.array(found.covariance)).all()):
            ends = found.interval(*values)
            low, high = (end * predicted / mean for end in ends)
            table = table.with_columns(pl.Series("lower", low), pl.Series("upper", high))
        else:
            say(f"no intervals: the fit ({found.status}) has none")
        rows = numbers(table, ("loss",)) if source is not None and "loss" in table.columns else table.clear()
        if len(rows) and (rows["loss"] > 0).all() and rows["loss"].is_finite().all():
            own = "the rows of the fit" if found.is_of(rows) else "other rows"
            value = found.objective_of(rows)
            say(f"objective {value:.17g} on this table ({own}); the fit's own: {found.objective:.17g}")
    except ValueError as error:
        raise refused(error, table) from None
    write_rows(table, out)
    if not found.trusted:
        fail(f"not to be trusted: the fit is {found.status}", 1)


def _by_group(found: "Fit", table: "pl.DataFrame", values: "list[np.ndarray]") -> "np.ndarray":
    """Predictions at each row's own level, where the fit has one for its group, else at the mean level."""
    predicted = found.predict(*values)
    columns = found.provenance.group_columns
    if not found.levels or not set(columns) <= set(table.columns):
        return predicted
    known = next(iter(found.levels.values()))
    rows = list(zip(*(table[name].to_list() for name in columns), strict=True))
    labels = [row[0] if len(row) == 1 else ", ".join(map(str, row)) for row in rows]
    for label in {label for label in labels if label in known}:
        mine = [i for i, other in enumerate(labels) if other == label]
        predicted[mine] = found.predict(*(value[mine] for value in values), group=label)
    strange = sum(label not in known for label in labels)
    if strange:
        say(f"{strange} row(s) of groups that the fit does not know are predicted at the mean level")
    return predicted


def _grid(at: list[str], columns: tuple[str, ...]) -> "pl.DataFrame":
    """All combinations of the values given with --at."""
    import itertools

    import polars as pl

    values: dict[str, list[float]] = {}
    for text in at:
        name, _, numbers = (part.strip() for part in text.partition("="))
        try:
            values[name] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise typer.BadParameter(f"{text!r}: write NAME=VALUE,VALUE", param_hint="--at") from None
    if set(values) != set(columns):
        raise typer.BadParameter(f"give each of {', '.join(columns)} once, and no other", param_hint="--at")
    rows = list(itertools.product(*(values[name] for name in columns)))
    return pl.DataFrame(rows, schema={name: pl.Float64 for name in columns}, orient="row")


def _show(found: "list[Answer]", law: "Law", quiet: bool) -> None:
    """What is not known first, then the numbers."""
    from sweeps._report import exponents_table, parameters_table, sentences, title

    for sentence in sentences(found):
        say(sentence)
    if quiet or not found:
        return
    only = found[0]
    if len(found) == 1 and not only.condition and only.fit is not None:
        console().print(title(only.fit), highlight=False)
        console().print(parameters_table(only.fit))
        from sweeps.laws import DepthLaw

        if isinstance(only.fit.law, DepthLaw):
            console().print(f"regime: {only.regime}", highlight=False)
        console().print(f"intervals: {only.fit.interval_method}", highlight=False)
    else:
        console().print(exponents_table(found, law))


def _as_text(found: "list[Answer]") -> str:
    """One fit without conditions as it is; several as a list, each with its condition."""
    import json

    from sweeps._report import as_json

    if len(found) == 1 and not found[0].condition and found[0].fit is not None:
        return found[0].fit.to_json()
    out = []
    for answer in found:
        artefact = None if answer.fit is None else json.loads(answer.fit.to_json())
        out.append({**as_json(answer), "fit": artefact})
    return json.dumps(out, indent=1, allow_nan=False)


def _write_text(path: Path, text: str) -> None:
    from sweeps._files import write_atomic

    if str(path) == "-":
        print(text)
    else:
        write_atomic(path, f"{text}\n".encode())
        say(f"wrote {path}")


def _plot(found: "list[Answer]", opened: "Source", path: Path) -> None:
    from figures.law_fit import draw

    for i, answer in enumerate(found):
        if answer.fit is None:
            continue
        name = path.stem if len(found) == 1 else f"{path.stem}-{i + 1}"
        rows = opened.table
        for column, value in answer.condition.items():
            import polars as pl

            rows = rows.filter(pl.col(column).eq_missing(value))
        if "status" in rows.columns:
            import polars as pl

            rows = rows.filter(pl.col("status").cast(pl.String).ne_missing("diverged"))
        for written in draw(answer.fit, rows, path.parent, name, opened.said["table"]):
            say(f"wrote {written}")
