"""Tasks of a folder: JSON lines, and a manifest that says what they are.

    manifest.json   {"tasks": [{"name": "triviaqa", "axis": "knowledge", "file": "triviaqa.jsonl", "shots": 5,
                    "chance": null, "source": "...", "items": 1064, "examples": 64, "sha256": "..."}]}
    triviaqa.jsonl  {"context": "Question: ...", "continuation": " ..."}, or
                    {"context": "...", "choices": [" ...", " ..."], "answer": 1}: an object a line

items: lines of the file. examples: the first so many of them are kept for being put before the others.
chance: the probability that a uniform guess is right, where answers are open but few; else null. sha256: of
the file. Items are asked in the order of the file.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from llm._readers import nearest
from llm.axes._draw import Draw
from llm.axes._task import AXES, Item, Task, TaskError

MANIFEST = "manifest.json"

FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "must be a text"),
    "axis": ((str,), f"must be one of {', '.join(AXES)}"),
    "file": ((str,), "must be the name of a file in the folder"),
    "shots": ((int,), "must be a whole number, at least 0"),
    "chance": ((float, int, type(None)), "must be a number above 0 and at most 1, or null"),
    "source": ((str,), "must be a text"),
    "items": ((int,), "must be a whole number, at least 1"),
    "examples": ((int,), "must be a whole number, from 0 to one less than items"),
    "sha256": ((str,), "must be the hash of the file"),
}
"""Of a task in the manifest: types and the rule that a message states."""


@final
class FileTask(Task):
    """A task that was read; `lines` are all of its items, `about` is its entry in the manifest."""

    def __init__(self, about: dict[str, Any], lines: Sequence[Item]) -> None:
        self.name, self.axis, self.source = about["name"], about["axis"], about["source"]
        self.shots = about["shots"]
        self.about, self.lines = about, list(lines)
        if any(len(item.choices) > 1 for item in lines):
            self.chance = "1/n of n choices"
        else:
            self.chance = "open: any tokens" if about["chance"] is None else f"{about['chance']:g}"

    def items(self, count: int, seed: int) -> list[Item]:
        return self.lines[self.about["examples"] :][:count]

    def examples(self, item: Item, number: int, count: int, seed: int) -> list[Item]:
        kept = [one for one in self.lines[: self.about["examples"]] if one.context != item.context]
        if len(kept) < count:
            told = (
                f"{self.name}: {count} solved items are to be put before item {number}, {len(kept)} are kept"
            )
            raise TaskError(f"{told} for that: raise examples in the manifest, or lower shots")
        return Draw(self.name, seed, "examples", number).sample(kept, count)

    @property
    def fingerprint(self) -> str:
        about = self.about
        return f"sha256 {about['sha256']}, examples {about['examples']}, chance {about['chance']}"


def read_tasks(folder: Path) -> list[FileTask]:
    """The tasks of a folder. Raises TaskError: what is wrong in which file, line, field, and what to do."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        told = f"{path} cannot be read: {error.strerror or error}"
        raise TaskError(f"{told}; `depthlaw tasks NAME --out {folder}` writes one") from None
    except ValueError as error:
        raise TaskError(f"{path} is not JSON: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("tasks"), list):
        raise TaskError(f'{path} is not what it should be: an object with a list "tasks"')
    found: dict[str, FileTask] = {}
    for number, about in enumerate(manifest["tasks"], 1):
        task = _task(folder, about, f"{path}, task {number}")
        if task.name in found:
            raise TaskError(
                f"{path}, task {number}: name is {task.name!r}, as of another: give it one of its own"
            )
        found[task.name] = task
    return list(found.values())


def check_name(name: str, where: str) -> None:
    """Raise TaskError unless it can begin the names of columns."""
    if not (name.isidentifier() and name.isascii()) or name in AXES:
        rule = f"must be letters, digits and _, and none of {', '.join(AXES)}"
        raise TaskError(f"{where}: name is {name!r}: it {rule}")


def _task(folder: Path, about: Any, where: str) -> FileTask:
    if not isinstance(about, dict):
        raise TaskError(f"{where} is {about!r:.60}: it must be an object")
    for field in about:
        if field not in FIELDS:
            raise TaskError(f"{where}: {field} is not a known field: {nearest(field, FIELDS)}")
    for field, (types, rule) in FIELDS.items():
        if field not in about:
            raise TaskError(f"{where} has no {field}: it {rule}")
        if type(about[field]) not in types:
            raise TaskError(f"{where}: {field} is {about[field]!r:.60}: it {rule}")
    check_name(about["name"], where)
    held = {
        "axis": about["axis"] in AXES,
        "file": about["file"] == Path(about["file"]).name != "",
        "shots": about["shots"] >= 0,
        "chance": about["chance"] is None or 0 < about["chance"] <= 1,
        "items": about["items"] >= 1,
        "examples": 0 <= about["examples"] < about["items"],
    }
    for field, holds in held.items():
        if not holds:
            raise TaskError(f"{where}: {field} is {about[field]!r}: it {FIELDS[field][1]}")
    return FileTask(about, _lines(folder / about["file"], about, where))


def _lines(path: Path, about: dict[str, Any], where: str) -> list[Item]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path}, of {where}, cannot be read: {error.strerror or error}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != about["sha256"]:
        told = f"{where}: sha256 is {about['sha256']!r}, that of {path} is {found!r}"
        raise TaskError(f"{told}: bring back the file, or, if it was changed on purpose, write its hash")
    items = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            items.append(parse_item(line, f"{path}, line {number}", about["chance"]))
    if len(items) != about["items"]:
        raise TaskError(f"{where}: items is {about['items']}, {path} has {len(items)}: write that")
    return items


