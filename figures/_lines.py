"""From kept tables of probed networks to what figures draw along depth.

The tables are networks.csv of `depthlaw probe` and what `figures.kept_states` kept of the states.
"""

from pathlib import Path

import numpy as np
import polars as pl

from figures import _states
from figures._states import Curve, Line
from sweeps._config import ConfigError
from sweeps._formats import HIDDEN, read_table
from sweeps.laws import DepthLaw, Fit, fit


def load(networks: Path, states: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of networks and of their states. Raises ConfigError where they are not of a probe."""
    found = [read_table(path).drop(HIDDEN, strict=False) for path in (networks, states)]
    for rows, path, needed in (
        (found[0], networks, ("depth", "seed", "bulk_step", "cosine_1")),
        (found[1], states, ("depth", "seed", "is_layer", "layer", "step_angle", "head_loss")),
    ):
        for name in needed:
            if name not in rows.columns:
                raise ConfigError(f"{path} has no column {name!r}: give it what figures.kept_states wrote")
    return found[0], found[1]


def line_of(networks: pl.DataFrame, states: pl.DataFrame, label: str, band: bool = False) -> Line:
    """Means over networks that differ in their seed; band: of the tokens between 5 and 95 %, of angles."""
    depth = states["depth"][0]
    # What stands between recurrences has no place of its own along depth.
    kept = states.filter(pl.col("is_layer") | (pl.col("number") == 0)).drop("part", "recurrence")
    means = kept.group_by("layer").mean().sort("layer")
    measures = {}
    for name in _states.LABELS:
        mine = means.drop_nulls(name)
        value = mine[name].to_numpy()
        place = (mine["layer"].to_numpy() - (0.5 if name == "step_angle" else 0.0)) / depth
        reach = None
        if band and f"{name}_q05" in mine.columns:
            reach = np.stack([value - mine[f"{name}_q05"].to_numpy(), mine[f"{name}_q95"].to_numpy() - value])
        measures[name] = Curve(place, value, reach)
    readings = {}
    for name in ("head", "layer"):
        mine = means.drop_nulls(f"{name}_loss")
        if len(mine):
            reach = np.tile(1.96 * mine[f"{name}_loss_error"].to_numpy(), (2, 1))
            readings[name] = Curve(mine["layer"].to_numpy() / depth, mine[f"{name}_loss"].to_numpy(), reach)
    return Line(label, measures, _cosines(networks), readings)


def _cosines(networks: pl.DataFrame) -> np.ndarray:
    """Means over networks, at the lags that all of them have."""
    lags = [f"cosine_{lag}" for lag in range(1, 1 + len(networks.columns))]
    known = [name for name in lags if name in networks.columns and not networks[name].null_count()]
    return networks.select(pl.col(known).cast(pl.Float64).mean()).to_numpy()[0]


def lines_by(networks: pl.DataFrame, states: pl.DataFrame, column: str, label: str) -> list[Line]:
    """A line for each value of a column that the states have, in order."""
    found = []
    for value in states[column].unique().sort():
        mine = states.filter(pl.col(column) == value)
        keys = [name for name in ("width", "depth", "num_recur", "budget", "seed") if name in mine.columns]
        keys = [name for name in keys if mine[name].null_count() == 0]
        theirs = networks.join(mine.select(keys).unique(), on=keys, how="semi")
        if theirs.is_empty():
            raise ConfigError(f"states of networks with {column} {value}, and no such network")
        found.append(line_of(theirs, mine, label.format(value)))
    return found


def step_fit(networks: pl.DataFrame) -> Fit:
    """The mean step of the middle half of the layers as c·depth^-gamma, a c a seed. Raises ConfigError."""
    table = networks.select("depth", "seed", pl.col("bulk_step").alias("loss"))
    try:
        return fit(DepthLaw(), table, fix={"L_0": 0.0})
    except ValueError as error:
        raise ConfigError(f"steps against depth: {error}") from error


def ends(states: pl.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Depths, and mean steps over seeds (rad), of the first, the second and the last layer."""
    layers = states.filter("is_layer")
    found = {}
    for name, place in (("first", pl.lit(1)), ("second", pl.lit(2)), ("last", pl.col("depth"))):
        means = layers.filter(pl.col("layer") == place).group_by("depth").agg(pl.col("step_angle").mean())
        means = means.sort("depth")
        found[name] = means["depth"].to_numpy(), means["step_angle"].to_numpy()
    return found


def recurrence_ends(states: pl.DataFrame) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """r -> recurrences done, mean loss through the last layer then (nats), and its standard error."""
    last = states.filter(pl.col("recurrence").is_not_null())
    last = last.filter(pl.col("number") == pl.col("number").max().over("num_recur", "seed", "recurrence"))
    means = last.group_by("num_recur", "recurrence").agg(pl.col("layer_loss", "layer_loss_error").mean())
    found = {}
    for (r,), part in sorted(means.partition_by("num_recur", as_dict=True).items()):
        part = part.sort("recurrence")
        done = part["recurrence"].to_numpy() + 1
        found[r] = done, part["layer_loss"].to_numpy(), part["layer_loss_error"].to_numpy()
    return found
