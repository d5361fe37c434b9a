"""A fitted law against its table: its parts, what is left over, and how well the headline is known.

    depthlaw fit table.csv --law width-depth-data --plot fit.png

A *part* is the terms of the law that share columns; the terms are what the formula adds and subtracts. Its
*partial loss* is the observed loss less all other terms, so that the part shows as it is: c * depth**-alpha
as a straight line on log axes. A part of one column is drawn against that column; a power of something that
holds all its columns, such as (N_once + r^phi N_rec)^-alpha, against that; any other against its value in the
fit. Compare arXiv:2602.05970 and arXiv:2604.21106, the figures of their fits.
"""

import ast
import dataclasses
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from scipy import stats

from figures import _style
from sweeps.laws import Fit, Law, Parameter
from sweeps.laws import fit as refit
from sweeps.laws._expression import amplitudes, parse
from sweeps.laws._law import Array, Mask
from sweeps.laws._table import Label, Rows, Table, read

COLOURS = (_style.BLUE, _style.ORANGE, _style.GREEN, _style.RED, "#CC79A7", "#56B4E9")
MARKERS = "os^Dvp"
MOST_POINTS = 5000  # of a scatter: more are thinned evenly, in the order of the fit's rows
MOST_PARTS, MOST_LINES = 12, 200  # parts, lines of groups
GRID = 100  # points of a line
FAINT = 1e-6  # of its largest value, below which a term has vanished

MOST_PROFILES = 4
REFITS, MOST_OF_ONE = 28, 14  # of all profiles together and of each: 1 to 2 s for a few hundred rows
MOST_REFITTED = 5000  # rows: beyond, a refit takes seconds, and a profile is a parabola
REACH = 1.5  # of the interval, that a profile covers

BASE = "base__"  # stands for the base of a power in a formula
GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon eta theta kappa lambda mu nu rho sigma tau phi psi omega".split(),
        "αβγδεηθκλμνρστφψω",
        strict=True,
    )
)
AXES = {
    "width": "width m",
    "depth": "depth ℓ (layers)",
    "num_tokens": "training tokens D",
    "num_params": "parameters N",
    "num_recur": "recurrences r",
    "flops": "training compute C (FLOP)",
}

Terms = list[tuple[int, ast.expr]]
"""Terms of a formula with their signs."""


@final
@dataclass(frozen=True)
class _Piece(Law):
    """A piece of a law's formula with all the law's parameters: a fit with it predicts the piece alone."""

    whole: Law
    text: str
    variables: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def formula(self) -> str:
        return self.text

    @property
    def columns(self) -> tuple[str, ...]:
        return self.variables

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.whole.parameters

    @property
    def headline(self) -> tuple[str, ...]:
        return self.whole.headline


@dataclass(frozen=True)
class Points:
    """A scatter: `x`, `y` (n,) of what is drawn; `hue` (n,) and what it is, where points are told apart.

    Of `rows` rows, `lost` have no place on the axes: they are not above `least`. The others are drawn,
    thinned evenly where there are more than MOST_POINTS.
    """

    x: Array
    y: Array
    hue: Array
    rows: int
    lost: int = 0
    least: float = 0.0

    @property
    def said(self) -> str:
        """How many rows are drawn, and why not the others."""
        shown = self.rows - self.lost
        out = f"{shown} rows" + (f", {self.x.size} of them drawn" if self.x.size < shown else "")
        return out + (f"; {self.lost} not above {self.least:.2g}" if self.lost else "")


