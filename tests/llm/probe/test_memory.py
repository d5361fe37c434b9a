"""Laws of how many sequences run at once, and of what happens where memory runs out."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm import _free_memory
from llm._free_memory import device_memory, host_memory
from llm.probe import LanguageModel, in_batches, sequences_at_once
from llm.probe._memory import bytes_per_sequence


class Sized(LanguageModel):
    """A model of which only sizes are asked."""

    encode = decode = logits = trajectory = read_out = through_last_layer = trace = None

    def __init__(self, free, states=4, width=64, vocabulary=100):
        self.states, self.width, self.vocabulary = (None,) * states, width, vocabulary
        self.free = free

    def free_memory(self):
        return self.free


@given(
    free=st.integers(0, 10**12),
    length=st.integers(1, 4096),
    most=st.integers(1, 1000),
    share=st.floats(0.01, 1),
)
def test_what_is_chosen_fits(free, length, most, share):
    """From 1 to `most`; unless it is 1, in the share of what is free, and one more would not."""
    model = Sized(free)
    found, each = sequences_at_once(model, length, most=most, share=share), bytes_per_sequence(model, length)
    assert 1 <= found <= most
    assert found == 1 or found * each <= share * free
    assert found == most or (found + 1) * each > share * free


@pytest.mark.parametrize("larger", [{"states": 5}, {"width": 128}, {"vocabulary": 200}])
def test_larger_models_take_more(larger):
    """Of states, width and vocabulary each counts, and length more than in proportion."""
    assert bytes_per_sequence(Sized(1, **larger), 100) > bytes_per_sequence(Sized(1), 100)
    assert bytes_per_sequence(Sized(1), 200) > 2 * bytes_per_sequence(Sized(1), 100)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"length": 0}, "length is 0: it must be at least 1"),
        ({"length": 1, "most": 0}, "most is 0: it must be at least 1"),
        ({"length": 1, "share": 0.0}, "share is 0.0: it must be above 0"),
    ],
)
def test_numbers_that_are_not_positive(given, told):
    """They are refused by name."""
    with pytest.raises(ValueError, match=told):
        sequences_at_once(Sized(1), **given)


ERRORS = (
    MemoryError(),
    RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate"),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
)


@given(
    count=st.integers(0, 40), size=st.integers(1, 20), fits=st.integers(1, 20), error=st.sampled_from(ERRORS)
)
def test_every_row_is_done_once(count, size, fits, error):
    """In order, in parts of at most `size`, whatever number of them fits."""
    tries = []

    def work(begin, end):
        tries.append(end - begin)
        if end - begin > fits:
            raise error
        return list(range(begin, end))

    found = list(in_batches(work, count, size))
    assert list(itertools.chain(*found)) == list(range(count))
    assert max(tries, default=0) <= size
    if size <= fits:
        assert len(tries) == -(-count // size)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_where_not_even_one_fits(error):
    """A sentence says what to do."""

    def work(begin, end):
        raise error

    with pytest.raises(MemoryError, match="one sequence at a time: take shorter ones"):
        list(in_batches(work, 3, 2))


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    """They come through at once."""
    tries = []

    def work(begin, end):
        tries.append(begin)
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(in_batches(work, 8, 8))
    assert tries == [0]


def test_the_memory_of_a_host(tmp_path):
    """What the system says is available, or less where a container may take less."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  64 kB\nMemFree:  10 kB\nMemAvailable:  40 kB\n")
    assert host_memory(meminfo, tmp_path) == 40 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert host_memory(meminfo, tmp_path) == 40 * 1024
    (tmp_path / "memory.max").write_text("3100\n")
    assert host_memory(meminfo, tmp_path) == 3000
    (tmp_path / "memory.current").write_text("3200\n")
    assert host_memory(meminfo, tmp_path) == 0
    assert host_memory(tmp_path / "none", tmp_path / "none") > 0
    assert device_memory() > 0


def test_the_memory_of_a_device(monkeypatch):
    """Its limit without what is in use; of a device that says nothing, the host's."""
    stats = {"bytes_limit": 100, "bytes_in_use": 30}
    device = SimpleNamespace(memory_stats=lambda: stats)
    monkeypatch.setattr(_free_memory.jax, "local_devices", lambda: [device])
    assert device_memory() == 70
    stats.clear()
    assert device_memory() > 1000
