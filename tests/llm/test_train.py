"""Training: what it may and may not depend on."""

import dataclasses
import json
import subprocess
import sys

import jax
import jax.extend
import numpy as np
import pytest

from llm import (
    AdamW,
    CorpusError,
    DataConfig,
    Evaluation,
    Files,
    HeldOut,
    Layout,
    Linear,
    ModelConfig,
    MuonH,
    RunConfig,
    SampledRecurrences,
    TrainedBPE,
    Transfer,
    _train,
    build,
    num_steps,
    token_losses,
    train,
)
from llm._program import Program, TrainState, compiled
from sweeps._lm import _result

OPTIMISER = MuonH(matrix=0.04, embedding=0.1, head=0.02)


@pytest.fixture(scope="session")
def tokens(tmp_path_factory):
    """Forty small documents, as bytes, in sequences of 16."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for i in range(40):
        words = rng.choice(["one", "two", "three", "layer", "depth", "loss"], 60)
        (folder / f"{i:02d}.txt").write_text(" ".join(words), encoding="utf-8")
    data = DataConfig(corpus=Files((str(folder),)), context=16, validation=0.2)
    return data, build(data, cache=tmp_path_factory.mktemp("shards"))


@pytest.fixture
def config(tokens):
    model = ModelConfig(width=8, head_size=4, prelude=1, layers=2, coda=1, num_recur=2)
    return RunConfig(
        model=model,
        data=tokens[0],
        optimiser=OPTIMISER,
        num_tokens=10.0 * 8 * 16,
        batch=8,
        evaluation=Evaluation(points=2, batch=16),
        seed=3,
    )


def leaves(result):
    """All that a run reached, as arrays."""
    return [*map(np.asarray, jax.tree.leaves(result.model)), result.losses]


def assert_same_bits(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.validations == second.validations


def test_learns(config, tokens):
    """In a hundred steps on six words the held-out loss falls well below that of a uniform guess."""
    result = train(dataclasses.replace(config, num_tokens=100.0 * 8 * 16), tokens=tokens[1])
    assert result.losses[0] == pytest.approx(np.log(256), abs=0.05)
    assert result.validations[-1].loss < 2.0
    # Tokens are bytes; separators, one a document, are in the loss but not in bits per byte.
    last = result.validations[-1]
    assert 0.9 * last.loss / np.log(2) < last.bpb < last.loss / np.log(2)


def test_same_config_same_bits(config, tokens):
    """The same config gives the same result, to the last bit."""
    assert_same_bits(train(config, tokens=tokens[1]), train(config, tokens=tokens[1]))


class Cut(Exception):
    pass


@pytest.mark.parametrize("at", [1, 5, 7])
def test_resume(config, tokens, at, monkeypatch):
    """A run cut after any segment goes on from its snapshot to the same bits."""
    monkeypatch.setattr(_train, "SEGMENT_SECONDS", 0.0)
    saved = []

    def cut(progress):
        if progress.step >= at:
            saved.append(progress.snapshot())
            raise Cut

    with pytest.raises(Cut):
        train(config, tokens=tokens[1], on_progress=cut)
    (snapshot,) = saved
    assert at <= snapshot.step < num_steps(config, 256)
    resumed = train(config, tokens=tokens[1], resume=snapshot)
    assert_same_bits(resumed, train(config, tokens=tokens[1]))


def test_snapshot_of_another(config, tokens):
    """A snapshot of another config, of other arrays or of another corpus is refused."""
    saved = []
    train(config, tokens=tokens[1], on_progress=lambda progress: saved.append(progress.snapshot()))
    with pytest.raises(ValueError, match="of another training: its config was not this one"):
        train(dataclasses.replace(config, seed=4), tokens=tokens[1], resume=saved[0])
    with pytest.raises(ValueError, match="its arrays have other shapes"):
        train(config, tokens=tokens[1], resume=dataclasses.replace(saved[0], arrays={}))
    with pytest.raises(ValueError, match="the corpus has changed"):
        train(config, tokens=tokens[1], resume=dataclasses.replace(saved[0], corpus="other"))


def test_validation_is_kept(config, tokens):
    """A validation taken before a snapshot is in what goes on from it, and is not taken again."""
    saved = []
    train(config, tokens=tokens[1], on_progress=lambda progress: saved.append(progress))
    first = next(progress for progress in saved if "validation" in progress.losses)
    assert first.step == 5
    snapshots = []

    def keep(progress):
        if "validation" in progress.losses:
            snapshots.append(progress.snapshot())

    train(config, tokens=tokens[1], on_progress=keep)
    after = []
    resumed = train(config, tokens=tokens[1], resume=snapshots[0], on_progress=after.append)
    assert [v.step for v in resumed.validations] == [5, 10]
    assert sum("validation" in progress.losses for progress in after) == 1


def test_accumulation(config, tokens):
    """Gradients averaged over the parts of a batch are those of the whole batch, up to rounding."""
    whole = train(config, tokens=tokens[1])
    parts = train(dataclasses.replace(config, accumulation=4), tokens=tokens[1])
    np.testing.assert_allclose(parts.losses, whole.losses, rtol=2e-4)
    # MuonH orthogonalises: rounding in small singular directions grows, so parameters differ by more.
    for a, b in zip(leaves(parts), leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)


def test_divergence_is_recorded(config, tokens):
    """A loss that is not finite ends the run at that step, and the result says so."""
    wild = AdamW(matrix=1e30, embedding=1e30, head=1e30)
    result = train(dataclasses.replace(config, optimiser=wild), tokens=tokens[1])
    assert result.diverged
    assert result.steps < 10
    assert np.isfinite(result.losses[:-1]).all() and not np.isfinite(result.losses[-1])
    assert np.isnan(result.validations[-1].loss)
    assert result.num_tokens == result.steps * 8 * 16


def test_divergence_of_a_validation_is_recorded(config, tokens, monkeypatch):
    """So is a held-out loss that is not finite where the training loss still was: in the result and in the
    record of a sweep alike, and nothing goes on from there."""
    monkeypatch.setattr(_train, "evaluate", lambda *_, **__: HeldOut(np.nan, np.nan))
    seen = []
    result = train(config, tokens=tokens[1], on_progress=seen.append)
    assert result.diverged and result.steps == 5 and np.isfinite(result.losses).all()
    assert all("validation" not in progress.losses for progress in seen)
    recorded = _result(config, result)
    assert recorded.diverged == "loss not finite at step 5" and recorded.rows[0]["status"] == "diverged"


def test_tokens_of_another_config(config, tokens):
    """Tokens of another context, or made by another tokenizer, are refused before anything is counted."""
    longer = dataclasses.replace(config, data=dataclasses.replace(config.data, context=32))
    with pytest.raises(CorpusError, match="holds sequences for context 16, not 32"):
        train(longer, tokens=tokens[1])
    other = dataclasses.replace(config, data=dataclasses.replace(config.data, tokenizer=TrainedBPE(300)))
    with pytest.raises(CorpusError, match="was made with tokenizer .*'bytes'.*, not .*'bpe'"):
        train(other, tokens=tokens[1])


def test_a_build_can_be_stopped(config, tmp_path):
    """Where tokens are made first, what `on_build` raises ends it."""

    def stop(progress):
        raise Cut(progress.stage)

    (tmp_path / "new.txt").write_text("some text")
    corpus = Files((str(tmp_path / "new.txt"),))
    with pytest.raises(Cut, match="tokens"):
        train(dataclasses.replace(config, data=DataConfig(corpus=corpus)), on_build=stop)


def test_nothing_is_saved_of_a_diverged_state(config, tokens, monkeypatch):
    """No snapshot is offered from the step on at which the loss was not finite."""
    monkeypatch.setattr(_train, "SEGMENT_SECONDS", 0.0)
    wild = AdamW(matrix=1e30, embedding=1e30, head=1e30)
    seen = []
    run = dataclasses.replace(config, optimiser=wild)
    result = train(run, tokens=tokens[1], on_progress=seen.append)
    assert seen and all(progress.step < result.steps for progress in seen)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"num_recur": 1}, marks=pytest.mark.slow),
        {"num_recur": 2},
        pytest.param(
            {"sampled": SampledRecurrences(most=2), "backprop_recurrences": 2}, marks=pytest.mark.slow
        ),
    ],
    ids=["unlooped", "looped", "recurrences without gradient could come, and do not"],
)
def test_every_parameter_is_trained(config, tokens, change):
    """Ten steps of the compiled program change every array of the model."""
    model = dataclasses.replace(config.model, **change)
    run = dataclasses.replace(config, model=model)
    start = compiled(Program.of(run, 256, 255, Layout())).draw(
        jax.random.fold_in(jax.random.key(run.seed), _train.DRAW)
    )
    result = train(run, tokens=tokens[1])
    after = jax.tree.leaves(result.model)
    for (path, before), trained in zip(jax.tree.leaves_with_path(start.model), after, strict=True):
        assert not np.array_equal(before, trained), jax.tree_util.keystr(path)


class TestWhatAStepIsGiven:
    """What stands between a config and the compiled step, each against its own rule."""

    @pytest.fixture
    def calls(self, monkeypatch):
        """The arguments of every step of a training: tokens, rates, steps, detached, kept; and its losses."""
        made = []

        def spied(program):
            draw, step = compiled(program)

            def watched(state, *arguments):
                after, loss = step(state, *arguments)
                made.append((*arguments, float(loss)))
                return after, loss

            watched._cache_size = step._cache_size
            return draw, watched

        monkeypatch.setattr(_train, "compiled", spied)
        return made

    def test_rates_and_length(self, config, tokens, calls):
        """The rates are those of this width, batch and number of tokens, and their decay has the run's own
        number of steps, which with `test_decay` makes the last of them a tenth."""
        moving = dataclasses.replace(config, optimiser=dataclasses.replace(OPTIMISER, transfer=Transfer()))
        train(moving, tokens=tokens[1])
        assert len(calls) == 10
        wanted = moving.optimiser.rates(width=8, batch_tokens=8 * 16, num_tokens=10 * 8 * 16)
        assert wanted["matrix"] != OPTIMISER.matrix
        for _, rates, steps, _, _, _ in calls:
            assert rates == wanted and steps == 10

    def test_the_order_of_the_data_is_the_seeds(self, config, tokens, calls):
        """Step i of seed s trains on batch (s, i) of the corpus; another seed has others."""
        train(config, tokens=tokens[1])
        for step, (placed, *_) in enumerate(calls):
            np.testing.assert_array_equal(placed[0], tokens[1].batch(3, step, 8))
        train(dataclasses.replace(config, seed=4), tokens=tokens[1])
        assert not np.array_equal(calls[0][0], calls[10][0])

    @pytest.mark.slow
    def test_truncation_runs_all_recurrences(self, config, tokens, calls):
        """With k = 1 of r = 3 kept, the first loss is that of the untrained model at three recurrences; that
        of the kept one alone is another."""
        model = dataclasses.replace(config.model, layers=3, num_recur=3, backprop_recurrences=1)
        config = dataclasses.replace(config, model=model)
        train(config, tokens=tokens[1])
        placed, _, _, detached, kept, loss = calls[0]
        assert (int(detached), kept) == (2, 1)
        # Of a model that has learnt, lest every logit be nearly nothing.
        trained = train(dataclasses.replace(config, num_tokens=40.0 * 8 * 16), tokens=tokens[1]).model
        program = compiled(Program.of(config, 256, tokens[1].separator, Layout(1)))
        rates = dict.fromkeys(("embedding", "head", "matrix", "scale", "lane"), 0.0)
        moments = program.draw(jax.random.key(0)).moments
        whole, cut = (
            float(token_losses(trained, placed[0], r, separator=tokens[1].separator).mean()) for r in (3, 1)
        )
        _, found = program.step(TrainState(trained, moments), placed, rates, 10, 2, 1)
        assert float(found) == pytest.approx(whole, rel=1e-5) and abs(whole - cut) > 1e-3

    def test_rematerialise_reaches_the_step(self, config, tokens, calls):
        """The step of a run that asks for it computes states again, and no other does."""
        for asked in (False, True):
            program = compiled(
                Program.of(
                    dataclasses.replace(config, rematerialise=asked), 256, tokens[1].separator, Layout(1)
                )
            )
            state = jax.eval_shape(program.draw, jax.random.key(0))
            batch = jax.ShapeDtypeStruct((1, 8, 17), np.int32)
            rates = dict.fromkeys(("embedding", "head", "matrix", "scale", "lane"), 0.0)
            traced = str(program.step.trace(state, batch, rates, 10, 0, 2).jaxpr)
            assert ("remat" in traced or "checkpoint" in traced) == asked


def test_bfloat16_is_what_is_multiplied(config, tokens):
    """In bfloat16 every product of a training step has operands of that type, parameters and their updates
    stay float32, and the loss is that of float32 to the 2^-8 of a rounding, but not equal."""
    low = dataclasses.replace(config, precision="bfloat16")
    results = [train(one, tokens=tokens[1]) for one in (config, low)]
    assert {leaf.dtype for leaf in jax.tree.leaves(results[1].model)} == {np.dtype("float32")}
    assert results[0].losses[0] != results[1].losses[0]
    np.testing.assert_allclose(results[1].losses, results[0].losses, rtol=2**-6)
    model, batch = results[0].model, jax.numpy.asarray(tokens[1].batch(0, 0, 8))
    for precision in ("float32", "bfloat16"):
        traced = jax.make_jaxpr(lambda m: token_losses(m, batch, separator=0, precision=precision))(model)  # noqa: B023
        found = {str(v.aval.dtype) for eqn in products(traced.jaxpr) for v in eqn.invars}
        assert found == {precision}


def products(jaxpr):
    """Every dot_general of a program, however deep."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            yield eqn
        for inner in jax.extend.core.jaxprs_in_params(eqn.params):
            yield from products(inner)


