"""Two regimes of depth and the place where one gives way to the other.

Symbols: depth l, loss L, level c, exponents alpha (shallow) and beta (deep), crossover l_x, floor L_0.
"""

import dataclasses
from typing import final

from sweeps.laws._law import Law, Parameter, amplitude, exponent, floor


@final
@dataclasses.dataclass(frozen=True)
class CrossoverLaw(Law):
    r"""A power law of depth that bends once.

    $$L(\ell) = c\,\ell^{-\alpha}\,\bigl(1 + (\ell/\ell_x)^2\bigr)^{-(\beta-\alpha)/2} + L_0$$

    The local exponent is alpha + (beta - alpha) x^2 / (1 + x^2) at x = l / l_x: alpha far below l_x, beta far
    above it, their mean at l_x. Where a table does not reach far to both sides of the bend, fix what theory
    gives: `fix={"alpha": 1.0, "beta": 3.0}` for teachers whose weights drift along depth, of which l_x is in
    units of the table's `depth`; give l * correlation length as that, and one l_x serves all of them.

    Every group of replicates has a level c of its own.

    ??? cite "Reference"

        The two exponents are those of arXiv:2602.05970; the bend between them is this project's (the theory
        in `toymodels.theory`).
    """

    @property
    def name(self) -> str:
        return "crossover"

    @property
    def formula(self) -> str:
        return "c * depth**-alpha * (1 + (depth / l_x)**2)**((alpha - beta) / 2) + L_0"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("depth",)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (
            amplitude("c", "loss x depth^alpha"),
            exponent("alpha", (0.1, 2.0)),
            exponent("beta", (0.1, 4.0)),
            Parameter("l_x", "depth", lower=0.0, logarithmic=True, likely=(0.5, 50.0)),
            floor("L_0"),
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return "alpha", "beta", "l_x"

    @property
    def level(self) -> str | None:
        return "c"
