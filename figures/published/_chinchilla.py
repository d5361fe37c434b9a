"""Rows of arXiv:2602.05970 on depth in the Chinchilla data, from the kept results of its fit."""

from collections.abc import Iterator
from typing import Any

from figures.published._row import Number, Row, claimed, measured

PAPER = "2602.05970, Chinchilla data"
SCALE = "the same 203 runs"


def rows(kept: dict[str, Any]) -> Iterator[Row]:
    """kept: what `python -m figures.chinchilla_depth` keeps of its fit, bootstrap and scan."""
    published = {"alpha_m": (0.98, 0.08), "alpha_l": (1.2, 0.3), "alpha_D": (0.30, 0.01)}
    for name, (value, error) in published.items():
        theirs = Number(value, value - error, value + error)
        reason = "the published optimum had not converged" if name == "alpha_l" else ""
        yield measured(PAPER, name, theirs, _number(kept, name), SCALE, reason)
    yield measured(PAPER, "L_0 (nats)", Number(1.75), _number(kept, "L_0"), SCALE)
    found = kept["objective"]
    yield claimed(
        PAPER,
        "mean squared log residual at the optimum",
        "3.06807e-5",
        f"{found:.5e}".replace("e-0", "e-"),
        SCALE,
        abs(found / 3.06807e-5 - 1) < 1e-4,
        "lower: the published optimum had not converged",
    )
    error = 100 * kept["relative_error"]
    yield claimed(PAPER, "mean relative error", "0.4 %", f"{error:.2f} %", SCALE, round(error, 1) == 0.4)
    estimates = [one["estimate"] for one in kept["scan"] if one["identified"]]
    yield claimed(
        PAPER,
        "alpha_l stays within its error, whatever runs are dropped",
        "1.2 ± 0.3",
        f"{min(estimates):.2f} to {max(estimates):.2f} by dropped runs and objective",
        SCALE,
        max(estimates) - min(estimates) < 0.6,
        "by objectives too",
    )


def _number(kept: dict[str, Any], name: str) -> Number:
    found = kept["parameters"][name]
    return Number(found["estimate"], found["low"], found["high"])
