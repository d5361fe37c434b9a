"""What this installation is: versions, devices, precision, threads, and whether other packages hide ours."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OURS = ("toymodels", "llm", "sweeps", "figures")
"""Import packages of these plain names; another distribution may own one too."""

DEPENDENCIES = (
    "depthlaw jax jaxlib equinox optax diffrax lineax optimistix orbax-checkpoint "
    "numpy scipy matplotlib polars typer rich filelock"
).split()


class NameClash(Exception):
    """Another distribution's package of one of our names is imported instead of ours."""


def check_names() -> None:
    """Raise NameClash, with the remedy, if a package of ours is hidden by another of the same name."""
    root = Path(__file__).resolve().parent.parent
    for name in OURS:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != root / name:
            where = f"is {found}" if found else "is missing"
            raise NameClash(
                f"package {name!r} {where}, not depthlaw's: another distribution or folder has its name; "
                "install depthlaw in an environment of its own and start it outside that folder"
            )


@functools.cache
def code() -> dict[str, Any]:
    """Version of depthlaw; git commit of its folder and whether that was changed since, None without git."""
    root = Path(__file__).resolve().parent.parent
    commit = dirty = None
    if (root / ".git").exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            commit = _git(root, "rev-parse", "HEAD")
            dirty = bool(_git(root, "status", "--porcelain", "--", *OURS, "pyproject.toml"))
    return {"version": versions()["depthlaw"], "commit": commit, "dirty": dirty}


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout.strip()


@functools.cache
def versions() -> Mapping[str, str]:
    """Python and the dependencies, by name."""
    found = {"python": platform.python_version()}
    for name in DEPENDENCIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def examine() -> dict[str, Any]:
    """Everything that `depthlaw doctor` shows, by line."""
    check_names()
    import jax
    import jax.numpy as jnp
    import numpy as np

    from sweeps._machine import available_cores

    # 1 + 2^-12 is lost by a TF32 or bfloat16 product, and kept by a float32 one.
    probe = jnp.full((128, 128), 1 + 2.0**-12)
    with jax.default_matmul_precision("highest"):
        exact = bool(np.all(np.asarray(probe @ jnp.eye(128)) == np.asarray(probe)))
    return {
        **versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": f"{len(available_cores())} of {os.cpu_count()}",
        "devices": ", ".join(f"{device.platform}: {device.device_kind}" for device in jax.devices()),
        "precision": "float32 products are exact to float32" if exact else "float32 products are rounded",
        "default float": f"{jnp.result_type(float)} (fits use float64 whatever it is)",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") or "not set",
        "names": "toymodels, llm, sweeps and figures are depthlaw's own",
    }
