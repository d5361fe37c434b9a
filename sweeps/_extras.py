"""Libraries that only some commands need, installed by an extra of the distribution."""

import importlib
from typing import Any

from sweeps._config import ConfigError


def need(module: str, extra: str) -> Any:
    """The module.

    Raises ConfigError, with the command that installs it, where it is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ConfigError(f"{missing} is not installed: pip install 'depthlaw[{extra}]'") from None
