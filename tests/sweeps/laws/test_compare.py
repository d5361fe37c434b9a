"""Comparison of laws: the wrong one is rejected and predicts worse, the right one is not, and no choice of
order or units matters.
"""

import math

import numpy as np
import pytest
from scipy import stats

from sweeps.laws import ChinchillaLaw, DepthLaw, Huber, LogSquares, LoopedLaw, OwnLaw, Squares, fit
from sweeps.laws._compare import Candidate, _difference, compare
from tests.sweeps.laws.looped_design import looped_table

FREE = Candidate("phi free", LoopedLaw())
NONE = Candidate("phi = 0", LoopedLaw(), fix={"phi": 0})
FULL = Candidate("phi = 1", LoopedLaw(), fix={"phi": 1})
TRUE = Candidate("phi = 0.459", LoopedLaw(), fix={"phi": 0.459})
DEPTH = np.array([3.0, 4, 6, 8, 12, 16])


def _power(groups: int, seed: int = 0, noise: float = 0.03, floor: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(groups), DEPTH.size)
    level = np.exp(rng.standard_normal(groups))[label]
    depth = np.tile(DEPTH, groups)
    loss = (level * depth**-1.3 + floor) * np.exp(noise * rng.standard_normal(label.size))
    return {"depth": depth, "loss": loss, "seed": label}


@pytest.mark.parametrize("objective", [LogSquares(), Squares(), Huber(1e-3)])
def test_phi_of_neither_0_nor_1_is_rejected(objective: LogSquares | Squares | Huber) -> None:
    """116 runs with phi = 0.459 and noise of 0.01 nats reject phi = 0 and phi = 1, in the ratio test and in
    cross-validation, whatever the objective."""
    found = compare([FREE, NONE, FULL], looped_table(0.01, 0), objective=objective)
    assert found.best.candidate is FREE
    assert [(t.narrow, t.wide, t.freedom[0]) for t in found.nested] == [
        ("phi = 0", "phi free", 1),
        ("phi = 1", "phi free", 1),
    ]
    for test in found.nested:
        assert test.rejected and test.p < 1e-10
    for compared in found.compared[1:]:
        assert found.worse(compared)
        assert compared.rms > 1.5 * found.best.rms


@pytest.mark.slow
@pytest.mark.parametrize("objective", [LogSquares(), Huber(1e-3)])
def test_the_truth_is_rejected_no_more_often_than_it_should(objective: LogSquares | Huber) -> None:
    """Of 60 tables the true phi is rejected in about 3; 9 or more have a chance of 0.3 % at 5 %."""
    rejected = 0
    for seed in range(60):
        found = compare([FREE, TRUE], looped_table(0.01, seed), objective=objective, folds=2, starts=4)
        rejected += found.nested[0].rejected
    assert rejected < 9


def test_least_squares_gives_the_f_test() -> None:
    """F = ((S_0 - S_1) / q) / (S_1 / nu), from the objectives of the two fits; p from F(q, nu)."""
    table = looped_table(0.01, 3)
    both = Candidate("both", LoopedLaw(), fix={"phi": 0.459, "beta": 0.369})
    found = compare([both, TRUE, FREE], table)
    by_name = {(t.narrow, t.wide): t for t in found.nested}
    assert set(by_name) == {("both", "phi = 0.459"), ("both", "phi free"), ("phi = 0.459", "phi free")}
    for (narrow, wide), test in by_name.items():
        fits = {c.candidate.name: c.fit for c in found.compared}
        q = len(fits[wide].free) - len(fits[narrow].free)
        nu = fits[wide].degrees_of_freedom
        f = (fits[narrow].objective - fits[wide].objective) / q / (fits[wide].objective / nu)
        assert test.statistic == pytest.approx(f, rel=1e-6)
        assert test.p == pytest.approx(float(stats.f.sf(f, q, nu)), rel=1e-5)
    assert found.rows()[0]["inside"] == "phi free"


