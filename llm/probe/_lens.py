"""Cross-entropy along depth: what a model would say if it stopped at a state.

Symbols: batch B, positions T, width d, vocabulary V, states S.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from llm.probe._model import LanguageModel
from llm.probe._statistics import Ratios


class Reading(NamedTuple):
    """Mean cross-entropy of every state, nats a token, and its standard error over sequences."""

    loss: Float[np.ndarray, " S"]
    standard_error: Float[np.ndarray, " S"]


@final
class Lens:
    """Accumulates the loss of the next token along depth, in two ways.

    head: each state through the final norm and the head, normalised by its own size (the logit lens).
    layer: each state but the last through the last layer, then the same (arXiv:2602.05970, the section on
    hidden states). settled: how often the head's first choice is that of the last state from state number s
    on, and not before.
    """

    def __init__(self, states: int) -> None:
        self.head, self.layer = Ratios(states), Ratios(states - 1)
        self.settled = np.zeros(states, np.int64)

    def add(
        self,
        model: LanguageModel,
        states: Float[Array, "S T d"],
        tokens: Int[np.ndarray, " T"],
        length: int,
        skip: int,
    ) -> None:
        """One sequence; predictions of the tokens behind its first `skip` ones count."""
        targets = np.asarray(tokens[1:length])
        if len(targets) <= skip:
            return
        of_head, of_layer, choices = [], [], []
        for part in _parts(states, model.vocabulary):
            losses, first = _losses(model.read_out(part), targets)
            of_head.append(losses[:, skip:])
            choices.append(first[:, skip:])
        for part in _parts(states[:-1], model.vocabulary):
            repeated = np.full(len(part), length)
            of_layer.append(_losses(model.through_last_layer(part, repeated), targets)[0][:, skip:])
        for ratios, losses in ((self.head, np.concatenate(of_head)), (self.layer, np.concatenate(of_layer))):
            summed = losses.sum(axis=1, dtype=np.float64)
            ratios.add(summed, np.full(len(summed), float(losses.shape[1])))
        chosen = np.concatenate(choices)
        same = chosen == chosen[-1]
        # Same from there on to the end: what is after the last state that differs.
        settled = len(same) - np.argmin(np.concatenate([same[::-1], np.zeros((1, same.shape[1]), bool)]), 0)
        self.settled += np.bincount(settled, minlength=len(same))[: len(same)]


LOGITS_AT_ONCE = 2**22
"""Numbers; more states together would be no faster."""


def _parts(states: Float[Array, "S T d"], vocabulary: int) -> list[Float[Array, "s T d"]]:
    """States that are read out together."""
    some = max(1, LOGITS_AT_ONCE // (states.shape[1] * vocabulary))
    return [states[first : first + some] for first in range(0, len(states), some)]


def _losses(logits: Any, targets: Int[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    losses, choices = _of_logits(jnp.asarray(logits), targets)
    return np.asarray(losses), np.asarray(choices)


@jax.jit
def _of_logits(logits: Float[Array, "s T V"], targets: Int[Array, " n"]) -> tuple[Array, Array]:
    said = logits[:, : targets.shape[0]]
    right = jnp.take_along_axis(said, jnp.broadcast_to(targets, said.shape[:2])[..., None], axis=-1)
    return jax.nn.logsumexp(said, axis=-1) - right[..., 0], jnp.argmax(said, axis=-1)
