"""Laws of a stack of layers."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from toymodels import LAYERS, Independent, ResidualNetwork, Tied, draw_layers, rms_norm

WIDTH, HIDDEN = 6, 24
X = jax.random.normal(jax.random.key(7), (WIDTH, 5))
KINDS = pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)


def network(kind, depth=6):
    return ResidualNetwork(head=None, layers=draw_layers(kind, jax.random.key(0), depth, WIDTH, HIDDEN))


@KINDS
@pytest.mark.parametrize("unroll", [2, 4, 6])
def test_unrolled_equals_scan(kind, unroll):
    """How many layers are written out a loop step changes neither states nor gradients beyond rounding."""
    scanned = network(kind)
    unrolled = dataclasses.replace(scanned, unroll=unroll)
    np.testing.assert_allclose(unrolled.states(X), scanned.states(X), rtol=1e-6, atol=1e-6)
    a, b = (jax.grad(lambda net: jnp.sum(net(X)[0]))(net) for net in (scanned, unrolled))
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


@KINDS
def test_states_are_the_layers_applied_in_turn(kind):
    """h_0 = rms_norm(x), h_{l+1} = layer_l(h_l), and the output is rms_norm(h_ℓ)."""
    net = network(kind)
    h = rms_norm(X)
    expected = [h]
    for index in range(net.depth):
        h = net.layer(index)(h)
        expected.append(h)
    np.testing.assert_allclose(net.states(X), jnp.stack(expected), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(net(X), rms_norm(h), rtol=1e-6, atol=1e-6)


def test_tied_equals_an_explicit_loop_over_one_layer():
    """A tied teacher is one layer applied ℓ* times."""
    teacher = Tied(depth=12).network(jax.random.key(3), WIDTH, HIDDEN)
    layer = teacher.layer(0)
    h = rms_norm(X)
    for _ in range(12):
        h = layer(h)
    np.testing.assert_allclose(teacher(X), rms_norm(h), rtol=1e-5, atol=1e-6)


@KINDS
@pytest.mark.parametrize("vocabulary", [None, 9])
def test_an_untrained_student_is_the_identity(kind, vocabulary):
    """Zero-initialised students of any depth output rms_norm(rms_norm(x)), with logits zero."""
    student = ResidualNetwork.student(
        kind, jax.random.key(0), width=WIDTH, hidden=HIDDEN, depth=4, vocabulary=vocabulary
    )
    np.testing.assert_array_equal(student(X), rms_norm(rms_norm(X)))
    if vocabulary is not None:
        assert jnp.all(student.logits(X) == 0)


def test_a_layer_depends_on_its_own_index_alone():
    """The first layers of a deep draw are those of a shallow one: depth does not reshuffle weights."""
    deep, shallow = (
        draw_layers(LAYERS["euler"], jax.random.key(0), depth, WIDTH, HIDDEN) for depth in (9, 4)
    )
    for a, b in zip(jax.tree.leaves(deep), jax.tree.leaves(shallow), strict=True):
        np.testing.assert_array_equal(a[:4], b)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 2.0])
def test_temperature_divides_logits_exactly(temperature):
    """logits(x, T) = logits(x, 1)/T, to the last bit for powers of two."""
    teacher = Independent(depth=4).network(jax.random.key(0), WIDTH, HIDDEN, vocabulary=9)
    np.testing.assert_array_equal(teacher.logits(X, temperature), teacher.logits(X) / temperature)


def test_a_network_without_a_head_has_no_logits():
    """Asking for them says what to do."""
    with pytest.raises(ValueError, match="no head: draw it with a vocabulary"):
        network(LAYERS["euler"]).logits(X)


def test_permuting_hidden_units_of_every_layer_leaves_the_loss():
    """The order of hidden units is not part of a network's function, in any layer."""
    net = network(LAYERS["euler"])
    mlp = net.layers.mlp
    orders = jnp.stack([jax.random.permutation(jax.random.key(i), HIDDEN) for i in range(net.depth)])
    permuted = (
        jnp.take_along_axis(mlp.w_in, orders[:, :, None], axis=1),
        jnp.take_along_axis(mlp.bias, orders, axis=1),
        jnp.take_along_axis(mlp.w_out, orders[:, None, :], axis=2),
    )
    other = eqx.tree_at(
        lambda net: (net.layers.mlp.w_in, net.layers.mlp.bias, net.layers.mlp.w_out), net, permuted
    )
    np.testing.assert_allclose(other(X), net(X), rtol=1e-5, atol=1e-6)
