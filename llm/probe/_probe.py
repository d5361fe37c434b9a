"""A probe: from a source to what its hidden states say.

Symbols: states S, layers ℓ, rows R (see `_measures`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from llm.probe._accumulate import GROUPS, SAMPLED, Accumulated, ProbeConfig
from llm.probe._clusters import Clusters, clusters
from llm.probe._lens import Reading
from llm.probe._measures import MEASURES, Rows
from llm.probe._model import State
from llm.probe._source import Source

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Summary(NamedTuple):
    """A measure at every state, step, pair of layers or lag, or of whole tokens (one entry).

    mean and deviation are over tokens; standard_error: of that mean, from documents, since tokens of one have
    much in common; documents: how many gave a value. quantiles: 5, 25, 50, 75 and 95 %, the last axis.
    """

    mean: Float[np.ndarray, " n"]
    deviation: Float[np.ndarray, " n"]
    standard_error: Float[np.ndarray, " n"]
    documents: Float[np.ndarray, " n"]
    quantiles: Float[np.ndarray, "n 5"]


@dataclass(frozen=True)
class Probe:
    """What the hidden states of a network say.

    measures: of all tokens but those told apart, by name (`MEASURES`). apart: how many tokens are in each of
    the other groups, and mean norms of their states. head, layer: cross-entropy along depth (`Lens`);
    settled: share of tokens whose first choice is final from each state on. clusters: of the sample's step
    angles; sampled: its measures, by name, (n, …).
    """

    states: tuple[State, ...]
    config: ProbeConfig
    sequences: int
    tokens: int
    measures: dict[str, Summary]
    apart: dict[str, int]
    apart_norms: dict[str, Float[np.ndarray, " S"]]
    clusters: Clusters
    sampled: dict[str, Float[np.ndarray, "n ..."]]
    head: Reading | None
    layer: Reading | None
    settled: Float[np.ndarray, " S"] | None

    @property
    def layers(self) -> list[int]:
        """The steps that are layers."""
        return Rows(self.states).layers

    @property
    def depth(self) -> int:
        """ℓ."""
        return len(self.layers)

    @property
    def bulk(self) -> range:
        """The layers of the middle half."""
        return Rows(self.states).bulk

    def scalar(self, name: str) -> "Scalar":
        """A measure of whole tokens."""
        summary = self.measures[name]
        return Scalar(*(float(part[0]) for part in (summary.mean, summary.standard_error, summary.documents)))


class Scalar(NamedTuple):
    """Mean over tokens, its standard error, and how many documents it rests on."""

    mean: float
    standard_error: float
    documents: float


class ProbeProgress(NamedTuple):
    """sequences of `of` (None: unknown) are done; arrays(): what to give as `resume`."""

    sequences: int
    of: int | None
    tokens: int
    arrays: Callable[[], dict[str, np.ndarray]]


def probe(
    source: Source,
    config: ProbeConfig | None = None,
    *,
    resume: dict[str, np.ndarray] | None = None,
    on_progress: Callable[[ProbeProgress], None] = lambda progress: None,
) -> Probe:
    """Measure every token that a source has.

    resume: go on from where a probe of the same source and config stood. Memory does not grow with the number
    of tokens. Raises ValueError: a `resume` of another probe; no tokens left to measure.
    """
    seen = Accumulated(source.states, config or ProbeConfig())
    if resume is not None:
        seen.restore(resume)
    for batch in source.batches(seen.done):
        seen.add(batch, source.model)
        on_progress(ProbeProgress(seen.done, source.sequences, seen.seen, seen.arrays))
    return result(seen)


def result(seen: Accumulated) -> Probe:
    """What was seen, summed up. Raises ValueError where no token is left to measure."""
    rows, moments = seen.rows, seen.moments["tokens"]
    if not moments.count.any():
        told = f"none of the {seen.seen} tokens is left to measure"
        raise ValueError(f"{told}: give longer texts, or lower skip_first ({seen.config.skip_first})")
    quantiles, ratios = seen.histogram.quantiles(np.array(QUANTILES)), seen.ratios()
    mean = np.where(moments.count > 0, moments.mean, np.nan)
    summaries = {
        measure.name: Summary(
            mean[part := rows.slices[measure.name]],
            moments.deviation[part],
            ratios.standard_error[part],
            ratios.clusters[part],
            quantiles[:, part].T,
        )
        for measure in MEASURES
    }
    sampled = _sampled(seen)
    lens = seen.lens
    read = lens is not None and lens.head.n.any()
    return Probe(
        states=rows.states,
        config=seen.config,
        sequences=seen.done,
        tokens=int(seen.moments["tokens"].count.max()),
        measures=summaries,
        apart={group: int(seen.moments[group].count.max()) for group in GROUPS[1:]},
        apart_norms={
            group: seen.moments[group].mean[rows.slices["norm"]]
            for group in GROUPS[1:]
            if seen.moments[group].count.any()
        },
        clusters=clusters(sampled["step_angle"][:, np.array(rows.layers)]),
        sampled=sampled,
        head=Reading(lens.head.mean, lens.head.standard_error) if lens is not None and read else None,
        layer=Reading(lens.layer.mean, lens.layer.standard_error) if lens is not None and read else None,
        settled=np.cumsum(lens.settled) / lens.settled.sum() if lens is not None and read else None,
    )


def _sampled(seen: Accumulated) -> dict[str, np.ndarray]:
    found = {}
    order = np.argsort(seen.sample.numbers, kind="stable")
    for name in SAMPLED:
        part = seen.rows.slices[name]
        rows: Int[np.ndarray, " some"] = np.flatnonzero(
            (seen.sampled >= part.start) & (seen.sampled < part.stop)
        )
        values = seen.sample.values[rows][:, order].T
        found[name] = values if part.stop - part.start > 1 else values[:, 0]  # of whole tokens: one row
    return found
