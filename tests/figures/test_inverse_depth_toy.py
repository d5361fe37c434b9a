"""Laws of the figure of a toy sweep."""

import numpy as np
import pytest
from rich.console import Console

from figures import inverse_depth_toy
from sweeps._config import ConfigError
from sweeps._progress import Lines
from sweeps._run import run_sweep
from sweeps._spec import parse_spec
from sweeps._store import Store
from sweeps.executors import InProcess

SOURCE = {
    "sweep": {"name": "tiny"},
    "base": {
        "width": 4,
        "depths": [1, 2, 4],
        "seeds": [0, 1],
        "batch": 16,
        "steps": 40,
        "learning_rate": {"base": 1e-2},
        "evaluation": {"batches": 1, "batch": 32, "points": 4, "first_step": 5},
    },
    "grid": {"teacher": [{"kind": "independent", "depth": 8}, {"kind": "tied", "depth": 8}]},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A sweep of two teachers, two seeds and three depths."""
    out = tmp_path_factory.mktemp("results")
    run_sweep(parse_spec(SOURCE, "test"), out, Lines(Console(quiet=True)), executor=InProcess())
    return out


def test_panels_hold_what_was_recorded(results):
    """Losses are those of the rows; the exponent over training ends at the fit's; angles have ℓ entries."""
    sweep = inverse_depth_toy.load(results)
    panels = inverse_depth_toy.compute(sweep)
    assert [panel.teacher for panel in panels] == ["independent", "tied"]
    for panel in panels:
        rows = sweep.rows.filter(teacher=panel.teacher)
        assert sorted(panel.losses.ravel().tolist()) == sorted(rows["loss"].to_list())
        # With every seed at every depth, the fit with a level a seed is the mean of the seeds' slopes.
        last = np.mean(panel.exponents[:, -1])
        assert last == pytest.approx(panel.fit.estimates["alpha"], rel=1e-4)
        assert [angles.size for angles in panel.teacher_angles] == [8, 7]
        assert [angles.size for angles in panel.student_angles] == [4, 3]


def test_the_same_results_give_the_same_files(results, tmp_path):
    """Drawing twice writes the same PNG and PDF to the last byte: no dates, no randomness, no display."""
    first = inverse_depth_toy.draw(results, tmp_path / "a")
    second = inverse_depth_toy.draw(results, tmp_path / "b")
    assert [path.suffix for path in first] == [".png", ".pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000


def keep(results, folder):
    """The tables that `depthlaw table` writes of a folder of results: <folder>/kept.csv, series beside it."""
    store = Store(results)
    store.table().write_csv(folder / "kept.csv")
    for name in ("curves", "angles"):
        store.series(name).write_parquet(folder / f"kept_{name}.parquet")
    return folder / "kept.csv"


@pytest.mark.parametrize("fixture", ["results", "kl_results"])
def test_kept_tables_draw_what_the_folder_draws(fixture, tmp_path, request):
    """Rows, curves and angles kept as tables give every number of the panels that the folder gives."""
    folder = request.getfixturevalue(fixture)
    there = inverse_depth_toy.compute(inverse_depth_toy.load(folder))
    kept = inverse_depth_toy.compute(inverse_depth_toy.load(keep(folder, tmp_path)))
    for one, other in zip(there, kept, strict=True):
        for name in ("depths", "losses", "steps", "exponents"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("teacher_angles", "student_angles"):
            for mine, its in zip(getattr(one, name), getattr(other, name), strict=True):
                np.testing.assert_array_equal(mine, its)
        assert one.fit.estimates == other.fit.estimates


def test_a_kept_table_without_its_series_is_refused(results, tmp_path):
    """The sentence names the file that is missing and the command that makes it."""
    kept = keep(results, tmp_path)
    (tmp_path / "kept_angles.parquet").unlink()
    with pytest.raises(ConfigError, match=r"kept_angles\.parquet is not there: `depthlaw table"):
        inverse_depth_toy.load(kept)


def test_axes_carry_their_units_and_slopes(results):
    """Log axes on the losses, labels with units, and guides of slope 1 and 3 in the legend."""
    figure = inverse_depth_toy.plot(inverse_depth_toy.compute(inverse_depth_toy.load(results)))
    losses, exponents, updates, states = figure.axes
    assert (losses.get_xscale(), losses.get_yscale()) == ("log", "log")
    assert "layers" in losses.get_xlabel() and "step" in exponents.get_xlabel()
    assert "rad" in updates.get_ylabel() and "rad" in states.get_ylabel()
    labels = " ".join(text.get_text() for text in losses.get_legend().get_texts())
    assert "slope −1" in labels and "slope −3" in labels


@pytest.fixture(scope="module")
def kl_results(tmp_path_factory):
    """One teacher, one seed, two temperatures of which the higher comes first."""
    objective = {"kind": "kl", "temperatures": [2.0, 0.5]}
    source = {
        **SOURCE,
        "base": {**SOURCE["base"], "seeds": [3], "vocabulary": 5, "objective": objective},
        "grid": {"teacher": [{"kind": "tied", "depth": 8}]},
    }
    out = tmp_path_factory.mktemp("kl")
    run_sweep(parse_spec(source, "test"), out, Lines(Console(quiet=True)), executor=InProcess())
    return out


def test_a_panel_shows_one_temperature(kl_results, tmp_path):
    """Losses, exponents and angles are all those of the highest temperature; one seed draws as well."""
    sweep = inverse_depth_toy.load(kl_results)
    (panel,) = inverse_depth_toy.compute(sweep)
    rows = sweep.rows.filter(temperature=2.0).sort("depth")
    assert panel.losses.ravel().tolist() == rows["loss"].to_list()
    assert panel.exponents[0, -1] == pytest.approx(panel.fit.estimates["alpha"], rel=1e-4)
    assert np.mean(panel.student_angles[1]) == pytest.approx(rows["update_angle"][-1], rel=1e-6)
    assert all(path.exists() for path in inverse_depth_toy.draw(kl_results, tmp_path))


def test_nothing_to_draw_is_said(tmp_path):
    """A folder without finished students is refused in a sentence, not drawn empty."""
    (tmp_path / "spec.json").write_text('{"sweep": {"name": "empty"}}')
    with pytest.raises(ConfigError, match="has no finished students to draw: run the sweep first"):
        inverse_depth_toy.compute(inverse_depth_toy.load(tmp_path))
