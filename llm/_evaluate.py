"""Validation of a model: nats a token, bits a byte, over held-out sequences in a fixed order."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from llm._batches import Tokens
from llm._config import PRECISIONS, Evaluation
from llm._layout import Layout
from llm._loss import token_losses
from llm._model import LoopedLM
from llm._products import precise
from llm._rules import require, require_recurrences


class HeldOut(NamedTuple):
    """loss: nats a token, all tokens but the first of each sequence.

    bpb: bits a byte, of the tokens that stand for bytes: separators are in neither of its sums.
    """

    loss: float
    bpb: float


def evaluate(
    model: LoopedLM,
    tokens: Tokens,
    evaluation: Evaluation | None = None,
    *,
    num_recur: int | None = None,
    precision: str = "float32",
    layout: Layout | None = None,
) -> HeldOut:
    """The model on the validation set.

    num_recur: r, by default the config's; looped models can be given more or fewer than they were trained
    with. precision: of states and products. layout: over devices, by default those that the model is on.

    Raises ValueError: a num_recur that is no whole number above 0, an unknown precision, tokens of another
    vocabulary.
    """
    evaluation, layout = evaluation or Evaluation(), layout or Layout.of(model)
    require_recurrences(num_recur)
    require(precision in PRECISIONS, "precision", precision, f"must be one of {', '.join(PRECISIONS)}")
    if tokens.vocabulary != model.vocabulary:
        raise ValueError(
            f"the tokens' vocabulary is {tokens.vocabulary}, the model's {model.vocabulary}: "
            "take the corpus that it was trained on"
        )
    sums = _sums(tokens.separator, tokens.prefix_bytes, precision, layout)
    lengths = jnp.asarray(tokens.token_bytes, jnp.int32)
    added = np.zeros(3)
    count = 0
    # A multiple of the devices, so that each has its share.
    size = -(-evaluation.batch // layout.devices) * layout.devices
    for batch, real in tokens.validation_batches(size, evaluation.sequences):
        with precise(precision):
            found = sums(model, layout.place(batch, axis=0), real, lengths, num_recur)
        added += [float(value) for value in found]
        count += real * (batch.shape[1] - 1)
    nats, byte_nats, num_bytes = added
    return HeldOut(float(nats / count), float(byte_nats / (np.log(2) * num_bytes)))


@functools.lru_cache(maxsize=8)
def _sums(
    separator: int, prefix_bytes: int, precision: str, layout: Layout
) -> Callable[..., tuple[Array, Array, Array]]:
    """Over the real sequences of a batch: nats of all tokens, of those that stand for bytes; bytes.

    A document's first token has `prefix_bytes` more than its text.
    """

    def sums(
        model: LoopedLM, tokens: Array, real: Array, token_bytes: Array, num_recur: int | None
    ) -> tuple[Array, Array, Array]:
        is_real = (jnp.arange(tokens.shape[0]) < real)[:, None]
        losses = token_losses(model, tokens, num_recur, separator=separator, precision=precision) * is_real
        lengths = token_bytes[tokens[:, 1:]] * is_real
        added = prefix_bytes * jnp.sum((tokens[:, :-1] == separator) & (lengths > 0))
        return jnp.sum(losses), jnp.sum(losses * (lengths > 0)), jnp.sum(lengths) - added

    return jax.jit(sums, static_argnums=4, out_shardings=layout.copied)