def parse_item(line: bytes, where: str, chance: float | None = None) -> Item:
    """The item of a line. Raises TaskError, which begins with `where`."""
    try:
        row = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{where} is not JSON in UTF-8: {error}") from None
    if not isinstance(row, dict):
        raise TaskError(f"{where} is no object: a line is like {LAYOUT}")
    open = "continuation" in row
    fields = ("context", "continuation") if open else ("context", "choices", "answer")
    for field in row:
        if field not in fields:
            raise TaskError(f"{where}: {field} is not a known field: {nearest(field, fields)}")
    for field in fields:
        if field not in row:
            raise TaskError(f"{where} has no {field}: a line is like {LAYOUT}")
    choices = [row["continuation"]] if open else row["choices"]
    answer = 0 if open else row["answer"]
    _text(row["context"], where, "context")
    if not isinstance(choices, list) or (not open and len(choices) < 2):
        raise TaskError(f"{where}: choices is {choices!r:.60}: it must be a list of two texts or more")
    for choice in choices:
        _text(choice, where, "continuation" if open else "choices")
        if not choice:
            field, rule = ("continuation", "it") if open else ("choices", "each")
            raise TaskError(
                f"{where}: {field} is {row[field]!r:.60}: {rule} must not be empty; leave the line out"
            )
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise TaskError(f"{where}: answer is {answer!r:.60}: it must be from 0 to {len(choices) - 1}")
    if not open and chance is not None:
        raise TaskError(f"{where} has choices, which say what chance is: set chance in the manifest to null")
    return Item(row["context"], tuple(choices), answer, chance)


LAYOUT = (
    '{"context": "...", "continuation": " ..."} or {"context": "...", "choices": [" ...", ...], "answer": 0}'
)


def _text(value: Any, where: str, field: str) -> None:
    if not isinstance(value, str):
        raise TaskError(f"{where}: {field} is {value!r:.60}: it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TaskError(
            f"{where}: {field} holds half of a surrogate pair, which is no text: repair it"
        ) from None


def line_of(item: Item) -> str:
    """An item as a line; `parse_item` reads it back."""
    row: dict[str, Any] = {"context": item.context}
    if len(item.choices) == 1:
        row["continuation"] = item.continuation
    else:
        row |= {"choices": list(item.choices), "answer": item.answer}
    return json.dumps(row, ensure_ascii=False)
