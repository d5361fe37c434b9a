"""Speed of the fitter against the usual way: SciPy's L-BFGS-B from each start, one after another.

    python tests/benchmarks/fitter.py            # about two minutes on two cores

The usual way is that of the papers' scripts: the sum of Huber penalties of log residuals, logarithms of the
amplitudes as parameters, logaddexp over the terms, a gradient by SciPy's own differences, in the box of
arXiv:2604.21106 (appendix on the fits). Ours is called through `sweeps.laws.fit`, in a process that has done
nothing before, so that imports and first calls count.
"""

import argparse
import resource
import time

import numpy as np
from scipy.optimize import minimize

SIGMA, DELTA, RESAMPLES, REFIT_STARTS, STARTS = 0.010, 1e-3, 200, 20, 500
BUDGETS = (4.64e17, 1e18, 2.15e18, 4.64e18, 1e19, 2.15e19)
BOX = [(-5, 35), (-5, 35), (-3, 2), (0, 2.5), (0, 2.5), (-3, 3)]
"""Of log A, log B, log E, alpha, beta, phi."""


def usual(columns, loss, starts, weights=None):
    """(objective, parameters) of every start."""
    weights = np.ones(loss.size) if weights is None else weights
    log_loss, log_tokens = np.log(loss), np.log(columns["num_tokens"])

    def objective(theta):
        a, b, e, alpha, beta, phi = theta
        size = columns["num_once"] + columns["num_recur"] ** phi * columns["num_recurrent"]
        terms = np.logaddexp(a - alpha * np.log(size), b - beta * log_tokens)
        residual = np.abs(np.logaddexp(terms, e) - log_loss)
        near = np.minimum(residual, DELTA)
        return float(weights @ (near * (residual - near / 2)))

    return [minimize(objective, start, method="L-BFGS-B", bounds=BOX) for start in starts]


def joint(tiny):
    """The joint law: 500 starts, then 200 resamples of the blocks (budget, recurrences), 20 starts each."""
    from looped_design import looped_table

    from sweeps.laws import Huber, LoopedLaw, fit

    starts, resamples, again = (50, 10, 4) if tiny else (STARTS, RESAMPLES, REFIT_STARTS)
    table = looped_table(SIGMA, 0)
    began = time.perf_counter()
    ours = fit(
        LoopedLaw(),
        table,
        group=("flops", "num_recur"),
        objective=Huber(DELTA),
        interval="cluster",
        starts=starts,
        resamples=resamples,
        refit_starts=again - 1,
    )
    seconds = time.perf_counter() - began
    reached = share_at_optimum(table, starts)

    rng = np.random.default_rng(0)
    low, high = np.array(BOX, dtype=float).T
    low, high = np.maximum(low, [0, 0, -1, 0, 0, -1]), np.minimum(high, [25, 25, 1, 2, 2, 2])
    columns = {name: table[name] for name in LoopedLaw().columns}
    begin = rng.uniform(low, high, (starts, 6))
    began = time.perf_counter()
    ends = usual(columns, table["loss"], begin)
    usual_starts = time.perf_counter() - began
    best = min(ends, key=lambda end: end.fun)
    block = np.unique(np.stack([table["flops"], table["num_recur"]]), axis=1, return_inverse=True)[1].ravel()
    for _ in range(resamples):
        count = rng.multinomial(block.max() + 1, np.full(block.max() + 1, 1 / (block.max() + 1)))
        more = np.concatenate([best.x[None], begin[: again - 1]])
        usual(columns, table["loss"], more, count[block].astype(float))
    usual_seconds = time.perf_counter() - began
    total = starts + resamples * again
    agree = np.mean([end.fun <= ours.objective * (1 + 1e-3) for end in ends])
    rows = table["loss"].size
    print(f"joint law, {rows} rows, {starts} starts + {resamples} x {again} refits, Huber {DELTA}")
    for name, took, value in (("ours", seconds, ours.objective), ("usual", usual_seconds, best.fun)):
        print(f"  {name:6s}{took:8.2f} s  {1e3 * took / total:6.2f} ms a start  objective {value:.6e}")
    print(f"  ours: {100 * reached:.1f} % of {starts} starts at the optimum (within 1e-6 of the objective)")
    print(f"  usual: {1e3 * usual_starts / starts:.1f} ms a start; {100 * agree:.1f} % within 1e-3 of ours")
    print(f"  ratio {usual_seconds / seconds:.1f}; phi {ours.estimates['phi']:.4f} {ours.intervals['phi']}")


def share_at_optimum(table, starts):
    """The share of starts that end at the best objective found."""
    from sweeps.laws import Huber, LoopedLaw
    from sweeps.laws._problem import build
    from sweeps.laws._solve import solve
    from sweeps.laws._starts import draw
    from sweeps.laws._table import read

    law = LoopedLaw()
    problem = build(law, law.parameters, read(law, table), Huber(DELTA), ())
    total = solve(problem, draw(problem, starts, np.random.default_rng(0)), 300).total
    return float(np.mean(total <= total.min() * (1 + 1e-6)))


def seven(rows, starts, label, **options):
    """Width, depth and data: seven parameters."""
    from sweeps.laws import WidthDepthDataLaw, fit

    rng = np.random.default_rng(0)
    width, depth, tokens = (10 ** rng.uniform(low, high, rows) for low, high in ((2, 4), (0.5, 2), (8, 11)))
    loss = 275 * width**-0.95 + 6.7 * depth**-1.3 + 529 * tokens**-0.3 + 1.75
    loss = loss * np.exp(0.005 * rng.standard_normal(rows))
    table = {"width": width, "depth": depth, "num_tokens": tokens, "loss": loss}
    began = time.perf_counter()
    found = fit(WidthDepthDataLaw(), table, starts=starts, **options)
    seconds = time.perf_counter() - began
    low, high = found.intervals["alpha_l"]
    value = f"{found.estimates['alpha_l']:.4f} [{low:.4f}, {high:.4f}]"
    print(f"{label}: {seconds:.2f} s   alpha_l {value} {found.status}")


def main():
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    options.add_argument("--tiny", action="store_true", help="every path at a small size")
    tiny = options.parse_args().tiny
    joint(tiny)
    seven(1000, 64, "7 parameters, 1000 rows, 64 starts, no intervals", interval="none")
    seven(1000, 64, "7 parameters, 1000 rows, 64 starts, 1000 pairs resamples")
    big = 5000 if tiny else 100_000
    seven(big, 64, f"7 parameters, {big} rows, 64 starts, no intervals", interval="none")
    seven(big, 64, f"7 parameters, {big} rows, 64 starts, intervals as by default")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).parents[1] / "sweeps" / "laws"))
    main()
