"""What hidden states say of how a network uses its depth, whoever trained it (arXiv:2602.05970)."""

from llm.probe._looped import Looped
from llm.probe._model import LanguageModel, State, Trace
from llm.probe._pretrained import open_pretrained
from llm.probe._trace import TraceProgress, causal_trace
from llm.probe._traced import CausalTrace, TracedToken, TraceSettings

__all__ = [
    "CausalTrace",
    "LanguageModel",
    "Looped",
    "State",
    "Trace",
    "TraceProgress",
    "TraceSettings",
    "TracedToken",
    "causal_trace",
    "open_pretrained",
]
