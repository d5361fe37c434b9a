"""Laws of tables: one content is one frame in every format, no row goes in silence, no number changes."""

import csv
import datetime
import gzip
import io
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps._config import ConfigError
from sweeps._formats import HIDDEN, LINE, ROW, read_table, row_name, row_numbers
from sweeps._tables import (
    derived,
    mapped,
    numbers,
    parse_map,
    valid,
)
from sweeps._terminal import BadTable

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"{DATA} is absent: its owners did not license copies"
)

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text("a,;.\"'=\t\né ", max_size=5).map(lambda text: f"t{text}")


@st.composite
def frames(draw):
    """Rows with a number each, and columns of whole numbers, numbers, texts and truth values with blanks."""
    n = draw(st.integers(1, 6))
    columns = {"id": pl.Series(range(10, 10 + n))}
    for name, values in (("n", INTS), ("x", FLOATS), ("a;b, c", TEXTS), ("is é", st.booleans())):
        rest = draw(st.lists(st.none() | values, min_size=n - 1, max_size=n - 1))
        columns[name] = pl.Series([draw(values), *rest])  # a column of blanks alone has no type in a text
    return pl.DataFrame(columns)


def as_csv(table, separator=",", comma=False, end="\n", quoting=csv.QUOTE_MINIMAL):
    """The table as Python's own writer writes it."""

    def cell(value):
        if value is None:
            return ""
        return repr(value).replace(".", ",") if comma and isinstance(value, float) else value

    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([table.columns, *([cell(value) for value in row] for row in table.rows())])
    return out.getvalue()


def as_parquet(table):
    out = io.BytesIO()
    table.write_parquet(out)
    return out.getvalue()


def as_lines(table, end="\n"):
    return "".join(json.dumps(row) + end for row in table.rows(named=True))


WRITTEN = {
    "plain.csv": as_csv,
    "bom.csv": lambda table: "\ufeff" + as_csv(table),
    "crlf.csv": lambda table: as_csv(table, end="\r\n"),
    "both.CSV": lambda table: "\ufeff" + as_csv(table, ";", end="\r\n", quoting=csv.QUOTE_ALL),
    "semicolon.csv": lambda table: as_csv(table, ";"),
    "comma.csv": lambda table: as_csv(table, ";", comma=True),
    "tab.csv": lambda table: as_csv(table, "\t"),
    "blank lines.csv": lambda table: "\n" + as_csv(table) + "\r\n \n,,\n\n",
    "no last end.csv": lambda table: as_csv(table).removesuffix("\n"),
    "tab.tsv": lambda table: as_csv(table, "\t"),
    "tab.txt": lambda table: as_csv(table, "\t", end="\r\n"),
    "zipped.csv.gz": lambda table: gzip.compress(as_csv(table).encode()),
    "star*[1].parquet": as_parquet,
    "rows.jsonl": as_lines,
    "rows.ndjson": lambda table: "\ufeff\n" + as_lines(table, "\r\n\n"),
    "rows.json": lambda table: json.dumps(table.rows(named=True)),
    "columns.json": lambda table: json.dumps(table.to_dict(as_series=False), indent=1),
}


@pytest.fixture
def read(tmp_path):
    """Write bytes or a text to a file of this name, and read its table."""

    def call(name, content):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(tmp_path / name)

    return call


@given(frames())
def test_every_format_is_the_same_frame(tmp_path_factory, table):
    """Values, types, names and order of a table survive each format to the last bit, and rows are counted."""
    for name, write in WRITTEN.items():
        path = tmp_path_factory.mktemp("table") / name
        content = write(table)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        found = read_table(path)
        plain = found.drop(HIDDEN, strict=False)
        assert plain.schema == table.schema and plain.equals(table, null_equal=True), name
        assert found.columns[-1] == ROW and found[ROW].to_list() == list(range(1, 1 + len(table))), name
        assert (LINE in found.columns) == (path.suffix not in (".parquet", ".json")), name
        if LINE in found.columns and isinstance(content, str):
            # On the line on which a row begins stands its first value.
            begins = [content.split("\n")[line - 1].lstrip('"{id: ')[:2] for line in found[LINE]]
            assert begins == [str(value) for value in table["id"]], name


