"""Table files of anybody's as rows, each with the number that it has in the file.

Texts are UTF-8. The row's number stands in the column ROW, and the line of a text file in LINE.
"""

import csv
import gzip
import io
import json
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps._terminal import BadTable

if TYPE_CHECKING:
    import polars as pl

ROW, LINE = "__row__", "__line__"
HIDDEN = (LINE, ROW)
"""The last columns of a table that was read, both from 1; LINE only where the file is a text of lines."""

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".json", ".jsonl", ".ndjson")


def read_table(path: Path) -> "pl.DataFrame":
    """A table of the user's own, by its suffix (and `.gz`), with the columns LINE and ROW. Raises BadTable.

    A .csv is separated by commas, by semicolons (and may have decimal commas then) or by tabs, a .tsv or .txt
    by tabs; a .json is a list of rows or an object of columns. Types are read off all rows.
    """
    import polars as pl

    damaged = (OSError, EOFError, zlib.error, ValueError, RecursionError)
    try:
        if path.is_dir():
            raise BadTable(f"{path} is a folder: name the table's file in it")
        suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
        if suffix not in SUFFIXES:
            known = ", ".join(SUFFIXES[:-1])
            raise BadTable(f"{path}: a table is a {known} or {SUFFIXES[-1]} file, or a folder of results")
        if not path.exists():
            raise BadTable(f"{path} does not exist")
        data = path.read_bytes()
        table = _parsed(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data, suffix)
    except BadTable:
        raise
    except (*damaged, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        said = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0] or "it is damaged"
        raise BadTable(f"{path} cannot be read: {said}") from error
    return table if ROW in table.columns else table.with_columns(row_numbers(table))


def row_numbers(table: "pl.DataFrame") -> "pl.Series":
    """The number of each row in its file, or in the table where that is not known, from 1."""
    import polars as pl

    return table[ROW] if ROW in table.columns else pl.Series(ROW, range(1, 1 + len(table)), dtype=pl.Int64)


def row_name(table: "pl.DataFrame", index: int) -> str:
    """How messages call the row at an index from 0: "row 3 (line 4)"."""
    line = f" (line {table[LINE][index]})" if LINE in table.columns else ""
    return f"row {row_numbers(table)[index]}{line}"


def _parsed(data: bytes, suffix: str) -> "pl.DataFrame":
    """The table in a file's bytes; raises ValueError, and what polars raises, for damage."""
    import polars as pl

    if suffix == ".parquet":
        table = pl.read_parquet(io.BytesIO(data))
        return table.rename(dict(zip(table.columns, _names(table.columns), strict=True)))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not text in UTF-8; save the table as UTF-8") from error
    if "\0" in text:
        raise ValueError("it is not text in UTF-8, since it holds NUL characters; save the table as UTF-8")
    if not text.strip():
        raise ValueError("it is empty")
    columns, lines = _of_json(text, suffix) if "j" in suffix else _of_csv(text, suffix)
    table = pl.DataFrame(columns)
    return table if lines is None else table.with_columns(pl.Series(LINE, lines, dtype=pl.Int64))


def _names(names: list[str]) -> list[str]:
    """Names without surrounding blanks; one that is blank is called by its place."""
    found = [name.strip() or f"column_{place}" for place, name in enumerate(names, 1)]
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"{found.count(name)} columns are named {name!r}; give each a name of its own")
    return found


