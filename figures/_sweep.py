"""A toy sweep as figures read it: rows, losses over training, angles along depth."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sweeps._config import ConfigError
from sweeps._formats import HIDDEN, read_table
from sweeps._store import Store

SERIES = ("curves", "angles")


@dataclass(frozen=True)
class Sweep:
    """name: of the sweep or the table. rows: a student each. curves: `step` and `loss` of students over
    training. angles: `step_angle` and `update_angle` by layer, of teachers (null depth) and students."""

    name: str
    rows: pl.DataFrame
    curves: pl.DataFrame
    angles: pl.DataFrame


def read_sweep(source: Path, series: Sequence[str] = SERIES) -> Sweep:
    """From a folder of results, or from a kept table NAME.csv with NAME_curves.parquet, NAME_angles.parquet.

    series: those that are wanted; the others stay empty. Students that diverged are left out. Raises
    ConfigError, StoreError or BadTable.
    """
    found = {one: pl.DataFrame() for one in SERIES}
    if source.is_dir():
        store = Store(source)
        name = str(store.spec()["sweep"]["name"])
        rows = store.table()
        found |= {one: store.series(one) for one in series}
    else:
        name, rows = source.stem, read_table(source).drop(HIDDEN, strict=False)
        for one in series:
            beside = source.with_name(f"{source.stem}_{one}.parquet")
            if not beside.exists():
                raise ConfigError(
                    f"{beside} is not there: `depthlaw table DIR --series {one} --out {beside.name}` makes it"
                )
            found[one] = read_table(beside).drop(HIDDEN, strict=False)
    if "status" not in rows.columns:
        raise ConfigError(f"{source} has no column 'status': give it a toy sweep")
    return Sweep(name, rows.filter(pl.col("status") == "done"), found["curves"], found["angles"])