def test_rows_are_named_as_a_reader_counts(read):
    """The line is where a row begins, after blank lines and breaks in quotes; the number outlives filters."""
    table = read("a.csv", '"na\nme",x\r\n\r\n"a\nb",1\n\n,\nc,2\n')
    assert [row_name(table, index) for index in (0, 1)] == ["row 1 (line 4)", "row 2 (line 8)"]
    assert row_name(table.filter(pl.col("x") == 2), 0) == "row 2 (line 8)"
    assert row_name(read("a.json", '[{"x": 1}, {"x": 2}]')[1:], 0) == "row 2"
    assert row_numbers(pl.DataFrame({"x": [5, 6]})).to_list() == [1, 2]
    assert row_numbers(read("b.csv", f"x,{ROW}\n1,7\n")).to_list() == [7]


def test_header(read):
    """Names lose the blanks around them, a column without name and value is none, a header is a table."""
    assert read("a.csv", ' x , "y, m",\n1,2,\n').columns == ["x", "y, m", *HIDDEN]
    assert read("a.csv", ",x\n0,2\n").columns == ["column_1", "x", *HIDDEN]
    assert read("a.csv", "N (a, b);x;y\n1;2;3\n").columns == ["N (a, b)", "x", "y", *HIDDEN]
    assert read("a.csv", '"N;D;C",x\n1,2\n').columns == ["N;D;C", "x", *HIDDEN]
    for empty in (read("a.csv", "depth,loss\n"), read("a.tsv", "depth\tloss")):
        assert empty.columns == ["depth", "loss", *HIDDEN] and numbers(empty, ["loss"]).is_empty()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x;y\n1;a,b\n2,5;c", [1.0, 2.5]),
        ("x;y\n1e3;a\n-,5;c", [1000.0, -0.5]),
        ("x;y\n1,5;a\n2.5;c", ["1,5", "2.5"]),
        ("x;y\n1,5;a\nlow;c", ["1.5", "low"]),
        ("x,y\n1,a\n1e999,c", [1.0, math.inf]),
        ('x,y\n"1,234",a\n2,c', ["1,234", "2"]),
        ("x,y\n 1,a\n2 ,c", [1, 2]),
        ("x,y\nTRUE,a\nfalse,c", [True, False]),
        ("x,y\n1_000,a\n0x10,c", ["1_000", "0x10"]),
        ("x,y\n9223372036854775808,a\n1,c", [2.0**63, 1.0]),
    ],
)
def test_types_of_texts(read, text, expected):
    """A column is of numbers if every text of it is one, in one way of writing; else it stays texts."""
    found = read("a.csv", text)["x"].to_list()
    assert found == expected and {type(value) for value in found} == {type(value) for value in expected}


