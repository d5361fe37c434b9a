"""From a table to answers: a fit for each condition, its regime, the update angle as second witness."""

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sweeps._config import ConfigError
from sweeps._formats import HIDDEN, row_name
from sweeps._jobs import PROVENANCE
from sweeps._tables import numbers
from sweeps.iso_depth._grid import ALIKE
from sweeps.laws import LAWS, ArgumentError, DepthLaw, Fit, Huber, Law, LoopedLaw, Regime, fit, regime

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from sweeps._spec import FitSpec


@dataclass(frozen=True)
class Question:
    """What is asked of a table.

    law: what is fitted. by: columns that tell one fit from another. group: columns of the replicates,
    ("seed",) where the table has it, or none. options: further arguments of `sweeps.laws.fit`.
    """

    law: Law = field(default_factory=DepthLaw)
    by: tuple[str, ...] = ()
    group: tuple[str, ...] = ("seed",)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What one condition's students say: its fit, the regime, and the mean angles between updates (radians).

    problem: why there is no fit, in a sentence; None where there is one. notes: what the fit does not know.
    pooled: columns in which cells differ that are fitted together. law: what was to be fitted.
    """

    condition: dict[str, Any]
    fit: Fit | None
    regime: Regime
    update_angle: float | None
    teacher_update_angle: float | None
    rows: int
    left_out: int
    problem: str | None = None
    pooled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    law: Law = field(default_factory=DepthLaw)

    @property
    def trusted(self) -> bool:
        """Whether the fit is an optimum of the objective and no student is missing from it."""
        return self.fit is not None and self.fit.trusted and self.left_out == 0

    @property
    def identified(self) -> bool:
        """Whether, besides, the rows bound what the law is fitted for."""
        return self.fit is not None and self.fit.identified


def depth_question(by: tuple[str, ...], floor: float | None) -> Question:
    """The depth law, each seed with its own level; `floor` is L_0, None where it is to be fitted."""
    return Question(DepthLaw(), by, options={} if floor is None else {"fix": {"L_0": floor}})


def question_of(asked: "FitSpec") -> Question:
    """What a spec's [fit] asks; the looped law as arXiv:2604.21106 fits it, by Huber's penalty."""
    law = LAWS[asked.law]()
    if isinstance(law, DepthLaw):
        return replace(depth_question(asked.by, asked.floor), group=asked.group)
    options = {"objective": Huber(1e-3)} if isinstance(law, LoopedLaw) else {}
    return Question(law, asked.by, asked.group, options)


def answers(table: "pl.DataFrame", question: Question) -> list[Answer]:
    """A fit to each combination of the columns `by`; none for a table without rows.

    Rows with status `diverged` are left out, counted and said. Raises ConfigError for a missing column (a
    group may be missing where it is "seed") and BadTable for a text where a number should be.
    """
    import polars as pl

    law, group = question.law, question.group
    known = [name for name in table.columns if name not in HIDDEN]
    group = () if group == ("seed",) and "seed" not in known else group
    question = replace(question, group=group)
    for column in (*question.by, *group, *law.columns, "loss"):
        if column not in known:
            raise ConfigError(f"column {column!r} is not in the table: it has {', '.join(known)}")
    if table.is_empty():
        return []
    table = numbers(table, (*law.columns, "loss"))
    by = tuple(dict.fromkeys(question.by))
    place = "_" * (1 + max(len(name) for name in table.columns))  # longer than every name that is taken
    numbered = table.with_row_index(place)
    parts = numbered.partition_by(list(by), as_dict=True, maintain_order=True) if by else {(): numbered}
    found = []
    for values, part in parts.items():
        kept = part
        if "status" in part.columns:
            kept = part.filter(pl.col("status").cast(pl.String).ne_missing("diverged"))
        condition = dict(zip(by, values, strict=True))
        left_out = len(part) - len(kept)
        names = [row_name(table, index) for index in kept[place].to_list()]
        answer = _answer(condition, question, kept.drop(place), names, left_out)
        pooled = _pooled(kept.drop(place), law)
        found.append(replace(answer, pooled=pooled))
    return found


def _answer(
    condition: dict[str, Any], question: Question, rows: "pl.DataFrame", names: list[str], left_out: int
) -> Answer:
    problem = None
    found = None
    try:
        found = fit(question.law, rows, group=question.group, **question.options)
    except ArgumentError as error:
        raise ConfigError(str(error)) from None
    except ValueError as error:
        problem = _renamed(str(error), names)
    interval = (math.nan, math.nan)
    if found and found.trusted and isinstance(question.law, DepthLaw):
        interval = found.intervals["alpha"]
    return Answer(
        condition=condition,
        fit=found,
        regime=regime(interval),
        update_angle=_mean(rows, "update_angle"),
        teacher_update_angle=_mean(rows, "teacher_update_angle"),
        rows=len(rows),
        left_out=left_out,
        problem=problem,
        notes=() if found is None else tuple(_renamed(note, names) for note in found.notes),
        law=question.law,
    )


def _renamed(sentence: str, names: list[str]) -> str:
    """A sentence of the fitter, with rows as a reader of the table counts them."""
    return re.sub(r"\brow (\d+)", lambda match: names[int(match[1])], sentence)


REACHED = {"num_params", "flops", "step", "loss", "status"}
"""Columns that say what a job reached, beside the angles; the others say what it was."""


LOOPED = ("injection", "lanes")
"""Columns that say what the looped runs of a grid have in common, beside `iso_depth.ALIKE`."""


def _pooled(rows: "pl.DataFrame", law: Law) -> tuple[str, ...]:
    """Columns in which rows differ that are fitted together, and should not be."""
    if isinstance(law, DepthLaw):
        return _pooled_students(rows)
    if isinstance(law, LoopedLaw):
        looped = rows.filter(rows["num_recur"] > 1)
        parts = [(name, rows) for name in ALIKE] + [(name, looped) for name in LOOPED]
        return tuple(name for name, part in parts if name in rows.columns and part[name].n_unique() > 1)
    return ()


def _pooled_students(rows: "pl.DataFrame") -> tuple[str, ...]:
    """Columns that tell apart students of equal depth and seed, in a table of ours."""
    if not {"job", "depth", "seed"} <= set(rows.columns):
        return ()
    if not rows.select("depth", "seed").is_duplicated().any():
        return ()
    told = {"job", "depth", "seed", *REACHED, *PROVENANCE}
    told |= set(HIDDEN)
    columns = [name for name in rows.columns if name not in told and not name.endswith("_angle")]
    return tuple(name for name in columns if rows[name].n_unique() > 1)


def _mean(rows: "pl.DataFrame", column: str) -> float | None:
    if column not in rows.columns or not rows[column].dtype.is_numeric():
        return None
    value = rows[column].mean()
    return None if value is None else float(value)  # type: ignore[arg-type]  # numeric by the schema


def as_json(answer: Answer) -> dict[str, Any]:
    """An answer as JSON values; an infinite or missing number is null.

    Of a depth law alpha and its interval; of another what it is fitted for, as NAME and NAME_interval.
    """
    found = answer.fit
    headline: dict[str, Any] = {}
    for name in answer.law.headline:
        ends = found.intervals[name] if found else (math.nan, math.nan)
        headline[name] = _plain(found.estimates[name]) if found else None
        interval = "interval" if isinstance(answer.law, DepthLaw) else f"{name}_interval"
        headline[interval] = [_plain(end) for end in ends]
    return {
        **{key: _plain(value) for key, value in answer.condition.items()},
        **headline,
        "identified": answer.identified,
        "confidence": found.confidence if found else None,
        "interval_method": found.interval_method if found else None,
        "status": str(found.status) if found else None,
        "update_angle": _plain(answer.teacher_update_angle),
        "student_update_angle": _plain(answer.update_angle),
        "regime": str(answer.regime),
        "rows": answer.rows,
        "diverged_rows_left_out": answer.left_out,
        "notes": list(answer.notes) if found else [answer.problem],
    }


def _plain(value: Any) -> Any:
    """A value of somebody's table as JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def exponents_table(found: list[Answer], law: Law | None = None) -> "Table":
    """A row for each condition: what the law is fitted for, with intervals; of a depth law, its regime."""
    from rich.table import Table

    fits = [answer.fit for answer in found if answer.fit is not None]
    law = law or (found[0].law if found else DepthLaw())
    confidence = f"{100 * fits[0].confidence:g}" if fits else "95"
    depth = isinstance(law, DepthLaw)
    table = Table(title=law.equation, title_justify="left")
    for name in found[0].condition if found else ():
        table.add_column(name)
    for name in law.headline:
        table.add_column(name, justify="right")
        table.add_column(f"{confidence} % interval", justify="right")
    if depth:
        table.add_column("regime")
        table.add_column("update angle:\nteacher", justify="right")
        table.add_column("\nstudents", justify="right")
    table.add_column("fit")
    table.add_column("rows", justify="right")
    for answer in found:
        cells = [_short(value) for value in answer.condition.values()]
        for name in law.headline:
            cells += ["-", "-"] if answer.fit is None else value_and_ends(answer.fit, name)
        if depth:
            cells += [str(answer.regime), _angle(answer.teacher_update_angle), _angle(answer.update_angle)]
        cells += ["refused" if answer.fit is None else str(answer.fit.status), str(answer.rows)]
        table.add_row(*cells)
    return table


