"""Laws of the doctor: it tells what is installed, and whether another package hides one of ours."""

import importlib.metadata
import platform

import pytest

from sweeps import _doctor
from sweeps._doctor import DEPENDENCIES, NameClash, check_names, examine, versions


def test_ours_are_found():
    """In a sound installation every package of ours is the one beside this one."""
    check_names()


def test_another_package_is_refused(tmp_path, monkeypatch):
    """A package of one of our names that lies elsewhere, or nowhere, is refused with its place."""
    monkeypatch.setattr(_doctor, "OURS", ("json",))
    with pytest.raises(NameClash, match=r"^package 'json' is .*json, not depthlaw's: another distribution"):
        check_names()
    monkeypatch.setattr(_doctor, "OURS", ("depthlaw_no_such_package",))
    with pytest.raises(NameClash, match=r"^package 'depthlaw_no_such_package' is missing, not depthlaw's"):
        check_names()


def test_versions(monkeypatch):
    """Every dependency has its version, or is said to be missing."""
    found = versions()
    assert set(found) == {"python", *DEPENDENCIES}
    assert found["python"] == platform.python_version()
    assert found["jax"] == importlib.metadata.version("jax")
    monkeypatch.setattr(_doctor, "DEPENDENCIES", ["no-such-distribution"])
    assert versions.__wrapped__()["no-such-distribution"] == "not installed"


def test_examine():
    """Devices, precision and cores are told; on a CPU float32 products are exact."""
    found = examine()
    assert "cpu" in found["devices"] and "of" in found["cores"]
    assert found["precision"] == "float32 products are exact to float32"
    assert "float32" in found["default float"]