def test_types_of_json(read):
    """Whole numbers and others are numbers, values of several types their texts; a missing key is a blank."""
    table = read("a.jsonl", '{"x": 1, "y": NaN}\n{"x": 2.5, "z": [1]}\n{"y": "low"}\n')
    assert table["x"].to_list() == [1.0, 2.5, None] and table["z"].to_list() == [None, "[1]", None]
    with pytest.raises(BadTable, match=r"column 'y', row 3 \(line 3\): 'low' is not a number"):
        numbers(table, ["y"])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "", "cannot be read: it is empty"),
        ("a.csv", "\ufeff \n\r\n", "cannot be read: it is empty"),
        ("a.csv", "loss,N, loss\n1,2,3", "2 columns are named 'loss'; give each a name of its own"),
        ("a.json", '[{"x": 1, "x": 2}]', "2 columns are named 'x'"),
        (
            "a.csv",
            'a,b\n"1\n2",3\n\n4\n',
            r"row 2 \(line 5\) has 1 value\(s\) for 2 column\(s\), separated by ','",
        ),
        ("a.csv", "a;b\n1;2;3\n", r"row 1 \(line 2\) has 3 value\(s\) for 2 column\(s\), separated by ';'"),
        ("a.csv", 'a,b\n1,2\n"3,4\n5,6\n', "line 3: unexpected end of data; check its quotes"),
        ("a.csv", "x;y\n1,5;1.234\n", "column 'x' has decimal commas, column 'y' decimal points; write all"),
        ("a.csv", "a,b\n1,é".encode("latin-1"), "line 2 is not text in UTF-8; save the table as UTF-8"),
        ("a.csv", "a,b\n1,2".encode("utf-16"), "line 1 is not text in UTF-8; save the table as UTF-8"),
        ("a.csv", "a,b\n1,2".encode("utf-16-le"), "it is not text in UTF-8, since it holds NUL"),
        (
            "a.csv.gz",
            gzip.compress(b"a,b\n1,2", mtime=0)[:-9],
            "a.csv.gz cannot be read: Compressed file ended",
        ),
        ("a.parquet", "a,b\n1,2", "a.parquet cannot be read: "),
        ("a.parquet", as_parquet(pl.DataFrame({"x": [1], " x ": [2]})), "2 columns are named 'x'"),
        ("a.json", "{", "a.json cannot be read: Expecting property name .*: line 1 column 2"),
        ("a.json", "[" * 10**5, "a.json cannot be read: maximum recursion depth exceeded"),
        ("a.json", "[]", "a.json cannot be read: it is empty"),
        ("a.json", "3", r"a.json cannot be read: it holds no table; write rows as \[{"),
        ("a.json", '{"x": [1], "y": [1, 2]}', "its columns differ in length"),
        ("a.jsonl", '{"x": 1}\n\n[2]\n', r"line 3: it holds no row; write each as {"),
        ("a.jsonl", '{"x": 1}\n{"x": 2\n', "line 2: Expecting ',' delimiter"),
        ("a.xlsx", "a,b", "a.xlsx: a table is a .csv, .tsv, .* or .ndjson file, or a folder of results"),
    ],
)
def test_what_cannot_be_read(read, name, content, sentence):
    """A damaged, empty, ragged or foreign file is one sentence that names file, place and remedy."""
    with pytest.raises(BadTable, match=sentence) as error:
        read(name, content)
    assert "\n" not in str(error.value) and name in str(error.value)


@given(
    st.lists(st.sampled_from([*'",;\t\n\r{}[]: ', "1", "2,5", "nan", "a", "null", '"a"', "\0", "\x85"])).map(
        "".join
    )
)
def test_any_text(tmp_path_factory, text):
    """Whatever the text, it is a table or one sentence."""
    for name in ("a.csv", "a.tsv", "a.json", "a.jsonl"):
        path = tmp_path_factory.mktemp("any") / name
        path.write_bytes(text.encode())
        try:
            assert read_table(path).columns[-1] == ROW
        except BadTable as error:
            assert str(error).startswith(f"{path} cannot be read: ") and "\n" not in str(error)


def test_what_is_no_file(tmp_path, monkeypatch):
    """A folder, a missing and a locked file are named as such."""
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "locked.csv").touch()
    with pytest.raises(BadTable, match=r"folder.csv is a folder: name the table's file in it"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(BadTable, match=r"none.csv does not exist"):
        read_table(tmp_path / "none.csv")

    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)  # root reads all files
    with pytest.raises(BadTable, match=r"locked.csv cannot be read: Permission denied"):
        read_table(tmp_path / "locked.csv")


