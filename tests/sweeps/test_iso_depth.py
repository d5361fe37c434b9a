"""Laws of the analysis of a grid: what was planted comes back, and what is not known is said."""

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest

from sweeps._config import ConfigError
from sweeps._report import answers, as_json, question_of
from sweeps._spec import FitSpec
from sweeps._terminal import BadTable
from sweeps.iso_depth import CELLS, analyse, delta_phi, sentences
from sweeps.iso_depth import as_json as analysis_json
from sweeps.iso_depth._analysis import caveats
from sweeps.iso_depth._delta import _together
from sweeps.iso_depth._design import design, optima
from sweeps.iso_depth._frontier import frontier, growth, orders
from sweeps.iso_depth._grid import read
from sweeps.iso_depth._noise import noise
from sweeps.iso_depth._phi import architectures, halves, joints
from sweeps.laws import Fit, Huber, LoopedDesign, LoopedLaw, Squares, Status, allocate, fit

from .iso_depth_grid import BUDGETS, PLANTED, RECURRENCES, WIDTHS, by_law, by_parabolas, runs

QUICK = {"resamples": 40, "starts": 4}


def best_size(budget, r):
    """N* that lies among the sizes at every budget of the grid."""
    return 1.2e7 * r**-0.4 * (budget / 3e16) ** 0.3


@pytest.fixture(scope="module")
def rows():
    """48 runs with 0.005 nats of noise."""
    return by_law(runs(), 0.005, seed=1)


@pytest.fixture(scope="module")
def found(rows):
    """Their analysis."""
    return analyse(rows, **QUICK)


@pytest.fixture(scope="module")
def larger():
    """The analysis of a grid in which a recurrence is worth more, phi = 0.7."""
    return analyse(by_law(runs(), 0.005, seed=2, phi=0.7), **QUICK)


class TestPhi:
    def test_planted(self, found):
        """The interval of 48 runs holds the planted phi, is narrower than 0.1, and leaves 0 and 1 out."""
        low, high = found.phi.interval
        assert low < PLANTED["phi"] < high < low + 0.1
        assert found.phi.identified and found.free.fit.provenance.group_columns == CELLS
        assert found.free.fit.provenance.groups == len(BUDGETS) * len(RECURRENCES)
        for held in found.joint[1:]:
            assert held.excluded and held.test.rejected
            assert held.rmse > 3 * found.free.rmse and held.held_out > found.free.held_out
        assert [one.name for one in found.joint] == ["phi free", "phi = 0", "phi = 1"]

    @pytest.mark.slow
    def test_coverage(self):
        """Of 20 draws at least 16 intervals hold the planted phi: with 95 % each, fewer have a chance of 0.3
        %; in 200 draws 98 % did."""
        hits = 0
        for seed in range(20):
            grid = read(by_law(runs(), 0.01, seed))
            options = {"objective": Huber(1e-3), "resamples": 40, "starts": 4, "refit_starts": 0}
            low, high = fit(LoopedLaw(), grid.columns, group=CELLS, **options).intervals["phi"]
            hits += low <= PLANTED["phi"] <= high
        assert hits >= 16

    @pytest.mark.parametrize("objective", [Huber(1e-3), Squares()], ids=repr)
    def test_without_noise(self, objective):
        """All parameters come back to 1e-6, of the joint law and of each r, and the residuals vanish.

        The planted law of one r is a Chinchilla law, since N_eff is in proportion to N there.
        """
        grid = read(by_law(runs()))
        free = joints(grid, objective, 40, 4, 0, {})[0]
        for name, value in PLANTED.items():
            assert free.fit.estimates[name] == pytest.approx(value, rel=1e-6), name
        assert free.rmse < 1e-9 and free.r_squared == pytest.approx(1)
        for half in halves(grid, objective, 40, 4, 0):
            assert half.phi.estimate == pytest.approx(PLANTED["phi"], abs=1e-6)
        for one in architectures(grid, objective, 4):
            assert one.r_squared == pytest.approx(1) and one.rmse < 1e-9
            for name in ("E", "alpha", "B", "beta"):
                assert one.fit.estimates[name] == pytest.approx(PLANTED[name], rel=1e-5)

    def test_residuals(self, found, rows):
        """Their mean squares by r add up to that of all, and no mean is above its root mean square."""
        parts = found.free.residuals
        assert [one.num_recur for one in parts] == list(RECURRENCES)
        total = sum(one.rows * one.rmse**2 for one in parts)
        assert total == pytest.approx(len(rows) * found.free.rmse**2)
        assert all(abs(one.mean) <= one.rmse for one in parts)

    def test_halves(self, found):
        """Of three budgets both halves have the middle one; each holds the planted phi."""
        lower, upper = found.halves
        assert (lower.budgets, upper.budgets) == (BUDGETS[:2], BUDGETS[1:])
        for half in found.halves:
            assert half.rows == 32 and half.phi.interval[0] < PLANTED["phi"] < half.phi.interval[1]

    def test_no_halves_of_two_budgets(self, found):
        """A single budget cannot tell size from data: no phi, with the reason, also in words."""
        split = halves(read(by_law(runs(BUDGETS[:2]))), Huber(), 40, 4, 0)
        assert [(half.fit, half.phi) for half in split] == [(None, None)] * 2
        assert all("a single budget" in half.reason for half in split)
        said = caveats(dataclasses.replace(found, halves=split))
        assert sum("budgets: no phi: a single budget" in one for one in said) == 2

    def test_findings_of_the_fitter_are_carried(self, found, rows):
        """Runs with fewer recurrences in the backward pass for some r only: the fitter says so."""
        cut = pl.when(pl.col("num_recur") > 2).then(2).otherwise(None)
        grid = read(rows.with_columns(backprop_recurrences=cut))
        free = dataclasses.replace(found.free, fit=fit(LoopedLaw(), grid.columns, interval="none", starts=4))
        said = caveats(dataclasses.replace(found, joint=(free,)))
        assert any(one.startswith("joint law: 24 row(s) were trained with fewer") for one in said)

    def test_a_single_budget(self, rows):
        """What size and what data do cannot be told apart: phi is not identified, whatever its interval."""
        one = analyse(rows.filter(pl.col("budget") == BUDGETS[0]), **QUICK)
        assert not one.phi.identified and [held.excluded for held in one.joint[1:]] == [None, None]
        assert any(note.startswith("A single budget: ") for note in caveats(one))
        assert any("phi is not identified" in said for said in sentences(one))

    def test_without_models_that_do_not_recur(self, rows):
        """That r = 1 is missing is said."""
        assert read(rows).notes == ()
        (note,) = read(rows.filter(pl.col("num_recur") > 1)).notes
        assert note.startswith("No run has r = 1")


