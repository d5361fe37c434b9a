"""Laws of the pages in docs/: what they name exists, what they show works, and the API page lacks nothing.

Their examples are doctests (`pytest docs`).
"""

import ast
import inspect
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sweeps._spec import load_spec, preset_names
from sweeps.laws import CODES, INTERVALS, LAWS, OBJECTIVES, Status
from tests import _public

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 40
"""Lines of code that an example of one's own may have."""

FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def fences(text: str, *languages: str) -> list[str]:
    """The fenced blocks of these languages."""
    return [block for language, block in FENCE.findall(text) if language in languages]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


# --- docstrings ---


@pytest.mark.parametrize("name", _public.names())
def test_docstring(name):
    """A public class, function or constant says what it is, in words of its own, and so do its members."""
    value = _public.value_of(name)
    if not _public.is_code(value):
        assert _public.constant_docstring(name), f"{name}: write a text below its assignment"
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]
    assert ast.get_docstring(tree), name
    if inspect.isclass(value):
        bare = [member for member, _ in _public.members(value) if not _public.member_docstring(value, member)]
        assert bare == [], name


@pytest.mark.parametrize("name", [n for n in _public.names() if _public.is_code(_public.value_of(n))])
def test_docstring_names_errors(name):
    """What a public function raises, itself or by a function beside it, is named where it is described.

    Of a class: what making one raises is said by the class, what a method raises by it or the class.
    """
    value = _public.value_of(name)
    module = inspect.getmodule(inspect.unwrap(value))
    told = inspect.getdoc(value) or ""
    if not inspect.isclass(value):
        missing = [error for error in _public.raised(value) if not _public.says(told, error, module)]
        assert missing == []
        return
    told = "\n".join(inspect.getdoc(base) or "" for base in value.__mro__ if base is not object)
    made = [vars(value)[each] for each in ("__post_init__", "__init__") if each in vars(value)]
    for method in made:
        if inspect.isfunction(method) and method.__code__.co_filename == module.__file__:
            assert [error for error in _public.raised(method) if not _public.says(told, error, module)] == []
    for member, function in _public.members(value):
        said = f"{told}\n{_public.member_docstring(value, member)}"
        assert [error for error in _public.raised(function) if not _public.says(said, error, module)] == [], (
            member
        )


def test_errors_are_seen():
    """The check itself sees a raise, one in a function beside it, and not what is taken back."""
    assert _public.raised(_public.value_of("toymodels.theory.crossover_depth")) == {"ValueError"}
    assert "ValueError" in _public.raised(_public.value_of("toymodels.dynamics.step_angles"))  # by _last_axis
    assert "ArgumentError" in _public.raised(_public.value_of("sweeps.laws.fit"))  # by _check
    assert _public.raised(_public.value_of("sweeps.laws.regime")) == {"ValueError"}
    assert not _public.says("Raises TypeError.", "ValueError", sys)
    assert _public.says(
        "Raises ValueError.", "ArgumentError", inspect.getmodule(_public.value_of("sweeps.laws.fit"))
    )


