"""The machine that we run on: cores, GPUs, memory, and how JAX is set up before it starts."""

import contextlib
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

CPU_FLAGS = {
    # Small products gain nothing from a second thread.
    "xla_cpu_multi_thread_eigen": "false",
    # Operations side by side push each other's arrays from the cache.
    "xla_cpu_enable_concurrency_optimized_scheduler": "false",
}
"""XLA's flags for a CPU, each unless the user's XLA_FLAGS name it; figures in tests/benchmarks/README.md."""

HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""For GLIBC_TUNABLES. XLA frees a step's memory after each step, and pages of 4 KiB are slow to get anew: a
quarter of the step of a language model of width 64 and up."""

CACHE_BYTES = 2 * 2**30
"""Of compiled programs that are kept; those that were not used for longest go first."""


def set_up_jax() -> None:
    """Add `CPU_FLAGS` to XLA_FLAGS and keep compiled programs; to be called before JAX is imported.

    Programs are kept in `cache_folder()`, unless JAX_COMPILATION_CACHE_DIR is set (to nothing: not at all).
    """
    flags = os.environ.get("XLA_FLAGS", "")
    added = [f"--{name}={value}" for name, value in CPU_FLAGS.items() if name not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *added]).strip()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and (folder := cache_folder()) is not None:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(CACHE_BYTES))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def ask_for_huge_pages() -> None:
    """In processes that are started from here on, unless GLIBC_TUNABLES is set (read by glibc alone)."""
    os.environ.setdefault("GLIBC_TUNABLES", HUGE_PAGES)


def cache_folder() -> Path | None:
    """Where compiled programs are kept: the user's cache, a folder for each kind of processor.

    A program compiled for one processor may not run on another, and a home folder is often shared by many.
    None where the user has no home.
    """
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "depthlaw" / f"compiled-{hashlib.sha256(_processor().encode()).hexdigest()[:8]}"


def _processor() -> str:
    """What the compiler looks at: model and instruction sets."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        wanted = ("model name", "flags", "Features", "CPU part")
        return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
    return f"{platform.machine()} {platform.processor()}"


def available_cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def accelerated() -> bool:
    """Whether JAX would use a GPU or TPU; asked without starting JAX where there can only be a CPU."""
    if os.environ.get("JAX_PLATFORMS", "").strip().lower() == "cpu":
        return False
    import importlib.util

    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin", "libtpu")
    if not any(importlib.util.find_spec(name) for name in plugins):
        return False
    if visible_gpus():
        return True
    import jax

    return jax.default_backend() != "cpu"


def visible_gpus() -> list[str]:
    """The NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; [] if none is known.

    Asked of the driver's own tool: JAX would take most of a GPU's memory for this process by looking.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=True)
        return [str(i) for i, _ in enumerate(line for line in listed.stdout.splitlines() if "GPU" in line)]
    return []


def peak_memory() -> int:
    """The most memory that this process has held, in bytes (its resident set)."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def memory_kills() -> int:
    """Processes that this system has killed for want of memory since it started; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def mapped_files() -> int:
    """Bytes of this process's resident memory that are files, libraries above all, which processes share.

    0 where the system does not say.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            lines = dict(line.split(":", 1) for line in status if ":" in line)
        return 1024 * int(lines["RssFile"].split()[0])
    except (OSError, KeyError, ValueError):
        return 0


def provenance() -> dict[str, Any]:
    """What a record says of the machine and the device that made it; nothing in it is part of the result."""
    import jax

    from sweeps._doctor import versions

    return {
        "peak_memory_bytes": peak_memory(),
        "mapped_files_bytes": mapped_files(),
        "process": os.getpid(),
        "host": platform.node(),
        "device": jax.devices()[0].device_kind,
        "devices": len(jax.local_devices()),
        "threads": len(available_cores()),
        "flags": os.environ.get("XLA_FLAGS", ""),
        "precision": "float32, products float32",
        "versions": versions(),
    }