class TestFrontier:
    def test_planted_parabolas(self):
        """N*, L*, gaps to r = 1 and the growth of N* come back exactly; D* is what the budget buys at N*."""
        losses = lambda c, r: 3.5 - 0.2 * math.log10(c / 1e16) + 0.03 * math.log2(r)  # noqa: E731
        cells = frontier(read(by_parabolas(runs(), best_size, losses)))
        assert len(cells) == 12 and all(cell.from_parabola and not cell.reason for cell in cells)
        for cell in cells:
            assert cell.num_params == pytest.approx(best_size(cell.budget, cell.num_recur), rel=1e-6)
            assert cell.loss == pytest.approx(losses(cell.budget, cell.num_recur), abs=1e-9)
            assert cell.gap == pytest.approx(0.03 * math.log2(cell.num_recur), abs=1e-9)
            assert cell.error < 1e-9
            width = np.geomspace(*WIDTHS[:: len(WIDTHS) - 1], 2000)
            line = LoopedDesign().columns(cell.budget, {"num_recur": cell.num_recur}, width)
            tokens = np.interp(cell.num_params, line["num_params"], line["num_tokens"])
            assert cell.num_tokens == pytest.approx(tokens, rel=2e-3)
        assert [(order.rises, round(order.step, 9)) for order in orders(cells)] == [(True, 0.03)] * 3
        grown = growth(cells)
        assert [one.exponent for one in grown if one.column == "num_params"] == pytest.approx([0.3] * 4)
        assert all(one.error < 1e-6 and one.budgets == 3 for one in grown if one.column == "num_params")
        assert all(0.6 < one.exponent < 0.9 for one in grown if one.column == "num_tokens")

    def test_an_ordering_that_is_wrong(self):
        """Where r = 8 is planted 0.01 nats below r = 4 at one budget, that budget and no other is said."""
        wrong = lambda c, r: 3.5 + (0.05 if c == BUDGETS[1] and r == 8 else 0.03 * math.log2(r))  # noqa: E731
        cells = frontier(read(by_parabolas(runs(), best_size, wrong)))
        found = orders(cells)
        assert [order.rises for order in found] == [True, False, True]
        assert found[1].step == pytest.approx(-0.01, abs=1e-9)
        assert [(order.steps, order.resolved) for order in found] == [(3, 3), (3, 2), (3, 3)]

    def test_the_ordering_in_words(self, found):
        """One sentence, which says where the ordering breaks, and how sure of its steps the runs are."""
        least = min(found.orders, key=lambda order: order.step)
        clear = sum(order.resolved for order in found.orders)
        assert found.monotone and 0 < clear <= 9
        said = (
            f"rises with r at every budget; {clear} of the 9 steps from one r to the next are beyond twice "
            f"their standard error, the smallest is {least.step:.4f} ± {least.step_error:.4f} nats at C = "
            f"{least.budget:g}."
        )
        assert any(sentence.endswith(said) for sentence in sentences(found))
        broken = dataclasses.replace(found.orders[0], rises=False, step=-0.012)
        other = dataclasses.replace(found, orders=(broken, *found.orders[1:]))
        assert other.monotone is False
        assert any("it falls at C = 1e+16, by 0.0120 ±" in said for said in sentences(other))
        assert dataclasses.replace(found, orders=()).monotone is None

    @pytest.mark.parametrize(
        ("best", "bend", "side"),
        [(1e9, 0.1, "above the largest"), (1e4, 0.1, "below the smallest"), (6e6, -0.1, "do not rise")],
    )
    def test_a_minimum_outside_the_sizes(self, best, bend, side):
        """A parabola without a minimum among the sizes is flagged, and the best run stands for it."""
        cells = frontier(read(by_parabolas(runs(), lambda c, r: best, lambda c, r: 3.0, bend)))
        rows = by_parabolas(runs(), lambda c, r: best, lambda c, r: 3.0, bend)
        for cell in cells:
            mine = rows.filter((pl.col("budget") == cell.budget) & (pl.col("num_recur") == cell.num_recur))
            assert not cell.from_parabola and side in cell.reason
            assert cell.loss == mine["loss"].min()
            assert cell.num_params == mine.sort("loss")["num_params"][0]
        assert growth(cells) == ()

    def test_two_widths_have_no_parabola(self):
        """The best run stands for it; no scatter is known, so no errors."""
        cells = frontier(read(by_law(runs(widths=WIDTHS[:2]), 0.01)))
        assert all(cell.reason.startswith("2 size(s)") and cell.error is None for cell in cells)
        assert all(cell.gap is not None and cell.gap_error is None for cell in cells if cell.num_recur > 1)

    def test_the_best_run_is_the_mean_over_its_seeds(self):
        """A lucky seed is not the frontier."""
        rows = by_law(runs(widths=WIDTHS[:2], seeds=3), 0.05)
        means = rows.group_by("budget", "num_recur", "width").agg(pl.col("loss").mean())
        best = means.group_by("budget", "num_recur").agg(pl.col("loss").min()).sort("budget", "num_recur")
        assert [cell.loss for cell in frontier(read(rows))] == pytest.approx(best["loss"].to_list())

    def test_errors(self):
        """Minima of 200 grids scatter by the error that one of them states, to 25 % (each is known to 8 %
        from its 48 - 36 degrees of freedom pooled over the grids, and the scatter to 5 %)."""
        quiet = by_parabolas(runs(), best_size, lambda c, r: 3.0 + 0.03 * r)
        rng = np.random.default_rng(0)
        drawn = []
        for _ in range(200):
            noisy = quiet.with_columns(loss=quiet["loss"] + 0.005 * rng.standard_normal(len(quiet)))
            drawn.append([(cell.loss, cell.error) for cell in frontier(read(noisy)) if cell.from_parabola])
        complete = np.array([one for one in drawn if len(one) == 12])
        assert len(complete) > 150
        stated = np.sqrt((complete[:, :, 1] ** 2).mean())
        assert complete[:, :, 0].std(axis=0).mean() == pytest.approx(stated, rel=0.25)

    def test_without_r_1_there_is_no_gap(self):
        """Nothing is compared with an architecture that was not run."""
        cells = frontier(read(by_law(runs(recurrences=(2, 4)))))
        assert all(cell.gap is None for cell in cells) and all(order.rises for order in orders(cells))


