"""Layers of the toy networks (arXiv:2602.05970, section 4 and appendix).

State h ∈ R^m (`width`), hidden size H = `hidden`. **The feature axis comes first and every further axis is
a batch axis**: h has shape (width, *batch), so a single state is a vector and nothing needs `vmap`. This
layout, with the gradient written out below, is what makes the training step fast on a CPU (measured in
tests/benchmarks/README.md).

One class per way of stepping; a new one is a subclass of `AbstractLayer` with `draw` and `__call__`.
Weights are drawn by one function of (key, shape, fan_in), `Weights`: `uniform` as in the paper, or `normal`.
"""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

RMS_EPS = 2.0**-23
"""Added to the mean square in `rms_norm`: float32's machine epsilon, so that a zero state stays finite."""


Weights = Callable[[PRNGKeyArray, tuple[int, ...], int], Array]
"""Draws an array of weights from (key, shape, fan_in)."""


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """Uniform in ±1/√fan_in: mean 0, variance 1/(3·fan_in)."""
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def normal(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """Normal with the mean and the variance of `uniform`."""
    return jax.random.normal(key, shape) * (3 * fan_in) ** -0.5


def deviation(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """The standard deviation of `uniform` and `normal`, in place of draws from them."""
    return jnp.full(shape, (3 * fan_in) ** -0.5)


def rms_norm(h: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
    """h / √(mean_i h_i² + ε) over the first axis, ε = `RMS_EPS`; no learnable scale."""
    return h * _inverse_rms(h)


def _inverse_rms(h: Array) -> Array:
    return jax.lax.rsqrt(jnp.mean(h * h, axis=0, keepdims=True) + RMS_EPS)


@jax.custom_vjp
def _normed_mlp(w_in: Array, bias: Array, w_out: Array, h: Array) -> Array:
    """w_out · relu(w_in · rms_norm(h) + bias)² for h of shape (width, batch)."""
    return _normed_mlp_forward(w_in, bias, w_out, h)[0]


def _normed_mlp_forward(w_in: Array, bias: Array, w_out: Array, h: Array) -> tuple[Array, tuple[Array, ...]]:
    inverse = _inverse_rms(h)
    normed = h * inverse
    active = jax.nn.relu(w_in @ normed + bias[:, None])
    return w_out @ (active * active), (w_in, w_out, inverse, normed, active)


def _normed_mlp_backward(saved: tuple[Array, ...], grad: Array) -> tuple[Array, Array, Array, Array]:
    # Written out because automatic differentiation keeps three (hidden, batch) arrays a layer where one is
    # enough; on two CPU cores the paper-scale step takes 1.5 times as long with it.
    w_in, w_out, inverse, normed, active = saved
    grad_w_out = grad @ (active * active).T
    grad_pre = (w_out.T @ grad) * (2 * active)
    grad_normed = w_in.T @ grad_pre
    grad_h = inverse * (grad_normed - normed * jnp.mean(grad_normed * normed, axis=0, keepdims=True))
    return grad_pre @ normed.T, jnp.sum(grad_pre, axis=1), grad_w_out, grad_h


_normed_mlp.defvjp(_normed_mlp_forward, _normed_mlp_backward)


class MLP(eqx.Module):
    """Squared-ReLU MLP on the normalised state, f(h) = W₂ · relu(W₁ · rms_norm(h) + b₁)².

    W₁ has a bias, W₂ has none. Reverse-mode differentiation only (the gradient is written out).
    """

    w_in: Float[Array, "hidden width"]
    bias: Float[Array, " hidden"]
    w_out: Float[Array, "width hidden"]

    @classmethod
    def draw(cls, key: PRNGKeyArray, width: int, hidden: int, weights: Weights = uniform) -> "MLP":
        """Weights and bias of variance 1/(3·fan_in): fan_in is the width for W₁ and b₁, `hidden` for W₂."""
        key_in, key_bias, key_out = jax.random.split(key, 3)
        return cls(
            w_in=weights(key_in, (hidden, width), width),
            bias=weights(key_bias, (hidden,), width),
            w_out=weights(key_out, (width, hidden), hidden),
        )

    def __call__(self, h: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        flat = _normed_mlp(self.w_in, self.bias, self.w_out, h.reshape(h.shape[0], -1))
        return flat.reshape(h.shape)

    def scaled(self, factor: float | Array) -> "MLP":
        """The same MLP with its output multiplied by `factor` (W₂ ← factor · W₂)."""
        return eqx.tree_at(lambda mlp: mlp.w_out, self, self.w_out * factor)


class AbstractLayer(eqx.Module):
    """One step along depth, h_l → h_{l+1}; also read as one step of a numerical integrator."""

    name: eqx.AbstractClassVar[str]
    mlps_per_layer: eqx.AbstractClassVar[int]

    @classmethod
    @abc.abstractmethod
    def draw(cls, key: PRNGKeyArray, width: int, hidden: int, weights: Weights = uniform) -> "AbstractLayer":
        """A layer whose weights are drawn by `weights`."""

    @abc.abstractmethod
    def scaled(self, factor: float | Array) -> "AbstractLayer":
        """The same layer with the output of every MLP multiplied by `factor`: the residual scale."""

    @abc.abstractmethod
    def __call__(self, h: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        """The next state."""


class Euler(AbstractLayer):
    """h ← h + f(h), the plain residual layer: one explicit Euler step of dh/dt = f(h)."""

    name: ClassVar[str] = "euler"
    mlps_per_layer: ClassVar[int] = 1
    mlp: MLP

    @classmethod
    def draw(cls, key: PRNGKeyArray, width: int, hidden: int, weights: Weights = uniform) -> "Euler":
        return cls(MLP.draw(key, width, hidden, weights))

    def scaled(self, factor: float | Array) -> "Euler":
        return Euler(self.mlp.scaled(factor))

    def __call__(self, h: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        return h + self.mlp(h)


class Midpoint(AbstractLayer):
    """k₁ = f₁(h), h ← h + f₂(h + k₁/2): with f₁ = f₂, one step of the explicit midpoint rule.

    Each f normalises its own input, so the second is f₂ at rms_norm(h + k₁/2), as in the paper. Two MLPs a
    layer, hence twice the parameters and FLOPs of `Euler` at equal depth.
    """

    name: ClassVar[str] = "midpoint"
    mlps_per_layer: ClassVar[int] = 2
    first: MLP
    second: MLP

    @classmethod
    def draw(cls, key: PRNGKeyArray, width: int, hidden: int, weights: Weights = uniform) -> "Midpoint":
        first, second = (MLP.draw(each, width, hidden, weights) for each in jax.random.split(key))
        return cls(first, second)

    def scaled(self, factor: float | Array) -> "Midpoint":
        return Midpoint(self.first.scaled(factor), self.second.scaled(factor))

    def __call__(self, h: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        return h + self.second(h + self.first(h) / 2)


LAYERS: dict[str, type[AbstractLayer]] = {layer.name: layer for layer in (Euler, Midpoint)}
"""The integrators by the name that a config uses."""
