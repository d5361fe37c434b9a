"""The compiled functions of a run: draw, one training step, one batch of validation.

A step's program depends on shapes and on how many recurrences keep gradients; rates, the run's length and the
recurrences without gradient are arguments, so that runs of one shape share a compilation.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from llm._config import ModelConfig, RunConfig
from llm._layout import Layout
from llm._model import LoopedLM, documents_of
from llm._optim import GROUPS, Optimiser


class TrainState(NamedTuple):
    """What a step changes."""

    model: LoopedLM
    moments: Any


class BatchLoss(NamedTuple):
    """Sums over the real sequences of a batch.

    nats: negative log-likelihood of all tokens. byte_nats: of those that stand for bytes. bytes: of those.
    """

    nats: Array
    byte_nats: Array
    bytes: Array


@dataclass(frozen=True)
class Program:
    """What the compiled functions depend on."""

    model: ModelConfig
    vocabulary: int
    separator: int
    optimiser: Optimiser
    precision: str
    rematerialise: bool
    layout: Layout

    @classmethod
    def of(cls, config: RunConfig, vocabulary: int, separator: int, layout: Layout) -> "Program":
        """Of a run."""
        return cls(
            config.model,
            vocabulary,
            separator,
            config.optimiser,
            config.precision,
            config.rematerialise,
            layout,
        )

    def losses(
        self,
        model: LoopedLM,
        tokens: Int[Array, "B sequence"],
        num_recur: int | None = None,
        detached: Any = 0,
    ) -> Float[Array, "B targets"]:
        """Negative log-likelihood of every token but the first, in nats."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        documents = documents_of(inputs, self.separator) if self.model.mask_documents else None
        if self.precision != "float32":
            model = model.cast(self.precision)
        logits = model(
            inputs, num_recur, documents=documents, detached=detached, rematerialise=self.rematerialise
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


class Compiled(NamedTuple):
    """The functions of a program."""

    draw: Callable[..., TrainState]
    step: Callable[..., tuple[TrainState, Array]]
    evaluate: Callable[..., BatchLoss]


@functools.lru_cache(maxsize=8)
def compiled(program: Program) -> Compiled:
    """`draw(key)`, `step(state, tokens, rates, steps, detached, kept)`, `evaluate(model, …)` of this program.

    Tokens of a step are (parts, sequences, T + 1): gradients are averaged over the parts, one after another.
    """
    layout = program.layout

    def optimiser(model: LoopedLM, rates: dict[str, Any], steps: Any) -> optax.GradientTransformation:
        return program.optimiser.transformation(rates, model.labels(), steps)

    def draw(key: Array) -> TrainState:
        model = LoopedLM.draw(program.model, program.vocabulary, key)
        return TrainState(model, optimiser(model, dict.fromkeys(GROUPS, 0.0), 1).init(model))

    def step(
        state: TrainState, tokens: Array, rates: dict[str, Any], steps: Any, detached: Any, kept: int
    ) -> tuple[TrainState, Array]:
        def mean_loss(model: LoopedLM, part: Array) -> Array:
            without = detached if program.model.detaches else 0
            return jnp.mean(program.losses(model, part, kept, without))

        gradient = jax.value_and_grad(mean_loss)
        if tokens.shape[0] == 1:
            loss, found = gradient(state.model, tokens[0])
        else:

            def add(sums: Any, part: Array) -> tuple[Any, None]:
                return jax.tree.map(jnp.add, sums, gradient(state.model, part)), None

            zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, state.model)
            sums, _ = jax.lax.scan(add, zeros, tokens)
            loss, found = jax.tree.map(lambda leaf: leaf / tokens.shape[0], sums)
        updates, moments = optimiser(state.model, rates, steps).update(found, state.moments, state.model)
        return TrainState(optax.apply_updates(state.model, updates), moments), loss

    def evaluate(
        model: LoopedLM, tokens: Array, real: Array, token_bytes: Array, num_recur: int | None
    ) -> BatchLoss:
        losses = program.losses(model, tokens, num_recur) * (jnp.arange(tokens.shape[0]) < real)[:, None]
        lengths = token_bytes[tokens[:, 1:]] * (jnp.arange(tokens.shape[0]) < real)[:, None]
        return BatchLoss(jnp.sum(losses), jnp.sum(losses * (lengths > 0)), jnp.sum(lengths))

    shapes = jax.eval_shape(draw, jax.random.key(0))
    laid = layout.of_state(shapes)
    return Compiled(
        jax.jit(draw, out_shardings=laid),
        jax.jit(step, static_argnums=5, donate_argnums=0, out_shardings=(laid, layout.copied)),
        jax.jit(evaluate, static_argnums=4, out_shardings=layout.copied),
    )


def program_of(config: RunConfig) -> Any:
    """What the compiled programs of a run depend on, beside the corpus: runs of equal value share them."""
    data = config.data
    part = config.batch // config.accumulation
    return [
        config.model,
        data.corpus,
        data.tokenizer,
        data.context,
        [part, config.accumulation, config.evaluation.batch],
        dataclasses.replace(config.optimiser, **dict.fromkeys(GROUPS, 0.0)),
        config.precision,
        config.rematerialise,
    ]
