"""The phase diagram: what is fitted and drawn of a sweep over the correlation length."""

import math

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from figures import phase_diagram
from figures.phase_diagram import compute, draw, load, marks_of, plot

LENGTHS = (0.0, 0.1, 0.5, 2.0, math.inf)
BEND = 1.5


def table(steps=(100, 1000), seeds=3, noise=0.01):
    """Losses ∝ ℓ⁻¹/(1 + (ℓλ/BEND)²) at the last of `steps`, ∝ ℓ⁻¹ before; null for λ = ∞, as in sweeps."""
    rng = np.random.default_rng(0)
    rows = []
    for length in LENGTHS:
        for time in steps:
            for seed in range(seeds):
                level = np.exp(rng.normal())
                for depth in (2, 3, 4, 6, 8):
                    x = (1e3 if math.isinf(length) else length) * depth / BEND
                    bent = 1 / (1 + x**2) if time == steps[-1] else 1
                    rows.append(
                        {
                            "correlation_length": None if math.isinf(length) else length,
                            "steps": time,
                            "seed": seed,
                            "depth": depth,
                            "loss": level / depth * bent * np.exp(noise * rng.normal()),
                            "teacher_update_angle": 1.5 * math.exp(-length) + 0.01 * seed,
                            "update_angle": 0.1 * depth + 0.6 * math.exp(-length),
                            "status": "done",
                        }
                    )
    return pl.DataFrame(rows)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "phase.csv"
    table().write_csv(path)
    return path


@pytest.fixture
def probed(tmp_path):
    """What a probe of five looped models leaves."""
    path = tmp_path / "models_probe.csv"
    pl.DataFrame(
        {"num_recur": [1, 1, 4, 4, 4], "bulk_update_angle": [1.2, 1.4, 0.5, None, 0.7], "depth": [20] * 5}
    ).write_csv(path)
    return path


def test_each_condition_has_its_exponent(file):
    """α of every λ and training time is that of its rows; at the ends of the longest training it is 1 and 3,
    and it rises with λ; before, it is 1 everywhere."""
    diagram = compute(load(file))
    assert diagram.lengths == list(LENGTHS) and diagram.times == [100, 1000]
    assert [one.alpha for one in diagram.conditions if one.steps == 100] == pytest.approx([1] * 5, abs=0.05)
    alphas = [one.alpha for one in diagram.longest]
    assert alphas[0] == pytest.approx(1, abs=0.05) and alphas[-1] == pytest.approx(3, abs=0.05)
    assert np.all(np.diff(alphas) > 0)
    assert [one.angle for one in diagram.longest] == pytest.approx(
        [1.5 * math.exp(-length) + 0.01 for length in LENGTHS]
    )


def test_one_bend_for_all_lengths(file):
    """The crossover that was planted, in student layers a correlation length, from all finite lengths."""
    found = compute(load(file)).crossover
    low, high = found.intervals["l_x"]
    assert low < BEND < high and high < 1.2 * low


def test_exponents_at_an_angle(file):
    """By straight lines between conditions of the longest training; none beyond them."""
    diagram = compute(load(file))
    first, second = diagram.longest[1], diagram.longest[2]
    between = diagram.exponent_at((first.angle + second.angle) / 2)
    assert between == pytest.approx((first.alpha + second.alpha) / 2)
    assert math.isnan(diagram.exponent_at(1.57)) and math.isnan(diagram.exponent_at(0.0))
    # The deepest students, of 8 layers, have an angle of 1.4 under independent teachers.
    assert diagram.longest[0].student_angle == pytest.approx(1.4)
    assert diagram.exponent_at(1.4 - 1e-9, students=True) == pytest.approx(diagram.longest[0].alpha)
    assert math.isnan(diagram.exponent_at(1.45, students=True))


def test_a_table_without_angles_of_students(tmp_path):
    """Teachers' angles alone are drawn, and no exponent is read off students'."""
    table().drop("update_angle").write_csv(path := tmp_path / "bare.csv")
    diagram, paths = draw(path, tmp_path, [])
    assert math.isnan(diagram.exponent_at(1.0, students=True)) and all(path.exists() for path in paths)


def test_marks_are_groups_of_a_probe(probed):
    """By how often their block is run; networks without an angle are left out."""
    one, four = marks_of(probed)
    assert (one.name, one.low, one.angle, one.high) == ("models, r = 1", 1.2, pytest.approx(1.3), 1.4)
    assert (four.name, four.low, four.angle, four.high) == ("models, r = 4", 0.5, pytest.approx(0.6), 0.7)


def test_what_is_on_it(file, probed):
    """A number for each condition; a curve for each finite length and one for their law; a mark for each
    group of a probe."""
    diagram = compute(load(file), marks_of(probed))
    figure = plot(diagram)
    phase, local, angle = figure.axes[:3]
    assert len(phase.texts) == 10 and phase.texts[0].get_text().startswith("1.0")
    assert [label.get_text() for label in phase.get_yticklabels()] == ["0", "0.1", "0.5", "2", "∞"]
    assert local.get_legend_handles_labels()[1] == ["one law for all lengths", "λ = 0.1", "λ = 0.5", "λ = 2"]
    (curve,) = (line for line in local.lines if line.get_label() == "one law for all lengths")
    bend = diagram.crossover.estimates["l_x"]
    assert np.interp(bend, *curve.get_data()) == pytest.approx(2, abs=0.01)
    assert angle.get_legend_handles_labels()[1] == [
        "teachers (filled)",
        "deepest students (hollow)",
        "models, r = 1",
        "models, r = 4",
    ]


