"""Laws of the figure of a fit."""

import dataclasses
import math
import re

import numpy as np
import pytest

from figures import law_fit
from sweeps.laws import (
    ChinchillaLaw,
    ComputeLaw,
    DepthLaw,
    Huber,
    LogSquares,
    LoopedLaw,
    OwnLaw,
    Status,
    WidthDepthDataLaw,
    evaluate,
    fit,
)
from sweeps.laws._expression import parse

TRUTH = {
    "c": 0.5, "L_0": 1.5, "E": 1.5, "A": 3.0, "B": 2.0, "alpha": 0.7, "beta": 0.4, "phi": 0.45,
    "c_m": 5.0, "alpha_m": 0.6, "c_l": 2.0, "alpha_l": 1.2, "c_D": 3.0, "alpha_D": 0.3,
}  # fmt: skip
LAWS = (DepthLaw(), WidthDepthDataLaw(), ChinchillaLaw(), LoopedLaw(), ComputeLaw())
ALL_LAWS = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


def table_of(law, scatter, rows=40, **truth):
    """Rows that follow a law at TRUTH up to a relative scatter; columns run over two decades."""
    rng = np.random.default_rng(0)
    table = {name: 10 ** rng.uniform(0, 2, rows) for name in law.columns}
    if "num_recur" in table:
        table["num_recur"] = rng.choice([1, 2, 4, 8], rows)
    values = {p.name: np.full(rows, (TRUTH | truth)[p.name]) for p in law.parameters}
    loss = evaluate(law.formula, table | values)
    return table | {"loss": loss * np.exp(scatter * rng.standard_normal(rows))}


@pytest.fixture(autouse=True)
def _no_refits(request, monkeypatch):
    """Profiles are parabolas, which cost nothing, unless a test asks for `refits`."""
    if "refits" not in request.fixturenames:
        monkeypatch.setattr(law_fit, "MOST_REFITTED", 0)


@pytest.fixture
def refits():
    """Profiles are made by refits, as they are of tables that are not large."""


def quick(law, table, **options):
    """A fit with the intervals that cost least."""
    return fit(law, table, **({"interval": "wald", "starts": 16} | options))


@ALL_LAWS
def test_partial_losses_of_exact_data_lie_on_the_lines(law):
    """Without scatter, every row's loss less the other terms is on the line of the part, for each law."""
    table = table_of(law, 0.0)
    parts = law_fit.compute(quick(law, table), table).parts
    assert [name for part in parts for name in part.columns] == list(law.columns)
    for part in parts:
        line = np.exp(np.interp(np.log(part.points.x), np.log(part.x), np.log(part.y)))
        # A power law is straight on log axes, so interpolation is exact; the fit recovers TRUTH to 1e-6.
        np.testing.assert_allclose(part.points.y, line, rtol=1e-5)
        assert part.points.said == f"{len(table['loss'])} rows"


def test_a_partial_loss_is_the_loss_less_the_other_terms():
    """With scatter too: by the formula's terms at the estimates, computed here one by one."""
    table = table_of(ChinchillaLaw(), 0.05, A=1.0)
    result = quick(ChinchillaLaw(), table)
    at = result.estimates
    params, tokens = law_fit.compute(result, table).parts
    of_params = at["A"] * table["num_params"] ** -at["alpha"]
    of_tokens = at["B"] * table["num_tokens"] ** -at["beta"]
    for part, others in ((params, of_tokens), (tokens, of_params)):
        left = table["loss"] - at["E"] - others
        assert part.points.lost == (left <= 0).sum()
        np.testing.assert_allclose(np.sort(part.points.y), np.sort(left[left > 0]), rtol=0, atol=1e-12)


