"""Rows of arXiv:2602.05970, section 4: teachers and students."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from figures.published._row import Number, Row, claimed, measured
from sweeps._formats import read_table
from sweeps.laws import DepthLaw, fit

PAPER = "2602.05970, 4"


def rows(table: Callable[[str], Path]) -> Iterator[Row]:
    """From kept tables of the two-core presets; `table` gives a file by its name."""
    mse = read_table(table("mse-2core.csv"))
    scale = "mse-2core"
    for teacher, published in (("independent", 1.0), ("tied", 3.0)):
        mine = mse.filter(pl.col("teacher") == teacher)
        yield measured(PAPER, f"alpha, {teacher} teacher, MSE", Number(published), exponent(mine), scale)
    for teacher, published in (("independent", np.pi / 2), ("tied", 0.0)):
        mine = mse.filter(pl.col("teacher") == teacher)
        angles = mine.unique("seed")["teacher_update_angle"].to_numpy()
        told = f"{angles.mean():.3f} ({angles.min():.3f} to {angles.max():.3f})"
        near = bool(abs(angles.mean() - published) < 0.05)
        what = f"angle between updates of the {teacher} teacher (rad)"
        text = "≈ π/2" if published else "→ 0"
        yield claimed(PAPER, what, text, told, scale, near, "within 0.05 rad")
    yield from heads(table)
    yield from higher_order(table)


def heads(table: Callable[[str], Path]) -> Iterator[Row]:
    """KL at a temperature."""
    independent = read_table(table("kl-independent-2core.csv"))
    for temperature, alpha in by_temperature(independent):
        what = f"alpha, independent teacher, KL at T = {temperature:g}"
        reason = "not converged: 10 000 steps at a constant rate, the paper has 40 000"
        yield measured(PAPER, what, Number(1.0), alpha, "kl-independent-2core", reason)
    tied = [alpha for _, alpha in by_temperature(read_table(table("kl-tied-2core.csv")))]
    yield claimed(
        PAPER,
        "alpha rises with T from 1, tied teacher, KL, short training",
        "rises from ≈ 1",
        ", ".join(map(str, tied)),
        "kl-tied-2core",
        all(one.value <= other.value for one, other in zip(tied, tied[1:], strict=False)),
    )
    long = by_temperature(read_table(table("kl-tied-long-2core.csv")))
    for temperature, alpha in long:
        what = (
            f"alpha climbs towards 3, tied teacher, KL at T = {temperature:g}, teacher's head, long training"
        )
        holds = alpha.value > 2 or alpha.high >= 3
        told = "towards 3"
        yield claimed(PAPER, what, told, str(alpha), "kl-tied-long-2core", holds, "above 2, and rising")


def higher_order(table: Callable[[str], Path]) -> Iterator[Row]:
    """Students of midpoint layers."""
    midpoint = read_table(table("midpoint-2core.csv"))
    tied = exponent(midpoint.filter(pl.col("teacher") == "tied"))
    scale = "midpoint-2core"
    yield claimed(PAPER, "alpha, tied teacher, midpoint students", "above 3", str(tied), scale, tied.low > 3)
    free = exponent(midpoint.filter(pl.col("teacher") == "independent"))
    yield measured(PAPER, "alpha, independent teacher, midpoint students", Number(1.0), free, scale)


def exponent(rows: pl.DataFrame) -> Number:
    """Of students that have ended, each seed with its own level, L_0 = 0."""
    done = rows.filter(pl.col("status") == "done")
    found = fit(DepthLaw(), done, fix={"L_0": 0.0})
    return Number(found.estimates["alpha"], *found.intervals["alpha"])


def by_temperature(rows: pl.DataFrame) -> list[tuple[float, Number]]:
    """The exponent at each temperature, from the lowest."""
    parts = rows.partition_by("temperature", as_dict=True)
    return [(temperature, exponent(part)) for (temperature,), part in sorted(parts.items())]