def test_map():
    """`--map` renames, also by swapping and to two names; it never overwrites, nor guesses."""
    mapping = parse_map(["N=Model Size", " \"D\" = 'a=b' "])
    assert mapping == {"N": "Model Size", "D": "a=b"}
    table = pl.DataFrame({"Model Size": [1], "a=b": [2], "loss": [3], ROW: [9]})
    assert mapped(table, mapping).to_dicts() == [{"N": 1, "D": 2, "loss": 3, ROW: 9}]
    assert mapped(table, {"loss": "a=b", "a=b": "loss"}).to_dicts() == [
        {"Model Size": 1, "loss": 2, "a=b": 3, ROW: 9}
    ]
    assert mapped(table, {"N": "loss", "loss": "loss"}).columns == ["Model Size", "a=b", "N", "loss", ROW]
    with pytest.raises(BadTable, match="--map 'N=model size': column .* did you mean 'Model Size'?"):
        mapped(table, {"N": "model size"})
    with pytest.raises(BadTable, match="the table has a column 'loss' already; give that one another name"):
        mapped(table, {"loss": "a=b"})
    for texts, sentence in (
        (["N"], "--map 'N' is not of the form NEW=OLD"),
        (["=x"], "is not of the form"),
        (["N=''"], "is not of the form"),
        ([f"{ROW}=x"], "is not of the form"),
        (["N=a", "N=b"], "--map 'N=b': 'N' is 'a' already; map it once"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            parse_map(texts)


def evaluate(expression, columns):
    """Expressions as Python has them."""
    try:
        return eval(expression, {}, columns)
    except NameError as error:
        raise ValueError(f"{error}; the columns are {', '.join(columns)}") from error


def test_derived():
    """Definitions apply in order, may replace what they use, and are computed in float64 of float32 too."""
    table = pl.DataFrame({"C": pl.Series([0.1, 0.3], dtype=pl.Float32), "N": [" 3", "7"], ROW: [4, 5]})
    found = derived(table, ["D = C/(6*N)", "D = D + 1", "one=1"], evaluate)
    wide = np.array([0.1, 0.3], np.float32).astype(float)
    assert found.columns == ["C", "N", "D", "one", ROW]
    assert found["D"].to_list() == list(wide / (6 * np.array([3.0, 7.0])) + 1)
    assert found["one"].to_list() == [1.0, 1.0] and found["N"].equals(table["N"])


def test_derived_is_refused():
    """Neither a definition nor a row that cannot be computed passes unnamed."""
    table = pl.DataFrame(
        {"C": [1.0, 3.0, None], "N": [2, 0, 4], "t": ["a", "b", "c"], LINE: [2, 3, 4], ROW: [1, 2, 3]}
    )
    message = r"--derive 'D=C/N': row 2 \(line 3\) gives inf \(C = 3, N = 0\); 1 more such row\(s\); correct"
    with pytest.raises(BadTable, match=message):
        derived(table, ["D=C/N"], evaluate)
    kept = derived(table, ["D=C/N"], evaluate, drop_invalid=True)["D"].to_list()
    assert kept[:2] == [0.5, math.inf] and math.isnan(kept[2])
    with pytest.raises(BadTable, match=r"row 3 \(line 4\) gives nan \(C = blank\)"):
        derived(table, ["D=C+1"], evaluate)
    with pytest.raises(
        BadTable, match=r"--derive 'D=t\+1': column 't', row 1 \(line 2\): 'a' is not a number"
    ):
        derived(table, ["D=t+1"], evaluate)
    with pytest.raises(
        ConfigError, match="--derive 'D=M': name 'M' is not defined; the columns are C, N, t$"
    ):
        derived(table, ["D=M"], evaluate)
    for text in ("D", "=C", "D=", f"{ROW}=C"):
        with pytest.raises(ConfigError, match="is not of the form NAME=EXPRESSION"):
            derived(table, [text], evaluate)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.lists(st.none() | st.floats(width=32)))
def test_numbers_are_exact(whole, single):
    """Whole numbers, decimals and texts become the nearest float64, float32 the same number; blanks stay."""

    def column(values, dtype, **options):
        table = pl.DataFrame({"x": pl.Series(values, dtype=dtype, **options)})
        return numbers(table, ["x"])["x"]

    expected = [None if value is None else float(value) for value in whole]
    assert column(whole, pl.Int64).to_list() == expected
    assert (
        column([None if value is None else f" {value} " for value in whole], pl.String).to_list() == expected
    )
    tenths = [None if value is None else Decimal(value) / 10 for value in whole]
    wanted = [None if value is None else float(value) for value in tenths]
    assert column(tenths, pl.Decimal(38, 1)).to_list() == wanted
    found = column(single, pl.Float32)
    assert found.dtype == pl.Float64 and found.equals(
        pl.Series("x", single, dtype=pl.Float64), null_equal=True
    )


def test_what_is_no_number():
    """A text, a truth value or a day is no number: the column, the row and the text are named."""
    table = pl.DataFrame(
        {"N": ["1", "", "1,234", "x"], "b": [True] * 4, "d": [datetime.date(2026, 1, 1)] * 4}
    )
    with pytest.raises(BadTable, match=r"column 'N', row 3: '1,234' is not a number; 1 more such row\(s\)"):
        numbers(table, ["N"])
    assert numbers(table[:2], ["N"])["N"].to_list() == [1, None]
    for name, kind in (("b", "Boolean"), ("d", "Date")):
        with pytest.raises(BadTable, match=f"column '{name}' holds no numbers but {kind} values"):
            numbers(table, [name])
    with pytest.raises(BadTable, match="column 'n' is not in the table: known: N, b, d$"):
        numbers(table.with_columns(row_numbers(table)), ["n"])
    labels = pl.DataFrame({"N": pl.Series(["2", " 3"], dtype=pl.Categorical), "none": [None, None]})
    assert numbers(labels, ["N", "none", "N"]).rows() == [(2.0, None), (3.0, None)]


VALUES = st.none() | st.sampled_from([0.0, -1.0, math.nan, math.inf, 5e-324, 1.0, 2.0, 3.0])


@given(st.lists(st.tuples(VALUES, VALUES)), st.sampled_from([pl.Float64, pl.Float32]))
def test_valid(rows, dtype):
    """Good rows stay bit for bit and in order; others are refused, or dropped and told, each exactly once."""
    schema = {"loss": dtype, "N": dtype}
    table = pl.DataFrame(rows, schema=schema, orient="row").with_row_index(ROW, offset=1)
    wide = table.with_columns(pl.col("loss", "N").cast(pl.Float64))
    good = [
        all(value is not None and math.isfinite(value) and value > 0 for value in row[1:])
        for row in wide.rows()
    ]
    kept, notes = valid(table, "loss", ["N"], drop_invalid=True)
    assert kept.equals(wide.filter(pl.Series(good, dtype=pl.Boolean)))
    assert sum(int(note.split()[0]) for note in notes) == good.count(False)
    if all(good):
        assert notes == [] and valid(table, "loss", ["N"], drop_invalid=False)[0].equals(kept)
    else:
        with pytest.raises(BadTable, match=f"^{good.count(False)} of {len(good)} rows cannot be fitted"):
            valid(table, "loss", ["N"], drop_invalid=False)


def test_invalid_rows_are_listed(read):
    """Up to ten rows are listed with all that is wrong in them; dropped ones are told by column and row."""
    table = read("a.csv", "N,loss\n1,0\n0,\n,3\nnan,3\n5,5\n" + "1,-2\n" * 9)
    with pytest.raises(BadTable) as error:
        valid(table, "loss", ["N"], drop_invalid=False)
    first, *listed, last = str(error.value).split("\n")
    assert first.startswith("13 of 14 rows cannot be fitted") and last.endswith("with --drop-invalid")
    assert len(listed) == 10 and listed[9].endswith("; 3 more such row(s)")
    assert listed[0] == "  row 1 (line 2): column 'loss' is 0"
    assert listed[1] == "  row 2 (line 3): column 'loss' is blank, column 'N' is 0"
    assert listed[3] == "  row 4 (line 5): column 'N' is nan"
    kept, notes = valid(table, "loss", ["N"], drop_invalid=True)
    assert kept[ROW].to_list() == [5]
    rule = "is zero, negative, blank or not finite"
    assert notes == [
        f"11 row(s) left out, since column 'loss' {rule}: "
        "row 1, 2, 6, 7, 8, 9, 10, 11, 12, 13; 1 more such row(s)",
        f"2 row(s) left out, since column 'N' {rule}: row 3, 4",
    ]


@needs_data
def test_chinchilla():
    """The published runs: 245 rows as Python's own reader has them."""
    path = DATA / "chinchilla_depth_width.csv"
    table = mapped(read_table(path), {"depth": "n_layers", "N": "model_size"})
    rows, notes = valid(table, "loss", ["depth", "N"], drop_invalid=False)
    with path.open(newline="") as file:
        expected = [float(row["loss"]) for row in csv.DictReader(file)]
    assert rows["loss"].to_list() == expected and len(expected) == 245 and notes == []
    deeper = derived(rows, ["depth = depth - 2"], evaluate)
    assert (rows["depth"] - deeper["depth"]).unique().to_list() == [2]


@needs_data
def test_looped_runs():
    """The experiment log: 55 rows, blank parameter counts told by row, truth values apart from numbers."""
    table = read_table(DATA / "looped_iso_flop_runs.csv")
    kept, notes = valid(table, "val_bpb", ["params_total"], drop_invalid=True)
    blank = table["params_total"].null_count()
    assert len(table) == 55 and table["sampled_r"].dtype == pl.Boolean and blank > 0
    assert len(kept) == 55 - blank and notes[0].startswith(
        f"{blank} row(s) left out, since column 'params_to"
    )
