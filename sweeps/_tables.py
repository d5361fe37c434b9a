"""From anybody's table to rows that a fit can use, or to a sentence that names row, column, value and remedy.

Numbers become float64 one by one, and nothing is computed in less. Rows keep their order, and the
number that they have in the file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sweeps._config import ConfigError, nearest
from sweeps._formats import HIDDEN, row_name, row_numbers
from sweeps._terminal import BadTable

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

SHOWN = 10  # rows that a message lists

Evaluate = Callable[[str, Mapping[str, "np.ndarray"]], "np.ndarray"]


def parse_map(texts: Iterable[str]) -> dict[str, str]:
    """Each `--map NEW=OLD` as new name -> column. Raises ConfigError."""
    mapping: dict[str, str] = {}
    for text in texts:
        new, old = _halves("--map", text, "NEW=OLD")
        if new in mapping:
            raise ConfigError(f"--map {text!r}: {new!r} is {mapping[new]!r} already; map it once")
        mapping[new] = old
    return mapping


def mapped(table: "pl.DataFrame", mapping: Mapping[str, str]) -> "pl.DataFrame":
    """The table with columns renamed, new name -> column; a column may get two names. Raises BadTable."""
    for new, old in mapping.items():
        where = f"--map {f'{new}={old}'!r}"
        if old not in table.columns:
            raise BadTable(f"{where}: {_no_column(table, old)}")
        if new in table.columns and new not in mapping.values():
            remedy = f"give that one another name, as in --map 'old {new}={new}'"
            raise BadTable(f"{where}: the table has a column {new!r} already; {remedy}")
    names = {old: [new for new, source in mapping.items() if source == old] for old in table.columns}
    return table.select(table[old].alias(new) for old in table.columns for new in names[old] or [old])


def derived(
    table: "pl.DataFrame", definitions: Iterable[str], evaluate: Evaluate, drop_invalid: bool = False
) -> "pl.DataFrame":
    """The table with each "name = expression" as a column, new or in the place of an old one, one by one.

    evaluate: value of an expression of columns in float64; raises ValueError. drop_invalid: results that are
    not finite stay, for `valid` to leave out. Raises ConfigError for a definition, BadTable for a row.
    """
    import numpy as np
    import polars as pl

    for text in definitions:
        name, expression = _halves("--derive", text, "NAME=EXPRESSION")
        used = _Used(table)
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(evaluate(expression, used), dtype=np.float64)
        except ValueError as error:
            kind = BadTable if isinstance(error, BadTable) else ConfigError
            raise kind(f"--derive {text!r}: {error}") from error
        values = np.array(np.broadcast_to(result, len(table)))  # a constant is the same in each row
        bad = np.flatnonzero(~np.isfinite(values)).tolist()
        if bad and not drop_invalid:
            given = ", ".join(f"{key} = {_shown(column[bad[0]])}" for key, column in used.columns.items())
            row = f"{row_name(table, bad[0])} gives {values[bad[0]]:g} ({given or expression})"
            remedy = "correct the row, or leave it out with --drop-invalid"
            raise BadTable(f"--derive {text!r}: {row}{_more(len(bad) - 1)}; {remedy}")
        table = table.with_columns(pl.Series(name, values))
        table = table.select(sorted(table.columns, key=lambda column: column in HIDDEN))  # these stay last
    return table


def numbers(table: "pl.DataFrame", columns: Sequence[str]) -> "pl.DataFrame":
    """The table with these columns as float64; blanks and NaN stay. Raises BadTable."""
    return table.with_columns(_numbers(table, name) for name in dict.fromkeys(columns))


def valid(
    table: "pl.DataFrame", loss: str, predictors: Sequence[str], drop_invalid: bool
) -> "tuple[pl.DataFrame, list[str]]":
    """The rows whose loss and predictors are finite and above zero, and those as float64; the order stays.

    Other rows are refused, or with drop_invalid left out: a sentence for each column says how many and which,
    a row under its first column that is at fault. Raises BadTable.
    """
    names = tuple(dict.fromkeys((loss, *predictors)))
    table = numbers(table, names)
    faults: dict[int, list[str]] = {}
    for name in names:
        good = (table[name].is_finite() & (table[name] > 0)).fill_null(False)
        for index in (~good).arg_true():
            faults.setdefault(index, []).append(name)
    rule = "zero, negative, blank or not finite"
    if faults and not drop_invalid:
        lines = [
            f"\n  {row_name(table, index)}: "
            + ", ".join(f"column {name!r} is {_shown(table[name][index])}" for name in faults[index])
            for index in sorted(faults)[:SHOWN]
        ]
        raise BadTable(
            f"{len(faults)} of {len(table)} rows cannot be fitted, since a value is {rule}:{''.join(lines)}"
            f"{_more(len(faults) - SHOWN)}\ncorrect them, or leave them out with --drop-invalid"
        )
    numbered = row_numbers(table)
    notes = []
    for name in names:
        rows = [str(numbered[index]) for index in sorted(faults) if faults[index][0] == name]
        if rows:
            which = f"row {', '.join(rows[:SHOWN])}{_more(len(rows) - SHOWN)}"
            notes.append(f"{len(rows)} row(s) left out, since column {name!r} is {rule}: {which}")
    return table[[index for index in range(len(table)) if index not in faults]], notes


class _Used(Mapping[str, "np.ndarray"]):
    """A table's columns as float64 arrays, converted when they are asked for; `columns` are those."""

    def __init__(self, table: "pl.DataFrame") -> None:
        self.table = table
        self.columns: dict[str, pl.Series] = {}

    def __getitem__(self, name: str) -> "np.ndarray":
        if name not in set(self):
            raise KeyError(name)
        self.columns[name] = _numbers(self.table, name)
        return self.columns[name].to_numpy()

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.table.columns if name not in HIDDEN)

    def __len__(self) -> int:
        return len(list(iter(self)))


def _numbers(table: "pl.DataFrame", name: str) -> "pl.Series":
    import polars as pl

    if name not in table.columns:
        raise BadTable(_no_column(table, name))
    column = table[name]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        if not column.dtype.is_numeric() and column.dtype != pl.Null:
            raise BadTable(f"column {name!r} holds no numbers but {column.dtype} values: convert it first")
        return column.cast(pl.Float64)
    texts = column.str.strip_chars().replace("", None)
    found = texts.cast(pl.Float64, strict=False)
    wrong = (found.is_null() & texts.is_not_null()).arg_true()
    if len(wrong):
        where = f"column {name!r}, {row_name(table, wrong[0])}"
        raise BadTable(f"{where}: {column[wrong[0]]!r} is not a number{_more(len(wrong) - 1)}; correct it")
    return found


def _no_column(table: "pl.DataFrame", name: str) -> str:
    return f"column {name!r} is not in the table: {nearest(name, set(table.columns) - set(HIDDEN))}"


def _shown(value: float | None) -> str:
    return "blank" if value is None else f"{value:g}"


def _more(count: int) -> str:
    return f"; {count} more such row(s)" if count > 0 else ""


def _halves(option: str, text: str, form: str) -> tuple[str, str]:
    """Both sides of the first `=`, without surrounding blanks and quotes."""
    left, _, right = text.partition("=")
    left, right = (re.sub(r"""^(["'])(.*)\1$""", r"\2", half.strip()).strip() for half in (left, right))
    if not left or not right or left in HIDDEN:
        raise ConfigError(f"{option} {text!r} is not of the form {form}")
    return left, right
