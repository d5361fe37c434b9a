"""How well a law that was fitted to the smaller runs tells the larger ones.

Symbols: held-out loss L, prediction P, residual s = log(P / L), degrees of freedom nu of the fit.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from scipy import stats

from sweeps.laws._fit import fit
from sweeps.laws._law import Array, Index, Law
from sweeps.laws._result import Fit
from sweeps.laws._table import Label, Table, group_columns, read


@final
@dataclasses.dataclass(frozen=True)
class Holdout:
    """A law's predictions of the rows that it was not fitted to.

    **Fields:**

    - `fit`: to the rows with `by` up to `threshold`.
    - `by`, `threshold`: the column, and the largest value that was fitted.
    - `place` (n,): the held-out rows, as counted from 0 in the table, by ascending `by`; `size` (n,) their
      `by`.
    - `observed`, `predicted` (n,): loss.
    - `lower`, `upper` (n,): interval of the *law's* value (`Fit.interval`), at the fit's confidence.
    - `new_lower`, `new_upper` (n,): prediction interval of a *run*: half the law's interval and Student's t
      times the residual scatter of the fit, joined as the root of their squares, in log loss.
    - `scatter`: of residuals of log loss in the fit, root of sum s^2 / nu.
    - `reach`: column -> how many times farther than any fitted value the farthest held-out one is; 1: within.
    """

    fit: Fit
    by: str
    threshold: float
    place: Index
    size: Array
    observed: Array
    predicted: Array
    lower: Array
    upper: Array
    new_lower: Array
    new_upper: Array
    scatter: float
    reach: dict[str, float]

    @property
    def error(self) -> float:
        """Mean relative error, of abs(P / L - 1)."""
        return float(np.abs(self.predicted / self.observed - 1).mean())

    @property
    def bias(self) -> float:
        """Mean of P / L - 1: above 0 where the law promises a higher loss than is reached."""
        return float((self.predicted / self.observed - 1).mean())

    @property
    def covered(self) -> float:
        """Share of held-out rows inside their prediction interval; nan where there are no intervals."""
        if np.isnan(self.new_lower).any():
            return math.nan
        return float(((self.new_lower <= self.observed) & (self.observed <= self.new_upper)).mean())

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict for each held-out row; `row` counts the table's from 1."""
        names = ("observed", "predicted", "lower", "upper", "new_lower", "new_upper")
        columns = [getattr(self, name).tolist() for name in names]
        values = zip((self.place + 1).tolist(), self.size.tolist(), *columns, strict=True)
        return [dict(zip(("row", self.by, *names), row, strict=True)) for row in values]

    def sentences(self) -> list[str]:
        """What was found, in words."""
        fitted, held = self.fit.provenance.rows, self.place.size
        said = [
            f"Fitted to {fitted} row(s) with {self.by} up to {self.threshold:.4g}, the law tells the {held} "
            f"above with a mean relative error of {100 * self.error:.2f} % (bias {100 * self.bias:+.2f} %; "
            f"scatter of the fit {100 * self.scatter:.2f} %)."
        ]
        if math.isnan(self.covered):
            said.append(f"The fit ({self.fit.status}) gives no interval of its predictions.")
        else:
            inside = f"{100 * self.covered:.0f} % of them lie inside"
            said.append(f"{inside} the {100 * self.fit.confidence:g} % prediction interval.")
        farther = [f"{name} {factor:.3g} times" for name, factor in self.reach.items() if factor > 1]
        if farther:
            said.append(f"Farther than anything fitted: {', '.join(farther)}.")
        return said


