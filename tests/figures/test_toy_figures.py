"""Laws of the figures of toy sweeps: temperature, training time, midpoint students, shallow teachers."""

import math

import numpy as np
import polars as pl
import pytest

from figures import _caption, _losses, exponent_temperature, midpoint, mse_shallow, training_time
from figures._sweep import read_sweep
from sweeps._config import ConfigError
from tests.figures.made_toys import DEPTHS, SEEDS, STEPS, level, made_sweep, same_bytes

pytestmark = pytest.mark.slow

KL = {"objective": "kl", "given_head": False}
HOT = {**KL, "temperature": 1.0}


def heated(folder, name="hot", **setting):
    """Three temperatures, exponents 1, 2 and 3 from the lowest; the highest comes first."""
    of = {0.01: 1.0, 0.1: 2.0, 1.0: 3.0}
    settings = [{**KL, "temperature": t, **setting} for t in (1.0, 0.01, 0.1)]
    return made_sweep(folder, name, settings, lambda row, step: of[row["temperature"]])


def test_every_temperature_has_its_exponent(tmp_path):
    """The exponent at a temperature is that of its students, in order of temperature; a case is named by
    teacher, head and training."""
    sources = [heated(tmp_path), heated(tmp_path, "given", teacher="independent", given_head=True)]
    cases = exponent_temperature.compute(exponent_temperature.load(sources))
    assert [case.name for case in cases] == [
        "tied teacher, learnt head, 1,000 steps",
        "independent teacher, the teacher's head, 1,000 steps",
    ]
    for case in cases:
        assert case.temperatures.tolist() == [0.01, 0.1, 1.0]
        assert [one.alpha for one in case.losses] == pytest.approx([1, 2, 3], rel=1e-6)
        expected = [[level(seed) / depth for depth in DEPTHS] for seed in SEEDS]
        np.testing.assert_allclose(case.losses[0].losses, expected)
    assert same_bytes(lambda out: exponent_temperature.draw(sources, out), tmp_path)


def test_of_many_temperatures_three_are_named(tmp_path):
    """Sixteen temperatures are all drawn; the legend names the first, the middle and the last."""
    heat = [float(f"{t:.4g}") for t in np.geomspace(0.01, 1, 16)]
    path = made_sweep(tmp_path, "many", [{**KL, "temperature": t} for t in heat], lambda row, step: 1.0)
    (case,) = exponent_temperature.compute(exponent_temperature.load([path]))
    figure = exponent_temperature.plot([case], "")
    texts = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert [text.split(":")[0] for text in texts] == ["T = 0.01", f"T = {heat[8]:g}", "T = 1"]
    assert len(figure.axes[1].containers) == 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([{}], "students without a temperature: give it a sweep with KL"),
        (
            [{**KL, "temperature": 1.0}, {**KL, "temperature": 1.0, "teacher": "independent"}],
            "2 kinds of teach",
        ),
        (
            [{**KL, "temperature": 1.0, "width": 8}, {**KL, "temperature": 1.0, "width": 16}],
            "several students",
        ),
        ([{**KL, "temperature": 1.0, "status": "diverged"}], "no finished students to draw"),
    ],
)
def test_other_sweeps_are_refused(tmp_path, settings, message):
    """A sentence says what is wrong with a table that is no sweep over temperatures alone."""
    path = made_sweep(tmp_path, "other", settings, lambda row, step: 1.0)
    with pytest.raises(ConfigError, match=message):
        exponent_temperature.compute(exponent_temperature.load([path]))


