"""Laws of pretrained models as probes see them, on tiny models with random weights made here.

Every weight is random, norms and biases too, so that a norm that is left out or applied twice is seen.
"""

import json
import logging
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

REASON = "needs pip install torch (a CPU build will do), and then 'depthlaw[hf]'"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from llm.probe import _pretrained_trace, open_pretrained, sequences_at_once  # noqa: E402
from llm.probe._families import FAMILIES  # noqa: E402

torch.set_num_threads(1)  # such small products are slower on more

BYTES = 256
SPECIAL = ("<s>", "</s>")
SIZES = {
    "vocab_size": BYTES + len(SPECIAL) + 3,  # some rows that no token has
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 24,
    "bos_token_id": BYTES,
    "eos_token_id": BYTES + 1,
    "pad_token_id": None,
}
GATED = {"intermediate_size": 48, "num_key_value_heads": 2}
ROTARY = {"rope_type": "default", "rope_theta": 10000.0}

CONFIGS = {
    "gpt_neox": {"intermediate_size": 64, "rope_parameters": ROTARY | {"partial_rotary_factor": 0.25}},
    "gpt_neox-sequential": {"intermediate_size": 64, "use_parallel_residual": False},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "pad_token_id": 1},
    "qwen2": GATED | {"tie_word_embeddings": True},
    # Blocks 0 and 1 see all before them, block 2 the last 3 tokens: it is not called as the others are.
    "qwen2-sliding": GATED | {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2},
    "llama": GATED | {"rms_norm_eps": 1e-5},
}
MODELS = tuple(CONFIGS)


def build(name, **changes):
    """A model with random weights."""
    sizes = SIZES | CONFIGS.get(name, {}) | changes
    config = transformers.AutoConfig.for_model(name.partition("-")[0], **sizes)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(7)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        for weight in model.parameters():
            weight += 0.15 * torch.randn(weight.shape)
    return model


def save_tokenizer(folder, first=None):
    """Bytes as tokens, as `transformers` keeps a tokenizer; first: what it puts before a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    if first is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, tokenizer.token_to_id(first))]
        )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1]
    )
    fast.save_pretrained(folder)


def save(model, folder, **options):
    bars = transformers.utils.logging
    bars.disable_progress_bar()
    try:
        model.save_pretrained(folder, **options)
    finally:
        bars.enable_progress_bar()
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of each model, saved once."""
    folders = {}

    def of(name):
        if name not in folders:
            folders[name] = save(build(name), tmp_path_factory.mktemp(name) / "model")
            save_tokenizer(folders[name])
        return folders[name]

    return of


@pytest.fixture(scope="module")
def opened(saved):
    """Each model as a probe sees it, opened once."""
    models = {}

    def of(name):
        if name not in models:
            models[name] = open_pretrained(str(saved(name)), device="cpu")
        return models[name]

    return of


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a model's folder that a test may break."""

    def of(name="llama"):
        return shutil.copytree(saved(name), tmp_path / "copy")

    return of


def tokens_of(seed, batch=2, length=11):
    return np.random.default_rng(seed).integers(0, SIZES["vocab_size"], (batch, length))


def full(tokens):
    return np.full(len(tokens), tokens.shape[1])


