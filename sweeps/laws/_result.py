"""A fit as a value: what was found, how far to trust it, and a JSON form that loses nothing."""

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from sweeps.laws._depth import DepthLaw
from sweeps.laws._law import Array, Law
from sweeps.laws._table import Label

FORMAT = 1
LAWS: dict[str, Callable[..., Law]] = {"depth": DepthLaw}


class Status(enum.StrEnum):
    """How a fit ended.

    - `CONVERGED`: the projected gradient at the reported parameters is small, all off their bounds.
    - `AT_BOUND`: the same, with a parameter on its bound; the notes say which and what that means.
    - `BUDGET_EXHAUSTED`: the projected gradient is not small; raise `budget` or `starts`.
    - `DEGENERATE`: the optimum is not a point; the notes say which parameters trade against each other.
    - `FAILED`: no start had a finite objective; the estimates are nan.
    """

    CONVERGED = "converged"
    AT_BOUND = "at a bound"
    BUDGET_EXHAUSTED = "budget exhausted"
    DEGENERATE = "degenerate"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where a fit comes from: the law's equation, SHA-256 of the rows in canonical order, their number, the
    number of groups and the column that names them (`None`: independent rows), the version of depthlaw."""

    law: str
    data_sha256: str
    rows: int
    groups: int
    group_column: str | None
    version: str


@final
@dataclasses.dataclass(frozen=True)
class Fit:
    """What `fit` found.

    **Fields:**

    - `law`: the law fitted.
    - `estimates`: name -> value in the table's units. The level (c) is the geometric mean over groups.
    - `intervals`: name -> (lower, upper) at `confidence`; infinite ends where the data give none, both ends
      the value itself for a fixed parameter, and cut at the parameter's bounds.
    - `confidence`: e.g. 0.95. `interval_method`: how the intervals were made, in words.
    - `levels`: the level of each group; one entry, for `None`, when rows are independent.
    - `status`: see `Status`.
    - `objective`: sum of squared residuals of log loss, of `predict` at each row with its own group's level.
    - `gradient_norm`: the projected gradient as defined in `sweeps.laws._solution`, a cosine; at most 1e-8
      when converged.
    - `degrees_of_freedom`: rows less free parameters (a level for each group counts).
    - `notes`: what is not known, a sentence each.
    - `provenance`: see `Provenance`.
    """

    law: Law
    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    confidence: float
    interval_method: str
    levels: dict[Label | None, float]
    status: Status
    objective: float
    gradient_norm: float
    degrees_of_freedom: int
    notes: tuple[str, ...]
    provenance: Provenance

    def predict(self, *columns: npt.ArrayLike, group: Label | None = None) -> Array:
        """Loss at given values of the law's columns, e.g. `predict(depth)`.

        **Arguments:** one array for each of `law.columns`, broadcasting; `group` predicts for that group,
        `None` with the level of `estimates`.

        **Raises:** ValueError for a wrong number of columns, a value that is not positive and finite, or a
        group that was not in the table.
        """
        if len(columns) != len(self.law.columns):
            raise ValueError(
                f"predict takes {', '.join(self.law.columns)}; {len(columns)} column(s) were given."
            )
        if group is not None and group not in self.levels:
            raise ValueError(f"group {group!r} is not among the groups of this fit, {list(self.levels)}.")
        values = {n: np.asarray(c, dtype=np.float64) for n, c in zip(self.law.columns, columns, strict=True)}
        for name, value in values.items():
            if not (np.isfinite(value) & (value > 0)).all():
                raise ValueError(f"{name}: every value must be finite and > 0, as in the table.")
        at = dict(self.estimates)
        if group is not None:
            at[self.law.level] = self.levels[group]
        theta = [np.asarray(np.log(at[p.name]) if p.logarithmic else at[p.name]) for p in self.law.parameters]
        return np.exp(self.law.log_loss(theta, values))

    def to_json(self) -> str:
        """The whole fit as JSON. Infinite ends are the strings "inf" and "-inf", so any parser reads it."""
        tree = dataclasses.asdict(self)
        tree |= {"format": FORMAT, "law": {"name": self.law.name, **self.law.config()}}
        tree["levels"] = list(self.levels.items())
        return json.dumps(_plain(tree), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Fit":
        """The fit that `to_json` wrote, equal in every field.

        **Raises:** ValueError for JSON of another format, an unknown law, or a missing field.
        """
        tree = json.loads(text)
        if not isinstance(tree, dict) or tree.pop("format", None) != FORMAT:
            raise ValueError(f"not a saved fit of format {FORMAT}; write it with Fit.to_json.")
        try:
            law = dict(tree.pop("law"))
            kind = LAWS[law.pop("name")]
            fields: dict[str, Any] = {
                "law": kind(**law),
                "estimates": {k: float(v) for k, v in tree.pop("estimates").items()},
                "intervals": {k: (float(a), float(b)) for k, (a, b) in tree.pop("intervals").items()},
                "levels": {k: float(v) for k, v in tree.pop("levels")},
                "status": Status(tree.pop("status")),
                "objective": float(tree.pop("objective")),
                "gradient_norm": float(tree.pop("gradient_norm")),
                "notes": tuple(tree.pop("notes")),
                "provenance": Provenance(**tree.pop("provenance")),
            }
            return cls(**fields, **tree)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a complete saved fit ({error}); write it with Fit.to_json.") from None


def _plain(tree: Any) -> Any:
    """A tree of JSON types, with non-finite numbers as strings that `float` reads back."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return str(tree)
    return tree