def test_traced_once(config, tokens):
    """Runs of one shape share a trace, whatever their length, seed and rates by transfer."""
    step = compiled(Program.of(config, 256, 255, Layout())).step
    train(config, tokens=tokens[1])
    traces = step._cache_size()
    train(dataclasses.replace(config, num_tokens=5.0 * 8 * 16, seed=9), tokens=tokens[1])
    assert step._cache_size() == traces


def test_sampled_recurrences_bounded_compilations(config, tokens):
    """r drawn anew in each step, with one recurrence that keeps gradients: one compilation."""
    model = dataclasses.replace(config.model, sampled=SampledRecurrences(most=5), backprop_recurrences=1)
    sampled = dataclasses.replace(config, model=model)
    result = train(sampled, tokens=tokens[1])
    assert np.isfinite(result.losses).all()
    assert compiled(Program.of(sampled, 256, 255, Layout())).step._cache_size() == 1


def test_flops_and_tokens(config, tokens):
    """Tokens are whole batches; FLOPs are tokens times those a token of the accounting."""
    from llm import total, training_flops

    result = train(config, tokens=tokens[1])
    assert result.num_tokens == 10 * 8 * 16
    assert result.flops == result.num_tokens * total(training_flops(config.model, 16, 256))


def test_evaluated_sequences(config, tokens):
    """The sequences that are validated are the same ones whatever the batch."""
    few = dataclasses.replace(config, evaluation=Evaluation(sequences=20, batch=16))
    other = dataclasses.replace(config, evaluation=Evaluation(sequences=20, batch=3))
    a = train(few, tokens=tokens[1]).validations[-1].loss
    b = train(other, tokens=tokens[1]).validations[-1].loss
    assert a == pytest.approx(b, rel=1e-6)


