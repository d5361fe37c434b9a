"""Tests run with every public array function type-checked (jaxtyping under beartype), on the CPU."""

import atexit
import gc
import os
import shutil
import signal
import tempfile

# Ignored signals (under nohup, in the background of a script) would be handed on to every command under test.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile longer than they compute, and what is computed does not depend on this, but for rounding.
_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
os.environ["XLA_FLAGS"] = f"{_FLAGS} {os.environ.get('XLA_FLAGS', '')}"

# What one process has compiled, no other need compile again: workers, and what tests start, inherit this. A
# folder of one's own in its place is kept, and makes the next run twice as fast.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _folder = tempfile.mkdtemp(prefix="depthlaw-compiled-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import hypothesis  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

install_import_hook(["toymodels", "llm"], "beartype.beartype")

# Compiling inside the first example takes longer than hypothesis' deadline; the same examples every run.
hypothesis.settings.register_profile("depthlaw", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("depthlaw")


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_are_let_go():
    """Python searches all that programs hold for garbage, again and again; there are thousands of them."""
    yield
    import jax

    jax.clear_caches()
    gc.collect()


@pytest.fixture(autouse=True)
def _no_leftover_x64():
    """A test that turns double precision on must do so in a context of its own."""
    import jax

    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before