def test_exponents_over_training_are_those_of_the_curves(tmp_path):
    """At every step the exponent is that of the losses then, and its interval holds it; the longest training
    alone is drawn."""
    grow = {step: 1 + place / 4 for place, step in enumerate(STEPS)}
    settings = [{}, {"teacher": "independent", "layer_correlation": 0.0}, {"steps": 10, "step": 10}]
    path = made_sweep(
        tmp_path, "grow", settings, lambda row, step: grow[step] / (1 + (row["teacher"] != "tied"))
    )
    ((independent, tied),) = training_time.compute(training_time.load([path]))
    assert tied.steps.tolist() == list(STEPS) and tied.name == "tied teacher, MSE"
    assert tied.alpha == pytest.approx([grow[step] for step in STEPS], rel=1e-6)
    assert independent.alpha == pytest.approx(tied.alpha / 2, rel=1e-6)
    low, high = tied.ends
    assert (low <= tied.alpha + 1e-9).all() and (tied.alpha - 1e-9 <= high).all()


def test_training_time_draws_a_panel_a_teacher_and_heat(tmp_path):
    """Above: one panel for each teacher of each sweep, at its highest temperature; below: one a sweep."""
    path = heated(tmp_path)
    plain = made_sweep(tmp_path, "plain", [{}], lambda row, step: 2.0)
    sweeps = training_time.load([plain, path])
    figure = training_time.plot(training_time.compute(sweeps), "")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["tied teacher, MSE", "tied teacher, KL, T = 1", *["Exponent over training"] * 2]
    assert same_bytes(lambda out: training_time.draw([plain, path], out), tmp_path)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_times_lie_between_the_first_asked_and_the_end(tmp_path, count):
    """At most as many as asked, in order, all of them evaluated, none in the first share; the last is the end
    where there are two or more."""
    sweep = read_sweep(made_sweep(tmp_path, "t", [{}], lambda row, step: 1.0), series=("curves",))
    found = _losses.times(sweep, sweep.rows, count, first=0.03)
    assert 1 <= len(found) <= count and found == sorted(set(found))
    assert set(found) <= {30, 100, 300, 1000}
    assert count == 1 or found[-1] == 1000


def test_losses_over_training_are_needed(tmp_path):
    """Without curves the sentence names the file and its command; with none so late, it says that."""
    path = made_sweep(tmp_path, "t", [{}], lambda row, step: 1.0)
    sweep = read_sweep(path, series=("curves",))
    with pytest.raises(ConfigError, match="no losses over training"):
        _losses.times(sweep, sweep.rows.with_columns(step=10**6), 3, first=0.5)
    (tmp_path / "t_curves.parquet").unlink()
    with pytest.raises(ConfigError, match=r"t_curves\.parquet is not there: `depthlaw table"):
        training_time.load([path])


def both(folder, name="both"):
    """Euler and midpoint students of tied, independent and half-correlated teachers."""
    kinds = {"independent": 0.0, "tied": 1.0, "correlated": 0.5}
    settings = [
        {"teacher": teacher, "layer_correlation": rho, "layer": layer}
        for layer in ("euler", "midpoint")
        for teacher, rho in kinds.items()
    ]

    def alpha(row, step):
        return 1.0 if row["teacher"] == "independent" else 3.0 if row["layer"] == "euler" else 4.0

    return made_sweep(folder, name, settings, alpha)


def test_midpoint_students_have_two_mlps_a_layer(tmp_path):
    """Students of both teachers and layers with their exponents, those between left out; against MLPs a
    midpoint student stands at twice its depth."""
    path = both(tmp_path)
    found = midpoint.compute(midpoint.load([path]))
    assert [(one.teacher, one.layer, one.mlps) for one in found] == [
        ("independent", "euler", 1),
        ("independent", "midpoint", 2),
        ("tied", "euler", 1),
        ("tied", "midpoint", 2),
    ]
    assert [one.losses.alpha for one in found] == pytest.approx([1, 1, 3, 4], rel=1e-6)
    assert [one.local for one in found] == [pytest.approx([alpha] * 3) for alpha in (1, 1, 3, 4)]
    figure = midpoint.plot(found, "")
    layers, mlps = (
        [container.lines[0].get_xdata().tolist() for container in axes.containers] for axes in figure.axes[:2]
    )
    assert layers == [list(DEPTHS)] * 2
    assert mlps == [list(DEPTHS), [2 * depth for depth in DEPTHS]]
    assert same_bytes(lambda out: midpoint.draw([path], out), tmp_path)