def holdout(
    law: Law,
    table: Table,
    *,
    by: str,
    fraction: float | None = None,
    above: float | None = None,
    group: str | Sequence[str] | None = "seed",
    drop_top: int = 0,
    **options: Any,
) -> Holdout:
    """Fits a law to the rows that are small in one column, and predicts the others.

    **Arguments:**

    - `by`: a numeric column of the table, e.g. `"flops"`; not necessarily one of the law's.
    - `fraction`: at most this share of rows is held out, those of the largest `by`, equal values together; or
      `above`: rows with `by` above this are held out. One of the two.
    - `group`, `drop_top`, `options`: of `fit`. Rows that `drop_top` leaves out are in neither part.

    Where groups have levels of their own, a row is predicted at its group's level, and the interval is that
    of the law's mean level, moved there (the same factors of the prediction).

    **Raises:** ValueError as `fit`; where `by` is no numeric column, nothing or everything is held out, or a
    held-out group with a level of its own has no row in the fit.

    ??? cite "Reference"

        The tests of extrapolation in arXiv:2602.05970 leave out random rows, which tells less.
    """
    columns = group_columns(group, table)
    weights, noise = options.get("weights"), options.get("noise")
    rows = read(law, table, columns, weights, noise, drop_top)
    if by not in table:
        raise ValueError(f"by: there is no column {by!r} in the table; name a numeric one, e.g. flops.")
    try:
        sizes = np.asarray(table[by], dtype=np.float64)[rows.place]
    except (TypeError, ValueError) as error:
        raise ValueError(f"by: column {by!r} is not numeric ({error}); name one that is.") from None
    if not np.isfinite(sizes).all():
        row = int(rows.place[~np.isfinite(sizes)][0])
        raise ValueError(f"by: column {by!r}, row {row} is not finite; correct the row or leave it out.")
    threshold = _threshold(sizes, by, fraction, above)
    held = np.flatnonzero(sizes > threshold)
    held = held[np.argsort(sizes[held], kind="stable")]
    small = sizes <= threshold
    names = needed(law, columns, weights, noise)
    found = fit(law, part(table, names, rows.place[small]), group=group, **options)

    labels = [rows.labels[i] for i in rows.group]
    at = [rows.columns[name] for name in law.columns]
    everywhere = predicted(found, at, labels)
    residual = np.log(everywhere / rows.loss)
    scatter = math.sqrt(float((residual[small] ** 2).sum()) / max(found.degrees_of_freedom, 1))
    lower, upper = np.full((2, held.size), np.nan)
    try:
        lower, upper = found.interval(*(column[held] for column in at))
        factor = everywhere[held] / found.predict(*(column[held] for column in at))
        lower, upper = lower * factor, upper * factor
    except ValueError:  # no refits and no covariance: the status and the diagnosis say why
        pass
    middle = everywhere[held]
    half = float(stats.t.ppf((1 + found.confidence) / 2, max(found.degrees_of_freedom, 1))) * scatter
    with np.errstate(invalid="ignore"):
        below = np.hypot(np.log(middle / lower), half)
        beyond = np.hypot(np.log(upper / middle), half)
    reach = {by: _reach(sizes[small], sizes[held])}
    reach |= {name: _reach(rows.columns[name][small], rows.columns[name][held]) for name in law.columns}
    return Holdout(
        fit=found,
        by=by,
        threshold=float(sizes[small].max()),
        place=rows.place[held],
        size=sizes[held],
        observed=rows.loss[held],
        predicted=middle,
        lower=lower,
        upper=upper,
        new_lower=middle * np.exp(-below),
        new_upper=middle * np.exp(beyond),
        scatter=scatter,
        reach=reach,
    )


def _threshold(sizes: Array, by: str, fraction: float | None, above: float | None) -> float:
    if (fraction is None) == (above is None):
        raise ValueError("give either fraction, e.g. 0.2, or above, a value of the column; not both.")
    if fraction is not None:
        if not 0 < fraction < 1:
            raise ValueError(f"fraction: {fraction} is not between 0 and 1; give e.g. 0.2.")
        above = float(np.sort(sizes)[max(math.ceil((1 - fraction) * sizes.size - 1e-9), 1) - 1])
    assert above is not None
    count = int((sizes > above).sum())
    if count in (0, sizes.size):
        what, verb = ("no row", "predict") if count == 0 else ("every row", "fit")
        raise ValueError(
            f"{what} has {by} above {above:.6g}: there is nothing to {verb}; the column "
            f"runs from {sizes.min():.6g} to {sizes.max():.6g}, so give above a value between."
        )
    return float(above)


def _reach(fitted: Array, held: Array) -> float:
    """Factor by which held-out values lie beyond fitted ones, whichever side is farther; both positive."""
    if min(fitted.min(), held.min()) <= 0:
        return math.nan
    return float(max(held.max() / fitted.max(), fitted.min() / held.min(), 1.0))


def needed(
    law: Law, groups: Sequence[str], weights: str | None, noise: str | float | None
) -> tuple[str, ...]:
    """Columns that a fit with these arguments reads."""
    further = [name for name in (weights, noise) if isinstance(name, str)]
    return tuple(dict.fromkeys((*law.columns, "loss", *groups, *further)))


def part(table: Table, names: Sequence[str], place: Index) -> dict[str, Any]:
    """Some rows of some columns of a table, in the order of `place`."""
    out = {}
    for name in names:
        column = table[name]
        # A list of labels can mix numbers and texts, which no other array keeps apart.
        kind = object if isinstance(column, list | tuple) else None
        out[name] = np.asarray(column, dtype=kind)[place]
    return out


def predicted(found: Fit, columns: Sequence[Array], labels: Sequence[Label | None]) -> Array:
    """Loss of a fit at columns (n,) in the law's order; where groups have levels, at that of each row's."""
    if not found.levels:
        return found.predict(*columns)
    out = np.empty(len(labels))
    for label in dict.fromkeys(labels):
        mine = np.array([other == label for other in labels])
        out[mine] = found.predict(*(column[mine] for column in columns), group=label)
    return out
