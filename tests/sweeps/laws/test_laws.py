"""Every law of `LAWS`, by the same code: derivatives, planted parameters, and what must not change a fit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.laws import LAWS, Fit, Huber, Law, LogSquares, Objective, OwnLaw, Squares, Status, fit
from sweeps.laws._problem import build
from sweeps.laws._table import read

OWN = OwnLaw("E + A * exp(-rate * depth) + B * width**-b", ("depth", "width"))
# Not the one that bends: drawn at random it is mostly a straight line. test_crossover.py holds it to them.
EVERY = [*(law() for name, law in LAWS.items() if name != "crossover"), OWN]
every = pytest.mark.parametrize("law", EVERY, ids=[law.name for law in EVERY])
OBJECTIVES = st.sampled_from([LogSquares(), Squares(), Huber(1e-3), Huber(1e-3, 10.0), Huber(0.1)])
RANGES = {
    "depth": (2.0, 64.0),
    "width": (64.0, 8192.0),
    "num_tokens": (1e9, 1e12),
    "num_params": (1e7, 1e10),
    "flops": (1e18, 1e22),
    "num_once": (1e7, 5e8),
    "num_recurrent": (1e7, 1e9),
}


def _columns(law: Law, rows: int = 40) -> dict[str, np.ndarray]:
    """Spread evenly on log axes, every column in an order of its own."""
    rng = np.random.default_rng(7)
    out = {}
    for name in law.columns:
        if name == "num_recur":
            out[name] = rng.permutation(np.resize([1.0, 2, 4, 8], rows))
        else:
            out[name] = rng.permutation(np.geomspace(*RANGES[name], rows))
    return out


def _loss(law: Law, values: dict[str, float], columns: dict[str, np.ndarray]) -> np.ndarray:
    """The law written out by Python itself."""
    return eval(law.formula, {"__builtins__": {}, "exp": np.exp}, columns | values)  # of the laws' own text


def _planted(law: Law, columns: dict[str, np.ndarray], draw: st.DataObject) -> dict[str, float]:
    """Exponents in the range where starts are drawn, but 0.1 at least from 0, where a term is a constant;
    each amplitude such that its term is a tenth to three times the floor of 2 at a typical row."""
    values: dict[str, float] = {}
    for p in law.parameters:
        if p.likely is not None:
            low, high = max(p.likely[0], 0.1), min(p.likely[1], 1.2)
            values[p.name] = draw.draw(st.floats(low, high), label=p.name)
        elif p.name == "rate":
            values[p.name] = draw.draw(st.floats(0.02, 0.5), label=p.name)
    for p in law.parameters:
        if p.name in ("E", "L_0"):
            values[p.name] = 2.0
        elif p.logarithmic:
            alone = {q.name: 0.0 for q in law.parameters if q.logarithmic or q.name in ("E", "L_0")}
            term = _loss(law, values | alone | {p.name: 1.0}, columns)
            share = draw.draw(st.floats(0.1, 3), label=p.name)
            values[p.name] = 2 * share / math.exp(float(np.log(term).mean()))
    return values


@every
@settings(max_examples=7)
@given(data=st.data(), chosen=OBJECTIVES)
def test_planted_parameters_are_recovered(law: Law, data: st.DataObject, chosen: Objective) -> None:
    """Without noise every parameter comes back to 1e-6, whatever the objective. Losses have 16 digits and the
    worst-conditioned of these laws loses 6 of them, so 1e-6 has a margin of ten thousand."""
    columns = _columns(law)
    values = _planted(law, columns, data)
    table = columns | {"loss": _loss(law, values, columns)}
    found = fit(law, table, objective=chosen, interval="none")
    assert found.status is Status.CONVERGED
    for name, value in values.items():
        assert found.estimates[name] == pytest.approx(value, rel=1e-6), name


@every
@settings(max_examples=10)
@given(data=st.data(), chosen=OBJECTIVES)
def test_derivatives_are_exact(law: Law, data: st.DataObject, chosen: Objective) -> None:
    """The derivative of each residual by each coordinate is the central difference over h = 1e-5 of a large
    change, to its own error: h^2 times third derivatives, of the order of (log of a column = 50)^3 at most of
    the value, is 1e-5, relative to the row's largest derivative; rounding over h is 1e-10."""
    columns = _columns(law, 12)
    values = _planted(law, columns, data)
    rows = read(law, columns | {"loss": 1.1 * _loss(law, values, columns)})
    problem = build(law, law.parameters, rows, chosen, ())
    theta = np.array([problem.parameter(name).coordinate(values[name]) for name in problem.free])
    point = problem.at(theta[None])
    for k, name in enumerate(problem.free):
        h = 1e-5 * (values[name] if name == "rate" else 1.0)
        moved = problem.at(theta + h * np.array([[1.0], [-1.0]]) * (np.arange(theta.size) == k))
        expected = (moved.residual[0] - moved.residual[1]) / (2 * h)
        size = np.abs(expected).max()
        np.testing.assert_allclose(point.jacobian[0, k], expected, rtol=0, atol=1e-6 * size + 1e-9)


