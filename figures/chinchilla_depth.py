"""What depth, width and data are worth in the Chinchilla runs, and how sure that is.

    python -m figures.chinchilla_depth figures/tables/chinchilla_depth.json --out results/figures
    python -m figures.chinchilla_depth --data chinchilla_depth_width.csv --keep figures/tables

The second fits the runs anew (minutes) and keeps what is drawn, of which no run can be read off. Compare
arXiv:2602.05970, the section on the Chinchilla data: bootstrap, splits and the scan over dropped runs.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import _chinchilla, _style, _ticks, sensitivity
from figures._caption import caption
from figures._catalogue import Drawing
from figures.law_fit import shown
from sweeps._config import ConfigError
from sweeps._files import write_atomic
from sweeps._terminal import BadTable, fail, say

NAME = "chinchilla_depth"

PUBLISHED = {"alpha_m": (0.98, 0.08), "alpha_l": (1.2, 0.3), "alpha_D": (0.30, 0.01)}
"""arXiv:2602.05970: exponent, error."""

AXES = {"depth": "layers ℓ", "width": "width m", "num_tokens": "tokens D"}


def load(source: Path) -> dict[str, Any]:
    """What is kept."""
    return _chinchilla.read(source)


def plot(kept: dict[str, Any]) -> Figure:
    """The three terms; below bootstrap and splits, alpha_l against alpha_m, and the scan."""
    with _style.style():
        figure = Figure(figsize=(11, 6.8), layout="constrained")
        upper, lower = figure.subplots(2, 3)
        for axes, column in zip(upper, _chinchilla.TERMS, strict=True):
            _term(axes, kept, column)
        _bootstrap(lower[0], kept)
        _joint(lower[1], kept)
        _scan(lower[2], kept)
        caption(
            figure,
            "L = c_m/m^α_m + c_ℓ/ℓ^α_ℓ + c_D/D^α_D + L_0, least squares on log L; "
            f"{kept['rows']} reconstructed runs, {kept['dropped']} of highest loss left out; objective "
            f"{kept['objective']:.6g} (published optimum: 3.06807e-05), mean relative error "
            f"{100 * kept['relative_error']:.2g} %. Above: what the other terms leave of the loss, mean and "
            "standard deviation of runs with the same value (of D: in the same bin), "
            f"{_chinchilla.LEAST} or more. Brackets: 95 %, {kept['interval']}.",
        )
        return figure


def _told(kept: dict[str, Any], name: str) -> str:
    found = kept["parameters"][name]
    value, error = PUBLISHED[name]
    ours = f"{found['estimate']:.3g} [{found['low']:.3g}, {found['high']:.3g}]"
    return f"{shown(name).replace('_l', '_ℓ')} = {ours} (published {value:g} ± {error:g})"


def _term(axes: Axes, kept: dict[str, Any], column: str) -> None:
    level, power = (kept["parameters"][name]["estimate"] for name in _chinchilla.TERMS[column])
    bins = kept["parts"][column]
    at, mean, deviation = (np.array([one[name] for one in bins]) for name in ("at", "mean", "deviation"))
    grid = np.geomspace(at.min(), at.max(), 50)
    axes.plot(grid, level * grid**-power, color=_style.ORANGE)
    axes.errorbar(at, mean, deviation, color=_style.BLUE, marker="o", ls="none", elinewidth=0.8)
    axes.set(xscale="log", xlabel=AXES[column], ylabel="loss left by the other terms (nats)")
    if (mean - deviation).min() > 0:
        axes.set_yscale("log")
        _ticks.plain(axes.yaxis)
    if at.max() < 1e5:
        _ticks.plain(axes.xaxis)
    axes.set_title(_told(kept, _chinchilla.TERMS[column][1]), fontsize=8)


def _bootstrap(axes: Axes, kept: dict[str, Any]) -> None:
    refits, found = np.array(kept["refits"]["alpha_l"]), kept["parameters"]["alpha_l"]
    value, error = PUBLISHED["alpha_l"]
    axes.axvspan(value - error, value + error, color=_style.GREY, alpha=0.2, lw=0, label="published ± error")
    axes.axvline(value, color=_style.GREY, lw=1, ls="--")
    axes.hist(refits, bins=40, color=_style.BLUE, alpha=0.6, label=f"{len(refits)} bootstrap refits")
    axes.axvline(found["estimate"], color=_style.BLUE)
    for end in (found["low"], found["high"]):
        axes.axvline(end, color=_style.BLUE, lw=0.8, ls=":")
    split = [one["alpha_l"] for one in kept["splits"]]
    worst = max(one["relative_error"] for one in kept["splits"])
    height = axes.get_ylim()[1]
    axes.plot(
        split,
        np.full(len(split), 0.04 * height),
        "|",
        color=_style.RED,
        ms=10,
        label=f"{len(split)} fits without a fifth of the runs\n(held-out error at most {100 * worst:.2g} %)",
    )
    axes.set(xlabel="α_ℓ", ylabel="refits", ylim=(0, 1.35 * height))
    axes.legend(fontsize=6.5, loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")
    axes.set_title("Bootstrap of α_ℓ (dotted: 95 %)")


def _joint(axes: Axes, kept: dict[str, Any]) -> None:
    across, along = np.array(kept["refits"]["alpha_m"]), np.array(kept["refits"]["alpha_l"])
    axes.plot(across, along, ".", ms=2, color=_style.BLUE, alpha=0.5, label="bootstrap refits")
    ends = np.array([min(across.min(), along.min()), max(across.max(), along.max())])
    axes.plot(ends, ends, color=_style.GREY, lw=0.8, label="equal: best shape m ∝ ℓ")
    (x, dx), (y, dy) = PUBLISHED["alpha_m"], PUBLISHED["alpha_l"]
    axes.errorbar(x, y, dy, dx, color=_style.RED, marker="D", ls="none", label="published")
    here = [kept["parameters"][name]["estimate"] for name in ("alpha_m", "alpha_l")]
    axes.plot(*here, "o", color="black", label="optimum")
    pad = 0.05 * np.ptp(across)
    axes.set(xlabel="α_m", ylabel="α_ℓ", xlim=(across.min() - 3 * pad, across.max() + 3 * pad))
    axes.legend(fontsize=6.5, loc="upper right")
    axes.set_title(f"Depth and width: correlation {np.corrcoef(across, along)[0, 1]:.2f}")


def _scan(axes: Axes, kept: dict[str, Any]) -> None:
    lines = sensitivity.compute(kept["scan"])
    sensitivity.plot_estimates(axes, lines, "alpha_l")
    value, error = PUBLISHED["alpha_l"]
    axes.axhspan(value - error, value + error, color=_style.GREY, alpha=0.2, lw=0)
    axes.axvline(kept["dropped"], color=_style.GREY, lw=0.8, ls=":", zorder=0)
    axes.set(xlabel="dropped runs (highest losses)", ylabel="α_ℓ")
    axes.legend(fontsize=6.5, loc="upper left")
    axes.set_title("Scan over dropped runs and objective\n(bars: 95 % by profile; hollow: not identified)")


def draw(source: Path, out: Path) -> list[Path]:
    """Draw what is kept into the folder `out`; returns the files written."""
    kept = load(source)
    return _style.save(plot(kept), out, NAME, f"{kept['kind']}, {kept['rows']} runs")


DRAWINGS = (
    Drawing(
        NAME,
        "terms of depth, width and data; bootstrap and splits of alpha_l; scan over dropped runs",
        "arXiv:2602.05970, the Chinchilla data",
        ("chinchilla_depth.json",),
        lambda files, out: draw(files[0], out),
    ),
)


def main(
    kept: Annotated[Path | None, typer.Argument(help="What --keep left.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
    data: Annotated[
        Path | None, typer.Option(help="Runs to fit: d_model, n_layers, num_tokens, loss.")
    ] = None,
    keep: Annotated[Path, typer.Option(help="Folder for what is kept of --data.")] = Path("results"),
) -> None:
    """Redraw the figure; with --data, fit the runs first."""
    try:
        if (kept is None) == (data is None):
            raise ConfigError("give what is kept, or --data: one of both")
        if data is not None:
            kept = keep / f"{NAME}.json"
            write_atomic(kept, _chinchilla.written(_chinchilla.results(data)))
            say(f"wrote {kept}")
        assert kept is not None
        for path in draw(kept, out):
            print(path)
    except (ConfigError, BadTable) as error:
        fail(f"{NAME}: {error}", 1)


if __name__ == "__main__":
    typer.run(main)
