"""The command `probe`."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from sweeps._terminal import console, say


class Precision(enum.StrEnum):
    """Of weights and states of pretrained models."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def probe(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A folder of results with kept models; a preset or TOML file of toy networks (its "
            "teachers); a folder of a pretrained model, or its name on the hub, several for how steps scale.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of what is found (default: results/probes/NAME).")
    ] = None,
    only: Annotated[
        list[str],
        typer.Option(
            "--only", metavar="COLUMN=VALUE", help="Of a folder of results, these alone; repeatable."
        ),
    ] = [],  # noqa: B006  # typer copies it
    num_recur: Annotated[
        int | None, typer.Option(min=1, help="Recurrences to run looped models with (default: as trained).")
    ] = None,
    sequences: Annotated[int, typer.Option(min=1, help="Sequences that a language model reads.")] = 512,
    length: Annotated[
        int | None, typer.Option(min=2, help="Positions of each (default: as trained; pretrained: 1024).")
    ] = None,
    text: Annotated[
        list[str],
        typer.Option(help="Files and folders that a pretrained model reads (default: Python's own source)."),
    ] = [],  # noqa: B006
    inputs: Annotated[int, typer.Option(min=1, help="Inputs of each toy network.")] = 4096,
    skip_first: Annotated[
        int, typer.Option(min=0, help="First tokens of each sequence that are told apart.")
    ] = 1,
    keep_massive: Annotated[
        bool, typer.Option("--keep-massive", help="Do not tell tokens with massive activations apart.")
    ] = False,
    lens_every: Annotated[
        int, typer.Option(min=0, help="Read out one sequence in so many along depth (0: none).")
    ] = 16,
    sample: Annotated[int, typer.Option(min=1, help="Tokens whose angles are kept for clusters.")] = 4096,
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Sequences read together (default: as memory allows).")
    ] = None,
    precision: Annotated[Precision, typer.Option(help="Of pretrained models.")] = Precision.FLOAT32,
) -> None:
    """Does a network compose, discretise, or average? What its hidden states are, and what they speak for.

    Leaves in the folder networks.csv, states.csv, probe.json, the figure, and what it goes on from.
    """
    from figures.hidden_states import draw
    from llm.probe import ProbeConfig
    from sweeps._files import write_atomic, write_json
    from sweeps.probes import Reading, as_json, network_rows, open_probed, probe_all, state_rows, verdicts
    from sweeps.probes._shown import networks_table, sentences, verdicts_table

    reading = Reading(sequences, length, tuple(text), at_once, inputs, precision.value)
    how = ProbeConfig(skip_first, keep_massive, lens_every or None, sample)
    name = Path(sources[0]).name.removesuffix(".toml") or "probe"
    out = out or Path("results/probes") / (name if len(sources) == 1 else f"{name}-and-{len(sources) - 1}")
    networks = (
        network
        for source in sources
        for network in open_probed(source, reading, only=only, num_recur=num_recur)
    )
    found = probe_all(networks, how, out, say)
    judged = verdicts(found)
    write_atomic(out / "networks.csv", network_rows(found).write_csv().encode())
    write_atomic(out / "states.csv", state_rows(found).write_csv().encode())
    write_json(out / "probe.json", as_json(found, judged))
    console().print(networks_table(found))
    console().print(verdicts_table(judged))
    for sentence in sentences(judged):
        console().print(sentence, highlight=False, markup=False)
    for path in draw(found, judged, out):
        say(f"wrote {path}")
    say(f"networks.csv, states.csv and probe.json in {out}")
