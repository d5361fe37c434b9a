"""The inverse depth law, and the local exponents that show whether a table follows it.

Symbols: depth l (number of layers or recurrences), loss L, level c, exponent alpha, floor L_0.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from sweeps.laws._law import Array, Columns, Index, Law, Parameter


@final
@dataclasses.dataclass(frozen=True)
class DepthLaw(Law):
    r"""Loss as an inverse power of depth, above a floor.

    $$L(\ell) = c\,\ell^{-\alpha} + L_0$$

    with coordinates (log c, alpha, L_0). The derivatives of log L are, with s = c l^-alpha / L the share of
    the power law in the loss: s by log c, -s log l by alpha, 1/L by L_0.

    **Arguments:**

    - `floor`: the value of L_0 in the units of the loss; `None` leaves it free between 0 and the smallest
      loss of the table. `0.0` is right when the student can reach the teacher exactly, which is the case
      in the toy networks; then alpha is the slope on log axes.

    **Raises:** ValueError if `floor` is negative or not finite. On fitting: with fewer than three distinct
    depths (four when L_0 is free), a floor that is not below the smallest loss, or a group with fewer than
    two distinct depths (three when L_0 is free).

    ??? cite "Reference"

        arXiv:2602.05970, sections on the toy teacher-student networks. There the fit is a straight line on
        log axes, which is `floor=0.0`; here the residual is that of log L for any floor.
    """

    floor: float | None = None

    def __post_init__(self) -> None:
        if self.floor is not None and not (math.isfinite(self.floor) and self.floor >= 0):
            raise ValueError(
                f"floor: {self.floor} is not a finite number >= 0; give the irreducible loss, "
                "or None to fit it."
            )

    @property
    def name(self) -> str:
        return "depth"

    @property
    def equation(self) -> str:
        note = "" if self.floor is None else f", L_0 = {self.floor!r} fixed"
        return "loss = c * depth**-alpha + L_0" + note

    @property
    def columns(self) -> tuple[str, ...]:
        return ("depth",)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        lower, upper = (0.0, math.inf) if self.floor is None else (self.floor, self.floor)
        return (
            Parameter("c", "loss x depth^alpha", lower=0.0, logarithmic=True),
            Parameter("alpha", "1"),
            Parameter("L_0", "loss", lower=lower, upper=upper),
        )

    @property
    def level(self) -> str:
        return "c"

    def config(self) -> dict[str, float | str | None]:
        return {"floor": self.floor}

    def check(self, columns: Columns, loss: Array, group: Index, labels: Sequence[object]) -> None:
        depth = columns["depth"]
        free = self.floor is None
        need, what = (4, "c, alpha and a free L_0") if free else (3, "c and alpha")
        found = np.unique(depth)
        if found.size < need:
            raise ValueError(
                f"column 'depth': {found.size} distinct depth(s) {found.tolist()}, but {what} need at least "
                f"{need}; add depths" + (" or fix L_0 with floor=0.0." if free else ".")
            )
        for index, label in enumerate(labels) if len(labels) > 1 else ():
            own = np.unique(depth[group == index])
            if own.size < need - 1:
                raise ValueError(
                    f"group {label!r}: only {own.size} distinct depth(s) {own.tolist()}, but every group has "
                    f"its own level c and needs at least {need - 1}; leave the group out, or pass "
                    "group=None to treat rows as independent with one level."
                )
        row = int(loss.argmin())
        if self.floor is not None and self.floor >= loss[row]:
            raise ValueError(
                f"floor: {self.floor} is not below the smallest loss {loss[row]:g} (column 'loss', row "
                f"{row}, depth {depth[row]:g}); give a smaller floor, or None to fit it."
            )

    def limits(self, loss: Array) -> tuple[Array, Array]:
        lower, upper = (0.0, loss.min()) if self.floor is None else (self.floor, self.floor)
        return np.array([-np.inf, -np.inf, lower]), np.array([np.inf, np.inf, upper])

    def log_loss(self, theta: Sequence[Array], columns: Columns) -> Array:
        log_c, alpha, floor = theta
        log_floor = np.log(floor, out=np.full(np.shape(floor), -np.inf), where=np.asarray(floor) > 0)
        return np.logaddexp(log_c - alpha * np.log(columns["depth"]), log_floor)

    def gradient(self, theta: Sequence[Array], columns: Columns) -> tuple[Array, ...]:
        log_c, alpha, _ = theta
        x = np.log(columns["depth"])
        log_loss = self.log_loss(theta, columns)
        share = np.exp(log_c - alpha * x - log_loss)
        return share, -x * share, np.exp(-log_loss)

    def starts(
        self, columns: Columns, loss: Array, limits: tuple[Array, Array], count: int, rng: np.random.Generator
    ) -> Array:
        """For a guessed floor, the straight line through log(L - floor); guesses crowd towards min L."""
        x = np.log(columns["depth"])
        smallest = loss.min()
        if self.floor is None:
            guesses = [0.0, 0.9 * smallest, *(smallest * (1 - 10 ** rng.uniform(-3, 0, count)))]
            floors, shifts = np.array(guesses[:count]), np.zeros(count)
        else:
            floors, shifts = np.full(count, limits[0][2]), 2 * rng.standard_normal(count)
            shifts[0] = 0
        y = np.log(loss - floors[:, None])
        dx = x - x.mean()
        alpha = shifts - (y * dx).sum(1) / (dx**2).sum()
        return np.stack([y.mean(1) + alpha * x.mean(), alpha, floors], axis=1)

    def units(self, scale: Mapping[str, float]) -> tuple[Array, Array]:
        matrix = np.array([[1, math.log(scale["depth"]), 0], [0, 1, 0], [0, 0, scale["loss"]]])
        return matrix, np.array([math.log(scale["loss"]), 0, 0])


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
