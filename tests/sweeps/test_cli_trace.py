"""Laws of `depthlaw trace`: it says what the trace found, goes on after a stop, and bears odd texts."""

import csv
import io
import json
import shutil
import types

import numpy as np
import polars as pl
import pytest

from llm.probe import causal_trace
from sweeps import _language_models
from sweeps._causal import as_json, caveats, escaped, labels, read_trace, rows
from sweeps._config import ConfigError
from sweeps._files import write_json
from sweeps._language_models import OpenedModel
from sweeps._run import Policy, run_sweep
from sweeps._spec import parse_spec
from sweeps.executors import InProcess
from tests.llm.probe.relay import Relay

SENTENCE, SUBJECT = "a\n\x07b\\c", "\x07b"
ASKED = ("--sentence", SENTENCE, "--subject", SUBJECT, "--answer", "!")


@pytest.fixture
def relay(monkeypatch):
    """The command's model is the relay, whatever it is called."""
    model = Relay([3, 4, 5])

    def open_one(source, **options):
        yield OpenedModel(model)

    monkeypatch.setattr(_language_models, "open_language_models", open_one)
    return model


@pytest.fixture
def found():
    """What the command finds."""
    return causal_trace(Relay([3, 4, 5]), SENTENCE, SUBJECT, answer="!")


class TestOutput:
    """Rows, summary, JSON and figure of one trace."""

    def test_rows(self, call, relay, found):
        """Standard output, redirected, is a row for each state and position; the rest is elsewhere."""
        done = call("trace", "relay", *ASKED)
        assert done.status == 0, done.err
        table = pl.read_csv(done.out.encode())
        assert len(table) == 3 * len(SENTENCE)
        assert table.columns == [
            *("state", "part", "recurrence", "position", "token", "text", "is_subject"),
            *("probability", "spread", "error", "effect", "effect_error"),
        ]
        for name in ("probability", "spread", "error", "effect", "effect_error"):
            np.testing.assert_allclose(table[name], getattr(found, name).ravel(), rtol=1e-12)
        assert "'!' follows with probability 0.5; with noise on '\\x07b' (2 tokens) 0." in done.err
        assert "(standard error over 10 draws)" in done.err and "Where it peaks" in done.err

    def test_odd_texts_stay_on_their_line(self, call, relay):
        """A newline, a control character and a backslash in a token are escaped: rows are lines."""
        done = call("trace", "relay", *ASKED)
        lines = done.out.splitlines()
        assert len(lines) == 1 + 3 * len(SENTENCE)
        texts = [row["text"] for row in csv.DictReader(io.StringIO(done.out))][: len(SENTENCE)]
        assert texts == ["a", "\\n", "\\x07", "b", "\\\\", "c"]

    @pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.json"])
    def test_files(self, call, relay, found, tmp_path, name):
        """--csv writes the rows as the file is named; standard output stays free for --json."""
        done = call("trace", "relay", *ASKED, "--csv", tmp_path / name, "--json", "-")
        assert done.status == 0, done.err
        read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}[name.split(".")[1]]
        assert read(tmp_path / name)["effect"].to_list() == pytest.approx(found.effect.ravel().tolist())
        assert done.json()["restored"] == found.restored.tolist()

    def test_json_is_the_trace(self, call, relay, found, tmp_path):
        """What is saved can be read back, all of it, and says version, model and settings."""
        done = call("trace", "somewhere", *ASKED, "--json", tmp_path / "deep" / "trace.json")
        assert done.status == 0, done.err
        tree = json.loads((tmp_path / "deep" / "trace.json").read_text())
        assert tree["source"] == "somewhere" and tree["model"] == "relay" and tree["version"]
        assert tree["settings"]["noise"] == 3.0 and tree["lowered"] is True
        assert not (tmp_path / "deep" / "trace.json.part").exists()
        again = read_trace(tmp_path / "deep" / "trace.json")
        assert as_json(again, "somewhere") == as_json(found, "somewhere") == tree

    def test_plot(self, call, relay, tmp_path):
        """--plot draws the map, as PNG and PDF."""
        done = call("trace", "relay", *ASKED, "--plot", tmp_path / "map.png")
        assert done.status == 0, done.err
        assert {path.name for path in tmp_path.iterdir()} == {"map.png", "map.pdf"}

    def test_chosen_states(self, call, relay):
        """--state restores those alone."""
        done = call("trace", "relay", *ASKED, "--state", "layer.1")
        assert set(pl.read_csv(done.out.encode())["state"]) == {"layer.1"}


