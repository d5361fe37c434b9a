"""What the packages say is public, and what can be told of it from its source."""

import ast
import builtins
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

MODULES = (
    "toymodels",
    "toymodels.dynamics",
    "toymodels.theory",
    "llm",
    "llm.probe",
    "llm.axes",
    "sweeps",
    "sweeps.laws",
    "sweeps.iso_depth",
    "sweeps.probes",
    "sweeps.executors",
)

SAYS_NO = {"require": "ValueError", "_require": "ValueError", "require_recurrences": "ValueError"}
"""Functions that raise for their caller, and what."""


def names() -> list[str]:
    """All public names but modules, dotted."""
    found = []
    for module in MODULES:
        of = importlib.import_module(module)
        found += [f"{module}.{name}" for name in of.__all__ if not inspect.ismodule(getattr(of, name))]
    return found


def value_of(dotted: str) -> Any:
    """What a dotted name stands for."""
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def is_code(value: Any) -> bool:
    """Whether it is a class or a function, compiled ones among them, and no constant."""
    return inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__")


def constant_docstring(dotted: str) -> str:
    """The text below the assignment of a constant, wherever in the package that is."""
    module, _, name = dotted.rpartition(".")
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(
            (each.asname or each.name) == name for each in node.names
        ):
            return constant_docstring(f"{node.module}.{name}")
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in [getattr(target, "id", None) for target in targets]:
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    return ""


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """A class's own public methods, properties and class methods, without what decorates them."""
    for name, member in vars(cls).items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if isinstance(member, property):
            member = member.fget
        member = getattr(member, "func", member)  # a cached property
        if not name.startswith("_") and inspect.isfunction(member):
            yield name, member


def raised(function: Any) -> set[str]:
    """The names of errors that a function raises, itself or in a function of its module that it calls.

    Errors of ours, which mean that the code is wrong, and those that a `with` or `try` of its own takes back
    are not told from others; functions within it are not looked into.
    """
    function = inspect.unwrap(function)
    module = inspect.getmodule(function)
    return _raised(function, module, {function.__qualname__})


def _raised(function: Any, module: Any, seen: set[str]) -> set[str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    found: set[str] = set()
    for node in _own_nodes(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            call = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = ast.unparse(call).split(".")[-1]
            if inspect.isclass(getattr(module, name, getattr(builtins, name, None))):
                found.add(name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            called = getattr(module, name, None)
            if name in SAYS_NO:
                found.add(SAYS_NO[name])
            elif inspect.isfunction(called) and called.__module__ == module.__name__ and name not in seen:
                found |= _raised(called, module, seen | {name})
    return found - {"AssertionError", "NotImplementedError"}


def _own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside it and of `try` bodies that it guards."""
    waiting = list(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield node
        if isinstance(node, ast.Try) and node.handlers:
            waiting += [*node.handlers, *node.orelse, *node.finalbody]
        else:
            waiting += ast.iter_child_nodes(node)


def says(docstring: str, error: str, module: Any) -> bool:
    """Whether a docstring names an error, or one that it is a kind of."""
    cls = getattr(module, error, getattr(builtins, error, None))
    assert cls is not None, error
    kinds = [each.__name__ for each in cls.__mro__ if each not in (Exception, BaseException, object)]
    return any(kind in docstring for kind in kinds)


def member_docstring(cls: type, name: str) -> str:
    """What a member says, or what the first class above it that has it says."""
    for base in cls.__mro__:
        found = vars(base).get(name)
        if found is not None and (told := inspect.getdoc(found)):
            return told
    return ""
