"""What a training tells: its result, its progress, its snapshots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from llm._config import RunConfig
from llm._model import LoopedLM


@dataclass(frozen=True)
class Validation:
    """On the validation set, or its first sequences, in a fixed order.

    step: training steps done. loss: nats a token. bpb: bits a byte, of the tokens that stand for bytes.
    """

    step: int
    loss: float
    bpb: float


@dataclass(frozen=True)
class Speed:
    """How fast it trained, without compilation and validation. peak_share: of all devices' `peak_flops`."""

    tokens_per_second: float
    flops_per_second: float
    peak_share: float


@dataclass(frozen=True)
class RunResult:
    """One trained model.

    losses: training loss of every step, in nats a token. steps: made; fewer than asked for where it diverged:
    the loss of the last, or of the validation after it, is not finite. num_tokens, flops: that were trained
    on and spent. corpus, vocabulary: hash of the tokens, and how many there are to choose from. rates: of
    each group at the first step.
    """

    config: RunConfig
    model: LoopedLM
    losses: np.ndarray
    validations: tuple[Validation, ...]
    diverged: bool
    num_tokens: int
    flops: float
    rates: dict[str, float]
    corpus: str
    vocabulary: int
    speed: Speed | None

    @property
    def steps(self) -> int:
        """Training steps that were made."""
        return len(self.losses)


@dataclass(frozen=True)
class Snapshot:
    """Where a training stood: all that it needs to go on, to the last bit.

    step: steps done. config: hash of the run's config. corpus: of the tokens that it learns from. arrays: by
    name.
    """

    step: int
    config: str
    corpus: str
    arrays: dict[str, np.ndarray]


class Progress(NamedTuple):
    """Handed to `on_progress` after every segment.

    losses: of training and, where it was just taken, of validation, by name. snapshot: saves the state; to be
    called before `on_progress` returns, since the next segment overwrites it.
    """

    step: int
    steps: int
    losses: dict[str, float]
    snapshot: Callable[[], Snapshot]


OnProgress = Callable[[Progress], Any]
