"""A grid analysed: fits, parabolas, frontier, noise, and what all of it comes to in words."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweeps.iso_depth import _frontier as frontier
from sweeps.iso_depth._design import GridDesign, design, optima
from sweeps.iso_depth._frontier import Cell, Growth, Order
from sweeps.iso_depth._grid import Run, read
from sweeps.iso_depth._noise import Noise, noise
from sweeps.iso_depth._phi import Architecture, Half, Joint, architectures, halves, joints
from sweeps.laws import Estimate, Fit, Huber, Objective

if TYPE_CHECKING:
    import polars as pl

    from sweeps.iso_depth._delta import DeltaPhi


@dataclass(frozen=True)
class IsoDepth:
    """What a grid says.

    **Fields:** `runs` that were fitted, in canonical order; `diverged` rows left out; `architectures`, a
    Chinchilla law for each r; `joint`, the looped law with phi free, 0 and 1; `halves`, phi of the lower and
    the upper budgets; `cells` of the frontier, their `orders` at each budget and `growth` with compute;
    `design`, the grid's accounting (None where it could not be read off), `optima` and `optima_growth`, the
    best and the equivalent sizes by the joint law; `noise` of repeated runs (None: none is repeated); `notes`
    on the table.
    """

    runs: tuple[Run, ...]
    diverged: int
    architectures: tuple[Architecture, ...]
    joint: tuple[Joint, ...]
    halves: tuple[Half, ...]
    cells: tuple[Cell, ...]
    orders: tuple[Order, ...]
    growth: tuple[Growth, ...]
    design: GridDesign | None
    optima: tuple[Mapping[str, Any], ...]
    optima_growth: tuple[Mapping[str, Any], ...]
    noise: Noise | None
    notes: tuple[str, ...]

    @property
    def free(self) -> Joint:
        """The joint law with phi free."""
        return self.joint[0]

    @property
    def phi(self) -> Estimate:
        """With its interval; its `identified` says whether the rows bound it, which those of a single budget
        do not: there what size and what data do cannot be told apart."""
        found = self.free.fit.parameters["phi"]
        several = len({run.budget for run in self.runs}) > 1
        return dataclasses.replace(found, identified=found.identified and several)

    @property
    def monotone(self) -> bool | None:
        """Whether the frontier's loss rises with r at every budget; None where no budget has two r."""
        return all(order.rises for order in self.orders) if self.orders else None


def analyse(
    table: "pl.DataFrame",
    *,
    injection: str | None = None,
    objective: Objective | None = None,
    resamples: int | None = None,
    starts: int = 64,
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
) -> IsoDepth:
    r"""The analysis of an iso-depth, iso-FLOP grid.

    $$L = E + A\,(N_\mathrm{once} + r^\varphi N_\mathrm{rec})^{-\alpha} + B\,D^{-\beta}$$

    **Arguments:**

    - `table`: a row a run, with the columns `COLUMNS` and `loss` (nats a token); rows without a loss, or of
      status `diverged`, are left out and counted.
    - `injection`: take the runs of r = 1 and those that are injected so; needed where there are several.
    - `objective`: of every fit; `Huber(1e-3)` if not given, as in the paper.
    - `resamples`, `starts`, `seed`, `source`: as in `sweeps.laws.fit`. The bootstrap of phi draws cells of
      (budget, r), each with all its widths and seeds.

    The order of the rows changes nothing.

    **Raises:** ConfigError and BadTable for a table that is no grid: the message says what and where.

    ??? cite "Reference"

        arXiv:2604.21106, the sections on the joint law and on compute-optimal sizes.
    """
    objective = Huber(1e-3) if objective is None else objective
    grid = read(table, injection)
    joint = joints(grid, objective, resamples, starts, seed, dict(source or {}))
    cells = frontier.frontier(grid)
    notes = list(grid.notes)
    found_plan = design(grid)
    plan = None if isinstance(found_plan, str) else found_plan
    best: list[dict[str, Any]] = []
    grown: list[dict[str, Any]] = []
    if isinstance(found_plan, str):
        notes.append(f"No best sizes by the law: {found_plan}")
    elif joint[0].fit.trusted:
        best, grown = optima(joint[0].fit, found_plan, grid.budgets)
    return IsoDepth(
        runs=grid.runs,
        diverged=grid.diverged,
        architectures=architectures(grid, objective, starts),
        joint=joint,
        halves=halves(grid, objective, resamples, starts, seed),
        cells=cells,
        orders=frontier.orders(cells),
        growth=frontier.growth(cells),
        design=plan,
        optima=tuple(best),
        optima_growth=tuple(grown),
        noise=noise(grid),
        notes=tuple(notes),
    )


def caveats(found: IsoDepth) -> list[str]:
    """What is not known, and what was left out."""
    said = list(found.notes)
    said += [f"joint law: {_named(note, found.runs)}" for note in found.free.fit.notes]
    for one in found.architectures:
        if one.fit is None:
            said.append(f"r = {one.num_recur}: no fit: {one.problem}")
            continue
        if not one.fit.trusted:
            said.append(f"r = {one.num_recur}: not to be trusted: the fit is {one.fit.status}.")
        loose = [name for name in one.fit.law.headline if not one.fit.parameters[name].identified]
        if loose:
            said.append(f"r = {one.num_recur}: its runs alone do not bound {' and '.join(loose)}.")
    said += [f"{half.name} budgets: no phi: {half.reason}." for half in found.halves if half.fit is None]
    for cell in found.cells:
        if not cell.from_parabola:
            said.append(f"C = {cell.budget:g}, r = {cell.num_recur}: {cell.reason}.")
    return said