SHARDED = """
import sys, json, dataclasses, pathlib
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
from llm import *
folder, shards = sys.argv[1:]
data = DataConfig(corpus=Files((folder,)), context=16, validation=0.2)
tokens = build(data, cache=pathlib.Path(shards))
model = ModelConfig(width=32, head_size=8, prelude=1, layers=2, coda=1, num_recur=2)
config = RunConfig(model=model, data=data, optimiser=MuonH(matrix=0.04), num_tokens=6.0 * 8 * 16, batch=8)
found = {}
for name, layout in {"one": Layout(1), "data": Layout(4), "divided": Layout(4, divided=True)}.items():
    saved = []
    result = train(config, tokens=tokens, layout=layout, on_progress=lambda p: saved.append(p.snapshot()))
    again = train(config, tokens=tokens, layout=layout, resume=saved[0])
    found[name] = {
        "losses": result.losses.tolist(),
        "validation": result.validations[-1].loss,
        "alone": evaluate(result.model, tokens).loss,
        "again": again.losses.tolist(),
        "pieces": sorted({leaf.addressable_shards[0].data.size / leaf.size
                          for leaf in jax.tree.leaves(result.model)}),
    }
print(json.dumps(found))
"""


@pytest.mark.slow
def test_sharded_equals_single(tokens):
    """Four devices that share batches, or parameters too, give the losses of one; snapshots fit."""
    folder = tokens[0].corpus.paths[0]
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, folder, str(tokens[1].folder.parent)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name in ("data", "divided"):
        np.testing.assert_allclose(found[name]["losses"], found["one"]["losses"], rtol=1e-4)
        assert found[name]["validation"] == pytest.approx(found["one"]["validation"], rel=1e-4)
        assert found[name]["again"] == found[name]["losses"]
        assert found[name]["alone"] == found[name]["validation"]
    assert found["data"]["pieces"] == [1.0]
    assert found["divided"]["pieces"][0] == 0.25


