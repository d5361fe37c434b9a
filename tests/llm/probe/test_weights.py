"""Laws of the check of a pretrained model's files, and of what is said where a library is missing."""

import json
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.probe import open_pretrained
from llm.probe._families import FAMILIES, family_named
from llm.probe._weights import check_weights


def safetensors(tensors):
    """Bytes of a file of float32 tensors, as its format says."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        begin, end = end, end + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [begin, end]}
    told = json.dumps(header).encode()
    return len(told).to_bytes(8, "little") + told + b"".join(map(as_bytes, tensors.values()))


def as_bytes(values):
    return np.asarray(values, "<f4").tobytes()


WHOLE = safetensors({"a": [1.0, 2.0], "b": [3.0]})


@given(size=st.integers(0, len(WHOLE) - 1))
def test_every_file_that_is_cut_off_is_refused(size, tmp_path_factory):
    """Wherever a download stopped, by the file's name and its size."""
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "model.safetensors"
    path.write_bytes(WHOLE)
    assert check_weights(folder) is True
    path.write_bytes(WHOLE[:size])
    with pytest.raises(ValueError, match=rf"model\.safetensors has {size} bytes, .*download it again"):
        check_weights(folder)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (WHOLE + b"x", "its header says .*: not what its header describes; download it again"),
        (b"\x05" + bytes(7) + b"[1,2]", "is no safetensors file: its header cannot be read"),
        (b"\x02" + bytes(7) + b"{]", "is no safetensors file"),
        (b"<html>not found</html>", "cut off in its header"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "is a pointer of Git LFS, not the weights: run",
        ),
    ],
)
def test_files_that_are_something_else(data, told, tmp_path):
    """A file that is longer, of another kind, or a pointer in its place is refused by name."""
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=f"model.safetensors .*{told}"):
        check_weights(tmp_path)


def index(folder, places, name="model.safetensors"):
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": places}))


def test_every_shard_is_looked_at(tmp_path):
    """One that is missing, one that is cut off, and an index that names nothing are refused by name."""
    index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})
    with pytest.raises(ValueError, match=r"index.json names 2 .* 2 are missing: one.*, two.*; download"):
        check_weights(tmp_path)
    (tmp_path / "one.safetensors").write_bytes(WHOLE)
    with pytest.raises(ValueError, match=r"of which 1 are missing: two\.safetensors; download the missing"):
        check_weights(tmp_path)
    (tmp_path / "two.safetensors").write_bytes(WHOLE[:-1])
    with pytest.raises(ValueError, match=r"two\.safetensors has .* half-downloaded"):
        check_weights(tmp_path)
    (tmp_path / "two.safetensors").write_bytes(WHOLE)
    assert check_weights(tmp_path) is True
    index(tmp_path, {})
    with pytest.raises(ValueError, match=r"index\.json: weight_map names no file for each weight"):
        check_weights(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ValueError, match=r"index\.json holds no JSON object"):
        check_weights(tmp_path)


def test_files_of_torch(tmp_path):
    """They are second choice; an archive without its end is refused, as is a missing shard."""
    index(tmp_path, {"a": "pytorch_model-1.bin"}, "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"1 are missing: pytorch_model-1\.bin"):
        check_weights(tmp_path)
    path = tmp_path / "pytorch_model-1.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", b"x" * 1000)
    assert check_weights(tmp_path) is False
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"pytorch_model-1\.bin has \d+ bytes, and the directory at its end"):
        check_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(WHOLE)
    assert check_weights(tmp_path) is True


def test_no_weights(tmp_path):
    """The message says what it looked for, and what is there instead."""
    with pytest.raises(ValueError, match=r"has no weights: it needs model\.safetensors, .* it is empty"):
        check_weights(tmp_path)
    (tmp_path / "tf_model.h5").touch()
    with pytest.raises(ValueError, match=r"pytorch_model\.bin; it holds tf_model\.h5"):
        check_weights(tmp_path)


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_library_is_one_sentence(missing, monkeypatch):
    """It names the library, the command that installs it, and how torch comes without CUDA."""
    if missing == "transformers":
        pytest.importorskip("torch", reason="torch is asked for first, and is not installed")
    monkeypatch.setitem(sys.modules, missing, None)
    told = rf"{missing} is not installed: pip install 'depthlaw\[hf\]' \(.*in a build for CPUs\)"
    with pytest.raises(ValueError, match=told):
        open_pretrained("anything")


def test_an_unknown_family_is_told_what_is_known():
    """The four families by `model_type`, and the models that go by it."""
    assert sorted(FAMILIES) == ["gpt_neox", "llama", "opt", "qwen2"]
    told = r"here: model_type is 'gpt2', .* known: gpt_neox \(Pythia, GPT-NeoX\), llama .*opt .*qwen2 \(Q"
    with pytest.raises(ValueError, match=told):
        family_named("gpt2", "here")
    assert family_named("opt", "here") is FAMILIES["opt"]


def test_variants_of_opt_without_a_residual_stream():
    """Post-norm ones, ones that project their embedding, and ones without a final norm."""
    usual = {
        "do_layer_norm_before": True,
        "word_embed_proj_dim": 8,
        "hidden_size": 8,
        "_remove_final_layer_norm": False,
    }
    refusal = FAMILIES["opt"].refusal
    assert refusal(SimpleNamespace(**usual)) is None
    assert "norms stand after" in refusal(SimpleNamespace(**usual | {"do_layer_norm_before": False}))
    assert "another width" in refusal(SimpleNamespace(**usual | {"word_embed_proj_dim": 4}))
    assert "no norm stands" in refusal(SimpleNamespace(**usual | {"_remove_final_layer_norm": True}))