@dataclass(frozen=True)
class Part:
    """A part of the law against data.

    **Fields:** `columns` in it; `text` the part; `points`, partial losses; `x`, `y` (k,) the fitted line, and
    `low`, `high` its interval or None; `lines` label -> (k,) the line of each group with levels of its own;
    `hue` what the points' colours say ("" for nothing), `hues` the values' names where they are few.
    """

    columns: tuple[str, ...]
    text: str
    xlabel: str
    ylabel: str
    points: Points
    x: Array
    y: Array
    low: Array | None
    high: Array | None
    lines: dict[Label | None, Array]
    hue: str
    hues: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """How the fit gets worse away from a parameter's estimate.

    **Fields:** `at` (k,) values; `rise` (k,) the square root of the objective's rise, where `normalised` over
    the rise at which a value stops being compatible; `refitted` False: a parabola from the curvature, without
    refits; `better` a value that fits better than the estimate, None as it should be.
    """

    name: str
    at: Array
    rise: Array
    normalised: bool
    refitted: bool
    better: float | None


@dataclass(frozen=True)
class Panels:
    """All that is drawn: `residuals` in per cent against predicted loss, `scatter` their root mean square;
    `hidden` the number of parts beyond MOST_PARTS."""

    parts: list[Part]
    hidden: int
    residuals: Points
    scatter: float
    profiles: list[Profile]