@pytest.mark.parametrize("objective", [LogSquares(), Huber(2e-3)])
def test_a_value_is_rejected_where_the_profile_ends(objective: LogSquares | Huber) -> None:
    """At an end of the 95 % profile interval of phi p is 5 %, to the 0.2 % of the height that ends are found
    to.
    """
    table = looped_table(0.01, 1)
    low, high = fit(LoopedLaw(), table, objective=objective, interval="profile").intervals["phi"]
    ends = [Candidate(str(end), LoopedLaw(), fix={"phi": end}) for end in (low, high)]
    for test in compare([FREE, *ends], table, objective=objective, folds=2).nested:
        assert test.p == pytest.approx(0.05, rel=0.01)


def test_known_noise_gives_chi_square() -> None:
    """With noise known the rise of the sum of squares over its variance is chi-square with q degrees of
    freedom.
    """
    table = looped_table(0.0, 0)
    noise = 0.004
    table["loss"] *= np.exp(noise * np.random.default_rng(1).standard_normal(116))
    found = compare([FREE, TRUE], table, noise=noise)
    objective = [c.fit.objective for c in found.compared]
    rise = (objective[1] - objective[0]) * 116 / noise**2
    assert found.nested[0].p == pytest.approx(float(stats.chi2.sf(rise, 1)), rel=1e-6)
    assert math.isinf(found.nested[0].freedom[1])


def test_held_out_errors_are_those_of_fits_without_the_fold() -> None:
    """Leaving out one group at a time is fitting without it and predicting it, row by row."""
    table = looped_table(0.01, 2)
    table["cell"] = np.array([f"{flops:.3g}" for flops in table["flops"]])
    found = compare([FREE, FULL], table, group="cell", folds=100)
    assert (found.folds, found.units, found.by) == (6, 6, "groups")
    squares = np.empty(116)
    for cell in set(table["cell"]):
        out = table["cell"] == cell
        partial = fit(
            LoopedLaw(), {name: v[~out] for name, v in table.items()}, group=None, interval="none", starts=16
        )
        at = [table[name][out] for name in LoopedLaw().columns]
        squares[out] = np.log(partial.predict(*at) / table["loss"][out]) ** 2
    assert found.compared[0].held_out == pytest.approx(squares.mean(), rel=1e-6)
    assert found.compared[0].rms == pytest.approx(math.sqrt(squares.mean()), rel=1e-6)


def test_the_difference_has_the_standard_error_of_a_paired_mean() -> None:
    """Over rows it is the standard deviation of differences over sqrt(n), over groups of equal size that of
    the groups' means over sqrt(G); weights in any unit; and the best candidate differs from itself by 0."""
    rng = np.random.default_rng(0)
    difference, group = rng.standard_normal(60), np.repeat(np.arange(12), 5)
    rows, groups = (_difference(difference, np.full(60, 7.0), unit) for unit in (np.arange(60), group))
    means = difference.reshape(12, 5).mean(1)
    assert rows == pytest.approx((difference.mean(), difference.std(ddof=1) / math.sqrt(60)))
    assert groups == pytest.approx((difference.mean(), means.std(ddof=1) / math.sqrt(12)))
    found = compare([FREE, FULL], looped_table(0.01, 2), folds=2)
    assert (found.best.worse, found.best.error) == (0.0, 0.0)


def test_laws_that_do_not_contain_each_other_are_compared_by_held_out_error() -> None:
    """Of the looped law and one of unique parameters alone, for looped data, the first predicts better; there
    is no ratio test between them."""
    table = looped_table(0.01, 0)
    table["num_params"] = table["num_once"] + table["num_recurrent"]
    own = OwnLaw(
        "E + A * num_params**-alpha * num_recur**-gamma + B * num_tokens**-beta",
        ("num_params", "num_recur", "num_tokens"),
    )
    found = compare([Candidate("unique", ChinchillaLaw()), Candidate("own", own), FREE], table)
    assert found.nested == () and found.best.candidate is FREE
    assert found.worse(found.compared[0]) and found.rows()[0]["inside"] is None


