"""What the fitter asks of a law: its columns, its parameters, its prediction and the derivatives of it.

Symbols: K parameters theta_k, rows i, predicted loss L_i, log in the natural base. A law speaks in
*coordinates*: the parameter itself, or its logarithm where `Parameter.logarithmic` is set. In these
coordinates a change of units is an affine map, which is what lets the solver work with columns and losses
of geometric mean 1 whatever units the table came in.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Columns = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a law.

    **Fields:**

    - `name`: as reported, e.g. `"alpha"`.
    - `unit`: in words; `"1"` for a pure number.
    - `lower`, `upper`: bounds of the value (not of its logarithm), in `unit`. Equal bounds fix the parameter.
    - `logarithmic`: the coordinate is the logarithm of the value, which is then positive by construction.
    """

    name: str
    unit: str
    lower: float = -math.inf
    upper: float = math.inf
    logarithmic: bool = False

    @property
    def fixed(self) -> bool:
        """Whether the bounds leave one value only."""
        return self.lower == self.upper


class Law(abc.ABC):
    """A law of loss, as the fitter sees it. Subclasses are final, immutable values."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name by which a saved fit finds its law again."""

    @property
    @abc.abstractmethod
    def equation(self) -> str:
        """The law in one line, with the parameters that are fixed and their values."""

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns the prediction is a function of; all positive. The response is always `loss`."""

    @property
    @abc.abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """The K parameters, in the order of the coordinates."""

    @property
    @abc.abstractmethod
    def level(self) -> str:
        """Parameter that every group (teacher, run) has for itself; it must be logarithmic."""

    @abc.abstractmethod
    def config(self) -> dict[str, float | str | None]:
        """Arguments that make this law again."""

    @abc.abstractmethod
    def check(self, columns: Columns, loss: Array, group: Index, labels: Sequence[object]) -> None:
        """Raises ValueError where the rows cannot determine the law.

        **Arguments:** `columns` and `loss` as in the table; `group` the index into `labels` of each row.
        """

    @abc.abstractmethod
    def limits(self, loss: Array) -> tuple[Array, Array]:
        """Lower and upper bound (each of shape K) of the coordinates, given the losses to be fitted."""

    @abc.abstractmethod
    def log_loss(self, theta: Sequence[Array], columns: Columns) -> Array:
        """log L. `theta` holds K arrays, each broadcasting against the columns on its last axis."""

    @abc.abstractmethod
    def gradient(self, theta: Sequence[Array], columns: Columns) -> tuple[Array, ...]:
        """The K exact derivatives of `log_loss` by the coordinates, in the same shapes."""

    @abc.abstractmethod
    def starts(
        self, columns: Columns, loss: Array, limits: tuple[Array, Array], count: int, rng: np.random.Generator
    ) -> Array:
        """Coordinates (count, K) to start from, the most plausible first.

        **Arguments:** everything in scaled units: `columns`, `loss`, and `limits` as from the method.
        """

    @abc.abstractmethod
    def units(self, scale: Mapping[str, float]) -> tuple[Array, Array]:
        """The affine map `matrix @ theta + offset` from scaled columns to the table's own units.

        **Arguments:** `scale` maps each column, and `"loss"`, to the value by which it was divided.
        """
