"""How far one parameter hangs on choices that nobody can justify: rows left out, objective, its delta."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from sweeps.laws._fit import fit
from sweeps.laws._law import Law
from sweeps.laws._objective import Huber, LogSquares, Objective
from sweeps.laws._table import Table

COLUMNS = (
    "drop_top",
    "objective",
    "delta",
    "overestimates",
    "rows",
    "value",
    "status",
    "parameter",
    "estimate",
    "lower",
    "upper",
    "identified",
    "reason",
)
"""Columns of a scan besides the law's parameters."""


def scan(
    law: Law,
    table: Table,
    *,
    parameter: str | None = None,
    drop_top: Sequence[int] = (0,),
    objectives: Sequence[Objective] = (LogSquares(), Huber(1e-3)),
    deltas: Sequence[float] = (),
    **options: Any,
) -> list[dict[str, Any]]:
    """Fits a law once for every combination of choices.

    **Arguments:**

    - `parameter`: whose interval is wanted; the first of the law's headline if not given.
    - `drop_top`: numbers of highest losses to leave out. `objectives`; `deltas` adds `Huber(delta)` for each.
    - `options`: of `fit`; intervals are profiles unless `interval` says otherwise.

    **Returns:** a dict for each combination, those of one objective together: `drop_top`, `objective`,
    `delta` and `overestimates` (None where it has none), `rows` that were fitted, `value` of the objective,
    `status`, `parameter` with its `estimate`, `lower`, `upper` and `identified`, the estimate of every
    parameter of the law by its name, and `reason`, empty unless the choice could not be fitted: then numbers
    are nan.

    **Raises:** ValueError for an unknown parameter, one whose name is a column of the scan, and no choice at
    all.

    !!! Example

        ```python
        scan(WidthDepthDataLaw(), table, drop_top=range(0, 101, 5), deltas=(1e-2,))
        ```

    ??? cite "Reference"

        arXiv:2602.05970 scans the number of dropped runs. On its rows alpha_l runs from 0.84 to 1.91 with the
        objective and the number of dropped runs, more than the error that it states.
    """
    names = [p.name for p in law.parameters]
    parameter = law.headline[0] if parameter is None else parameter
    if parameter not in names:
        raise ValueError(f"parameter: {parameter!r} is no parameter of the law; it has {', '.join(names)}.")
    taken = sorted(set(names) & set(COLUMNS))
    if taken:
        raise ValueError(f"the law's parameter {taken[0]!r} has the name of a column of the scan; rename it.")
    chosen = list(dict.fromkeys((*objectives, *(Huber(delta) for delta in deltas))))
    if not chosen or not len(drop_top):
        raise ValueError(
            "give at least one objective or delta, and one number of rows to leave out (e.g. 0)."
        )
    options = {"interval": "profile", **options}
    out = []
    for objective, count in itertools.product(chosen, drop_top):
        row: dict[str, Any] = {
            "drop_top": int(count),
            "objective": objective.name,
            "delta": objective.delta if isinstance(objective, Huber) else None,
            "overestimates": objective.overestimates if isinstance(objective, Huber) else None,
        }
        try:
            found = fit(law, table, objective=objective, drop_top=int(count), **options)
        except ValueError as error:
            nothing = dict.fromkeys(("value", "estimate", "lower", "upper", *names), math.nan)
            out.append(
                row
                | {"rows": None, "status": None, "parameter": parameter, "identified": False}
                | nothing
                | {"reason": str(error)}
            )
            continue
        estimate = found.parameters[parameter]
        row |= {
            "rows": found.provenance.rows,
            "value": found.objective,
            "status": str(found.status),
            "parameter": parameter,
            "estimate": estimate.estimate,
            "lower": estimate.interval[0],
            "upper": estimate.interval[1],
            "identified": estimate.identified,
        }
        out.append(row | found.estimates | {"reason": "" if found.trusted else " ".join(found.notes)})
    return out
