"""What is minimised: a penalty rho of residuals, summed or averaged over rows.

Symbols: prediction P, loss L, residual r (log P - log L, or (P - L) in units of the geometric mean loss),
weight w, penalty rho(r). `slope` is rho', `bend` rho'' (0 where there is none), `grip` = rho'/r the weight
of the quadratic that touches rho at r and lies above it, which is what Gauss-Newton steps use.
"""

import abc
import dataclasses
import math
from typing import final

import numpy as np

from sweeps.laws._law import Array


class Objective(abc.ABC):
    """A penalty. Subclasses are final, immutable values."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name on the command line."""

    @property
    def of_logs(self) -> bool:
        """Whether residuals are of logarithms."""
        return True

    @property
    def averaged(self) -> bool:
        """Whether the objective is the mean over rows (weighted), not the sum."""
        return False

    @property
    def quadratic(self) -> bool:
        """Whether this is least squares, for which the distributions of intervals are known."""
        return False

    @abc.abstractmethod
    def penalty(self, residual: Array) -> Array:
        """rho(r)."""

    @abc.abstractmethod
    def slope(self, residual: Array) -> Array:
        """rho'(r)."""

    @abc.abstractmethod
    def bend(self, residual: Array) -> Array:
        """rho''(r)."""

    @abc.abstractmethod
    def grip(self, residual: Array) -> Array:
        """rho'(r) / r, at r = 0 its limit."""


class LeastSquares(Objective):
    """Mean of squares: rho = r^2."""

    @property
    def averaged(self) -> bool:
        return True

    @property
    def quadratic(self) -> bool:
        return True

    def penalty(self, residual: Array) -> Array:
        return residual**2

    def slope(self, residual: Array) -> Array:
        return 2 * residual

    def bend(self, residual: Array) -> Array:
        return np.full_like(residual, 2.0)

    def grip(self, residual: Array) -> Array:
        return np.full_like(residual, 2.0)


@final
@dataclasses.dataclass(frozen=True)
class LogSquares(LeastSquares):
    """Mean squared residual of log loss: residuals are relative errors."""

    @property
    def name(self) -> str:
        return "log-squares"


@final
@dataclasses.dataclass(frozen=True)
class Squares(LeastSquares):
    """Mean squared residual of the loss itself, in squared units of the loss."""

    @property
    def name(self) -> str:
        return "squares"

    @property
    def of_logs(self) -> bool:
        return False


@final
@dataclasses.dataclass(frozen=True)
class Huber(Objective):
    r"""Sum of Huber penalties of residuals of log loss.

    $$\rho(r) = \tfrac12 r^2 \;(|r| \le \delta), \qquad \delta\,(|r| - \tfrac12\delta) \;\text{beyond}$$

    **Arguments:** `delta` > 0, in log loss: 1e-3 in arXiv:2203.15556 and arXiv:2604.21106.
    `overestimates`: factor on rows where the law lies above the loss; 1 is Huber's own. Runs that could have
    gone better than they did lie above the law that is sought, so overestimating is penalised more.

    **Raises:** ValueError for a delta or factor that is no finite number above 0.
    """

    delta: float = 1e-3
    overestimates: float = 1.0

    def __post_init__(self) -> None:
        for field in ("delta", "overestimates"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field}: {value} is not a finite number > 0; give e.g. 1e-3 and 10.")

    @property
    def name(self) -> str:
        return "huber" if self.overestimates == 1 else "asymmetric"

    def _factor(self, residual: Array) -> Array | float:
        return 1.0 if self.overestimates == 1 else np.where(residual > 0, self.overestimates, 1.0)

    def penalty(self, residual: Array) -> Array:
        size = np.abs(residual)
        near = np.minimum(size, self.delta)
        return self._factor(residual) * near * (size - near / 2)

    def slope(self, residual: Array) -> Array:
        return self._factor(residual) * np.clip(residual, -self.delta, self.delta)

    def bend(self, residual: Array) -> Array:
        return np.asarray(self._factor(residual) * (np.abs(residual) <= self.delta), dtype=np.float64)

    def grip(self, residual: Array) -> Array:
        ratio = self.delta / np.maximum(np.abs(residual), self.delta)
        return np.asarray(self._factor(residual) * ratio, dtype=np.float64)


OBJECTIVES: dict[str, type[Objective]] = {
    "log-squares": LogSquares,
    "squares": Squares,
    "huber": Huber,
    "asymmetric": Huber,
}
"""The objectives by the name on the command line; the asymmetric one is Huber's with a factor of its own."""


def objective(name: str, delta: float | None = None, overestimates: float | None = None) -> Objective:
    """The objective of a name; `delta` and `overestimates` are for Huber's and the asymmetric one alone.

    **Raises:** ValueError for an unknown name and for an argument that the objective does not have.
    """
    if name not in OBJECTIVES:
        raise ValueError(f"objective: {name!r} is unknown; there are {', '.join(OBJECTIVES)}.")
    if name in ("log-squares", "squares"):
        if delta is not None or overestimates is not None:
            raise ValueError(f"objective: {name} has no delta and no factor; those are of huber, asymmetric.")
        return OBJECTIVES[name]()
    if name == "huber" and overestimates is not None:
        raise ValueError("objective: huber has no factor on overestimates; that is of asymmetric.")
    factor = (10.0 if overestimates is None else overestimates) if name == "asymmetric" else 1.0
    return Huber(1e-3 if delta is None else delta, factor)