# --- links and commands ---


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links(path):
    """A link to a file of the repository leads to one, and its anchor to a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        assert to.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose(to.read_text(encoding="utf-8")), re.MULTILINE)
            assert anchor in [slug(heading) for heading in headings], target


def calls(text: str) -> list[list[str]]:
    """The commands of a page's shell blocks, word by word."""
    found = []
    for block in fences(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                found.append(words[:end])
                words = words[end + 1 :]
    return [words for words in found if words]


def mentions(text: str) -> list[list[str]]:
    """What stands in the prose in backticks and begins with depthlaw, word by word."""
    return [shlex.split(span) for span in re.findall(r"`(depthlaw [^`]*)`", prose(text))]


def command_line():
    """The command line, as its parser sees it."""
    import typer

    from sweeps.cli import app

    return typer.main.get_command(app)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_parse(path):
    """Every call in a shell block is one that the command line takes; names and options in prose exist."""
    text = path.read_text(encoding="utf-8")
    group = command_line()
    for words in calls(text):
        if words[0].removeprefix(".venv/bin/") == "depthlaw":
            command = group.commands[words[1]]
            command.make_context(words[1], list(words[2:]))
        elif words[0] in ("python", "bash"):
            modules = [ROOT / f"{word.replace('.', '/')}.py" for word in words if word.startswith("figures.")]
            assert all(module.is_file() for module in modules), words
            files = [word for word in words if word.endswith((".py", ".sh")) and "/" in word]
            assert all((ROOT / word).is_file() for word in files), words
        else:
            known = ("pip", "python", "python3", "sphinx-build", "dask")
            assert words[0].removeprefix(".venv/bin/") in known, words
    for words in mentions(text):
        options = {option for each in group.commands[words[1]].params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options | {"--help"}, words


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_presets_exist(path):
    """`depthlaw run NAME` names a preset, a file or the word SPEC."""
    text = path.read_text(encoding="utf-8")
    named = [
        words[2] for words in calls(text) + mentions(text) if words[:2] == ["depthlaw", "run"] and words[2:]
    ]
    named = [name for name in named if not name.endswith(".toml") and not name.startswith("-")]
    assert set(named) <= {*preset_names(), "SPEC"}


def test_commands_are_seen():
    """The check itself reads continued lines, comments, several commands in a line, and the prose."""
    text = "`depthlaw fit T --x`\n```sh\na && depthlaw run \\\n  X # y && z\n```\n```python\ndepthlaw\n```\n"
    assert calls(text) == [["a"], ["depthlaw", "run", "X"]]
    assert mentions(text) == [["depthlaw", "fit", "T", "--x"]]


# --- what pages say ---


def first_cells(text: str, heading: str) -> list[str]:
    """What stands in backticks first in each row of the tables below a heading, heads of tables left out."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(
        r"^\| `([^`]+)`", re.sub(r"^\|.*\n(?=\|-)", "", section, flags=re.MULTILINE), re.MULTILINE
    )


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("Laws", LAWS),
        ("Objectives", OBJECTIVES),
        ("Intervals, and what they mean", INTERVALS),
        ("What the diagnosis says, and what to do", CODES),
    ],
)
def test_the_page_of_laws_has_all(heading, known):
    """Every law, objective, interval and code is in its table, and no other."""
    found = first_cells(page("laws"), heading)
    assert sorted(found) == sorted(known)


def test_the_page_of_laws_has_every_status():
    """Every way in which a fit can end is in its table."""
    assert first_cells(page("laws"), "When a fit is not to be trusted") == [str(status) for status in Status]


def test_api_page_has_every_package():
    """The API page lists each package that says what is public, and the modules that the check knows."""
    assert tuple(re.findall(r"^\.\. public:: (\S+)$", page("api"), re.MULTILINE)) == _public.MODULES


def test_examples_are_short():
    """Each section of the page on writing one's own has fewer than LONGEST lines of code."""
    sections = re.split(r"^## ", page("extending"), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        lines = [line for block in fences(section, "pycon") for line in block.splitlines()]
        code = [line for line in lines if re.match(r"(>>>|\.\.\.) \s*\S", line)]
        assert 10 < len(code) < LONGEST, (section.partition("\n")[0], len(code))


def test_the_spec_of_the_text_page_is_a_spec(tmp_path):
    """It reads the text that the page speaks of, and takes all else from the preset that it names."""
    (block,) = (block for block in fences(page("from-text-to-phi"), "toml") if "[sweep]" in block)
    (tmp_path / "phi.toml").write_text(block, encoding="utf-8")
    mine, preset = load_spec(str(tmp_path / "phi.toml")), load_spec("llm_cpu")
    assert len(mine.configs) == len(preset.configs) and mine.fit == preset.fit
    assert {config.data.corpus.paths for config in mine.configs} == {("text",)}
    assert [config.budget for config in mine.configs] == [config.budget for config in preset.configs]


# --- pages are built ---


@pytest.mark.slow
def test_pages_build(tmp_path):
    """Sphinx makes the pages without a warning, and what is public is on the API page."""
    pytest.importorskip("sphinx", reason="pip install -e '.[docs]'")
    pytest.importorskip("myst_parser", reason="pip install -e '.[docs]'")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-b",
            "html",
            "-d",
            str(tmp_path / "trees"),
        ]
        + [str(ROOT / "docs"), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "html" / "api.html").read_text(encoding="utf-8")
    assert [name for name in _public.names() if f'id="{name}"' not in html] == []
    assert "cite &quot;Reference" not in html and "!!! Example" not in html
