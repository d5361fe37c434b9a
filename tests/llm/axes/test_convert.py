"""Laws of the converter: rows in the hub's layout become items, and a folder that can be read."""

import json
import re
import sys

import polars as pl
import pytest

from llm.axes import AXES, HUB, TaskError, convert, read_tasks

SPANS = {"answer_start": [3]}
ROWS = {
    "triviaqa": (
        {"question": "Who?", "question_id": "1", "answer": {"value": "Ada", "aliases": ["Ada", "A."]}},
        ("Question: Who?\nAnswer:", " Ada"),
    ),
    "naturalquestions": (
        {"question": "who was first ", "answer": ["Ada", "Ada L"]},
        ("Question: who was first\nAnswer:", " Ada"),
    ),
    "webquestions": (
        {"url": "x", "question": "where?", "answers": ["Here", "There"]},
        ("Question: where?\nAnswer:", " Here"),
    ),
    "lambada": ({"text": "He said it was a dream."}, ("He said it was a", " dream.")),
    "tydiqa_goldp": (
        {
            "id": "english-1",
            "title": "t",
            "context": "It is red.",
            "question": "Colour?",
            "answers": {"text": ["red"], **SPANS},
        },
        ("Passage: It is red.\nQuestion: Colour?\nAnswer:", " red"),
    ),
    "squadv2": (
        {
            "id": "1",
            "title": "t",
            "context": "It is red.",
            "question": "Colour?",
            "answers": {"text": ["red"], **SPANS},
        },
        ("Passage: It is red.\nQuestion: Colour?\nAnswer:", " red"),
    ),
    "drop": (
        {
            "section_id": "s",
            "query_id": "q",
            "passage": "3 and 4.",
            "question": "Sum?",
            "answers_spans": {"spans": ["7"], "types": ["number"]},
        },
        ("Passage: 3 and 4.\nQuestion: Sum?\nAnswer:", " 7"),
    ),
    "coqa": (
        {
            "source": "mctest",
            "story": "A cat. It is red.",
            "questions": ["What?", "Colour?"],
            "answers": {"input_text": ["a cat", "red"], "answer_start": [0, 7], "answer_end": [5, 16]},
        },
        ("Passage: A cat. It is red.\nQuestion: What?\nAnswer: a cat\nQuestion: Colour?\nAnswer:", " red"),
    ),
    "svamp": (
        {
            "ID": "1",
            "Body": "He has 3. ",
            "Question": "Twice?",
            "Equation": "( 3 * 2 )",
            "Answer": "6.0",
            "Type": "x",
        },
        ("Question: He has 3. Twice?\nAnswer:", " 6"),
    ),
    "asdiv": (
        {
            "body": "He has 3.",
            "question": "Twice?",
            "solution_type": "x",
            "answer": "6 (apples)",
            "formula": "3*2=6",
        },
        ("Question: He has 3. Twice?\nAnswer:", " 6"),
    ),
    "mawps": (
        {
            "id": "1",
            "question": "He has 3. Twice?",
            "chain": "",
            "result": "1,206",
            "result_float": 1206.0,
            "equation": "x",
            "expression": "3*2",
        },
        ("Question: He has 3. Twice?\nAnswer:", " 1206"),
    ),
    "bigbench_dyck": (
        {
            "idx": 0,
            "inputs": "Complete the rest of the sequence. Input: ( [ ",
            "targets": ["] )"],
            "multiple_choice_targets": [],
            "multiple_choice_scores": [],
        },
        ("Complete the rest of the sequence. Input: ( [", " ] )"),
    ),
    "qa_wikidata": (
        {"idx": 0, "inputs": "The capital of France is", "targets": ["Paris"]},
        ("The capital of France is", " Paris"),
    ),
    "cs_algorithms": (
        {"idx": 0, "inputs": "Sequence: ( )\nValid/Invalid?", "targets": ["Valid"]},
        ("Sequence: ( )\nValid/Invalid?", " Valid"),
    ),
    "arc_easy": (
        {
            "id": "1",
            "question": "Which?",
            "choices": {"text": ["up", "down", "left"], "label": ["A", "B", "C"]},
            "answerKey": "B",
        },
        ("Question: Which?\nAnswer:", " down"),
    ),
}
"""A row of each data set with the fields of its card, and the context and the answer that it gives."""


def varied(row, number):
    """The same row with another question, so that items differ."""
    text = json.dumps(row)
    for word in (
        "Who?",
        "who was first",
        "where?",
        "He said",
        "Colour?",
        "Sum?",
        "Twice?",
        "Input:",
        "The capital",
    ):
        text = text.replace(word, f"{number} {word}")
    return json.loads(text.replace("Sequence:", f"{number} Sequence:").replace("Which?", f"{number} Which?"))


