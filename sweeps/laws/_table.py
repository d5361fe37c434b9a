"""From anybody's table to checked float64 rows, or to a message that names the row.

A table is any mapping from column name to a sequence: a dict, a polars or a pandas DataFrame. Rows are
counted from 0. No row is dropped, clamped or reordered in a message; for the fit itself rows are put in a
canonical order, so that the order of the table cannot change a single bit of the result.
"""

import dataclasses
import hashlib
import math
from typing import Any, Protocol

import numpy as np

from sweeps.laws._law import Array, Index, Law, Mask

Label = int | float | str


class Table(Protocol):
    """A mapping from column name to a sequence of values."""

    def __contains__(self, key: Any, /) -> bool: ...

    def __getitem__(self, key: Any, /) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Rows:
    """Checked rows in canonical order.

    **Fields:** `columns` name -> (n,); `loss` (n,); `group` (n,) index into `labels`; `labels` one per group,
    `(None,)` when rows are independent; `group_column` the column they came from, or `None`.
    """

    columns: dict[str, Array]
    loss: Array
    group: Index
    labels: tuple[Label | None, ...]
    group_column: str | None

    def sha256(self) -> str:
        """Hash of every number and label, independent of the order of the rows."""
        digest = hashlib.sha256(repr((sorted(self.columns), self.labels)).encode())
        for column in (*(self.columns[name] for name in sorted(self.columns)), self.loss, self.group):
            digest.update(column.astype("<f8").tobytes())
        return digest.hexdigest()


def read(law: Law, table: Table, group: str | None) -> Rows:
    """The law's rows of a table, checked.

    **Raises:** ValueError naming the column, the row, the rule and the remedy.
    """
    names = (*law.columns, "loss")
    for name in names:
        if name not in table:
            raise ValueError(
                f"column {name!r} is missing from the table; the law needs the columns {', '.join(names)}: "
                "rename the column that holds it."
            )
    if group is not None and group not in table:
        if group != "seed":
            raise ValueError(
                f"column {group!r} is missing from the table, but group={group!r} was asked for; name the "
                "column that tells replicates apart, or pass group=None."
            )
        group = None
    values = {name: _numbers(name, table[name]) for name in names}
    lengths = {name: column.size for name, column in values.items()}
    labels: list[Label | None] = [None] * lengths["loss"]
    if group is not None:
        labels = _labels(group, table[group])
        lengths[group] = len(labels)
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns differ in length ({said}); every row needs a value in each column.")
    for name in names:
        _refuse(name, values, values[name] > 0, "must be > 0, since the fit works with logarithms")
    found = tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))
    place = {label: index for index, label in enumerate(found)}
    index = np.array([place[label] for label in labels], dtype=np.intp)
    loss = values.pop("loss")
    law.check(values, loss, index, found)
    order = np.lexsort((loss, *(values[name] for name in law.columns), index))
    return Rows({name: v[order] for name, v in values.items()}, loss[order], index[order], found, group)


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
                f"column {name!r}, row {row}: {label!r} names no group; give an integer or a text, or pass "
                "group=None to treat rows as independent."
            )
        labels.append(label)
    return labels
