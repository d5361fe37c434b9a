"""Compute alone. Symbols: training FLOPs C, irreducible loss E."""

import dataclasses
from typing import final

from sweeps.laws._law import Law, Parameter, amplitude, exponent, floor


@final
@dataclasses.dataclass(frozen=True)
class ComputeLaw(Law):
    r"""Loss as an inverse power of compute, above a floor: what the best shape at each budget reaches.

    $$L(C) = E + A\,C^{-\alpha}$$

    ??? cite "Reference"

        Kaplan et al., arXiv:2001.08361, section 6.
    """

    @property
    def name(self) -> str:
        return "compute"

    @property
    def formula(self) -> str:
        return "E + A * flops**-alpha"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("flops",)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return floor("E"), amplitude("A", "loss x FLOP^alpha"), exponent("alpha", (0.01, 1.0))

    @property
    def headline(self) -> tuple[str, ...]:
        return ("alpha",)
