"""What `depthlaw probe` can be given, as sources of hidden states."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sweeps._config import ConfigError, canonical, decode, digest, encode
from sweeps._language_models import OpenedModel, chosen, is_results, meets, open_language_models
from sweeps._spec import load_spec, preset_names
from sweeps._store import Store

if TYPE_CHECKING:
    from llm import Corpus
    from llm.probe import LanguageModel, Source
    from toymodels import AbstractNetwork, CohortConfig

BLOCK = 1024
"""Inputs of a toy network that are drawn together, whatever else is asked for."""


@dataclass(frozen=True)
class Reading:
    """What networks are given.

    sequences: how many, of language models. length: positions of each (None: as many as the model was
    trained with, 1024 for a pretrained one). text: files and folders for pretrained models; empty: the
    standard library of the running Python. at_once: sequences together (None: as memory allows). inputs: of
    toy networks. precision: of pretrained models.
    """

    sequences: int = 512
    length: int | None = None
    text: tuple[str, ...] = ()
    at_once: int | None = None
    inputs: int = 4096
    precision: str = "float32"


PER_DOCUMENT = 4
"""Sequences of one document that a pretrained model reads: tokens of one have much in common."""


class Probed(NamedTuple):
    """A network to probe. about: what it is, by column; together: the columns in which networks of one
    question agree; replicates differ in `seed`, and in `depth` what scales. given: what it is given, as far
    as it makes a difference."""

    about: dict[str, Any]
    together: tuple[str, ...]
    source: "Source"
    given: dict[str, Any]

    @property
    def label(self) -> str:
        """A few words for a person."""
        told = {key: value for key, value in self.about.items() if key != "job" and value is not None}
        return ", ".join(f"{key} {_short(value)}" for key, value in told.items())


def open_probed(
    source: str, reading: Reading, *, only: Sequence[str] = (), num_recur: int | None = None
) -> Iterator[Probed]:
    """The networks that a source names, one after another.

    A folder of results: its language models, or its teachers and students; a preset or a TOML file of toy
    networks: its teachers, of which nothing is trained; else a pretrained model, all of which are of one
    question: the user names models of one family. Raises ConfigError.
    """
    if is_results(source):
        store = Store(Path(source))
        if store.spec().get("sweep", {}).get("kind", "toy") == "toy":
            if num_recur is not None:
                raise ConfigError(f"{source} holds toy networks: they have no recurrences to choose")
            yield from _toys(store, only, reading)
            return
    elif source in preset_names() or source.endswith(".toml"):
        if num_recur is not None:
            raise ConfigError(f"{source} is of toy networks: they have no recurrences to choose")
        yield from _teachers(source, only, reading)
        return
    for opened in open_language_models(source, only=only, num_recur=num_recur, precision=reading.precision):
        yield _of_model(opened, source, reading)
        del opened  # not kept while the next one is opened


def _of_model(opened: OpenedModel, source: str, reading: Reading) -> Probed:
    from llm import Embedded, Files
    from llm.probe import TextSource, sequences_at_once

    model = opened.model
    depth = sum(state.is_layer for state in model.states)
    if opened.row is None:
        length = reading.length or min(BLOCK, model.longest or BLOCK)
        if model.longest is not None and length > model.longest:
            raise ConfigError(f"length is {length}: {model.name} reads at most {model.longest} positions")
        corpus = Files(reading.text) if reading.text else Embedded()
        about: dict[str, Any] = {"network": "pretrained", "model": model.name, "width": model.width}
        about |= {"depth": depth, "seed": 0}
        text = TextSource(
            model,
            lambda start: _texts(model, corpus, reading.sequences, length, start),
            length=length,
            at_once=reading.at_once or sequences_at_once(model, length),
            sequences=reading.sequences,
        )
        given: dict[str, Any] = {"sequences": reading.sequences, "length": length}
        given["text"] = corpus.fingerprint()
        given |= {"precision": reading.precision, "model": model.stamp}
        return Probed(about, ("network",), text, given)
    tokens, config = opened.tokens, opened.config
    assert tokens is not None and config is not None
    length = reading.length or tokens.context
    if length > tokens.context:
        raise ConfigError(f"length is {length}: {source} was trained with {tokens.context} positions")
    count = min(reading.sequences, len(tokens.validation))
    places = np.arange(count) * len(tokens.validation) // count

    def validation(start: int) -> Iterator[tuple[int, np.ndarray]]:
        for place in places[start:]:
            yield int(place), tokens.validation.take([int(place)])[0][:length]

    row = opened.row
    about = {
        "network": "run",
        "job": model.name,
        **{name: row[name] for name in ("budget", "injection", "width", "backprop_recurrences")},
        "trained_recur": row["num_recur"],
        "num_recur": 1 + max(state.recurrence or 0 for state in model.states),
        "config": _digest_of(config, ("seed", "model.layers")),
        "depth": depth,
        "seed": row["seed"],
        "loss": row["loss"],
    }
    at_once = reading.at_once or min(sequences_at_once(model, length), max(1, 4096 // length))
    text = TextSource(model, validation, length=length, at_once=at_once, sequences=count)
    given = {"sequences": count, "length": length, "model": model.stamp}
    return Probed(about, _together(about), text, given)


def _together(about: dict[str, Any]) -> tuple[str, ...]:
    """All but what tells replicates apart, and depth."""
    return tuple(name for name in about if name not in ("job", "depth", "seed", "loss"))


def _digest_of(config: Any, without: tuple[str, ...]) -> str:
    """What of a config is alike in the networks of one question, as a short hash."""
    told = encode(config)
    for name in without:
        *above, last = name.split(".")
        table = told
        for key in above:
            table = table[key]
        table.pop(last, None)
    return digest(told)


def _texts(
    model: "LanguageModel", corpus: "Corpus", sequences: int, length: int, start: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Documents cut into sequences, PER_DOCUMENT of each at most, with the number of the document; each of at
    least half of `length` unless it is a whole document."""
    first = [] if model.first is None else [model.first]
    room, number = length - len(first), 0
    for place, document in enumerate(corpus.documents()):
        ids = model.encode(document)
        for begin in range(0, min(len(ids), PER_DOCUMENT * room), room):
            part = ids[begin : begin + room]
            if begin and 2 * len(part) < room:
                continue
            if number >= start:
                yield place, np.array([*first, *part], np.int32)
            number += 1
            if number == sequences:
                return