def test_the_looped_term_is_drawn_against_the_effective_size():
    """Its three columns are one part, against N_once + r^phi N_rec at the fitted phi, told apart by r."""
    table = table_of(LoopedLaw(), 0.01)
    result = quick(LoopedLaw(), table)
    part, tokens = law_fit.compute(result, table).parts
    size = table["num_once"] + table["num_recur"] ** result.estimates["phi"] * table["num_recurrent"]
    assert sorted(part.points.x) == pytest.approx(sorted(size), rel=1e-12)
    assert (part.hue, part.hues) == ("num_recur", ("1", "2", "4", "8"))
    assert part.xlabel == "num_once + num_recur^φ·num_recurrent"
    assert tokens.columns == ("num_tokens",) and not tokens.hue


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("E + A*n**-a + B*d**-b", [("n",), ("d",)]),
        ("E + A*n**-a*d**-b", [("n", "d")]),
        ("A*n**-a + B*d**-b + C*log(n)", [("n",), ("d",)]),
        ("A*n**-a + B*d**-b + C*log(n + d)", [("n", "d")]),
        ("E - (F - A*n**-a) + 2", [("n",)]),
    ],
)
def test_parts_are_terms_that_share_columns(text, expected):
    """A column is in one part, with all its terms; terms without a column are in no part."""
    law = OwnLaw(text, ("n", "d"))
    pieces = law_fit._pieces(law)
    assert [columns for columns, _ in pieces] == expected
    found = [name for _, terms in pieces for _, term in terms for name in law_fit._names(term)]
    whole = [name for term in parse(text).terms() for name in term.names() if set(term.names()) & {"n", "d"}]
    assert sorted(found) == sorted(whole)


def test_signs_of_terms_count():
    """loss = E - A n^-a: what is drawn falls as A n^-a, and is E less the loss."""
    law = OwnLaw("E - A*n**-a", ("n",))
    n = np.geomspace(1, 100, 30)
    table = {"n": n, "loss": 6 - 3 * n**-0.5}
    (part,) = law_fit.compute(quick(law, table), table).parts
    assert part.ylabel == "other terms − loss"
    np.testing.assert_allclose(part.points.y, 3 * n**-0.5, rtol=1e-5)
    np.testing.assert_allclose(part.y, 3 * part.x**-0.5, rtol=1e-5)


def test_rows_below_the_other_terms_are_counted_not_drawn():
    """A partial loss that is not positive has no place on log axes: rows drawn and rows said are all rows."""
    table = table_of(ComputeLaw(), 0.05, 200, A=0.5)
    (part,) = law_fit.compute(quick(ComputeLaw(), table), table).parts
    points = part.points
    assert 0 < points.lost < points.rows == 200
    assert (points.y > 0).all() and points.x.size + points.lost == 200
    assert points.said == f"{points.x.size} rows; {points.lost} not above 0"


def test_a_large_table_is_thinned_and_says_so():
    """Of more rows than MOST_POINTS the scatter shows that many, over the whole range, as the line does."""
    table = table_of(ComputeLaw(), 0.01, 3 * law_fit.MOST_POINTS)
    result = quick(ComputeLaw(), table, starts=2)
    panels = law_fit.compute(result, table)
    for points in (panels.parts[0].points, panels.residuals):
        drawn, said = points.x.size, [int(n) for n in re.findall(r"(\d+) (?:rows|of|not)", points.said)]
        assert drawn == law_fit.MOST_POINTS and said[1] == drawn
        assert said[0] + sum(said[2:]) == len(table["loss"])
    x = np.sort(panels.parts[0].points.x)
    assert (x[0], x[-1]) == pytest.approx((table["flops"].min(), table["flops"].max()), rel=0.02)
    np.testing.assert_array_equal(panels.parts[0].x[[0, -1]], [table["flops"].min(), table["flops"].max()])
    assert not panels.profiles[0].refitted


def test_residuals_are_those_of_the_objective():
    """Their mean square is the objective of log squares, in per cent squared."""
    table = table_of(ChinchillaLaw(), 0.02)
    result = quick(ChinchillaLaw(), table)
    panels = law_fit.compute(result, table)
    assert np.mean((panels.residuals.y / 100) ** 2) == pytest.approx(result.objective, rel=1e-9)
    assert panels.scatter == pytest.approx(100 * math.sqrt(result.objective), rel=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"objective": Huber(0.02)}, {"noise": 0.02}, {"fix": {"E": 1.5}, "bounds": {"alpha": (0.0, 3.0)}}],
    ids=["squares", "huber", "noise", "fixed"],
)
def test_a_profile_crosses_its_line_at_the_ends_of_the_interval(options, refits):
    """Refits with the parameter held reach the height of the line where the fitter's own profile ends."""
    table = table_of(ComputeLaw(), 0.02, 60)
    result = quick(ComputeLaw(), table, interval="profile", **options)
    (profile,) = law_fit.compute(result, table).profiles
    centre, sides = result.estimates["alpha"], profile.at < result.estimates["alpha"]
    assert profile.normalised and profile.refitted and profile.better is None
    assert profile.rise[profile.at == centre] == [0.0]
    for side, end in zip((sides, ~sides), result.intervals["alpha"], strict=True):
        # The profile bends little between 15 points: linear interpolation is good to a per cent of the width.
        order = np.argsort(profile.rise[side])
        crossing = np.interp(1, profile.rise[side][order], profile.at[side][order])
        assert crossing == pytest.approx(end, abs=0.01 * np.ptp(result.intervals["alpha"]))


