"""Pretrained models of the library `transformers` as probes see them.

Symbols: batch B, positions T, width d, vocabulary V, states S.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Array, Float, Int

from llm._free_memory import host_memory
from llm._model import check_vocabulary
from llm._rules import require
from llm.probe._families import Family
from llm.probe._folder import load, located, read_config, stamp
from llm.probe._libraries import library, to_jax, to_torch
from llm.probe._model import LanguageModel, State
from llm.probe._pretrained_trace import PretrainedTrace
from llm.probe._stream import Stream
from llm.probe._words import Words

PRECISIONS = ("float32", "bfloat16")


def open_pretrained(source: str, *, precision: str = "float32", device: str | None = None) -> LanguageModel:
    """The model in a local folder, or of this name on the hub of Hugging Face (kept in its cache).

    precision: of weights and states inside, float32 or bfloat16; what comes out is float32. device: as torch
    names it; None: the first GPU that torch finds, else the CPU. A folder without a tokenizer can be opened;
    only `encode` and `decode` are refused. The states are the residual stream that enters block 0
    ("embedding", with OPT's positions), and after each block ("layer.0", …), the last one before the final
    norm. On a GPU that JAX uses as well, JAX takes most of the memory when it starts, unless the environment
    variable XLA_PYTHON_CLIENT_PREALLOCATE is false.

    Raises ValueError, with what to do: a library is missing, no such model, an architecture that no probe
    knows or whose states are no pre-norm residual stream, weights that are missing or not there in full.
    """
    require(precision in PRECISIONS, "precision", precision, f"must be one of {', '.join(PRECISIONS)}")
    torch = library("torch")
    library("transformers")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # no such kind, or a build of torch without it
        raise ValueError(f"device is {place!r}, which torch does not find: {error}") from None
    folder = located(source)
    config, family = read_config(folder)
    model = load(folder, config, getattr(torch, precision), place)
    return Pretrained(model, family, Words(folder), name=source, stamp=stamp(folder))


@final
class Pretrained(LanguageModel):
    """A causal language model of `transformers`."""

    def __init__(self, model: Any, family: Family, words: Words, *, name: str, stamp: str) -> None:
        config, self.stamp = model.config, stamp
        self._stream, self._words, self.name = Stream(model, family.parts(model)), words, name
        layers = (State(f"layer.{number}", "layer") for number in range(len(self._stream.parts.blocks)))
        self.states = (State("embedding", "embedding", is_layer=False), *layers)
        self.width, self.vocabulary = config.hidden_size, config.vocab_size
        self.longest = config.max_position_embeddings
        self.embedding_deviation = float(self._stream.weight.detach().float().std())
        usual = config.bos_token_id if family.starts_texts else None
        self.first = words.first if words.missing is None else usual

    def encode(self, text: str) -> list[int]:
        return self._words.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self._words.decode(ids)

    def logits(self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]) -> Float[Array, "B T V"]:
        return to_jax(self._stream.logits(self._checked(tokens)))

    def trajectory(
        self, tokens: Int[np.ndarray, "B T"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Array, "S B T d"]:
        torch, weight = library("torch"), self._stream.weight
        shape = (len(self.states), *tokens.shape, self.width)
        found = torch.empty(shape, dtype=torch.float32, device=weight.device)

        def keep(number: int, state: Any) -> None:
            found[number] = state  # as float32, where it stays

        self._stream.watch(self._checked(tokens), keep)
        return to_jax(found)

    def read_out(self, h: Float[Any, "B T d"]) -> Float[Array, "B T V"]:
        return to_jax(self._stream.read(to_torch(h, self._stream.weight)))

    def through_last_layer(
        self, h: Float[Any, "B T d"], lengths: Int[np.ndarray, " B"]
    ) -> Float[Array, "B T V"]:
        state = to_torch(h, self._stream.weight)
        last = len(self.states) - 2
        return to_jax(self._stream.read(self._stream.resume(state, last)))

    def trace(self, tokens: Int[np.ndarray, " T"]) -> PretrainedTrace:
        self._checked(tokens[None])
        return PretrainedTrace(self._stream, np.asarray(tokens))

    def free_memory(self) -> int:
        device = self._stream.weight.device
        if device.type != "cuda":
            return host_memory()
        cuda = library("torch").cuda
        unused = cuda.memory_reserved(device) - cuda.memory_allocated(device)  # taken by torch, free to it
        return int(cuda.mem_get_info(device)[0] + unused)

    def _checked(self, tokens: np.ndarray) -> Any:
        check_vocabulary(tokens, self.vocabulary, "tokens")
        if self.longest is not None and not 1 <= tokens.shape[1] <= self.longest:
            told = f"tokens: a row has {tokens.shape[1]}, {self.name} reads 1 to {self.longest}"
            raise ValueError(f"{told} (max_position_embeddings of its config.json)")
        return self._stream.tokens(tokens)
