"""The tasks that are built in."""

from llm.axes._assignment import CODE, MATHS, Assignment
from llm.axes._dyck import Dyck
from llm.axes._generator import Generator
from llm.axes._induction import Induction

GENERATORS: dict[str, Generator] = {
    task.name: task
    for task in (
        Induction(),
        *(Assignment(depth, surface) for depth in (0, 1) for surface in (MATHS, CODE)),
        Dyck(),
    )
}
"""By name: reasoning primitives of arXiv:2604.21106, and Dyck words."""
