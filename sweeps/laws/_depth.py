"""The inverse depth law, and the local exponents that show whether a table follows it.

Symbols: depth l (number of layers or recurrences), loss L, level c, exponent alpha, floor L_0.
"""

import dataclasses
from typing import final

import numpy as np
import numpy.typing as npt

from sweeps.laws._law import Array, Law, Parameter, amplitude, exponent, floor


@final
@dataclasses.dataclass(frozen=True)
class DepthLaw(Law):
    r"""Loss as an inverse power of depth, above a floor.

    $$L(\ell) = c\,\ell^{-\alpha} + L_0$$

    Every group of replicates (a seed, with its own teacher) has a level c of its own. `fix={"L_0": 0.0}` is
    right when the student can reach the teacher exactly, which is the case in the toy networks; then alpha is
    the slope on log axes.

    ??? cite "Reference"

        arXiv:2602.05970, sections on the toy teacher-student networks. There the fit is a straight line on
        log axes; here the residual is that of log L for any floor.
    """

    @property
    def name(self) -> str:
        return "depth"

    @property
    def formula(self) -> str:
        return "c * depth**-alpha + L_0"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("depth",)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return amplitude("c", "loss x depth^alpha"), exponent("alpha", (0.1, 4.0)), floor("L_0")

    @property
    def headline(self) -> tuple[str, ...]:
        return ("alpha",)

    @property
    def level(self) -> str | None:
        return "c"


def local_exponents(depth: npt.ArrayLike, loss: npt.ArrayLike) -> tuple[Array, Array]:
    r"""Exponents between neighbouring depths: a power law shows as a constant.

    $$\alpha_j = -\frac{\log L_{j+1} - \log L_j}{\log \ell_{j+1} - \log \ell_j}$$

    **Arguments:**

    - `depth`: strictly increasing positive depths (n,), n >= 2.
    - `loss`: positive losses (..., n).

    **Returns:** geometric mean of each pair of depths (n - 1,), and the exponents (..., n - 1), positive
    where the loss falls.

    **Raises:** ValueError where the arguments are not as said.
    """
    x, y = np.asarray(depth, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    if x.ndim != 1 or x.size < 2 or not (np.isfinite(x).all() and (x > 0).all() and (np.diff(x) > 0).all()):
        raise ValueError(f"depth: {x.tolist()} are not two or more positive, strictly increasing depths.")
    if y.ndim == 0 or y.shape[-1] != x.size:
        raise ValueError(f"loss: shape {y.shape} does not end in the number of depths, {x.size}.")
    if not (np.isfinite(y).all() and (y > 0).all()):
        where = tuple(np.argwhere(~(np.isfinite(y) & (y > 0)))[0].tolist())
        raise ValueError(f"loss: {y[where]} at index {where} is not finite and > 0; leave that student out.")
    return np.sqrt(x[:-1] * x[1:]), -np.diff(np.log(y)) / np.diff(np.log(x))
