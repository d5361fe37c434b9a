"""Parameters and FLOPs of a looped model, by group.

Symbols: width d, context T, vocabulary V (padded), recurrences r, of which k keep gradients. Conventions
(arXiv:2604.21106, the section on FLOPs): a product of (a, b) by (b, c) is 2abc; training is three times the
forward pass; attention scores are counted in full, not only the causal half; look-ups and norms are free.

| name | counts |
|---|---|
| `num_params` | unique parameters without embedding and head: N = N_once + N_rec |
| `num_once`, `num_recurrent` | those of them that a token meets once, and in every recurrence |
| `num_effective` | N_once + r·N_rec: as an unlooped model of this width and depth, and r injections |
| `num_total` | with embedding and head, padded rows included: what the optimiser holds |
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from llm._blocks import MLP_FACTOR
from llm._config import ModelConfig, RunConfig
from llm._model import padded
from llm._recurrences import recurrences

ACTIVATIONS = 20
"""States of width d that a layer's backward pass keeps for each token; hidden ones count four times."""


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by group; the groups sum to the model's arrays."""

    embedding: int
    head: int
    prelude: int
    recurrent: int
    coda: int
    injection: int
    scales: int
    once: int
    """Of the groups above, without embedding and head: what a token meets once."""

    @property
    def num_params(self) -> int:
        """Unique, without embedding and head."""
        return self.prelude + self.recurrent + self.coda + self.injection + self.scales

    @property
    def num_once(self) -> int:
        """Prelude, coda, the norms of embedding and head, and what single recurrences have of their own."""
        return self.once

    @property
    def num_recurrent(self) -> int:
        """The block, its injection, and the norm at the end of a recurrence."""
        return self.num_params - self.once

    @property
    def num_total(self) -> int:
        """All of them."""
        return self.num_params + self.embedding + self.head

    def num_effective(self, num_recur: int) -> int:
        """N_once + r·N_rec."""
        return self.num_once + num_recur * self.num_recurrent


def count_params(config: ModelConfig, vocabulary: int) -> ParameterCount:
    """The parameters of a model, by group."""
    d = config.width
    block = block_matrices(d) + 2 * d
    shared, own = config.injected.recurrent_params(d), config.injected.once_params(config.num_recur)
    table = padded(vocabulary) * d
    return ParameterCount(
        embedding=table,
        head=table,
        prelude=config.prelude * block,
        recurrent=config.block * block,
        coda=config.coda * block,
        injection=shared + own,
        scales=3 * d,
        once=(config.prelude + config.coda) * block + 2 * d + own,
    )


def block_matrices(width: int) -> int:
    """n_b = 12 d²: the entries of a block's matrices."""
    return (4 + 2 * MLP_FACTOR) * width**2


def forward_flops(
    config: ModelConfig, context: int, vocabulary: int, num_recur: int | None = None
) -> dict[str, int]:
    """FLOPs a token of a forward pass over whole sequences of T tokens, by group."""
    recurrences = config.num_recur if num_recur is None else num_recur
    return _weighted(config, context, vocabulary, once=2, recurrences=2 * recurrences)


def training_flops(
    config: ModelConfig,
    context: int,
    vocabulary: int,
    num_recur: int | None = None,
    backprop_recurrences: int | None = None,
) -> dict[str, int]:
    """FLOPs a token of a training step, by group: 6 a parameter's use, 2 in recurrences without gradient.

    num_recur, backprop_recurrences: of the step, by default the config's.
    """
    r = config.num_recur if num_recur is None else num_recur
    kept = min(r, backprop_recurrences or config.backprop_recurrences or r)
    return _weighted(config, context, vocabulary, once=6, recurrences=6 * kept + 2 * (r - kept))


