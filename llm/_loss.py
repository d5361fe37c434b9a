"""The loss of a language model: negative log-likelihood of each next token, in nats."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from llm._model import LoopedLM, documents_of


def token_losses(
    model: LoopedLM,
    tokens: Int[Array, "B sequence"],
    num_recur: int | None = None,
    *,
    separator: int,
    precision: str = "float32",
    detached: Int[Array, ""] | int = 0,
    rematerialise: bool = False,
) -> Float[Array, "B targets"]:
    """−log p of every token but the first, given those before it (of its document, if the model masks).

    precision: of states and products; parameters are cast on the way, logits and losses are float32.
    """
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    documents = documents_of(inputs, separator) if model.config.mask_documents else None
    if jnp.dtype(precision) != model.embedding.dtype:
        model = model.cast(precision)
    logits = model(inputs, num_recur, documents=documents, detached=detached, rematerialise=rematerialise)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)
