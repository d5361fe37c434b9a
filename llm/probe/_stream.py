"""The residual stream of a model of `transformers`: watched while the model runs, and resumed at any block.

State 0 enters block 0, state i leaves block i − 1; the last is read by the final norm and the head. Hooks see
them in the modules' own inputs and outputs, so that every family has the same ones. What a block is called
with besides the stream (position embeddings, a mask of a sliding window) is taken from the model's own call
of it, for a row of the same length.

Symbols: batch B, positions T, width d, vocabulary V, states S.
"""

import contextlib
from collections.abc import Callable
from typing import Any, final

from llm.probe._families import Parts
from llm.probe._libraries import library

# Rows are padded on the right and no token sees those after it, so that what stands behind a row's own tokens
# changes nothing of theirs. A mask would say the same, and cost the fast path that attention has without one.
OPTIONS = {"use_cache": False}


@final
class Stream:
    """Tensors in and out, of the model's own type and on its device."""

    def __init__(self, model: Any, parts: Parts) -> None:
        self.model, self.parts = model, parts
        self.weight = parts.embedding.weight
        self._torch = library("torch")
        self._length = 0
        self._arguments: list[dict[str, Any]] = []

    def tokens(self, tokens: Any) -> Any:
        """Ids of NumPy as the model takes them."""
        return self._torch.tensor(tokens, dtype=self._torch.int64, device=self.weight.device)

    def logits(self, tokens: Any) -> Any:
        """Of the model itself, in float32."""
        with self._torch.inference_mode():
            return self.model(input_ids=tokens, **OPTIONS).logits.float()

    def watch(self, tokens: Any, visit: Callable[[int, Any], None], noise: Any = None) -> None:
        """Run the model without its head; `visit` is told each state's number, and the state.

        noise: added to the tokens' embedding, as it leaves its module.
        """
        embedding, blocks = self.parts.embedding, self.parts.blocks

        def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            visit(0, args[0] if args else kwargs["hidden_states"])

        def leave(number: int) -> Callable[[Any, Any, Any], None]:
            return lambda module, args, found: visit(number, _stream_of(found))

        with contextlib.ExitStack() as hooks:
            hooks.enter_context(blocks[0].register_forward_pre_hook(enter, with_kwargs=True))
            for number, block in enumerate(blocks, 1):
                hooks.enter_context(block.register_forward_hook(leave(number)))
            if noise is not None:
                hooks.enter_context(embedding.register_forward_hook(lambda module, args, out: out + noise))
            with self._torch.inference_mode():
                self.model.base_model(input_ids=tokens, **OPTIONS)

    def resume(self, state: Any, number: int) -> Any:
        """The last state (B, T, d), of a state that is put in place of state `number`."""
        arguments = self._arguments_for(state.shape[1])
        with self._torch.inference_mode():
            for block, given in zip(list(self.parts.blocks)[number:], arguments[number:], strict=True):
                state = _stream_of(block(state, **given))
        return state

    def read(self, state: Any) -> Any:
        """Logits of a state through the final norm and the head, in float32."""
        with self._torch.inference_mode():
            return self.parts.head(self.parts.norm(state)).float()

    def _arguments_for(self, length: int) -> list[dict[str, Any]]:
        """What each block is called with besides the stream, in a row of that length; alike for all rows."""
        if self._length != length:
            found: list[dict[str, Any]] = []

            def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                found.append({name: given for name, given in kwargs.items() if name != "hidden_states"})

            with contextlib.ExitStack() as hooks, self._torch.inference_mode():
                for block in self.parts.blocks:
                    hooks.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
                row = self._torch.zeros((1, length), dtype=self._torch.int64, device=self.weight.device)
                self.model.base_model(input_ids=row, **OPTIONS)
            self._length, self._arguments = length, found
        return self._arguments


def _stream_of(found: Any) -> Any:
    """Blocks return the stream, some versions of them with more behind it."""
    return found[0] if isinstance(found, tuple) else found
