"""What the command line says and reads: sentences, consoles, tables, and errors as exit statuses."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    pass


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
    corpora = sys.modules.get("llm._readers")  # no text is read where it is not loaded
    if corpora is not None and isinstance(error, corpora.CorpusError):
        fail(str(error), 1)
    if isinstance(error, RuntimeError) and "initialize backend" in str(error):
        fail(f"JAX finds no device: {' '.join(str(error).split())}", 1)
    raise error