def _named(note: str, runs: tuple[Run, ...]) -> str:
    """A sentence of the fitter, with runs where it counts rows."""
    return re.sub(r"\brow (\d+)", lambda match: f"the run of {runs[int(match[1])].described}", note)


def sentences(found: IsoDepth) -> list[str]:
    """The answers, in a sentence each."""
    phi, joint = found.phi, found.free
    said = []
    if phi.identified:
        low, high = phi.interval
        most = max(run.num_recur for run in found.runs)
        said.append(
            f"phi = {phi.estimate:.3f} [{low:.3f}, {high:.3f}]: running a block {most} times is worth "
            f"{most**phi.estimate:.2f} blocks of their own (95 % interval: {joint.fit.interval_method})."
        )
    else:
        said.append(f"phi is not identified by these runs (the fit is {joint.fit.status}).")
    for other in found.joint[1:]:
        by_interval = {True: "excluded", False: "not excluded", None: "not judged"}[other.excluded]
        test = other.test
        by_ratio = ""
        if test is not None:
            by_ratio = f"; {test.reason}"
            if math.isfinite(test.p):
                by_ratio = f" (a ratio test, which takes runs as independent, has p = {test.p:.2g})"
        said.append(
            f"{other.name} is {by_interval} by that interval{by_ratio}; R^2 {other.r_squared:.4f} against "
            f"{joint.r_squared:.4f}."
        )
    parts = []
    for half in found.halves:
        if half.phi is not None:
            low, high = half.phi.interval
            unsure = "" if half.phi.identified else " (not identified)"
            parts.append(f"{half.name} budgets {half.phi.estimate:.3f} [{low:.3f}, {high:.3f}]{unsure}")
    if parts:
        said.append(f"phi by budget: {'; '.join(parts)}.")
    return said + _of_frontier(found) + _of_noise(found)


def _of_frontier(found: IsoDepth) -> list[str]:
    said = []
    if found.orders:
        steps, clear = (sum(getattr(order, name) for order in found.orders) for name in ("steps", "resolved"))
        of_steps = (
            f"{clear} of the {steps} steps from one r to the next are beyond twice their standard error"
        )
    if found.monotone:
        least = min(found.orders, key=lambda order: order.step)
        said.append(
            f"The frontier's loss rises with r at every budget; {of_steps}, the smallest is "
            f"{_with_error(least)} nats at C = {least.budget:g}."
        )
    elif found.monotone is False:
        wrong = [order for order in found.orders if not order.rises]
        which = "; ".join(f"C = {order.budget:g}, by {_with_error(order, -1)} nats" for order in wrong)
        said.append(
            f"The frontier's loss does not rise with r at every budget: it falls at {which}; {of_steps}."
        )
    gaps: dict[int, list[float]] = {}
    for cell in found.cells:
        if cell.gap is not None and cell.num_recur > 1:
            gaps.setdefault(cell.num_recur, []).append(cell.gap)
    if gaps:
        parts = [f"r = {r}: {min(g):.4f} to {max(g):.4f}" for r, g in sorted(gaps.items())]
        said.append(f"Gap of the frontier to r = 1 over the budgets, in nats: {'; '.join(parts)}.")
    return said


def _with_error(order: Order, sign: int = 1) -> str:
    """Its smallest step."""
    return f"{sign * order.step:.4f}" + ("" if order.step_error is None else f" ± {order.step_error:.4f}")


def _of_noise(found: IsoDepth) -> list[str]:
    known, rmse = found.noise, found.free.rmse
    if known is None:
        return ["No two runs differ only in their seed: how much of the residuals is noise is not known."]
    low, high = known.interval
    return [
        f"Runs that differ only in their seed scatter by {known.sd:.4f} [{low:.4f}, {high:.4f}] nats "
        f"({known.freedom} degrees of freedom, {known.cells} cells); residuals of the joint law have an RMSE "
        f"of {rmse:.4f}."
    ]


def as_json(found: "IsoDepth | DeltaPhi") -> dict[str, Any]:
    """An analysis, or a difference of two, as JSON values; a number that is not finite is null.

    Fits are as `Fit.to_json` writes them, so that `Fit.from_json` reads them back; but without the
    replicates of the bootstrap, which are most of it and come again from the table and the seed: those of phi
    alone are `phi_draws`.
    """
    tree = _plain(found)
    if isinstance(found, IsoDepth):
        tree |= {"phi": _plain(found.phi), "monotone": found.monotone, "answers": sentences(found)}
        law = found.free.fit
        if "phi" in law.free:
            place = law.free.index("phi")
            tree["phi_draws"] = [_plain(row[place]) for row in law.replicates]
    return dict(tree)


def _plain(value: Any) -> Any:
    if isinstance(value, Fit):
        return json.loads(dataclasses.replace(value, replicates=()).to_json())
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
