"""Laws of what `sweeps` says is public: it is there, costs nothing until asked for, and can be silent."""

import subprocess
import sys

import pytest

import sweeps
from sweeps.executors import InProcess


@pytest.mark.parametrize("name", sweeps.__all__)
def test_public_names_are_there(name):
    """A public name is the thing of this name in the module that it comes from."""
    assert getattr(sweeps, name).__name__ == name
    assert getattr(sweeps, name).__module__ == sweeps._HOMES[name]


def test_other_names_are_not():
    """What is not public is an AttributeError, as of any module."""
    assert set(sweeps.__all__) == set(sweeps._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'run_sweeps'"):
        sweeps.run_sweeps  # noqa: B018  # the access is what is tested


def test_importing_is_cheap():
    """The package imports nothing of ours or heavy before it is asked."""
    program = (
        "import sys, sweeps; print([m for m in sys.modules if m.startswith('sweeps.')], 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


def test_a_run_without_a_watcher_is_silent(tiny_file, tmp_path, capsys):
    """`run_sweep` with a spec and a folder alone trains all jobs, says nothing, and keeps what it did."""
    spec = sweeps.load_spec(str(tiny_file), ("depths=[1]", "steps=5"))
    summary = sweeps.run_sweep(spec, tmp_path / "out", executor=InProcess())
    assert (summary.jobs, summary.reused, summary.not_run) == (4, 0, 0)
    assert sweeps.run_sweep(spec, tmp_path / "out").reused == 4
    assert len(sweeps.Store(tmp_path / "out").table()) == 4
    assert capsys.readouterr() == ("", "")
