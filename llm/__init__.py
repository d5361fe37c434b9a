"""Looped language models: train them, count them, measure what one recurrence is worth (arXiv:2604.21106).

An experiment is a `RunConfig`; `train` runs it. Variants are small classes:
`Injection`, `Optimiser`, `Corpus`, `Tokenizer`.
"""

from llm._accounting import (
    ParameterCount,
    count_params,
    forward_flops,
    memory_bytes,
    num_steps,
    run_flops,
    total,
    training_flops,
)
from llm._config import Evaluation, ModelConfig, RunConfig, SampledRecurrences
from llm._corpus import Corpus, Embedded, Files, Hub
from llm._evaluate import HeldOut, evaluate
from llm._generate import KVCache, extend, generate
from llm._injection import Additive, Hyperconnections, Injection, Linear, Passthrough
from llm._layout import Layout
from llm._loss import token_losses
from llm._model import LoopedLM
from llm._optim import AdamW, MuonH, Optimiser, Transfer, transferred
from llm._pack import BuildProgress
from llm._peak import peak_flops
from llm._program import program_of
from llm._readers import CorpusError
from llm._recurrences import Recurrences, recurrences
from llm._result import Progress, RunResult, Snapshot, Speed, Validation
from llm._tokenizers import Bytes, FromFile, Tokenizer, TrainedBPE
from llm._tokens import DataConfig, Tokens, build, open_tokens
from llm._train import train

__all__ = [
    "AdamW",
    "Additive",
    "BuildProgress",
    "Bytes",
    "Corpus",
    "CorpusError",
    "DataConfig",
    "Embedded",
    "Evaluation",
    "Files",
    "FromFile",
    "HeldOut",
    "Hub",
    "Hyperconnections",
    "Injection",
    "Layout",
    "Linear",
    "KVCache",
    "LoopedLM",
    "ModelConfig",
    "MuonH",
    "Optimiser",
    "ParameterCount",
    "Passthrough",
    "Progress",
    "Recurrences",
    "RunConfig",
    "RunResult",
    "SampledRecurrences",
    "Snapshot",
    "Speed",
    "Tokenizer",
    "Tokens",
    "TrainedBPE",
    "Transfer",
    "Validation",
    "build",
    "count_params",
    "evaluate",
    "extend",
    "forward_flops",
    "generate",
    "memory_bytes",
    "num_steps",
    "open_tokens",
    "peak_flops",
    "program_of",
    "recurrences",
    "run_flops",
    "token_losses",
    "total",
    "train",
    "training_flops",
    "transferred",
]
