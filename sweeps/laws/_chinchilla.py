"""Parameters and data. Symbols: parameters N, tokens D, irreducible loss E."""

import dataclasses
from typing import final

from sweeps.laws._law import Law, Parameter, amplitude, exponent, floor


@final
@dataclasses.dataclass(frozen=True)
class ChinchillaLaw(Law):
    r"""Loss of language models by size and data.

    $$L(N, D) = E + A\,N^{-\alpha} + B\,D^{-\beta}$$

    ??? cite "Reference"

        Hoffmann et al., arXiv:2203.15556, equation 2; for each architecture of arXiv:2604.21106.
    """

    @property
    def name(self) -> str:
        return "chinchilla"

    @property
    def formula(self) -> str:
        return "E + A * num_params**-alpha + B * num_tokens**-beta"

    @property
    def columns(self) -> tuple[str, ...]:
        return "num_params", "num_tokens"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (
            floor("E"),
            amplitude("A", "loss x parameter^alpha"),
            exponent("alpha", (0.05, 1.5)),
            amplitude("B", "loss x token^beta"),
            exponent("beta", (0.05, 1.5)),
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return "alpha", "beta"
