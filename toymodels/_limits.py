"""Depth → ∞: the flow that a tied teacher discretises, solved by diffrax."""

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
            diffrax.ODETerm(lambda _t, h, mlp: mlp(h)),
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


MAX_STEPS = 65536
