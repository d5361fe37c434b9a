"""The figure of probed networks: what is on it, for networks of any kind."""

import numpy as np
import pytest
from matplotlib import pyplot

from figures.hidden_states import MOST, draw, lines_of, plot
from llm.probe import ProbeConfig, TrajectorySource, probe
from sweeps.probes import Found, verdicts


def found_of(depth, name, seed=0):
    """A random walk."""
    rng = np.random.default_rng([seed, depth])
    states = np.cumsum(rng.normal(size=(depth + 1, 100, 6)), axis=0).astype(np.float32)
    source = TrajectorySource(lambda a, b: states[:, a:b], depth=depth, inputs=100)
    about = {"network": "built", "name": name, "depth": depth, "seed": seed}
    return Found(about, ("network", "name"), probe(source, ProbeConfig(skip_first=0, lens_every=None)))


def test_each_question_is_a_line_of_its_deepest_networks(tmp_path):
    """Named by what they differ in; values are the means of the probes; all depths are on the panel of
    scaling, with the fitted law; a name with a dollar sign is shown as it is."""
    found = [found_of(depth, name, seed) for name in ("a", "b$_$") for depth in (4, 8, 16) for seed in (0, 1)]
    judged = verdicts(found)
    lines = lines_of(found, judged)
    assert [line.label for line in lines] == ["name a", r"name b\$_\$"]
    assert [len(line.probes) for line in lines] == [2, 2]
    figure = plot(lines, len(judged))
    steps, angles, cosines, _, _, scaling = figure.axes
    of_a = [one.probe for one in found if one.about["name"] == "a" and one.about["depth"] == 16]
    expected = np.mean([one.measures["update_angle"].mean for one in of_a], axis=0)
    np.testing.assert_allclose(angles.lines[0].get_ydata(), expected)
    assert len(steps.lines[0].get_ydata()) == 16 and len(cosines.lines[0].get_ydata()) == 8
    assert sorted(set(scaling.lines[0].get_xdata())) == [4, 8, 16]
    assert scaling.get_title() == "line: power law fitted"
    pyplot.close(figure)
    for path in draw(found, judged, tmp_path):
        assert path.stat().st_size > 5000


@pytest.mark.parametrize("depth", [2, 3])
def test_shallow_networks_are_drawn(tmp_path, depth):
    """Two layers have one angle between updates, and no lag beyond it."""
    found = [found_of(depth, "a")]
    assert len(draw(found, verdicts(found), tmp_path)) == 2


def test_more_questions_than_can_be_told_apart_are_said():
    """The first MOST are drawn, and the title says of how many."""
    found = [found_of(4, f"{i:02}") for i in range(MOST + 2)]
    judged = verdicts(found)
    figure = plot(lines_of(found, judged), len(judged))
    assert len(figure.axes[1].lines) == MOST + 2  # and two levels
    assert figure.get_suptitle() == f"the first {MOST} of {MOST + 2} questions"
    pyplot.close(figure)
