"""Tests run with every public array function type-checked (jaxtyping under beartype), on the CPU."""

import os
import signal

# Ignored signals (under nohup, in the background of a script) would be handed on to every command under test.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile longer than they compute, and what is computed does not depend on this, but for rounding.
os.environ["XLA_FLAGS"] = f"--xla_backend_optimization_level=0 {os.environ.get('XLA_FLAGS', '')}"

import hypothesis  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

install_import_hook(["toymodels", "llm"], "beartype.beartype")

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