def _toys(store: Store, only: Sequence[str], reading: Reading) -> Iterator[Probed]:
    from toymodels import CohortConfig

    seen: set[str] = set()
    for record in chosen(store, only, "toy"):
        path = f"{store.folder(record['job']) / 'record.json'}"
        config: CohortConfig = decode(CohortConfig, record["config"], path)
        yield from _teachers_of(config, reading, seen, only)
        students = store.model(record["job"])
        for row in record["rows"]:
            temperature = row["temperature"]
            student = students[row["depth"], config.temperatures[0] if temperature is None else temperature]
            about = {
                "network": "student",
                "job": record["job"],
                **_of_teacher(config),
                "teacher_depth": config.teacher.depth,
                "config": _digest_of(config, ("seeds", "depths")),
                "layer": config.layer,
                "steps": config.steps,
                "temperature": temperature,
                "width": config.width,
                "hidden": config.hidden,
                "depth": row["depth"],
                "seed": row["seed"],
                "loss": row["loss"],
            }
            if all(meets({**row, **about}, condition) for condition in only):
                yield _toy(student, config, about, reading, record["model"])


def _teachers(source: str, only: Sequence[str], reading: Reading) -> Iterator[Probed]:
    from sweeps._jobs import expand

    spec = load_spec(source)
    if spec.kind != "toy":
        told = f"{source} is of kind {spec.kind!r}, which is trained first"
        remedy = f"`depthlaw run {source} --keep-models`, then `depthlaw probe results/{spec.name}`"
        raise ConfigError(f"{told}: {remedy}")
    if only:
        raise ConfigError(f"{source} is a spec: networks are chosen with --only from a folder of results")
    seen: set[str] = set()
    for job in expand(spec.kind, spec.configs):
        yield from _teachers_of(job.config, reading, seen, ())


def _teachers_of(
    config: "CohortConfig", reading: Reading, seen: set[str], only: Sequence[str]
) -> Iterator[Probed]:
    """The teacher of each seed, but those that are in `seen`, which are added."""
    from toymodels import draw_teacher

    for seed in config.seeds:
        about = {
            "network": "teacher",
            **_of_teacher(config),
            "width": config.width,
            "hidden": config.hidden,
            "depth": config.teacher.depth,
            "seed": seed,
        }
        known = canonical(about)
        if known not in seen and all(meets(about, condition) for condition in only):
            seen.add(known)
            yield _toy(draw_teacher(config, seed), config, about, reading)


def _of_teacher(config: "CohortConfig") -> dict[str, Any]:
    """What the teacher's config says of it but its depth."""
    told = [field.name for field in dataclasses.fields(config.teacher) if field.name != "depth"]
    values = {name: getattr(config.teacher, name) for name in told}
    # A column of a table is numbers: without an infinite one, which a tied teacher's length is.
    return {"teacher": config.teacher.kind} | {
        name: None if value == math.inf else value for name, value in values.items()
    }


def _toy(
    network: "AbstractNetwork",
    config: "CohortConfig",
    about: dict[str, Any],
    reading: Reading,
    stamp: str = "",
) -> Probed:
    import jax

    from llm.probe import TrajectorySource
    from toymodels import Purpose, purpose_key

    # Beyond those of the held-out loss, whose keys are folded by small numbers.
    key = jax.random.fold_in(purpose_key(int(about["seed"]), Purpose.EVALUATION), 2**31)

    def trajectories(first: int, last: int) -> Any:
        x = jax.random.normal(jax.random.fold_in(key, first // BLOCK), (config.width, BLOCK))
        with jax.default_matmul_precision("highest"):
            return _states()(network, x)[:, : last - first]

    inputs = -(-reading.inputs // BLOCK) * BLOCK
    source = TrajectorySource(trajectories, depth=network.depth, inputs=inputs, at_once=BLOCK)
    return Probed(about, _together(about), source, {"inputs": inputs, "model": stamp})


@functools.cache
def _states() -> Any:
    """States (S, inputs, width) of a network, one program for all of a shape."""
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda network, x: jnp.moveaxis(network.states(x), 1, 2))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
