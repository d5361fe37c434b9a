"""The command `corpus`."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps._terminal import console

if TYPE_CHECKING:
    from llm import BuildProgress

SECONDS = 5.0
"""Between two lines of progress where nobody watches a terminal."""


def corpus(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A preset's name or a TOML file of kind lm.")],
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Overrides a config field; repeatable."),
    ] = [],  # noqa: B006  # typer copies it
) -> None:
    """Build the token shards that a sweep of language models reads, ahead of it; what is there is kept.

    The text is named by the spec: data.corpus (embedded, files, hub), data.tokenizer (bytes, bpe, file).
    """
    from sweeps._config import ConfigError
    from sweeps._spec import load_spec

    asked = load_spec(spec, tuple(settings))
    if asked.kind != "lm":
        raise ConfigError(f"{spec} is of kind {asked.kind!r}: only language models, kind lm, read a corpus")
    from rich.table import Table

    from llm import build

    table = Table("corpus", "tokenizer", "side", "documents", "tokens", "bytes", "sequences", "folder")
    for data in dict.fromkeys(config.data for config in asked.configs):
        tokens = build(data, on_progress=_Watcher())
        for side in ("train", "validation"):
            about = tokens.about[side]
            counts = (about[name] for name in ("documents", "tokens", "bytes", "sequences"))
            table.add_row(
                str(tokens.about["corpus"]),
                f"{data.tokenizer.kind}, {tokens.vocabulary}",
                side,
                *(f"{count:,}" for count in counts),
                str(tokens.folder),
            )
    console().print(table)


class _Watcher:
    """Says how far a build is: on one line of a terminal, or now and then on lines of their own."""

    def __init__(self) -> None:
        self.began = self.told = time.monotonic()
        self.live = sys.stderr.isatty()

    def __call__(self, progress: "BuildProgress") -> Any:
        now = time.monotonic()
        if now - self.told < (0.2 if self.live else SECONDS):
            return
        self.told = now
        text = f"{progress.stage}: {progress.documents:,} documents, {progress.num_bytes / 1e6:,.1f} MB"
        if progress.share:
            left = (now - self.began) * (1 - progress.share) / progress.share
            text += f", {progress.share:.0%}, about {left:.0f} s left"
        sys.stderr.write(f"\r{text}\033[K" if self.live else f"{text}\n")
        sys.stderr.flush()
