"""What the README shows is what the code does."""

import ast
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sweeps._jobs import PROVENANCE
from sweeps._lm import LM
from sweeps._spec import parse_spec, preset_names
from sweeps._store import JOB
from sweeps._toy import Toy

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODELS = (ROOT / "docs/language-models.md").read_text(encoding="utf-8")
COLUMNS = (ROOT / "docs/columns.md").read_text(encoding="utf-8")


def block(language, containing, page=README):
    """The fenced block of this language that contains a text."""
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", page, re.S) if containing in text)
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
    """The example of its page, with a thirtieth of its budget, trains below the loss of a uniform guess at
    both r, and prints bytes."""
    code = block("python", "from llm import", MODELS)
    assert code.count("budget=1e12") == 1
    exec(code.replace("budget=1e12", "budget=3e10"), {})
    losses, text = capsys.readouterr().out.strip().splitlines()
    assert all(0 < float(loss) < math.log(257) for loss in losses.split())
    assert isinstance(ast.literal_eval(text), bytes)


@pytest.mark.parametrize(
    ("title", "kind"), [("Columns of a table\n", Toy), ("Columns of a table of language models\n", LM)]
)
def test_the_columns_that_are_described_are_the_columns(title, kind):
    """The table of columns names every column with its unit and meaning, in order."""
    section = COLUMNS.partition(f"## {title}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section, re.M)
    columns = {"job": JOB, **kind.columns, **PROVENANCE}
    wanted = [(name, column.unit or "", column.meaning) for name, column in columns.items()]
    assert [(name, unit.strip(), meaning) for name, unit, meaning in rows] == wanted


def test_presets_that_are_named_exist():
    """Every `run NAME` in the README, and `depthlaw run NAME` in its pages, names a preset."""
    named = set(re.findall(r"(?:`|depthlaw )run ([\w-]+)", README + MODELS))
    assert {"llm_tiny", "llm_cpu", "phase-2core"} < named
    assert named <= set(preset_names()) | {"SPEC", "between"}


def commands():
    """The depthlaw commands of the README's shell blocks, as printed, comments left out."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    return [line for line in found if line.startswith("depthlaw ")]


def in_folder(command, folder):
    """What a command prints, started in a folder; it must end with 0."""
    words = [sys.executable, "-c", "from sweeps.cli import main; main()", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def test_quick_commands_work_as_printed(tmp_path):
    """The spec of the README, planned as it says, is eight cohorts; figures and presets are listed."""
    (tmp_path / "between.toml").write_text(block("toml", "[sweep]"), encoding="utf-8")
    quick = [line for line in commands() if line.endswith("--dry-run") or line.endswith("--list")]
    assert {"depthlaw run between.toml --dry-run", "depthlaw figures --list"} <= set(quick)
    printed = {line: in_folder(line, tmp_path) for line in quick}
    assert "between: 24 jobs, 120 rows" in printed["depthlaw run between.toml --dry-run"]
    assert "phase_diagram: " in printed["depthlaw figures --list"]


@pytest.mark.slow
def test_a_sweep_of_your_own_works_as_printed(tmp_path):
    """Trained for 20 steps instead of 10 000, the README's spec gives rows, a fit for each condition, and a
    report, by the commands that follow it."""
    text = block("toml", "[sweep]")
    assert text.count("steps = 10_000") == 1
    (tmp_path / "between.toml").write_text(text.replace("10_000", "20"), encoding="utf-8")
    assert {"depthlaw run between.toml", "depthlaw report results/between"} <= set(commands())
    assert "ensemble" in (said := in_folder("depthlaw run between.toml", tmp_path)) or "resolved" in said
    in_folder("depthlaw report results/between", tmp_path)
    page = (tmp_path / "results/between/report.html").read_text(encoding="utf-8")
    assert "How the exponent moves from independent to tied teachers." in page and "<svg" in page
