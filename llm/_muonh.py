"""MuonH: matrices that turn on a sphere, in directions whose singular values are all near one.

W is one matrix (in × out); an array of more axes is a stack of them, and every matrix of a stack has its own
norm R = ‖W_0‖_F, its own direction and its own step. An update with gradient G and rate η is

    M ← μ·M + (1 − μ)·G                   momentum
    V = μ·M + (1 − μ)·G                   Nesterov's look-ahead
    U = polar(V)                          five steps of Polar Express (arXiv:2505.16932)
    W' = W − η·R·U/‖U‖_F,  W ← R·W'/‖W'‖_F

so η is the length of a step in units of the matrix's own norm (arXiv:2604.21106, section on training).

Why not `optax.contrib.scale_by_muon`: it divides M by 1 − μ^(t+2) and G by 1 − μ^(t+1), which weighs the two
differently in the first 1/(1 − μ) updates, and it adds 1e-8 to ‖V‖, so that steps shrink with small
gradients. It is no faster.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

COEFFICIENTS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
"""(a, b, c) of x ← a·x + b·x³ + c·x⁵, one row a step (arXiv:2505.16932, five steps)."""

STEPS = len(COEFFICIENTS)

SAFETY = 1.02
"""V starts at ‖V‖_F = 1/SAFETY: rounding must not push a singular value out of the polynomials' interval."""


class MuonHState(NamedTuple):
    """step: updates done. momentum: M, like the parameters. norm: R of every matrix (the leading axes)."""

    step: Array
    momentum: Any
    norm: Any


@jax.jit
def frobenius(x: Float[Array, "*stack in out"]) -> Float[Array, "*stack"]:
    """‖x‖_F of every matrix of the stack; neither over- nor underflows in the squares."""
    peak = jnp.max(jnp.abs(x), axis=(-2, -1))
    scaled = x / jnp.where(peak == 0, 1, peak)[..., None, None]
    # Rows first: one sum over all entries would lose digits of a large matrix.
    return peak * jnp.sqrt(jnp.sum(jnp.sum(scaled**2, axis=-1), axis=-1))


def polar(x: Float[Array, "*stack in out"], steps: int = STEPS) -> Float[Array, "*stack in out"]:
    """Every matrix with its singular vectors, and its singular values σ mapped to p(σ/(1.02·‖x‖_F)).

    p is the composition of the first `steps` polynomials of `COEFFICIENTS`. After all five, p lies in
    [0.846, 1.142] for σ ≥ 0.001·‖x‖_F, and falls as 970·σ/‖x‖_F below. A zero matrix stays zero.

    Raises ValueError: `steps` beyond the table.
    """
    if not 1 <= steps <= STEPS:
        raise ValueError(f"steps is {steps}: it must lie in 1 to {STEPS}, the steps that have coefficients")
    norm = frobenius(x)[..., None, None]
    x = x / (SAFETY * jnp.where(norm == 0, 1, norm))
    tall = x.shape[-2] > x.shape[-1]
    x = jnp.swapaxes(x, -2, -1) if tall else x  # the smaller side is squared
    # p(x) = q(xxᵀ)·x could be had from xxᵀ alone. On a CPU that takes 0.55 of the time where one side is four
    # times the other, but 1.2 of it where they are equal, and errors grow from 1e-5 to 1e-3 of the result.
    for a, b, c in COEFFICIENTS[:steps]:
        gram = x @ jnp.swapaxes(x, -2, -1)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return jnp.swapaxes(x, -2, -1) if tall else x