HOSTS = """
import sys, json, pathlib
import jax
number, port, folder, shards = int(sys.argv[1]), *sys.argv[2:]
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=number)
from llm import *
data = DataConfig(corpus=Files((folder,)), context=16, validation=0.2)
tokens = build(data, cache=pathlib.Path(shards))
model = ModelConfig(width=32, head_size=8, prelude=1, layers=2, coda=1, num_recur=2)
config = RunConfig(model=model, data=data, optimiser=MuonH(matrix=0.04), num_tokens=6.0 * 8 * 16, batch=8)
found = {}
for divided in (False, True):
    saved = []
    layout = Layout(2, divided)
    result = train(config, tokens=tokens, layout=layout, on_progress=lambda p: saved.append(p.snapshot()))
    again = train(config, tokens=tokens, layout=layout, resume=saved[0])
    found[str(divided)] = [result.losses.tolist(), again.losses.tolist(), result.validations[-1].loss]
single = train(config, tokens=tokens, layout=Layout(1)) if number == 0 else None
print(json.dumps({**found, "one": single and [single.losses.tolist(), single.validations[-1].loss]}))
"""


@pytest.mark.slow
def test_two_hosts(tokens):
    """Two processes of one `jax.distributed` run train one model, with the losses of a single process."""
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    arguments = [str(port), tokens[0].corpus.paths[0], str(tokens[1].folder.parent)]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HOSTS, str(number), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    ended = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in ended)
    losses, validation = first["one"]
    for found in (first, second):
        for divided in ("False", "True"):
            trained, again, held_out = found[divided]
            np.testing.assert_allclose(trained, losses, rtol=1e-4)
            assert trained == again
            assert held_out == pytest.approx(validation, rel=1e-4)


