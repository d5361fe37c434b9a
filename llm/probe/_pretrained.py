"""Pretrained models of the library `transformers` as probes see them."""

from llm.probe._model import LanguageModel


def open_pretrained(source: str, *, precision: str = "float32") -> LanguageModel:
    """The model in a local folder, or of this name on the hub."""
    raise NotImplementedError
