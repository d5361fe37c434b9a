"""From anybody's table to checked float64 rows, or to a message that names the row.

A table is any mapping from column name to a sequence: a dict, a polars or a pandas DataFrame. Rows are
counted from 0. No row is dropped, clamped or reordered in a message; for the fit itself rows are put in a
canonical order, so that the order of the table cannot change a single bit of the result.
"""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sweeps.laws._law import ArgumentError, Array, Index, Law, Mask

Label = int | float | str


class Table(Protocol):
    """A mapping from column name to a sequence of values."""

    def __contains__(self, key: Any, /) -> bool: ...

    def __getitem__(self, key: Any, /) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Rows:
    """Checked rows in canonical order.

    **Fields:** `columns` name -> (n,); `loss` (n,); `group` (n,) sorted, index into `labels`; `labels` one
    per group, `(None,)` when rows are independent; `group_columns` the columns they came from; `weights`
    (n,) with the inverse variances of known noise in them; `noise_known`; `place` (n,) where each row was
    in the table; `everything` the columns with the rows that were left out.
    """

    columns: dict[str, Array]
    loss: Array
    group: Index
    labels: tuple[Label | None, ...]
    group_columns: tuple[str, ...]
    weights: Array
    noise_known: bool
    place: Index
    everything: dict[str, Array]

    def sha256(self) -> str:
        """Hash of every number and label, independent of the order of the rows."""
        digest = hashlib.sha256(repr((sorted(self.columns), self.labels)).encode())
        ordered = (self.columns[name] for name in sorted(self.columns))
        for column in (*ordered, self.loss, self.group, self.weights):
            digest.update(column.astype("<f8").tobytes())
        return digest.hexdigest()

    def take(self, index: Index | Mask) -> "Rows":
        """The rows named by `index`, in the order that they have."""
        kept = np.unique(self.group[index])
        return Rows(
            {name: column[index] for name, column in self.columns.items()},
            self.loss[index],
            np.searchsorted(kept, self.group[index]),
            tuple(self.labels[i] for i in kept),
            self.group_columns,
            self.weights[index],
            self.noise_known,
            self.place[index],
            self.everything,
        )


def read(
    law: Law,
    table: Table,
    group: tuple[str, ...] = (),
    weights: str | None = None,
    noise: str | float | None = None,
    drop_top: int = 0,
) -> Rows:
    """The law's rows of a table, checked.

    **Arguments:** `group` columns whose combinations name the groups; `weights` a column; `noise` the
    standard deviation of log loss (of the loss, for residuals of the loss itself), a number or a column;
    `drop_top` leaves out the rows of so many highest losses: those kept are strictly below the
    `drop_top`-th highest.

    **Raises:** ValueError naming the column, the row, the rule and the remedy.
    """
    names = (*law.columns, "loss")
    for name in names:
        if name not in table:
            raise ArgumentError(
                f"column {name!r} is missing from the table; the law needs the columns {', '.join(names)}: "
                "rename the column that holds it."
            )
    for name in (*group, *(c for c in (weights, noise) if isinstance(c, str))):
        if name not in table:
            raise ArgumentError(
                f"column {name!r} is missing from the table, but was asked for; name one that it has."
            )
    values = {name: _numbers(name, table[name]) for name in names}
    extra = {name: _numbers(name, table[name]) for name in (weights, noise) if isinstance(name, str)}
    lengths = {name: column.size for name, column in (values | extra).items()}
    count = lengths["loss"]
    labels: list[Label | None] = [None] * count
    if group:
        parts = [_labels(name, table[name]) for name in group]
        lengths |= {name: len(part) for name, part in zip(group, parts, strict=True)}
        joined = [", ".join(f"{label}" for label in row) for row in zip(*parts, strict=False)]
        labels = list(parts[0]) if len(parts) == 1 else list(joined)
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns differ in length ({said}); every row needs a value in each column.")
    for name in names:
        _refuse(name, values, values[name] > 0, "must be > 0, since the fit works with logarithms")
    for name, column in extra.items():
        _refuse(name, {name: column}, column > 0, "must be > 0, as a weight or a standard deviation")
    if isinstance(noise, float | int) and not (math.isfinite(noise) and noise > 0):
        raise ArgumentError(
            f"noise: {noise} is not a finite number > 0; give the standard deviation of log loss."
        )
    mass = extra[weights] if weights is not None else np.ones(count)
    if noise is not None:
        with np.errstate(all="ignore"):
            mass = mass / np.square(np.float64(1.0) * (extra[noise] if isinstance(noise, str) else noise))
        if not (np.isfinite(mass) & (mass > 0)).all():
            raise ArgumentError(
                f"noise: 1 / {noise}^2 is outside the range of float64; give it in the loss's unit."
            )
    loss = values.pop("loss")
    kept = _below_top(loss, drop_top)
    found = tuple(sorted({labels[i] for i in kept}, key=lambda label: (isinstance(label, str), label)))
    place = {label: index for index, label in enumerate(found)}
    index = np.array([place[labels[i]] for i in kept], dtype=np.intp)
    order = np.lexsort((mass[kept], loss[kept], *(values[name][kept] for name in law.columns), index))
    chosen = kept[order]
    return Rows(
        {name: v[chosen] for name, v in values.items()},
        loss[chosen],
        index[order],
        found,
        group,
        mass[chosen],
        noise is not None,
        chosen,
        values,
    )


