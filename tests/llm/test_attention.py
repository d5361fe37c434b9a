"""Attention and products in the order of a CPU are those of the textbook, gradients too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from llm import _products
from llm._attention import attention, by_chunks


def drawn(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def assert_same_with_gradients(one, other, *args):
    def with_gradients(function):
        out, pull = jax.vjp(function, *args)
        return out, *pull(drawn(9, *out.shape))

    for a, b in zip(with_gradients(jax.jit(one)), with_gradients(jax.jit(other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * (1 + float(jnp.max(jnp.abs(b)))))


@pytest.mark.parametrize(("length", "chunk"), [(1, 1), (3, 4), (8, 4), (9, 4), (23, 7)])
def test_chunks_are_causal_attention(length, chunk):
    """Also where the last chunk is short, and where all fits into one."""
    parts = (drawn(i, 2, length, 3, 6) for i in range(3))

    def whole(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    assert_same_with_gradients(lambda q, k, v: by_chunks(q, k, v, chunk), whole, *parts)


def test_no_query_sees_a_later_key():
    """To the bit: what comes later does not reach earlier outputs."""
    q, k, v = (drawn(i, 1, 10, 2, 4) for i in range(3))
    later = by_chunks(q.at[:, 7:].add(5), k.at[:, 7:].add(5), v.at[:, 7:].multiply(100), 4)
    np.testing.assert_array_equal(later[:, :7], by_chunks(q, k, v, 4)[:, :7])


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e15])
def test_scores_of_any_size(scale):
    """Neither over- nor underflow: equal scores give means, large ones the value at the best key."""
    q, k, v = (drawn(i, 1, 9, 1, 4) for i in range(3))
    q = scale * q
    expected = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(by_chunks(q, k, v, 4), expected, atol=1e-6)


def test_masks_are_followed():
    """On every platform; a mask may show a query what comes after it."""
    q, k, v = (drawn(i, 2, 6, 1, 4) for i in range(3))
    everything = jnp.ones((1, 1, 6, 6), bool)
    weights = jax.nn.softmax(jnp.einsum("bqhs,bkhs->bhqk", q, k) / 2)
    np.testing.assert_allclose(
        attention(q, k, v, everything), jnp.einsum("bhqk,bkhs->bqhs", weights, v), atol=1e-6
    )


@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 8), (8, 3)])
def test_products_and_their_gradients(leading, n, m):
    """Of states of any shape, with matrices that are wide or tall."""
    assert_same_with_gradients(_products.apply, jnp.matmul, drawn(0, *leading, n), drawn(1, n, m))
