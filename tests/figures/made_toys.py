"""Tables of toy sweeps that were never run: losses by a law, so that tests know every exponent."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

STEPS = (10, 30, 100, 300, 1000)
DEPTHS, SEEDS = (2, 4, 8, 16), (0, 1, 2)

ROW: dict[str, Any] = {
    "teacher": "tied",
    "layer_correlation": 1.0,
    "teacher_depth": 64,
    "objective": "mse",
    "given_head": None,
    "layer": "euler",
    "width": 8,
    "batch": 256,
    "steps": STEPS[-1],
    "temperature": None,
    "step": STEPS[-1],
    "status": "done",
}


def level(seed: int) -> float:
    """Of a seed's losses."""
    return 0.1 * (1 + seed)


def made_sweep(
    folder: Path,
    name: str,
    settings: Sequence[dict[str, Any]],
    alpha: Callable[[dict[str, Any], int], float],
    depths: Sequence[int] = DEPTHS,
) -> Path:
    """<folder>/<name>.csv and its curves: for each of the settings, laid over ROW, students of all depths and
    seeds, whose loss at a step is level(seed) * depth^-alpha(row, step)."""
    rows, curves = [], []
    for number, setting in enumerate(settings):
        for seed in SEEDS:
            for depth in depths:
                row = {**ROW, **setting, "job": f"{number}-{seed}", "seed": seed, "depth": depth}
                losses = {step: level(seed) * depth ** -alpha(row, step) for step in STEPS}
                rows.append(row | {"loss": losses[STEPS[-1]]})
                keys = {key: row[key] for key in ("job", "depth", "temperature")}
                curves += [keys | {"step": step, "loss": loss} for step, loss in losses.items()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    pl.DataFrame(curves, infer_schema_length=None).write_parquet(folder / f"{name}_curves.parquet")
    return path


def same_bytes(draw: Callable[[Path], list[Path]], folder: Path) -> bool:
    """Whether drawing twice, into two folders, writes the same files to the last byte, PNG and PDF."""
    one, other = (draw(folder / name) for name in ("once", "twice"))
    assert [path.suffix for path in one] == [".png", ".pdf"]
    assert all(path.stat().st_size > 5000 for path in one)
    return [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
