"""What the fitter asks of a law: a formula, its columns, its parameters.

A law speaks in *coordinates*: the parameter itself, or its logarithm where `Parameter.logarithmic` is set.
A parameter that the loss is linear in, such as c in c * depth**-alpha + L_0, is an *amplitude*: the fitter
finds that out from the formula, and projects amplitudes out of its starts and steps. So units change
amplitudes and nothing else.
"""

import abc
import dataclasses
import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class ArgumentError(ValueError):
    """A call that cannot be right, whatever the rows hold."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a law.

    **Fields:**

    - `name`: as in the formula, e.g. `"alpha"`.
    - `unit`: in words; `"1"` for a pure number, `""` where it is not known.
    - `lower`, `upper`: bounds of the value, in `unit`. Equal bounds fix the parameter.
    - `logarithmic`: the coordinate is the logarithm of the value, which is then positive by construction.
    - `likely`: where starts are drawn, for a parameter that is no amplitude; `None`: the fitter guesses.

    **Raises:** ArgumentError, a ValueError, for bounds that leave no value, a fixed value that is not finite,
    and a logarithmic parameter that could be 0 or less.
    """

    name: str
    unit: str
    lower: float = -math.inf
    upper: float = math.inf
    logarithmic: bool = False
    likely: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or not self.lower <= self.upper:
            raise ArgumentError(f"{self.name}: the bounds {self.lower:g} to {self.upper:g} leave no value.")
        if self.fixed and not math.isfinite(self.lower):
            raise ArgumentError(f"{self.name}: {self.lower} is not a finite number.")
        if self.logarithmic and (self.lower < 0 or (self.fixed and self.lower == 0)):
            raise ArgumentError(
                f"{self.name}: {self.lower:g} is not above 0, as its logarithm needs; to leave the term out, "
                "fit a law without it."
            )

    @property
    def fixed(self) -> bool:
        """Whether the bounds leave one value only."""
        return self.lower == self.upper

    def coordinate(self, value: float) -> float:
        """The coordinate of a value."""
        if not self.logarithmic:
            return value
        return math.log(value) if value > 0 else -math.inf

    def value(self, coordinate: Array | float) -> Array:
        """The value at a coordinate; overflow gives inf."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(coordinate) if self.logarithmic else np.asarray(coordinate, dtype=np.float64)


def amplitude(name: str, unit: str) -> Parameter:
    """A factor of a term, in `unit`: positive, with its logarithm as the coordinate."""
    return Parameter(name, unit, lower=0.0, logarithmic=True)


def exponent(name: str, likely: tuple[float, float] = (0.05, 2.5)) -> Parameter:
    """A pure number of either sign; `likely`: where starts are drawn."""
    return Parameter(name, "1", likely=likely)


def floor(name: str) -> Parameter:
    """A loss that no size goes below, in the units of the loss: zero or more."""
    return Parameter(name, "loss", lower=0.0)


class Law(abc.ABC):
    """A law of loss, as the fitter sees it. Subclasses are final, immutable values.

    A new law is a class with these five properties, and `level` where groups have one. `fit` takes it as it
    is; put into `sweeps.laws.LAWS` under its name, specs, the command line and saved fits find it too.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name by which the command line and a saved fit know the law."""

    @property
    @abc.abstractmethod
    def formula(self) -> str:
        """The loss in terms of columns and parameters, as `sweeps.laws._expression` reads it."""

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that the loss is a function of; all positive. The response is always `loss`."""

    @property
    @abc.abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """The K parameters, in the order of the coordinates."""

    @property
    @abc.abstractmethod
    def headline(self) -> tuple[str, ...]:
        """Parameters that the law is fitted for: where one is not identified, the fit has no answer."""

    @property
    def level(self) -> str | None:
        """An amplitude that every group of replicates has for itself; None: groups share everything."""
        return None

    @property
    def equation(self) -> str:
        """The law in one line."""
        return f"loss = {self.formula}"
