"""A fit as a value: what was found, how far to trust it, and a JSON form that loses nothing."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import stats

from sweeps.laws._bootstrap import standard_error
from sweeps.laws._chinchilla import ChinchillaLaw
from sweeps.laws._compute import ComputeLaw
from sweeps.laws._crossover import CrossoverLaw
from sweeps.laws._depth import DepthLaw
from sweeps.laws._expression import Dual, Formula, parse
from sweeps.laws._finding import Finding
from sweeps.laws._law import Array, Law, Parameter
from sweeps.laws._looped import LoopedLaw
from sweeps.laws._objective import Huber, Objective, objective
from sweeps.laws._optimum import Status
from sweeps.laws._own import OwnLaw
from sweeps.laws._problem import with_limits
from sweeps.laws._table import Label, Rows, Table, read
from sweeps.laws._width_depth_data import WidthDepthDataLaw

FORMAT = 2
LAWS: dict[str, Callable[[], Law]] = {
    "depth": DepthLaw,
    "crossover": CrossoverLaw,
    "width-depth-data": WidthDepthDataLaw,
    "chinchilla": ChinchillaLaw,
    "looped": LoopedLaw,
    "compute": ComputeLaw,
}
"""The laws by name: those that a spec, the command line and a saved fit can name. Put yours in here."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One parameter.

    **Fields:** `estimate` in `unit`; for one that groups have for themselves, the (geometric) mean over
    groups. `interval` (lower, upper), infinite where the rows give no end, both the value itself where it
    was fixed. `identified`: whether the rows bound it on both sides, short of its own bounds (a fixed one
    is). `error`: the standard error of the *coordinate* (the logarithm, for an amplitude), by curvature;
    nan where there is none.
    """

    estimate: float
    interval: tuple[float, float]
    identified: bool
    error: float
    unit: str
    fixed: bool = False


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where a fit comes from: the law's equation, SHA-256 of the rows in canonical order, their number, the
    number of groups and the columns that name them, the version of depthlaw, and what the caller says of
    the table."""

    law: str
    data_sha256: str
    rows: int
    groups: int
    group_columns: tuple[str, ...]
    version: str
    source: dict[str, Any] = dataclasses.field(default_factory=dict)


