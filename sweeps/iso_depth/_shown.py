"""The tables of an analysis for a terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sweeps.iso_depth._analysis import IsoDepth

if TYPE_CHECKING:
    from rich.table import Table


def tables(found: IsoDepth) -> "list[Table]":
    """The laws, residuals, frontier and best sizes."""
    return [_architectures(found), _joint(found), _residuals(found), *_frontier(found), *_optima(found)]


def _table(title: str, names: Iterable[str], rows: Iterable[Sequence[Any]]) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else _number(value) for value in row))
    return table


def _number(value: float | None) -> str:
    """Four figures, and of losses and exponents four decimals."""
    if value is None or value != value:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if 1e-4 <= abs(value) < 100 else f"{value:.4g}"


def _architectures(found: IsoDepth) -> "Table":
    names = ("r", "runs", "E", "A", "alpha", "B", "beta", "R^2", "RMSE", "fit")
    rows = []
    for one in found.architectures:
        values: list[Any] = ["-"] * 5
        if one.fit is not None:
            values = [one.fit.estimates[name] for name in names[2:7]]
        status = "refused" if one.fit is None else str(one.fit.status)
        rows.append([one.num_recur, one.rows, *values, one.r_squared, one.rmse, status])
    return _table("Each r: loss = E + A num_params^-alpha + B num_tokens^-beta (RMSE in nats)", names, rows)


def _joint(found: IsoDepth) -> "Table":
    names = ["law", "phi", "95 % interval", "E", "alpha", "beta"]
    names += ["R^2", "RMSE", "held out", "excluded", "fit"]
    rows = []
    for one in found.joint:
        phi = one.fit.parameters["phi"]
        ends = "fixed" if phi.fixed else f"{_number(phi.interval[0])} to {_number(phi.interval[1])}"
        excluded = {None: "-", True: "yes", False: "no"}[one.excluded]
        values = [one.fit.estimates[name] for name in ("E", "alpha", "beta")]
        out = f"{100 * one.held_out:.3g} %"
        status = str(one.fit.status)
        rows.append([one.name, phi.estimate, ends, *values, one.r_squared, one.rmse, out, excluded, status])
    for half in found.halves:
        if half.fit is not None and half.phi is not None:
            ends = f"{_number(half.phi.interval[0])} to {_number(half.phi.interval[1])}"
            values = [half.fit.estimates[name] for name in ("E", "alpha", "beta")]
            name = f"{half.name} budgets"
            rows.append([name, half.phi.estimate, ends, *values, "-", "-", "-", "-", str(half.fit.status)])
    objective = found.free.fit.objective_kind.name
    return _table(
        "All r: loss = E + A (num_once + r^phi num_recurrent)^-alpha + B num_tokens^-beta\n"
        f"({objective}; RMSE in nats; held out: rms of log loss in cells that were left out)",
        names,
        rows,
    )


def _residuals(found: IsoDepth) -> "Table":
    rows = [(one.num_recur, one.rows, one.mean, one.rmse) for one in found.free.residuals]
    return _table(
        "Residuals of phi free, predicted less observed, in nats", ("r", "runs", "mean", "RMSE"), rows
    )


def _frontier(found: IsoDepth) -> "list[Table]":
    names = ("budget", "r", "N*", "D*", "loss*", "±", "gap to r = 1", "±", "from")
    rows = [
        (
            f"{cell.budget:.3g}",
            cell.num_recur,
            cell.num_params,
            cell.num_tokens,
            cell.loss,
            cell.error,
            cell.gap,
            cell.gap_error,
            "parabola" if cell.from_parabola else "best run",
        )
        for cell in found.cells
    ]
    out = [_table("Frontier: minima of parabolas in log N (±: standard errors, nats)", names, rows)]
    if found.growth:
        grown = [(one.num_recur, one.column, one.exponent, one.error, one.budgets) for one in found.growth]
        title = "Growth of the minima with compute: C^exponent"
        out.append(_table(title, ("r", "column", "exponent", "±", "budgets"), grown))
    return out


def _beyond(note: str) -> str:
    """The note of an allocation in a word or two."""
    return "no optimum" if note.startswith("No optimum") else "extrapolated" if "Extrapolated" in note else ""


def _optima(found: IsoDepth) -> "list[Table]":
    if not found.optima:
        return []
    rows = [
        (
            f"{row['flops']:.3g}",
            row["num_recur"],
            f"{row['width']:.0f}",
            *(row[name] for name in ("num_params", "num_tokens", "loss", "equivalent")),
            f"{row['equivalent_lower']:.4g} to {row['equivalent_upper']:.4g}",
            _beyond(row["note"]),
        )
        for row in found.optima
    ]
    names = ("budget", "r", "width", "N*", "D*", "loss*", "N at r = 1", "95 % interval", "")
    title = (
        "Best sizes by the joint law, and the size that a model without recurrence needs to equal it\n"
        "(its interval: of phi alone, at that best size)"
    )
    out = [_table(title, names, rows)]
    grown = [
        (row["num_recur"], row["column"], row["exponent"], f"{row['lower']:.3f} to {row['upper']:.3f}")
        for row in found.optima_growth
        if row["column"] in ("num_params", "num_tokens")
    ]
    if grown:
        title = "Growth of the best sizes by the joint law: C^exponent"
        out.append(_table(title, ("r", "column", "exponent", "95 % interval"), grown))
    return out
