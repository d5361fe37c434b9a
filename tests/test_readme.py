"""What the README shows is what the code does."""

import ast
import math
import re
import tomllib
from pathlib import Path

import pytest

from sweeps._jobs import PROVENANCE
from sweeps._lm import LM
from sweeps._spec import parse_spec, preset_names
from sweeps._store import JOB
from sweeps._toy import Toy

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def block(language, containing):
    """The fenced block of this language that contains a text."""
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", README, re.S) if containing in text)
    return found


def test_the_spec_in_the_readme_is_a_spec():
    """The TOML example parses into the cohorts that it describes."""
    spec = parse_spec(tomllib.loads(block("toml", "[sweep]")), "README.md")
    cells = [(config.teacher.rho, config.width) for config in spec.configs]
    assert cells == [(0, 8), (0, 16), (0.5, 8), (0.9, 8), (0.9, 16), (0.99, 8), (1, 8), (1, 16)]
    assert spec.fit.by == ("rho", "width")


def test_the_python_in_the_readme_runs(capsys):
    """The example trains, fits, and prints an exponent with an interval around it."""
    exec(block("python", "train_cohort(config)"), {})
    alpha, low, high = (float(number) for number in re.findall(r"-?\d+\.\d+", capsys.readouterr().out)[:3])
    assert low < alpha < high


@pytest.mark.slow
def test_the_language_model_in_the_readme_runs(capsys):
    """The example, with a thirtieth of its budget, trains below the loss of a uniform guess at both r, and
    prints bytes."""
    code = block("python", "from llm import")
    assert code.count("budget=1e12") == 1
    exec(code.replace("budget=1e12", "budget=3e10"), {})
    losses, text = capsys.readouterr().out.strip().splitlines()
    assert all(0 < float(loss) < math.log(257) for loss in losses.split())
    assert isinstance(ast.literal_eval(text), bytes)


@pytest.mark.parametrize(
    ("title", "kind"), [("Columns of a table\n", Toy), ("Columns of a table of language models\n", LM)]
)
def test_the_columns_in_the_readme_are_the_columns(title, kind):
    """The table of columns names every column with its unit and meaning, in order."""
    section = README.partition(f"## {title}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section, re.M)
    columns = {"job": JOB, **kind.columns, **PROVENANCE}
    wanted = [(name, column.unit or "", column.meaning) for name, column in columns.items()]
    assert [(name, unit.strip(), meaning) for name, unit, meaning in rows] == wanted


def test_the_presets_in_the_readme_exist():
    """Every `depthlaw run NAME` in the README, in the text and in its blocks, names a preset."""
    named = set(re.findall(r"depthlaw run ([\w-]+)", README))
    assert {"llm_tiny", "llm_cpu"} < named <= set(preset_names()) | {"SPEC"}