def group_columns(group: str | Sequence[str] | None, table: Table) -> tuple[str, ...]:
    """The columns that `group` means: "seed" only where the table has it."""
    if group is None or (group in ("seed", ("seed",)) and "seed" not in table):
        return ()
    return (group,) if isinstance(group, str) else tuple(group)


def _below_top(loss: Array, count: int) -> Index:
    """The rows that are kept."""
    if count == 0:
        return np.arange(loss.size)
    if count < 0:
        raise ArgumentError(
            f"drop_top: {count} is less than 0; give the number of highest losses to leave out."
        )
    kept = np.flatnonzero(loss < np.sort(loss)[-count]) if count < loss.size else np.arange(0)
    if kept.size == 0:
        raise ArgumentError(f"drop_top: {count} leaves none of {loss.size} rows; leave out fewer.")
    return kept


def _numbers(name: str, column: Any) -> Array:
    """A column as float64, refusing what is not a finite real number."""
    raw = np.asarray(column)
    if raw.ndim != 1:
        raise ValueError(f"column {name!r} has {raw.ndim} dimensions; give one value for each row.")
    missing = np.ma.getmaskarray(column if isinstance(column, np.ma.MaskedArray) else raw)
    if raw.dtype.kind not in "iuf" or missing.any():
        for row, value in enumerate(raw.tolist()):
            value = None if missing[row] else value
            if value is None or isinstance(value, bool | str | bytes | complex):
                raise ValueError(
                    f"column {name!r}, row {row}: {value!r} is not a number; convert the column to numbers, "
                    "or leave out the row."
                )
    try:
        numbers = raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} cannot be read as numbers ({error}); convert it first.") from None
    _refuse(name, {name: numbers}, np.isfinite(numbers), "is not finite")
    return numbers


def _refuse(name: str, values: dict[str, Array], good: Mask, rule: str) -> None:
    bad = np.flatnonzero(~good)
    if bad.size:
        row = int(bad[0])
        at = "".join(f" ({other} {v[row]:g})" for other, v in values.items() if other not in (name, "loss"))
        more = f"; {bad.size - 1} more such row(s)" if bad.size > 1 else ""
        raise ValueError(
            f"column {name!r}, row {row}{at}: {values[name][row]:g} {rule}{more}; correct the row or leave "
            "it out."
        )


def _labels(name: str, column: Any) -> list[Label | None]:
    """A group column as plain labels."""
    labels: list[Label | None] = []
    values = column if isinstance(column, list | tuple) else np.asarray(column, dtype=object)
    for row, value in enumerate(values):
        label = value.item() if isinstance(value, np.generic) else value
        if not (isinstance(label, int | str) or (isinstance(label, float) and math.isfinite(label))):
            raise ValueError(
                f"column {name!r}, row {row}: {label!r} names no group; give an integer or a text, or take "
                "rows as independent (group=None, --group none)."
            )
        labels.append(label)
    return labels
