"""Cross-entropy along depth: what a model would say if it stopped at a state.

Symbols: batch B, positions T, width d, vocabulary V, states S.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from llm.probe._model import LanguageModel
from llm.probe._statistics import Moments


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
        self.head, self.layer = Moments(states), Moments(states - 1)
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
        lengths = np.array([length])
        of_head, of_layer, choices = [], [], []
        for number, h in enumerate(states):
            losses, first = _losses(model.read_out(h[None]), targets)
            of_head.append(float(np.mean(np.asarray(losses)[skip:], dtype=np.float64)))
            choices.append(np.asarray(first)[skip:])
            if number < len(states) - 1:
                losses, _ = _losses(model.through_last_layer(h[None], lengths), targets)
                of_layer.append(float(np.mean(np.asarray(losses)[skip:], dtype=np.float64)))
        self.head.add(np.array(of_head)[:, None])
        self.layer.add(np.array(of_layer)[:, None])
        same = np.stack(choices) == choices[-1]
        # Same from there on to the end: what is after the last state that differs.
        settled = len(same) - np.argmin(np.concatenate([same[::-1], np.zeros((1, same.shape[1]), bool)]), 0)
        self.settled += np.bincount(settled, minlength=len(same))[: len(same)]


def _losses(logits: Any, targets: Int[np.ndarray, " n"]) -> tuple[Array, Array]:
    return _of_logits(jnp.asarray(logits)[0], targets)


@jax.jit
def _of_logits(logits: Float[Array, "T V"], targets: Int[Array, " n"]) -> tuple[Array, Array]:
    said = logits[: targets.shape[0]]
    losses = jax.nn.logsumexp(said, axis=-1) - jnp.take_along_axis(said, targets[:, None], axis=-1)[:, 0]
    return losses, jnp.argmax(said, axis=-1)