class TestTrust:
    """What is not to be trusted, and what was asked wrongly."""

    def test_noise_that_lowers_nothing(self, call, relay, tmp_path):
        """Everything is written, a sentence says why not to trust it, and the exit status is 1."""
        done = call("trace", "relay", *ASKED, "--noise", "0", "--json", tmp_path / "trace.json")
        assert done.status == 1
        assert "the noise does not lower the answer's probability, so there is nothing to restore" in done.err
        assert "depthlaw: the map is not to be trusted" in done.err
        assert read_trace(tmp_path / "trace.json").lowered is False

    def test_another_answer_than_the_models(self, call, relay):
        """Where the model itself would go on otherwise, that is said, with both probabilities."""
        done = call("trace", "relay", "--sentence", "abcdef", "--subject", "d", "--answer", "x")
        told = "the model itself would go on with '!', of probability 0.5, not with 'x', of 0"
        assert told in done.err and done.status == 1
        assert "goes on with the sentence's last word; of a word of its own write ' x'" in done.err

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--subject", "z"), "subject 'z' is not in 'abcdef'"),
            (("--subject", "a", "--draws", "1"), "draws is 1: it must be at least 2"),
            (("--subject", "a", "--state", "x"), "relay has no state 'x'"),
            (("--subject", "a", "--csv", "rows.txt"), "rows are written as .csv, .parquet or .json"),
            (("--subject", "a", "--csv", "-", "--json", "-"), "only one of --csv and --json"),
            (("--subject", ""), "subject is ''"),
            ((), "Missing option '--subject'"),
        ],
    )
    def test_wrong_calls(self, call, relay, arguments, sentence):
        """What was asked wrongly is refused in a sentence, before anything is traced."""
        done = call("trace", "relay", "--sentence", "abcdef", *arguments)
        assert (done.status, done.out) == (2, "") and sentence in " ".join(done.err.split())
        assert relay.asked == []

    def test_files_that_are_no_trace(self, tmp_path):
        """A file that is none, or not there, is refused by name."""
        with pytest.raises(ConfigError, match="none.json does not exist: write it with `depthlaw trace"):
            read_trace(tmp_path / "none.json")
        for value in ({"kind": "other"}, [], {"kind": "causal trace"}):
            write_json(tmp_path / "x.json", value)
            with pytest.raises(ConfigError, match="x.json is not a causal trace"):
                read_trace(tmp_path / "x.json")


class TestGoingOn:
    """A long trace that is stopped."""

    def stopped(self, call, relay, path, monkeypatch, after=2):
        """The call dies in the model once it has traced `after` states."""
        trace = relay.trace

        def dying(tokens):
            found = trace(tokens)
            restored = found.restored

            def until(noise, state, positions):
                if state >= after:
                    raise OSError("the power went")
                return restored(noise, state, positions)

            found.restored = until
            return found

        monkeypatch.setattr(relay, "trace", dying)
        done = call("trace", "relay", *ASKED, "--json", path)
        monkeypatch.setattr(relay, "trace", trace)
        assert done.status == 1 and not path.exists()
        relay.asked.clear()

    def test_it_goes_on(self, call, relay, found, tmp_path, monkeypatch):
        """The same call traces only what is missing, and ends with the JSON of an unbroken one."""
        path = tmp_path / "trace.json"
        self.stopped(call, relay, path, monkeypatch)
        done = call("trace", "relay", *ASKED, "--json", path)
        assert done.status == 0 and "has 2 state(s) of this trace: it goes on" in done.err
        assert {state for *_, state in relay.asked} == {2}
        assert json.loads(path.read_text()) == as_json(found, "relay")
        assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"of": 1}'])
    def test_a_damaged_file(self, call, relay, found, tmp_path, monkeypatch, damage):
        """What cannot be read is traced again."""
        path, part = tmp_path / "trace.json", tmp_path / "trace.json.part"
        self.stopped(call, relay, path, monkeypatch)
        part.write_bytes(damage)
        assert call("trace", "relay", *ASKED, "--json", path).status == 0
        assert {state for *_, state in relay.asked} == {0, 1, 2}
        assert json.loads(path.read_text()) == as_json(found, "relay")

    def test_stopped_twice(self, call, relay, found, tmp_path, monkeypatch):
        """What a second call adds is kept with what the first had."""
        path = tmp_path / "trace.json"
        self.stopped(call, relay, path, monkeypatch, after=1)
        self.stopped(call, relay, path, monkeypatch, after=2)
        assert call("trace", "relay", *ASKED, "--json", path).status == 0
        assert {state for *_, state in relay.asked} == {2}
        assert json.loads(path.read_text()) == as_json(found, "relay")

    @pytest.mark.parametrize("other", [("--seed", "1"), ("--draws", "12"), ("--noise", "2")])
    def test_another_trace(self, call, relay, tmp_path, monkeypatch, other):
        """What is kept of a trace with other settings is not taken for this one."""
        path = tmp_path / "trace.json"
        self.stopped(call, relay, path, monkeypatch)
        done = call("trace", "relay", *ASKED, *other, "--json", path)
        assert done.status == 0 and "trace.json.part is of another trace" in done.err
        assert {state for *_, state in relay.asked} == {0, 1, 2}


