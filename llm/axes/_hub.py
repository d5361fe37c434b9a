"""Data sets of the hub as items: which set, and what of a row is asked.

Names, splits and fields are those of the data cards or of code that reads the sets, as far as they could be
found; what could not is said in `unchecked`. Prompts are ours, since arXiv:2604.21106 does not print its
own.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from llm.axes._task import Item

Row = dict[str, Any]


@dataclass(frozen=True)
class HubTask:
    """A data set: its name on the hub, config, split; items: those of a row, none where it has no answer.

    fields: the fields of a row that are read. unchecked: what of this entry is not known for sure.
    """

    name: str
    axis: str
    hub: str
    config: str | None
    split: str
    fields: tuple[str, ...]
    items: Callable[[Row], Iterable[Item]]
    shots: int = 5
    unchecked: str | None = None

    @property
    def source(self) -> str:
        """Name on the hub, config and split, as a record has them."""
        return ", ".join(part for part in (self.hub, self.config, self.split) if part is not None)


def _open(context: str, answer: str | None) -> list[Item]:
    """A question without choices; none where there is no answer."""
    answer = (answer or "").strip()
    return [Item(context, (f" {answer}",))] if answer else []


def _asked(question: str, passage: str | None = None) -> str:
    before = "" if passage is None else f"Passage: {passage.strip()}\n"
    return f"{before}Question: {question.strip()}\nAnswer:"


def _first(answers: list[str]) -> str | None:
    return answers[0] if answers else None


def _whole(number: Any) -> str:
    """6.0 → 6, "1,200" → 1200, what is no number as it stands."""
    text = str(number).strip().replace(",", "")
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


def _trivia(row: Row) -> list[Item]:
    return _open(_asked(row["question"]), row["answer"]["value"])


def _natural(row: Row) -> list[Item]:
    return _open(_asked(row["question"]), _first(row["answer"]))


def _web(row: Row) -> list[Item]:
    return _open(_asked(row["question"]), _first(row["answers"]))


def _lambada(row: Row) -> list[Item]:
    context, _, word = row["text"].strip().rpartition(" ")
    return _open(context, word) if context else []


def _tydi(row: Row) -> list[Item]:
    return _squad(row) if row["id"].startswith("english") else []


def _squad(row: Row) -> list[Item]:
    return _open(_asked(row["question"], row["context"]), _first(row["answers"]["text"]))


def _drop(row: Row) -> list[Item]:
    return _open(_asked(row["question"], row["passage"]), _first(row["answers_spans"]["spans"]))


def _coqa(row: Row) -> list[Item]:
    """The last question, after those before it with their answers, which it may refer to."""
    questions, answers = row["questions"], row["answers"]["input_text"]
    if not questions or len(questions) != len(answers):
        return []
    before = "".join(f"Question: {q}\nAnswer: {a}\n" for q, a in zip(questions[:-1], answers, strict=False))
    return _open(f"Passage: {row['story'].strip()}\n{before}Question: {questions[-1]}\nAnswer:", answers[-1])


def _svamp(row: Row) -> list[Item]:
    return _open(_asked(f"{row['Body'].strip()} {row['Question'].strip()}"), _whole(row["Answer"]))


def _asdiv(row: Row) -> list[Item]:
    answer = re.sub(r"\s*\(.*?\)", "", row["answer"])  # "9 (apples)"
    return _open(_asked(f"{row['body'].strip()} {row['question'].strip()}"), _whole(answer))


def _mawps(row: Row) -> list[Item]:
    return _open(_asked(row["question"]), _whole(row["result"]))


def _bigbench(row: Row) -> list[Item]:
    return _open(row["inputs"].rstrip(), _first(row["targets"]))


def _arc(row: Row) -> list[Item]:
    texts, labels = row["choices"]["text"], row["choices"]["label"]
    if row["answerKey"] not in labels or len(texts) < 2:
        return []
    choices = tuple(f" {text.strip()}" for text in texts)
    return [Item(_asked(row["question"]), choices, labels.index(row["answerKey"]))]


_ANSWERS = ("question", "context", "answers")
_BIGBENCH = ("inputs", "targets")
_UNSEEN = "the rows of this config were not seen; fields are those of BIG-bench's own sets on the hub"

HUB: dict[str, HubTask] = {
    task.name: task
    for task in (
        HubTask(
            "triviaqa",
            "knowledge",
            "mandarjoshi/trivia_qa",
            "rc.nocontext",
            "validation",
            ("question", "answer"),
            _trivia,
        ),
        HubTask(
            "naturalquestions",
            "knowledge",
            "google-research-datasets/nq_open",
            None,
            "validation",
            ("question", "answer"),
            _natural,
        ),
        HubTask(
            "webquestions",
            "knowledge",
            "stanfordnlp/web_questions",
            None,
            "test",
            ("question", "answers"),
            _web,
        ),
        HubTask(
            "lambada",
            "reading",
            "EleutherAI/lambada_openai",
            "default",
            "test",
            ("text",),
            _lambada,
            shots=0,
        ),
        HubTask(
            "tydiqa_goldp",
            "reading",
            "google-research-datasets/tydiqa",
            "secondary_task",
            "validation",
            ("id", *_ANSWERS),
            _tydi,
            shots=3,
        ),
        HubTask("squadv2", "reading", "rajpurkar/squad_v2", None, "validation", _ANSWERS, _squad, shots=3),
        HubTask(
            "drop",
            "reading",
            "ucinlp/drop",
            None,
            "validation",
            ("question", "passage", "answers_spans"),
            _drop,
            shots=3,
        ),
        HubTask(
            "coqa",
            "reading",
            "stanfordnlp/coqa",
            None,
            "validation",
            ("story", "questions", "answers"),
            _coqa,
            shots=0,
        ),
        HubTask("svamp", "math", "ChilleD/SVAMP", None, "test", ("Body", "Question", "Answer"), _svamp),
        HubTask(
            "asdiv",
            "math",
            "EleutherAI/asdiv",
            "asdiv",
            "validation",
            ("body", "question", "answer"),
            _asdiv,
        ),
        HubTask("mawps", "math", "MU-NLPC/Calc-mawps", "default", "test", ("question", "result"), _mawps),
        HubTask(
            "bigbench_dyck",
            "symbolic",
            "tasksource/bigbench",
            "dyck_languages",
            "train",
            _BIGBENCH,
            _bigbench,
            unchecked=_UNSEEN,
        ),
        HubTask(
            "qa_wikidata",
            "symbolic",
            "tasksource/bigbench",
            "qa_wikidata",
            "train",
            _BIGBENCH,
            _bigbench,
            unchecked=_UNSEEN,
        ),
        HubTask(
            "cs_algorithms",
            "symbolic",
            "tasksource/bigbench",
            "cs_algorithms",
            "train",
            _BIGBENCH,
            _bigbench,
            unchecked=_UNSEEN,
        ),
        HubTask(
            "arc_easy",
            "symbolic",
            "allenai/ai2_arc",
            "ARC-Easy",
            "test",
            ("question", "choices", "answerKey"),
            _arc,
        ),
    )
}
"""By name: the data sets of arXiv:2604.21106's five axes."""
