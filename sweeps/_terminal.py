"""What the command line says and reads: sentences, consoles, tables, and errors as exit statuses."""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    import polars as pl


def say(sentence: str) -> None:
    """A sentence for the person: to standard error."""
    with contextlib.suppress(OSError):  # nobody listens any more
        print(sentence, file=sys.stderr)


def fail(sentence: str, status: int) -> NoReturn:
    """End with this exit status, and say why."""
    say(f"depthlaw: {sentence}")
    sys.exit(status)


def console(stderr: bool = False) -> Any:
    """For tables: on standard output or error, as wide as the terminal or, redirected, wide enough."""
    from rich.console import Console

    from sweeps._progress import patient_console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160  # redirected output is not cut to a terminal's width
    return patient_console(stream, width) if stderr else Console(file=stream, width=width)


class BadTable(ValueError):
    """A table that cannot be read or fitted."""


def report(error: Exception) -> NoReturn:
    """End with the sentence and the exit status of an error; raise what is none of the known."""
    from sweeps._config import ConfigError
    from sweeps._doctor import NameClash
    from sweeps._files import StoreError
    from sweeps.executors import ExecutorError

    if isinstance(error, ConfigError | BadTable):
        fail(str(error), 2)
    if isinstance(error, NameClash | StoreError | ExecutorError):
        fail(str(error), 1)
    if isinstance(error, OSError):
        # If this was standard output, not even the interpreter's last flush can be written to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has gone, and knows
            sys.exit(1)
        fail(f"{error.filename or 'the output'} cannot be read or written: {error.strerror or error}", 1)
    if isinstance(error, RuntimeError) and "initialize backend" in str(error):
        fail(f"JAX finds no device: {' '.join(str(error).split())}", 1)
    raise error


def floor_of(text: str) -> float | None:
    """L_0 as `--floor` says it: a number, or None where it is to be fitted."""
    try:
        level = None if text == "free" else float(text)
    except ValueError:
        level = -1.0
    if level is not None and not 0 <= level < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither a number from 0 up nor 'free'", param_hint="--floor")
    return level


def read_table(path: Path) -> "pl.DataFrame":
    """A table of the user's own. Raises BadTable."""
    import polars as pl

    readers: dict[str, Any] = {
        # A column may begin with whole numbers: its type is read off all rows.
        ".csv": lambda file: pl.read_csv(file, infer_schema_length=None),
        ".parquet": pl.read_parquet,
        ".json": lambda file: pl.read_json(file, infer_schema_length=None),
    }
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise BadTable(f"{path}: a table is a .csv, .parquet or .json file, or a folder of results")
    if not path.is_file():
        raise BadTable(f"{path} does not exist")
    try:
        return readers[suffix](path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadTable(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
