"""The joint law of looped models.

Symbols: parameters used once N_once (prelude and coda) and in the recurrent block N_rec, recurrences r,
tokens D, irreducible loss E, recurrence-equivalence exponent phi.
"""

import dataclasses
from typing import final

from sweeps.laws._law import Law, Parameter, amplitude, exponent, floor

LARGEST_PHI = 3.0
"""The box of arXiv:2604.21106: a block run twice is worth eight blocks at most, an eighth at least."""


@final
@dataclasses.dataclass(frozen=True)
class LoopedLaw(Law):
    r"""One law for all recurrences: a block that is run r times is worth r^phi blocks.

    $$L = E + A\,(N_\mathrm{once} + r^\varphi N_\mathrm{rec})^{-\alpha} + B\,D^{-\beta}$$

    phi = 0: running a block again is worth nothing; phi = 1: as much as blocks of their own. It lies within
    `LARGEST_PHI` of 0, and is determined only where r varies.

    ??? cite "Reference"

        arXiv:2604.21106, the section on the joint law: phi = 0.459 [0.41, 0.53] of 116 runs.
    """

    @property
    def name(self) -> str:
        return "looped"

    @property
    def formula(self) -> str:
        return "E + A * (num_once + num_recur**phi * num_recurrent)**-alpha + B * num_tokens**-beta"

    @property
    def columns(self) -> tuple[str, ...]:
        return "num_once", "num_recurrent", "num_recur", "num_tokens"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (
            floor("E"),
            amplitude("A", "loss x parameter^alpha"),
            exponent("alpha", (0.05, 1.5)),
            amplitude("B", "loss x token^beta"),
            exponent("beta", (0.05, 1.5)),
            Parameter("phi", "1", lower=-LARGEST_PHI, upper=LARGEST_PHI, likely=(-0.5, 1.5)),
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return ("phi",)