def _weighted(
    config: ModelConfig, context: int, vocabulary: int, *, once: int, recurrences: int
) -> dict[str, int]:
    """`once` FLOPs a use of a parameter outside the recurrences, `recurrences` for all of them together."""
    d = config.width
    outside = config.prelude + config.coda
    block = block_matrices(d)
    # 2dT multiplications and additions each for the scores and for the mean of the values.
    return {
        "prelude": once * config.prelude * block,
        "recurrent": recurrences * config.block * block,
        "coda": once * config.coda * block,
        "injection": recurrences * config.injected.forward_flops(d) // 2,
        "attention": (once * outside + recurrences * config.block) * 2 * d * context,
        "head": once * d * padded(vocabulary),
    }


def total(flops: Mapping[str, int]) -> int:
    """The sum over the groups."""
    return sum(flops.values())


def num_steps(config: RunConfig, vocabulary: int) -> int:
    """Steps of a run: its tokens or its budget, rounded to whole batches, at least one.

    With `sampled` the steps' own recurrences are counted: many of them cost less than those at the mean.
    """
    if config.num_tokens is not None:
        return max(1, round(config.num_tokens / config.batch_tokens))
    assert config.budget is not None
    if config.model.sampled is None:
        return max(1, round(config.budget / (config.batch_tokens * _step_flops(config, vocabulary, 0))))
    spent, step = 0.0, 0
    while True:
        cost = config.batch_tokens * _step_flops(config, vocabulary, step)
        if spent + cost / 2 > config.budget:
            return max(1, step)
        spent, step = spent + cost, step + 1


def _step_flops(config: RunConfig, vocabulary: int, step: int) -> int:
    """Training FLOPs a token of this step."""
    detached, kept = recurrences(config.model, config.seed, step)
    return _training_flops(config.model, config.data.context, vocabulary, detached + kept, kept)


@functools.lru_cache(maxsize=256)
def _training_flops(config: ModelConfig, context: int, vocabulary: int, r: int, kept: int) -> int:
    return total(training_flops(config, context, vocabulary, r, kept))


def spent_flops(config: RunConfig, vocabulary: int, steps: int) -> float:
    """Training FLOPs of a run's first steps."""
    if config.model.sampled is None:
        return float(steps * config.batch_tokens * _step_flops(config, vocabulary, 0))
    return float(sum(config.batch_tokens * _step_flops(config, vocabulary, step) for step in range(steps)))


def run_flops(config: RunConfig) -> int:
    """Training FLOPs of a run, near enough to plan with: what was asked for, with r at its mean.

    Reads the size of the vocabulary from a tokenizer's file, where there is one.
    """
    if config.budget is not None:
        return round(config.budget)
    assert config.num_tokens is not None
    vocabulary = config.data.tokenizer.size
    return round(config.num_tokens * total(training_flops(config.model, config.data.context, vocabulary)))


def memory_bytes(config: RunConfig) -> int:
    """Estimated memory of a training step, in bytes.

    Parameters with two moments before and after the step, gradients; of every executed layer what the
    backward pass needs (with `rematerialise`: its input, and of one layer all), and logits with gradient; or
    the logits of a validation, if they take more than that. Of sampled recurrences, as many as there can be.
    """
    model, data = config.model, config.data
    vocabulary = data.tokenizer.size
    weights = 4 * 7 * count_params(model, vocabulary).num_total
    tokens = config.batch_tokens // config.accumulation
    heads = model.width // model.head_size
    entry = 4 if config.precision == "float32" else 2
    layer = entry * tokens * (ACTIVATIONS * model.width + 3 * heads * data.context)
    most = model.num_recur if model.sampled is None else model.sampled.most
    kept = model.prelude + model.coda + min(most, model.backprop_recurrences or most) * model.block
    # Of one layer twice: what is computed again, and its gradient.
    states = entry * tokens * model.width * kept + 2 * layer if config.rematerialise else layer * kept
    validation = 2 * 4 * config.evaluation.batch * data.context * padded(vocabulary)
    return weights + max(states + 4 * 4 * tokens * padded(vocabulary), validation)
