"""What a budget buys: from FLOPs and a shape to the columns of a law.

Symbols: training FLOPs C, parameters N, tokens D, width m (d in looped models), depth l, recurrences r.
A design has free shape variables, and variants, choices that are tried one by one.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import final

import numpy as np

from sweeps.laws._law import Array


class Design(abc.ABC):
    """How a budget is spent. Subclasses are final, immutable values; one of one's own is three methods.

    !!! Example

        ```python
        @dataclasses.dataclass(frozen=True)
        class Narrow(Design):  # depth 12, C = 6 N D with N = 12 m^2 l
            @property
            def shape(self):
                return ("width",)

            def ranges(self, flops):
                return ((1.0, math.sqrt(flops / (72 * 12))),)  # the widest is trained on one token

            def columns(self, flops, variant, width):
                size = 12 * width**2 * 12
                return {"width": width, "num_params": size, "num_tokens": flops / (6 * size)}
        ```
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[str, ...]:
        """Names of the free variables, all positive; iso-FLOP profiles run along the first."""

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        """Choices, each a name -> value; one empty choice where there is nothing to choose."""
        return ({},)

    @abc.abstractmethod
    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        """Lowest and highest value of each free variable that is looked at."""

    @abc.abstractmethod
    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        """The law's columns, and what else is to be reported, at free variables of one shape.

        **Arguments:** `flops` the budget; `variant` one of `variants`; `shape` the free variables, in order.
        """


@final
@dataclasses.dataclass(frozen=True)
class DenseDesign(Design):
    """A model of N parameters on D tokens, C = 6 N D (Kaplan et al., arXiv:2001.08361, section 2.1)."""

    @property
    def shape(self) -> tuple[str, ...]:
        return ("num_params",)

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return ((1.0, flops / 6),)

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        (size,) = shape
        return {"num_params": size, "num_tokens": flops / (6 * size)}


@final
@dataclasses.dataclass(frozen=True)
class WidthDepthDesign(Design):
    """A transformer of width m and depth l: N = 12 m^2 l without embedding, C = 6 N D."""

    @property
    def shape(self) -> tuple[str, ...]:
        return "width", "depth"

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return (1.0, math.sqrt(flops / 72)), (1.0, flops / 72)

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        width, depth = shape
        size = 12 * width**2 * depth
        return {"width": width, "depth": depth, "num_params": size, "num_tokens": flops / (6 * size)}


@final
@dataclasses.dataclass(frozen=True)
class LoopedDesign(Design):
    r"""A looped transformer: prelude, a block of `layers` / r layers that is run r times, coda.

    $$n_b = 12 d^2, \quad N_\mathrm{once} = (\mathrm{prelude} + \mathrm{coda})\,n_b, \quad
    N_\mathrm{rec} = \tfrac{\mathrm{layers}}{r}\,n_b + n_i$$

    $$C / D = 6\,(N_\mathrm{once} + r N_\mathrm{rec}) + 12\,d\,T\,\ell + 6\,d\,V$$

    with the injection matrix n_i = 2 d^2 where r > 1 (linear injection; 0 for additive and passthrough), and
    l = prelude + coda + layers executed layers; the last term is the head's. Norm scales, embedding and head
    are not counted as parameters; tokens are not rounded to whole batches.

    **Arguments:** `context` T and `vocabulary` V in tokens; `layers`, `prelude`, `coda` in layers;
    `injection` whether it has a matrix; `recurrences` the r to choose from, divisors of `layers`.

    **Raises:** ValueError for recurrences that do not divide the layers, and sizes below 1.

    ??? cite "Reference"

        arXiv:2604.21106, the sections on models and on FLOPs.
    """

    context: int = 2048
    vocabulary: int = 32064
    layers: int = 16
    prelude: int = 2
    coda: int = 2
    injection: bool = True
    recurrences: tuple[int, ...] = (1, 2, 4, 8)

    def __post_init__(self) -> None:
        if not self.recurrences or any(r < 1 or self.layers % r for r in self.recurrences):
            raise ValueError(
                f"recurrences: {self.recurrences} are not all divisors of layers = {self.layers}; the block "
                "has layers / r layers, so give divisors."
            )
        for name in ("context", "vocabulary", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name}: {getattr(self, name)} is less than 1; give a positive whole number."
                )

    @property
    def shape(self) -> tuple[str, ...]:
        return ("width",)

    @property
    def variants(self) -> tuple[Mapping[str, float], ...]:
        return tuple({"num_recur": r} for r in self.recurrences)

    def ranges(self, flops: float) -> tuple[tuple[float, float], ...]:
        return ((1.0, max(math.sqrt(flops / (72 * self.executed)), 2.0)),)

    @property
    def executed(self) -> int:
        """Layers that a token goes through."""
        return self.prelude + self.coda + self.layers

    def flops_per_token(self, width: Array, num_recur: float) -> Array:
        """Training FLOPs."""
        once, recurrent = self._parameters(width, num_recur)
        attention = 12 * width * self.context * self.executed
        return 6 * (once + num_recur * recurrent) + attention + 6 * width * self.vocabulary

    def columns(self, flops: float, variant: Mapping[str, float], *shape: Array) -> dict[str, Array]:
        (width,) = shape
        r = variant["num_recur"]
        once, recurrent = self._parameters(width, r)
        return {
            "width": width,
            "num_once": once,
            "num_recurrent": recurrent,
            "num_recur": np.full_like(width, r),
            "num_params": once + recurrent,
            "num_tokens": flops / self.flops_per_token(width, r),
        }

    def _parameters(self, width: Array, r: float) -> tuple[Array, Array]:
        block = 12 * np.square(width)
        matrix = 2 * np.square(width) if self.injection and r > 1 else 0.0
        return (self.prelude + self.coda) * block, self.layers / r * block + matrix