def test_uneven_devices(config, tokens):
    """A batch that the devices cannot share evenly is refused, in the user's terms."""
    with pytest.raises(ValueError, match="batch . accumulation is 8: .* multiple of the 3 devices"):
        train(config, tokens=tokens[1], layout=Layout(3))


def test_injection_default():
    """r = 1 has no injection, more recurrences the linear one."""
    assert ModelConfig().injected.kind == "passthrough"
    assert ModelConfig(num_recur=4).injected == Linear()


def test_layout_divides_what_does_not_fit(config, monkeypatch):
    """Parameters are copied to every device, unless a device says that it cannot hold them."""
    assert Layout.choose(config) == Layout(1)

    class Device:
        def __init__(self, limit):
            self.limit = limit

        def memory_stats(self):
            return {"bytes_limit": self.limit}

    for limit, divided in ((10**9, False), (10**4, True)):
        monkeypatch.setattr("jax.devices", lambda limit=limit: [Device(limit)] * 6)
        monkeypatch.setattr("jax.local_devices", lambda limit=limit: [Device(limit)] * 6)
        with pytest.warns(UserWarning, match="is 8: .* multiple of the 6 devices .* 2 of them will"):
            assert Layout.choose(config) == Layout(2, divided)
    monkeypatch.setattr("jax.process_count", lambda: 2)
    with pytest.raises(ValueError, match="batch / accumulation is 8: it must be a multiple of the 6"):
        Layout.choose(config)
