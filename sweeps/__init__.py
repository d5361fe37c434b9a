"""From a question to a number: specs, jobs, records, executors, and the fitter in `sweeps.laws`.

    spec = load_spec("quickstart")
    summary = run_sweep(spec, Path("results/quickstart"))
    summary.store.table()

What is public here is imported when it is first asked for: the command line imports this package, and is to
answer `--help` at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeps._config import ConfigError
    from sweeps._files import StoreError
    from sweeps._run import Policy, RunSummary, Watcher, run_sweep
    from sweeps._spec import FitSpec, Spec, load_spec, parse_spec, preset_names
    from sweeps._store import Store

_HOMES = {
    "ConfigError": "sweeps._config",
    "FitSpec": "sweeps._spec",
    "Policy": "sweeps._run",
    "RunSummary": "sweeps._run",
    "Spec": "sweeps._spec",
    "Store": "sweeps._store",
    "StoreError": "sweeps._files",
    "Watcher": "sweeps._run",
    "load_spec": "sweeps._spec",
    "parse_spec": "sweeps._spec",
    "preset_names": "sweeps._spec",
    "run_sweep": "sweeps._run",
}

__all__ = [
    "ConfigError",
    "FitSpec",
    "Policy",
    "RunSummary",
    "Spec",
    "Store",
    "StoreError",
    "Watcher",
    "load_spec",
    "parse_spec",
    "preset_names",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweeps' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