@pytest.mark.parametrize("name", MODELS)
def test_states_are_the_models_own(name, opened):
    """All but the last are what the model itself calls its hidden states; the last is before its final norm,
    so that the final norm of it is what the model calls the last."""
    model, tokens = opened(name), tokens_of(0)
    inner = model._stream.model
    with torch.inference_mode():
        theirs = inner(input_ids=torch.tensor(tokens), output_hidden_states=True).hidden_states
        ours = model.trajectory(tokens, full(tokens))
        normed = model._stream.parts.norm(torch.tensor(np.array(ours[-1])))
    assert isinstance(ours, jnp.ndarray) and ours.dtype == jnp.float32
    ours = np.asarray(ours)
    assert ours.shape == (4, 2, 11, 32) and len(theirs) == len(model.states) == 4
    for state, expected in zip(ours[:-1], theirs[:-1], strict=True):
        np.testing.assert_allclose(state, expected.numpy(), atol=1e-6)
    np.testing.assert_allclose(normed.numpy(), theirs[-1].numpy(), atol=1e-5)
    assert np.abs(np.asarray(ours[-1]) - theirs[-1].numpy()).max() > 0.1
    assert [(state.name, state.is_layer) for state in model.states] == [
        ("embedding", False),
        ("layer.0", True),
        ("layer.1", True),
        ("layer.2", True),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_lenses_of_the_models_own_states_are_its_logits(name, opened):
    """The last state read out, and the one before it through the last layer, give the model's logits."""
    model, tokens = opened(name), tokens_of(1)
    with torch.inference_mode():
        theirs = model._stream.model(input_ids=torch.tensor(tokens)).logits.numpy()
    states = np.asarray(model.trajectory(tokens, full(tokens)))
    for ours in (
        model.logits(tokens, full(tokens)),
        model.read_out(states[-1]),
        model.through_last_layer(states[-2], full(tokens)),
    ):
        assert isinstance(ours, jnp.ndarray) and ours.dtype == jnp.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert np.abs(np.asarray(model.read_out(states[-2])) - theirs).max() > 0.1


@pytest.mark.parametrize("name", MODELS)
def test_a_state_is_read_with_its_own_norm(name, opened):
    """Norms divide by the size of the state that they read: a state 10 times as large reads out the same."""
    model = opened(name)
    h = 3 * np.random.default_rng(2).normal(size=(2, 5, 32)).astype(np.float32)
    np.testing.assert_allclose(model.read_out(10 * h), model.read_out(h), atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_padding_changes_nothing(name, opened, lengths, seed):
    """A text's states and logits are the same alone and in a batch, whatever stands behind it."""
    model = opened(name)
    tokens, sizes = tokens_of(seed, len(lengths), max(lengths) + 2), np.array(lengths)
    states, logits, last = views_of(model, tokens, sizes)
    for row, size in enumerate(lengths):
        own = views_of(model, tokens[row : row + 1, :size], np.array([size]))
        for alone, together in zip(own, (states[:, row], logits[row], last[row]), strict=True):
            np.testing.assert_allclose(
                alone.squeeze(-3), together[..., :size, :], atol=1e-5, rtol=1e-5, strict=True
            )


def views_of(model, tokens, lengths):
    """States, logits, and logits of state 1 through the last layer. NumPy's, which compile nothing."""
    states = np.asarray(model.trajectory(tokens, lengths))
    last = model.through_last_layer(states[1], lengths)
    return states, np.asarray(model.logits(tokens, lengths)), np.asarray(last)


@pytest.mark.parametrize("name", MODELS)
def test_the_embedding_is_what_enters_block_0(name, opened):
    """It is a token's row of the embedding; in OPT with that of its position, which begin at 2."""
    model, tokens = opened(name), tokens_of(3)
    expected = model._stream.weight.detach()[torch.tensor(tokens)].numpy()
    if name == "opt":
        places = model._stream.model.base_model.decoder.embed_positions.weight.detach().numpy()
        expected = expected + places[2 : 2 + tokens.shape[1]]
    np.testing.assert_allclose(model.trajectory(tokens, full(tokens))[0], expected, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_facts_of_a_model(name, opened):
    """Width, vocabulary, positions and the spread of the embedding are those of its config and weights."""
    model = opened(name)
    weight = model._stream.weight.detach().numpy()
    assert (model.width, model.vocabulary, model.longest) == (32, SIZES["vocab_size"], 24)
    assert model.embedding_deviation == pytest.approx(weight.std(), rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16(name, saved, opened):
    """States inside are bfloat16, and come out as float32, near those of float32; lenses hold in it too."""
    rough, fine, tokens = open_pretrained(str(saved(name)), precision="bfloat16"), opened(name), tokens_of(4)
    found, expected = (model.trajectory(tokens, full(tokens)) for model in (rough, fine))
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, found.astype(jnp.bfloat16).astype(jnp.float32))
    away = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert 1e-5 < away.max() and np.median(away) < 0.02
    logits = rough.logits(tokens, full(tokens))
    assert logits.dtype == jnp.float32
    np.testing.assert_array_equal(rough.read_out(found[-1]), logits)


def noise_of(draws, length, where, seed=5):
    noise = np.zeros((draws, length, 32), np.float32)
    noise[:, where] = np.random.default_rng(seed).normal(size=(draws, len(where), 32))
    return noise


def traced_in_full(model, tokens, noise, state, position):
    """The reference: a run of the whole model, in which a hook puts one position back."""
    inner, parts = model._stream.model, model._stream.parts
    states = torch.tensor(np.array(model.trajectory(tokens[None], full(tokens[None]))))[:, 0]

    def put_back(h):
        h = h.clone()
        h[0, position] = states[state, position]
        return h

    hooks = [parts.embedding.register_forward_hook(lambda m, a, out: out + torch.tensor(noise))]
    if state == 0:
        hooks.append(parts.blocks[0].register_forward_pre_hook(lambda m, a: (put_back(a[0]), *a[1:])))
    else:
        hooks.append(parts.blocks[state - 1].register_forward_hook(lambda m, a, out: put_back(out)))
    try:
        with torch.inference_mode():
            return inner(input_ids=torch.tensor(tokens[None])).logits[0, -1].softmax(-1).numpy()
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("rows", [64, 5])
@pytest.mark.parametrize("name", MODELS)
def test_a_trace_is_a_full_run_with_one_state_put_back(name, rows, opened, monkeypatch):
    """Every (state, position, draw) equals a run of the whole model with a hook, however rows are cut."""
    monkeypatch.setattr(_pretrained_trace, "ROWS", rows)
    model, tokens = opened(name), tokens_of(6, 1, 7)[0]
    noise, positions = noise_of(2, 7, [1, 2]), np.array([0, 2, 3, 6])
    trace = model.trace(tokens)
    for state in range(len(model.states)):
        found = trace.restored(noise, state, positions)
        assert found.shape == (2, 4, SIZES["vocab_size"])
        for draw in range(2):
            for at, position in enumerate(positions):
                expected = traced_in_full(model, tokens, noise[draw], state, position)
                np.testing.assert_allclose(found[draw, at], expected, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_ends_of_a_trace(name, opened):
    """Clean is the model's softmax. Restoring the last state at the last position is clean; an embedding
    that no noise has touched is corrupted, and so is nothing; with all of the noise's positions it would be
    clean, and without noise everything is."""
    model, tokens = opened(name), tokens_of(7, 1, 6)[0]
    trace, noise = model.trace(tokens), noise_of(3, 6, [2])
    clean, corrupted = trace.clean(), trace.corrupted(noise)
    logits = torch.tensor(np.array(model.logits(tokens[None], np.array([6]))))[0, -1]
    np.testing.assert_allclose(clean, logits.softmax(-1).numpy(), atol=1e-6)
    assert corrupted.shape == (3, SIZES["vocab_size"]) and np.abs(corrupted - clean).max() > 1e-3
    last = trace.restored(noise, len(model.states) - 1, np.array([5, 4]))
    np.testing.assert_allclose(last[:, 0], [clean] * 3, atol=1e-7, rtol=1e-6)
    np.testing.assert_allclose(last[:, 1], corrupted, atol=1e-6)
    first = trace.restored(noise, 0, np.array([2, 3]))
    np.testing.assert_allclose(first[:, 0], [clean] * 3, atol=1e-6)
    np.testing.assert_allclose(first[:, 1], corrupted, atol=1e-6)
    assert trace.restored(noise, 1, np.zeros(0, np.int64)).shape == (3, 0, SIZES["vocab_size"])
    np.testing.assert_allclose(trace.corrupted(0 * noise), [clean] * 3, atol=1e-6)


def test_a_trace_refuses_states_and_positions_that_are_not_there(opened):
    """The message names the number and the range."""
    trace = opened("llama").trace(tokens_of(8, 1, 6)[0])
    with pytest.raises(ValueError, match="state is 4: it must be from 0 to 3"):
        trace.restored(noise_of(1, 6, [0]), 4, np.array([0]))
    with pytest.raises(ValueError, match=r"position is \[6\]: it must be from 0 to 5"):
        trace.restored(noise_of(1, 6, [0]), 1, np.array([6]))


def test_text(opened):
    """Text becomes ids and text again; a special token that a text spells out stays text."""
    model = opened("llama")
    text = "The space needle, </s> and the Größe."
    ids = model.encode(text)
    assert len(ids) == len(text.encode()) and max(ids) < BYTES
    assert model.decode(ids) == text
    assert model.decode([BYTES, *ids, BYTES + 1]) == text
    assert model.encode("") == []


@pytest.mark.parametrize("first", [None, SPECIAL[0]])
def test_what_stands_before_a_text_is_what_the_tokenizer_puts_there(first, folder):
    """None where it puts nothing, whatever the config calls its first token."""
    place = folder()
    save_tokenizer(place, first)
    model = open_pretrained(str(place))
    assert model.first == (None if first is None else BYTES)
    assert len(model.encode("ab")) == 2


@pytest.mark.parametrize(
    ("name", "first"), [("gpt_neox", None), ("opt", BYTES), ("qwen2", None), ("llama", BYTES)]
)
def test_without_a_tokenizer(name, first, folder):
    """A model opens, and gives states, with the first token that is usual in its family; text is refused."""
    place = folder(name)
    for path in place.glob("tokenizer*"):
        path.unlink()
    model = open_pretrained(str(place))
    assert model.first == first
    assert model.logits(tokens_of(9), full(tokens_of(9))).shape[:2] == (2, 11)
    with pytest.raises(ValueError, match="copy has no tokenizer: put the model's tokenizer.json there"):
        model.encode("a")
    with pytest.raises(ValueError, match="has no tokenizer"):
        model.decode([1])


def test_a_broken_tokenizer_is_named_when_it_is_asked_for(folder):
    """States need none."""
    place = folder()
    (place / "tokenizer.json").write_text("{}")
    model = open_pretrained(str(place))
    with pytest.raises(ValueError, match=r"the tokenizer of .*copy cannot be read \(.*\): download it again"):
        model.encode("a")


@pytest.mark.parametrize("name", MODELS)
def test_sharded_weights(name, saved, opened, tmp_path):
    """Weights in many files are the same model."""
    place = save(build(name), tmp_path / "shards", max_shard_size="20kB")
    assert len(list(place.glob("*.safetensors"))) > 3
    found = open_pretrained(str(place)).logits(tokens_of(10), full(tokens_of(10)))
    np.testing.assert_array_equal(found, opened(name).logits(tokens_of(10), full(tokens_of(10))))


@pytest.mark.parametrize("name", ["opt", "qwen2"])
def test_weights_of_torch(name, opened, folder):
    """A folder that has only pytorch_model.bin is read as well; a half of the file is refused by name."""
    place = folder(name)
    (place / "model.safetensors").unlink()
    path = place / "pytorch_model.bin"
    torch.save(build(name).state_dict(), path)
    found = open_pretrained(str(place)).logits(tokens_of(11), full(tokens_of(11)))
    np.testing.assert_array_equal(found, opened(name).logits(tokens_of(11), full(tokens_of(11))))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"pytorch_model.bin has \d+ bytes, .* download it again"):
        open_pretrained(str(place))


def test_a_shard_that_is_missing_or_cut_off_is_named(tmp_path):
    """Before anything is loaded, with sizes and what to do."""
    place = save(build("llama"), tmp_path / "shards", max_shard_size="20kB")
    shard = sorted(place.glob("*.safetensors"))[2]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    told = rf"{shard.name} has {len(whole) - 100} bytes, its header says {len(whole)}: half-downloaded"
    with pytest.raises(ValueError, match=told):
        open_pretrained(str(place))
    shard.unlink()
    with pytest.raises(ValueError, match=rf"of which 1 are missing: {shard.name}; download"):
        open_pretrained(str(place))


def test_weights_that_the_files_lack_are_named(folder):
    """They would be random. A tied head is not among them: it is the embedding."""
    from safetensors.torch import load_file, save_file

    place = folder("qwen2")
    path = place / "model.safetensors"
    weights = load_file(path)
    assert "lm_head.weight" not in weights
    del weights["model.layers.1.mlp.up_proj.weight"], weights["model.norm.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    told = r"copy lack 2 of the model's: model.layers.1.mlp.up_proj.weight, model.norm.weight; they would"
    with pytest.raises(ValueError, match=told):
        open_pretrained(str(place))


def test_weights_of_other_shapes_are_refused(folder):
    """The message names the folder, and what transformers says of them."""
    place = folder()
    rewrite(place / "config.json", intermediate_size=40)
    with pytest.raises(ValueError, match="the weights of .*copy cannot be loaded: .*"):
        open_pretrained(str(place))


def rewrite(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("llama", {"model_type": "gpt2"}, r"model_type is 'gpt2', which no probe knows; known: gpt_neox \(P"),
        ("llama", {"model_type": None}, "model_type is None"),
        ("llama", {"hidden_size": "wide"}, "config.json is refused by transformers: .*hidden_size"),
        ("llama", {"quantization_config": {"bits": 4}}, "config.json: quantization_config is set"),
        ("opt", {"do_layer_norm_before": False}, "config.json: do_layer_norm_before is false .* no residual"),
        ("opt", {"word_embed_proj_dim": 16}, "word_embed_proj_dim is 16, hidden_size 32: "),
        ("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm is true"),
    ],
)
def test_configs_that_are_refused(name, changes, told, folder):
    """By the field and what is known, before weights are read."""
    place = folder(name)
    rewrite(place / "config.json", **changes)
    (place / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=told):
        open_pretrained(str(place))


@pytest.mark.parametrize("changes", [{"do_layer_norm_before": False}, {"word_embed_proj_dim": 16}])
def test_refused_variants_are_models(changes):
    """What is refused of OPT is nothing that transformers would refuse itself."""
    config = build("opt", **changes).config
    assert FAMILIES["opt"].refusal(config) is not None


def test_a_config_that_is_missing_or_broken(folder):
    """The message names the file."""
    place = folder()
    (place / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is no JSON \(.*\): download it again"):
        open_pretrained(str(place))
    (place / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json is missing: name a folder"):
        open_pretrained(str(place))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub's cache, with one model in it, and no connection."""
    constants = pytest.importorskip("huggingface_hub").constants
    cache = tmp_path / "cache" / "models--somebody--tiny"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("a" * 40)
    save(build("llama"), cache / "snapshots" / ("a" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return cache / "snapshots" / ("a" * 40)


def test_a_name_on_the_hub_without_a_connection(hub, opened):
    """What the cache keeps is opened, and checked like any folder; what it does not keep is a sentence."""
    found = open_pretrained("somebody/tiny")
    assert found.name == "somebody/tiny"
    np.testing.assert_array_equal(
        found.logits(tokens_of(12), full(tokens_of(12))),
        opened("llama").logits(tokens_of(12), full(tokens_of(12))),
    )
    with pytest.raises(ValueError, match="somebody/other is no folder here, and the hub cannot be reached"):
        open_pretrained("somebody/other")
    weights = hub / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match="model.safetensors has .* half-downloaded"):
        open_pretrained("somebody/tiny")


@pytest.mark.parametrize("source", ["nowhere/at/all", "./nowhere", "../a", "~/nowhere-at-all", "a b", ""])
def test_what_is_neither_a_folder_nor_a_name(source, tmp_path, monkeypatch):
    """No connection is tried for it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"is no folder of a pretrained model|config.json is missing"):
        open_pretrained(source)


def test_calls_that_are_refused(saved, opened):
    """By the argument, its value and the rule."""
    with pytest.raises(ValueError, match="precision is float16: it must be one of float32, bfloat16"):
        open_pretrained(str(saved("llama")), precision="float16")
    with pytest.raises(ValueError, match="device is 'abacus', which torch does not find"):
        open_pretrained(str(saved("llama")), device="abacus")
    model = opened("opt")
    with pytest.raises(ValueError, match="tokens: a row has 25, .* reads 1 to 24"):
        model.trajectory(tokens_of(0, 1, 25), np.array([25]))
    with pytest.raises(ValueError, match="tokens: 999 is no token: they must be from 0 to 260"):
        model.logits(np.array([[1, 999]]), np.array([2]))
    with pytest.raises(ValueError, match="tokens: -1 is no token"):
        model.trace(np.array([1, -1]))


def test_the_command_line_tells_a_wrong_call_from_failed_work(saved, folder):
    """What is wrong with a source is an error of the call, in the same sentence."""
    from sweeps._config import ConfigError
    from sweeps._language_models import open_language_models

    (found,) = open_language_models(str(saved("llama")))
    assert found.model.width == 32 and found.row is None
    place = folder("opt")
    (place / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="copy has no weights: it needs model.safetensors"):
        next(open_language_models(str(place)))


def test_nothing_is_printed(saved, capfd, caplog):
    """Neither bars nor warnings of transformers are seen, and its own settings are as before."""
    settings_of = transformers.utils.logging
    before = settings_of.get_verbosity(), settings_of.is_progress_bar_enabled()
    with caplog.at_level(logging.WARNING):
        model = open_pretrained(str(saved("gpt_neox")))
        model.trajectory(tokens_of(0), full(tokens_of(0)))
        model.encode("a" * 100)
    assert capfd.readouterr() == ("", "") and caplog.records == []
    assert (settings_of.get_verbosity(), settings_of.is_progress_bar_enabled()) == before


def test_how_many_fit(opened):
    """At least one, at most what is asked for; fewer of longer sequences."""
    model = opened("llama")
    assert sequences_at_once(model, 24, most=7) == 7
    assert model.free_memory() > 0
    assert 1 <= sequences_at_once(model, 10**6, most=10**9) < sequences_at_once(model, 10**4, most=10**9)
