"""A probe under way: what it has seen so far, in memory that does not grow, and as arrays to go on from.

Symbols: batch B, positions T, rows R (see `_measures`), groups of tokens G.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np

from llm._rules import require
from llm.probe._lens import Lens
from llm.probe._measures import Rows, measure
from llm.probe._model import LanguageModel, State
from llm.probe._source import Batch
from llm.probe._statistics import Histogram, Moments, Sample, Scale

GROUPS = ("tokens", "first", "massive")
"""first: the first tokens of sequences; massive: others with a massive activation; tokens: all the rest."""

SAMPLED = ("step_angle", "bulk_step", "bulk_update_angle", "stop", "independent_updates")
"""Measures that the sample of tokens keeps."""


@dataclass(frozen=True)
class ProbeConfig:
    """How a probe measures.

    skip_first: tokens at the beginning of each sequence that are told apart. keep_massive: tokens with
    massive activations are not told apart. lens_every: one sequence in so many is read out along depth; None:
    none. sample: tokens whose angles are kept for clusters. seed: of the sample.
    """

    skip_first: int = 1
    keep_massive: bool = False
    lens_every: int | None = 16
    sample: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.skip_first >= 0, "skip_first", self.skip_first, "must be at least 0")
        every = self.lens_every
        require(every is None or every >= 1, "lens_every", every, "must be at least 1, or None")
        require(self.sample >= 1, "sample", self.sample, "must be at least 1")
        require(0 <= self.seed < 2**64, "seed", self.seed, "must lie in [0, 2^64)")


@final
class Accumulated:
    """What was seen of sequences 0 … `done` − 1.

    moments: by group. histogram: of the group `tokens`. sequences: of the means of that group over each
    sequence. Networks that no model reads out have an empty lens.
    """

    def __init__(self, states: Sequence[State], config: ProbeConfig) -> None:
        self.rows, self.config = Rows(states), config
        self.done = self.seen = 0
        self.moments = {group: Moments(self.rows.count) for group in GROUPS}
        self.sequences = Moments(self.rows.count)
        self.histogram = Histogram(Scale(self.rows.low, self.rows.high, self.rows.log))
        self.sampled = np.concatenate([np.arange(self.rows.count)[self.rows.slices[n]] for n in SAMPLED])
        self.sample = Sample(config.sample, len(self.sampled), config.seed)
        self.lens = None if config.lens_every is None else Lens(len(self.rows.states))

    def add(self, batch: Batch, model: LanguageModel | None = None) -> None:
        """A batch; its last sequences may be empty. model: reads states out, for the lens."""
        config, lengths = self.config, batch.lengths
        states = jnp.asarray(batch.states)
        found = measure(self.rows, states)
        sequences = int(np.sum(lengths > 0))
        values, massive = np.asarray(found.values), np.asarray(found.massive)
        places = np.arange(values.shape[2])
        real = places < lengths[:, None]
        early = real & (places < config.skip_first)
        apart = real & massive & ~early if not config.keep_massive else np.zeros_like(real)
        main = real & ~early & ~apart
        flat = values.reshape(len(values), -1)
        for group, members in zip(GROUPS, (main, early, apart), strict=True):
            chosen = members.ravel()
            if chosen.any():
                self.moments[group].add(flat[:, chosen] if not chosen.all() else flat)
        self.histogram.add(flat, main.ravel())
        for row in range(sequences):
            if main[row].any():
                self.sequences.add(_mean(values[:, row, main[row]]))
        numbers = [self.sample.priorities(batch.first + row, len(places)) for row in range(sequences)]
        numbers += [np.zeros(len(places), np.uint64)] * (len(lengths) - sequences)
        self.sample.add(flat[self.sampled], np.concatenate(numbers), main.ravel())
        if self.lens is not None and model is not None and batch.tokens is not None:
            assert config.lens_every is not None
            for row in range(sequences):
                if (batch.first + row) % config.lens_every == 0:
                    tokens, length = batch.tokens[row], int(lengths[row])
                    self.lens.add(model, states[:, row], tokens, length, config.skip_first)
        self.done = batch.first + sequences
        self.seen += int(real.sum())

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, by name."""
        found: dict[str, np.ndarray] = {"done": np.array([self.done, self.seen])}
        for name, moments in self._moments().items():
            found |= {f"{name}.{part}": getattr(moments, part) for part in ("count", "mean", "squares")}
        found |= {f"histogram.{part}": getattr(self.histogram, part) for part in ("counts", "least", "most")}
        found |= {f"sample.{part}": getattr(self.sample, part) for part in ("numbers", "values")}
        if self.lens is not None:
            found["lens.settled"] = self.lens.settled
        return found

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from `arrays()`. Raises ValueError where they are those of another probe."""
        own = self.arrays()
        for name, array in own.items():
            there = arrays.get(name)
            fits = there is not None and there.dtype == array.dtype
            fits = fits and (name.startswith("sample") or there.shape == array.shape)  # type: ignore[union-attr]
            if not fits:
                raise ValueError(f"{name}: the arrays are those of another probe")
        self.done, self.seen = (int(value) for value in arrays["done"])
        for name, moments in self._moments().items():
            for part in ("count", "mean", "squares"):
                setattr(moments, part, arrays[f"{name}.{part}"].copy())
        for part in ("counts", "least", "most"):
            setattr(self.histogram, part, arrays[f"histogram.{part}"].copy())
        for part in ("numbers", "values"):
            setattr(self.sample, part, arrays[f"sample.{part}"].copy())
        if self.lens is not None:
            self.lens.settled = arrays["lens.settled"].copy()

    def _moments(self) -> dict[str, Moments]:
        found = {**self.moments, "sequences": self.sequences}
        if self.lens is not None:
            found |= {"lens.head": self.lens.head, "lens.layer": self.lens.layer}
        return found


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over tokens of each row, (R, 1); NaN where none is finite."""
    real = np.isfinite(values)
    count = real.sum(axis=1, keepdims=True)
    total = np.where(real, values, 0.0).sum(axis=1, keepdims=True, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