def test_there_is_an_entry_for_every_data_set():
    """The table has the fifteen data sets of the paper's axes, and rows of all of them are tested here."""
    assert set(HUB) == set(ROWS) and {task.axis for task in HUB.values()} == set(AXES) - {"reasoning"}
    for name, (row, _) in ROWS.items():
        assert set(HUB[name].fields) <= set(row)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize("name", HUB)
def test_rows_become_items(tmp_path, name, suffix):
    """A row in the hub's layout, from Parquet and from JSON lines, gives the stated context and answer, and
    the folder is read back as what was written."""
    row, (context, answer) = ROWS[name]
    rows = [row, *(varied(row, number) for number in range(11))]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    task = convert(name, tmp_path / "tasks", rows=path)
    (read,) = read_tasks(tmp_path / "tasks")
    assert (read.about, read.lines) == (task.about, task.lines)
    assert (context, answer) in [(item.context, item.continuation) for item in task.lines]
    assert task.about["items"] == 12 and task.about["examples"] == 3
    assert task.source == HUB[name].source and task.shots == min(3, HUB[name].shots)


def test_rows_without_an_answer_give_no_item(tmp_path):
    """Questions that cannot be answered, other languages and equal rows are left out."""
    row, _ = ROWS["squadv2"]
    none = {**row, "answers": {"text": [], "answer_start": []}}
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, [row, none, row, varied(row, 1)])), encoding="utf-8")
    assert convert("squadv2", tmp_path / "t", rows=path).about["items"] == 2
    finnish = {**ROWS["tydiqa_goldp"][0], "id": "finnish-1"}
    path.write_text(json.dumps(finnish), encoding="utf-8")
    with pytest.raises(TaskError, match="has 0 item"):
        convert("tydiqa_goldp", tmp_path / "t", rows=path)


def test_the_choice_is_seeded(tmp_path):
    """So many items, the same for the same seed; 64 are kept for examples where there are enough."""
    row, _ = ROWS["webquestions"]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(varied(row, n)) for n in range(400)), encoding="utf-8")
    first, again, other = (
        convert("webquestions", tmp_path / str(n), rows=path, items=50, seed=n // 2) for n in range(3)
    )
    assert first.about == again.about and first.about["sha256"] != other.about["sha256"]
    assert first.about["items"] == 114 and first.about["examples"] == 64 and len(first.items(999, 0)) == 50


def test_a_folder_holds_several_tasks(tmp_path):
    """A second data set is added to the manifest; the same one again takes its own place."""
    for name in ("webquestions", "lambada", "webquestions"):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(varied(ROWS[name][0], n)) for n in range(8)), encoding="utf-8")
        convert(name, tmp_path / "tasks", rows=path)
    assert [task.name for task in read_tasks(tmp_path / "tasks")] == ["lambada", "webquestions"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"questions": "a", "answers": ["b"]}', "row 0, has no 'question': did you mean 'questions'?"),
        ('{"question": "a", "answers": 3}', "row 0, is not of stanfordnlp/web_questions's layout: Type"),
        ("[]", "rows.jsonl, line 1 is no object"),
        ("{", "rows.jsonl, line 1 is not JSON"),
        ("", "has 0 item(s) with an answer: a task needs two or more"),
    ],
)
def test_bad_rows(tmp_path, text, told):
    """Rows of another layout are refused by file and row, and nothing is written."""
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=re.escape(told)):
        convert("webquestions", tmp_path / "tasks", rows=tmp_path / "rows.jsonl")
    assert not (tmp_path / "tasks").exists()


def test_bad_names_and_files(tmp_path, monkeypatch):
    """An unknown data set, a file that is not there, and no library are told with what to do."""
    with pytest.raises(TaskError, match="there is no data set 'triviqa': did you mean 'triviaqa'"):
        convert("triviqa", tmp_path)
    for name in ("gone.parquet", "gone.jsonl"):
        with pytest.raises(TaskError, match=f"{name} cannot be read: No such file"):
            convert("drop", tmp_path, rows=tmp_path / name)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TaskError, match=r"datasets is not installed: pip install 'depthlaw\[llm\]'"):
        convert("drop", tmp_path)


def test_what_the_library_is_asked_for(tmp_path, monkeypatch):
    """Without a file the rows are those of `datasets.load_dataset(name, config, split=split)`; what it raises
    names the data set and the way without a network."""
    import types

    asked = []

    def load(*arguments, **options):
        asked.append((arguments, options))
        if len(asked) > 1:
            raise ConnectionError("no route")
        return [varied(ROWS["arc_easy"][0], n) for n in range(8)]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))
    assert convert("arc_easy", tmp_path).about["items"] == 8
    assert asked == [(("allenai/ai2_arc", "ARC-Easy"), {"split": "test"})]
    told = "data set allenai/ai2_arc, ARC-Easy, test cannot be read: no route; where there is no network"
    with pytest.raises(TaskError, match=told):
        convert("arc_easy", tmp_path)
