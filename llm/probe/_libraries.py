"""The libraries that pretrained models come with, imported only where one is opened, and kept quiet."""

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

INSTALL = "pip install 'depthlaw[hf]'"


def library(name: str) -> Any:
    """The module `torch`, `transformers` or `huggingface_hub`.

    Raises ValueError, with the command that installs it, where it is missing.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).partition(".")[0]
        told = f"{missing} is not installed: {INSTALL}"
        raise ValueError(
            f"{told} (without a GPU, install torch by itself first, in a build for CPUs)"
        ) from None


@contextlib.contextmanager
def quiet(downloads: bool = False) -> Iterator[None]:
    """Within it `transformers` neither logs, warns nor draws bars, unless they are of `downloads`."""
    logging, hub = library("transformers").utils.logging, library("huggingface_hub").utils
    level, drawn = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub_level, hidden = hub.logging.get_verbosity(), hub.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.set_verbosity_error()
        hub.logging.set_verbosity_error()
        logging.disable_progress_bar()  # the hub's too
        if downloads and not hidden:
            hub.enable_progress_bars()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            hub.logging.set_verbosity(hub_level)
            if drawn:
                logging.enable_progress_bar()
            if hidden:
                hub.disable_progress_bars()


def to_jax(tensor: Any) -> Array:
    """A tensor of torch as an array on JAX's default device; the same memory where the two can share it."""
    if tensor.is_cuda and jax.default_backend() == "gpu":
        return jax.dlpack.from_dlpack(tensor.contiguous())
    return jnp.asarray(tensor.cpu().numpy())


def to_torch(array: Any, like: Any) -> Any:
    """A copy of an array as a tensor of the type and on the device of another."""
    torch = library("torch")
    if like.is_cuda and isinstance(array, jax.Array) and {at.platform for at in array.devices()} == {"gpu"}:
        return torch.from_dlpack(array).to(like.device, like.dtype, copy=True)
    return torch.from_numpy(np.array(array, np.float32)).to(like.device, like.dtype)
