"""Depth → ∞: the flows that tied and drifting teachers discretise, solved by diffrax."""

from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from toymodels._layers import MLP, rms_norm
from toymodels._network import AbstractNetwork


class FlowNetwork(AbstractNetwork):
    """dh/dl = f(h) from h_0 = rms_norm(x), l running from 0 to ℓ* in units of one teacher layer.

    `mlp` is the teacher's layer *with* its residual scale, so a tied teacher of depth ℓ* is this flow taken
    by ℓ* Euler steps of length 1. With scale s · ℓ*^(−p), and f in units of the unscaled MLP, the flow runs
    to t = s · ℓ*^(1−p): √ℓ* at the paper's 1/√ℓ*.

    Solved by Tsitouras' 5(4) method with relative and absolute error at most `tolerance` a step, measured
    over the whole batch (so one example's step sizes depend, within the tolerance, on the others). A
    solve that needs more than `MAX_STEPS` steps raises diffrax's error, which says so.
    """

    head: Float[Array, "vocabulary width"] | None
    mlp: MLP
    num_states: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, default=1e-5)

    @property
    def depth(self) -> int:
        return self.num_states

    def states(self, x: Float[Array, "width *batch"]) -> Float[Array, "states width *batch"]:
        return self._solve(x, diffrax.SaveAt(ts=jnp.arange(self.depth + 1.0, dtype=x.dtype)))

    def __call__(self, x: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        return rms_norm(self._solve(x, diffrax.SaveAt(t1=True))[0])

    def _solve(self, x: Array, saveat: diffrax.SaveAt) -> Array:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(_flow),
            diffrax.Tsit5(),
            t0=0.0,
            t1=float(self.depth),
            dt0=None,
            y0=rms_norm(x),
            args=self.mlp,
            saveat=saveat,
            stepsize_controller=diffrax.PIDController(rtol=self.tolerance, atol=self.tolerance),
            max_steps=MAX_STEPS,
        )
        assert solution.ys is not None
        return solution.ys


class DriftingFlowNetwork(AbstractNetwork):
    """dh/dt = f(h; W(t)) from h_0 = rms_norm(x), t from 0 to 1, along a path of weights.

    `path` holds the MLPs at t = k/K, k = 0 … K, scaled so that the flow over t ∈ [0, 1] is the whole network;
    between them weights are interpolated linearly. Solved by Heun's method with a step from each point to the
    next: right to order 1/K where the path is as rough as a Brownian one, to 1/K² where it is smooth. A
    drifting teacher of depth ℓ* is this flow by ℓ* Euler steps, with the weights where they begin.
    Raises ValueError unless `num_states` divides K.
    """

    head: Float[Array, "vocabulary width"] | None
    path: MLP
    num_states: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.num_states < 1 or self._steps % self.num_states:
            raise ValueError(
                f"num_states is {self.num_states}: it must divide the path's {self._steps} steps"
            )

    @property
    def depth(self) -> int:
        return self.num_states

    def states(self, x: Float[Array, "width *batch"]) -> Float[Array, "states width *batch"]:
        stride = self._steps // self.num_states
        solved = self._solve(x, diffrax.SaveAt(t0=True, steps=True))
        return solved[: self._steps + 1 : stride]

    def __call__(self, x: Float[Array, "width *batch"]) -> Float[Array, "width *batch"]:
        return rms_norm(self._solve(x, diffrax.SaveAt(t1=True))[0])

    @property
    def _steps(self) -> int:
        return int(self.path.bias.shape[0]) - 1

    def _solve(self, x: Array, saveat: diffrax.SaveAt) -> Array:
        times = jnp.linspace(0, 1, self._steps + 1, dtype=x.dtype)
        weights = diffrax.LinearInterpolation(times, self.path)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(_drifting_flow),
            diffrax.Heun(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=rms_norm(x),
            args=weights,
            saveat=saveat,
            stepsize_controller=diffrax.StepTo(ts=times),
            max_steps=self._steps,
        )
        assert solution.ys is not None
        return solution.ys


# Named functions, since a new lambda at every call would be compiled at every call.
def _flow(_time: Any, h: Array, mlp: MLP) -> Array:
    return mlp(h)


def _drifting_flow(time: Any, h: Array, weights: diffrax.LinearInterpolation) -> Array:
    return weights.evaluate(time)(h)


MAX_STEPS = 65536
