"""The page docs/from-text-to-phi.md, followed in miniature: its text, its spec, its commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.test_docs import calls, fences, page

WORDS = "a layer is worth what it adds to those before and no more than the next one leaves of that".split()
TINY = {
    "grid": 'grid]\nbudget = [5e7, 1e8]\n"model.width" = [8, 12]\n"model.num_recur" = [1, 2]\n',
    "base": "base]\nbatch = 8\nmodel = { head_size = 4, prelude = 0, layers = 2, coda = 1 }\n"
    "evaluation = { sequences = 16, batch = 16 }\n",
}
"""A grid of the page's kind that takes seconds a run."""


@pytest.fixture
def folder(tmp_path):
    """The text and the spec of the page."""
    rng = np.random.default_rng(0)
    (tmp_path / "text").mkdir()
    for number in range(200):
        words = rng.choice(WORDS, 100)
        (tmp_path / "text" / f"{number:03}.txt").write_text(" ".join(words), encoding="utf-8")
    (spec,) = (block for block in fences(page("from-text-to-phi"), "toml") if "[sweep]" in block)
    (tmp_path / "phi.toml").write_text(spec, encoding="utf-8")
    return tmp_path


def run(folder: Path, words: list[str], status: int = 0) -> str:
    """What a command of the page says, on both streams, in the folder of the text."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", "from sweeps.cli import main; main()", *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def call(*beginning: str) -> list[str]:
    """The first call of the page that begins so."""
    return next(
        words for words in calls(page("from-text-to-phi")) if words[: len(beginning)] == list(beginning)
    )


def test_corpus_and_dry_run(folder):
    """The page's spec makes shards of the text, some of it held out, and says its cost before it is run."""
    said = run(folder, call("depthlaw", "corpus"))
    sides = dict(re.findall(r"(train|validation) +│ +(\d+)", said))
    assert int(sides["train"]) + int(sides["validation"]) == 200 and 0 < int(sides["validation"]) < 40
    said = run(folder, call("depthlaw", "run", "phi.toml", "--dry-run"))
    assert "phi: 72 jobs" in said and "FLOPs" in said and "MiB" in said


@pytest.mark.slow
def test_run_and_phi(folder):
    """The page's commands from the run to the probes work in turn; a grid that small may not bound phi."""
    text = (folder / "phi.toml").read_text(encoding="utf-8")
    extends = re.search(r'extends = ".*"\n', text)[0]
    text = (
        text.replace(extends, 'kind = "lm"\n')
        + f"context = 32\nvalidation = 0.2\n\n[{TINY['grid']}\n[{TINY['base']}"
    )
    (folder / "phi.toml").write_text(text, encoding="utf-8")
    run(
        folder,
        [*call("depthlaw", "run", "phi.toml", "--keep-models"), "--executor", "in-process"],
        status=ANY,
    )
    run(folder, call("depthlaw", "status"))
    said = run(
        folder, [*call("depthlaw", "iso-depth", "results/phi", "--plot"), "--resamples", "50"], status=ANY
    )
    assert "phi" in said
    rows = run(folder, ["depthlaw", "table", "results/phi"]).splitlines()
    assert len([row for row in rows if ",done," in row]) == 8
    run(folder, ["depthlaw", "probe", "results/phi", "--only", "num_recur=2", "--sequences", "8"])
    run(folder, [*call("depthlaw", "evaluate"), "--items", "10", "--tasks", "induction"])


class _Any(int):
    """0 or 1: the work was done, trusted or not."""

    def __eq__(self, other: object) -> bool:
        return other in (0, 1)

    __hash__ = int.__hash__


ANY = _Any()
