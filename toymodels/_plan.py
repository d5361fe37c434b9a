"""How a cohort is run on the machine at hand: chosen by rules, each backed by a benchmark.

The rules (figures: tests/benchmarks/README.md):
- CPU: replicates (seeds, temperatures) one after another. XLA runs a batch of small matrix products slower
  than the same products in turn.
- GPU: replicates vmapped, so that one kernel serves them all.
- Several devices: seeds are divided over them, then temperatures, which never wait for each other. What is
  left of them shares each batch, if a step is at least `SHARED_FLOPS`: all draw the same inputs, each takes
  its part, and gradients are averaged.
- Over the memory limit: the cohort is split by seeds, then temperatures, then depths, and the parts run
  one after another. Keys depend on seed and depth alone, so every student sees what it would have seen.
"""

import dataclasses
import math
import os
from dataclasses import dataclass

import jax

from toymodels._accounting import memory_bytes, step_flops
from toymodels._config import CohortConfig
from toymodels._objectives import KL

MEMORY_SHARE = 0.8
"""Of the memory that the device reports, how much a cohort may take."""


SHARED_FLOPS = 10**9
"""FLOPs of a training step from which its batch is split over devices."""


@dataclass(frozen=True)
class Plan:
    """How to run a cohort.

    vmapped: replicates side by side (True) or one after another. seeds, temperatures, batch: over how many
    devices each of these is divided; their product is the number of devices. unroll: layers written out per
    step of the loop over depth.
    """

    vmapped: bool
    seeds: int = 1
    temperatures: int = 1
    batch: int = 1
    unroll: int = 1

    @classmethod
    def choose(cls, config: CohortConfig) -> "Plan":
        """The plan for JAX's default devices."""
        local = jax.local_devices()
        seeds = math.gcd(len(local), len(config.seeds))
        temperatures = math.gcd(len(local) // seeds, len(config.temperatures))
        left = len(local) // (seeds * temperatures)
        even = config.batch % left == 0 and config.evaluation.batch % left == 0
        batch = left if even and worth_sharing(config) else 1
        return cls(local[0].platform != "cpu", seeds, temperatures, batch)

    @property
    def devices(self) -> int:
        """How many devices it uses."""
        return self.seeds * self.temperatures * self.batch


def worth_sharing(config: CohortConfig) -> bool:
    """Whether a step is long enough for several devices: below `SHARED_FLOPS` they wait for each other."""
    return step_flops(config) >= SHARED_FLOPS


def memory_limit() -> int:
    """Bytes that a cohort may use: `MEMORY_SHARE` of the device's memory, or of the machine's for a CPU."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(MEMORY_SHARE * stats["bytes_limit"])
    return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def split(config: CohortConfig, vmapped: bool, limit: int) -> list[CohortConfig]:
    """The cohort in parts that each need at most `limit` bytes by `memory_bytes`.

    Raises ValueError when a single student does not fit.
    """
    needed = memory_bytes(config, vmapped)
    if needed <= limit:
        return [config]
    halves = _halves(config)
    if halves is None:
        raise ValueError(
            f"a single student of depth {config.depths[0]} needs about {needed / 2**20:.0f} MiB and "
            f"{limit / 2**20:.0f} MiB may be used: lower batch, width or depth"
        )
    return [part for half in halves for part in split(half, vmapped, limit)]


def _halves(config: CohortConfig) -> list[CohortConfig] | None:
    objective = config.objective
    if len(config.seeds) > 1:
        middle = len(config.seeds) // 2
        return [
            dataclasses.replace(config, seeds=part) for part in (config.seeds[:middle], config.seeds[middle:])
        ]
    if isinstance(objective, KL) and len(objective.temperatures) > 1:
        middle = len(objective.temperatures) // 2
        parts = (objective.temperatures[:middle], objective.temperatures[middle:])
        return [
            dataclasses.replace(config, objective=dataclasses.replace(objective, temperatures=part))
            for part in parts
        ]
    if len(config.depths) > 1:
        # The deepest alone: it is what decides.
        deepest = max(config.depths)
        others = tuple(depth for depth in config.depths if depth != deepest)
        return [dataclasses.replace(config, depths=part) for part in ((deepest,), others)]
    return None
