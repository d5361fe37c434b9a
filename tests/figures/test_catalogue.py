"""The catalogue: every figure has its tables, every table its commands, and what is drawn is what is kept."""

import re
from pathlib import Path

import matplotlib
import matplotlib.testing.compare
import PIL.Image
import pytest
from typer.testing import CliRunner

from figures import _catalogue, _style
from sweeps._config import ConfigError
from sweeps._formats import read_table
from sweeps._spec import preset_names
from sweeps.cli import app

DRAWN = Path(_catalogue.__file__).parent / "drawn"
DPI = 80
DRAWINGS = _catalogue.drawings()
README = (Path(_catalogue.__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_file_says_where_it_comes_from():
    """Files and entries of tables.toml are the same; each names commands, of which a sweep's is of a preset;
    a file of rows has the commit that it was made by, or its entry has."""
    known = _catalogue.tables()
    kept = {path.name for path in _catalogue.TABLES.iterdir()} - {"tables.toml", "README.md"}
    assert set(known) == kept
    for name, table in known.items():
        assert table.make and table.minutes > 0
        for preset in re.findall(r"depthlaw run (\S+)", " ".join(table.make)):
            assert preset in preset_names()
        commits = _catalogue.commits(_catalogue.TABLES / name, table)
        assert commits and all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits), name


def test_every_figure_is_in_the_readme():
    """The README names each figure of the catalogue, and its image is there."""
    for one in DRAWINGS:
        assert f"figures/drawn/{one.name}.png" in README, one.name
        assert (DRAWN / f"{one.name}.png").exists()
    assert {path.stem for path in DRAWN.glob("*")} == {one.name for one in DRAWINGS}


def test_names_are_told_apart():
    """No two figures write the same file."""
    names = [one.name for one in DRAWINGS]
    assert len(set(names)) == len(names)


def test_larger_tables_take_their_place(tmp_path):
    """A figure is drawn from the paper-scale tables where all of them are there, else from two-core ones;
    where these are missing too, the sentence names them."""
    needs = ("mse-2core.csv", "mse-2core_curves.parquet")
    one = _catalogue.Drawing("x", "", "", needs, lambda files, out: [])
    with pytest.raises(ConfigError, match=r"mse-2core\.csv, .*mse-2core_curves\.parquet, which is not there"):
        one.files(tmp_path)
    for name in ("mse-2core.csv", "mse-2core_curves.parquet", "mse.csv"):
        (tmp_path / name).touch()
    assert [path.name for path in one.files(tmp_path)] == ["mse-2core.csv", "mse-2core_curves.parquet"]
    (tmp_path / "mse_curves.parquet").touch()
    assert [path.name for path in one.files(tmp_path)] == ["mse.csv", "mse_curves.parquet"]


def test_the_list_says_how_to_make_each_anew():
    """`--list` has every figure, and for each of its tables commit, time and commands."""
    done = CliRunner().invoke(app, ["figures", "--list"])
    assert done.exit_code == 0, done.output
    for one in DRAWINGS:
        assert done.output.count(f"{one.name}: ") >= 1
    assert "unknown" not in done.output and "not there" not in done.output
    commit = read_table(_catalogue.TABLES / "phase-2core.csv")["commit"][0]
    assert f"phase-2core.csv, commit {commit[:9]}" in done.output
    assert "depthlaw run phase-2core" in done.output


def test_a_name_that_is_none_is_refused():
    """With the nearest that is one."""
    done = CliRunner().invoke(app, ["figures", "phase_diagramm"])
    assert isinstance(done.exception, ConfigError) and "phase_diagram" in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda one: one.name)
def test_what_is_drawn_is_what_is_kept(drawing, tmp_path):
    """Drawn anew from its tables, a figure looks as the kept image, for the Matplotlib that made that."""
    kept = DRAWN / f"{drawing.name}.png"
    made = PIL.Image.open(kept).text["Software"]
    if f"version{matplotlib.__version__}," not in made:
        pytest.skip(f"kept images are of {made}, this is {matplotlib.__version__}")
    with _style.resolution(DPI):
        paths = drawing.draw(drawing.files(_catalogue.TABLES), tmp_path)
    (image,) = (path for path in paths if path.suffix == ".png")
    # 0 on the machine that made it; rounding elsewhere may move a line by part of a pixel.
    assert matplotlib.testing.compare.compare_images(str(kept), str(image), tol=1.0) is None
