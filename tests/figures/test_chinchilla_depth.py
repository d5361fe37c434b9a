"""Laws of what is kept of the Chinchilla runs, and of its figure."""

import numpy as np
import polars as pl
import pytest

from figures import _chinchilla, causal_trace, chinchilla_depth
from figures._catalogue import TABLES, tables
from sweeps._config import ConfigError
from tests.figures.made_toys import same_bytes

pytestmark = pytest.mark.slow

TRUTH = {"c_m": 270.0, "alpha_m": 0.95, "c_l": 6.5, "alpha_l": 1.3, "c_D": 530.0, "alpha_D": 0.3, "L_0": 1.75}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Runs of the law with TRUTH and a little noise, and 40 that lie far above it."""
    rng = np.random.default_rng(0)
    width = rng.choice([512, 768, 1024, 1536, 2048, 3072], 160).astype(float)
    depth = rng.choice([8, 12, 16, 24, 32, 40], 160).astype(float)
    tokens = np.exp(rng.uniform(np.log(1e9), np.log(3e11), 160))
    t = TRUTH
    loss = t["c_m"] * width ** -t["alpha_m"] + t["c_l"] * depth ** -t["alpha_l"] + t["L_0"]
    loss = (loss + t["c_D"] * tokens ** -t["alpha_D"]) * np.exp(0.001 * rng.normal(size=160))
    loss[:40] += 3
    path = tmp_path_factory.mktemp("data") / "runs.csv"
    columns = {"d_model": width, "n_layers": depth, "num_tokens": tokens, "loss": loss}
    pl.DataFrame(columns).write_csv(path)
    return path


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """What is kept of them, written and read."""
    path = tmp_path_factory.mktemp("kept") / "chinchilla_depth.json"
    path.write_bytes(_chinchilla.written(_chinchilla.results(data, drops=range(0, 41, 40), resamples=60)))
    return path


def test_what_is_kept_is_the_law_that_the_runs_follow(kept):
    """With the 40 highest losses left out the exponents are the planted ones, within their intervals; splits
    agree; the scan has every number of dropped runs and objective."""
    found = chinchilla_depth.load(kept)
    assert (found["rows"], found["dropped"]) == (120, 40)
    for name in ("alpha_m", "alpha_l", "alpha_D"):
        one = found["parameters"][name]
        assert one["low"] < TRUTH[name] < one["high"]
        assert one["estimate"] == pytest.approx(TRUTH[name], rel=0.1)
        assert len(found["refits"][name]) == 60
    assert len(found["splits"]) == 10
    assert all(one["relative_error"] < 0.002 for one in found["splits"])
    chosen = [(row["objective"], row["drop_top"], row["rows"]) for row in found["scan"]]
    assert chosen == [(name, drop, 160 - drop) for name in ("log-squares", "huber") for drop in (0, 40)]
    same = found["scan"][1]
    assert same["estimate"] == pytest.approx(found["parameters"]["alpha_l"]["estimate"], rel=1e-4)


def test_a_part_is_what_the_other_terms_leave(kept):
    """A term's mean lies on the term, within its scatter; values and bins of fewer than LEAST runs are not
    kept, so that no run can be read off."""
    found = chinchilla_depth.load(kept)
    for column, (level, power) in _chinchilla.TERMS.items():
        bins = found["parts"][column]
        assert len(bins) >= 5 and all(one["runs"] >= _chinchilla.LEAST for one in bins)
        for one in bins:
            term = TRUTH[level] * one["at"] ** -TRUTH[power]
            assert one["mean"] == pytest.approx(term, abs=0.03)
    assert sum(one["runs"] for one in found["parts"]["depth"]) == 120


def test_values_of_few_runs_are_left_out(data):
    """A depth that three runs have has no mean; one more, and it has."""
    rows = pl.read_csv(data).rename({"d_model": "width", "n_layers": "depth"})[40:].with_row_index()
    from sweeps.laws import WidthDepthDataLaw, fit

    found = fit(WidthDepthDataLaw(), rows, interval="none")
    for count, known in ((3, False), (4, True)):
        some = rows.with_columns(depth=pl.when(pl.col("index") < count).then(99.0).otherwise("depth"))
        predicted = found.predict(*(some[name].to_numpy() for name in ("width", "depth", "num_tokens")))
        bins = _chinchilla.part(found, some, predicted, "depth")
        assert (99.0 in [one["at"] for one in bins]) is known


def test_numbers_that_are_not_finite_are_read_back(kept, tmp_path):
    """An open end of an interval survives the file."""
    found = chinchilla_depth.load(kept)
    found["scan"][0]["upper"], found["scan"][1]["lower"] = np.inf, -np.inf
    (tmp_path / "a.json").write_bytes(_chinchilla.written(found))
    again = chinchilla_depth.load(tmp_path / "a.json")
    assert again["scan"][0]["upper"] == np.inf and again["scan"][1]["lower"] == -np.inf
    assert same_bytes(lambda out: chinchilla_depth.draw(tmp_path / "a.json", out), tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"kind": "chinchilla depth"}'])
def test_other_files_are_refused(tmp_path, text):
    """The sentence says how one is made."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match="holds no kept fit: --data FILE --keep DIR makes one"):
        chinchilla_depth.load(tmp_path / "a.json")
    with pytest.raises(ConfigError, match="does not exist"):
        chinchilla_depth.load(tmp_path / "b.json")


