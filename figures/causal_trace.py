"""Where a model carries what a sentence says of its subject: the map of a causal trace, tokens × states.

    python -m figures.causal_trace trace.json --out results/figures

Compare arXiv:2602.05970, the figure of its causal traces. Takes seconds; reads what `depthlaw trace --json`
wrote.
"""

import itertools
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

from figures import _style
from figures._catalogue import Drawing
from llm.probe import CausalTrace
from sweeps._causal import caveats, labels, read_trace, sentences
from sweeps._config import ConfigError
from sweeps._terminal import say

NAME = "causal_trace"
COLOURS = "cividis"  # even in lightness, and told apart by colour-blind readers
WIDEST, HIGHEST = 40, 60  # tokens and states that have a label each; of more, every second, third, …
SUBJECT = "▲ "


@dataclass(frozen=True)
class Band:
    """States that belong together: from `begin` to before `end` in the order of depth."""

    label: str
    begin: int
    end: int


@dataclass(frozen=True)
class Map:
    """All that is drawn: `value` (S, T), the probability with a state restored; a label for each token, with
    whether it is the subject's, and each state; bands; clean and mean corrupted probability; captions."""

    value: np.ndarray
    tokens: list[tuple[str, bool]]
    states: list[str]
    bands: list[Band]
    clean: float
    corrupted: float
    title: str
    caption: str


def load(source: Path) -> CausalTrace:
    """A trace that was saved."""
    return read_trace(source)


def compute(trace: CausalTrace) -> Map:
    """The map of a trace."""
    bands, begin = [], 0
    for (part, number), group in itertools.groupby(
        trace.states, lambda state: (state.part, state.recurrence)
    ):
        end = begin + len(list(group))
        bands.append(Band(part if number is None else f"recurrence {number}", begin, end))
        begin = end
    texts = [text.replace(" ", "␣") for text in labels(trace)]
    settings = trace.settings
    caption = (
        f"{SUBJECT}the subject's tokens, with noise of {settings.noise:g} times the embedding's standard "
        f"deviation; mean over {settings.draws} draws, largest standard error of a cell "
        f"{trace.error.max():.2g}. One state at one position is put back at a time."
    )
    return Map(
        value=trace.probability,
        tokens=[(text, token.is_subject) for text, token in zip(texts, trace.tokens, strict=True)],
        states=[_within(state.name) for state in trace.states],
        bands=bands,
        clean=trace.clean,
        corrupted=float(trace.corrupted.mean()),
        title=" ".join(sentences(trace)),
        caption=" ".join(
            [caption, *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in caveats(trace))]
        ),
    )


def _within(name: str) -> str:
    """A state's name within its band."""
    part, *numbers = name.split(".")
    if part == "recurrence":
        return f"layer {numbers[1]}" if len(numbers) == 2 else "end"
    if part == "inject":
        return "injected"
    return f"layer {numbers[0]}" if numbers else part


def plot(drawn: Map, said: str = "") -> Figure:
    """The figure: tokens from left to right, states from the embedding up."""
    states, tokens = drawn.value.shape
    with _style.style():
        size = (2.8 + 0.21 * min(max(tokens, 12), WIDEST), 1.9 + 0.15 * min(max(states, 10), HIGHEST))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        every = [drawn.clean, drawn.corrupted, *drawn.value.ravel()]
        image = axes.imshow(
            drawn.value,
            cmap=COLOURS,
            vmin=min(every),
            vmax=max(every),
            aspect="auto",
            origin="lower",
            interpolation="nearest",
        )
        _plot_tokens(axes, drawn.tokens)
        _plot_states(axes, drawn)
        _plot_ends(figure.colorbar(image, ax=axes, pad=0.02, fraction=0.05), drawn)
        title = "\n".join(textwrap.wrap(drawn.title, round(size[0] * 14)))
        figure.suptitle(_plain(title), fontsize=8, x=0.01, ha="left", parse_math=False)
        text = drawn.caption + (f" Model: {said}." if said else "")
        figure.supxlabel(
            _plain("\n".join(textwrap.wrap(text, round(size[0] * 21)))),
            fontsize=6,
            color=_style.GREY,
            x=0.01,
            ha="left",
            parse_math=False,
        )
        return figure


def _plot_tokens(axes: Axes, tokens: list[tuple[str, bool]]) -> None:
    step = -(-len(tokens) // WIDEST)
    shown = [t for t, (_, is_subject) in enumerate(tokens) if t % step == 0 or is_subject]
    texts = [_plain(SUBJECT * tokens[t][1] + tokens[t][0]) for t in shown]
    axes.set_xticks(shown, texts, rotation=90, fontsize=6.5, parse_math=False)
    for label, t in zip(axes.get_xticklabels(), shown, strict=True):
        if tokens[t][1]:
            label.set(color=_style.RED, fontweight="bold")
    axes.set_xlabel("token")


def _plot_states(axes: Axes, drawn: Map) -> None:
    step = -(-len(drawn.states) // HIGHEST)
    axes.set_yticks(range(0, len(drawn.states), step), drawn.states[::step], fontsize=6)
    axes.set_ylabel("state restored")
    for band in drawn.bands:
        if band.begin:
            axes.axhline(band.begin - 0.5, color="white", linewidth=1.2)
        if band.end - band.begin > 1 or len(drawn.bands) < 12:
            middle = (band.begin + band.end - 1) / 2
            axes.annotate(
                band.label,
                (1.01, middle),
                xycoords=("axes fraction", "data"),
                fontsize=6.5,
                va="center",
                annotation_clip=False,
            )


def _plot_ends(bar: Colorbar, drawn: Map) -> None:
    bar.set_label("probability of the answer")
    for value, style in ((drawn.clean, "-"), (drawn.corrupted, "--")):
        bar.ax.axhline(value, color="white", linewidth=2.5)
        bar.ax.axhline(value, color="black", linewidth=1, linestyle=style)
    bar.ax.set_title("– clean\n-- noise", fontsize=6, loc="left")


def _plain(text: str) -> str:
    """With what the font cannot draw as Python escapes it."""
    font = get_font(findfont("DejaVu Sans"))
    return "".join(
        letter
        if letter == "\n" or font.get_char_index(ord(letter))
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def draw(trace: CausalTrace, out: Path, name: str = NAME, said: str = "") -> list[Path]:
    """Draw a trace as <out>/<name>.png and .pdf; returns the files written. `said`: of the model."""
    drawn = compute(trace)
    about = f"causal trace, seed {trace.settings.seed}: {drawn.title}; {said}"
    return _style.save(plot(drawn, said), out, name, about.encode("ascii", "backslashreplace").decode())


DRAWINGS = (
    Drawing(
        NAME,
        "which hidden states of SmolLM2-135M carry what a sentence says of its subject",
        "arXiv:2602.05970, causal traces",
        ("smollm2_trace.json",),
        lambda files, out: draw(load(files[0]), out),
    ),
)


def main(
    source: Annotated[Path, typer.Argument(help="What `depthlaw trace --json` wrote.")],
    out: Annotated[Path, typer.Option(help="Folder to draw into.")] = Path("results/figures"),
) -> None:
    """Redraw the figure."""
    try:
        trace = load(source)
        for sentence in caveats(trace):
            say(sentence)
        for path in draw(trace, out):
            print(path)
    except ConfigError as error:
        raise SystemExit(f"{NAME}: {error}") from None


if __name__ == "__main__":
    typer.run(main)
