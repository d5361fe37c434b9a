"""Laws of tasks that are read from a folder."""

import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.axes import Item, TaskError, read_tasks, score
from llm.axes._files import line_of, parse_item

LINES = [{"context": f"Question: {n} + {n}?\nAnswer:", "continuation": f" {2 * n}"} for n in range(1, 9)]


def write(folder, lines=LINES, name="sums", file="sums.jsonl", **about):
    """A folder with one task; fields of its manifest can be given."""
    data = "".join(json.dumps(line) + "\n" if isinstance(line, dict) else line for line in lines).encode()
    folder.mkdir(exist_ok=True)
    (folder / "sums.jsonl").write_bytes(data)
    entry = {
        "name": name,
        "axis": "math",
        "file": file,
        "shots": 2,
        "chance": None,
        "source": "a test",
        "items": len(lines),
        "examples": 3,
        "sha256": hashlib.sha256(data).hexdigest(),
    } | about
    (folder / "manifest.json").write_text(json.dumps({"tasks": [entry]}), encoding="utf-8")
    return folder


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXTS, st.lists(TEXTS.filter(bool), min_size=1, max_size=5), st.integers(0, 99))
def test_round_trip(context, choices, number):
    """What is written of an item on a line is read back as the same, whatever the texts are."""
    item = Item(context, tuple(choices), number % len(choices))
    assert parse_item(line_of(item).encode(), "here") == item


def test_a_task_is_what_the_manifest_says(tmp_path):
    """The first lines are kept for examples, the others are asked, in the file's order."""
    (task,) = read_tasks(write(tmp_path, chance=0.25))
    assert (task.name, task.axis, task.shots, task.source) == ("sums", "math", 2, "a test")
    items = task.items(100, 0)
    assert [item.continuation for item in items] == [" 8", " 10", " 12", " 14", " 16"]
    assert task.items(2, 0) == items[:2] and {item.chance for item in items} == {0.25}
    before = task.examples(items[0], 0, 2, 0)
    assert {one.continuation for one in before} < {" 2", " 4", " 6"} and len(set(before)) == 2
    assert before == task.examples(items[0], 0, 2, 0)
    drawn = {tuple(one.continuation for one in task.examples(items[0], n, 2, 0)) for n in range(40)}
    assert len(drawn) == 6  # all orders of two of three


def test_an_item_is_never_its_own_example(tmp_path):
    """A line that is among the examples too is not put before itself."""
    (task,) = read_tasks(write(tmp_path, [*LINES[:3], LINES[0], *LINES[3:]]))
    (item, *_) = task.items(1, 0)
    for number in range(20):
        assert item not in task.examples(item, number, 2, 0)
    with pytest.raises(TaskError, match=r"sums: 3 solved items are to be put before item 0, 2 are kept"):
        task.examples(item, 0, 3, 0)


def test_chance_of_open_answers(tmp_path, uniform):
    """Where nobody says what answers are possible, chance is a uniform guess of tokens; where the manifest
    says, it is that; and choices speak for themselves."""
    import math

    (task,) = read_tasks(write(tmp_path))
    found = score(uniform, [task], shots=0)["sums"]
    assert found.loss == pytest.approx(found.chance_loss) and found.accuracy == pytest.approx(
        found.chance_accuracy
    )
    (task,) = read_tasks(write(tmp_path, chance=0.25))
    found = score(uniform, [task], shots=0)["sums"]
    assert found.chance_accuracy == pytest.approx(0.25)
    assert found.chance_loss == pytest.approx((math.log(4) / 2 + 4 * math.log(4) / 3) / 5)
    lines = [{"context": "q", "choices": [" a", " bc"], "answer": n % 2} for n in range(8)]
    (task,) = read_tasks(write(tmp_path, lines, shots=0))
    found = score(uniform, [task])["sums"]
    assert found.accuracy == found.chance_accuracy == 0.5


