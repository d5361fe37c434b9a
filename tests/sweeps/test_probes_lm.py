"""Probes of folders of language models: runs that were made, not trained."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from .made_runs import made_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Bytes of a small text; r = 1 and r = 2, two seeds each."""
    folder = tmp_path_factory.mktemp("text")
    for i in range(40):
        (folder / f"{i:02}.txt").write_text(f"{i} + {i} = {2 * i}\nthe next is {i + 1}\n" * 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield made_runs(tmp_path_factory.mktemp("results") / "words", source_of(folder)).out


def source_of(folder: Path, coda: int = 1) -> dict[str, Any]:
    """The spec of the runs, on the texts of a folder."""
    return {
        "sweep": {"name": "words", "kind": "lm", "description": "none"},
        "base": {
            "model": {"width": 8, "head_size": 4, "prelude": 1, "layers": 4, "coda": coda},
            "data": {"corpus": {"kind": "files", "paths": [str(folder)]}, "context": 24, "validation": 0.3},
            "num_tokens": 4 * 8 * 24.0,
            "batch": 8,
        },
        "grid": {"model.num_recur": [1, 2], "seed": [0, 1]},
    }


def test_a_model_without_a_coda_is_refused(call: Callable, runs: Path, tmp_path: Path):
    """Probes read states by the last layer: status 2, the run and the field, no stack of calls."""
    (corpus,) = json.loads((runs / "spec.json").read_text())["base"]["data"]["corpus"]["paths"]
    made_runs(tmp_path / "bare", source_of(Path(corpus), coda=0))
    done = call("probe", tmp_path / "bare", "--out", tmp_path / "probe")
    assert done.status == 2 and "coda is 0: it must have a layer" in done.err and "run " in done.err


def test_runs_of_a_sweep(call: Callable, runs: Path, tmp_path: Path):
    """A question for each r, its seeds replicates; looped layers are no witnesses, and the angle between
    recurrences is there where there are two; losses end in the same value by both lenses."""
    done = call("probe", runs, "--sequences", 20, "--lens-every", 4, "--out", tmp_path)
    assert done.status == 0, done.err
    networks = pl.read_csv(tmp_path / "networks.csv").sort("num_recur", "seed")
    assert networks["num_recur"].to_list() == [1, 1, 2, 2] and networks["depth"].unique().to_list() == [6]
    assert networks["first_tokens"].to_list() == [20] * 4 and networks["tokens"].to_list() == [20 * 23] * 4
    assert networks["last_recurrence_step"].is_null().to_list() == [True, True, False, False]
    assert networks["config"].n_unique() == 2  # of r, not of the seed
    looped = next(line for line in done.out.splitlines() if "num_recur 2" in line)
    assert "not resolved" in looped
    states = pl.read_csv(tmp_path / "states.csv").filter(pl.col("num_recur") == 2, pl.col("seed") == 0)
    assert states["state"].to_list()[:6] == [
        *("embedding", "prelude.0", "inject.0", "recurrence.0.0", "recurrence.0.1", "recurrence.0")
    ]
    assert states["head_loss"][-1] == pytest.approx(states["layer_loss"][-2], abs=1e-5)
    assert states["layer_loss"][-1] is None


def test_other_recurrences_and_a_choice_of_runs(call: Callable, runs: Path, tmp_path: Path):
    """--num-recur runs a model more often than it was trained to; --only chooses; both are told."""
    done = call(
        "probe", runs, "--only", "num_recur=2", "--only", "seed=1", "--num-recur", 4, "--out", tmp_path
    )
    assert done.status == 0, done.err
    row = pl.read_csv(tmp_path / "networks.csv").to_dicts()
    assert [(one["trained_recur"], one["num_recur"], one["depth"], one["seed"]) for one in row] == [
        (2, 4, 10, 1)
    ]


def test_lengths_that_were_not_trained_are_refused(call: Callable, runs: Path, tmp_path: Path):
    """More positions than in training: status 2, and how many there are."""
    done = call("probe", runs, "--length", 25, "--out", tmp_path)
    assert done.status == 2 and "was trained with 24 positions" in done.err