def title(found: Fit) -> str:
    """Which law on how many rows, and how the fit ended."""
    kind = "mean of squares" if found.objective_kind.averaged else "sum of penalties"
    return (
        f"{found.law.equation}\n{found.provenance.rows} rows, {found.objective_kind.name}: objective "
        f"{found.objective:.6g} ({kind}), {found.status}"
    )


def parameters_table(found: Fit) -> "Table":
    """A row for each parameter of one fit."""
    from rich.table import Table

    table = Table()
    for name in ("parameter", "estimate", f"{100 * found.confidence:g} % interval", "unit", ""):
        table.add_column(name, justify="right" if name not in ("parameter", "unit", "") else "left")
    for name, estimate in found.parameters.items():
        said = "fixed" if estimate.fixed else "" if estimate.identified else "not identified"
        table.add_row(name, *value_and_ends(found, name), estimate.unit, said)
    return table


def value_and_ends(found: Fit, name: str) -> list[str]:
    """A parameter's estimate and its interval, as they are shown."""
    low, high = found.intervals[name]
    ends = "-" if found.interval_method == "none asked for" else f"{_number(low)} to {_number(high)}"
    return [_number(found.estimates[name]), ends]


def _number(value: float) -> str:
    """Three decimals where these say something, else four figures."""
    return f"{value:.3f}" if value == 0 or 1e-2 <= abs(value) < 1e5 else f"{value:.4g}"


def sentences(found: list[Answer], conditions: bool = True) -> list[str]:
    """What is not known, what was left out and what was refused; conditions: each with its condition."""
    said = []
    for answer in found:
        named = answer.condition.items() if conditions else ()
        where = ", ".join(f"{key} {_short(value)}" for key, value in named)
        prefix = f"{where}: " if where else ""
        if answer.left_out:
            said.append(f"{prefix}{answer.left_out} diverged row(s) left out of the fit.")
        if answer.pooled:
            columns = ", ".join(answer.pooled)
            said.append(f"{prefix}rows of different {columns} are fitted together: name these in by.")
        if answer.problem:
            said.append(f"{prefix}no fit: {answer.problem}")
        if answer.fit:
            said += [f"{prefix}{note}" for note in answer.notes]
    return said


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _angle(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
