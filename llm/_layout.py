"""How a run is laid out over devices: batches divided, parameters copied or divided (FSDP).

One process drives all devices of its host; over several hosts, each runs the same program after
`jax.distributed.initialize`, and the devices of all of them are one row.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from llm._accounting import memory_bytes
from llm._config import RunConfig

MEMORY_SHARE = 0.8

LEAST_DIVIDED = 2**12
"""Entries from which an array is divided."""


@dataclass(frozen=True)
class Layout:
    """devices: how many share each batch. divided: whether they share parameters and moments too."""

    devices: int = 1
    divided: bool = False

    @classmethod
    def choose(cls, config: RunConfig) -> "Layout":
        """As many of JAX's devices as divide a batch; parameters divided where one device cannot hold them.

        One holds them where `llm.memory_bytes` stays below `MEMORY_SHARE` of what it reports to have. Warns
        of devices that are left without work; raises ValueError where a host would be.
        """
        every, part = len(jax.devices()), config.batch // config.accumulation
        devices = math.gcd(every, part)
        if devices < every:
            told = f"batch / accumulation is {part}: it must be a multiple of the {every} devices"
            if jax.process_count() > 1:
                raise ValueError(told)
            warnings.warn(f"{told} for all of them to work; {devices} of them will", stacklevel=2)
        limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
        return cls(devices, limit is not None and memory_bytes(config) > MEMORY_SHARE * limit)

    @classmethod
    def of(cls, model: Any) -> "Layout":
        """Over the devices that the first array of a model is on."""
        sharding = getattr(jax.tree.leaves(model)[0], "sharding", None)
        return cls(1 if sharding is None else len(sharding.device_set))

    @property
    def mesh(self) -> Mesh:
        """The devices, in a row. Raises ValueError where there are not so many."""
        if self.devices > len(jax.devices()):
            raise ValueError(f"devices is {self.devices}: there are {len(jax.devices())}")
        return Mesh(np.array(jax.devices()[: self.devices]), ("batch",))

    @property
    def spans_processes(self) -> bool:
        """Whether other processes have a part in it."""
        return not self.copied.is_fully_addressable

    def of_tokens(self, axis: int) -> NamedSharding:
        """Of an array whose `axis` counts sequences."""
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, "batch"))

    def of_state(self, tree: Any) -> Any:
        """Of parameters and moments: along the longest axis that can be divided, or copied."""
        mesh = self.mesh

        def of_leaf(leaf: Any) -> NamedSharding:
            spec: list[str | None] = [None] * leaf.ndim
            axes = [axis for axis, length in enumerate(leaf.shape) if length % self.devices == 0]
            if self.divided and self.devices > 1 and axes and leaf.size >= LEAST_DIVIDED:
                spec[max(axes, key=lambda axis: leaf.shape[axis])] = "batch"
            return NamedSharding(mesh, PartitionSpec(*spec))

        return jax.tree.map(of_leaf, tree)

    @property
    def copied(self) -> NamedSharding:
        """Of what every device has whole."""
        return NamedSharding(self.mesh, PartitionSpec())

    def place(self, tokens: np.ndarray, axis: int) -> jax.Array:
        """Tokens that every process has whole, divided over the devices along `axis`."""
        sharding = self.of_tokens(axis)
        return jax.make_array_from_callback(tokens.shape, sharding, lambda index: tokens[index])

    def restore(self, tree: Any, like: Any) -> Any:
        """Arrays that every process has whole, laid out as `like`."""

        def of_leaf(value: np.ndarray, leaf: jax.Array) -> jax.Array:
            return jax.make_array_from_callback(value.shape, leaf.sharding, lambda index: value[index])

        return jax.tree.map(of_leaf, tree, like)


def whole(leaf: jax.Array) -> np.ndarray:
    """A copy of an array, wherever its parts are."""
    if not leaf.is_fully_addressable and not leaf.is_fully_replicated:
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
    return np.array(leaf)
