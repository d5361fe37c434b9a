"""Width, depth and data, each with a power of its own. Symbols: width m, depth l, tokens D."""

import dataclasses
from typing import final

from sweeps.laws._law import Law, Parameter, amplitude, exponent, floor


@final
@dataclasses.dataclass(frozen=True)
class WidthDepthDataLaw(Law):
    r"""Loss of language models by width, depth and data.

    $$L(m, \ell, D) = c_m\,m^{-\alpha_m} + c_\ell\,\ell^{-\alpha_\ell} + c_D\,D^{-\alpha_D} + L_0$$

    At alpha_m = alpha_l the best shape has m proportional to l at a fixed number of parameters.

    ??? cite "Reference"

        arXiv:2602.05970, the section on the Chinchilla data. Its fit (alpha_l = 1.2 +- 0.3, mean squared
        residual 3.068e-5) had not converged: the optimum on the same rows is 1.325 at 3.027e-5.
    """

    @property
    def name(self) -> str:
        return "width-depth-data"

    @property
    def formula(self) -> str:
        return "c_m * width**-alpha_m + c_l * depth**-alpha_l + c_D * num_tokens**-alpha_D + L_0"

    @property
    def columns(self) -> tuple[str, ...]:
        return "width", "depth", "num_tokens"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (
            amplitude("c_m", "loss x width^alpha_m"),
            exponent("alpha_m"),
            amplitude("c_l", "loss x depth^alpha_l"),
            exponent("alpha_l"),
            amplitude("c_D", "loss x token^alpha_D"),
            exponent("alpha_D", (0.05, 1.0)),
            floor("L_0"),
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return ("alpha_l",)