def test_a_better_fit_than_the_estimate_is_said(refits):
    """Where the reported optimum is not the lowest, the profile finds that out and its panel says so."""
    table = table_of(ComputeLaw(), 0.02, 60)
    good = quick(ComputeLaw(), table)
    moved = dataclasses.replace(good.parameters["alpha"], estimate=good.estimates["alpha"] * 1.05)
    bad = dataclasses.replace(
        good, parameters=good.parameters | {"alpha": moved}, objective=2 * good.objective
    )
    panels = law_fit.compute(bad, table)
    (profile,) = panels.profiles
    assert profile.better == pytest.approx(good.estimates["alpha"], rel=0.05)
    titles = [axes.get_title() for axes in law_fit.plot(bad, panels).axes]
    assert any("fits better: raise starts" in title for title in titles)


def test_groups_have_their_lines_and_are_told_apart():
    """With levels of their own, few groups have a colour each, and every group's rows lie on its line."""
    depth, seed = np.tile([1.0, 2, 4, 8, 16], 3), np.repeat([7, 8, 9], 5)
    table = {"depth": depth, "seed": seed, "loss": np.array([0.2, 0.5, 1.0])[seed - 7] * depth**-1.0}
    result = quick(DepthLaw(), table, fix={"L_0": 0.0})
    (part,) = law_fit.compute(result, table).parts
    assert part.hues == ("7", "8", "9") and part.ylabel == "loss − other terms"
    for i, label in enumerate((7, 8, 9)):
        mine = part.points.hue == i
        line = np.exp(np.interp(np.log(part.points.x[mine]), np.log(part.x), np.log(part.lines[label])))
        np.testing.assert_allclose(part.points.y[mine], line, rtol=1e-9)
        np.testing.assert_allclose(part.points.y[mine], table["loss"][seed == label], rtol=1e-9)


def test_many_groups_draw(tmp_path):
    """Beyond six groups colours no longer tell them apart: one colour, a line for each."""
    rng = np.random.default_rng(0)
    depth, seed = np.tile([1.0, 2, 4, 8], 30), np.repeat(np.arange(30), 4)
    table = {"depth": depth, "seed": seed, "loss": depth**-1.0 * np.exp(0.1 * rng.standard_normal(120))}
    result = quick(DepthLaw(), table, fix={"L_0": 0.0})
    (part,) = law_fit.compute(result, table).parts
    assert len(part.lines) == 30 and not part.hue
    assert all(path.stat().st_size > 10_000 for path in law_fit.draw(result, table, tmp_path, "many", ""))


def test_the_band_is_the_interval_of_the_part_alone():
    """Of a law that is one part, the band is the fit's interval of the loss; there is none without one."""
    law = OwnLaw("A*n**-a", ("n",))
    n = np.geomspace(1, 100, 30)
    table = {"n": n, "loss": 3 * n**-0.5 * np.exp(0.05 * np.random.default_rng(0).standard_normal(30))}
    result = quick(law, table)
    (part,) = law_fit.compute(result, table).parts
    low, high = result.interval(part.x)
    np.testing.assert_allclose(part.low, low, rtol=1e-12)
    np.testing.assert_allclose(part.high, high, rtol=1e-12)
    bare = dataclasses.replace(result, covariance=(), replicates=())
    assert law_fit.compute(bare, table).parts[0].low is None