class TestSizes:
    def test_the_accounting_is_read_off(self):
        """The grid's design gives the columns of the design that it was made by, also at other widths, and so
        the same optima."""
        grid = read(by_law(runs()))
        own, plan = LoopedDesign(), design(grid)
        for r in RECURRENCES:
            width = np.array([70.0, 200.0, 1000.0])
            one, other = (d.columns(1e18, {"num_recur": r}, width) for d in (own, plan))
            for name, values in one.items():
                np.testing.assert_allclose(other[name], values, rtol=1e-9)
        law = fit(LoopedLaw(), grid.columns, interval="none", starts=8)
        rows, grown = optima(law, plan, BUDGETS)
        for row, wanted in zip(rows, allocate(law, own, BUDGETS).rows(), strict=True):
            assert row["num_params"] == pytest.approx(wanted["num_params"], rel=1e-5)
            effective = row["num_once"] + row["num_recur"] ** PLANTED["phi"] * row["num_recurrent"]
            assert row["equivalent"] == pytest.approx(effective, rel=1e-6)
        assert {row["column"] for row in grown} >= {"num_params", "num_tokens"}

    def test_intervals(self, found):
        """Every best size has an interval, and an unlooped model of the same loss is larger than a looped one
        and as large as itself."""
        assert len(found.optima) == 12
        for row in found.optima:
            assert row["num_params_lower"] < row["num_params"] < row["num_params_upper"]
            assert row["equivalent_lower"] <= row["equivalent"] <= row["equivalent_upper"]
            looped = row["num_recur"] > 1
            assert (row["equivalent"] > 1.1 * row["num_params"]) == looped
            assert looped or row["equivalent"] == pytest.approx(row["num_params"])

    def test_counts_of_another_form(self, rows):
        """Where counts do not go with the width, no best sizes are given, and that is said."""
        odd = pl.when(pl.col("width") == 160).then(1.04).otherwise(1.0)
        found = analyse(rows.with_columns(flops=pl.col("flops") * odd), **QUICK)
        assert found.design is None and found.optima == ()
        assert any("No best sizes" in said for said in caveats(found))

    def test_a_single_width(self, rows):
        """Of an r that was run at one width nothing is known of others: no best sizes, with the reason."""
        one = rows.filter((pl.col("num_recur") < 8) | (pl.col("width") == 160))
        said = design(read(one))
        assert said == "r = 8 has a single width, so how its size goes with the width is not known."