def compute(fit: Fit, table: Table) -> Panels:
    """The panels of a fit and the table that it was made of.

    Raises ValueError where the table is another one: residuals would be those of other rows.
    """
    rows = read(fit.law, table, fit.provenance.group_columns, fit.weights, fit.noise, fit.drop_top)
    if rows.sha256() != fit.provenance.data_sha256:
        raise ValueError("the table is not the one that this fit was made of: fit it, or name that one.")
    with np.errstate(all="ignore"):  # a fit that failed predicts nan
        predicted = _of_rows(fit, rows)
        percent = 100 * np.log(predicted / rows.loss)
        pieces = _pieces(fit.law)
        sought = [name for name in _headline(fit) if name in fit.free and name not in fit.levels]
        return Panels(
            parts=[_part(fit, rows, predicted, *piece) for piece in pieces[:MOST_PARTS]],
            hidden=max(len(pieces) - MOST_PARTS, 0),
            residuals=_points(predicted, percent, np.isfinite(percent), np.zeros(percent.size)),
            scatter=float(np.sqrt(np.mean(percent**2))),
            profiles=[_profile(fit, rows, table, name, REFITS // len(sought)) for name in sought],
        )


def _headline(fit: Fit) -> tuple[str, ...]:
    """Headline parameters to show: of many, those that are not factors of a term."""
    names = fit.law.headline
    if len(names) > MOST_PROFILES:
        factors = amplitudes(fit.law.formula, fit.law.columns)
        names = tuple(name for name in names if name not in factors) or names
    return names[:MOST_PROFILES]


def _signed(tree: ast.expr, sign: int = 1) -> Terms:
    """What a formula's outermost sums add and subtract, with the signs."""
    match tree:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return _signed(left, sign) + _signed(right, -sign if isinstance(op, ast.Sub) else sign)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            return _signed(operand, -sign if isinstance(op, ast.USub) else sign)
    return [(sign, tree)]


def _terms(law: Law) -> Terms:
    return _signed(ast.parse(law.formula.strip(), mode="eval").body)


def _names(term: ast.expr) -> list[str]:
    return parse(ast.unparse(term)).names()


def _pieces(law: Law) -> list[tuple[tuple[str, ...], Terms]]:
    """The parts of a law, their columns and signed terms, in the order of the columns."""
    found: list[tuple[set[str], Terms]] = []
    for sign, term in _terms(law):
        mine = set(_names(term)) & set(law.columns)
        joined = [piece for piece in found if piece[0] & mine]
        if mine:
            found = [piece for piece in found if piece not in joined]
            terms = [pair for piece in joined for pair in piece[1]]
            found.append((mine.union(*(piece[0] for piece in joined)), [*terms, (sign, term)]))
    ordered = [(tuple(name for name in law.columns if name in mine), terms) for mine, terms in found]
    return sorted(ordered, key=lambda piece: law.columns.index(piece[0][0]))


def _base(terms: Terms, columns: tuple[str, ...]) -> ast.expr | None:
    """The innermost base of a power that has all columns of a part in it, such as N_once + r^phi N_rec."""

    def count(tree: ast.expr) -> int:
        return sum(isinstance(node, ast.Name) and node.id in columns for node in ast.walk(tree))

    (_, term), *more = terms
    powers = [node for node in ast.walk(term) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    bases = [power.left for power in powers if count(power.left) == count(term)]
    return bases[-1] if bases and not more else None


def _swapped(term: ast.expr, base: ast.expr) -> ast.expr:
    """The term with the name BASE in the place of its base."""
    for node in ast.walk(term):
        if isinstance(node, ast.BinOp) and node.left is base:
            node.left = ast.Name(BASE)
    return term


def _text(terms: Terms) -> str:
    """The formula of signed terms."""
    texts = [f"{'+' if sign > 0 else '-'} {ast.unparse(term)}" for sign, term in terms]
    return " ".join(texts).removeprefix("+ ")


def _only(fit: Fit, text: str, variables: tuple[str, ...]) -> Fit:
    return dataclasses.replace(fit, law=_Piece(fit.law, text, variables))


def _of_rows(fit: Fit, rows: Rows) -> Array:
    """Predictions (n,), each with its group's own levels."""
    columns = [rows.columns[name] for name in fit.law.columns]
    if not fit.levels:
        return fit.predict(*columns)
    ends = np.searchsorted(rows.group, np.arange(len(rows.labels) + 1))  # rows are sorted by group
    parts = [
        fit.predict(*(column[start:end] for column in columns), group=label)
        for label, start, end in zip(rows.labels, ends[:-1], ends[1:], strict=True)
    ]
    return np.concatenate(parts)


def _points(x: Array, y: Array, good: Mask, hue: Array, least: float = 0.0) -> Points:
    """The good ones, thinned evenly."""
    places = np.flatnonzero(good)
    kept = places
    if places.size > MOST_POINTS:
        kept = places[np.linspace(0, places.size - 1, MOST_POINTS).round().astype(np.intp)]
    return Points(x[kept], y[kept], hue[kept], x.size, x.size - places.size, least)


def _part(fit: Fit, rows: Rows, predicted: Array, columns: tuple[str, ...], terms: Terms) -> Part:
    value = _of_rows(_only(fit, _text(terms), columns), rows)
    flip = -1 if np.median(value) < 0 else 1  # e.g. of E - A n^a
    terms = [(flip * sign, term) for sign, term in terms]
    value = flip * value
    partial = value + flip * (rows.loss - predicted)  # the loss less the other terms
    text, whole = _text(terms), len(terms) == len(_terms(fit.law))
    base = _base(terms, columns) if len(columns) > 1 else None
    x, xlabel, single, least = value, f"{'law' if whole else 'these terms'} as fitted", None, 0.0
    if len(columns) == 1:
        x, xlabel = rows.columns[columns[0]], AXES.get(columns[0], shown(columns[0]))
        single = _only(fit, text, columns)
    elif base is not None:
        size = _of_rows(_only(fit, ast.unparse(base), columns), rows)
        if (size > 0).all():
            x, xlabel = size, _pretty(ast.unparse(base))
            single = _only(fit, _text([(sign, _swapped(term, base)) for sign, term in terms]), (BASE,))
    if single is None:
        least = FAINT * float(np.nanmax(x, initial=0.0))
        grid = line = _grid(x[x > least])
        low, high, lines = None, None, {}
    else:
        grid = _grid(x)
        line = single.predict(grid)
        low, high = _band(single, grid)
        own = bool(set(fit.levels) & set(parse(text).names())) and len(rows.labels) > 1
        lines = {label: single.predict(grid, group=label) for label in rows.labels[:MOST_LINES] if own}
    hue, index, hues = _hue(fit, rows, columns)
    points = _points(x, partial, (partial > least) & (x > least), index, least)
    ylabel = "loss" if whole else "loss − other terms" if flip > 0 else "other terms − loss"
    return Part(columns, text, xlabel, ylabel, points, grid, line, low, high, lines, hue, hues)


def _hue(fit: Fit, rows: Rows, columns: tuple[str, ...]) -> tuple[str, Array, tuple[str, ...]]:
    """What colours say, the place of each row's value or the value, and the values' names if they are few.

    Groups with levels of their own; else, of a part with several columns, the one with the fewest values.
    """
    none = "", np.zeros(rows.loss.size), ()
    if fit.levels and len(rows.labels) > 1:
        names = tuple(map(str, rows.labels))
        few = len(names) <= len(COLOURS)
        return (", ".join(rows.group_columns), rows.group.astype(np.float64), names) if few else none
    values = {name: np.unique(rows.columns[name]) for name in columns}
    values = {name: found for name, found in values.items() if found.size > 1 and len(columns) > 1}
    if not values:
        return none
    name = min(values, key=lambda column: values[column].size)
    if values[name].size > len(COLOURS):
        return name, rows.columns[name], ()
    index = np.searchsorted(values[name], rows.columns[name]).astype(np.float64)
    return name, index, tuple(f"{value:g}" for value in values[name])


def _grid(x: Array) -> Array:
    """Values for a line over the range of x, evenly in logarithm."""
    if not x.size:
        return np.array([1.0])
    low, high = float(x.min()), float(x.max())
    return np.geomspace(low, high, GRID) if high > low * (1 + 1e-9) else np.array([low / 1.1, low, low * 1.1])


def _band(single: Fit, grid: Array) -> tuple[Array | None, Array | None]:
    try:
        return single.interval(grid)
    except ValueError:  # the fit has neither refits nor a covariance
        return None, None


def _profile(fit: Fit, rows: Rows, table: Table, name: str, refits: int) -> Profile:
    found = fit.parameters[name]
    p = next(p for p in fit.law.parameters if p.name == name)
    bounds = fit.limits.get(name, (p.lower, p.upper))
    logarithmic = p.logarithmic and bounds[0] >= 0
    exact = any(finding.code == "no-scatter" for finding in fit.diagnosis)
    height = _height(fit, rows)
    normalised = bool(0 < height < np.inf) and not exact
    if not np.isfinite(found.estimate):
        return Profile(name, np.array([]), np.array([]), normalised, True, None)
    # In the coordinate: the interval's ends, else two errors, else a rough guess.
    to, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    centre, lower, upper, *ends = (float(to(v)) for v in (found.estimate, *bounds, *found.interval))
    error, size = found.error * _quantile(fit), max(1.0, abs(centre))
    spare = 2 * error if 0 < error < np.inf else 0.5 if logarithmic else 0.5 * abs(centre) or 1.0
    spare = 0.1 * size if exact else max(spare, 1e-6 * size)
    halves = [abs(end - centre) for end in ends]
    halves = [half if 1e-6 * size < half < np.inf and not exact else spare for half in halves]
    steps = np.linspace(0, REACH, min(refits, MOST_OF_ONE) // 2 + 1)
    at = np.concatenate([centre - halves[0] * steps, centre + halves[1] * steps])
    at = np.unique(np.clip(at, lower, upper))
    values = back(at)
    if rows.loss.size > MOST_REFITTED:
        rise = np.abs(at - centre) / error if error > 0 else np.full(at.size, np.nan)
        return Profile(name, values, rise, normalised, False, None)
    totals = [
        fit.objective if place == centre else _held(fit, table, name, float(value))
        for place, value in zip(at, values, strict=True)
    ]
    rises = np.array(totals) - fit.objective
    rise = np.sqrt(np.maximum(rises, 0) / (height if normalised else 1.0))
    best = int(np.argmin(np.nan_to_num(rises, nan=np.inf)))
    better = float(values[best]) if rises[best] < -1e-6 * fit.objective and not exact else None
    return Profile(name, values, rise, normalised, True, better)


def _held(fit: Fit, table: Table, name: str, value: float) -> float:
    """The lowest objective with a parameter held at a value; nan where there is none."""
    if fit.free == (name,):  # nothing is left to fit
        held = dataclasses.replace(fit.parameters[name], estimate=value)
        return dataclasses.replace(fit, parameters=fit.parameters | {name: held}).objective_of(table)
    fixed = {key: low for key, (low, high) in fit.limits.items() if low == high}
    try:
        return refit(
            fit.law,
            table,
            group=fit.provenance.group_columns or None,
            own=tuple(fit.levels),
            fix=fixed | {name: value},
            bounds={key: ends for key, ends in fit.limits.items() if key not in (*fixed, name)},
            objective=fit.objective_kind,
            weights=fit.weights,
            noise=fit.noise,
            drop_top=fit.drop_top,
            interval="none",
            starts=8,
        ).objective
    except ValueError:  # e.g. an amplitude beyond float64
        return float("nan")


def _quantile(fit: Fit) -> float:
    """Of Student's t, or the normal where the noise is known: two sides, at the fit's confidence."""
    known = fit.noise is not None and fit.objective_kind.quadratic
    freedom = np.inf if known else fit.degrees_of_freedom
    return float(stats.t.ppf((1 + fit.confidence) / 2, freedom)) if freedom > 0 else float("nan")


def _height(fit: Fit, rows: Rows) -> float:
    """The rise of the objective at which a value stops being compatible, as in the fitter's own profiles.

    t^2 tau^2 (sum w rho'' / sum w) / 2 with tau^2 of an M-estimator (Huber, Robust Statistics, section 7.6);
    for least squares S t^2 / nu.
    """
    kind, weights = fit.objective_kind, rows.weights
    share = float(weights.sum()) if kind.averaged else 1.0
    if fit.noise is not None and kind.quadratic:
        return _quantile(fit) ** 2 / share
    predicted = _of_rows(fit, rows)
    residual = np.log(predicted / rows.loss) if kind.of_logs else predicted - rows.loss
    bend = float(weights @ kind.bend(residual) / weights.sum())
    if fit.degrees_of_freedom < 1 or not bend > 0:
        return float("nan")
    step = float(weights @ kind.slope(residual) ** 2) / fit.degrees_of_freedom / bend / 2
    return _quantile(fit) ** 2 * step / share


def title(fit: Fit) -> str:
    """The fit in one line: law, rows, objective, headline with intervals, data."""
    return ", ".join(_items(fit))


def _items(fit: Fit) -> list[str]:
    status = [] if fit.trusted else [str(fit.status)]
    headline = [_estimate(fit, name) for name in _headline(fit)]
    rows, kind = f"{fit.provenance.rows} rows", f"{fit.objective_kind.name} {fit.objective:.3g}"
    return [f"{fit.law.name}: {rows}", *status, kind, *headline, f"data {fit.provenance.data_sha256[:8]}"]


def _estimate(fit: Fit, name: str) -> str:
    found = fit.parameters[name]
    (lower, upper), text = found.interval, f"{shown(name)} = {found.estimate:.3g}"
    if found.fixed:
        return f"{text} (fixed)"
    return f"{text} [{lower:.3g}, {upper:.3g}]{'' if found.identified else ' not identified'}"


def _caption(fit: Fit, panels: Panels, said: str) -> str:
    out = f"Bands and shading: {100 * fit.confidence:g} % intervals of the line and of the parameter"
    out += f" ({fit.interval_method})."
    if any(part.lines for part in panels.parts):
        out += " Black line: the mean over groups; thin lines: each group's."
    if panels.hidden:
        out += f" {panels.hidden} more part(s) of the law are not drawn."
    return out + f" Law: {_pretty(fit.law.equation)}." + (f" Data: {said}." if said else "")


def shown(name: str) -> str:
    """A name with its Greek letter, e.g. alpha_l as α_l."""
    head, *rest = name.split("_")
    return "_".join([GREEK.get(head, head), *rest])


def _pretty(formula: str) -> str:
    """A formula's text with signs as in print."""
    text = re.sub(r"[^\W\d]\w*", lambda word: shown(word[0]), formula)
    text = re.sub(r" ?\*\* ?", "^", text)
    return re.sub(r" ?\* ?", "·", re.sub(r"\^\((-[\w.]+)\)", r"^\1", text)).replace("-", "−")


def _plain(text: str) -> str:
    """A text that is not read as mathematics, whatever its dollars."""
    return text.replace("$", r"\$")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plot(fit: Fit, panels: Panels, said: str = "") -> Figure:
    """The figure: parts, residuals, profiles, two or three panels in a row."""
    count = len(panels.parts) + 1 + len(panels.profiles)
    wide = 2 if count in (2, 4) else 3
    high = -(-count // wide)
    with _style.style():
        figure = Figure(figsize=(3.3 * wide, 2.8 * high + 0.7), layout="constrained")
        grid = list(figure.subplots(high, wide, squeeze=False).ravel())
        for axes in grid[count:]:
            axes.remove()
        for part in panels.parts:
            _plot_part(grid.pop(0), part)
        _plot_residuals(grid.pop(0), panels)
        for profile in panels.profiles:
            _plot_profile(grid.pop(0), profile, fit)
        whole = ", ".join(item.replace(" ", "\xa0") for item in _items(fit))  # no break within one
        figure.suptitle("\n".join(textwrap.wrap(whole, 36 * wide)), fontsize=10)
        lines = textwrap.wrap(_caption(fit, panels, said), 54 * wide, max_lines=5, placeholder=" …")
        caption = _plain("\n".join(lines))
        figure.supxlabel(caption, fontsize=6.5, color=_style.GREY, x=0.01, ha="left")
        return figure


def _plot_part(axes: Axes, part: Part) -> None:
    points = part.points
    look = _crowd(points)
    if part.hue and not part.hues and points.x.size:
        norm = LogNorm(points.hue.min(), points.hue.max())
        drawn = axes.scatter(points.x, points.y, c=points.hue, s=9, cmap="viridis", norm=norm, linewidths=0)
        bar = axes.figure.colorbar(drawn, ax=axes, pad=0.02, label=AXES.get(part.hue, shown(part.hue)))
        _ticks(bar.ax.yaxis, points.hue)
    else:
        for i, name in enumerate(part.hues or ("",)):
            mine = points.hue == i
            look |= {"color": COLOURS[i], "marker": MARKERS[i]}
            label = _plain(_short(f"{shown(part.hue)} {name}", 24))
            axes.plot(points.x[mine], points.y[mine], label=label, **look)
    if part.low is not None and part.high is not None:
        axes.fill_between(part.x, part.low, part.high, color=_style.GREY, alpha=0.3, linewidth=0)
    lines = [np.stack([part.x, line], axis=1) for line in part.lines.values()]
    own = {"colors": COLOURS[: len(lines)]} if part.hues else {"colors": _style.BLUE, "alpha": 0.3}
    axes.add_collection(LineCollection(lines, linewidths=0.7, **own))
    axes.plot(part.x, part.y, color="black")
    if part.hues:
        rising = part.y[-1] > part.y[0]
        axes.legend(loc="upper left" if rising else "lower left", fontsize=7, handletextpad=0.2)
    axes.set(xlabel=_short(part.xlabel, 44), ylabel=part.ylabel)
    axes.set_title(f"{_short(_pretty(part.text), 44)}\n{points.said}")
    _log(axes.xaxis, part.x, points.x)
    band = []
    if part.low is not None and part.high is not None:  # a very wide band goes on beyond the axes
        band = [np.maximum(part.low, part.y / 10), np.minimum(part.high, part.y * 10)]
    _log(axes.yaxis, part.y, points.y, *band, *part.lines.values())


def _crowd(points: Points) -> dict[str, Any]:
    """The look of points that may lie on each other."""
    alpha = 0.35 if points.x.size > 300 else 0.7
    return {"linestyle": "none", "marker": "o", "markersize": 3, "markeredgewidth": 0, "alpha": alpha}


def _plot_residuals(axes: Axes, panels: Panels) -> None:
    points = panels.residuals
    axes.axhline(0, color="black", linewidth=0.8)
    axes.plot(points.x, points.y, color=_style.BLUE, **_crowd(points))
    axes.set(xlabel="predicted loss", ylabel="residual of log loss (%)")
    axes.set_title(f"Predicted − observed: rms {panels.scatter:.3g} %\n{points.said}")
    _log(axes.xaxis, points.x)


def _plot_profile(axes: Axes, profile: Profile, fit: Fit) -> None:
    found = fit.parameters[profile.name]
    good = np.isfinite(profile.rise)
    at, rise = profile.at[good], profile.rise[good]
    axes.plot(at, rise, color=_style.BLUE, marker="o" if profile.refitted else None)
    unit = f" ({found.unit})" if found.unit not in ("", "1") else ""
    axes.set(xlabel=shown(profile.name) + unit, ylabel="√(rise of the objective)")
    if profile.normalised:
        axes.axhline(1, color=_style.RED, linewidth=0.9, linestyle="--")
        axes.set_ylabel(f"√(rise / rise at {100 * fit.confidence:g} %)")
    axes.set_ylim(0, min(max(1.6, 1.05 * rise.max(initial=0)), 4) if profile.normalised else None)
    how = "others refitted at each point" if profile.refitted else "parabola of the curvature"
    if profile.better is not None:
        how = f"{profile.better:.3g} fits better: raise starts"
    axes.set_title(f"{_estimate(fit, profile.name)}\n{how if at.size else 'no optimum, no profile'}")
    if not at.size:
        return
    axes.xaxis.set_major_locator(MaxNLocator(4))
    if at[0] > 0 and at[-1] > 3 * at[0]:
        _log(axes.xaxis, at)
    low, high = axes.get_xlim()
    axes.axvline(found.estimate, color="black", linewidth=0.8)
    axes.axvspan(
        max(found.interval[0], low), min(found.interval[1], high), color=_style.GREY, alpha=0.2, linewidth=0
    )
    axes.set_xlim(low, high)


def _log(axis: Axis, *values: Array) -> None:
    """A log axis that holds the values."""
    axes, way = axis.axes, axis.axis_name  # type: ignore[attr-defined]
    every = np.concatenate(values)
    every = every[np.isfinite(every) & (every > 0)]
    if every.size:  # else the axis stays linear: a log axis without a value cannot be drawn
        pad = max((every.max() / every.min()) ** 0.04, 1.001)
        axes.set(**{f"{way}scale": "log"})
        axes.set(**{f"{way}lim": (every.min() / pad, every.max() * pad)})
        _ticks(axis, every)


def _ticks(axis: Axis, values: Array) -> None:
    """Ticks of a log axis that can be read however short it is."""
    decades = np.log10(values.max() / values.min())
    axis.set_minor_formatter(NullFormatter())
    if decades < 2.5:
        subs = (1, 2, 5) if decades < 1.6 else (1, 3)
        axis.set_major_locator(LogLocator(subs=subs) if decades > 0.8 else MaxNLocator(4))
        axis.set_major_formatter(FuncFormatter(_tick))
        axis.set_minor_locator(NullLocator())


def _tick(value: float, _: object = None) -> str:
    """A number as it stands at an axis: 0.02, 500, 2e10."""
    if 1e-3 < value < 1e5:
        return f"{value:g}"
    mantissa, power = f"{value:.3e}".split("e")
    return f"{float(mantissa):g}e{int(power)}"


def draw(fit: Fit, table: Table, out: Path, name: str, said: str) -> list[Path]:
    """Draw a fit and the table that it was made of as <out>/<name>.png and .pdf; returns the files written.

    `said` is what is to be said of the table. Raises ValueError where the table is not the fit's.
    """
    return _style.save(plot(fit, compute(fit, table), said), out, name, f"{title(fit)}; {said}")
