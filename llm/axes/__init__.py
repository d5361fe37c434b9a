"""Five axes that language models are scored on (arXiv:2604.21106, its five-axis evaluation).

`score` gives the loss and the accuracy of continuations; tasks are built in (`GENERATORS`), read from a
folder (`read_tasks`) or converted from the hub (`convert`).
"""

from llm.axes._convert import convert
from llm.axes._files import FileTask, read_tasks
from llm.axes._generator import Generator
from llm.axes._generators import GENERATORS
from llm.axes._hub import HUB, HubTask
from llm.axes._score import ITEMS, Score, score, settings
from llm.axes._task import AXES, Item, Task, TaskError, prompt

__all__ = [
    "AXES",
    "FileTask",
    "GENERATORS",
    "Generator",
    "HUB",
    "HubTask",
    "ITEMS",
    "Item",
    "Score",
    "Task",
    "TaskError",
    "convert",
    "prompt",
    "read_tasks",
    "score",
    "settings",
]