def test_too_few_runs_are_refused(data, tmp_path):
    """Runs that are all left out, or no more than parameters, are no table to fit."""
    pl.read_csv(data)[:41].write_csv(tmp_path / "few.csv")
    with pytest.raises(ConfigError, match=r"few\.csv: "):
        _chinchilla.results(tmp_path / "few.csv")


def test_the_kept_fit_is_the_optimum_that_was_published_late():
    """Converged, on the 203 runs: alpha_l 1.3251, objective 3.02737e-5, below the published 3.06807e-5; its
    rows and its hash alone say what it was made of."""
    found = chinchilla_depth.load(TABLES / "chinchilla_depth.json")
    assert found["rows"] == 203
    assert found["objective"] == pytest.approx(3.02737e-5, rel=1e-5)
    assert found["parameters"]["alpha_l"]["estimate"] == pytest.approx(1.3251, abs=1e-4)
    assert all(one["runs"] >= 4 for bins in found["parts"].values() for one in bins)


def test_the_kept_trace_names_the_model_and_no_folder():
    """What was traced is a model's name; the subject raises the answer early, the last token late."""
    path = TABLES / "smollm2_trace.json"
    trace = causal_trace.load(path)
    assert trace.model == "SmolLM2-135M-Instruct" and "/" not in path.read_text(encoding="utf-8")
    drawn = causal_trace.compute(trace)
    assert drawn.value[0].argmax() == 1 and drawn.value[-1].argmax() == len(drawn.tokens) - 1


@pytest.mark.parametrize(
    "name",
    ["chinchilla_depth.json", "smollm2_trace.json", "smollm2_tokens.parquet"]
    + [f"{name}_states.parquet" for name in ("llm_cpu_depths", "llm_cpu", "smollm2")],
)
def test_kept_files_are_small_and_say_how_they_are_made(name):
    """Below 100 kB, with the commands, and the commit that their rows do not name."""
    assert (TABLES / name).stat().st_size < 100_000
    made = tables()[name]
    assert made.make and made.commit


def test_splits_fit_the_runs_that_are_not_held_out(data, monkeypatch):
    """Ten times four fifths of the runs are fitted, other ones each time; an error is of the rest."""
    rows = pl.read_csv(data).rename({"d_model": "width", "n_layers": "depth"})[40:]
    fitted = []
    fit = _chinchilla.fit

    def watched(law, table, **options):
        fitted.append(table)
        return fit(law, table, **options)

    monkeypatch.setattr(_chinchilla, "fit", watched)
    found = _chinchilla.splits(rows)
    assert [len(table) for table in fitted] == [96] * 10 and len(found) == 10
    assert len({tuple(table["loss"].to_list()) for table in fitted}) == 10
    held = rows.join(fitted[0], on=rows.columns, how="anti")
    predicted = fit(_chinchilla.WidthDepthDataLaw(), fitted[0], interval="none").predict(
        *(held[name].to_numpy() for name in ("width", "depth", "num_tokens"))
    )
    error = np.mean(np.abs(predicted / held["loss"].to_numpy() - 1))
    assert found[0]["relative_error"] == pytest.approx(error, rel=1e-6)