def test_midpoint_needs_both_teachers(tmp_path):
    """A sweep without independent teachers is refused, by name."""
    path = made_sweep(tmp_path, "one", [{}], lambda row, step: 3.0)
    with pytest.raises(ConfigError, match="no students of independent teachers in one"):
        midpoint.compute(midpoint.load([path]))


def test_local_exponents_of_shallow_teachers(tmp_path):
    """Shallow teachers come first; between neighbouring depths of a power law the exponent is its own."""
    shallow = made_sweep(tmp_path, "shallow", [{"teacher_depth": 12}], lambda row, step: 2.5)
    deep = made_sweep(tmp_path, "deep", [{}], lambda row, step: 3.0)
    found = mse_shallow.compute(mse_shallow.load([deep, shallow]))
    assert [one.name for one in found] == ["tied, ℓ* = 12", "tied, ℓ* = 64"]
    for one, alpha in zip(found, (2.5, 3.0), strict=True):
        assert [point.exponent for point in one.local] == pytest.approx([alpha] * 3, rel=1e-6)
        assert [point.depth for point in one.local] == pytest.approx([2.83, 5.66, 11.3], rel=1e-2)
    assert same_bytes(lambda out: mse_shallow.draw([shallow, deep], out), tmp_path)


def test_one_seed_and_missing_students_are_drawn(tmp_path):
    """A mark is the geometric mean of the seeds that there are; one seed has bars of no length."""
    path = made_sweep(tmp_path, "t", [{}], lambda row, step: 2.0)
    rows = read_sweep(path, series=()).rows
    some = rows.filter(~((pl.col("seed") == 2) & (pl.col("depth") == 16)))
    found = _losses.losses_of(some, "t")
    assert math.isnan(found.losses[2, 3]) and found.alpha == pytest.approx(2, rel=1e-6)
    figure = mse_shallow.Figure()
    axes = figure.subplots()
    _losses.mark(axes, found.depths, found.losses, color="k")
    marks = axes.containers[0].lines[0].get_ydata()
    assert marks[3] == pytest.approx(math.sqrt(level(0) * level(1)) / 256)
    _losses.mark(axes, found.depths, found.losses[:1], color="k")
    (bars,) = axes.containers[1].lines[2]
    assert all(np.ptp(segment[:, 1]) == pytest.approx(0, abs=1e-12) for segment in bars.get_segments())


def test_a_condition_of_one_depth_is_refused(tmp_path):
    """A sentence names the condition and says what is missing."""
    path = made_sweep(tmp_path, "t", [{}], lambda row, step: 2.0, depths=(4,))
    with pytest.raises(ConfigError, match=r"t, tied teacher of 64 layers: column\(s\) depth"):
        mse_shallow.compute(mse_shallow.load([path]))


def test_captions_say_table_seeds_and_both_scales(tmp_path):
    """Sweeps of one scale share a sentence; the paper's numbers stand there where they are others."""
    small = made_sweep(tmp_path, "small", [{}], lambda row, step: 2.0)
    like = made_sweep(tmp_path, "like", [{}], lambda row, step: 2.0)
    paper = {"width": 32, "teacher_depth": 128, "batch": 1024}
    large = made_sweep(tmp_path, "large", [paper], lambda row, step: 2.0)
    tables = {path.stem: read_sweep(path, series=()).rows for path in (small, like, large)}
    assert _caption.scale(tables) == (
        "small, like: width 8, teacher depth 64, batch 256, 3 seeds (paper: width 32, teacher depth 128, "
        "batch 1024). large: width 32, teacher depth 128, batch 1024, 3 seeds."
    )
