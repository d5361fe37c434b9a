"""Formulas as text: parsed to a tree, never run as code, evaluated on arrays with their exact derivatives.

What may stand in a formula: numbers, names, + - * / **, signs, brackets, and the functions of `FUNCTIONS`.
Derivatives are carried along (forward mode): every node gives its value and, for each parameter that occurs
in it, the derivative by that parameter. An array keeps the shape it needs: a parameter (B, 1), a column (n,),
what joins them (B, n).
"""

import ast
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from sweeps.laws._law import Array

LONGEST, DEEPEST = 2000, 100
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "exp": (np.exp, lambda x, y: y),
    "log": (np.log, lambda x, y: 1 / x),
    "log2": (np.log2, lambda x, y: 1 / (x * math.log(2))),
    "log10": (np.log10, lambda x, y: 1 / (x * math.log(10))),
    "sqrt": (np.sqrt, lambda x, y: 0.5 / y),
}
"""Name -> the function of x, and its derivative as a function of x and of its value y."""

OPERATORS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


@dataclasses.dataclass(frozen=True)
class Node:
    """A formula: `kind` is "number", "name", an operator, "negative" or the name of a function."""

    kind: str
    parts: tuple["Node", ...] = ()
    number: float = 0.0
    name: str = ""

    def names(self) -> list[str]:
        """Every name in it, in order of first appearance."""
        own = [self.name] if self.kind == "name" else []
        return list(dict.fromkeys(own + [name for part in self.parts for name in part.names()]))

    def count(self, name: str) -> int:
        """How often a name occurs."""
        return (self.name == name) + sum(part.count(name) for part in self.parts)

    def terms(self) -> list["Node"]:
        """What its outermost sums add and subtract, without the signs."""
        if self.kind in ("+", "-", "negative"):
            return [term for part in self.parts for term in part.terms()]
        return [self]

    def factors(self) -> list["Node"]:
        """What its outermost products multiply; of a quotient, what stands above the line."""
        if self.kind == "*":
            return [factor for part in self.parts for factor in part.factors()]
        return self.parts[0].factors() if self.kind == "/" else [self]

    def exponents(self) -> set[str]:
        """Names that occur in exponents, and nowhere else."""
        inside: set[str] = set()
        outside: set[str] = set()

        def walk(node: Node, within: bool) -> None:
            if node.kind == "name":
                (inside if within else outside).add(node.name)
            for i, part in enumerate(node.parts):
                walk(part, within or (node.kind == "**" and i == 1))

        walk(self, False)
        return inside - outside


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Node:
    """The tree of a formula.

    **Raises:** ValueError saying what cannot stand there, where, and what to write instead.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the formula has {len(text)} characters; at most {LONGEST} are read.")
    try:
        return _convert(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, RecursionError, MemoryError) as error:
        place = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise ValueError(
            f"{text!r} is no formula ({getattr(error, 'msg', None) or 'too deeply nested'}{place}); "
            'write e.g. "E + A*n**-a".'
        ) from None
    except ValueError as error:
        raise ValueError(f"{(text if len(text) <= 80 else text[:77] + '...')!r}: {error}") from None


def _convert(tree: ast.AST, depth: int) -> Node:
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep, a sum of as many terms included.")
    match tree:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if not math.isfinite(number):
                raise ValueError("it has a number that is not a finite number of float64.")
            return Node("number", number=number)
        case ast.Name(id=name):
            return Node("name", name=name)
        case ast.BinOp(left=left, op=op, right=right):
            if isinstance(op, ast.BitXor):
                raise ValueError("^ is no power here: write **.")
            if type(op) in OPERATORS:
                return Node(OPERATORS[type(op)], (_convert(left, depth + 1), _convert(right, depth + 1)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Node("negative", (_convert(operand, depth + 1),))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _convert(operand, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return Node(name, (_convert(argument, depth + 1),))
    known = ", ".join(FUNCTIONS)
    raise ValueError(
        f"{ast.unparse(tree)!r} cannot stand in a formula; there are numbers, names, + - * / ** and "
        f"the functions {known} of one argument."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Dual:
    """A value and its derivatives by the parameters that it depends on."""

    value: Any
    slopes: dict[str, Any]


class Formula:
    """A tree bound to columns: the logarithm of every column that is raised to a power is taken once."""

    def __init__(self, tree: Node, columns: Mapping[str, Array]) -> None:
        self.tree, self.columns = tree, columns
        self.logs: dict[str, Array] = {}

    def at(self, parameters: Mapping[str, Dual]) -> Dual:
        """Value and derivatives at parameters given as arrays (B, 1) or (B, n)."""
        return self._of(self.tree, parameters)

    def _of(self, node: Node, parameters: Mapping[str, Dual]) -> Dual:
        if node.kind == "number":
            return Dual(node.number, {})
        if node.kind == "name":
            found = parameters.get(node.name)
            return found if found is not None else Dual(self.columns[node.name], {})
        if node.kind == "**":
            return self._power(node.parts[0], node.parts[1], parameters)
        parts = [self._of(part, parameters) for part in node.parts]
        a = parts[0]
        if node.kind == "negative":
            return Dual(-a.value, {name: -slope for name, slope in a.slopes.items()})
        if node.kind in FUNCTIONS:
            function, derivative = FUNCTIONS[node.kind]
            value = function(a.value)
            if not a.slopes:
                return Dual(value, {})
            inner = derivative(a.value, value)
            return Dual(value, {name: slope * inner for name, slope in a.slopes.items()})
        b = parts[1]
        if node.kind == "+":
            return Dual(a.value + b.value, _merged(a.slopes, b.slopes, operator.add))
        if node.kind == "-":
            minus = {name: -slope for name, slope in b.slopes.items()}
            return Dual(a.value - b.value, _merged(a.slopes, minus, operator.add))
        if node.kind == "*":
            left = {name: slope * b.value for name, slope in a.slopes.items()}
            right = {name: slope * a.value for name, slope in b.slopes.items()}
            return Dual(a.value * b.value, _merged(left, right, operator.add))
        value = a.value / b.value
        left = {name: slope / b.value for name, slope in a.slopes.items()}
        right = {name: -slope * value / b.value for name, slope in b.slopes.items()}
        return Dual(value, _merged(left, right, operator.add))

    def _power(self, base: Node, exponent: Node, parameters: Mapping[str, Dual]) -> Dual:
        e = self._of(exponent, parameters)
        if base.kind == "name" and base.name in self.columns and e.slopes:
            if base.name not in self.logs:
                self.logs[base.name] = np.log(self.columns[base.name])
            log = self.logs[base.name]
            value = np.exp(e.value * log)
            steep = value * log
            return Dual(value, {name: slope * steep for name, slope in e.slopes.items()})
        b = self._of(base, parameters)
        if not e.slopes:  # also of a negative base, where the exponent is whole
            value = np.power(b.value, e.value)
            inner = e.value * np.power(b.value, e.value - 1) if b.slopes else 0.0
            return Dual(value, {name: slope * inner for name, slope in b.slopes.items()})
        log = np.log(b.value)
        value = np.exp(e.value * log)
        steep = value * log
        outer = {name: slope * steep for name, slope in e.slopes.items()}
        inner = value * e.value / b.value if b.slopes else 0.0
        return Dual(value, _merged(outer, {n: slope * inner for n, slope in b.slopes.items()}, operator.add))


def _merged(a: dict[str, Any], b: dict[str, Any], join: Callable[[Any, Any], Any]) -> dict[str, Any]:
    out = dict(a)
    for name, slope in b.items():
        out[name] = join(out[name], slope) if name in out else slope
    return out


def amplitudes(text: str, columns: Collection[str]) -> list[str]:
    """Names of parameters that a formula is linear in, at most one a term: each a factor, occurring once."""
    tree = parse(text)
    found = []
    for term in tree.terms():
        for factor in term.factors():
            if factor.kind == "name" and factor.name not in columns and tree.count(factor.name) == 1:
                found.append(factor.name)
                break
    return found


def evaluate(text: str, columns: Mapping[str, Array]) -> Array:
    """The values of a formula of columns alone, e.g. `flops / (6 * num_params)`.

    **Raises:** ValueError for a formula that cannot be read, and for a name that is no column.
    """
    tree = parse(text)
    for name in tree.names():
        if name not in columns:
            raise ValueError(f"{text!r}: there is no column {name!r}; there are {', '.join(columns)}.")
    with np.errstate(all="ignore"):
        values = Formula(tree, columns).at({}).value
    used = [np.shape(columns[name]) for name in tree.names()]  # no other column need be a number
    return np.array(np.broadcast_to(values, np.broadcast_shapes(*used)), dtype=np.float64)
