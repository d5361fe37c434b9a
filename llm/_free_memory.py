"""How many bytes are free where arrays go: on JAX's first device, or in this machine's memory."""

import os
from pathlib import Path

import jax

UNKNOWN = 4 * 2**30
"""Bytes that are taken to be free where the system does not say."""

CGROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
"""What holds the limit of a container and what it uses: control groups of version 2, and of version 1."""


def device_memory() -> int:
    """Bytes free on JAX's default device."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return max(0, stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return host_memory()


def host_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that a program can still take on this machine, or in the container that it is in."""
    free = [_available(meminfo)]
    for limit, used in CGROUPS:
        try:
            free.append(int((cgroup / limit).read_text()) - int((cgroup / used).read_text()))
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
    return max(0, min(free))


def _available(meminfo: Path) -> int:
    try:
        found = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN
