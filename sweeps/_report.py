"""From a table to exponents: a fit for each condition, its regime, the update angle as second witness."""

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sweeps._config import ConfigError
from sweeps._jobs import PROVENANCE
from sweeps.laws import DepthLaw, Fit, Regime, Status, fit, regime

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


@dataclass(frozen=True)
class Answer:
    """What one condition's students say: its fit, the regime, and the mean angles between updates (radians).

    problem: why there is no fit, in a sentence; None where there is one. pooled: columns in which cells
    differ that are fitted together.
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

    @property
    def trusted(self) -> bool:
        """Whether the fit is an optimum of the objective and no student is missing from it."""
        good = (Status.CONVERGED, Status.AT_BOUND)
        return self.fit is not None and self.fit.status in good and self.left_out == 0


def answers(
    table: "pl.DataFrame", by: tuple[str, ...], floor: float | None, group: str | None = "seed"
) -> list[Answer]:
    """A fit of the depth law to each combination of the columns `by`; none for a table without rows.

    Rows with status `diverged` are left out, counted and said.
    Raises ConfigError for a missing column (`group` may be missing where it is "seed") and for a text where
    a number should be.
    """
    import polars as pl

    law = DepthLaw(floor=floor)
    groups = () if group in (None, "seed") else (group,)
    for column in (*by, *groups, *law.columns, "loss"):
        if column not in table.columns:
            raise ConfigError(f"column {column!r} is not in the table: it has {', '.join(table.columns)}")
    if table.is_empty():
        return []
    table = table.with_columns(_numbers(table[column]) for column in (*law.columns, "loss"))
    by = tuple(dict.fromkeys(by))
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
        answer = _answer(condition, law, kept.drop(place), kept[place].to_list(), left_out, group)
        found.append(replace(answer, pooled=_pooled(kept.drop(place))))
    return found


def _numbers(column: "pl.Series") -> "pl.Series":
    """The column, or its numbers where a text among them has made texts of all."""
    import polars as pl

    if column.dtype != pl.String:
        return column
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    for row, (text, number) in enumerate(zip(column, numbers, strict=True)):
        if text is not None and number is None:
            raise ConfigError(f"column {column.name!r}, row {row}: {text!r} is not a number")
    return numbers


def _answer(
    condition: dict[str, Any],
    law: DepthLaw,
    rows: "pl.DataFrame",
    places: list[int],
    left_out: int,
    group: str | None,
) -> Answer:
    problem = None
    found = None
    try:
        found = fit(law, rows, group=group)
    except ValueError as error:
        # The fitter counts the rows that it was given; a reader counts those of the table.
        problem = re.sub(r"\brow (\d+)", lambda match: f"row {places[int(match[1])]}", str(error))
    interval = found.intervals["alpha"] if found else (math.nan, math.nan)
    if found and found.status not in (Status.CONVERGED, Status.AT_BOUND):
        interval = (math.nan, math.nan)
    return Answer(
        condition=condition,
        fit=found,
        regime=regime(interval),
        update_angle=_mean(rows, "update_angle"),
        teacher_update_angle=_mean(rows, "teacher_update_angle"),
        rows=len(rows),
        left_out=left_out,
        problem=problem,
    )


REACHED = {"num_params", "flops", "step", "loss", "status"}
"""Columns that say what a job reached, beside the angles; the others say what it was."""


def _pooled(rows: "pl.DataFrame") -> tuple[str, ...]:
    """Columns that tell apart students of equal depth and seed, in a table of ours."""
    if not {"job", "depth", "seed"} <= set(rows.columns):
        return ()
    if not rows.select("depth", "seed").is_duplicated().any():
        return ()
    told = {"job", "depth", "seed", *REACHED, *PROVENANCE}
    columns = [name for name in rows.columns if name not in told and not name.endswith("_angle")]
    return tuple(name for name in columns if rows[name].n_unique() > 1)


def _mean(rows: "pl.DataFrame", column: str) -> float | None:
    if column not in rows.columns or not rows[column].dtype.is_numeric():
        return None
    value = rows[column].mean()
    return None if value is None else float(value)  # type: ignore[arg-type]  # numeric by the schema


def as_json(answer: Answer) -> dict[str, Any]:
    """An answer as JSON values; an infinite or missing number is null."""
    found = answer.fit
    interval = found.intervals["alpha"] if found else (math.nan, math.nan)
    return {
        **{key: _plain(value) for key, value in answer.condition.items()},
        "alpha": _plain(found.estimates["alpha"]) if found else None,
        "interval": [_plain(end) for end in interval],
        "confidence": found.confidence if found else None,
        "interval_method": found.interval_method if found else None,
        "status": str(found.status) if found else None,
        "update_angle": _plain(answer.teacher_update_angle),
        "student_update_angle": _plain(answer.update_angle),
        "regime": str(answer.regime),
        "rows": answer.rows,
        "diverged_rows_left_out": answer.left_out,
        "notes": list(found.notes) if found else [answer.problem],
    }


def _plain(value: Any) -> Any:
    """A value of somebody's table as JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def exponents_table(found: list[Answer]) -> "Table":
    """The answers as a table for the terminal."""
    from rich.table import Table

    table = Table(title="loss = c * depth^-alpha (+ L_0)", title_justify="left")
    condition = list(found[0].condition) if found else []
    for name in condition:
        table.add_column(name)
    for name in ("alpha", "95 % interval", "regime", "update angle:\nteacher", "\nstudents", "fit", "rows"):
        table.add_column(name, justify="left" if name in ("regime", "fit") else "right")
    for answer in found:
        alpha, interval, status = "-", "-", "refused"
        if answer.fit is not None:
            low, high = answer.fit.intervals["alpha"]
            alpha, interval = f"{answer.fit.estimates['alpha']:.3f}", f"{low:.3f} to {high:.3f}"
            status = str(answer.fit.status)
        table.add_row(
            *(_short(value) for value in answer.condition.values()),
            alpha,
            interval,
            str(answer.regime),
            _angle(answer.teacher_update_angle),
            _angle(answer.update_angle),
            status,
            str(answer.rows),
        )
    return table


def sentences(found: list[Answer]) -> list[str]:
    """What is not known, what was left out and what was refused, each with its condition."""
    said = []
    for answer in found:
        where = ", ".join(f"{key} {_short(value)}" for key, value in answer.condition.items())
        prefix = f"{where}: " if where else ""
        if answer.left_out:
            said.append(f"{prefix}{answer.left_out} diverged student(s) left out of the fit.")
        if answer.pooled:
            columns = ", ".join(answer.pooled)
            said.append(f"{prefix}students of different {columns} are fitted together: name these in by.")
        if answer.problem:
            said.append(f"{prefix}no fit: {answer.problem}")
        if answer.fit:
            said += [f"{prefix}{note}" for note in answer.fit.notes]
    return said


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _angle(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
