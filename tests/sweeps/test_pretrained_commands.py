"""The commands that read language models take pretrained ones: tiny Llamas with random weights, made here."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

REASON = "needs pip install torch (a CPU build will do), and then 'depthlaw[hf]'"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

torch.set_num_threads(1)  # such small products are slower on more

DEPTHS = (3, 6, 12)


@pytest.fixture(scope="module")
def llamas(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of three depths, with bytes as tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: id for id, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    transformers.utils.logging.disable_progress_bar()
    folders = []
    for depth in DEPTHS:
        config = transformers.LlamaConfig(
            vocab_size=256,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=depth,
            num_attention_heads=4,
            max_position_embeddings=64,
            bos_token_id=None,
            eos_token_id=None,
        )
        with torch.random.fork_rng():
            torch.manual_seed(depth)
            model = transformers.LlamaForCausalLM(config)
        folder = tmp_path_factory.mktemp("llama") / f"llama-{depth}"
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
        folders.append(folder)
    transformers.utils.logging.enable_progress_bar()
    return folders


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A few short texts."""
    path = tmp_path / "texts.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"{i}: x = {i * i}; y = x + {i}\n" * 3}) + "\n" for i in range(9))
    )
    return path


def test_probe_of_several_models(call: Callable, llamas: list[Path], text: Path, tmp_path: Path):
    """Models of three depths are one question, with a scaling of their steps; documents are cut to the
    length, each with its own rows; the same call reads what is kept, and another text is another probe."""
    out = tmp_path / "out"
    arguments = ("probe", *llamas, "--text", text, "--length", 32, "--lens-every", 2, "--out", out)
    done = call(*arguments)
    assert done.status == 0, done.err
    networks = pl.read_csv(out / "networks.csv")
    assert networks["depth"].to_list() == list(DEPTHS)
    assert networks["tokens"].n_unique() == 1 and networks["first_tokens"][0] == networks["sequences"][0]
    told = json.loads((out / "probe.json").read_text())
    [verdict] = told["verdicts"]
    assert verdict["depths"] == list(DEPTHS)
    by_name = {witness["name"]: witness for witness in verdict["witnesses"]}
    assert by_name["step scaling"]["value"] is not None and by_name["exponent"]["value"] is None
    kept = {path: path.stat().st_mtime_ns for path in (out / "networks").iterdir()}
    assert call(*arguments).status == 0
    assert kept == {path: path.stat().st_mtime_ns for path in (out / "networks").iterdir()}
    text.write_text(text.read_text() + json.dumps({"text": "another"}) + "\n")
    assert call(*arguments).status == 0
    assert len(list((out / "networks").iterdir())) == 6


def test_loss_along_depth_ends_in_the_model_s_own(
    call: Callable, llamas: list[Path], text: Path, tmp_path: Path
):
    """Through the head at the last state, and through the last layer at the one before: the same loss, about
    that of a model that knows nothing of its 256 bytes."""
    out = tmp_path / "out"
    assert (
        call("probe", llamas[0], "--text", text, "--length", 32, "--lens-every", 1, "--out", out).status == 0
    )
    states = pl.read_csv(out / "states.csv")
    assert states["state"].to_list() == ["embedding", "layer.0", "layer.1", "layer.2"]
    assert states["head_loss"][-1] == pytest.approx(states["layer_loss"][-2], abs=1e-5)
    assert states["head_loss"][-1] == pytest.approx(5.545, abs=0.1)
    assert states["settled"][-1] == 1.0


def test_what_pretrained_models_do_not_have_is_refused(call: Callable, llamas: list[Path]):
    """Recurrences, and runs to choose from."""
    for option, told in (
        ("--num-recur=2", "it has no recurrences to choose"),
        ("--only=seed=1", "is no folder of"),
    ):
        done = call("probe", llamas[0], option)
        assert done.status == 2 and told in done.err


def test_what_is_nowhere_is_said(call: Callable):
    """A path with nothing behind it: one sentence, and no look on the hub."""
    done = call("probe", "./nowhere/at-all")
    assert done.status == 2 and "./nowhere/at-all is no folder of a pretrained model" in done.err


def test_trace_of_a_pretrained_model(call: Callable, llamas: list[Path], tmp_path: Path):
    """Rows for every state and token; the last state at the last token gives back the clean probability."""
    arguments = ("--sentence", "the key is k", "--subject", "key", "--draws", 4, "--noise", 20)
    done = call("trace", llamas[0], *arguments, "--csv", tmp_path / "rows.csv", "--json", tmp_path / "t.json")
    assert done.status in (0, 1), done.err  # an untrained model need not need its subject
    rows = pl.read_csv(tmp_path / "rows.csv")
    assert len(rows) == 4 * 12
    told = json.loads((tmp_path / "t.json").read_text())
    assert told["clean"] == pytest.approx(float(rows["probability"][-1]), abs=1e-6)
