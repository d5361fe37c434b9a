"""Causal trace: which hidden states carry what a sentence says of its subject (arXiv:2602.05970).

Symbols: positions T, draws K of the noise, width d.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from llm._rules import require
from llm.probe._model import LanguageModel
from llm.probe._spans import first_of_answer, place_of, positions_in, spans
from llm.probe._traced import CausalTrace, TracedToken, TraceSettings

NUMBERS_AT_ONCE = 2**26
"""Numbers that are asked of a model at once: probabilities, or embeddings with noise."""


class TraceProgress(NamedTuple):
    """A state was traced: `restored` (K, T) of it; `done` of `total` are."""

    done: int
    total: int
    state: str
    restored: np.ndarray


def causal_trace(
    model: LanguageModel,
    sentence: str,
    subject: str,
    *,
    answer: str | None = None,
    occurrence: int = 1,
    noise: float = 3.0,
    draws: int = 10,
    seed: int = 0,
    states: Sequence[str] | None = None,
    at_once: int | None = None,
    known: Mapping[str, np.ndarray] | None = None,
    on_state: Callable[[TraceProgress], object] | None = None,
) -> CausalTrace:
    r"""What restoring one clean hidden state does, for every state and token of a sentence.

    $$p = P(\text{answer} \mid \text{sentence}), \quad
    \text{noise} \sim N(0, (\text{noise} \cdot \sigma_{embedding})^2) \text{ on the subject's embeddings}$$

    One state at one position is put back at a time; the original (Meng et al., arXiv:2202.05262) restores
    windows of layers' parts too. The noise depends on seed, subject and width alone: it is the same for every
    state, and more draws begin with those of fewer.

    subject: tokens that have any of its characters get the noise. answer: exactly what follows the sentence,
    with its leading space if it has one; its first token counts. None: the likeliest next token, undisturbed.
    states: names of those to restore; None: all. at_once: positions that a model is asked for at once; None:
    as memory bears. known: what an earlier trace of the same kind found, by state; it is not found again.
    on_state: is told of every state that was found.

    Raises ValueError: subject not in the sentence, unknown state, answer without a token of its own, sentence
    longer than the model reads, a setting out of range.

    ??? cite "Reference"

        arXiv:2602.05970, the appendix with the causal trace.
    """
    settings = TraceSettings(sentence, subject, answer, occurrence, noise, draws, seed)
    require(at_once is None or at_once >= 1, "at_once", at_once, "must be at least 1")
    numbers = _chosen(model, states)
    ids = model.encode(sentence)
    text, parts = spans(ids, model.decode)
    at = positions_in(place_of(subject, text, occurrence), parts)
    tokens = [
        TracedToken(id, part.text, i in at) for i, (id, part) in enumerate(zip(ids, parts, strict=True))
    ]
    if model.first is not None:
        tokens.insert(0, TracedToken(model.first, ""))
        at = [i + 1 for i in at]
    if model.longest is not None and len(tokens) > model.longest:
        raise ValueError(f"sentence has {len(tokens)} tokens: {model.name} reads {model.longest}; shorten it")
    traced = model.trace(np.array([token.id for token in tokens]))
    clean = traced.clean()
    likeliest = int(np.argmax(clean))
    wanted = likeliest if answer is None else first_of_answer(sentence, answer, ids, model.encode)
    deviation = noise * model.embedding_deviation
    added = _noise(settings, deviation, len(tokens), at, model.width)
    found = []
    for done, number in enumerate(numbers):
        name = model.states[number].name
        if known is not None and name in known:
            restored = np.asarray(known[name], np.float64)
            fits = restored.shape == (draws, len(tokens))
            shape = f"{draws} draws of {len(tokens)} tokens"
            require(fits, f"known[{name!r}]", f"of shape {restored.shape}", f"must be of {shape}")
        else:
            step = at_once or _at_once(draws, len(tokens), model)
            places = np.arange(len(tokens))
            some = [traced.restored(added, number, places[i : i + step]) for i in places[::step]]
            restored = np.concatenate([part[:, :, wanted] for part in some], axis=1).astype(np.float64)
            if on_state is not None:
                on_state(TraceProgress(done + 1, len(numbers), name, restored))
        found.append(restored)
    return CausalTrace(
        model=model.name,
        settings=settings,
        tokens=tuple(tokens),
        answer=TracedToken(wanted, model.decode([wanted])),
        likeliest=TracedToken(likeliest, model.decode([likeliest])),
        most=float(clean[likeliest]),
        states=tuple(model.states[number] for number in numbers),
        deviation=deviation,
        clean=float(clean[wanted]),
        corrupted=traced.corrupted(added)[:, wanted].astype(np.float64),
        restored=np.stack(found),
    )


def _chosen(model: LanguageModel, names: Sequence[str] | None) -> list[int]:
    """Numbers of the states of these names, in the order of depth."""
    known = [state.name for state in model.states]
    if names is None:
        return list(range(len(known)))
    require(len(names) > 0, "states", "empty", "must name one")
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0) or known[:3]
            raise ValueError(f"states: {model.name} has no state {name!r}; it has {', '.join(near)}, …")
    return sorted({known.index(name) for name in names})


def _noise(
    settings: TraceSettings, deviation: float, length: int, at: list[int], width: int
) -> Float[np.ndarray, "K T d"]:
    rng = np.random.default_rng(settings.seed)
    noise = np.zeros((settings.draws, length, width), np.float32)
    noise[:, at] = deviation * rng.standard_normal((settings.draws, len(at), width))
    return noise


def _at_once(draws: int, length: int, model: LanguageModel) -> int:
    of_one = draws * max(model.vocabulary, length * model.width)
    return max(1, NUMBERS_AT_ONCE // of_one)
