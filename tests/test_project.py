"""Laws of the project: which room may know of which, and what every file has."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("toymodels", "llm", "sweeps", "figures")

MAY_IMPORT = {
    "toymodels": ("toymodels",),
    "llm": ("llm", "toymodels.dynamics"),
    "sweeps.laws": ("sweeps.laws",),
    "sweeps.cli": ("figures", "sweeps", "toymodels", "llm"),
    "sweeps": ("sweeps", "toymodels", "llm"),
    "figures": ("figures", "sweeps", "toymodels", "llm"),
}
"""figures → sweeps → {toymodels, llm}; llm → toymodels.dynamics; the fitter knows nothing of ours.

The command line stands above all of them, since its commands draw figures; none may import it.
"""

FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TEXTS = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*")
    if path.suffix in (".py", ".toml", ".md", ".txt", ".json", ".sh")
)
LOCAL = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|mnt|work|var|private|scratch)/\w|\b[A-Z]:\\\w")


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """What of ours a file imports, wherever in it: dotted names, a name imported from a module after it."""
    found = set()
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{start}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in ROOMS}


def forbidden(source: str, module: str, is_package: bool = False) -> set[str]:
    """The imports that the arrows do not allow."""
    room = max((room for room in MAY_IMPORT if below(module, room)), key=len)
    return {
        name
        for name in imports_of(source, module, is_package)
        if (below(name, "sweeps.cli") and not below(module, "sweeps.cli"))
        or not any(below(name, allowed) for allowed in MAY_IMPORT[room])
    }


def below(name: str, package: str) -> bool:
    """Whether a dotted name is the package or in it."""
    return f"{name}.".startswith(f"{package}.")


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_arrows(path):
    """A room imports only what the arrows lead to."""
    assert forbidden(path.read_text(encoding="utf-8"), module_of(path), path.name == "__init__.py") == set()


@pytest.mark.parametrize(
    ("source", "module", "expected"),
    [
        ("import sweeps", "toymodels._train", {"sweeps"}),
        ("def f():\n    from sweeps._store import Store", "toymodels._train", {"sweeps._store.Store"}),
        ("from toymodels import dynamics", "llm.probe", set()),
        ("from toymodels.dynamics import step_angles", "llm.probe", set()),
        ("from toymodels import Tied", "llm.probe", {"toymodels.Tied"}),
        ("import toymodels.dynamics as d", "llm.probe", set()),
        ("from sweeps._config import encode", "sweeps.laws._fit", {"sweeps._config.encode"}),
        ("from .. import _config", "sweeps.laws._fit", {"sweeps._config"}),
        ("from . import _law", "sweeps.laws._fit", set()),
        ("import figures._style", "sweeps._report", {"figures._style"}),
        ("from figures import _style", "sweeps.cli", set()),
        ("from sweeps.cli import main", "figures.x", {"sweeps.cli.main"}),
        ("from toymodels import Tied\nimport llm, numpy", "sweeps._jobs", set()),
        ("import sweeps.laws, toymodels, llm", "figures.x", set()),
    ],
)
def test_arrows_are_seen(source, module, expected):
    """The check itself sees imports that are nested, relative, aliased or of a name."""
    assert forbidden(source, module) == expected


@pytest.mark.parametrize("path", [*FILES, *sorted((ROOT / "tests").rglob("*.py"))], ids=module_of)
def test_docstrings(path):
    """Every file says what it is about."""
    assert (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").strip()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_local_paths(path):
    """Nothing that is installed names a folder of somebody's machine."""
    assert LOCAL.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('"/home/ada/x"', True),
        ("see /tmp/x", True),
        (r"C:\Users", True),
        ("https://x.org/home/ada", False),
        ("a/tmp/b", False),
        ("results/tmp", False),
    ],
)
def test_local_paths_are_seen(text, seen):
    """The check itself sees a path from the root, and not an address or a relative path."""
    assert bool(LOCAL.findall(text)) is seen


def test_every_room_is_installed():
    """The wheel holds the four rooms, and the name clash check knows them all."""
    from sweeps._doctor import DEPENDENCIES, OURS

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(ROOMS)
    assert OURS == ROOMS
    core = {re.split(r"[<>=\[]", name)[0] for name in project["project"]["dependencies"]}
    assert core - {"jaxtyping"} <= set(DEPENDENCIES)
