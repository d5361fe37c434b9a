"""Language models by what a user calls them: runs of a folder of results, or a pretrained model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sweeps._config import ConfigError, decode
from sweeps._store import Store
from sweeps._terminal import say

if TYPE_CHECKING:
    from llm import RunConfig, Tokens
    from llm.probe import LanguageModel


class OpenedModel(NamedTuple):
    """A model, and the row, config and tokens of the run that trained it; None for a pretrained one."""

    model: "LanguageModel"
    row: dict[str, Any] | None = None
    config: "RunConfig | None" = None
    tokens: "Tokens | None" = None


def is_results(source: str) -> bool:
    """Whether it is a folder of results."""
    return (Path(source) / "spec.json").is_file()


def open_language_models(
    source: str, *, only: Sequence[str] = (), num_recur: int | None = None, precision: str = "float32"
) -> Iterator[OpenedModel]:
    """The language models that `source` names, opened one after another.

    source: a folder of results of kind lm whose models were kept, a folder of a pretrained model, or its name
    on the hub. only: of a folder of results, the runs that meet all of these: `column=value`, or the
    beginning of a job's id. num_recur: r, by default that of training.
    Raises ConfigError, with what to do: no such source, no run that is meant, no model kept, a library that
    is not installed, a pretrained model that is not known or not there in full.
    """
    if is_results(source):
        yield from _of_results(Path(source), only, num_recur)
        return
    if only:
        raise ConfigError(f"{source} is no folder of results: runs cannot be chosen from it")
    if num_recur is not None:
        raise ConfigError(f"{source} is a pretrained model: it has no recurrences to choose")
    from llm.probe import open_pretrained

    try:
        model = open_pretrained(source, precision=precision)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    yield OpenedModel(model)


def _of_results(out: Path, only: Sequence[str], num_recur: int | None) -> Iterator[OpenedModel]:
    from llm import RunConfig, build
    from llm._tokens import prepared
    from llm.probe import Looped

    store = Store(out)
    for record in chosen(store, only, "lm"):
        job, row = record["job"], record["rows"][0]
        config: RunConfig = decode(RunConfig, record["config"], f"{store.folder(job) / 'record.json'}")
        tokens = build(config.data)
        if tokens.hash != row["corpus_hash"]:
            told = f"run {job} was trained on tokens of hash {row['corpus_hash'][:12]}, the corpus now gives"
            raise ConfigError(f"{told} {tokens.hash[:12]}: bring back the text that it was trained on")
        try:
            model = Looped(
                store.model(job),
                prepared(config.data, tokens),
                num_recur=num_recur,
                longest=config.data.context,
                name=job,
                stamp=record["model"],
            )
        except ValueError as error:
            raise ConfigError(f"run {job}: {error}") from None
        if config.model.mask_documents:
            say(f"run {job} was trained with documents masked; here its tokens see all before them")
        yield OpenedModel(model, row, config, tokens)
        del model  # not kept while the next one is opened


def chosen(store: Store, only: Sequence[str], kind: str | None = None) -> list[dict[str, Any]]:
    """The records with a model that meet all of `only`: `column=value`, or the beginning of a job's id.

    Raises ConfigError where there is none, naming what there is.
    """
    records = list(store.records())
    if kind is not None and (other := {record["kind"] for record in records} - {kind}):
        raise ConfigError(f"{store.out} holds results of kind {other.pop()!r}: this asks for kind {kind!r}")
    found = [record for record in records if all(_meets(record, condition) for condition in only)]
    if not found:
        told = f"none of the {len(records)} job(s) of {store.out} meets {' and '.join(only) or 'that'}"
        raise ConfigError(f"{told}: `depthlaw table {store.out}` lists them")
    kept = [record for record in found if record["status"] == "done" and record.get("model") is not None]
    if not kept:
        told = f"{store.out} was run without keeping models"
        raise ConfigError(f"{told}: the same `depthlaw run` with --keep-models trains them again")
    if len(kept) < len(found):
        left = len(found) - len(kept)
        say(f"{left} of {len(found)} jobs are left out: diverged, or run without --keep-models")
    return kept


def meets(row: dict[str, Any], condition: str) -> bool:
    """Whether a row, or what else is told by column, has the value of `column=value`; a column that it lacks
    has none, and the beginning of a job's id is met by all."""
    column, equals, value = condition.partition("=")
    return not equals or (column in row and _same(row[column], value))


def _meets(record: dict[str, Any], condition: str) -> bool:
    column, equals, _ = condition.partition("=")
    if not equals:
        return str(record["job"]).startswith(condition)
    rows = record["rows"]
    if rows and column not in rows[0]:
        raise ConfigError(f"{condition}: there is no column {column!r}; columns: {', '.join(rows[0])}")
    return any(meets(row, condition) for row in rows)


def _same(found: Any, asked: str) -> bool:
    if isinstance(found, bool) or found is None or isinstance(found, str):
        return str(found).lower() == asked.lower() or (found is None and asked.lower() == "null")
    try:
        return float(found) == float(asked)
    except ValueError:
        return False