def test_levels_of_groups_leave_out_rows() -> None:
    """A group with a level of its own cannot be predicted unseen: rows are left out, and the true floor of 0
    is tested with the groups' degrees of freedom."""
    zero, free = Candidate("no floor", DepthLaw(), fix={"L_0": 0}), Candidate("floor", DepthLaw())
    found = compare([zero, free], _power(4))
    assert found.by == "rows" and found.units == 24
    assert found.compared[0].rms < 0.06  # noise of 0.03; without levels it is near 1
    assert found.nested[0].freedom == (1, 24 - 4 - 2)
    assert not found.nested[0].rejected
    far = compare([zero, free], _power(4, floor=0.1))
    assert far.best.candidate is free and far.worse(far.compared[0])


def test_order_of_rows_and_units_do_not_matter() -> None:
    """Shuffled rows give the same folds and numbers; tokens in billions change nothing but amplitudes."""
    table = looped_table(0.01, 0)
    one = compare([FREE, FULL], table)
    order = np.random.default_rng(0).permutation(116)
    shuffled = {name: column[order] for name, column in table.items()}
    shuffled["num_tokens"] = shuffled["num_tokens"] / 1e9
    other = compare([FREE, FULL], shuffled)
    for a, b in zip(one.compared, other.compared, strict=True):
        assert a.held_out == pytest.approx(b.held_out, rel=1e-6)
        assert a.error == pytest.approx(b.error, rel=1e-6)
    assert one.nested[0].statistic == pytest.approx(other.nested[0].statistic, rel=1e-6)


def test_rows_and_sentences_say_the_same() -> None:
    """A flat dict for each candidate with the same columns, and words of each verdict."""
    found = compare([FREE, NONE], looped_table(0.01, 0))
    rows = found.rows()
    assert rows[0].keys() == rows[1].keys() and [row["best"] for row in rows] == [True, False]
    assert (rows[1]["free"], rows[1]["degrees_of_freedom"], rows[1]["rejected"]) == (5, 111, True)
    said = found.sentences()
    assert said[0].startswith("phi free has the lowest held-out error") and "5 folds over 116 rows" in said[0]
    assert ", worse (difference" in said[1]
    assert said[2].startswith("phi = 0 within phi free: rejected at 5 % (F = ")


def test_a_fit_without_an_answer_has_no_test() -> None:
    """Where r does not vary phi is not determined: the free candidate has no held-out error."""
    table = looped_table(0.01, 0)
    one = {name: column[table["num_recur"] == 1] for name, column in table.items()}
    found = compare([FREE, NONE], one)
    assert math.isnan(found.compared[0].held_out) and found.best.candidate is NONE
    assert not found.nested[0].rejected and "no test, the fits are" in found.nested[0].reason
    assert any("could not be fitted in every fold" in sentence for sentence in found.sentences())


def test_refusals() -> None:
    """Every message names the argument and the remedy."""
    table = looped_table(0.01, 0)
    with pytest.raises(ValueError, match="candidates: 1 given, but a comparison needs at least two"):
        compare([FREE], table)
    with pytest.raises(ValueError, match="two are called 'phi free'"):
        compare([FREE, FREE], table)
    with pytest.raises(ValueError, match="folds: 1 is less than 2"):
        compare([FREE, NONE], table, folds=1)
    with pytest.raises(ValueError, match="candidate 'unique': column 'num_params' is missing"):
        compare([FREE, Candidate("unique", ChinchillaLaw())], table)
    with pytest.raises(ValueError, match="candidate 'wrong': 'psi' is no parameter"):
        compare([FREE, Candidate("wrong", LoopedLaw(), fix={"psi": 0})], table)
