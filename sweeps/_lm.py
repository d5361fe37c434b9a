"""Sweeps of language models: a run is a job, and a row."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sweeps._config import canonical
from sweeps._jobs import Checkpoint, Column, Kind, Progress, Result
from sweeps._models import from_arrays, to_arrays

if TYPE_CHECKING:
    import llm
    from llm import LoopedLM, RunConfig, RunResult


class LM(Kind):
    """Runs of `llm`."""

    columns: ClassVar[dict[str, Column]] = {
        "width": Column(int, None, "width d"),
        "head_size": Column(int, None, "size of an attention head"),
        "prelude": Column(int, "layers", "layers before the recurrences"),
        "layers": Column(int, "layers", "layers that all recurrences together execute"),
        "coda": Column(int, "layers", "layers after the recurrences"),
        "depth": Column(int, "layers", "layers that a token goes through"),
        "num_recur": Column(int, "recurrences", "recurrences r of the block of layers / r layers"),
        "injection": Column(str, None, "how the prelude's output enters the block"),
        "lanes": Column(int, None, "lanes of hyperconnections; null without"),
        "backprop_recurrences": Column(
            int, "recurrences", "the last recurrences that keep gradients; null: all"
        ),
        "sampled_spread": Column(
            float, None, "spread of the recurrences drawn anew in each step; null: always r"
        ),
        "mask_documents": Column(bool, None, "whether attention stays within a document"),
        "corpus": Column(str, None, "kind of the corpus"),
        "corpus_hash": Column(str, None, "hash of its tokens"),
        "tokenizer": Column(str, None, "kind of the tokenizer"),
        "vocabulary": Column(int, "tokens", "size of the vocabulary, padding left out"),
        "context": Column(int, "tokens", "length T of a sequence"),
        "optimiser": Column(str, None, "muonh or adamw"),
        "matrix_rate": Column(float, None, "the matrices' learning rate at the first step"),
        "embedding_rate": Column(float, None, "the embedding's"),
        "head_rate": Column(float, None, "the head's"),
        "scale_rate": Column(float, None, "that of the norms' scales"),
        "lane_rate": Column(float, None, "that of the lanes' scalars"),
        "batch": Column(int, "sequences", "sequences a step"),
        "budget": Column(float, "FLOPs", "training FLOPs asked for; null where tokens were"),
        "seed": Column(int, None, "seed of initialisation and of the order of the data"),
        "num_params": Column(int, "parameters", "unique parameters N without embedding and head"),
        "num_once": Column(int, "parameters", "those of them that a token meets once"),
        "num_recurrent": Column(int, "parameters", "those that it meets in every recurrence"),
        "num_effective": Column(int, "parameters", "num_once + num_recur * num_recurrent"),
        "num_total": Column(int, "parameters", "with embedding and head, padding included"),
        "num_tokens": Column(int, "tokens", "tokens D trained on"),
        "flops": Column(float, "FLOPs", "training FLOPs C spent, validation left out"),
        "step": Column(int, "steps", "training steps done"),
        "train_loss": Column(float, "nats a token", "mean over the last tenth of the steps"),
        "loss": Column(float, "nats a token", "on the validation set; null once diverged"),
        "bpb": Column(float, "bits a byte", "on the validation set; null once diverged"),
        "status": Column(str, None, "done, or diverged: a loss was not finite"),
    }

    sorted_by: ClassVar[tuple[str, ...]] = (
        "budget",
        "injection",
        "backprop_recurrences",
        "width",
        "num_recur",
        "seed",
        "job",
    )

    @property
    def config(self) -> type:
        from llm import RunConfig

        return RunConfig

    def split(self, config: "RunConfig") -> "list[RunConfig]":
        return [config]

    def label(self, config: "RunConfig") -> str:
        model = config.model
        size = (
            f"{config.budget:.3g} FLOPs" if config.budget is not None else f"{config.num_tokens:.3g} tokens"
        )
        return f"{size}, width {model.width}, r = {model.num_recur}, seed {config.seed}"

    def flops(self, config: "RunConfig") -> int:
        from llm import run_flops

        return run_flops(config)

    def memory_bytes(self, configs: "Sequence[RunConfig]") -> int:
        from llm import memory_bytes

        return max(memory_bytes(config) for config in configs)

    def least_bytes(self, configs: "Sequence[RunConfig]") -> int:
        return self.memory_bytes(configs)

    def num_rows(self, config: "RunConfig") -> int:
        return 1

    def shares_cores(self, config: "RunConfig") -> bool:
        return True

    def product(self, config: "RunConfig") -> tuple[int, int, int]:
        width = config.model.width
        return config.batch_tokens // config.accumulation, width, 4 * width

    def program(self, config: "RunConfig") -> str:
        from llm import program_of

        return canonical(program_of(config))

    def companions(self, config: "RunConfig") -> str:
        return canonical(config)  # one at a time: a model fills its device

    def explains(self, error: Exception) -> bool:
        from llm import CorpusError

        return isinstance(error, CorpusError)

    def train(
        self,
        configs: "Sequence[RunConfig]",
        *,
        resume: Checkpoint | None = None,
        max_bytes: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        keep_models: bool = False,
    ) -> list[Result]:
        from llm import Snapshot, train

        (config,) = configs

        def report(progress: "llm.Progress") -> None:
            def checkpoint() -> Checkpoint:
                snapshot = progress.snapshot()
                about = {name: getattr(snapshot, name) for name in ("step", "config", "corpus")}
                return Checkpoint(snapshot.arrays, about)

            share = progress.step / progress.steps
            on_progress(Progress(share, progress.step, [progress.losses], checkpoint))

        result = train(
            config,
            resume=None if resume is None else Snapshot(arrays=resume.arrays, **resume.about),
            on_progress=report,
            on_build=lambda _: on_progress(Progress(0.0, 0, None, None)),
        )
        return [_result(config, result, keep_models)]

    def series(
        self, rows: list[dict[str, Any]], arrays: "dict[str, np.ndarray]"
    ) -> dict[str, list[dict[str, Any]]]:
        """`curves`: validation loss and bits a byte at a step."""
        names = {"step": "steps", "loss": "loss", "bpb": "bpb"}
        columns = {name: arrays[key].tolist() for name, key in names.items()}
        lines = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return {"curves": [line | {name: _finite(line[name]) for name in ("loss", "bpb")} for line in lines]}

    def model(
        self, config: "RunConfig", rows: list[dict[str, Any]], arrays: dict[str, np.ndarray]
    ) -> "LoopedLM":
        import jax

        from llm import LoopedLM

        def draw(key: Any) -> LoopedLM:
            return LoopedLM.draw(config.model, rows[0]["vocabulary"], key)

        return from_arrays(jax.eval_shape(draw, jax.random.key(0)), arrays)


def _result(config: "RunConfig", result: "RunResult", keep_models: bool = False) -> Result:
    about: dict[str, Any] = {"precision": _precision(config)}
    if result.speed is not None:
        about |= {
            "tokens_per_second": round(result.speed.tokens_per_second, 1),
            "flops_per_second": round(result.speed.flops_per_second),
            "peak_share": round(result.speed.peak_share, 4),
        }
    curves = {
        "train_loss": result.losses,
        "steps": np.array([v.step for v in result.validations]),
        "loss": np.array([v.loss for v in result.validations]),
        "bpb": np.array([v.bpb for v in result.validations]),
    }
    diverged = f"loss not finite at step {result.steps}" if result.diverged else None
    model = to_arrays(result.model) if keep_models else None
    return Result([row(config, result)], curves, diverged, about, model)


def row(config: "RunConfig", result: "RunResult") -> dict[str, Any]:
    """What a run reached, in the order of `LM.columns`."""
    from llm import count_params

    model, data = config.model, config.data
    counts = count_params(model, result.vocabulary)
    last = result.validations[-1]
    loss = _finite(last.loss)
    tail = result.losses[-max(1, result.steps // 10) :]
    found = {
        "width": model.width,
        "head_size": model.head_size,
        "prelude": model.prelude,
        "layers": model.layers,
        "coda": model.coda,
        "depth": model.executed,
        "num_recur": model.num_recur,
        "injection": model.injected.kind,
        "lanes": getattr(model.injected, "lanes", None),
        "backprop_recurrences": model.backprop_recurrences,
        "sampled_spread": None if model.sampled is None else model.sampled.spread,
        "mask_documents": model.mask_documents,
        "corpus": data.corpus.kind,
        "corpus_hash": result.corpus,
        "tokenizer": data.tokenizer.kind,
        "vocabulary": result.vocabulary,
        "context": data.context,
        "optimiser": config.optimiser.kind,
        **{f"{group}_rate": rate for group, rate in result.rates.items()},
        "batch": config.batch,
        "budget": config.budget,
        "seed": config.seed,
        "num_params": counts.num_params,
        "num_once": counts.num_once,
        "num_recurrent": counts.num_recurrent,
        "num_effective": counts.num_effective(model.num_recur),
        "num_total": counts.num_total,
        "num_tokens": result.num_tokens,
        "flops": result.flops,
        "step": result.steps,
        "train_loss": _finite(np.mean(tail, dtype=np.float64)),
        "loss": loss,
        "bpb": _finite(last.bpb),
        "status": "diverged" if loss is None else "done",
    }
    assert tuple(found) == tuple(LM.columns)
    return found


def _precision(config: "RunConfig") -> str:
    if config.precision == "float32":
        return "float32, products float32"
    return f"float32, products {config.precision}"


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
