"""Products with matrices of weights, in the order of operations that a CPU does fastest."""

from contextlib import AbstractContextManager

import jax
from jaxtyping import Array, Float


def precise(precision: str) -> AbstractContextManager[None]:
    """Within it, products of float32 are not rounded to fewer digits, as GPUs else do."""
    return jax.default_matmul_precision("highest" if precision == "float32" else "default")


@jax.custom_vjp
def apply(x: Float[Array, "*shape n"], w: Float[Array, "n m"]) -> Float[Array, "*shape m"]:
    """x @ w, whose gradient for w is one product of two matrices, whatever the shape of `x`.

    On a CPU XLA does a product that sums over the first axis of both sides, as this gradient does, at half of
    the rate of others; and left to itself it moves batches of states about first. So x is transposed by
    itself, which costs little. Only reverse-mode derivatives are defined.
    """
    return (_rows(x) @ w).reshape(*x.shape[:-1], w.shape[-1])


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return apply(x, w), (x, w)


def _backward(kept: tuple[Array, Array], given: Array) -> tuple[Array, Array]:
    x, w = kept
    rows, given = _rows(x), _rows(given)
    of_w = jax.lax.platform_dependent(rows, given, cpu=_transposed_first, default=lambda a, b: a.T @ b)
    return (given @ w.T).reshape(x.shape), of_w


def _transposed_first(a: Array, b: Array) -> Array:
    alone = jax.lax.optimization_barrier  # or XLA would take the transposition back into the product
    if a.shape[1] <= b.shape[1]:
        return alone(a.T) @ b
    return alone(alone(b.T) @ a).T


apply.defvjp(_forward, _backward)
