"""Trained networks as arrays by name, and back."""

from typing import Any

import numpy as np


def to_arrays(network: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a pytree, numbered in its order, under `prefix`."""
    import jax

    return {f"{prefix}{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(network))}


def from_arrays(like: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """The pytree of the structure and shapes of `like`, with the arrays that `to_arrays` named.

    Raises ValueError where they are those of another network.
    """
    import jax
    import jax.numpy as jnp

    leaves, structure = jax.tree.flatten(like)
    found = [arrays.get(f"{prefix}{i:04d}") for i in range(len(leaves))]
    for array, leaf in zip(found, leaves, strict=True):
        if array is None or (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            raise ValueError("the arrays are those of another network: their number, shapes or types differ")
    return jax.tree.unflatten(structure, [jnp.asarray(array) for array in found])
