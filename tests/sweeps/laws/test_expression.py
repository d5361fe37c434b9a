"""Formulas as text: nothing is run, values are Python's own, derivatives are exact."""

import builtins
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeps.laws import OwnLaw, evaluate
from sweeps.laws._expression import FUNCTIONS, LONGEST, Dual, Formula, amplitudes, parse

X = {"x": np.array([1.0, 2.0, 3.0])}

REFUSED = [
    "x.real",
    "x.__class__",
    "x[0]",
    "x[:]",
    "(x, x)",
    "[x]",
    "{x}",
    "{x: x}",
    "'x'",
    "b'x'",
    "f'{x}'",
    "lambda: x",
    "[y for y in x]",
    "(y for y in x)",
    "x if x else x",
    "x < 1",
    "x == x",
    "x and x",
    "not x",
    "~x",
    "x // 2",
    "x % 2",
    "x @ x",
    "x << 1",
    "x | x",
    "x & x",
    "(y := x)",
    "await x",
    "*x",
    "True",
    "None",
    "...",
    "1j",
    "__import__('os')",
    "__import__('os').system('true')",
    "eval('1')",
    "open(x)",
    "sin(x)",
    "exp(x, x)",
    "exp()",
    "exp(x=x)",
    "exp(*x)",
    "exp(**x)",
    "(exp)(x)(x)",
    "exp.__call__(x)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_only_arithmetic_may_stand_in_a_formula(text: str) -> None:
    """Everything else that Python could read is refused with what may stand there."""
    with pytest.raises(
        ValueError, match=r"(cannot stand in a formula; there are numbers, names|is no formula)"
    ):
        evaluate(text, X)


def test_the_caret_is_not_a_power() -> None:
    """^ is refused with the sign that is meant, and not read as Python's exclusive or."""
    with pytest.raises(ValueError, match=r"\^ is no power here: write \*\*"):
        parse("x^2")


@pytest.mark.parametrize(
    "text", ["", "  ", "x +", "(x", "x)", "x x", "x\nx", "x; x", "x = 1", "def f(): 1", "x\0", "@"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    """Text that is not one expression is refused as such, whatever Python's own parser says of it."""
    with pytest.raises(ValueError, match="is no formula"):
        parse(text)


@pytest.mark.parametrize("text", ["1e999 * x", "9" * 400 + " * x", "-1e999"])
def test_a_number_beyond_float64_is_refused(text: str) -> None:
    """A number that float64 does not hold is refused, and is not infinity."""
    with pytest.raises(ValueError, match="not a finite number|not finite"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 900 + "x" + ")" * 900,
        "-" * 900 + "x",
        "-" * 1900 + "x",
        "x" + "**x" * 600,
        "x" + "+x" * 900,
        "exp(" * 350 + "x" + ")" * 350,
        "x*(" * 400 + "x" + ")" * 400,
    ],
)
def test_deep_nesting_is_refused_or_evaluated(text: str) -> None:
    """However deep a formula is nested, it has a value or is refused with ValueError: nothing overflows a
    stack, also not later, when it is evaluated or looked through for names."""
    try:
        tree = parse(text)
    except ValueError as error:
        assert "nested" in str(error)
        return
    assert tree.names() == ["x"] and tree.count("x") >= 1
    amplitudes(text, ())
    assert evaluate(text, X).shape == (3,)


def test_long_texts_are_refused() -> None:
    """A text longer than any law is not even parsed."""
    with pytest.raises(ValueError, match=f"{LONGEST + 1} characters; at most {LONGEST}"):
        parse("x" * (LONGEST + 1))


@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_a_value_error(text: str) -> None:
    """Of any text the parser gives a tree or raises ValueError, without a warning; it calls nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            parse(text)
        except ValueError as error:
            assert str(error)


@given(st.text(alphabet="x.1e+-*/()[]_,:'lambd ^", max_size=40))
def test_nothing_is_run(text: str) -> None:
    """Whatever a text is, Python's evaluation, compilation, import and open are never called for it."""

    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"called with {args}")

    kept = {name: getattr(builtins, name) for name in ("eval", "exec", "open", "__import__")}
    try:
        for name in kept:
            setattr(builtins, name, forbidden)
        try:
            parse(text)
        except ValueError:
            pass
    finally:
        for name, function in kept.items():
            setattr(builtins, name, function)


LEAVES = st.one_of(
    st.sampled_from(["x", "y", "a", "b"]),
    st.floats(0.1, 9, allow_nan=False).map(lambda v: repr(round(v, 3))),
    st.integers(1, 9).map(str),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner)
    return st.one_of(
        pair.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        pair.map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner).map(lambda t: f"{t[0]}({t[1]})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"+({text})"),
    )


FORMULAS = st.recursive(LEAVES, _grow, max_leaves=10)
COLUMNS = {"x": np.array([0.5, 1.0, 2.0, 3.5]), "y": np.array([2.0, 0.25, 1.0, 4.0])}
PYTHON = {"exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt}


def _python(text: str, **more: Any) -> Any:
    """What Python itself makes of it, in float64 or complex arithmetic of arrays."""
    names = {"__builtins__": {}} | PYTHON | COLUMNS | more
    with np.errstate(all="ignore"):
        return eval(text.strip(), names)  # of texts made here


@given(FORMULAS, st.floats(0.2, 3), st.floats(0.2, 3))
def test_values_are_pythons_own(text: str, a: float, b: float) -> None:
    """Precedence, signs, powers and functions are Python's: the value is that of the same text run by Python,
    to rounding, and not finite where that is not."""
    expected = _python(text, a=np.float64(a), b=np.float64(b))
    with np.errstate(all="ignore"):
        at = {"a": Dual(np.array([[a]]), {}), "b": Dual(np.array([[b]]), {})}
        found = Formula(parse(text), COLUMNS).at(at).value
    expected, found = np.broadcast_to(expected, (1, 4)), np.broadcast_to(found, (1, 4))
    assert (np.isfinite(expected) == np.isfinite(found)).all()
    good = np.isfinite(expected) & (np.abs(expected) > 1e-280)
    np.testing.assert_allclose(found[good], expected[good], rtol=1e-9)


@given(FORMULAS, st.sampled_from("+-*/"), st.floats(0.2, 3), st.floats(0.2, 3), st.sampled_from("ab"))
def test_derivatives_are_exact(text: str, sign: str, a: float, b: float, which: str) -> None:
    """The derivative by a parameter equals the complex step, Im f(p + ih) / h at h = 1e-30, which has no
    error but rounding, wherever the formula is real and finite there."""
    text = f"({text}) {sign} a**b"
    at = {
        "a": Dual(np.array([[a]]), {"a": np.ones((1, 1))}),
        "b": Dual(np.array([[b]]), {"b": np.ones((1, 1))}),
    }
    with np.errstate(all="ignore"):
        found = Formula(parse(text), COLUMNS).at(at)
    value, slope = np.broadcast_to(found.value, (1, 4)), np.broadcast_to(found.slopes[which], (1, 4))
    moved = {"a": np.complex128(a), "b": np.complex128(b)}
    moved[which] += 1e-30j
    columns = {name: column.astype(complex) for name, column in COLUMNS.items()}
    try:
        stepped = np.broadcast_to(_python(text, **columns, **moved), (1, 4))
    except (ZeroDivisionError, OverflowError):
        assume(False)
    expected = stepped.imag / 1e-30
    # Complex powers leave the reals at a negative base, where the derivative is not defined.
    good = np.isfinite(value) & np.isfinite(slope) & np.isfinite(expected) & (np.abs(stepped.imag) < 1e-15)
    good &= np.isclose(stepped.real, value, rtol=1e-9, atol=1e-300)
    # A sum in which parts of different size cancel loses what they lose: compare where none is enormous.
    good &= (np.abs(value) < 1e6) & (np.abs(value) > 1e-6) & (np.abs(expected) < 1e8)
    np.testing.assert_allclose(slope[good], expected[good], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "slope"),
    [
        ("x**-a", lambda x, a: -np.log(x) * x**-a),
        ("a**x", lambda x, a: x * a ** (x - 1)),
        ("a**2", lambda x, a: 2 * a + 0 * x),
        ("(x + a)**-a", lambda x, a: (x + a) ** -a * (-np.log(x + a) - a / (x + a))),
        ("a / (x - a)", lambda x, a: x / (x - a) ** 2),
        ("log(a * x)", lambda x, a: 1 / a + 0 * x),
        ("log2(a)", lambda x, a: 1 / a / math.log(2) + 0 * x),
        ("log10(a)", lambda x, a: 1 / a / math.log(10) + 0 * x),
        ("sqrt(a + x)", lambda x, a: 0.5 / np.sqrt(a + x)),
        ("exp(-x / a)", lambda x, a: x / a**2 * np.exp(-x / a)),
        ("a * a", lambda x, a: 2 * a + 0 * x),
        ("-(a - x)", lambda x, a: -1 + 0 * x),
        ("(1 + x**a * x)**-a", None),
    ],
)
def test_each_rule_of_differentiation(text: str, slope: Callable | None) -> None:
    """Each rule once, against the derivative by hand (where there is one) and the central difference, whose
    own error is h^2 = 1e-10 and eps / h = 1e-11."""
    x, a, h = COLUMNS["x"] + 2, 1.3, 1e-5

    def at(value: float) -> Dual:
        return Formula(parse(text), {"x": x}).at({"a": Dual(np.array([[value]]), {"a": np.ones((1, 1))})})

    found = np.broadcast_to(at(a).slopes["a"], (1, 4))
    difference = np.broadcast_to((at(a + h).value - at(a - h).value) / (2 * h), (1, 4))
    np.testing.assert_allclose(found, difference, rtol=1e-8, atol=1e-9)
    if slope is not None:
        np.testing.assert_allclose(found[0], slope(x, a), rtol=1e-13)


def test_a_negative_base_has_whole_powers() -> None:
    """A base may be negative where the exponent is a number or a column."""
    np.testing.assert_array_equal(evaluate("(x - 3)**2", X), [4.0, 1.0, 0.0])
    np.testing.assert_array_equal(evaluate("-x**2", X), [-1.0, -4.0, -9.0])


def test_columns_alone() -> None:
    """`evaluate` gives one value a row, also of a constant, and refuses what is no column."""
    columns = {"flops": np.array([6e18, 1e19]), "num_params": np.array([1e8, 2e8])}
    np.testing.assert_allclose(evaluate("flops / (6 * num_params)", columns), [1e10, 1e19 / 1.2e9])
    np.testing.assert_array_equal(evaluate("20", columns), [20.0, 20.0])
    with pytest.raises(ValueError, match=r"there is no column 'tokens'; there are flops, num_params"):
        evaluate("tokens * 2", columns)


def test_a_law_of_ones_own_has_the_names_that_are_no_columns_as_parameters() -> None:
    """Parameters come in order of appearance; factors of a term that occur once are positive amplitudes."""
    law = OwnLaw("E + A*n**-a + B*d**-b", ("n", "d"))
    assert [p.name for p in law.parameters] == ["E", "A", "a", "B", "b"]
    assert law.columns == ("n", "d") and law.headline == ("E", "A", "a", "B", "b")
    assert [p.logarithmic for p in law.parameters] == [False, True, False, True, False]
    assert [p.lower for p in law.parameters] == [0, 0, -math.inf, 0, -math.inf]
    assert law.equation == "loss = E + A*n**-a + B*d**-b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A*n**-a", ["A"]),
        ("n**-a*A", ["A"]),
        ("A/n**a + B", ["A", "B"]),
        ("A*B*n", ["A"]),
        ("A*n + A*d", []),
        ("E - A*n**a", ["E", "A"]),
        ("-(A*n) + B", ["A", "B"]),
        ("1/(A*n)", []),
        ("exp(A*n)", []),
        ("(A + B)*n", []),
        ("A**2*n", []),
        ("n**A", []),
        ("2*A*n", ["A"]),
        ("sqrt(n)*A", ["A"]),
        ("n*d", []),
    ],
)
def test_amplitudes_are_found_in_the_formula(text: str, expected: list[str]) -> None:
    """A parameter that a term is proportional to, and that occurs once, is an amplitude, at most one a term:
    the formula is linear in them, as values at random amplitudes show."""
    assert amplitudes(text, ("n", "d")) == expected
    columns = {"n": np.array([0.5, 2.0]), "d": np.array([3.0, 4.0])}

    def at(scale: float) -> np.ndarray:
        names = {name: 0.7 for name in parse(text).names() if name not in columns}
        names |= {name: 0.7 * scale for name in expected}
        duals = {name: Dual(np.array([[value]]), {}) for name, value in names.items()}
        return np.broadcast_to(Formula(parse(text), columns).at(duals).value, (1, 2))

    if expected:
        np.testing.assert_allclose(at(3.0) - at(2.0), at(2.0) - at(1.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            "E + A*num_parms**-a",
            ("num_params", "loss"),
            r"'num_parms' is no column; did you mean 'num_params'",
        ),
        ("E + A", ("n",), r"has no column of the table in it; it has E, A"),
        ("n**2", ("n",), r"has no parameter to fit"),
        ("A*loss*n", ("n", "loss"), r"loss is what the formula is to give"),
        ("A*n**-__a", ("n",), r"__a"),
        ("A*n^-a", ("n",), r"write \*\*"),
    ],
)
def test_a_law_of_ones_own_that_is_none(text: str, columns: tuple[str, ...], message: str) -> None:
    """A misspelt column, a formula without column or parameter, loss in it, and names that Python keeps for
    itself are refused, each with its reason."""
    with pytest.raises(ValueError, match=message):
        OwnLaw.of(text, columns)


def test_short_names_are_not_taken_for_misspelt_columns() -> None:
    """Parameters of up to three letters may look like a column; long ones that do not, are parameters."""
    law = OwnLaw.of("A*width**-wid + offset", ("width", "loss"))
    assert [p.name for p in law.parameters] == ["A", "wid", "offset"]


def test_columns_that_a_formula_does_not_name_are_not_read() -> None:
    """A derived column needs its own columns only: another may hold texts."""

    class Columns(dict):
        def __getitem__(self, name):
            assert name in ("flops", "n"), name
            return super().__getitem__(name)

        def values(self):
            raise AssertionError("all columns were read")

    columns = Columns(flops=np.array([6.0, 12.0]), n=np.array([1.0, 2.0]), run=np.array(["a", "b"]))
    assert evaluate("flops / (6 * n)", columns).tolist() == [1.0, 1.0]
