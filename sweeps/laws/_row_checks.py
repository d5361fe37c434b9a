"""What can be said of rows before anything is fitted: their columns, their repeats, what runs they are of."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.laws._finding import Finding
from sweeps.laws._law import Law
from sweeps.laws._table import Rows

CORRELATED_FROM = 0.9
RUN_COLUMNS = ("run", "run_id", "job", "run_name")
CUT_COLUMNS = ("bptt_k", "num_backprop", "backprop_recurrences", "k")
RUN_LENGTH = ("step", "num_tokens", "tokens", "flops")
RUN_SIZE = ("depth", "num_params")


def of_rows(law: Law, rows: Rows, table: Mapping[str, Any], clustered: tuple[str, ...]) -> list[Finding]:
    """What can be said before fitting."""
    found = []
    for name in law.columns:
        levels = np.unique(rows.columns[name])
        if levels.size < 3:
            values = " and ".join(f"{level:g}" for level in levels)
            what = "can be found" if levels.size < 2 else "can be told from another shape"
            found.append(
                Finding(
                    "few-levels",
                    f"{name} has {levels.size} different value(s) only ({values}): no exponent of it {what}.",
                    (name,),
                )
            )
    logs = {name: np.log(column) for name, column in rows.columns.items()}
    for a, b in itertools.combinations(law.columns, 2):
        if np.ptp(logs[a]) == 0 or np.ptp(logs[b]) == 0:
            continue
        correlation = float(np.corrcoef(logs[a], logs[b])[0, 1])
        if abs(correlation) >= CORRELATED_FROM:
            whole = float(np.corrcoef(np.log(rows.everything[a]), np.log(rows.everything[b]))[0, 1])
            left_out = rows.everything[a].size - rows.loss.size
            more = f" ({whole:.2f} with the {left_out} rows that were left out)" if left_out else ""
            found.append(
                Finding(
                    "correlated-predictors",
                    f"log {a} and log {b} have a correlation of {correlation:.2f}{more}: what one does is "
                    "hard to tell "
                    "from what the other does, and their exponents depend on choices such as the objective "
                    "and the rows that are left out.",
                    (a, b),
                )
            )
    everything = np.stack([*rows.columns.values(), rows.loss, rows.group])
    repeated = everything.shape[1] - np.unique(everything, axis=1).shape[1]
    if repeated:
        found.append(
            Finding(
                "duplicate-rows",
                f"{repeated} row(s) repeat another in every column of the law and in the loss: they count "
                "twice. Leave them out, or give weights.",
            )
        )
    return found + _runs(law, rows, table, clustered) + _recurrences(law, rows, table)


def _column(table: Mapping[str, Any], name: str, rows: Rows) -> np.ndarray | None:
    """A further column of the table in the order of the rows; None where there is none."""
    if name not in table:
        return None
    values = table[name]
    return np.asarray(list(values), dtype=object)[rows.place]


def _runs(law: Law, rows: Rows, table: Mapping[str, Any], clustered: tuple[str, ...]) -> list[Finding]:
    for name in RUN_COLUMNS:
        run = _column(table, name, rows)
        if run is None or name in clustered:
            continue
        for length in RUN_LENGTH:
            column = _column(table, length, rows)
            if column is None:
                continue
            # A job that trains students of many depths has a row for each, whose FLOPs differ.
            told = RUN_SIZE if length == "flops" else ()
            sizes = [size for one in told if (size := _column(table, one, rows)) is not None]
            per_model: dict[Any, set[Any]] = {}
            for *key, value in zip(run, *sizes, column, strict=True):
                per_model.setdefault(tuple(map(str, key)), set()).add(value)
            runs = {key[0] for key in per_model}
            several = len({key[0] for key, values in per_model.items() if len(values) > 1})
            if several and 2 * several >= len(runs):
                return [
                    Finding(
                        "checkpoint-rows",
                        f"{several} of {len(runs)} runs (column {name!r}) have rows at several {length}: "
                        "checkpoints of one run err together, so intervals are too narrow. Keep each run's "
                        f"last row, or give --group {name}.",
                        (name, length),
                    )
                ]
    return []


def _recurrences(law: Law, rows: Rows, table: Mapping[str, Any]) -> list[Finding]:
    if "num_recur" not in law.columns:
        return []
    found, recur = [], rows.columns["num_recur"]
    for name in CUT_COLUMNS:
        kept = _column(table, name, rows)
        if kept is None or any(value is not None and not isinstance(value, int | float) for value in kept):
            continue
        cut = np.array([np.nan if value is None else value for value in kept]) < recur  # blank: all
        if cut.any() and not cut.all() and (~cut & (recur > 1)).any():
            found.append(
                Finding(
                    "mixed-truncation",
                    f"{int(cut.sum())} row(s) were trained with fewer recurrences in the backward pass "
                    f"({name}) than num_recur, the others with all: phi of the two differs, so fit them "
                    "apart.",
                    (name,),
                )
            )
    trained = _column(table, "r_train", rows)
    if trained is not None and all(isinstance(value, int | float) for value in trained):
        other = int((trained.astype(np.float64) != recur).sum())
        if other:
            found.append(
                Finding(
                    "other-recurrences",
                    f"{other} row(s) were evaluated at another number of recurrences than r_train: what a "
                    "recurrence is worth in training is not what it is worth afterwards.",
                    ("r_train",),
                )
            )
    return found
