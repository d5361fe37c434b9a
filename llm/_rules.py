"""How configs and calls check their rules."""

from numbers import Integral


def require(holds: bool, name: str, value: object, rule: str) -> None:
    """Raise ValueError, naming the field, its value and the rule, where it does not hold."""
    if not holds:
        raise ValueError(f"{name} is {value}: it {rule}")


def require_recurrences(num_recur: object) -> None:
    """Raise ValueError unless it is a number of recurrences, or None for that of the config."""
    counted = num_recur is None or (isinstance(num_recur, Integral) and int(num_recur) >= 1)
    require(counted, "num_recur", num_recur, "must be a whole number, at least 1")
