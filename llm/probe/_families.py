"""Families of pretrained models: where each keeps what a probe reads.

All are decoders with a pre-norm residual stream: a block adds to the stream what it computes of the stream's
norm, and a final norm stands before the head. To add one, subclass `Family` and name it in `FAMILIES`.
"""

import abc
from typing import Any, ClassVar, NamedTuple, final


class Parts(NamedTuple):
    """Modules of a model. embedding: that of tokens alone. norm: the final one."""

    embedding: Any
    blocks: Any
    norm: Any
    head: Any


class Family(abc.ABC):
    """An architecture of `transformers`.

    kind: `model_type` in config.json. models: which are known by it. starts_texts: whether its BOS token
    stood before every text that it learnt from; asked only of a model that has no tokenizer to say so.
    """

    kind: ClassVar[str]
    models: ClassVar[str]
    starts_texts: ClassVar[bool]

    @abc.abstractmethod
    def parts(self, model: Any) -> Parts:
        """Of a causal language model of this family."""

    def refusal(self, config: Any) -> str | None:
        """Why the states of a model of this config are no pre-norm residual stream; None where they are."""
        return None


@final
class GPTNeoX(Family):
    """GPT-NeoX: attention and MLP side by side in most, rotary positions on a part of each head."""

    kind = "gpt_neox"
    models = "Pythia, GPT-NeoX"
    starts_texts = False

    def parts(self, model: Any) -> Parts:
        base = model.base_model
        return Parts(base.embed_in, base.layers, base.final_layer_norm, model.get_output_embeddings())


@final
class OPT(Family):
    """OPT: learnt positions, which are added to the tokens' embedding before the first block."""

    kind = "opt"
    models = "OPT"
    starts_texts = True

    def parts(self, model: Any) -> Parts:
        base = model.base_model.decoder
        return Parts(base.embed_tokens, base.layers, base.final_layer_norm, model.get_output_embeddings())

    def refusal(self, config: Any) -> str | None:
        if not config.do_layer_norm_before:
            told = "do_layer_norm_before is false (as in OPT-350m): norms stand after the sums"
            return f"{told}, so that there is no residual stream"
        if config.word_embed_proj_dim != config.hidden_size:
            sizes = f"word_embed_proj_dim is {config.word_embed_proj_dim}, hidden_size {config.hidden_size}"
            return f"{sizes}: its embedding and head are of another width than the residual stream"
        if config._remove_final_layer_norm:
            return "_remove_final_layer_norm is true: no norm stands between its last block and its head"
        return None


@final
class Qwen2(Family):
    """Qwen2 and Qwen2.5: RMS norms, rotary positions, grouped queries, biases on q, k and v."""

    kind = "qwen2"
    models = "Qwen2, Qwen2.5"
    starts_texts = False

    def parts(self, model: Any) -> Parts:
        base = model.base_model
        return Parts(base.embed_tokens, base.layers, base.norm, model.get_output_embeddings())


@final
class Llama(Family):
    """Llama and what shares its architecture: RMS norms, rotary positions, gated MLP."""

    kind = "llama"
    models = "Llama"
    starts_texts = True

    def parts(self, model: Any) -> Parts:
        base = model.base_model
        return Parts(base.embed_tokens, base.layers, base.norm, model.get_output_embeddings())


FAMILIES: dict[str, Family] = {family.kind: family for family in (GPTNeoX(), Llama(), OPT(), Qwen2())}


def family_named(kind: object, where: str) -> Family:
    """The family whose `model_type` it is. Raises ValueError, with those that are known."""
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join(f"{family.kind} ({family.models})" for family in FAMILIES.values())
        raise ValueError(f"{where}: model_type is {kind!r}, which no probe knows; known: {known}")
    return FAMILIES[kind]
