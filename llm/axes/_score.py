"""A language model's score on tasks.

Symbols: an item's loss is the mean of −log p over the tokens of its continuation.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm._rules import require
from llm.axes._batched import Losses, losses
from llm.axes._sequence import Prepared, prepared
from llm.axes._task import Item, Task, TaskError
from llm.probe import LanguageModel

ITEMS = 500
"""Items of a task, if it has so many: the standard error of an accuracy is 2.2 % at most."""

TIE = 1e-6
"""Choices whose losses differ by less, in nats a token, are the same: float32 tells no more."""


@dataclass(frozen=True)
class Score:
    """What a model reaches on a task; all are means over items, errors the standard errors of those means.

    loss: nats a token of the right continuation. nats_per_byte: the same a byte of its text, which models of
    different tokenizers can be compared by. accuracy: of items with choices, whether the right one has the
    lowest loss a token (by their sums the shortest would win with a model that knows nothing; by loss a
    token, such a model is at chance); choices that tie share it. Of others, whether every token of the
    continuation is the most likely one; tokens that tie share it. chance_loss, chance_accuracy: of a uniform
    guess over the possible answers, or, where nobody can say which these are, over the vocabulary.
    items: scored. shots: solved items before each, on average. cut: items whose own context was longer than
    the model reads. left_out: items with a continuation that is longer, which are not scored. Errors are None
    of a single item.
    """

    task: str
    axis: str
    loss: float
    loss_error: float | None
    nats_per_byte: float
    accuracy: float
    accuracy_error: float | None
    chance_loss: float
    chance_accuracy: float
    items: int
    shots: float
    cut: int
    left_out: int


def settings(task: Task, *, items: int = ITEMS, shots: int | None = None, seed: int = 0) -> dict[str, Any]:
    """What a score depends on but the model: scores with the same settings can be compared.

    Raises ValueError for fewer than one item and a negative number of shots.
    """
    require(items >= 1, "items", items, "must be at least 1")
    require(shots is None or shots >= 0, "shots", shots, "must be at least 0")
    return {
        "task": task.fingerprint,
        "items": items,
        "shots": task.shots if shots is None else shots,
        "seed": seed,
    }


def score(
    model: LanguageModel,
    tasks: Sequence[Task],
    *,
    items: int = ITEMS,
    shots: int | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Score]:
    """The scores by the tasks' names.

    items: of each task, or all where it has fewer. shots: solved items before each (None: as the task says).
    seed: of items and of what is put before them. batch_tokens: see `losses`. on_progress: is told the share
    that is done.
    Raises TaskError: no room for a task's items, too few solved ones; ValueError: items, shots.
    """
    scores = {}
    for place, task in enumerate(tasks):
        # One after another, so that no score depends, by rounding, on what else is asked for.
        count = settings(task, items=items, shots=shots, seed=seed)["shots"]
        read = [
            (item, prepared(model, item, task.examples(item, i, count, seed), f"{task.name}, item {i}"))
            for i, item in enumerate(task.items(items, seed))
        ]
        fit = [(item, sequences) for item, sequences in read if sequences is not None]
        if not fit:
            told = (
                f"{task.name}: no item has a continuation that {model.name} can read, {model.longest} tokens"
            )
            raise TaskError(f"{told}: leave the task out")
        every = [one for _, sequences in fit for one in sequences.choices]

        def tell(done: int, place: int = place, all: int = len(every)) -> None:
            on_progress((place + done / all) / len(tasks))

        found = iter(losses(model, every, batch_tokens=batch_tokens, on_batch=tell))
        rows = [(item, sequences, [next(found) for _ in item.choices]) for item, sequences in fit]
        scores[task.name] = _score(task, rows, math.log(model.vocabulary), len(read) - len(fit))
    return scores


def _score(
    task: Task, rows: list[tuple[Item, Prepared, list[Losses]]], uniform: float, left_out: int
) -> Score:
    """uniform: the loss of a token that is guessed, log V."""
    loss, byte_loss, right, chance_loss, chance_right = [], [], [], [], []
    for item, sequences, choices in rows:
        mine, tokens = choices[item.answer], len(choices[item.answer].nats)
        loss.append(mine.nats.mean())
        byte_loss.append(mine.nats.sum() / sequences.choices[item.answer].num_bytes)
        right.append(_right(item, choices))
        nats = item.chance_nats
        chance_loss.append(uniform if nats is None else nats / tokens)
        chance_right.append(math.exp(-uniform * tokens) if nats is None else math.exp(-nats))
    return Score(
        task=task.name,
        axis=task.axis,
        loss=float(np.mean(loss)),
        loss_error=_error(loss),
        nats_per_byte=float(np.mean(byte_loss)),
        accuracy=float(np.mean(right)),
        accuracy_error=_error(right),
        chance_loss=float(np.mean(chance_loss)),
        chance_accuracy=float(np.mean(chance_right)),
        items=len(rows),
        shots=float(np.mean([sequences.shots for _, sequences, _ in rows])),
        cut=sum(sequences.cut for _, sequences, _ in rows),
        left_out=left_out,
    )


def _right(item: Item, choices: list[Losses]) -> float:
    """Whether an item is answered right; between 0 and 1 where answers tie."""
    if len(choices) == 1:
        return float(np.prod(choices[0].hits))
    each = np.array([one.nats.mean() for one in choices])
    lowest = each <= each.min() + TIE
    return float(lowest[item.answer] / lowest.sum())


def _error(values: list[Any]) -> float | None:
    """The standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
