"""The common fitter: laws of loss, fitted in float64 to any table, with what the data do not tell.

Knows numpy and scipy only. A law says what is fitted (`DepthLaw`, ..., `OwnLaw` for a formula of one's
own), an objective what is minimised, `fit` finds it, a `Fit` holds it, `regime` reads an exponent.
"""

from sweeps.laws._allocate import Allocation, allocate, equivalent
from sweeps.laws._chinchilla import ChinchillaLaw
from sweeps.laws._compare import Candidate, Comparison, compare
from sweeps.laws._compute import ComputeLaw
from sweeps.laws._crossover import CrossoverLaw
from sweeps.laws._depth import DepthLaw, local_exponents
from sweeps.laws._designs import DenseDesign, Design, LoopedDesign, WidthDepthDesign
from sweeps.laws._expression import evaluate
from sweeps.laws._finding import CODES, Finding
from sweeps.laws._fit import fit
from sweeps.laws._holdout import Holdout, holdout
from sweeps.laws._intervals import INTERVALS
from sweeps.laws._isoflop import IsoFlop, Parabola, isoflop, parabola, parabola_bias
from sweeps.laws._law import ArgumentError, Law, Parameter, amplitude, exponent, floor
from sweeps.laws._local import LocalExponent, local_exponents_of
from sweeps.laws._looped import LoopedLaw
from sweeps.laws._objective import OBJECTIVES, Huber, LogSquares, Objective, Squares, objective
from sweeps.laws._optimum import Status
from sweeps.laws._own import OwnLaw
from sweeps.laws._regime import Regime, regime
from sweeps.laws._result import LAWS, Estimate, Fit, Provenance
from sweeps.laws._sensitivity import scan
from sweeps.laws._width_depth_data import WidthDepthDataLaw

__all__ = [
    "CODES",
    "INTERVALS",
    "LAWS",
    "OBJECTIVES",
    "Allocation",
    "ArgumentError",
    "Candidate",
    "ChinchillaLaw",
    "Comparison",
    "ComputeLaw",
    "CrossoverLaw",
    "DenseDesign",
    "DepthLaw",
    "Design",
    "Estimate",
    "Finding",
    "Fit",
    "Holdout",
    "Huber",
    "IsoFlop",
    "Law",
    "LocalExponent",
    "LogSquares",
    "LoopedDesign",
    "LoopedLaw",
    "Objective",
    "OwnLaw",
    "Parabola",
    "Parameter",
    "Provenance",
    "Regime",
    "Squares",
    "Status",
    "WidthDepthDataLaw",
    "WidthDepthDesign",
    "allocate",
    "amplitude",
    "compare",
    "equivalent",
    "evaluate",
    "exponent",
    "fit",
    "floor",
    "holdout",
    "isoflop",
    "local_exponents",
    "local_exponents_of",
    "objective",
    "parabola",
    "parabola_bias",
    "regime",
    "scan",
]
