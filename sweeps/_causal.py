"""Causal traces as rows, as sentences and as JSON; what is kept of one that is not done."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps._config import ConfigError
from sweeps._doctor import versions
from sweeps._files import parse_json, remove, write_atomic

if TYPE_CHECKING:
    from llm.probe import CausalTrace, LanguageModel, TraceProgress, TraceSettings

KIND = "causal trace"
BEGIN = "(begin)"
"""The token before a sentence, as people see it."""


def escaped(text: str) -> str:
    """A text on one line: what cannot be printed, and the backslash, as Python escapes them."""
    return "".join(
        letter if letter.isprintable() and letter != "\\" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def labels(trace: "CausalTrace") -> list[str]:
    """The text of each token, on one line."""
    return [escaped(token.text) or BEGIN for token in trace.tokens]


def rows(trace: "CausalTrace") -> list[dict[str, Any]]:
    """A row for each state and position.

    probability: of the answer, mean over draws, with its `spread` (standard deviation) and `error` (standard
    error); effect: it less the mean corrupted probability, with its standard error.
    """
    values = {
        name: getattr(trace, name).tolist()
        for name in ("probability", "spread", "error", "effect", "effect_error")
    }
    return [
        {
            "state": state.name,
            "part": state.part,
            "recurrence": state.recurrence,
            "position": t,
            "token": token.id,
            "text": escaped(token.text),
            "is_subject": token.is_subject,
            **{name: value[s][t] for name, value in values.items()},
        }
        for s, state in enumerate(trace.states)
        for t, token in enumerate(trace.tokens)
    ]


def sentences(trace: "CausalTrace") -> list[str]:
    """What was found: the probability undisturbed and with noise."""
    noisy = sum(token.is_subject for token in trace.tokens)
    follows = f"{trace.model}: {_quoted(trace.answer.text)} follows with probability {trace.clean:.4g}"
    return [
        f"{follows}; with noise on {_quoted(trace.settings.subject)} ({noisy} token{'s' * (noisy > 1)}) "
        f"{trace.corrupted.mean():.4g} ± {trace.corrupted_error:.2g} "
        f"(standard error over {trace.settings.draws} draws)"
    ]


def caveats(trace: "CausalTrace") -> list[str]:
    """What a reader must know before the numbers."""
    found = []
    if trace.answer.id != trace.likeliest.id:
        told = f"the model itself would go on with {_quoted(trace.likeliest.text)}, of probability"
        found.append(f"{told} {trace.most:.4g}, not with {_quoted(trace.answer.text)}, of {trace.clean:.4g}")
    before, answer = trace.settings.sentence, trace.settings.answer or ""
    if before[-1:].isalnum() and answer[:1].isalnum():
        told = (
            f"the answer {_quoted(answer)} goes on with the sentence's last word; of a word of its own write"
        )
        found.append(f"{told} {_quoted(' ' + answer)}")
    if not trace.lowered:
        told = "the noise does not lower the answer's probability, so there is nothing to restore"
        found.append(f"{told}: another sentence or subject, or more noise or draws")
    return found


def _quoted(text: str) -> str:
    return f"'{escaped(text)}'"


def as_json(trace: "CausalTrace", source: str) -> dict[str, Any]:
    """Everything, as JSON holds it. source: what the model was opened from."""
    return {
        "kind": KIND,
        "version": versions()["depthlaw"],
        "source": source,
        "model": trace.model,
        "settings": dataclasses.asdict(trace.settings),
        "tokens": [dataclasses.asdict(token) for token in trace.tokens],
        "answer": dataclasses.asdict(trace.answer),
        "likeliest": dataclasses.asdict(trace.likeliest),
        "most": trace.most,
        "states": [dataclasses.asdict(state) for state in trace.states],
        "deviation": trace.deviation,
        "clean": trace.clean,
        "corrupted_mean": float(trace.corrupted.mean()),
        "corrupted_error": trace.corrupted_error,
        "lowered": trace.lowered,
        "corrupted": trace.corrupted.tolist(),
        "probability": trace.probability.tolist(),
        "effect": trace.effect.tolist(),
        "effect_error": trace.effect_error.tolist(),
        "restored": trace.restored.tolist(),
    }


def read_trace(path: Path) -> "CausalTrace":
    """What `depthlaw trace --json` wrote. Raises ConfigError."""
    import numpy as np

    from llm.probe import CausalTrace, State, TracedToken, TraceSettings

    try:
        tree = parse_json(path.read_bytes())
        if tree["kind"] != KIND:
            raise ValueError("another kind")
        return CausalTrace(
            model=tree["model"],
            settings=TraceSettings(**tree["settings"]),
            tokens=tuple(TracedToken(**token) for token in tree["tokens"]),
            answer=TracedToken(**tree["answer"]),
            likeliest=TracedToken(**tree["likeliest"]),
            most=tree["most"],
            states=tuple(State(**state) for state in tree["states"]),
            deviation=tree["deviation"],
            clean=tree["clean"],
            corrupted=np.array(tree["corrupted"]),
            restored=np.array(tree["restored"]),
        )
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist: write it with `depthlaw trace --json`") from None
    except (IsADirectoryError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is not a causal trace: write one with `depthlaw trace --json`") from None


class Kept:
    """The states that are traced so far, in FILE.part beside the JSON that they go into.

    What it holds of another trace is not `known`; `other` says that there is such, which the first state that
    is kept replaces.
    """

    def __init__(
        self, path: Path, model: "LanguageModel", settings: "TraceSettings", about: Mapping[str, Any]
    ) -> None:
        import numpy as np

        self.path = path.with_name(f"{path.name}.part")
        of = {**about, "model": model.name, "version": versions()["depthlaw"]}
        of |= {"settings": dataclasses.asdict(settings), "stamp": model.stamp}
        self._of, self._states = of, dict[str, Any]()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # nothing there, or none of ours
            tree = parse_json(self.path.read_bytes())
            if tree["of"] == of:
                self._states = {str(name): restored for name, restored in tree["states"].items()}
        self.other = not self._states and self.path.exists()
        self.known = {name: np.array(restored) for name, restored in self._states.items()}

    def keep(self, progress: "TraceProgress") -> None:
        """Add a state. Raises StoreError where it cannot be written."""
        self._states[progress.state] = progress.restored.tolist()
        tree = {"of": self._of, "states": self._states}
        write_atomic(self.path, json.dumps(tree, allow_nan=False).encode())

    def drop(self) -> None:
        """Remove the file: all is written where it belongs."""
        remove(self.path)