def _of_csv(text: str, suffix: str) -> "tuple[list[pl.Series], list[int]]":
    """Columns of separated values, and the lines on which rows begin; a line without any value is no row."""
    import polars as pl

    header = re.findall(r'\A(?:"[^"]*"|[^\r\n])*', text.lstrip())[0]
    outside = re.sub(r'"[^"]*"', "", header)
    mark = max("\t;,", key=outside.count) if suffix == ".csv" else "\t"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True, strict=True)
    records: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for record in reader:
            if any(value.strip() for value in record):
                records.append((line, record))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: {error}; check its quotes") from error
    (_, names), *rows = records
    for row, (line, values) in enumerate(rows, 1):
        if len(values) != len(names):
            told = f"row {row} (line {line}) has {len(values)} value(s) for {len(names)} column(s)"
            raise ValueError(f"{told}, separated by {mark!r}; write a value or a blank for each column")
    found, commas, points = [], [], []
    for place, name in enumerate(_names(names)):
        cells = [row[place] if row[place].strip() else None for _, row in rows]
        if not names[place].strip() and not any(cells):
            continue  # a separator at the end of each line makes a column without name or value
        texts = pl.Series(name, cells, dtype=pl.String)
        found.append(_typed(texts, decimal_comma=mark == ";"))
        if found[-1].dtype == pl.Float64:
            commas += [name] if texts.str.contains(",", literal=True).any() else []
            points += [name] if texts.str.contains(".", literal=True).any() else []
    if commas and points:  # 1.234 may be a thousand, then
        told = f"column {commas[0]!r} has decimal commas, column {points[0]!r} decimal points"
        raise ValueError(f"{told}; write all numbers in one way")
    return found, [line for line, _ in rows]


def _typed(texts: "pl.Series", decimal_comma: bool) -> "pl.Series":
    """The texts as whole numbers, numbers or truth values if all of them are such, or as they are."""
    import polars as pl

    if decimal_comma and not texts.str.contains(".", literal=True).any():
        texts = texts.str.replace(r"^(\s*[+-]?\d*),(\d+(?:[eE][+-]?\d+)?\s*)$", "${1}.${2}")
    plain = texts.str.strip_chars().str.to_lowercase()
    for dtype in (pl.Int64, pl.Float64):
        found = plain.cast(dtype, strict=False)
        if found.null_count() == texts.null_count() < len(texts):
            return found
    return plain == "true" if texts.count() and plain.drop_nulls().is_in(["true", "false"]).all() else texts


def _of_json(text: str, suffix: str) -> "tuple[list[pl.Series], list[int] | None]":
    """Columns of a JSON text; or, of a text with a row on each line, the columns and the rows' lines."""
    lines, rows = None, None
    if suffix == ".json":
        rows = _json(text)
    else:
        split = [(line, row) for line, row in enumerate(text.split("\n"), 1) if row.strip()]
        lines, rows = [line for line, _ in split], [_json(row, line) for line, row in split]
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
    elif isinstance(rows, dict) and all(isinstance(values, list) for values in rows.values()):
        columns = rows
    else:
        raise ValueError('it holds no table; write rows as [{"depth": 8, "loss": 3.1}]')
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError(
            "its columns differ in length; give each row all values" if lengths else "it is empty"
        )
    return [_of_values(name, values) for name, values in columns.items()], lines


def _json(text: str, line: int | None = None) -> Any:
    """The value of a JSON text, also with Python's NaN and Infinity; raises ValueError."""

    def row(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(zip(_names([name for name, _ in pairs]), (value for _, value in pairs), strict=True))

    def whole(digits: str) -> float:  # a column of whole numbers holds 64 bits
        return int(digits) if len(digits) < 21 and -(2**63) <= int(digits) < 2**63 else float(digits)

    try:
        value = json.loads(text, object_pairs_hook=row, parse_int=whole)
        if line is not None and not isinstance(value, dict):
            raise ValueError('it holds no row; write each as {"depth": 8, "loss": 3.1}')
        return value
    except ValueError as error:
        said = str(error) if line is None else f"line {line}: {getattr(error, 'msg', error)}"
        raise ValueError(said) from error


def _of_values(name: str, values: list[Any]) -> "pl.Series":
    """Values of JSON as numbers, texts or truth values if all of them are such, or each as its text."""
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds not in ({str}, {bool}) and not kinds <= {int, float}:
        values = [value if isinstance(value, str | None) else json.dumps(value) for value in values]
    return pl.Series(name, values, strict=False)  # whole numbers among others become floats