def muonh(
    learning_rate: optax.ScalarOrSchedule, momentum: float = 0.95, steps: int = STEPS
) -> optax.GradientTransformation:
    """MuonH for a tree of matrices and stacks of matrices, by the module's equations.

    learning_rate: η, or a schedule of it (updates done → η). momentum: μ. steps: of Polar Express.

    The update is (new W) − W, so that `optax.apply_updates` puts W on its sphere; it needs the parameters. A
    matrix whose V is zero keeps its values. A gradient that is not finite makes its matrix not finite.

    Raises ValueError in `init`: a parameter of fewer than two axes, or a matrix of norm zero, which has no
    sphere to move on (under `jax.jit`, where values cannot be looked at, such a matrix stays zero instead).
    """

    def init(params: Any) -> MuonHState:
        jax.tree_util.tree_map_with_path(_require_matrix, params)
        norm = jax.tree.map(frobenius, params)
        jax.tree_util.tree_map_with_path(_require_norm, norm)
        return MuonHState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), norm)

    def update(grads: Any, state: MuonHState, params: Any = None) -> tuple[Any, MuonHState]:
        if params is None:
            raise ValueError(
                "params is None: MuonH projects them; pass them, as update(grads, state, params)"
            )
        rate = learning_rate(state.step) if callable(learning_rate) else learning_rate

        def average(m: Array, g: Array) -> Array:
            return momentum * m + (1 - momentum) * g

        buffer = jax.tree.map(average, state.momentum, grads)
        ahead = jax.tree.map(average, buffer, grads)
        updates = _alike(lambda v, w, r: _turn(w, polar(v, steps), r, rate), ahead, params, state.norm)
        return updates, MuonHState(optax.safe_increment(state.step), buffer, state.norm)

    return optax.GradientTransformation(init, update)


def _alike(function: Callable[..., Array], *trees: Any) -> Any:
    """`function` of the leaves of trees of one structure, matrices or a number each; once for each shape.

    A model has few shapes and many arrays: one stack for each shape, tall ones turned, is much less to
    compile and fills a device better.
    """
    leaves, structure = jax.tree.flatten(trees[0])
    others = [jax.tree.leaves(tree) for tree in trees[1:]]
    shapes: dict[tuple[int, int], list[int]] = {}
    for i, leaf in enumerate(leaves):
        shapes.setdefault((min(leaf.shape[-2:]), max(leaf.shape[-2:])), []).append(i)
    results: list[Any] = [None] * len(leaves)
    for members in shapes.values():
        tall = [leaves[i].shape[-2] > leaves[i].shape[-1] for i in members]

        def stacked(values: list[Array], members: list[int] = members, tall: list[bool] = tall) -> Array:
            parts = []
            for i, turned in zip(members, tall, strict=True):
                value, like = values[i], leaves[i]
                matrix = like.shape[-2:] if value.ndim == like.ndim else ()
                value = value.reshape(-1, *matrix)
                parts.append(jnp.swapaxes(value, 1, 2) if turned and matrix else value)
            return jnp.concatenate(parts)

        found = function(stacked(leaves), *(stacked(other) for other in others))
        begin = 0
        for i, turned in zip(members, tall, strict=True):
            end = begin + math.prod(leaves[i].shape[:-2])
            part = found[begin:end]
            results[i] = (jnp.swapaxes(part, 1, 2) if turned else part).reshape(leaves[i].shape)
            begin = end
    return jax.tree.unflatten(structure, results)


def _turn(
    w: Float[Array, "*stack in out"],
    u: Float[Array, "*stack in out"],
    norm: Float[Array, "*stack"],
    rate: Any,
) -> Float[Array, "*stack in out"]:
    """What to add to w to go rate · norm along −u and back to the sphere of radius `norm`."""
    length = frobenius(u)
    moved = w - (rate * norm / jnp.where(length == 0, 1, length))[..., None, None] * u
    reached = frobenius(moved)
    new = moved * (norm / jnp.where(reached == 0, 1, reached))[..., None, None]
    # Without a direction to go or to project along, w stays: projecting it once more would only round it.
    return jnp.where(((length == 0) | (reached == 0))[..., None, None], 0, new - w)


def _require_matrix(path: tuple, w: Array) -> None:
    if w.ndim < 2:
        raise ValueError(
            f"{jax.tree_util.keystr(path)} has shape {w.shape}: MuonH takes matrices and stacks of matrices; "
            "put it in another group"
        )


def _require_norm(path: tuple, norm: Array) -> None:
    if not isinstance(norm, jax.core.Tracer) and not np.all(norm):
        raise ValueError(
            f"{jax.tree_util.keystr(path)} has a matrix of norm 0: MuonH keeps the norm that it "
            "starts with; start from other values, or put it in another group"
        )
