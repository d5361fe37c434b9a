"""A tiny sweep, trained once for all tests of this room, and ways to call the command line."""

import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TINY = """
[sweep]
name = "tiny"
description = "Two teachers, two seeds, three depths: a job takes a tenth of a second once compiled."

[base]
width = 4
hidden_factor = 2
batch = 16
depths = [1, 2, 3]
seeds = [0, 1]
steps = 20
teacher = { kind = "tied", depth = 4 }
evaluation = { batches = 1, batch = 16, points = 3, first_step = 5 }

[grid]
"teacher.kind" = ["tied", "independent"]

[fit]
by = ["teacher"]
floor = 0.0
"""

COMMAND = (sys.executable, "-c", "from sweeps.cli import main; main()")
"""The command line in a process of its own, wherever the console script lies."""

PATIENCE = 120.0
"""Seconds after which a test that waits has failed: what it waits for takes a few, many on a busy machine."""


@dataclass(frozen=True)
class Called:
    """How a call of the command line ended."""

    status: int | str | None
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as strict JSON: no NaN, no infinity."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


def trained(out: Path) -> bool:
    """Whether a job is past its first segment."""
    try:
        running = json.loads((out / "live.json").read_bytes())["running"]
    except (OSError, ValueError):
        return False
    return any(entry["step"] > 0 for entry in running.values())


@pytest.fixture(scope="session", autouse=True)
def buffered() -> Iterator[None]:
    """Else a last flush that fails is never tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


@pytest.fixture(autouse=True)
def environment_unchanged() -> Iterator[None]:
    """`main` and `InProcess` set variables and signal handlers for a process that is theirs alone."""
    before = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    os.environ.clear()
    os.environ.update(before)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny sweep's spec."""
    path = tmp_path_factory.mktemp("spec") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def spawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Called]:
    """Call the command line in a process of its own, in an empty folder."""
    folder = tmp_path_factory.mktemp("cwd")

    def call(*arguments: str | Path, cwd: Path = folder, **environment: str) -> Called:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            timeout=PATIENCE,
        )
        return Called(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """Call the command line in this process: for what does not need one of its own."""
    from sweeps.cli import main

    def run(*arguments: str | Path) -> Called:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["depthlaw", *map(str, arguments)])
        status: int | str | None = None
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        return Called(status, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def tiny_results(
    spawn: Callable[..., Called], tiny_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What `depthlaw run` makes of the tiny sweep, in one process; tests copy it before they change it."""
    out = tmp_path_factory.mktemp("results") / "tiny"
    done = spawn("run", tiny_file, "--out", out, "--workers", "1")
    assert done.status == 0, done.err
    return out


def pretended(config: Any, exponent: float = 1.0) -> Any:
    """What `train_cohort` would return, but with losses that follow depth^-exponent, and at once."""
    steps = np.array(config.evaluation.at(config.steps))

    def angles(depth: int) -> Any:
        return types.SimpleNamespace(
            step_angles=np.full(depth, 0.1),
            update_angles=np.full(depth - 1, 1.5),
            update_angle=1.5 if depth > 1 else None,
        )

    return types.SimpleNamespace(
        config=config,
        steps=steps,
        teachers=[
            types.SimpleNamespace(seed=seed, geometry=angles(config.teacher.depth)) for seed in config.seeds
        ],
        students=[
            types.SimpleNamespace(
                depth=depth,
                seed=seed,
                temperature=temperature,
                losses=np.full(len(steps), 0.5 * depth**-exponent * (1 + 0.01 * (seed + depth % 2))),
                trained_steps=config.steps,
                diverged=False,
                geometry=angles(depth),
            )
            for depth in config.depths
            for seed in config.seeds
            for temperature in config.temperatures
        ],
    )


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs of this process are not trained but pretended; the list fills with the ids of those that were."""
    import toymodels

    trained: list[str] = []

    def train_cohort(config: Any, **options: Any) -> Any:
        from sweeps._jobs import expand

        trained.extend(job.id for job in expand("toy", (config,)))
        return pretended(config)

    monkeypatch.setattr(toymodels, "train_cohort", train_cohort)
    return trained


@pytest.fixture
def no_watcher() -> Any:
    """A watcher that says nothing."""
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731  # three times the same
    return types.SimpleNamespace(start=nothing, tick=nothing, note=nothing, end=nothing, close=nothing)
