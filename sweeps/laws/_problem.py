"""Rows and a law as a least-squares problem in coordinates that have no units.

Symbols: K parameters of the law, P coordinates of the problem (an *own* parameter, such as the level, once
for each of G groups, every other once), n rows, B problems solved side by side. Residual
r_i = log L_i(theta) - log L_i, so a table in other units is the same problem but for rounding.
"""

import dataclasses

import numpy as np

from sweeps.laws._law import Array, Index, Law
from sweeps.laws._table import Rows


@dataclasses.dataclass(frozen=True)
class Problem:
    """A least-squares problem for `solve`.

    **Fields:** `columns` and `log_loss` in units where each has geometric mean 1; `index` (K, n) the
    coordinate that row i uses for parameter k; `groups` G; `own` the parameters each group has for
    itself; `matrix` (K, K) and `offset` (K,) back to the
    table's units; `lower`, `upper` (P,).
    """

    law: Law
    columns: dict[str, Array]
    log_loss: Array
    index: Index
    groups: int
    own: frozenset[str]
    matrix: Array
    offset: Array
    lower: Array
    upper: Array

    def residuals(self, theta: Array) -> Array:
        """Predicted less observed log loss (B, n) at coordinates (B, P)."""
        return self.law.log_loss([theta[:, k] for k in self.index], self.columns) - self.log_loss

    def jacobian(self, theta: Array) -> Array:
        """Derivatives of the residuals (B, n, P)."""
        out = np.zeros((theta.shape[0], self.log_loss.size, theta.shape[1]))
        rows = np.arange(self.log_loss.size)
        gradient = self.law.gradient([theta[:, k] for k in self.index], self.columns)
        for k, derivative in zip(self.index, gradient, strict=True):
            out[:, rows, k] = derivative
        return out

    def spread(self, values: Array) -> Array:
        """Coordinates of the problem (..., P) from one set for all groups (..., K)."""
        return values[..., np.repeat(np.arange(values.shape[-1]), self.multiplicity())]

    def multiplicity(self) -> list[int]:
        """How many coordinates each of the K parameters has: G for its own, 1 for the others."""
        return [self.groups if p.name in self.own else 1 for p in self.law.parameters]

    def averaging(self, share: Array) -> Array:
        """Matrices (..., K, P) that average own parameters over groups with shares (..., G) summing to 1."""
        out = np.zeros((*share.shape[:-1], len(self.law.parameters), self.lower.size))
        at = 0
        for k, count in enumerate(self.multiplicity()):
            out[..., k, at : at + count] = share if count == self.groups else 1
            at += count
        return out

    def natural(self, theta: Array, share: Array) -> Array:
        """The law's coordinates (..., K) in the table's units, averaged over groups with shares (..., G)."""
        mean = np.einsum("...kp,...p->...k", self.averaging(share), theta)
        return mean @ self.matrix.T + self.offset

    def levels(self, theta: Array) -> Array:
        """The level of every group (G,) in the table's units, at coordinates (P,)."""
        k = [p.name for p in self.law.parameters].index(self.law.level)
        return np.exp(np.array([self.natural(theta, share)[k] for share in np.eye(self.groups)]))


def build(law: Law, rows: Rows, own: frozenset[str]) -> Problem:
    """The problem of fitting `law` to `rows`, every group with the parameters `own` for itself."""
    scale = {name: float(np.exp(np.log(column).mean())) for name, column in rows.columns.items()}
    scale["loss"] = float(np.exp(np.log(rows.loss).mean()))
    matrix, offset = law.units(scale)
    lower, upper = law.limits(rows.loss)
    free = np.isneginf(lower) & np.isposinf(upper)
    # Only a parameter whose own unit is the whole of its map may be bounded: a bound must stay a bound.
    assert (free | ((matrix != 0).sum(1) == 1)).all()
    unit = np.diag(matrix)
    groups = len(rows.labels)
    index, at = [], 0
    for parameter in law.parameters:
        mine = parameter.name in own
        index.append(at + rows.group if mine else np.full(rows.loss.size, at))
        at += groups if mine else 1
    problem = Problem(
        law=law,
        columns={name: column / scale[name] for name, column in rows.columns.items()},
        log_loss=np.log(rows.loss / scale["loss"]),
        index=np.array(index, dtype=np.intp),
        groups=groups,
        own=own,
        matrix=matrix,
        offset=offset,
        lower=lower,
        upper=upper,
    )
    bounds = [problem.spread(np.where(free, b, (b - offset) / unit)) for b in (lower, upper)]
    return dataclasses.replace(problem, lower=bounds[0], upper=bounds[1])
