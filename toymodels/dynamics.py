"""Geometry of a trajectory of hidden states, whoever made it (arXiv:2602.05970, section 3).

A trajectory is an array `states`, of JAX or numpy, whose first axis is depth, h_0 … h_ℓ, with the features
along `axis` (the last unless told otherwise; the toy networks put them at `axis=1`). Every other axis is
kept: tokens, batch.
Δh_l = h_{l+1} − h_l is the update of layer l. Angles are in radians.

At the edges: equal non-zero vectors are at angle 0 and opposite ones at π, exactly; a zero vector is
orthogonal to everything (angle π/2), since it has no direction to agree with. Gradients are finite
everywhere; where an angle or a norm has none (at 0 and π, at a zero vector) they are 0. `geometry` takes all
measures at once, faster and to fewer digits.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

__all__ = [
    "DENSE",
    "Geometry",
    "angle",
    "angles_to_end",
    "geometry",
    "independent_updates",
    "norm",
    "norms",
    "relative_progress",
    "step_angles",
    "update_angles",
    "update_cosines",
]


@functools.partial(jax.jit, static_argnames=("axis",))
def angle(u: Float[ArrayLike, "..."], v: Float[ArrayLike, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Angle between u and v along `axis`, in [0, π]: 2·atan2(‖û − v̂‖, ‖û + v̂‖) with unit vectors û, v̂.

    Unlike arccos of the cosine this loses no digits near 0 and π (W. Kahan, *How futile are mindless
    assessments of roundoff*, 2006, §12). Unchanged by rotations and by positive scale.
    """
    u, v = jnp.asarray(u), jnp.asarray(v)
    unit_u, is_zero_u = _unit(u, axis)
    unit_v, is_zero_v = _unit(v, axis)
    theta = 2 * jnp.atan2(norm(unit_u - unit_v, axis), norm(unit_u + unit_v, axis))
    # A compiled û − v̂ may round û and v̂ differently (fused multiply-add), so the edges are set by hand.
    theta = jnp.where(jnp.all(u == v, axis=axis), 0.0, theta)
    theta = jnp.where(jnp.all(u == -v, axis=axis), jnp.pi, theta)
    return jnp.where(is_zero_u | is_zero_v, jnp.pi / 2, theta)


