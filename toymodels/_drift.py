"""Weights that drift along depth: a stationary Ornstein–Uhlenbeck process, exactly and as an SDE.

Depth is a time t ∈ [0, 1] from the first layer to the end of the last, and λ (`length`) is the correlation
length in units of the whole depth. Each weight is a process of its own, normal with mean 0 and variance σ² at
every t, with covariance σ² exp(−|t − s|/λ) between t and s:

    dw = −w dt/λ + σ √(2/λ) dB,   w(0) ~ N(0, σ²).

λ = ∞ keeps w(0) for ever; as λ → 0, w(t) and w(s) become independent for t ≠ s.
"""

import math
from typing import Any, TypeVar

import diffrax
import jax
import jax.numpy as jnp
import lineax
from jaxtyping import Array, PRNGKeyArray, PyTree

T = TypeVar("T", bound=PyTree)

STEPS_A_LENGTH = 8
"""An SDE's path has at least so many steps in a correlation length: its variance is then right to 3e-3."""


def correlation(distance: float, length: float) -> float:
    """Of a weight with itself at this distance along depth: exp(−distance/length); 1 at 0, whatever λ is."""
    if distance == 0:
        return 1.0
    return 0.0 if length == 0 else math.exp(-distance / length)


def exact_drift(start: T, noise: T, length: float) -> T:
    """The process at t = l/ℓ*, l = 0 … ℓ* − 1, in its exact discrete form.

    w_0 = `start`, w_l = ρ·w_{l−1} + √(1 − ρ²)·ξ_l with ρ = exp(−1/(ℓ*·λ)). `start` and `noise` ξ are pytrees
    of independent N(0, σ²) weights, with leading axes 1 and ℓ*; ξ_0 is not used.
    """
    depth = jax.tree.leaves(noise)[0].shape[0]
    rho = correlation(1 / depth, length)
    # √(1 − ρ²), which keeps its digits where ρ is near 1.
    fresh = 1.0 if length == 0 else math.sqrt(-math.expm1(-2 / depth / length))

    def step(weights: T, xi: T) -> tuple[T, T]:
        after = jax.tree.map(lambda w, x: rho * w + fresh * x, weights, xi)
        return after, after

    first = jax.tree.map(lambda w: w[0], start)
    _, later = jax.lax.scan(step, first, jax.tree.map(lambda x: x[1:], noise))
    return jax.tree.map(lambda w, rest: jnp.concatenate([w, rest]), start, later)


def drift_path(key: PRNGKeyArray, start: T, spread: T, length: float, resolution: int) -> T:
    """One path of the process at t = k/`resolution`, k = 0 … `resolution`, along the leading axis.

    The SDE solved by diffrax on a virtual Brownian tree, with ShARK, which is of strong order 1.5 for
    additive noise. `start` holds w(0) and `spread` σ, with a leading axis of 1. The same key gives the same
    path, so networks that read it at every point and at every second one share weights.

    Raises ValueError where the steps are too long (`check_resolution`).
    """
    check_resolution(length, resolution)
    if math.isinf(length):
        return jax.tree.map(lambda w: jnp.repeat(w, resolution + 1, axis=0), start)
    first, sigma = (jax.tree.map(lambda w: w[0], tree) for tree in (start, spread))
    structure = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, w.dtype), first)
    noise = diffrax.VirtualBrownianTree(
        0.0, 1.0, tol=1 / (4 * resolution), shape=structure, key=key, levy_area=diffrax.SpaceTimeLevyArea
    )

    solution = diffrax.diffeqsolve(
        diffrax.MultiTerm(
            diffrax.ODETerm(_pull),
            diffrax.ControlTerm(_spread, noise),
        ),
        diffrax.ShARK(),
        t0=0.0,
        t1=1.0,
        dt0=None,
        y0=first,
        args=(jnp.asarray(length), sigma),
        # The steps are the path's own points, so that what is read is never between two of them.
        stepsize_controller=diffrax.StepTo(ts=jnp.linspace(0, 1, resolution + 1)),
        saveat=diffrax.SaveAt(t0=True, steps=True),
        max_steps=resolution,
    )
    assert solution.ys is not None
    return solution.ys


# Named functions, since a new lambda at every call would be compiled at every call.
def _pull(_time: Any, weights: T, args: tuple[Array, T]) -> T:
    return jax.tree.map(lambda w: -w / args[0], weights)


def _spread(_time: Any, _weights: T, args: tuple[Array, T]) -> lineax.DiagonalLinearOperator:
    length, sigma = args
    return lineax.DiagonalLinearOperator(jax.tree.map(lambda s: s * jnp.sqrt(2 / length), sigma))


def check_resolution(length: float, resolution: int) -> None:
    """Raise ValueError where a path has fewer than `STEPS_A_LENGTH` steps in a correlation length."""
    if not resolution * length >= STEPS_A_LENGTH:
        raise ValueError(
            f"length is {length}: a path of {resolution} steps resolves lengths from "
            f"{STEPS_A_LENGTH / resolution} up; raise resolution, or leave it out for the exact form"
        )
