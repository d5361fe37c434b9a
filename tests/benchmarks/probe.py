"""What a probe costs beside the forward pass alone, and whether its memory grows, as markdown tables.

    python tests/benchmarks/probe.py all

Both run in one process, in turns, over the same sequences; a table gives the median of the rounds' ratios.
Models are untrained and tokens random. Pretrained models need the extra [hf].
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

app = typer.Typer(help="Cost of a probe, as markdown tables.", no_args_is_help=True, add_completion=False)

CASES = {
    # name: (kind, width, context, sequences a round, sequences at once)
    "looped, width 16, r = 4": ("looped", 16, 64, 512, 64),
    "looped, width 32, r = 1": ("looped", 32, 64, 512, 64),
    "looped, width 64, r = 4": ("looped", 64, 256, 64, 16),
    "looped, width 256, r = 1": ("looped", 256, 256, 32, 8),
    "Llama, width 256": ("llama", 256, 256, 32, 4),
    "Llama, width 576": ("llama", 576, 256, 16, 4),
}


def language_model(kind: str, width: int, context: int, num_recur: int) -> Any:
    """An untrained model of 20 layers (Llama: 12, vocabulary 8192)."""
    if kind == "looped":
        import jax

        from llm import Bytes, LoopedLM, ModelConfig
        from llm.probe import Looped

        config = ModelConfig(width=width, head_size=max(8, min(64, width // 2)), num_recur=num_recur)
        model = LoopedLM.draw(config, 256, jax.random.key(0))
        return Looped(model, Bytes().prepare(Path("."), lambda: iter(())), longest=context)
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from llm.probe import open_pretrained

    torch.manual_seed(0)
    llama = LlamaConfig(
        vocab_size=8192,
        hidden_size=width,
        intermediate_size=8 * width // 3,
        num_hidden_layers=12,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
    )
    with tempfile.TemporaryDirectory() as folder:
        LlamaForCausalLM(llama).save_pretrained(folder)
        return open_pretrained(folder)


def measure(
    kind: str, width: int, context: int, sequences: int, at_once: int, num_recur: int, rounds: int
) -> Any:
    """Seconds of a forward pass alone (logits) and of a probe, over the same sequences."""
    import jax
    import numpy as np

    from llm.probe import ProbeConfig, TextSource, probe

    model = language_model(kind, width, context, num_recur)
    tokens = np.random.default_rng(0).integers(0, 256, (sequences, context)).astype(np.int32)

    def opened(start: int) -> Iterator[Any]:
        return ((number, tokens[number]) for number in range(start, sequences))

    def forward() -> None:
        lengths = np.full(at_once, context)
        for first in range(0, sequences, at_once):
            jax.block_until_ready(model.logits(tokens[first : first + at_once], lengths))

    def probed(every: int | None) -> Callable[[], Any]:
        source = TextSource(model, opened, length=context, at_once=at_once, sequences=sequences)
        return lambda: probe(source, ProbeConfig(lens_every=every, sample=1024))

    works = {"forward": forward, "probe": probed(16), "geometry": probed(None)}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for count in range(rounds + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if count:  # the first compiles
                seconds[name].append(time.perf_counter() - began)
    return seconds


def grown(sequences: int) -> float:
    """Peak memory in MiB of a probe of so many sequences of 64 tokens, in a process of its own."""
    from sweeps._machine import peak_memory

    measure("looped", 32, 64, sequences, 64, 1, 0)
    return peak_memory() / 2**20


@app.command()
def ratio(rounds: int = 5) -> None:
    """Probe against forward pass."""
    print("| model | context | tokens a round | forward | probe / forward | without the lens |")
    print("|---|---|---|---|---|---|")
    for name, (kind, width, context, sequences, at_once) in CASES.items():
        num_recur = 4 if "r = 4" in name else 1
        found = child("measure", [kind, width, context, sequences, at_once, num_recur, rounds])
        ratios = [
            statistics.median(a / b for a, b in zip(found[what], found["forward"], strict=True))
            for what in ("probe", "geometry")
        ]
        tokens = sequences * context
        speed = 1e6 * statistics.median(found["forward"]) / tokens
        told = " | ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"| {name} | {context} | {tokens:,} | {speed:.1f} µs a token | {told} |")


@app.command()
def memory() -> None:
    """Peak memory against the number of tokens."""
    print("| tokens | peak memory |")
    print("|---|---|")
    for sequences in (256, 1024, 4096):
        print(f"| {64 * sequences:,} | {child('grown', [sequences]):.0f} MiB |")


@app.command(name="all")
def everything() -> None:
    """Both tables."""
    ratio()
    print()
    memory()


def child(task: str, arguments: list[Any]) -> Any:
    """What a task gives, in a process of its own that is set up as commands are."""
    told = json.dumps([task, arguments])
    done = subprocess.run(
        [sys.executable, __file__, "work", told], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@app.command(hidden=True)
def work(told: str) -> None:
    """One task; prints what it gives."""
    from sweeps._machine import set_up_jax

    set_up_jax()
    task, arguments = json.loads(told)
    print(json.dumps({"measure": measure, "grown": grown}[task](*arguments)))


if __name__ == "__main__":
    app()
