"""How many recurrences a training step has, and how many of them keep gradients."""

from typing import NamedTuple

import numpy as np

from llm._config import ModelConfig

PURPOSE = 2**62
"""Beside the seed: no other stream of numbers has it, those of epochs have small ones."""


class Recurrences(NamedTuple):
    """Of one step: `detached` without gradient, then `kept` with."""

    detached: int
    kept: int


def recurrences(config: ModelConfig, seed: int, step: int) -> Recurrences:
    """Those of a step: a pure function of its arguments.

    r = num_recur, or with `sampled` 1 + Poisson((num_recur − 1)·exp(τ)), τ ~ N(−spread²/2, spread²), at most
    `sampled.most`. The last `backprop_recurrences` are kept.
    """
    r = config.num_recur
    if config.sampled is not None:
        rng = np.random.Generator(np.random.Philox(key=[seed, PURPOSE], counter=[0, 0, 0, step]))
        spread = config.sampled.spread
        mean = (config.num_recur - 1) * np.exp(spread * rng.standard_normal() - spread**2 / 2)
        r = min(1 + int(rng.poisson(mean)), config.sampled.most)
    kept = min(r, config.backprop_recurrences or r)
    return Recurrences(r - kept, kept)