class TestNoise:
    def test_planted(self):
        """The planted standard deviation lies in the interval from 48 cells of three seeds, which is +- 15 %
        wide; the cells' own differences are no noise."""
        found = noise(read(by_law(runs(seeds=3), 0.005, seed=3)))
        assert found.freedom == 96 and found.cells == 48
        assert found.interval[0] < 0.005 < found.interval[1] < 1.4 * found.interval[0]

    def test_some_cells_are_repeated(self):
        """Two seeds d apart at one cell: sd d / sqrt 2 with one degree of freedom."""
        once = by_law(runs())
        again = once[:1].with_columns(seed=pl.lit(7, once["seed"].dtype), loss=pl.col("loss") + 0.01)
        found = noise(read(pl.concat([once, again])))
        assert (found.freedom, found.cells) == (1, 1)
        assert found.sd == pytest.approx(0.01 / math.sqrt(2))

    @pytest.mark.parametrize("seeds", [True, False])
    def test_unknown(self, seeds, rows, found):
        """One seed, or no column of seeds: nothing is known, and that is said."""
        assert noise(read(rows if seeds else rows.drop("seed"))) is None
        assert any("how much of the residuals is noise is not known" in said for said in sentences(found))


class TestDelta:
    def test_two_grids(self, found, larger):
        """phi of 0.7 less 0.459 lies in the interval, above 0; the other way round everything is negated."""
        one, other = delta_phi(found, larger, **QUICK), delta_phi(larger, found, **QUICK)
        assert one.interval[0] < 0.7 - PLANTED["phi"] < one.interval[1] and one.interval[0] > 0
        assert one.positive > 0.999 and "worth more in the second grid" in one.sentence
        for grid in (found, larger):
            assert f"{grid.phi.estimate:.3f} [{grid.phi.interval[0]:.3f}" in one.sentence
        assert one.difference == -other.difference
        assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]))
        assert other.positive == pytest.approx(1 - one.positive, abs=1e-9)
        assert other.sentence.count("worth less in the second grid") == 2
        assert other.by_one_law.estimate == pytest.approx(-one.by_one_law.estimate, abs=1e-6)
        halves = [grid.phi.interval[1] - grid.phi.estimate for grid in (found, larger)]
        assert max(halves) < one.interval[1] - one.difference < sum(halves)

    def test_the_same_grid(self, found):
        """No difference, even odds, and that the runs are shared is said."""
        same = delta_phi(found, found, **QUICK)
        assert same.difference == 0 and same.positive == pytest.approx(0.5)
        assert same.interval[0] < 0 < same.interval[1] and same.shared == 48
        # Runs of r = 1 say the same whichever grid they are of: they count once.
        assert same.together.provenance.rows == 48 + 36
        assert same.by_one_law.estimate == pytest.approx(0, abs=1e-6)
        assert "not resolved" in same.sentence and "48 run(s) are in both grids" in same.sentence

    def test_many_cells_have_percentiles(self, found, larger):
        """Where both intervals are percentiles, so is that of the difference: it agrees with Welch's t here,
        replicates being nearly normal, to a quarter of its width (the tails of 60 replicates)."""
        many = [
            dataclasses.replace(
                grid,
                joint=(
                    dataclasses.replace(grid.free, fit=dataclasses.replace(grid.free.fit, few_freedom=None)),
                ),
            )
            for grid in (found, larger)
        ]
        one, few = delta_phi(*many, **QUICK), delta_phi(found, larger, **QUICK)
        width = few.interval[1] - few.interval[0]
        assert "percentiles" in one.method and one.positive == 1
        assert one.interval == pytest.approx(few.interval, abs=0.25 * width)

    def test_not_identified(self, found):
        """A grid whose fit is no optimum has no difference to another."""
        bad = dataclasses.replace(
            found.free, fit=dataclasses.replace(found.free.fit, status=Status.DEGENERATE)
        )
        broken = dataclasses.replace(found, joint=(bad,))
        with pytest.raises(ConfigError, match=r"phi of the second grid is not identified \(degenerate\)"):
            delta_phi(found, broken)

    def test_budgets_that_both_have(self, found):
        """A grid of the lower budgets is compared with those of the other; two grids need two in common."""
        lower, single = (by_law(runs(BUDGETS[:n]), 0.005, seed=2, phi=0.7) for n in (2, 1))
        other = analyse(lower, **QUICK)
        delta = delta_phi(found, other, **QUICK)
        assert delta.budgets == BUDGETS[:2] and "over the 2 budgets" in delta.sentence
        first, second = (one.estimates["phi"] for one in (delta.first, delta.second))
        assert second == other.phi.estimate and first != found.phi.estimate
        one = dataclasses.replace(found, runs=read(single).runs)
        with pytest.raises(ConfigError, match=r"the two grids have 1 budget\(s\) in common"):
            delta_phi(found, one)

    @pytest.mark.slow
    def test_together(self):
        """One law for two grids with the same runs at r = 1: of 20 draws at least 16 intervals hold the
        planted difference (with 95 % each, fewer have a chance of 0.3 %; in 100 draws 98 % did); they are
        less than two thirds as wide as two laws have them."""
        hits, shares = 0, []
        for seed in range(20):
            one = by_law(runs(), 0.01, seed)
            two = by_law(runs(), 0.01, seed + 100, phi=PLANTED["phi"] + 0.1)
            two = pl.concat([one.filter(pl.col("num_recur") == 1), two.filter(pl.col("num_recur") > 1)])
            grids = [read(table) for table in (one, two)]
            options = {
                "group": CELLS,
                "objective": Huber(1e-3),
                "resamples": 40,
                "starts": 4,
                "interval": "cluster",
            }
            low, high = _together(*grids, options).intervals["delta_phi"]
            hits += low <= 0.1 <= high
            if seed < 3:
                ends = [fit(LoopedLaw(), grid.columns, **options).intervals["phi"] for grid in grids]
                shares.append((high - low) / math.hypot(*(end[1] - end[0] for end in ends)))
        assert hits >= 16 and max(shares) < 2 / 3


