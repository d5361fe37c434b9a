"""A saved analysis read back, so that what follows from it needs no second fit.

`as_json` leaves out the replicates of the bootstraps but for those of phi: an analysis that is read back
predicts and has its intervals, but draws no new ones.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweeps._config import ConfigError
from sweeps.iso_depth._analysis import IsoDepth
from sweeps.iso_depth._delta import DeltaPhi
from sweeps.laws import Fit
from sweeps.laws._law import Array


@dataclass(frozen=True)
class Saved:
    """What `depthlaw iso-depth --json` wrote.

    **Fields:** `found`, the analysis; `draws` (R,), phi of each refit of its bootstrap, empty where there was
    none; `against` the analysis of the other grid and `delta`, the difference of phi, None without one.
    """

    found: IsoDepth
    draws: Array
    against: IsoDepth | None = None
    delta: DeltaPhi | None = None


def saved(path: Path) -> Saved:
    """The analysis in a file. Raises ConfigError for a file that is none."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        other, delta = tree.get("against"), tree.get("delta_phi")
        return Saved(
            found=_made(IsoDepth, tree),
            draws=np.array(tree.get("phi_draws", ()), dtype=float),
            against=None if other is None else _made(IsoDepth, other),
            delta=None if delta is None else _made(DeltaPhi, delta),
        )
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ConfigError(
            f"{path} is no analysis of a grid ({reason}); `depthlaw iso-depth TABLE --json FILE` writes one"
        ) from None


def _made(kind: Any, value: Any) -> Any:
    """`value` of JSON as what a field of this kind holds; null is nan where a number has to be."""
    if kind is Fit:
        return Fit.from_json(json.dumps(value))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(type, kind)(
            **{one.name: _made(hints[one.name], value[one.name]) for one in dataclasses.fields(kind)}
        )
    if kind is float:
        return math.nan if value is None else float(value)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_made(one, part) for one, part in zip(kinds, value, strict=True))
    if origin is types.UnionType and types.NoneType in inner:
        some = [one for one in inner if one is not types.NoneType]
        return None if value is None else _made(some[0], value) if len(some) == 1 else value
    return dict(value) if origin is Mapping else value
