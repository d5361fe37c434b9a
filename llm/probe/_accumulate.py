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
from llm.probe._statistics import Histogram, Moments, Ratios, Sample, Scale, Summed, summed

GROUPS = ("tokens", "first", "massive", "not_finite")
"""first: the first tokens of sequences; massive: others with a massive activation; not_finite: others with a
state that is not; tokens: all the rest."""

SAMPLED = ("step_angle", "bulk_step", "bulk_update_angle", "stop", "independent_updates")
"""Measures that the sample of tokens keeps."""


@dataclass(frozen=True)
class ProbeConfig:
    """How a probe measures.

    skip_first: tokens at the beginning of each sequence that are told apart. keep_massive: tokens with
    massive activations are not told apart. lens_every: one sequence in so many is read out along depth; None:
    none. sample: tokens whose angles are kept for clusters. seed: of the sample.

    Raises ValueError for numbers out of range.
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

    moments: by group. histogram, documents: of the group `tokens`; documents: sums over each. open: the
    document that may go on, with its sums so far. Networks that no model reads out have an empty lens.
    """

    def __init__(self, states: Sequence[State], config: ProbeConfig) -> None:
        self.rows, self.config = Rows(states), config
        count = self.rows.count
        self.done = self.seen = 0
        self.open, self.open_x, self.open_n = -1, np.zeros(count), np.zeros(count)
        self.moments = {group: Moments(count) for group in GROUPS}
        self.documents = Ratios(count)
        self.histogram = Histogram(Scale(self.rows.low, self.rows.high, self.rows.log))
        self.sampled = np.concatenate([np.arange(count)[self.rows.slices[name]] for name in SAMPLED])
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
        broken = real & ~early & ~np.isfinite(values[self.rows.slices["norm"]]).all(axis=0)
        apart = real & massive & ~early & ~broken if not config.keep_massive else np.zeros_like(real)
        main = real & ~early & ~broken & ~apart
        flat = values.reshape(len(values), -1)
        for group, members in zip(GROUPS, (main, early, apart, broken), strict=True):
            if members.any():
                part = Summed(*map(np.asarray, summed(found.values, members, self.histogram.scale)))
                self.moments[group].add(part.count, part.mean, part.squares)
                if group == "tokens":
                    self.histogram.add(part.bins, part.least, part.most)
                    self._add_documents(batch, part, sequences)
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

    def _add_documents(self, batch: Batch, part: Summed, sequences: int) -> None:
        """Sums of each sequence, which are of its document; a document ends where another begins."""
        n = np.asarray(part.count, np.float64)
        x = n * part.mean
        for row in range(sequences):
            document = batch.first + row if batch.documents is None else int(batch.documents[row])
            if document != self.open:
                self.documents.add(self.open_x, self.open_n)
                self.open, self.open_x, self.open_n = document, 0 * self.open_x, 0 * self.open_n
            self.open_x += x[:, row]
            self.open_n += n[:, row]

    def ratios(self) -> Ratios:
        """Of all documents, the one that may go on among them."""
        every = Ratios(self.rows.count)
        for part in RATIO_PARTS:
            setattr(every, part, getattr(self.documents, part).copy())
        every.add(self.open_x, self.open_n)
        return every

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, by name."""
        return {name: np.asarray(getattr(of, part)) for name, of, part in self._parts()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from `arrays()`. Raises ValueError where they are those of another probe."""
        for name, of, part in self._parts():
            own, there = np.asarray(getattr(of, part)), arrays.get(name)
            # The sample grows up to its size, along its last axis; all else has its shape from the start.
            along = own.ndim - 1 if name.startswith("sample") else own.ndim
            if there is None or there.dtype != own.dtype or there.shape[:along] != own.shape[:along]:
                raise ValueError(f"{name}: the arrays are those of another probe")
        for name, of, part in self._parts():
            array = arrays[name]
            setattr(of, part, array.copy() if array.ndim else int(array))

    def _parts(self) -> list[tuple[str, object, str]]:
        """Name, holder and attribute of all that is kept."""
        found: list[tuple[str, object, str]] = [
            (name, self, name) for name in ("done", "seen", "open", "open_x", "open_n")
        ]
        for group, moments in self.moments.items():
            found += [(f"{group}.{part}", moments, part) for part in ("count", "mean", "squares")]
        ratios = {"documents": self.documents}
        if self.lens is not None:
            ratios |= {"lens.head": self.lens.head, "lens.layer": self.lens.layer}
            found.append(("lens.settled", self.lens, "settled"))
        for name, ratio in ratios.items():
            found += [(f"{name}.{part}", ratio, part) for part in RATIO_PARTS]
        found += [(f"histogram.{part}", self.histogram, part) for part in ("counts", "least", "most")]
        return found + [(f"sample.{part}", self.sample, part) for part in ("numbers", "values")]


RATIO_PARTS = ("clusters", "x", "n", "xx", "xn", "nn")