def test_another_table_is_refused():
    """The figure is of the rows of the fit: one loss changed, and it is not drawn."""
    table = table_of(ComputeLaw(), 0.02)
    result = quick(ComputeLaw(), table)
    table["loss"] = table["loss"] * np.where(np.arange(40) == 3, 1.001, 1.0)
    with pytest.raises(ValueError, match="not the one that this fit was made of"):
        law_fit.compute(result, table)


def test_title_axes_and_caption_say_what_is_shown():
    """Law, rows, objective, headline, hash above; log axes with units; interval's method and table below."""
    table = table_of(WidthDepthDataLaw(), 0.01, 60)
    result = quick(WidthDepthDataLaw(), table, objective=LogSquares(), drop_top=5)
    figure = law_fit.plot(result, law_fit.compute(result, table), "runs_$3$.csv")
    title = figure.get_suptitle().replace("\xa0", " ")
    assert title.replace("\n", " ") == law_fit.title(result)
    for said in ("width-depth-data: ", " rows", "log-squares ", "α_l = ", result.provenance.data_sha256[:8]):
        assert said in title
    width, depth, tokens, residuals, profile = figure.axes
    assert [axes.get_xscale() for axes in (width, depth, tokens)] == ["log"] * 3
    assert [axes.get_yscale() for axes in (width, depth, tokens)] == ["log"] * 3
    assert depth.get_xlabel() == "depth ℓ (layers)" and "%" in residuals.get_ylabel()
    assert "95 %" in profile.get_ylabel() and profile.get_xlabel() == "α_l"
    caption = figure.get_supxlabel().replace("\n", " ")
    assert result.interval_method in caption and r"runs_\$3\$.csv" in caption


def _failed(result):
    gone = {
        name: dataclasses.replace(found, estimate=math.nan, interval=(-math.inf, math.inf), identified=False)
        for name, found in result.parameters.items()
    }
    return dataclasses.replace(
        result, parameters=gone, status=Status.FAILED, objective=math.inf, covariance=()
    )


LONG = [f"a_column_with_a_long_name_{i}" for i in range(4)]


@pytest.mark.parametrize("case", ["failed", "infinite", "one parameter", "long", "product"])
def test_awkward_fits_draw(case, tmp_path, refits, monkeypatch):
    """No optimum, no ends of an interval, one parameter, long names, a term of several columns: all draw."""
    monkeypatch.setattr(law_fit, "MOST_PARTS", 3)
    law = {
        "one parameter": OwnLaw("A*n**-.5", ("n",)),
        "long": OwnLaw(" + ".join(f"3*{name}**-b{i % 2}" for i, name in enumerate(LONG)), tuple(LONG)),
        "product": OwnLaw("A*n**-a*d**-x", ("n", "d")),
    }.get(case, ComputeLaw())
    table = table_of(law, 0.02, A=3.0, a=0.5, x=0.3, b0=0.5, b1=0.2)
    result = quick(law, table, starts=4)
    if case == "failed":
        result = _failed(result)
    if case == "infinite":
        open_ = dataclasses.replace(
            result.parameters["alpha"], interval=(-math.inf, math.inf), identified=False, error=math.nan
        )
        result = dataclasses.replace(result, parameters=result.parameters | {"alpha": open_})
    panels = law_fit.compute(result, table)
    assert len(panels.parts) + panels.hidden == (4 if case == "long" else 1)
    if case == "failed":
        assert panels.parts[0].points.lost == 40 and not panels.profiles[0].at.size
    else:
        assert all(np.isfinite(profile.rise).all() for profile in panels.profiles)
    if case == "product":
        np.testing.assert_array_equal(panels.parts[0].x, panels.parts[0].y)
    paths = law_fit.draw(result, table, tmp_path, "awkward", "")
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_the_same_fit_gives_the_same_files(tmp_path, refits):
    """Drawing twice writes the same PNG and PDF to the last byte: no dates, no randomness, no display."""
    table = table_of(LoopedLaw(), 0.01)
    result = quick(LoopedLaw(), table)
    first = law_fit.draw(result, table, tmp_path / "a", "looped", "a test")
    second = law_fit.draw(result, table, tmp_path / "b", "looped", "a test")
    assert [path.name for path in first] == ["looped.png", "looped.pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 10_000
