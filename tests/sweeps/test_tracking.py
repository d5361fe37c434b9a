"""TensorBoard's files hold the losses of the curves, step by step."""

import sys

import numpy as np
import pytest

from sweeps._store import Store


def test_losses_of_a_run(spawn, tiny_file, tmp_path):
    """Each job's event files have every loss of its curves at the steps where it was taken."""
    pytest.importorskip("tensorboardX", reason="needs the extra [track]")
    from tensorboardX import proto

    out = tmp_path / "out"
    done = spawn("run", tiny_file, "--out", out, "--workers", "1", "--track", "tensorboard")
    assert done.status == 0, done.err
    store = Store(out)
    for record in store.records():
        curves = store.curves(record["job"])
        found: dict[str, dict[int, float]] = {}
        for path in (out / "tensorboard" / record["job"]).iterdir():
            for event in events(path.read_bytes(), proto.event_pb2.Event):
                for value in event.summary.value:
                    if value.tag.startswith("loss"):
                        found.setdefault(value.tag, {})[event.step] = value.simple_value
        assert found.keys() == {name for name in curves if name.startswith("loss")}
        for name, values in found.items():
            assert sorted(values) == curves["steps"].tolist()
            np.testing.assert_array_equal([values[step] for step in sorted(values)], curves[name])


def events(data, kind):
    """The records of an event file: length (8 bytes), check (4), message, check (4)."""
    while data:
        length = int.from_bytes(data[:8], "little")
        yield kind.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def test_without_the_library(call, tiny_file, tmp_path, monkeypatch):
    """A sentence says how to install it, before anything is trained."""
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    done = call("run", tiny_file, "--out", tmp_path / "out", "--track", "tensorboard")
    assert done.status == 2 and not (tmp_path / "out").exists()
    assert done.err == "depthlaw: tensorboardX is not installed: pip install 'depthlaw[track]'\n"