def test_twice_the_same(file, probed, tmp_path):
    """The same table gives the same files, byte for byte."""
    paths = [draw(file, tmp_path / str(i), [probed])[1] for i in range(2)]
    for one, other in zip(*paths, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_ends_alone_have_no_bend(tmp_path):
    """Tied and independent teachers have no correlation length that depth could be measured in."""
    rows = table().filter(pl.col("correlation_length").is_null() | (pl.col("correlation_length") == 0))
    rows.write_csv(path := tmp_path / "ends.csv")
    diagram, paths = draw(path, tmp_path, [])
    assert diagram.crossover is None and all(path.stat().st_size > 5000 for path in paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop("correlation_length"), "has no column 'correlation_length'"),
        (lambda rows: rows.with_columns(status=pl.lit("diverged")), "has no finished students to draw"),
        (lambda rows: pl.concat([rows, rows[:1]]), "has several students of one correlation length"),
        (lambda rows: rows.filter(pl.col("depth") == 2), "correlation length 0, 100 steps: "),
        (
            lambda rows: rows.with_columns(pl.col("correlation_length").cast(pl.String).fill_null("long")),
            "correlation_length, teacher_update_angle or steps: ",
        ),
        (
            lambda rows: rows.with_columns(pl.col("teacher_update_angle").replace(1.5, None)),
            "column 'teacher_update_angle' is None in 10 of 150 rows: it must be an angle",
        ),
        (
            lambda rows: rows.with_columns(pl.col("correlation_length").replace(0.1, -0.1)),
            "column 'correlation_length' is -0.1 in 30 of 150 rows",
        ),
        (
            lambda rows: rows.with_columns(pl.col("correlation_length").replace(0.1, math.nan)),
            "column 'correlation_length' is nan in 30 of 150 rows",
        ),
        (lambda rows: rows.with_columns(steps=pl.lit("long")), "or steps: "),
        (lambda rows: rows.with_columns(steps=0), "it must be a whole number above 0"),
        (lambda rows: rows.with_columns(layer_correlation=0.5), "rows of teachers without a correlation"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, change, message):
    """In a sentence, with exit status 1."""
    change(table()).write_csv(path := tmp_path / "bad.csv")
    done = CliRunner().invoke(_app(), [str(path), "--out", str(tmp_path)])
    assert done.exit_code == 1 and message in done.output


def test_one_condition_of_several(tmp_path):
    """--only chooses among students that differ in more than length, training, seed and depth."""
    rows = table()
    both = [
        rows.with_columns(layer=pl.lit(name), loss=pl.col("loss") * k) for name, k in (("a", 1), ("b", 2))
    ]
    pl.concat(both).write_csv(path := tmp_path / "both.csv")
    drawn, _ = draw(path, tmp_path, [], ["layer=b"])
    alone = compute(rows.with_columns(pl.col("correlation_length").fill_null(math.inf)))
    assert [one.alpha for one in drawn.conditions] == pytest.approx([one.alpha for one in alone.conditions])
    done = CliRunner().invoke(_app(), [str(path), "--out", str(tmp_path), "--only", "layr=b"])
    assert done.exit_code == 1 and "it must be COLUMN=VALUE, with a column of" in done.output


def test_no_probe_is_said(file, tmp_path):
    """A mark that is no probe's table."""
    done = CliRunner().invoke(_app(), [str(file), "--out", str(tmp_path), "--mark", str(file)])
    assert done.exit_code == 1 and "has no column 'bulk_update_angle'" in done.output


def test_a_probe_without_angles_is_said(file, tmp_path):
    """Nothing to mark, or no angle, is refused, not marked nowhere."""
    for values, message in (([None, None], "has no network with an angle"), ([1.2, 7.0], "between 0 and pi")):
        path = tmp_path / "empty_probe.csv"
        pl.DataFrame({"bulk_update_angle": values, "depth": [4, 8]}).write_csv(path)
        done = CliRunner().invoke(_app(), [str(file), "--out", str(tmp_path), "--mark", str(path)])
        assert done.exit_code == 1 and message in done.output


def test_exponents_of_marks_are_printed(file, probed, tmp_path):
    """What teachers, and students, of such angles have, or that there are none."""
    done = CliRunner().invoke(_app(), [str(file), "--out", str(tmp_path), "--mark", str(probed)])
    assert done.exit_code == 0, done.output
    assert "models, r = 1: 1.30 rad; among teachers exponent 1." in done.output
    assert "among students' own exponent 1." in done.output


def _app():
    import typer

    app = typer.Typer()
    app.command()(phase_diagram.main)
    return app
