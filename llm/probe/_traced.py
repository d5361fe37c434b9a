"""What a causal trace found.

Symbols: states S in the order of depth, positions T, draws K of the noise; p: probability of the answer.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from llm._rules import require
from llm.probe._model import State

CONFIDENCE = 0.975
"""One-sided, of the noise having lowered the probability."""

LEAST_DROP = 1e-3
"""Share of the clean probability: what noise lowers it by less is nothing that could be restored."""

ROUNDING = 1e-6
"""Of probabilities: effects that differ by less are equal."""


@dataclass(frozen=True)
class TracedToken:
    """A token of the sentence. text: what it adds to it, U+FFFD where it ends within a character; "" for the
    one before the sentence."""

    id: int
    text: str
    is_subject: bool = False


@dataclass(frozen=True)
class TraceSettings:
    """What was asked. subject: its `occurrence`-th, from 1. answer: None for the likeliest next token. noise:
    its standard deviation over that of the embedding's entries. draws: of the noise; seed: theirs.

    Raises ValueError for an empty sentence, text that cannot be encoded, and numbers out of range.
    """

    sentence: str
    subject: str
    answer: str | None = None
    occurrence: int = 1
    noise: float = 3.0
    draws: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sentence", "subject", "answer"):
            text = getattr(self, name) or ""
            wrong = [i for i, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"]
            where = f"no character at {wrong[0]}" if wrong else ""
            require(not wrong, name, where, "must be text: write it in the encoding of the terminal")
        require(bool(self.sentence), "sentence", repr(self.sentence), "must have a character")
        finite = np.isfinite(self.noise) and self.noise >= 0
        require(bool(finite), "noise", self.noise, "must be a number, at least 0")
        require(self.draws >= 2, "draws", self.draws, "must be at least 2: a single one has no spread")
        require(self.seed >= 0, "seed", self.seed, "must be at least 0")


@dataclass(frozen=True, eq=False)
class CausalTrace:
    """Probabilities of the answer, of one sentence in one model.

    deviation: standard deviation of the noise on each embedding entry of the subject's tokens. likeliest: the
    next token of the undisturbed model, of probability `most`. clean: p undisturbed. corrupted: p with noise,
    of each draw. restored: p with one state put back at one position, of each state, draw and position.

    Statistics are over draws: standard deviations have K − 1 degrees of freedom, standard errors are they
    over √K. The indirect effect is restored − corrupted, of the same draws: its error is that of their
    differences.
    """

    model: str
    settings: TraceSettings
    tokens: tuple[TracedToken, ...]
    answer: TracedToken
    likeliest: TracedToken
    most: float
    states: tuple[State, ...]
    deviation: float
    clean: float
    corrupted: Float[np.ndarray, " K"]
    restored: Float[np.ndarray, "S K T"]

    @property
    def corrupted_error(self) -> float:
        """Standard error of the mean corrupted probability."""
        return float(_error(self.corrupted))

    @property
    def probability(self) -> Float[np.ndarray, "S T"]:
        """Mean probability with a state restored."""
        return self.restored.mean(axis=1)

    @property
    def spread(self) -> Float[np.ndarray, "S T"]:
        """Its standard deviation over draws."""
        return self.restored.std(axis=1, ddof=1)

    @property
    def error(self) -> Float[np.ndarray, "S T"]:
        """Its standard error."""
        return _error(np.moveaxis(self.restored, 1, -1))

    @property
    def effect(self) -> Float[np.ndarray, "S T"]:
        """Mean indirect effect: restored − corrupted."""
        return self.probability - self.corrupted.mean()

    @property
    def effect_error(self) -> Float[np.ndarray, "S T"]:
        """Its standard error."""
        return _error(np.moveaxis(self.restored, 1, -1) - self.corrupted)

    @property
    def lowered(self) -> bool:
        """Whether the noise lowers the probability: by Student's t over draws, and by more than rounding.

        If not, there is nothing to restore, and the map is not to be trusted.
        """
        drop = self.clean - float(self.corrupted.mean())
        least = stdtrit(self.settings.draws - 1, CONFIDENCE) * self.corrupted_error
        return bool(drop > max(least, LEAST_DROP * self.clean))

    def peaks(self) -> list[tuple[int, int]]:
        """(state, position) of the largest effect at each position that has one, by effect; of equal ones the
        first."""
        effect = self.effect
        close = effect >= effect.max(axis=0) - ROUNDING
        found = [(int(np.argmax(close[:, t])), t) for t in range(len(self.tokens))]
        return sorted((site for site in found if effect[site] > ROUNDING), key=lambda site: -effect[site])


def _error(values: Float[np.ndarray, "*shape K"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(values.std(axis=-1, ddof=1) / values.shape[-1] ** 0.5)