class TestTable:
    def test_the_order_of_rows(self, rows, found):
        """Permuted rows give the same analysis to the last bit."""
        shuffled = analyse(rows.sample(fraction=1, shuffle=True, seed=5), **QUICK)
        assert analysis_json(shuffled) == analysis_json(found)

    def test_diverged_rows(self, rows, found):
        """Rows of status diverged, and rows without a finite loss, are left out, counted and said."""
        gone = pl.concat([rows[:3]] * 1).with_columns(
            seed=pl.lit(9, rows["seed"].dtype),
            loss=pl.Series([None, math.nan, 5.0]),
            status=pl.Series(["diverged", "done", "diverged"]),
        )
        grid = read(pl.concat([gone, rows]))
        assert (
            grid.runs == found.runs and grid.diverged == 3 and grid.notes == ("3 diverged run(s) left out.",)
        )

    def test_injection(self, rows):
        """Of several injections one is chosen, with the runs of r = 1."""
        added = rows.filter(pl.col("num_recur") > 1).with_columns(injection=pl.lit("additive"))
        both = pl.concat([rows, added])
        with pytest.raises(
            ConfigError, match=r"several injections \(additive, linear\).* --injection additive"
        ):
            read(both)
        assert read(both, "linear").runs == read(rows).runs
        assert {run.injection for run in read(both, "additive").runs} == {None, "additive"}
        with pytest.raises(ConfigError, match="injection 'liner' is that of no run: did you mean 'linear'"):
            read(both, "liner")
        with pytest.raises(ConfigError, match="the table has no column 'injection'"):
            read(rows.drop("injection"), "linear")

    @pytest.mark.parametrize("column", ["budget", "width", "num_params", "num_tokens", "loss"])
    def test_missing_columns(self, rows, column):
        """A column that is not there is named, with the way to name it."""
        with pytest.raises(ConfigError, match=f"'{column}' is not in the table: it has .*--map {column}=COL"):
            analyse(rows.drop(column))

    def test_bad_tables(self, rows):
        """What is no grid is refused in a sentence."""
        zero = rows.with_columns(width=pl.when(pl.int_range(pl.len()) == 4).then(0.0).otherwise("width"))
        with pytest.raises(BadTable, match="row 5: column 'width' is 0"):
            read(zero)
        with pytest.raises(
            ConfigError, match="num_recur is 4 in every run: what a recurrence is worth shows"
        ):
            read(rows.filter(pl.col("num_recur") == 4))
        half = pl.when(pl.int_range(pl.len()) == 6).then(2.5).otherwise("num_recur")
        with pytest.raises(BadTable, match=r"row 7: num_recur is 2\.5: a block is run a whole number"):
            read(rows.with_columns(num_recur=half))
        with pytest.raises(ConfigError, match="no run is left: the table is empty, or all its 48 rows div"):
            read(rows.with_columns(loss=pl.lit(None, pl.Float64)))
        two = "two runs with budget 1e[+]16, num_recur 1, width 96, seed 0 and different num_tokens, loss:"
        with pytest.raises(ConfigError, match=two):
            again = rows[:1].with_columns(pl.col("loss", "num_tokens") * 1.01)
            read(pl.concat([rows, again]))
        cut = pl.when((pl.col("num_recur") == 4) & (pl.col("width") > 200)).then(2).otherwise(None)
        with pytest.raises(ConfigError, match=r"of num_recur 4 have several backprop_recurrences \(2, 4\)"):
            read(rows.with_columns(backprop_recurrences=cut))
        with pytest.raises(ConfigError, match="the joint law cannot be fitted: .* need at least"):
            analyse(rows[:6].vstack(rows[4:5].with_columns(num_recur=pl.lit(2.0), seed=pl.lit(4, pl.Int32))))

    @pytest.mark.parametrize("value", [0.0, -1.0, 1.5])
    def test_impossible_truncation(self, rows, value):
        """Recurrences with gradient are counted from 1; blank and nan mean all."""
        column = pl.when(pl.col("num_recur") == 8).then(pl.lit(value)).otherwise(None)
        with pytest.raises(
            BadTable, match=rf"row \d+: backprop_recurrences is {value:g}: it is a whole number"
        ):
            read(rows.with_columns(backprop_recurrences=column))
        for nothing in (None, math.nan):
            assert (
                read(rows.with_columns(backprop_recurrences=pl.lit(nothing, pl.Float64))).runs
                == read(rows).runs
            )

    @pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
    def test_impossible_flops(self, rows, value):
        """FLOPs spent are a number above 0, or blank: then the budget stands for them."""
        spent = pl.when(pl.int_range(pl.len()) == 4).then(pl.lit(value)).otherwise("flops")
        with pytest.raises(BadTable, match=rf"row 5: flops is {value:g}"):
            read(rows.with_columns(flops=spent))
        assert read(rows.with_columns(flops=pl.lit(None, pl.Float64))).runs == read(rows).runs

    def test_rows_that_repeat_count_once(self, rows):
        """A grid and a case study joined have the runs of r = 1 twice; with the injection chosen they are
        those of the case study."""
        lanes = rows.with_columns(injection=pl.when(pl.col("num_recur") > 1).then(pl.lit("hyperconnections")))
        joined = read(pl.concat([rows, lanes]), "hyperconnections")
        assert joined.runs == read(lanes).runs
        assert joined.notes == ("12 row(s) repeat another in all that is used here: they count once.",)

    def test_lanes(self, rows):
        """Models of two and of four lanes are different grids, whatever their seeds; r = 1 has none."""
        looped = pl.col("num_recur") > 1
        two = rows.with_columns(lanes=pl.when(looped).then(2))
        four = rows.with_columns(lanes=pl.when(looped).then(4), seed=pl.lit(1, rows["seed"].dtype))
        assert read(two).runs == read(rows).runs
        with pytest.raises(ConfigError, match="column 'lanes' differs between runs: 2 .* and 4 "):
            read(pl.concat([two, four]))

    @pytest.mark.parametrize(("name", "values"), [("context", (64, 128)), ("corpus_hash", ("a", None))])
    def test_two_grids_in_one(self, rows, name, values):
        """Runs that differ in what a grid holds fixed are refused, with a run of each kind."""
        mixed = pl.when(pl.col("width") == 160).then(pl.lit(values[1])).otherwise(pl.lit(values[0]))
        told = rf"column '{name}' differs between runs: .*width 96\) and .*width 160\); what that changes"
        with pytest.raises(ConfigError, match=told):
            read(rows.with_columns(mixed.alias(name)))
        assert read(rows.with_columns(pl.lit(values[0]).alias(name))).runs == read(rows).runs

    def test_odd_counts(self, rows):
        """FLOPs off the budget, and a num_params that is something else, are said."""
        more = rows.with_columns(
            flops=pl.col("budget") * pl.when(pl.col("width") == 96).then(1.2).otherwise(1.0),
            num_params=pl.col("num_params") * 1.5,
        )
        off, other = read(more).notes
        assert off.startswith("12 run(s) spent FLOPs") and "one 1.20 times as many" in off
        assert other.startswith("num_params of 48 run(s) is not num_once + num_recurrent")


