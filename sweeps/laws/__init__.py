"""The common fitter: laws of loss, fitted in float64 to any table, with what the data do not tell.

Knows numpy and scipy only. A law says what is fitted (`DepthLaw`), `fit` finds it, a `Fit` holds it, `regime`
reads an exponent.
"""

from sweeps.laws._depth import DepthLaw, local_exponents
from sweeps.laws._fit import fit
from sweeps.laws._law import Law, Parameter
from sweeps.laws._regime import Regime, regime
from sweeps.laws._result import Fit, Provenance, Status

__all__ = [
    "DepthLaw",
    "Fit",
    "Law",
    "Parameter",
    "Provenance",
    "Regime",
    "Status",
    "fit",
    "local_exponents",
    "regime",
]
