"""Tests run with every public array function type-checked (jaxtyping under beartype), on the CPU."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import hypothesis  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

install_import_hook("toymodels", "beartype.beartype")

# Compiling inside the first example takes longer than hypothesis' deadline; the same examples every run.
hypothesis.settings.register_profile("depthlaw", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("depthlaw")


@pytest.fixture(autouse=True)
def _no_leftover_x64():
    """A test that turns double precision on must do so in a context of its own."""
    import jax

    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before
