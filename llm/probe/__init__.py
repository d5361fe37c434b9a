"""What hidden states say of how a network uses its depth, whoever trained it (arXiv:2602.05970)."""

from llm.probe._looped import Looped
from llm.probe._model import LanguageModel, State, Trace
from llm.probe._pretrained import open_pretrained

__all__ = ["LanguageModel", "Looped", "State", "Trace", "open_pretrained"]
