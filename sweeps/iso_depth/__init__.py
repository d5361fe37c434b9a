"""What an iso-depth, iso-FLOP grid of looped language models says (arXiv:2604.21106).

A grid has a row a run: budgets x widths x recurrences r, all of one executed depth. `analyse` fits it with
`sweeps.laws`, reads its parabolas and says what is not known; `delta_phi` sets two grids against each other.
Needs no language model: any table with the columns `COLUMNS` will do.
"""

from sweeps.iso_depth._analysis import IsoDepth, analyse, as_json, caveats, sentences
from sweeps.iso_depth._delta import DeltaPhi, delta_phi
from sweeps.iso_depth._design import GridDesign
from sweeps.iso_depth._frontier import Cell, Growth, Order
from sweeps.iso_depth._grid import CELLS, COLUMNS, Run
from sweeps.iso_depth._noise import Noise
from sweeps.iso_depth._phi import Architecture, Half, Joint, Residuals
from sweeps.iso_depth._saved import Saved, saved

__all__ = [
    "CELLS",
    "COLUMNS",
    "Architecture",
    "Cell",
    "DeltaPhi",
    "GridDesign",
    "Growth",
    "Half",
    "IsoDepth",
    "Joint",
    "Noise",
    "Order",
    "Residuals",
    "Run",
    "Saved",
    "analyse",
    "as_json",
    "caveats",
    "delta_phi",
    "saved",
    "sentences",
]
