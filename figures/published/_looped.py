"""Rows of arXiv:2604.21106: what is counted, the joint law, the frontier.

From the saved analyses of grids (`depthlaw iso-depth --json`) and from `llm`'s accounting.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl
from scipy import stats

from figures._looped_paper import (
    BUDGETS,
    CHINCHILLA,
    GAPS,
    GROWTH,
    HEAD_SIZE,
    NUM_PARAMS,
    NUM_TOKENS,
    PHI,
    RECURRENCES,
    VOCABULARY,
)
from figures.published._row import Number, Row, apart, claimed, counted, measured

PAPER = "2604.21106"
SCALE = "llm_cpu"
OTHER = "other sizes, text, tokenizer and context"


def rows(grid: dict[str, Any], against: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """grid: the analysis of llm_cpu. against: case study -> an analysis with its `delta_phi`."""
    yield from accounting()
    yield from joint(grid)
    yield from frontier(grid)
    yield from cases(against)


def accounting() -> Iterator[Row]:
    """Parameters and tokens, by the accounting alone."""
    from llm import Linear, ModelConfig, RunConfig, count_params, num_steps

    def model(s: int, r: int) -> ModelConfig:
        injection = Linear() if r > 1 else None
        return ModelConfig(width=64 * s, head_size=HEAD_SIZE, num_recur=r, injection=injection)

    def tokens(s: int, r: int, budget: float) -> float:
        config = RunConfig(model=model(s, r), budget=budget)
        return num_steps(config, VOCABULARY) * config.batch_tokens

    texts = [f"{value:.1f}" for line in NUM_PARAMS.values() for value in line]
    found = [count_params(model(s, r), VOCABULARY).num_params for s in NUM_PARAMS for r in RECURRENCES]
    yield counted(PAPER, "unique parameters N (M), 11 widths, r = 1, 2, 4, 8", texts, found, 1e6)
    what = "tokens (M) at s = 10 and 1e18 FLOPs, r = 1 and r = 4 with linear injection"
    yield counted(PAPER, what, ("973", "955"), [tokens(10, 1, 1e18), tokens(10, 4, 1e18)], 1e6)
    printed = [
        (s, budget, value)
        for s, line in NUM_TOKENS.items()
        for budget, value in zip(BUDGETS, line, strict=True)
        if value is not None
    ]
    off = [100 * (tokens(s, 1, budget) / (1e9 * value) - 1) for s, budget, value in printed]
    yield claimed(
        PAPER,
        f"tokens of {len(printed)} cells, one number for all r",
        "0.34 B to 7.78 B",
        f"r = 1: {min(off):+.1f} to {max(off):+.1f} %",
        "exact",
        max(map(abs, off)) < 0.5,
        "no single r gives the printed column",
    )
    # The width at which r = 1 has a billion parameters, 240 d².
    width = 2 * round((1e9 / 240) ** 0.5 / 2)
    four = count_params(ModelConfig(width=width, head_size=2, num_recur=4), VOCABULARY)
    worth, matrix = 4 ** PHI["all"][0], 2 * width**2
    effective, bare = (four.num_once + worth * (four.num_recurrent - n) for n in (0, matrix))
    yield claimed(
        PAPER,
        "unique and, at phi = 0.459, effective parameters of r = 4 where r = 1 has 1 B",
        "410 M and 580 M",
        f"{four.num_params / 1e6:.0f} M and {effective / 1e6:.0f} M",
        "exact",
        round(four.num_params, -7) == 410e6 and round(bare, -7) == 580e6,
        f"{bare / 1e6:.0f} M where the injection is not counted",
    )


def joint(grid: dict[str, Any]) -> Iterator[Row]:
    """phi, and how well the law describes the runs."""
    free, zero, one = grid["joint"]
    phi = _number(grid["phi"])
    value, ends = PHI["all"]
    assert ends is not None
    yield measured(PAPER, "phi, joint law", Number(value, *ends), phi, SCALE, OTHER)
    yield claimed(
        PAPER,
        "phi = 0 and phi = 1 describe the runs worse",
        "R² 0.9972; 0.9858 and 0.9552",
        f"R² {free['r_squared']:.4f}; {zero['r_squared']:.4f} and {one['r_squared']:.4f}",
        SCALE,
        free["r_squared"] > max(zero["r_squared"], one["r_squared"]),
    )
    lower, upper = (_number(half["fit"]["parameters"]["phi"]) for half in grid["halves"])
    yield measured(PAPER, "phi, lower half of the budgets", Number(PHI["lower"][0]), lower, SCALE, OTHER)
    yield measured(PAPER, "phi, upper half of the budgets", Number(PHI["upper"][0]), upper, SCALE, OTHER)
    yield claimed(
        PAPER,
        "phi does not change with compute",
        "0.44 and 0.49",
        f"{lower} and {upper}",
        SCALE,
        lower.low <= upper.high and upper.low <= lower.high,
    )
    yield apart(
        PAPER,
        "RMSE of the joint law (nats)",
        "0.009 to 0.011",
        f"{free['rmse']:.4f}; runs that differ in their seed scatter by {grid['noise']['sd']:.4f}",
        SCALE,
        "the scatter of so small models is larger",
    )
    for name, published in (("alpha", 0.199), ("beta", 0.369), ("E", 1.57)):
        parameter = free["fit"]["parameters"][name]
        yield apart(PAPER, f"{name}, joint law", f"{published}", str(_number(parameter)), SCALE, OTHER)
    for architecture in grid["architectures"]:
        r, fit = architecture["num_recur"], architecture["fit"]
        told = [str(_number(fit["parameters"][name])) for name in ("alpha", "beta", "E")]
        known = all(fit["parameters"][name]["identified"] for name in ("alpha", "beta", "E"))
        yield apart(
            PAPER,
            f"alpha, beta, E of r = {r} alone",
            ", ".join(str(CHINCHILLA[r][name]) for name in ("alpha", "beta", "E")),
            ", ".join(told),
            SCALE,
            OTHER if known else "18 runs of five budgets do not bound five parameters",
        )


def frontier(grid: dict[str, Any]) -> Iterator[Row]:
    """Gaps to r = 1, and how best sizes grow."""
    for r, (low, high) in GAPS.items():
        cells = [cell for cell in grid["cells"] if cell["num_recur"] == r and cell["gap"] is not None]
        gaps, errors = [cell["gap"] for cell in cells], [cell["gap_error"] for cell in cells]
        mean = sum(gaps) / len(gaps)
        reach = 1.96 * sum(error**2 for error in errors) ** 0.5 / len(errors)
        ours = Number(mean, mean - reach, mean + reach)
        what = f"gap of the frontier to r = 1, r = {r} (nats)"
        yield measured(PAPER, what, (low, high), ours, f"{SCALE}, mean over budgets")
    yield claimed(
        PAPER,
        "best loss rises with r at every budget",
        "yes",
        f"yes at {sum(order['rises'] for order in grid['orders'])} of {len(grid['orders'])} budgets",
        SCALE,
        all(order["rises"] for order in grid["orders"]),
    )
    for column, name in (("num_params", "N*"), ("num_tokens", "D*")):
        for r, published in GROWTH[column].items():
            (found,) = (g for g in grid["growth"] if (g["num_recur"], g["column"]) == (r, column))
            reach = stats.t.ppf(0.975, found["budgets"] - 2) * found["error"]  # of a line through them
            ours = Number(found["exponent"], found["exponent"] - reach, found["exponent"] + reach)
            yield measured(PAPER, f"exponent of {name} in compute, r = {r}", Number(published), ours, SCALE)


def injections(table: pl.DataFrame) -> Row:
    """The order of the four injections at one width, r and budget."""
    means = dict(table.group_by("injection").agg(pl.col("loss").mean()).sort("loss").iter_rows())
    order = list(means)
    holds = order[0] == "hyperconnections" and order[-1] == "passthrough"
    return claimed(
        PAPER,
        "hyperconnections are best, linear and additive alike, passthrough worst (r = 4, nats)",
        "2.757; 2.793 and 2.797; 7.400",
        ", ".join(f"{name} {loss:.3f}" for name, loss in means.items()),
        "llm_cpu_injections",
        holds and abs(means["linear"] - means["additive"]) < 0.02,
        "but passthrough, which fails there, trains here",
    )


def axes(table: pl.DataFrame) -> Row:
    """The five axes, of which models so small are scored on two."""
    accuracies = table.select(pl.col("^(reasoning|symbolic)_accuracy$").mean()).row(0)
    return apart(
        PAPER,
        "knowledge follows the loss; reading and symbols close the gap; reasoning is not resolved",
        "by r at equal compute",
        "mean accuracy of reasoning and symbols " + " and ".join(f"{value:.3f}" for value in accuracies),
        "llm_cpu",
        "models of 250 thousand parameters or fewer, trained on code, solve no item",
    )


def cases(against: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """phi of the two case studies less that of the plain grid."""
    for case in ("truncated", "hyperconnections"):
        difference = round(PHI[case][0] - PHI["shared"][0], 3)
        if case in against:
            delta = against[case]["delta_phi"]
            ours = Number(delta["difference"], *delta["interval"])
            scale = f"llm_cpu_{case} against llm_cpu, lower three budgets"
            yield measured(PAPER, f"phi of {case} less phi", Number(difference), ours, scale)


def _number(parameter: dict[str, Any]) -> Number:
    low, high = (float(end) for end in parameter["interval"])
    return Number(float(parameter["estimate"]), low, high)
