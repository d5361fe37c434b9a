"""What must hold on a GPU: float32 stays float32, bfloat16 costs little, kernels and layout change nothing.

A model of width 128 with r = 2 that has learnt for 20 steps. Bounds, against what was seen on a CPU there:

| bound | of | noise of one ulp on every weight | weights rounded to TF32's 10 bits | bfloat16 |
|---|---|---|---|---|
| `LOSS` = 1e-5 | losses | 8e-8 | 2e-6 | 5e-4 |
| `STEP` = 1e-4 | the worst array's step, in Frobenius norm | 1.3e-5 | 2e-3 | |
| `BFLOAT16` = 2e-3 | losses | | | 5e-4 |

So `STEP` tells float32 from TF32, and `LOSS` tells it from bfloat16.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from llm import AdamW, DataConfig, Layout, LoopedLM, ModelConfig, MuonH, Optimiser, RunConfig
from llm._optim import GROUPS
from llm._program import Program, TrainState, compiled

pytestmark = pytest.mark.gpu

LOSS, STEP, BFLOAT16 = 1e-5, 1e-4, 2e-3
VOCABULARY, CONTEXT, BATCH = 512, 128, 16
MODEL = ModelConfig(width=128, head_size=64, prelude=1, layers=4, coda=1, num_recur=2)


class OnCPU(Layout):
    """One CPU, which is not among JAX's default devices where there is a GPU."""

    @property
    def mesh(self) -> Mesh:
        return Mesh(np.array(jax.devices("cpu")[:1]), ("batch",))


@pytest.fixture(autouse=True)
def gpu() -> jax.Device:
    """JAX's first GPU. Asked for when a test runs, so that collecting tests starts no backend."""
    device = jax.local_devices()[0]
    if device.platform != "gpu":
        pytest.skip(f"JAX has no GPU here: its default device is a {device.platform}")
    return device


def _batch(step: int) -> np.ndarray:
    """Sequences that count up, each from a token and by a stride of its own: something to learn."""
    rng = np.random.default_rng(step)
    first, stride = rng.integers(VOCABULARY, size=(BATCH, 1)), rng.integers(1, 4, size=(BATCH, 1))
    return ((first + stride * np.arange(CONTEXT + 1)) % VOCABULARY).astype(np.int32)


def _program(
    optimiser: Optimiser,
    precision: str = "float32",
    layout: Layout | None = None,
    rematerialise: bool = False,
) -> Program:
    config = RunConfig(
        model=MODEL,
        data=DataConfig(context=CONTEXT),
        optimiser=optimiser,
        num_tokens=1e6,
        batch=BATCH,
        precision=precision,
        rematerialise=rematerialise,
    )
    return Program.of(config, VOCABULARY, 0, layout or Layout(1))


@functools.cache
def _learnt(optimiser: Optimiser) -> Any:
    """A state after 20 steps in float32, on the host: losses of an untrained model are all ln V."""
    return jax.tree.map(np.asarray, _after(_program(optimiser), None, range(20))[0])


def _after(program: Program, state: Any, steps: range) -> tuple[TrainState, list[float]]:
    """The state after these steps, and their losses; from a state on the host, or (None) untrained."""
    products = "highest" if program.precision == "float32" else "default"
    with jax.default_matmul_precision(products):
        functions = compiled(program)
        on = functions.draw(jax.random.key(0))
        if state is not None:
            on = program.layout.restore(state, on)
        optimiser = program.optimiser
        rates = {group: getattr(optimiser, group) for group in GROUPS}
        losses = []
        for step in steps:
            tokens = program.layout.place(_batch(step)[None], axis=1)
            on, loss = functions.step(on, tokens, rates, 1000, 0, MODEL.num_recur)
            losses.append(float(loss))
    return on, losses


def _distance(one: LoopedLM, other: LoopedLM, before: LoopedLM) -> float:
    """The worst array's ‖one − other‖ / ‖other − before‖: how much of a step differs."""

    def of(a: Any, b: Any, c: Any) -> float:
        a, b, c = (np.asarray(leaf, np.float64) for leaf in (a, b, c))
        return float(np.linalg.norm(a - b) / np.linalg.norm(b - c))

    return max(jax.tree.leaves(jax.tree.map(of, one, other, before)))