@final
@dataclasses.dataclass(frozen=True)
class Fit:
    """What `fit` found.

    **Fields:**

    - `law`; `limits` the bounds that were laid on parameters, equal ones for fixed; `objective_kind`.
    - `parameters`: name -> `Estimate`.
    - `levels`: what groups have for themselves, name -> group -> value; empty where they share everything.
    - `status`: see `Status`. `objective`: at the reported values, a mean of squares or a sum of penalties, as
      `objective_kind` says. `gradient_norm`: the projected gradient there, a cosine (`sweeps.laws._solve`).
    - `confidence`, `interval_method`: of the intervals.
    - `degrees_of_freedom`: rows less free parameters (each group's own count).
    - `diagnosis`: what is not known, see `sweeps.laws.CODES`.
    - `weights`, `noise`, `drop_top`: as they were given.
    - `free`, `covariance` (K, K), `replicates` (R, K): coordinates of the free parameters, for predictions;
      `failed_share` of the refits, `few_freedom` degrees of freedom where intervals are Student's for the
      want of clusters. `ranges`: lowest and highest value of each column of the law.
    - `provenance`.
    """

    law: Law
    limits: dict[str, tuple[float, float]]
    objective_kind: Objective
    parameters: dict[str, Estimate]
    levels: dict[str, dict[Label | None, float]]
    status: Status
    objective: float
    gradient_norm: float
    confidence: float
    interval_method: str
    degrees_of_freedom: int
    diagnosis: tuple[Finding, ...]
    weights: str | None
    noise: str | float | None
    drop_top: int
    free: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...]
    replicates: tuple[tuple[float, ...], ...]
    failed_share: float
    few_freedom: int | None
    ranges: dict[str, tuple[float, float]]
    provenance: Provenance

    @property
    def estimates(self) -> dict[str, float]:
        """Name -> value."""
        return {name: found.estimate for name, found in self.parameters.items()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Name -> (lower, upper)."""
        return {name: found.interval for name, found in self.parameters.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of the diagnosis."""
        return tuple(finding.sentence for finding in self.diagnosis)

    @property
    def trusted(self) -> bool:
        """Whether the reported point is an optimum of the objective, and a single one."""
        return self.status in (Status.CONVERGED, Status.AT_BOUND)

    @property
    def identified(self) -> bool:
        """Whether the rows bound every parameter that the law is fitted for."""
        return self.trusted and all(self.parameters[name].identified for name in self.law.headline)

    def _limited(self) -> tuple[Parameter, ...]:
        return with_limits(self.law.parameters, self.limits)

    def predict(self, *columns: npt.ArrayLike, group: Label | None = None) -> Array:
        """Loss at given values of the law's columns, e.g. `predict(depth)`.

        **Arguments:** one array for each of `law.columns`, broadcasting; `group` predicts for that group,
        `None` with the reported estimates.

        **Raises:** ValueError for a wrong number of columns, a value that is not positive and finite, or a
        group that was not in the table.
        """
        values = self._columns(columns)
        at = dict(self.estimates)
        if group is not None:
            for name, levels in self.levels.items() or [("", {})]:
                if group not in levels:
                    raise ValueError(f"group {group!r} is not among the groups of this fit, {list(levels)}.")
                at[name] = levels[group]
        # Through the coordinates, as the fitter itself goes.
        theta = {p.name: np.array([[p.coordinate(at[p.name])]]) for p in self._limited()}
        return self._at(theta, values)[0]

    def interval(self, *columns: npt.ArrayLike, confidence: float | None = None) -> tuple[Array, Array]:
        """Lower and upper end of the *law's* value at given columns: percentiles over the refits of the
        bootstrap, where there are any, else by the delta method on the logarithm. A new run scatters more
        than that.

        **Raises:** ValueError as `predict`, and where the fit has neither refits nor a covariance.
        """
        confidence = self.confidence if confidence is None else confidence
        values = self._columns(columns)
        shape = np.broadcast_shapes(*(v.shape for v in values.values()))
        middle = np.array([self._coordinate(name) for name in self.free])
        if self.replicates:
            drawn = self._at(self._theta(np.array(self.replicates)), values)
            return self.ends(self._at(self._theta(middle[None]), values)[0], drawn, confidence)
        matrix = np.array(self.covariance)
        if not matrix.size or not np.isfinite(matrix).all():
            raise ValueError(
                f"this fit ({self.status}) has no covariance, so no intervals; add rows or fix parameters."
            )
        moved = 1e-5 * np.sqrt(np.diagonal(matrix))
        moved = np.where(moved > 0, moved, 1e-9)
        points = np.concatenate([middle[None], middle + np.diag(moved), middle - np.diag(moved)])
        logs = np.log(self._at(self._theta(points), values))
        count = middle.size
        slopes = (logs[1 : count + 1] - logs[count + 1 :]) / (2 * moved.reshape(-1, *[1] * len(shape)))
        centre = logs[0]
        error = np.sqrt(np.einsum("k...,kl,l...->...", slopes, matrix, slopes))
        known = self.noise is not None and self.objective_kind.quadratic
        freedom = np.inf if known else max(self.degrees_of_freedom, 1)
        half = stats.t.ppf((1 + confidence) / 2, freedom) * error
        return np.exp(centre - half), np.exp(centre + half)

    def ends(self, estimate: Array, drawn: Array, confidence: float) -> tuple[Array, Array]:
        """Lower and upper end of any positive quantity, from its estimate (...) and its values (R, ...) by
        the replicates: percentiles, or of few clusters Student's t on the logarithm. Failed refits lie
        beyond both ends.
        """
        tail = (1 - confidence) / 2 - self.failed_share
        if tail <= 0:
            return np.zeros_like(estimate), np.full_like(estimate, np.inf)
        if self.few_freedom is None:
            tail /= 1 - self.failed_share
            low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
            return low, high
        error = standard_error(np.log(drawn), self.few_freedom + 1)
        half = stats.t.ppf(1 - tail, self.few_freedom) * error
        return estimate * np.exp(-half), estimate * np.exp(half)

    def _rows(self, table: Table, group: tuple[str, ...], drop_top: int) -> Rows:
        return read(self.law, table, group, self.weights, self.noise, drop_top)

    def is_of(self, table: Table) -> bool:
        """Whether the table holds the rows of this fit, and none besides those that it left out."""
        try:
            rows = self._rows(table, self.provenance.group_columns, self.drop_top)
        except ValueError:
            return False
        return rows.sha256() == self.provenance.data_sha256

    def objective_of(self, table: Table) -> float:
        """The objective that the reported values have on a table: on the fit's own, `objective`.

        The highest losses are left out as in the fit where the rows are the fit's; of other rows, none.

        **Raises:** ValueError as `fit`, and for a group that the fit does not have.
        """
        group = self.provenance.group_columns if self.levels else ()
        rows = self._rows(table, group, self.drop_top if self.is_of(table) else 0)
        predicted = np.empty(rows.loss.size)
        for index, label in enumerate(rows.labels):
            mine = rows.group == index
            values = [rows.columns[name][mine] for name in self.law.columns]
            predicted[mine] = self.predict(*values, group=label if self.levels else None)
        if self.objective_kind.of_logs:
            residual, scale = np.log(predicted / rows.loss), 1.0
        else:
            scale = math.exp(float(np.log(rows.loss).mean()))
            residual = (predicted - rows.loss) / scale
        total = float(self.objective_kind.penalty(residual) @ rows.weights)
        total *= 1.0 if self.objective_kind.of_logs else scale**2
        return total / float(rows.weights.sum()) if self.objective_kind.averaged else total

    def _columns(self, columns: tuple[npt.ArrayLike, ...]) -> dict[str, Array]:
        if len(columns) != len(self.law.columns):
            raise ValueError(
                f"predict takes {', '.join(self.law.columns)}; {len(columns)} column(s) were given."
            )
        values = {n: np.asarray(c, dtype=np.float64) for n, c in zip(self.law.columns, columns, strict=True)}
        for name, value in values.items():
            if not (np.isfinite(value) & (value > 0)).all():
                raise ValueError(f"{name}: every value must be finite and > 0, as in the table.")
        return values

    def _wide(self, values: Mapping[str, Array], shape: tuple[int, ...]) -> dict[str, Array]:
        return {name: np.broadcast_to(value, shape) for name, value in values.items()}

    def _coordinate(self, name: str) -> float:
        p = next(p for p in self._limited() if p.name == name)
        return p.coordinate(self.estimates[name])

    def _theta(self, free: Array) -> dict[str, Array]:
        """Coordinates (B, 1) of all parameters from those of the free ones (B, K)."""
        out = {p.name: np.array([[p.coordinate(self.estimates[p.name])]]) for p in self._limited()}
        return out | {name: free[:, k, None] for k, name in enumerate(self.free)}

    def _at(self, theta: Mapping[str, Array], columns: Mapping[str, Array]) -> Array:
        """Predictions (B, ...) for coordinates (B, 1) and columns that broadcast."""
        shape = np.broadcast_shapes(*(column.shape for column in columns.values()))
        flat = {name: column.ravel() for name, column in self._wide(columns, shape).items()}
        duals = {p.name: Dual(p.value(theta[p.name]), {}) for p in self._limited()}
        with np.errstate(all="ignore"):
            value = Formula(parse(self.law.formula), flat).at(duals).value
        count = max(coordinate.shape[0] for coordinate in theta.values())
        return np.array(np.broadcast_to(value, (count, math.prod(shape)))).reshape(count, *shape)

    def _checked(self) -> "Fit":
        """Itself, if its parts belong together: a file can have been edited."""
        names = [p.name for p in self._limited()]
        free = [p.name for p in self._limited() if not p.fixed]
        size = len(free)
        wrong = (
            ("parameters", list(self.parameters) != names),
            ("free", sorted(self.free) != sorted(free)),
            ("covariance", any(len(row) != size for row in self.covariance) or len(self.covariance) != size),
            ("replicates", any(len(row) != size for row in self.replicates)),
            ("confidence", not 0 < self.confidence < 1),
            ("degrees_of_freedom", not isinstance(self.degrees_of_freedom, int)),
        )
        for field, is_wrong in wrong:
            if is_wrong:
                raise ValueError(_SAVED.format(f"{field} does not fit its law"))
        for p in self._limited() if self.trusted else ():
            value = self.estimates[p.name]
            if not (math.isfinite(value) and p.lower <= value <= p.upper):
                raise ValueError(_SAVED.format(f"{p.name} is {value}"))
        return self

    def to_json(self) -> str:
        """The whole fit as JSON. Numbers that are not finite are the strings "inf", "-inf", "nan"."""
        tree: dict[str, Any] = {"format": FORMAT}
        for field in dataclasses.fields(self):
            tree[field.name] = getattr(self, field.name)
        tree["law"] = {"name": self.law.name, "equation": self.law.equation}
        if isinstance(self.law, OwnLaw):
            tree["law"] |= {"text": self.law.text, "variables": self.law.variables}
        kind = self.objective_kind
        tree["objective_kind"] = {"name": kind.name, "averaged": kind.averaged}
        if isinstance(kind, Huber):
            tree["objective_kind"] |= {"delta": kind.delta, "overestimates": kind.overestimates}
        tree["parameters"] = {name: dataclasses.asdict(found) for name, found in self.parameters.items()}
        tree["levels"] = {name: list(levels.items()) for name, levels in self.levels.items()}
        tree["diagnosis"] = [dataclasses.asdict(finding) for finding in self.diagnosis]
        tree["provenance"] = dataclasses.asdict(self.provenance)
        return json.dumps(_plain(tree), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Fit":
        """The fit that `to_json` wrote, equal in every field.

        **Raises:** ValueError for JSON of another format, an unknown law, or a missing field.
        """
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON ({error}); write it with Fit.to_json.") from None
        if isinstance(tree, list):
            raise ValueError(
                "not a saved fit but several, of a call with --by; save the one that is wanted alone."
            )
        if not isinstance(tree, dict) or tree.pop("format", None) != FORMAT:
            raise ValueError(f"not a saved fit of format {FORMAT}; write it with Fit.to_json.")
        try:
            law, kind = tree.pop("law"), tree.pop("objective_kind")
            own = OwnLaw(law["text"], tuple(law["variables"])) if law["name"] == "own" else None
            chosen = objective(kind["name"])
            if isinstance(chosen, Huber):
                chosen = Huber(float(kind["delta"]), float(kind["overestimates"]))
            provenance = dict(tree.pop("provenance"))
            provenance["group_columns"] = tuple(provenance["group_columns"])
            fields: dict[str, Any] = {
                "law": LAWS[law["name"]]() if own is None else own,
                "objective_kind": chosen,
                "limits": {k: (float(a), float(b)) for k, (a, b) in tree.pop("limits").items()},
                "parameters": {k: _estimate(found) for k, found in tree.pop("parameters").items()},
                "levels": {k: {g: float(v) for g, v in found} for k, found in tree.pop("levels").items()},
                "status": Status(tree.pop("status")),
                "objective": float(tree.pop("objective")),
                "gradient_norm": float(tree.pop("gradient_norm")),
                "confidence": float(tree.pop("confidence")),
                "diagnosis": tuple(
                    Finding(f["code"], f["sentence"], tuple(f["about"])) for f in tree.pop("diagnosis")
                ),
                "free": tuple(tree.pop("free")),
                "covariance": tuple(tuple(map(float, row)) for row in tree.pop("covariance")),
                "replicates": tuple(tuple(map(float, row)) for row in tree.pop("replicates")),
                "failed_share": float(tree.pop("failed_share")),
                "ranges": {k: (float(a), float(b)) for k, (a, b) in tree.pop("ranges").items()},
                "provenance": Provenance(**provenance),
            }
            return cls(**fields, **tree)._checked()
        except (AttributeError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"not a complete saved fit ({error}); write it with Fit.to_json.") from None


_SAVED = "not a complete saved fit ({}); write it with Fit.to_json."


def _estimate(tree: dict[str, Any]) -> Estimate:
    low, high = tree.pop("interval")
    estimate, error = float(tree.pop("estimate")), float(tree.pop("error"))
    return Estimate(estimate, (float(low), float(high)), error=error, **tree)


def _plain(tree: Any) -> Any:
    """A tree of JSON types, with non-finite numbers as strings that `float` reads back."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return str(tree)
    return tree
