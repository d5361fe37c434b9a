"""The fastest matrix product of the machine at hand, to compare a training with."""

import functools
import time

import jax
import jax.numpy as jnp

from llm._products import precise

SIZES = {"cpu": 1024, "gpu": 8192}


@functools.cache
def peak_flops(precision: str = "float32") -> float:
    """FLOPs a second of one device in a large square matrix product of this type, measured once a process.

    The median of a few products, so that what else the machine does at that moment counts little.
    """
    n = SIZES.get(jax.default_backend(), 4096)
    a = jnp.ones((n, n), precision)
    with precise(precision):
        product = jax.jit(jnp.matmul)
        product(a, a).block_until_ready()
        times = []
        for _ in range(7):
            began = time.perf_counter()
            product(a, a).block_until_ready()
            times.append(time.perf_counter() - began)
    return 2.0 * n**3 / sorted(times)[len(times) // 2]
