"""Rows, a law and an objective as one minimisation over coordinates, many points side by side.

Symbols: B points, n rows in G groups, K free parameters, P coordinates. Parameters come in two blocks: I
*inner* ones, of which each group has its own, and O *outer* ones, shared by all; P = G I + O, group by
group, then the outer ones. Where groups have nothing of their own, G = 1 and the inner block holds the
amplitudes. So the matrix of a step is an arrow: G blocks (I, I), a border (I, O) to each, and one block (O,
O); the inner coordinates are eliminated first, which is variable projection, and costs as much per row for
many groups as for one.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.laws._expression import Dual, Formula, amplitudes, parse
from sweeps.laws._law import ArgumentError, Array, Index, Law, Mask, Parameter
from sweeps.laws._objective import Objective
from sweeps.laws._table import Rows


@dataclasses.dataclass(frozen=True)
class Arrow:
    """A symmetric matrix in blocks: `inner` (B, G, I, I), `border` (B, G, I, O), `outer` (B, O, O)."""

    inner: Array
    border: Array
    outer: Array

    @property
    def blocks(self) -> tuple[Array, Array, Array]:
        return self.inner, self.border, self.outer

    def __add__(self, other: "Arrow") -> "Arrow":
        return Arrow(*(a + b for a, b in zip(self.blocks, other.blocks, strict=True)))

    def take(self, index: Index | Mask) -> "Arrow":
        return Arrow(*(block[index] for block in self.blocks))

    def where(self, mask: Mask, other: "Arrow") -> "Arrow":
        """This one where `mask` (B,) says so, else the other."""
        pairs = zip(self.blocks, other.blocks, strict=True)
        return Arrow(*(np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))

    def diagonal(self) -> Array:
        """(B, P)."""
        inner = np.diagonal(self.inner, axis1=-2, axis2=-1)
        outer = np.diagonal(self.outer, axis1=-2, axis2=-1)
        return np.concatenate([inner.reshape(len(inner), -1), outer], axis=1)


@dataclasses.dataclass(frozen=True)
class Point:
    """The problem at B points: `residual` (B, n), `jacobian` (B, K, n) of the residuals by the coordinate
    that each row uses, inner parameters first, `total` (B,) the weighted sum of penalties."""

    residual: Array
    jacobian: Array
    total: Array

    def take(self, index: Index | Mask) -> "Point":
        return Point(self.residual[index], self.jacobian[index], self.total[index])

    def put(self, index: Index | Mask, other: "Point") -> None:
        for field in dataclasses.fields(self):
            getattr(self, field.name)[index] = getattr(other, field.name)


@dataclasses.dataclass(frozen=True)
class Problem:
    """A minimisation for `solve`.

    **Fields:** `law`; `parameters` with what was fixed and bounded; `inner`, `outer` names of the free
    ones; `formula` bound to the columns; `loss`, `weights` (n,); `unit` the geometric mean loss; `group`
    (n,) sorted, and `groups` G, both as the *coordinates* see them; `objective`; `lower`, `upper` (P,);
    `scale` (P,) a change of a coordinate that is large: the unit of the loss for a term by itself, else 1;
    `relative` (P,) where the unit is not known, so that a large change is one by itself;
    `noise_known` whether weights are inverse variances.
    """

    law: Law
    parameters: tuple[Parameter, ...]
    inner: tuple[str, ...]
    outer: tuple[str, ...]
    own: bool
    formula: Formula
    loss: Array
    weights: Array
    unit: float
    group: Index
    groups: int
    objective: Objective
    lower: Array
    upper: Array
    scale: Array
    relative: Mask
    noise_known: bool

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the K free parameters, inner ones first."""
        return self.inner + self.outer

    @property
    def amplitudes(self) -> bool:
        """Whether the inner parameters are amplitudes of all rows together."""
        return not self.own and bool(self.inner)

    @property
    def rows(self) -> int:
        return self.loss.size

    @property
    def reported(self) -> float:
        """What a total of penalties is multiplied by to give the objective that is reported."""
        scale = 1.0 if self.objective.of_logs else self.unit**2
        return scale / float(self.weights.sum()) if self.objective.averaged else scale

    def parameter(self, name: str) -> Parameter:
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def places(self, name: str) -> Index:
        """The coordinates of a free parameter: G of an inner one, one of an outer one."""
        if name in self.inner:
            return np.arange(self.groups) * len(self.inner) + self.inner.index(name)
        return np.array([self.groups * len(self.inner) + self.outer.index(name)])

    def bounds(self, name: str) -> tuple[float, float]:
        """Of a free parameter's coordinate."""
        place = self.places(name)[0]
        return float(self.lower[place]), float(self.upper[place])

    def duals(self, theta: Array) -> dict[str, Dual]:
        """The parameters at coordinates (B, P), free ones with their derivatives."""
        out = {}
        for p in self.parameters:
            if p.fixed:
                out[p.name] = Dual(np.full((1, 1), p.lower), {})
                continue
            places = self.places(p.name)
            at = theta[:, places[self.group]] if places.size > 1 else theta[:, places]
            value = np.exp(at) if p.logarithmic else at
            out[p.name] = Dual(value, {p.name: value if p.logarithmic else np.ones((1, 1))})
        return out

    def at(self, theta: Array, weights: Array | None = None, loss: Array | None = None) -> Point:
        """Residuals, derivatives and the total of penalties at coordinates (B, P).

        **Arguments:** `weights`, `loss` (B, n) in place of the rows' own.
        """
        loss = self.loss if loss is None else loss
        with np.errstate(all="ignore"):
            found = self.formula.at(self.duals(theta))
            shape = (theta.shape[0], self.rows)
            value = np.broadcast_to(found.value, shape)
            if self.objective.of_logs:
                residual, factor = np.log(value / loss), 1 / value
            else:
                residual, factor = (value - loss) / self.unit, np.full((1, 1), 1 / self.unit)
            jacobian = np.empty((shape[0], len(self.free), shape[1]))
            for k, name in enumerate(self.free):
                np.multiply(found.slopes.get(name, 0.0), factor, out=jacobian[:, k])
            total = self.sum(self.objective.penalty(residual), weights)
        bad = ~(np.isfinite(total) & np.isfinite(jacobian.sum((1, 2))))
        total[bad] = np.inf
        return Point(residual, jacobian, total)

    def sum(self, values: Array, weights: Array | None = None) -> Array:
        """Weighted sums (B,) over rows of values (B, n)."""
        if weights is None:
            return values @ self.weights
        return (values * weights).sum(1)

    def totals(self, values: Array) -> Array:
        """Sums (..., G) over the rows of each group of values (..., n)."""
        if self.groups == 1:
            return values.sum(-1, keepdims=True)
        return np.add.reduceat(values, np.searchsorted(self.group, np.arange(self.groups)), axis=-1)

    def gradient(self, jacobian: Array, slope: Array) -> Array:
        """(B, P) from weighted slopes (B, n)."""
        count = len(self.inner)
        if self.groups == 1:
            return (jacobian @ slope[..., None])[..., 0]
        inner = self.totals(jacobian[:, :count] * slope[:, None]).transpose(0, 2, 1)
        outer = (jacobian[:, count:] @ slope[..., None])[..., 0]
        return np.concatenate([inner.reshape(len(slope), -1), outer], axis=1)

    def matrix(self, jacobian: Array, weights: Array) -> Arrow:
        """J^T diag(weights) J in blocks, for weights (B, n)."""
        count = len(self.inner)
        scaled = jacobian * weights[:, None]
        if self.groups == 1:
            full = scaled @ jacobian.transpose(0, 2, 1)
            inner, border = full[:, None, :count, :count], full[:, None, :count, count:]
            return Arrow(inner, border, full[:, count:, count:])
        products = scaled[:, :count, None] * jacobian[:, None]
        sums = self.totals(products).transpose(0, 3, 1, 2)
        outer = scaled[:, count:] @ jacobian[:, count:].transpose(0, 2, 1)
        return Arrow(sums[..., :count], sums[..., count:], outer)

    def split(self, values: Any) -> tuple[Any, Any]:
        """Coordinates (B, P) as inner (B, G, I) and outer (B, O)."""
        count = self.groups * len(self.inner)
        return values[:, :count].reshape(len(values), self.groups, len(self.inner)), values[:, count:]

    def mean(self, theta: Array, share: Array | None = None) -> Array:
        """Coordinates of the free parameters (B, K): inner ones averaged over groups, with shares (B, G)."""
        inner, outer = self.split(theta)
        mean = inner.mean(1) if share is None else np.einsum("bgi,bg->bi", inner, share)
        return np.concatenate([mean, outer], axis=1)

    def spread(self, values: Array) -> Array:
        """Coordinates (B, P) from one set (B, K) for all groups."""
        count = len(self.inner)
        return np.concatenate([np.tile(values[:, :count], (1, self.groups)), values[:, count:]], axis=1)

    def large(self, theta: Array) -> Array:
        """Changes of the coordinates (B, P) that are large where they stand."""
        return np.where(self.relative, np.abs(theta), self.scale)

    def part(self, index: Index) -> "Problem":
        """The same problem on some of the rows; not where groups have their own."""
        assert not self.own
        columns = {name: column[index] for name, column in self.formula.columns.items()}
        return dataclasses.replace(
            self,
            formula=Formula(self.formula.tree, columns),
            loss=self.loss[index],
            weights=self.weights[index],
            group=self.group[index],
        )

    def rounded(self, theta: Array) -> Array:
        """Coordinates (P,) as they come back from the values that are reported."""
        out = theta.copy()
        for name in self.free:
            p, places = self.parameter(name), self.places(name)
            out[places] = [p.coordinate(float(p.value(value))) for value in theta[places]]
        return out