def test_labels(found):
    """Escaped texts stay printable, and the token before a sentence has a name."""
    assert labels(found) == ["a", "\\n", "\\x07", "b", "\\\\", "c"]
    assert escaped("é\ufffd 漢\u202e\udc80") == "é\ufffd 漢\\u202e\\udc80"
    begun = causal_trace(Relay([1, 6], first=0), SENTENCE, SUBJECT, answer="!")
    assert labels(begun)[0] == "(begin)" and rows(begun)[0]["text"] == ""
    assert caveats(found) == []


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two runs of r = 2 on six words, which differ in their seed, with their models kept."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for i in range(30):
        words = rng.choice(["one", "two", "three", "layer", "depth", "loss"], 60)
        (folder / f"{i:02d}.txt").write_text(" ".join(words), encoding="utf-8")
    spec = {
        "sweep": {"name": "words", "kind": "lm"},
        "base": {
            "model": {"width": 8, "head_size": 4, "prelude": 1, "layers": 2, "coda": 1, "num_recur": 2},
            "data": {
                "corpus": {"kind": "files", "paths": [str(folder)]},
                "context": 32,
                "validation": 0.2,
            },
            "optimiser": {"kind": "muonh", "matrix": 0.04},
            "num_tokens": 6 * 8 * 32.0,
            "batch": 8,
        },
        "grid": {"seed": [0, 1]},
    }
    cache = tmp_path_factory.mktemp("cache")
    out = tmp_path_factory.mktemp("results") / "words"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        nothing = {name: lambda *_: None for name in ("start", "tick", "note", "end", "close")}
        run_sweep(
            parse_spec(spec, "words.toml"),
            out,
            types.SimpleNamespace(**nothing),
            executor=InProcess(),
            policy=Policy(keep_models=True),
        )
        yield out, str(cache)


@pytest.mark.slow
class TestRuns:
    """Traces of kept models."""

    def test_several_runs(self, results, call):
        """Where several runs are meant, all are named, and how to choose one."""
        out, _ = results
        done = call("trace", out, "--sentence", "one two", "--subject", "one")
        jobs = sorted(path.name for path in (out / "jobs").iterdir())
        assert done.status == 2 and "2 runs of" in done.err and "--only with an id" in done.err
        assert all(job in done.err for job in jobs) and "(width 8, r 2)" in done.err

    def test_other_recurrences(self, results, spawn, tmp_path):
        """A run traced at another r than in training, in a locale without UTF-8, with text that it cannot
        write: rows are UTF-8, sentences have substitutes, every recurrence is in the rows."""
        out, cache = results
        plain = {
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONIOENCODING": "ascii",
            "XDG_CACHE_HOME": cache,
        }
        done = spawn(
            *("trace", out, "--only", "seed=1", "--num-recur", "3", "--draws", "3"),
            *("--sentence", "one\ttwö", "--subject", "twö", "--plot", tmp_path / "map.png"),
            **plain,
        )
        assert done.status in (0, 1), done.err
        assert "Traceback" not in done.err and "Where it peaks" in done.err
        table = pl.read_csv(done.out.encode(), infer_schema_length=None)
        assert set(table["recurrence"].drop_nulls()) == {0, 1, 2}
        texts = ["", "o", "n", "e", "\\t", "t", "w", "\ufffd", "ö"]
        assert table["text"].fill_null("").to_list() == texts * 12  # states
        assert table["is_subject"].to_list() == [*[False] * 5, *[True] * 4] * 12
        assert (tmp_path / "map.pdf").exists()

    def test_copies_trace_alike(self, results, call, tmp_path):
        """A folder of results that was copied elsewhere gives the same rows."""
        out, _ = results
        shutil.copytree(out, tmp_path / "copy")
        asked = ("--only", "seed=0", "--draws", "2", "--sentence", "one two", "--subject", "one")
        first, second = (call("trace", folder, *asked) for folder in (out, tmp_path / "copy"))
        assert first.out == second.out and len(first.out.splitlines()) > 20
