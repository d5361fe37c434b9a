"""How many sequences fit in memory."""

from llm.probe._model import LanguageModel


def sequences_at_once(model: LanguageModel, length: int) -> int:
    """Sequences of `length` positions that can be read together."""
    return 8
