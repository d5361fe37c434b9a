"""A law of one's own, from a formula."""

import dataclasses
import difflib
from collections.abc import Collection
from typing import final

from sweeps.laws._expression import amplitudes, parse
from sweeps.laws._law import Law, Parameter


@final
@dataclasses.dataclass(frozen=True)
class OwnLaw(Law):
    """A formula of columns and parameters, e.g. `OwnLaw("E + A*n**-a + B*d**-b", ("n", "d"))`.

    Names that are not columns are parameters. A parameter that is a factor of a term, and occurs once, is an
    amplitude and positive; one that is a term by itself is zero or more; `bounds` in `fit` says otherwise.

    **Arguments:** `text` the formula; `variables` the names in it that are columns of the table.

    **Raises:** ValueError for a formula that cannot be read, one without a column or without a parameter, and
    a name that begins with two underscores.
    """

    text: str
    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        names = parse(self.text).names()
        hidden = [name for name in names if name.startswith("__")]
        if hidden:
            raise ValueError(f"{self.text!r}: {hidden[0]!r} begins with two underscores; call it otherwise.")
        if not set(names) & set(self.variables):
            raise ValueError(f"{self.text!r} has no column of the table in it; it has {', '.join(names)}.")
        if not self.parameters:
            raise ValueError(f"{self.text!r} has no parameter to fit: every name in it is a column.")
        if "loss" in names:
            raise ValueError(f"{self.text!r}: loss is what the formula is to give, so it cannot stand in it.")

    @classmethod
    def of(cls, text: str, columns: Collection[str]) -> "OwnLaw":
        """The law of a formula for a table with these columns.

        **Raises:** ValueError as the class, and for a parameter that looks like a column that is misspelt.
        """
        names = parse(text).names()
        for name in names:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.8) if len(name) > 3 else []
            if near and name not in columns:
                raise ValueError(f"{text!r}: {name!r} is no column; did you mean {near[0]!r}?")
        return cls(text, tuple(name for name in names if name in columns))

    @property
    def name(self) -> str:
        return "own"

    @property
    def formula(self) -> str:
        return self.text

    @property
    def columns(self) -> tuple[str, ...]:
        names = parse(self.text).names()
        return tuple(name for name in names if name in self.variables)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        tree = parse(self.text)
        found = []
        factors = amplitudes(self.text, self.variables)
        alone = {term.name for term in tree.terms() if term.kind == "name"}
        for name in tree.names():
            if name in self.variables:
                continue
            if name in factors:
                found.append(Parameter(name, "", lower=0.0, logarithmic=name not in alone))
            else:
                likely = (0.05, 2.5) if name in tree.exponents() else None
                found.append(Parameter(name, "", likely=likely))
        return tuple(found)

    @property
    def headline(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)