def build(
    law: Law, parameters: tuple[Parameter, ...], rows: Rows, objective: Objective, own: tuple[str, ...]
) -> Problem:
    """The problem of fitting a law with these parameters to rows; every group has its own of `own`."""
    free = [p.name for p in parameters if not p.fixed]
    mine = tuple(name for name in free if name in own)
    split = bool(mine) and len(rows.labels) > 1
    factors = amplitudes(law.formula, law.columns)
    inner = mine if split else tuple(name for name in free if name in factors)
    outer = tuple(name for name in free if name not in inner)
    groups = len(rows.labels) if split else 1
    by_name = {p.name: p for p in parameters}

    def ends(bound: str) -> Array:
        def of(name: str) -> float:
            return by_name[name].coordinate(getattr(by_name[name], bound))

        return np.array([*(of(name) for _ in range(groups) for name in inner), *map(of, outer)])

    unit = math.exp(float(np.log(rows.loss).mean())) if rows.loss.size else 1.0
    alone = {name: name in factors and not by_name[name].logarithmic for name in (*inner, *outer)}
    unknown = {
        name: by_name[name].unit == "" and name not in factors and by_name[name].likely is None
        for name in alone
    }

    def each(values: list[Any]) -> list[Any]:
        """One for every coordinate, from one for every free parameter."""
        return [*(values[: len(inner)] * groups), *values[len(inner) :]]

    return Problem(
        law=law,
        parameters=parameters,
        inner=inner,
        outer=outer,
        own=split,
        formula=Formula(parse(law.formula), rows.columns),
        loss=rows.loss,
        weights=rows.weights,
        unit=unit,
        group=rows.group if split else np.zeros(rows.loss.size, dtype=np.intp),
        groups=groups,
        objective=objective,
        lower=ends("lower"),
        upper=ends("upper"),
        scale=np.array(each([unit if alone[name] else 1.0 for name in alone])),
        relative=np.array(each([unknown[name] for name in alone]), dtype=bool),
        noise_known=rows.noise_known,
    )


def with_limits(
    parameters: tuple[Parameter, ...], limits: Mapping[str, tuple[float, float]]
) -> tuple[Parameter, ...]:
    """The parameters with these bounds; bounds that allow values <= 0 make a coordinate the value itself.

    **Raises:** ValueError for an unknown name and for bounds that leave no value.
    """
    names = [p.name for p in parameters]
    for name in limits:
        if name not in names:
            raise ArgumentError(f"{name!r} is no parameter of the law; it has {', '.join(names)}.")
    out = []
    for p in parameters:
        if p.name in limits:
            lower, upper = limits[p.name]
            logarithmic = p.logarithmic and lower >= 0 and not lower == upper == 0
            p = dataclasses.replace(p, lower=float(lower), upper=float(upper), logarithmic=logarithmic)
        out.append(p)
    return tuple(out)