def test_two_seeds_differ_in_examples_alone(tmp_path):
    """Other seeds put other examples before the same items."""
    (task,) = read_tasks(write(tmp_path))
    assert task.items(5, 0) == task.items(5, 1)
    item = task.items(1, 0)[0]
    assert any(task.examples(item, n, 2, 0) != task.examples(item, n, 2, 1) for n in range(5))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "sums.jsonl, line 9 is not JSON in UTF-8"),
        ("[1]", "sums.jsonl, line 9 is no object: a line is like"),
        ('{"context": "a"}', "sums.jsonl, line 9 has no choices"),
        (
            '{"context": "a", "continuation": ""}',
            "continuation is '': it must not be empty; leave the line out",
        ),
        ('{"context": 3, "continuation": "a"}', "line 9: context is 3: it must be a text"),
        ('{"continuation": "a"}', "line 9 has no context"),
        ('{"context": "a", "continuation": "b", "anser": 1}', "anser is not a known field"),
        ('{"context": "a", "choices": ["b"], "answer": 0}', "choices is ['b']: it must be a list of two"),
        ('{"context": "a", "choices": ["b", 1], "answer": 0}', "choices is 1: it must be a text"),
        ('{"context": "a", "choices": ["b", ""], "answer": 0}', "each must not be empty"),
        ('{"context": "a", "choices": ["b", "c"], "answer": 2}', "answer is 2: it must be from 0 to 1"),
        ('{"context": "a", "choices": ["b", "c"], "answer": true}', "answer is True"),
        ('{"context": "a", "choices": ["b", "c"], "anwser": 1}', "did you mean 'answer'?"),
        (r'{"context": "\ud800", "continuation": "a"}', "context holds half of a surrogate pair"),
    ],
)
def test_bad_lines(tmp_path, line, told):
    """Refused by file, line, field and value, with what to do."""
    with pytest.raises(TaskError, match=re.escape(told)):
        read_tasks(write(tmp_path, [*LINES, line]))


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"name": "two words"}, "task 1: name is 'two words': it must be letters, digits and _"),
        ({"name": "math"}, "name is 'math': it must be letters, digits and _, and none of knowledge"),
        ({"axis": "maths"}, "axis is 'maths': it must be one of knowledge, reading, math"),
        ({"file": "../sums.jsonl"}, "file is '../sums.jsonl': it must be the name of a file in the folder"),
        ({"file": "gone.jsonl"}, "gone.jsonl, of "),
        ({"shots": -1}, "shots is -1: it must be a whole number, at least 0"),
        ({"shots": "2"}, "shots is '2': it must be a whole number"),
        ({"shots": True}, "shots is True"),
        ({"chance": 0}, "chance is 0: it must be a number above 0 and at most 1, or null"),
        ({"items": 7}, "items is 7, "),
        ({"examples": 8}, "examples is 8: it must be a whole number, from 0 to one less than items"),
        ({"sha256": "00"}, "sha256 is '00', that of "),
        ({"shot": 2}, "shot is not a known field: did you mean 'shots'?"),
    ],
)
def test_bad_manifests(tmp_path, about, told):
    """Refused by file, task, field and value, with the rule."""
    with pytest.raises(TaskError, match=re.escape(told)):
        read_tasks(write(tmp_path, **about))


def test_a_changed_file_is_refused(tmp_path):
    """A file that is not the one of the manifest is refused, and the message has its hash."""
    write(tmp_path)
    data = (tmp_path / "sums.jsonl").read_bytes().replace(b" 8", b" 9")
    (tmp_path / "sums.jsonl").write_bytes(data)
    with pytest.raises(TaskError, match=hashlib.sha256(data).hexdigest()):
        read_tasks(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file or directory; `depthlaw tasks NAME --out"),
        ("{", "is not JSON"),
        ("[]", 'an object with a list "tasks"'),
        ('{"tasks": [3]}', "task 1 is 3: it must be an object"),
        ('{"tasks": [{"name": "a"}]}', "task 1 has no axis: it must be one of"),
    ],
)
def test_no_manifest(tmp_path, text, told):
    """Nor is a folder without one, or with something else in its place."""
    if text is not None:
        (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=re.escape(told)):
        read_tasks(tmp_path)


def test_a_choice_says_what_chance_is(tmp_path):
    """A chance in the manifest and choices in the file contradict each other."""
    lines = [{"context": "q", "choices": [" a", " b"], "answer": 0}] * 8
    with pytest.raises(TaskError, match="line 1 has choices, which say what chance is: set chance"):
        read_tasks(write(tmp_path, lines, chance=0.5))


def test_names_are_different(tmp_path):
    """Two tasks of one name would share their columns."""
    write(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({"tasks": manifest["tasks"] * 2}))
    with pytest.raises(TaskError, match="task 2: name is 'sums', as of another"):
        read_tasks(tmp_path)
