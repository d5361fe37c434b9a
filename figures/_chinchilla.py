"""What is kept of a fit of width, depth and data to runs whose table is not ours to give away.

Estimates, refits of the bootstrap, held-out splits, the scan over choices, and what is left of the loss for
one term, averaged over at least LEAST runs: no run can be read off it.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sweeps._config import ConfigError
from sweeps._files import parse_json
from sweeps._source import open_source
from sweeps.laws import Fit, Huber, LogSquares, WidthDepthDataLaw, fit, scan

KIND = "chinchilla depth"
MAPS = ("width=d_model", "depth=n_layers")
DROPPED = 40
"""Runs of highest loss that are left out, as in the paper."""

DROPS = range(0, 101, 5)
OBJECTIVES = (LogSquares(), Huber(1e-3))
SPLITS, HELD_OUT = 10, 0.2
LEAST = 4
"""Runs that a kept mean is of."""

BINS = 12
"""Of the tokens, which take no few values."""

TERMS = {"depth": ("c_l", "alpha_l"), "width": ("c_m", "alpha_m"), "num_tokens": ("c_D", "alpha_D")}
SCANNED = (
    *("drop_top", "objective", "delta", "overestimates", "rows", "value"),
    *("status", "estimate", "lower", "upper", "identified"),
)


def results(data: Path, drops: range = DROPS, resamples: int | None = None) -> dict[str, Any]:
    """What is kept of the runs in a file with columns d_model, n_layers, num_tokens and loss. Minutes.

    Raises BadTable and ConfigError for a file that is none, or has too few runs.
    """
    law = WidthDepthDataLaw()
    rows = open_source(data, law.name, MAPS).table.select(*law.columns, "loss").cast(pl.Float64)
    try:
        found = fit(law, rows, drop_top=DROPPED, resamples=resamples)
        scanned = scan(law, rows, parameter="alpha_l", drop_top=drops, objectives=OBJECTIVES)
    except ValueError as error:
        raise ConfigError(f"{data}: {error}") from error
    kept = rows.filter(pl.col("loss") < rows["loss"].sort(descending=True)[DROPPED - 1])
    predicted = found.predict(*(kept[name].to_numpy() for name in law.columns))
    return {
        "kind": KIND,
        "rows": found.provenance.rows,
        "dropped": DROPPED,
        "data_sha256": found.provenance.data_sha256,
        "version": found.provenance.version,
        "objective": found.objective,
        "relative_error": float(np.mean(np.abs(predicted / kept["loss"].to_numpy() - 1))),
        "interval": found.interval_method,
        "parameters": {
            name: {"estimate": one.estimate, "low": one.interval[0], "high": one.interval[1]}
            for name, one in found.parameters.items()
        },
        "refits": {
            name: [round(row[found.free.index(name)], 4) for row in found.replicates]
            for _, name in TERMS.values()
        },
        "parts": {column: part(found, kept, predicted, column) for column in TERMS},
        "splits": splits(kept),
        "scan": [{name: row[name] for name in SCANNED} for row in scanned],
    }


def part(found: Fit, rows: pl.DataFrame, predicted: np.ndarray, column: str) -> list[dict[str, float]]:
    """What the other terms leave of the loss, by the values of a column: mean, standard deviation, count."""
    level, power = (found.estimates[name] for name in TERMS[column])
    x = rows[column].to_numpy()
    left = rows["loss"].to_numpy() - (predicted - level * x**-power)
    place = x
    if len(np.unique(x)) > 3 * BINS:
        edges = np.geomspace(x.min(), x.max(), BINS + 1)
        place = np.clip(np.searchsorted(edges, x, side="right"), 1, BINS)
    bins = []
    for value in np.unique(place):
        mine = place == value
        if mine.sum() >= LEAST:
            centre = float(np.exp(np.log(x[mine]).mean()))
            numbers = (centre, float(left[mine].mean()), float(left[mine].std(ddof=1)))
            at, mean, deviation = (float(f"{number:.4g}") for number in numbers)
            bins.append({"at": at, "mean": mean, "deviation": deviation, "runs": int(mine.sum())})
    return bins


def splits(rows: pl.DataFrame) -> list[dict[str, float]]:
    """Fits without a random fifth of the runs: alpha_l, and the mean relative error of the runs held out."""
    law = WidthDepthDataLaw()
    rng = np.random.default_rng(0)
    found = []
    for _ in range(SPLITS):
        order = rng.permutation(len(rows))
        out = np.sort(order[: round(HELD_OUT * len(rows))])
        within = np.setdiff1d(order, out)
        one = fit(law, rows[within.tolist()], interval="none")
        held = rows[out.tolist()]
        predicted = one.predict(*(held[name].to_numpy() for name in law.columns))
        error = float(np.mean(np.abs(predicted / held["loss"].to_numpy() - 1)))
        found.append({"alpha_l": one.estimates["alpha_l"], "relative_error": error})
    return found


def read(path: Path) -> dict[str, Any]:
    """What `results` returned, from a file. Raises ConfigError."""
    try:
        tree: dict[str, Any] = parse_json(path.read_bytes())
        if tree["kind"] != KIND or not tree["scan"] or set(tree["parts"]) != set(TERMS):
            raise ValueError("another kind")
        tree["scan"] = [{name: _number(value) for name, value in row.items()} for row in tree["scan"]]
        return tree
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: --data FILE --keep DIR makes it") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} holds no kept fit: --data FILE --keep DIR makes one") from None


def written(tree: dict[str, Any]) -> bytes:
    """As JSON, a line a part; numbers that are not finite are texts."""
    plain = {**tree, "scan": [{name: _text(value) for name, value in row.items()} for row in tree["scan"]]}
    lines = [f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in plain.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _text(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value