@functools.partial(jax.jit, static_argnames=("axis",))
def norm(u: Float[ArrayLike, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Euclidean norm along `axis`, with gradient 0 (not NaN) at the zero vector."""
    u = jnp.asarray(u)
    largest = _largest(u, axis)
    square = jnp.sum((u / largest) ** 2, axis=axis)
    is_zero = square == 0
    root = jnp.sqrt(jnp.where(is_zero, 1.0, square))
    return jnp.where(is_zero, 0.0, root * jnp.squeeze(largest, axis))


def _unit(u: Array, axis: int) -> tuple[Array, Array]:
    scaled = u / _largest(u, axis)
    length = jnp.expand_dims(norm(scaled, axis), axis)
    is_zero = length == 0
    return scaled / jnp.where(is_zero, 1.0, length), jnp.squeeze(is_zero, axis)


def _largest(u: Array, axis: int) -> Array:
    """max |u|, or 1 for a zero vector: divided out first, so that squares neither overflow nor vanish."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(u), axis=axis, keepdims=True))
    return jnp.where(largest == 0, 1.0, largest)


def _last_axis(axis: int, states: Array) -> int:
    """The features' axis, counted from the end, so that it stays right when the depth axis is dropped."""
    from_end = axis if axis < 0 else axis - states.ndim
    if not -states.ndim < from_end < 0:
        raise ValueError(f"axis={axis} is not a feature axis of states with shape {states.shape}")
    return from_end


@functools.partial(jax.jit, static_argnames=("axis",))
def step_angles(states: Float[ArrayLike, "states ..."], axis: int = -1) -> Float[Array, "layers ..."]:
    """θ(h_l, h_{l+1}) for l = 0 … ℓ − 1: how far each layer turns the state, in radians.

    Raises ValueError for an `axis` that is no feature axis of `states`.
    """
    states = jnp.asarray(states)
    return angle(states[:-1], states[1:], _last_axis(axis, states))


@functools.partial(jax.jit, static_argnames=("axis", "lag"))
def update_angles(
    states: Float[ArrayLike, "states ..."], axis: int = -1, lag: int = 1
) -> Float[Array, "pairs ..."]:
    """θ(Δh_l, Δh_{l+lag}) for l = 0 … ℓ − 1 − lag: do later layers go on where earlier ones went?

    Near π/2 for independent layers, near 0 where the layers discretise a smooth flow. A zero update is at
    π/2 to every other.

    Raises ValueError for a lag below 1 and an `axis` that is no feature axis.
    """
    if lag < 1:
        raise ValueError(f"lag is {lag}: it must be at least 1")
    states = jnp.asarray(states)
    updates = jnp.diff(states, axis=0)
    return angle(updates[:-lag], updates[lag:], _last_axis(axis, states))


@functools.partial(jax.jit, static_argnames=("axis",))
def norms(states: Float[ArrayLike, "states ..."], axis: int = -1) -> Float[Array, "states ..."]:
    """‖h_l‖ for l = 0 … ℓ. Raises ValueError for an `axis` that is no feature axis of `states`."""
    states = jnp.asarray(states)
    return norm(states, _last_axis(axis, states))


@functools.partial(jax.jit, static_argnames=("axis",))
def angles_to_end(states: Float[ArrayLike, "states ..."], axis: int = -1) -> Float[Array, "states ..."]:
    """θ(h_l, h_ℓ) for l = 0 … ℓ, in radians; the last is 0.

    Raises ValueError for an `axis` that is no feature axis of `states`.
    """
    states = jnp.asarray(states)
    return angle(states, jnp.broadcast_to(states[-1], states.shape), _last_axis(axis, states))


@functools.partial(jax.jit, static_argnames=("axis",))
def relative_progress(states: Float[ArrayLike, "states ..."], axis: int = -1) -> Float[Array, "states ..."]:
    """⟨h_l − h_0, h_ℓ − h_0⟩ / ‖h_ℓ − h_0‖²: 0 at the start, 1 at the end; may overshoot or go backwards.

    0 throughout where the trajectory ends where it began. Raises ValueError for an `axis` that is no feature
    axis of `states`.
    """
    states = jnp.asarray(states)
    axis = _last_axis(axis, states)
    moved = states - states[0]
    # Scaled by the whole displacement's largest entry: the ratio does not change, its squares stay in range.
    scale = jnp.squeeze(_largest(moved[-1:], axis), 0)
    moved = moved / scale
    square = jnp.sum(moved[-1] ** 2, axis=axis)
    is_zero = square == 0
    return jnp.where(is_zero, 0.0, jnp.sum(moved * moved[-1], axis=axis) / jnp.where(is_zero, 1.0, square))


@functools.partial(jax.jit, static_argnames=("axis", "lags"))
def update_cosines(
    states: Float[ArrayLike, "states ..."], axis: int = -1, lags: int = 8
) -> Float[Array, "lags ..."]:
    """Mean over l of cos θ(Δh_l, Δh_{l+k}), for lags k = 1 … `lags`: how long updates keep their direction.

    1 where all updates are parallel, about 0 for independent layers, ρ^k where each update keeps a share ρ
    of the direction of the one before. NaN at lags that no two updates have.

    Raises ValueError for `lags` below 1 and an `axis` that is no feature axis.
    """
    if lags < 1:
        raise ValueError(f"lags is {lags}: it must be at least 1")
    states = jnp.asarray(states)
    pairs = states.shape[0] - 1  # updates, which have pairs at lags below their number
    known = [
        jnp.mean(jnp.cos(update_angles(states, axis, lag)), axis=0) for lag in range(1, min(lags + 1, pairs))
    ]
    shape = norms(states, axis).shape[1:]
    unknown = [jnp.full(shape, jnp.nan, states.dtype)] * (lags - len(known))
    return jnp.stack(known + unknown)


@functools.partial(jax.jit, static_argnames=("axis",))
def independent_updates(states: Float[ArrayLike, "states ..."], axis: int = -1) -> Float[Array, "..."]:
    """(Σ_l ‖Δh_l‖)² / ‖h_ℓ − h_0‖²: how many updates of independent directions would have come as far.

    1 where all updates point the same way; ℓ for ℓ orthogonal ones of one length, which independent ones are
    in many dimensions; more where they undo one another, and inf where the trajectory ends where it began. 0
    where nothing moved. Raises ValueError for an `axis` that is no feature axis of `states`.
    """
    states = jnp.asarray(states)
    axis = _last_axis(axis, states)
    steps = jnp.diff(states, axis=0)
    path = jnp.sum(norm(steps, axis), axis=0)
    reached = norm(states[-1] - states[0], axis)
    ratio = path / jnp.where(reached == 0, 1.0, reached)  # squared last, so that it stays in range
    return jnp.where(path == 0, 0.0, jnp.where(reached == 0, jnp.inf, ratio**2))


DENSE = 64
"""Up to so many layers the cosines of all pairs of updates are taken."""


class Geometry(NamedTuple):
    """All measures of a trajectory h_0 … h_ℓ at once; `layers` of its ℓ steps are layers.

    norms, angles_to_end, relative_progress, step_angles, independent_updates: as the functions of these
    names. update_angles, update_cosines: of the steps that are layers, between each and the next (at lags)
    of them. update_norms: ‖Δh_l‖ of layers. largest: max_i |h_l,i|.
    """

    norms: Float[Array, "states ..."]
    angles_to_end: Float[Array, "states ..."]
    relative_progress: Float[Array, "states ..."]
    step_angles: Float[Array, "steps ..."]
    update_angles: Float[Array, "pairs ..."]
    update_cosines: Float[Array, "lags ..."]
    update_norms: Float[Array, "layers ..."]
    independent_updates: Float[Array, "..."]
    largest: Float[Array, "states ..."]


def geometry(
    states: Float[ArrayLike, "states ... d"], layers: Sequence[int] | None = None, lags: int = 8
) -> Geometry:
    """The measures of every trajectory, in a fraction of the time that they take one by one.

    layers: which steps, from 0, are layers (None: all). Others, such as a norm between two blocks, have a
    step angle, but no part in what is said of updates: `independent_updates` is (Σ‖Δh_l‖)² / ‖Σ Δh_l‖² over
    layers. Angles come from differences, tan θ(h, h + Δ) = ‖h‖ ‖Δ⊥‖ / (‖h‖² + ⟨h, Δ⟩) with the part Δ⊥ of Δ
    that is orthogonal to h, and keep their digits where they are small; near π they are right to 1e-3 of a
    radian. Products are taken of states scaled by the largest entry of the whole
    trajectory, so that updates smaller than that by 1e-19 count as zero. Features lie along the last axis;
    not meant for gradients.

    Raises ValueError for `lags` below 1 and for layers that are no steps.
    """
    if lags < 1:
        raise ValueError(f"lags is {lags}: it must be at least 1")
    states = jnp.asarray(states)
    steps = states.shape[0] - 1
    chosen = np.arange(steps) if layers is None else np.asarray(layers, int)
    if chosen.size and not (0 <= chosen.min() and chosen.max() < steps):
        raise ValueError(f"layers are {chosen.tolist()}: the trajectory has steps 0 to {steps - 1}")
    largest = jnp.max(jnp.abs(states), axis=-1)
    # A power of two: scaling then rounds nothing, and states that are equal keep a difference of zero.
    power = jnp.frexp(jnp.max(largest, axis=0))[1]
    h = states * jnp.ldexp(jnp.ones_like(states[0, ..., 0]), -power)[..., None]
    updates = jnp.diff(h, axis=0)
    to_end, moved = h[-1] - h, h[-1] - h[0]
    square = _dot(moved, moved)
    towards = jnp.concatenate([jnp.zeros_like(square)[None], _dot(updates, moved)])
    lengths = _dot(h, h)
    every = _dot(updates, updates)
    ways = updates if len(chosen) == steps else updates[chosen]
    sizes = every if len(chosen) == steps else every[chosen]
    path = jnp.sum(jnp.sqrt(sizes), axis=0)
    reached = jnp.sqrt(_dot(total := jnp.sum(ways, axis=0), total))
    ratio = path / jnp.where(reached == 0, 1.0, reached)
    return Geometry(
        norms=jnp.ldexp(jnp.sqrt(lengths), power),
        angles_to_end=_turned(h, to_end, lengths, lengths[-1:]),
        relative_progress=jnp.cumsum(towards, axis=0) / jnp.where(square == 0, 1.0, square),
        step_angles=_turned(h[:-1], updates, lengths[:-1], lengths[1:]),
        update_angles=_turned(ways[:-1], jnp.diff(ways, axis=0), sizes[:-1], sizes[1:]),
        update_cosines=_cosines(ways, sizes, lags),
        update_norms=jnp.ldexp(jnp.sqrt(sizes), power),
        independent_updates=jnp.where(path == 0, 0.0, jnp.where(reached == 0, jnp.inf, ratio**2)),
        largest=largest,
    )


def _dot(u: Array, v: Array) -> Array:
    """⟨u, v⟩; as a product with a vector of ones, which a CPU does in a third of the time of a sum."""
    return jnp.matmul(u * v, jnp.ones(u.shape[-1], u.dtype), precision=jax.lax.Precision.HIGHEST)


def _turned(u: Array, v: Array, before: Array, after: Array) -> Array:
    """Angle between u and u + v, whose squared norms are these; π/2 where either is zero."""
    along = _dot(u, v)
    across = v - (along / jnp.where(before == 0, 1.0, before))[..., None] * u
    return jnp.where(
        (before == 0) | (after == 0),
        jnp.pi / 2,
        jnp.atan2(jnp.sqrt(before * _dot(across, across)), before + along),
    )


def _cosines(ways: Array, sizes: Array, lags: int) -> Array:
    """Mean cosine of updates at each lag; NaN at lags that no two have."""
    inverse = jnp.where(sizes == 0, 0.0, jax.lax.rsqrt(jnp.where(sizes == 0, 1.0, sizes)))
    known, lagged = [], range(1, min(lags + 1, len(ways)))
    if len(ways) <= DENSE:  # all products at once are done before those of the lags alone
        every = jnp.einsum("l...d,k...d->...lk", ways, ways, precision=jax.lax.Precision.HIGHEST)
        products = [jnp.moveaxis(jnp.diagonal(every, lag, axis1=-2, axis2=-1), -1, 0) for lag in lagged]
    else:
        products = [_dot(ways[:-lag], ways[lag:]) for lag in lagged]
    for lag, product in zip(lagged, products, strict=True):
        known.append(jnp.mean(product * inverse[:-lag] * inverse[lag:], axis=0))
    unknown = [jnp.full(sizes.shape[1:], jnp.nan, ways.dtype)] * (lags - len(known))
    return jnp.stack(known + unknown)