@pytest.mark.parametrize("optimiser", [MuonH(), AdamW()], ids=lambda optimiser: optimiser.kind)
def test_a_step_is_that_of_the_cpu(optimiser: Optimiser) -> None:
    """In float32 a step from one state takes weights to the same place on GPU and CPU, but for rounding."""
    start = _learnt(optimiser)
    there, (loss,) = _after(_program(optimiser), start, range(20, 21))
    here, (expected,) = _after(_program(optimiser, layout=OnCPU()), start, range(20, 21))
    np.testing.assert_allclose(loss, expected, rtol=LOSS)
    assert _distance(there.model, here.model, start.model) < STEP


def test_logits_are_float32_whatever_the_states_are() -> None:
    """With states in bfloat16 logits have more than bfloat16's 8 bits."""
    model = _learnt(MuonH()).model.cast(jnp.bfloat16)
    logits = jax.jit(lambda model, tokens: model(tokens))(model, _batch(0)[:, :-1])
    assert logits.dtype == jnp.float32
    assert np.mean(np.asarray(logits) != np.asarray(logits.astype(jnp.bfloat16), np.float32)) > 0.9


def test_a_step_in_bfloat16_has_nearly_the_loss_of_float32() -> None:
    """Twenty steps with states and products in bfloat16 have the losses of float32."""
    start = _learnt(MuonH())
    exact = _after(_program(MuonH()), start, range(20, 40))[1]
    rounded = _after(_program(MuonH(), "bfloat16"), start, range(20, 40))[1]
    np.testing.assert_allclose(rounded, exact, rtol=BFLOAT16)


def test_rematerialising_changes_nothing() -> None:
    """But for rounding, where the compiler fuses the second computation in another way."""
    start = _learnt(MuonH())
    kept = _after(_program(MuonH(), "bfloat16"), start, range(20, 22))[1]
    again = _after(_program(MuonH(), "bfloat16", rematerialise=True), start, range(20, 22))[1]
    np.testing.assert_allclose(again, kept, rtol=BFLOAT16)


def test_attention_is_that_of_cudnn() -> None:
    """In bfloat16 `attention` and cuDNN's fused kernel agree: outputs to 3 of its units, gradients to 8."""
    from llm._attention import attention

    keys = jax.random.split(jax.random.key(0), 4)
    q, k, v, g = (jax.random.normal(key, (2, 256, 2, 128), jnp.bfloat16) for key in keys)

    def cudnn(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")

    def both(attend: Any) -> Any:
        out, pull = jax.jit(lambda q, k, v: jax.vjp(attend, q, k, v))(q, k, v)
        return out, *pull(g)

    try:
        found = both(cudnn)
    except Exception as error:  # of many kinds, by what is too old
        pytest.skip(f"this GPU or its cuDNN has no fused attention: {error}")
    unit = 2.0**-8
    ours = both(lambda q, k, v: attention(q, k, v, None))
    for bound, one, other in zip((3, 8, 8, 8), found, ours, strict=True):
        one, other = (np.asarray(part, np.float64) for part in (one, other))
        assert np.linalg.norm(one - other) < bound * unit * np.linalg.norm(other)


@pytest.mark.parametrize("divided", [False, True], ids=["copied", "divided"])
def test_layout_over_gpus_changes_nothing(divided: bool) -> None:
    """A batch divided over all local GPUs, and parameters too: the losses of one GPU but for rounding."""
    count = jax.local_device_count()
    if count < 2:
        pytest.skip("needs several GPUs, and there is one")
    devices = max(n for n in range(1, count + 1) if BATCH % n == 0)
    alone, losses = _after(_program(MuonH()), None, range(3))
    shared, found = _after(_program(MuonH(), layout=Layout(devices, divided)), None, range(3))
    np.testing.assert_allclose(found, losses, rtol=LOSS)
    if divided:
        weight = shared.model.recurrent.up
        assert weight.addressable_shards[0].data.size * devices == weight.size
