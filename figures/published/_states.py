"""Rows of arXiv:2602.05970 on hidden states of language models."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from figures.published._row import Number, Row, apart, claimed, measured
from sweeps._formats import read_table
from sweeps.laws import DepthLaw, fit

PAPER = "2602.05970, hidden states"
PLAIN, SMOL = "llm_cpu_depths", "SmolLM2"


def rows(table: Callable[[str], Path]) -> Iterator[Row]:
    """From kept tables of probes; `table` gives a file by its name."""
    plain = read_table(table("llm_cpu_depths_probe.csv"))
    (smol,) = read_table(table("smollm2_probe.csv")).to_dicts()
    angles = plain["bulk_update_angle"].to_numpy()
    near = (np.pi / 3, 2 * np.pi / 3)
    for angle, scale in ((float(np.mean(angles)), PLAIN), (smol["bulk_update_angle"], SMOL)):
        holds = near[0] < angle < near[1] and abs(angle - np.pi / 2) < 0.2
        what = "angle between neighbouring updates (rad)"
        yield claimed(PAPER, what, "≈ π/2", f"{angle:.3f}", scale, holds, "within 0.2 rad")
    step = fit(DepthLaw(), {"depth": plain["depth"], "loss": plain["bulk_step"]}, fix={"L_0": 0.0})
    ours = Number(step.estimates["alpha"], *step.intervals["alpha"])
    reason = "first and last layers, whose turns do not shrink, are a large part of so shallow models"
    yield measured(PAPER, "exponent of the middle layers' step in depth", Number(1.0), ours, PLAIN, reason)
    yield apart(
        PAPER,
        "share of tokens in the largest cluster",
        "99.6 %",
        f"{100 * float(str(smol['clusters']).split()[0]):.1f} %",
        SMOL,
        "the others are first tokens there; ours has other documents and left first tokens out",
    )
