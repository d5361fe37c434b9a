"""How the pages are built: `sphinx-build -W -b html docs docs/_build`. Nothing is fetched.

Pages are Markdown, and so are the docstrings of the package: `Markdown` puts them into the API page as they
are. `Public` lists what a module has in `__all__`. Signatures are shown as the source has them, since that is
where the shapes of arrays stand.
"""

import ast
import dataclasses
import importlib
import inspect
import os
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from docutils import nodes  # noqa: E402
from docutils.utils import new_document  # noqa: E402
from myst_parser.parsers.sphinx_ import MystParser  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.util.docutils import SphinxDirective  # noqa: E402

project = "depthlaw"
author = copyright = "The depthlaw authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
html_theme = "alabaster"
html_theme_options = {
    "description": "What is a layer worth?",
    "page_width": "62rem",
    "sidebar_width": "14rem",
}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_copy_source = False

CALLOUT = re.compile(r"(?:\?\?\?|!!!) (?:\w+ \")?(\w+)\"?$")
"""The head of a docstring's indented part: ??? cite "Reference", !!! Example."""

STARRED = re.compile(r"(?<!\w)(\w)\*")
"""A symbol with a star, such as the teacher's depth: no emphasis begins or ends there."""


def markdown(docstring: str) -> str:
    """A docstring as the pages' Markdown."""
    lines: list[str] = []
    inside = False
    for line in docstring.splitlines():
        head = CALLOUT.match(line)
        if inside and (head or (line and not line.startswith("    "))):
            lines.append(":::")
            inside = False
        if head:
            lines.append(f":::{{admonition}} {head[1]}")
            inside = True
        else:
            lines.append(line.removeprefix("    ") if inside else line)
    text = "\n".join([*lines, ":::"] if inside else lines)
    parts = re.split(r"(```.*?```|\$\$.*?\$\$|`[^`]*`)", text, flags=re.DOTALL)
    parts[::2] = [STARRED.sub(r"\1\\*", part).replace("<", r"\<") for part in parts[::2]]
    return "".join(parts)


class Markdown(SphinxDirective):
    """Its content as Markdown, also where all around it is reStructuredText."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        document = new_document(self.get_source_info()[0], self.state.document.settings)
        MystParser().parse(markdown("\n".join(self.content)), document)
        return document.children


class Public(SphinxDirective):
    """What a module says of itself, and all that its `__all__` names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (module,) = self.arguments
        of = importlib.import_module(module)
        lines = [f".. automodule:: {module}", ""]
        for name in sorted(of.__all__, key=str.casefold):
            value = getattr(of, name)
            if inspect.isclass(value):
                kind = "autoexception" if issubclass(value, Exception) else "autoclass"
                lines += [f".. {kind}:: {module}.{name}", "   :members:", "   :show-inheritance:", ""]
            elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):
                lines += [f".. autofunction:: {module}.{name}", ""]
            elif not inspect.ismodule(value):
                lines += [f".. py:data:: {name}", f"   :module: {module}"]
                shown = repr(value)
                lines += [f"   :value: {shown}"] if len(shown) < 100 and "<" not in shown else []
                told = said_of(of, name).splitlines()
                if isinstance(value, dict):
                    told += ["", "Names: " + ", ".join(f"`{key}`" for key in value) + "."]
                lines += ["", "   .. markdown::", "", *("      " + line for line in told), ""]
        return self.parse_text_to_nodes("\n".join(lines))


def said_of(module: object, name: str) -> str:
    """The text below the assignment of a constant, wherever in the package that is."""
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(
            (each.asname or each.name) == name for each in node.names
        ):
            return said_of(importlib.import_module(node.module or ""), name)
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in [getattr(target, "id", None) for target in targets] and isinstance(after, ast.Expr):
            return inspect.cleandoc(str(ast.literal_eval(after.value)))
    return ""


def parsed(value: object) -> ast.AST:
    """The definition of a class or function, as its source has it."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]


def signature(value: object) -> str | None:
    """(arguments), as the source has them; None where there is none to show."""
    if not inspect.isclass(value):
        node = parsed(value)
        drop = bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
        for arguments in (node.args.posonlyargs, node.args.args)[1:]:
            del arguments[: int(drop)]
        return f"({ast.unparse(node.args)})"
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    names = names or list(getattr(value, "_fields", ()))
    if not names:
        own = vars(value).get("__init__")
        written_out = inspect.isfunction(own) and not dataclasses.is_dataclass(value)
        return signature(own) if written_out else None
    written: dict[str, str] = {}
    for cls in reversed([cls for cls in value.__mro__ if cls.__module__.split(".")[0] in ROOMS]):
        for node in parsed(cls).body:
            if isinstance(node, ast.AnnAssign) and node.target.id in names:
                default = shown_default(node.value) if node.value else ""
                text = f"{node.target.id}: {ast.unparse(node.annotation)}"
                written[node.target.id] = f"{text} = {default}" if default else text
    return f"({', '.join(written[name] for name in names)})"


ROOMS = ("toymodels", "llm", "sweeps", "figures")


def shown_default(value: ast.expr) -> str:
    """Of a call of `field`: of default_factory=X X(), of default=X X, nothing without."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] == "field"):
        return ast.unparse(value)
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
    return f"{given['default_factory']}()" if "default_factory" in given else given.get("default", "")


def setup(app) -> None:
    """What Sphinx calls."""
    app.add_directive("markdown", Markdown)
    app.add_directive("public", Public)
    app.connect("autodoc-process-docstring", wrap)
    app.connect("autodoc-process-signature", sign)
    app.connect("doctree-read", nearest)
    app.connect("source-read", beside)


def wrap(app, what, name, value, options, lines: list[str]) -> None:
    """A docstring inside a `markdown` directive."""
    if any(lines):
        lines[:] = [".. markdown::", "", *("   " + line for line in lines), ""]


def sign(app, what, name, value, options, given, returned):
    """Signature and return type as the source has them."""
    if given is None or not (
        inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__")
    ):
        return None
    returns = None if inspect.isclass(value) else getattr(parsed(value), "returns", None)
    return signature(value) or "", returns and ast.unparse(returns).strip("'\"")


def nearest(app, doctree: nodes.document) -> None:
    """A class that several packages have, such as Objective, is the one of the room that names it."""
    homes: dict[str, list[str]] = {}
    for reference in doctree.findall(addnodes.desc_signature):
        name = reference.get("fullname", "")
        homes.setdefault(name, []).append(f"{reference.get('module')}.{name}")
    for reference in doctree.findall(addnodes.pending_xref):
        module, name = reference.get("py:module") or "", reference["reftarget"]
        found = homes.get(name, [])
        if len(found) > 1 and f"{module}.{name}" not in found:
            of_room = [home for home in found if home.split(".")[0] == module.split(".")[0]]
            reference["reftarget"] = (of_room or found)[0]


def beside(app, page: str, source: list[str]) -> None:
    """Links to Markdown files beside this folder, which are no pages here, as downloads."""
    source[0] = re.sub(r"\]\((\.\./[^)#]*\.md)(#[^)]*)?\)", r"](path:\1)", source[0])