def test_json(found, larger):
    """Strict JSON, with fits that can be read back, all but their replicates."""
    tree = analysis_json(found)
    assert json.loads(json.dumps(tree, allow_nan=False)) == tree
    again = Fit.from_json(json.dumps(tree["joint"][0]["fit"]))
    assert again == dataclasses.replace(found.free.fit, replicates=())
    assert tree["phi"]["estimate"] == found.phi.estimate and tree["monotone"] is True
    assert len(tree["runs"]) == 48 and tree["noise"] is None
    delta = analysis_json(delta_phi(found, larger, **QUICK))
    again = Fit.from_json(json.dumps(delta["first"]))
    assert again == dataclasses.replace(found.free.fit, replicates=())


class TestFitOfASpec:
    def test_looped(self, rows, found):
        """What [fit] of language models asks is the joint law: the answer is that of the analysis."""
        question = question_of(FitSpec.of({}, "lm", "fit"))
        options = {**question.options, **QUICK}
        [answer] = answers(rows, dataclasses.replace(question, options=options))
        assert answer.fit.estimates == pytest.approx(found.free.fit.estimates)
        plain = as_json(answer)
        assert plain["phi"] == pytest.approx(found.phi.estimate)
        assert plain["phi_interval"] == pytest.approx(list(found.phi.interval)) and "alpha" not in plain

    def test_by_injection(self, rows):
        """`by` tells fits apart; one that cannot be made has its reason, under the law's own names."""
        question = question_of(FitSpec.of({"by": ["injection"], "group": []}, "lm", "fit"))
        question = dataclasses.replace(question, options={**question.options, "interval": "none"})
        few = rows.with_columns(injection=pl.when(pl.col("width") < 100).then(pl.lit("a")).otherwise(None))
        first, second = answers(few.filter((pl.col("width") > 100) | (pl.col("num_recur") == 1)), question)
        assert first.fit is None and "need at least" in first.problem
        assert as_json(first)["phi"] is None and second.fit is not None

    def test_depth(self):
        """That of toy students is the depth law with seeds of their own, as it was."""
        question = question_of(FitSpec.of({"floor": 0}, "toy", "fit"))
        assert question.law.name == "depth" and question.options == {"fix": {"L_0": 0.0}}
        assert (question.by, question.group) == (("teacher",), ("seed",))