def _noisy(law: Law, seed: int = 0, noise: float = 0.01) -> dict[str, np.ndarray]:
    columns = _columns(law)
    values = {p.name: 0.6 if p.likely is None or p.likely[0] < 0.6 else 1.0 for p in law.parameters}
    values |= {"E": 2.0, "L_0": 2.0, "rate": 0.1}
    if law.name == "compute":
        values["alpha"] = 0.2
    amplitudes = [p.name for p in law.parameters if p.logarithmic]
    for name in amplitudes:
        alone = dict.fromkeys([*amplitudes, "E", "L_0"], 0.0)
        term = _loss(law, values | alone | {name: 1.0}, columns)
        values[name] = 1 / math.exp(float(np.log(term).mean()))
    loss = _loss(law, values, columns)
    return columns | {"loss": loss * np.exp(noise * np.random.default_rng(seed).standard_normal(loss.size))}


@every
@settings(max_examples=4)
@given(data=st.data(), chosen=OBJECTIVES)
def test_units_move_only_amplitudes(law: Law, data: st.DataObject, chosen: Objective) -> None:
    """Multiplying each column and the loss by any factor from 1e-6 to 1e6 leaves every exponent where it was,
    to 1e-7, and multiplies the floor by the factor of the loss. (The loss enters squares in its own unit, and
    a sum of counts, as in the looped law, has one unit for both.)"""
    table = _noisy(law)
    factors = {name: 10 ** data.draw(st.floats(-6, 6), label=name) for name in (*law.columns, "loss")}
    if "num_once" in factors:
        factors |= {"num_once": factors["num_recurrent"], "num_recur": 1.0}
    other = {name: factors.get(name, 1.0) * column for name, column in table.items()}
    a, b = (fit(law, t, objective=chosen, interval="none", starts=12) for t in (table, other))
    assert a.status is Status.CONVERGED and b.status is Status.CONVERGED
    for p in law.parameters:
        before, after = a.estimates[p.name], b.estimates[p.name]
        if p.name in ("E", "L_0"):
            assert after == pytest.approx(factors["loss"] * before, rel=1e-6)
        elif p.name == "rate":
            assert after == pytest.approx(before / factors["depth"], rel=1e-6)
        elif not p.logarithmic:
            assert after == pytest.approx(before, abs=1e-7)
    scale = factors["loss"] ** 2 if chosen == Squares() else 1.0
    assert b.objective == pytest.approx(scale * a.objective, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_a_shift_does_not_matter_either(unit: float) -> None:
    """A parameter of one's own law that has a unit, such as n0 in (n + n0)**-a, moves with it over eighteen
    decades; all others stay."""
    n = np.array([1.0, 2, 3, 5, 8, 13, 21, 40])
    found = fit(
        OwnLaw("E + A * (n + n0)**-a", ("n",)),
        {"n": unit * n, "loss": 1 + 3 * (n + 2) ** -1.2},
        interval="none",
    )
    assert found.status is Status.CONVERGED
    assert found.estimates["a"] == pytest.approx(1.2, rel=1e-6)
    assert found.estimates["n0"] == pytest.approx(2 * unit, rel=1e-6)


@every
def test_the_order_of_rows_does_not_change_a_bit(law: Law) -> None:
    """Rows in any order give the same fit to the last bit, intervals by refits included."""
    table = _noisy(law)
    order = np.random.default_rng(1).permutation(40)
    shuffled = {name: column[order] for name, column in table.items()}
    a, b = (fit(law, t, resamples=40, starts=16) for t in (table, shuffled))
    told = [[f.code for f in found.diagnosis] for found in (a, b)]
    assert told[0] == told[1]
    without = [_without_diagnosis(found) for found in (a, b)]
    assert without[0] == without[1]


def _without_diagnosis(found: Fit) -> tuple:
    """What may name a row of the table is left out."""
    return found.parameters, found.objective, found.covariance, found.replicates, found.provenance


@every
def test_calling_twice_gives_the_same_bits(law: Law) -> None:
    """Starts, threads and refits leave nothing to chance."""
    first, second = (fit(law, _noisy(law), resamples=40, starts=16).to_json() for _ in range(2))
    assert first == second


@every
def test_a_row_twice_is_a_weight_of_two(law: Law) -> None:
    """Weights count rows: those of 1, 2 and 3 give the optimum of the table that repeats rows so often."""
    table = _noisy(law)
    times = np.resize([1, 2, 3, 1], 40)
    repeated = {name: np.repeat(column, times) for name, column in table.items()}
    a = fit(law, table | {"w": times}, weights="w", interval="none")
    b = fit(law, repeated, interval="none")
    assert b.objective == pytest.approx(a.objective, rel=1e-10)
    for name in a.free:
        assert b.estimates[name] == pytest.approx(a.estimates[name], rel=1e-6), name


@every
def test_the_size_of_weights_does_not_matter(law: Law) -> None:
    """Weights say how rows compare: all multiplied by one number leaves objective, estimates and
    intervals."""
    table = _noisy(law)
    w = np.random.default_rng(2).uniform(0.5, 2, 40)
    a, b = (fit(law, table | {"w": k * w}, weights="w", interval="wald") for k in (1.0, 1e6))
    assert b.objective == pytest.approx(a.objective, rel=1e-10)
    name = law.headline[0]
    assert b.estimates[name] == pytest.approx(a.estimates[name], rel=1e-7)
    assert b.intervals[name] == pytest.approx(a.intervals[name], rel=1e-5)


@every
def test_float32_is_read_as_the_numbers_that_it_holds(law: Law) -> None:
    """A table in float32 gives, to the last bit, the fit of the same numbers in float64."""
    narrow = {name: column.astype(np.float32) for name, column in _noisy(law).items()}
    wide = {name: column.astype(np.float64) for name, column in narrow.items()}
    a, b = (fit(law, t, starts=16, interval="wald") for t in (narrow, wide))
    assert a.to_json() == b.to_json()


@every
def test_the_objective_is_that_of_the_table(law: Law) -> None:
    """`objective` is what `objective_of` computes from predictions on the fit's own table, to 1e-12, for each
    objective, with weights, and after the fit was written and read."""
    table = _noisy(law) | {"w": np.random.default_rng(2).uniform(0.5, 2, 40)}
    cases = {LogSquares(): {}, Squares(): {"weights": "w"}, Huber(0.01): {"drop_top": 5}, Huber(0.1, 3.0): {}}
    for chosen, more in cases.items():
        found = fit(law, table, objective=chosen, interval="none", starts=8, **more)
        assert found.objective_of(table) == pytest.approx(found.objective, rel=1e-12)
        assert Fit.from_json(found.to_json()).objective_of(table) == pytest.approx(found.objective, rel=1e-12)


@every
def test_a_law_describes_itself(law: Law) -> None:
    """The formula's names are the law's columns and parameters, each once; the headline is among them; a
    level is an amplitude; equation and name are texts."""
    names = [p.name for p in law.parameters]
    assert len(set(names)) == len(names) and set(law.headline) <= set(names)
    assert not set(names) & set(law.columns) and "loss" not in law.columns
    assert law.equation == f"loss = {law.formula}"
    assert law == type(law)(*((law.text, law.variables) if isinstance(law, OwnLaw) else ()))
    if law.level is not None:
        assert next(p for p in law.parameters if p.name == law.level).logarithmic
