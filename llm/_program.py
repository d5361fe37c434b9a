"""The compiled functions of a run: the untrained model, and one training step.

A step's program depends on shapes and on how many recurrences keep gradients; rates, the run's length and the
recurrences without gradient are arguments, so that runs of one shape share a compilation.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from llm._config import ModelConfig, RunConfig
from llm._layout import Layout
from llm._loss import token_losses
from llm._model import LoopedLM
from llm._optim import GROUPS, Optimiser


class TrainState(NamedTuple):
    """What a step changes."""

    model: LoopedLM
    moments: Any


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


class Compiled(NamedTuple):
    """The functions of a program, jitted: `step._cache_size()` tells how often it was compiled."""

    draw: Any
    step: Any


@functools.lru_cache(maxsize=8)
def compiled(program: Program) -> Compiled:
    """`draw(key)` and `step(state, tokens, rates, steps, detached, kept)` of this program.

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
            losses = token_losses(
                model,
                part,
                kept,
                separator=program.separator,
                precision=program.precision,
                detached=without,
                rematerialise=program.rematerialise,
            )
            return jnp.mean(losses)

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

    shapes = jax.eval_shape(draw, jax.random.key(0))
    laid = layout.of_state(shapes)
    return Compiled(
        jax.jit(draw, out_shardings=laid),
        jax.jit(step, static_argnums=5, donate_argnums=0, out_shardings=(laid, layout.copied)),
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