class TestCommand:
    def test_everything(self, call, tmp_path, rows, found):
        """Tables and answers on standard output, what is not known on the other; JSON and figure."""
        rows.write_csv(tmp_path / "one.csv")
        by_law(runs(), 0.005, seed=2, phi=0.7).write_csv(tmp_path / "two.csv")
        out = tmp_path / "out"
        quick = ("--resamples", "40", "--starts", "4")
        files = ("--json", out / "a.json", "--plot", out / "a.png")
        done = call("iso-depth", tmp_path / "one.csv", "--against", tmp_path / "two.csv", *quick, *files)
        assert done.status == 0, done.err
        low, high = found.phi.interval
        assert f"phi = {found.phi.estimate:.3f} [{low:.3f}, {high:.3f}]" in done.out
        for text in ("Each r: loss = ", "phi = 1", "Frontier", "N at r = 1", "worth more in the second grid"):
            assert text in done.out
        assert {path.name for path in out.iterdir()} == {"a.json", "a.png", "a.pdf"}
        tree = json.loads((out / "a.json").read_text())
        assert tree["delta_phi"]["positive"] > 0.999 and tree["against"]["phi"]["estimate"] > 0.6
        assert tree["joint"][0]["fit"]["provenance"]["source"]["table"] == "one.csv"

    def test_two_injections_of_one_table(self, call, tmp_path, rows):
        """--against-injection compares what one table holds; exit status and answers as with two tables."""
        other = by_law(runs(), 0.005, seed=2, phi=0.7)
        other = other.filter(pl.col("num_recur") > 1).with_columns(injection=pl.lit("additive"))
        pl.concat([rows, other]).write_csv(tmp_path / "both.csv")
        quick = ("--resamples", "40", "--starts", "4")
        chosen = ("--injection", "linear", "--against-injection", "additive")
        done = call("iso-depth", tmp_path / "both.csv", *chosen, *quick)
        assert done.status == 0 and "worth more in the second grid" in done.out, done.err

    def test_what_is_known_of_each_grid_is_not_lost(self, call, tmp_path, rows):
        """Where there is no difference, each grid is said and written all the same, and the status is 1."""
        rows.write_csv(tmp_path / "one.csv")
        by_law(runs((1e17, 3e17, 1e18)), 0.005, seed=2).write_csv(tmp_path / "two.csv")
        quick = ("--resamples", "40", "--starts", "4", "--json", tmp_path / "a.json")
        done = call("iso-depth", tmp_path / "one.csv", "--against", tmp_path / "two.csv", *quick)
        assert done.status == 1 and "the two grids have 1 budget(s) in common" in done.err.splitlines()[-1]
        assert "phi = " in done.out
        tree = json.loads((tmp_path / "a.json").read_text())
        assert tree["against"]["phi"]["identified"] and "delta_phi" not in tree

    def test_diverged_runs_are_missed(self, call, tmp_path, rows):
        """A grid that lacks runs is said, and ends with 1, as its fit does."""
        rows.with_columns(
            status=pl.when(pl.int_range(pl.len()) == 2).then(pl.lit("diverged")).otherwise("status")
        ).write_csv(tmp_path / "one.csv")
        done = call("iso-depth", tmp_path / "one.csv", "--resamples", "40", "--starts", "4")
        assert done.status == 1 and "phi = " in done.out
        assert done.err.splitlines()[-1].endswith("1 diverged run(s) are missing from it")

    def test_fit_says_the_same(self, call, tmp_path, rows, found):
        """`fit --law looped` has the objective, the clusters and so the phi of `iso-depth`; of runs that are
        no one grid it says in what they differ."""
        rows.write_csv(tmp_path / "one.csv")
        options = ("--law", "looped", "--resamples", "40", "--starts", "4", "--json", tmp_path / "fit.json")
        assert call("fit", tmp_path / "one.csv", *options).status == 0
        saved = Fit.from_json((tmp_path / "fit.json").read_text())
        assert saved.estimates == pytest.approx(found.free.fit.estimates)
        assert saved.provenance.group_columns == CELLS
        lanes = rows.filter(pl.col("num_recur") > 1).with_columns(injection=pl.lit("additive"))
        pl.concat([rows, lanes]).with_columns(context=pl.lit(64)).write_csv(tmp_path / "both.csv")
        said = call("fit", tmp_path / "both.csv", *options).err
        assert "rows of different injection are fitted together: name these in by" in said

    def test_wrong_calls(self, call, tmp_path, rows):
        """What cannot be analysed ends with 2 and a sentence."""
        path = tmp_path / "table.csv"
        done = call("iso-depth", path, "--objective", "squares", "--delta", "1")
        assert done.status == 2 and "squares has no delta" in done.err
        rows.drop("budget").write_csv(path)
        done = call("iso-depth", path)
        assert done.status == 2 and "name the column that holds it: --map budget=COLUMN" in done.err
        rows.with_columns(loss=pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise("loss")).write_csv(
            path
        )
        done = call("iso-depth", path)
        assert done.status == 2 and "row 3 (line 4): column 'loss' is blank" in done.err
