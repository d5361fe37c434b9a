"""Laws of the commands `evaluate` and `tasks`: from kept models to columns of the table."""

import json
import shutil

import numpy as np
import pytest

from llm import build
from llm._tokens import prepared
from llm.axes import GENERATORS, score
from llm.probe import Looped
from sweeps import _axes, _evaluate
from sweeps._config import ConfigError
from sweeps._spec import parse_spec
from sweeps._store import Store
from tests.llm.axes.conftest import Fake
from tests.llm.axes.test_files import write
from tests.sweeps.made_runs import made_runs

ONE = ("--tasks", "induction", "--items", "6", "--shots", "0")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two runs, r = 1 and 2, with models that were never trained; and a cache of their own for the tokens."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for i in range(30):
        words = rng.choice(["one", "two", "three", "layer", "depth", "loss"], 60)
        (folder / f"{i:02d}.txt").write_text(" ".join(words), encoding="utf-8")
    source = {
        "sweep": {"name": "words", "kind": "lm", "description": "none"},
        "base": {
            "model": {"width": 8, "head_size": 4, "prelude": 1, "layers": 2, "coda": 1},
            "data": {"corpus": {"kind": "files", "paths": [str(folder)]}, "context": 48, "validation": 0.2},
            "num_tokens": 4 * 8 * 48.0,
            "batch": 8,
        },
        "grid": {"model.num_recur": [1, 2]},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield made_runs(tmp_path_factory.mktemp("results") / "words", source).out


@pytest.fixture
def out(trained, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(trained, tmp_path / "words")


def test_scores_land_in_the_table(out, call, tmp_path):
    """The command's numbers are those of `llm.axes.score` on the kept model, and are in its output, its JSON
    and the table; a second time nothing is computed."""
    done = call("evaluate", out, *ONE, "--json", tmp_path / "found.json", "--plot", tmp_path / "axes.png")
    assert done.status == 0, done.err
    assert done.out.splitlines()[0].endswith(",loss,induction_loss,induction_accuracy")
    tree = json.loads((tmp_path / "found.json").read_text())
    models = tree["models"]
    assert (tree["tasks"]["induction"]["items"], tree["tasks"]["induction"]["axis"]) == (6, "reasoning")
    store = Store(out)
    table = store.table()
    (config,) = {record["job"]: None for record in store.records() if record["rows"][0]["num_recur"] == 2}
    for row in table.to_dicts():
        (mine,) = [one for one in models if one["model"] == row["job"]]
        assert mine["row"]["num_recur"] == row["num_recur"]
        assert row["induction_loss"] == mine["scores"]["induction"]["loss"] == row["reasoning_loss"]
        assert f"{row['induction_loss']}" in done.out
    spec = parse_spec(store.spec(), "spec.json")
    data = spec.configs[0].data
    model = Looped(store.model(config), prepared(data, build(data)), longest=48)
    found = score(model, [GENERATORS["induction"]], items=6, shots=0)["induction"]
    assert found.loss == table.filter(table["num_recur"] == 2)["induction_loss"][0]
    assert (tmp_path / "axes.png").exists() and (tmp_path / "axes.pdf").exists()
    again = call("evaluate", out, *ONE)
    assert again.status == 0 and again.out == done.out and "2 of 2 scores were there before" in again.err
    assert "induction_loss" in call("table", out).out.splitlines()[0]


def test_what_is_there_is_not_computed_again(out, monkeypatch):
    """Of a run that was cut in the middle the same call makes what is missing, model by model and task by
    task; the whole is that of one call."""
    tasks = _evaluate.tasks_named(["induction", "assignment_0_math"])
    options = {"items": 4, "shots": 0, "seed": 0}
    whole = list(_evaluate.evaluate(str(out), tasks, **options))
    files = {path: path.read_bytes() for path in out.rglob("axes.json")}
    assert len(files) == 3 and all(set(one.scored) == {"induction", "assignment_0_math"} for one in whole)
    for path in files:
        path.unlink()
    _ = list(_evaluate.evaluate(str(out), tasks[:1], **options))
    stopped = _evaluate.evaluate(str(out), tasks, **options)
    assert next(stopped).scored == ("assignment_0_math",)
    stopped.close()  # as a process that is killed
    rest = list(_evaluate.evaluate(str(out), tasks, **options))
    assert [one.scored for one in rest] == [(), ("assignment_0_math",)]
    assert [one.scores for one in rest] == [one.scores for one in whole]
    assert all(path.read_bytes() == data for path, data in files.items())
    monkeypatch.setattr("llm.axes.score", lambda *_, **__: pytest.fail("computed again"))
    assert [one.scores for one in _evaluate.evaluate(str(out), tasks, **options)] == [
        one.scores for one in whole
    ]


def test_other_settings_take_the_place_of_those_before(out, call):
    """With other settings the folder's are the newest, and the call says which were others; a run that is not
    evaluated anew has no score in the table, and the table says so."""
    assert call("evaluate", out, *ONE).status == 0
    done = call("evaluate", out, *ONE[:2], "--items", "5", "--shots", "0", "--only", "num_recur=2")
    assert done.status == 0
    assert "induction was evaluated with other settings (items 6, now 5)" in done.err
    table = Store(out).table()
    assert table.filter(table["num_recur"] == 1)["induction_loss"][0] is None
    assert table.filter(table["num_recur"] == 2)["induction_loss"][0] is not None
    told = call("table", out)
    assert told.status == 0 and "1 model(s) have no scores on all of induction" in told.err
    assert call("evaluate", out, *ONE[:2], "--items", "5", "--shots", "0").status == 0
    assert Store(out).table()["induction_loss"].null_count() == 0


def test_more_recurrences(out):
    """--num-recur is a setting: a model of r = 2 run once has another loss, and one of r = 1 the same."""
    task = _evaluate.tasks_named(["induction"])
    options = {"items": 4, "shots": 0, "seed": 0}
    trained, once = (
        {one.row["num_recur"]: one.scores["induction"]["loss"] for one in _evaluate.evaluate(
            str(out), task, num_recur=r, **options)}
        for r in (None, 1)
    )  # fmt: skip
    assert trained[1] == once[1] and trained[2] != once[2]


def test_tasks_of_a_folder(out, call, tmp_path):
    """What `tasks` converts, and what is written by hand, is evaluated by name beside what is built in."""
    rows = [{"question": f"{n} and {n}?", "answers": [str(2 * n)]} for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = call("tasks", "webquestions", "--from", tmp_path / "rows.jsonl", "--out", tmp_path / "tasks")
    assert done.status == 0 and "9 items, and 3 to be put before them" in done.err
    done = call(
        "evaluate", out, "--data", tmp_path / "tasks", "--tasks", "webquestions,induction", "--items", "4"
    )
    assert done.status == 0, done.err
    assert {"webquestions_loss", "knowledge_loss", "reasoning_loss"} <= set(Store(out).table().columns)
    listed = call("tasks")
    assert listed.status == 0 and all(name in listed.out for name in ("induction", "triviaqa", "arc_easy"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "dick"], "there is no task 'dick': did you mean 'dyck'?; tasks of a folder need --data"),
        (["--only", "num_recur=3"], "none of the 2 job(s)"),
        (["--only", "recur=3"], "there is no column 'recur'"),
        (["--data", "nowhere"], "nowhere/manifest.json cannot be read"),
        (["--items", "0"], "Invalid value for '--items'"),
        (["--tasks", "dyck", "--shots", "-1"], "Invalid value for '--shots'"),
    ],
)
def test_wrong_calls(out, call, arguments, told):
    """A wrong call ends with status 2 and a sentence, and leaves no file."""
    done = call("evaluate", out, *arguments)
    assert done.status == 2 and told in " ".join(done.err.split()), done.err
    assert "Traceback" not in done.err and not list(out.rglob("axes.json"))


def test_a_task_that_does_not_fit(out, call, tmp_path):
    """A task of which a model can read no item is refused by name."""
    lines = [{"context": "a", "continuation": "b" * 99}] * 8
    write(tmp_path / "tasks", lines)
    done = call("evaluate", out, "--data", tmp_path / "tasks", "--tasks", "sums", "--shots", "0")
    assert done.status == 2 and "sums: no item has a continuation that" in done.err
    assert not list(out.rglob("axes.json"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dyck", "has the name of one that is built in"),
        ("train", "column 'train_loss' is one of every table"),
    ],
)
def test_names_that_are_taken(tmp_path, name, told):
    """A task cannot have the name of another, nor the beginning of a column that the table has."""
    with pytest.raises(ConfigError, match=told):
        _evaluate.tasks_named([], write(tmp_path / "tasks", name=name))


def test_models_that_were_not_kept(out, call):
    """A folder without models is refused with what to do."""
    for path in out.glob("jobs/*/record.json"):
        from sweeps._record import sealed, unsealed

        path.write_bytes(sealed({**unsealed(path.read_bytes()), "model": None}))
    done = call("evaluate", out, *ONE)
    assert done.status == 2 and "with --keep-models trains them again" in done.err


def test_a_loss_that_is_not_finite(out, call, monkeypatch):
    """Is null in table and JSON, and the command ends with status 1."""
    import dataclasses

    import llm.axes

    real = llm.axes.score

    def broken(*arguments, **options):
        return {n: dataclasses.replace(s, loss=float("nan")) for n, s in real(*arguments, **options).items()}

    monkeypatch.setattr(llm.axes, "score", broken)
    done = call("evaluate", out, *ONE)
    assert done.status == 1 and "are not finite" in done.err
    assert Store(out).table()["induction_loss"].null_count() == 2


def test_settings_are_in_the_files(out):
    """What a score depends on stands beside it: task, items, shots, seed, recurrences, the model's hash."""
    tasks = _evaluate.tasks_named(["induction"])
    _ = list(_evaluate.evaluate(str(out), tasks, num_recur=2, items=3, shots=1, seed=5))
    wanted = {"task": "built in, version 1", "items": 3, "shots": 1, "seed": 5, "num_recur": 2}
    assert _axes.read_tasks(out) == {"induction": {"axis": "reasoning", "settings": wanted}}
    for record in Store(out).records():
        one = _axes.read_scores(out, record)["induction"]
        assert one["settings"] == wanted and one["model"] == record["model"]
        assert one["score"]["items"] == 3


def test_a_pretrained_model(call, monkeypatch, tmp_path):
    """A source that is no folder of results is a pretrained model: its scores are in the output and in the
    JSON, and nothing is kept or drawn."""
    monkeypatch.setattr("llm.probe.open_pretrained", lambda source, precision: Fake(lambda prefix: {}))
    done = call("evaluate", "some/model", *ONE, "--json", tmp_path / "found.json")
    assert done.status == 0, done.err
    (one,) = json.loads((tmp_path / "found.json").read_text())["models"]
    assert one["row"] is None and one["scores"]["induction"]["loss"] == pytest.approx(np.log(256))
    assert done.out.startswith("model,induction_loss,induction_accuracy\nfake,5.545")
    done = call("evaluate", "some/model", *ONE, "--plot", tmp_path / "x.png")
    assert done.status == 2 and "some/model is no folder of results: --plot draws the runs of one" in done.err
