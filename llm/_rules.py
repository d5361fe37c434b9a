"""How configs check their rules."""


def require(holds: bool, name: str, value: object, rule: str) -> None:
    """Raise ValueError, naming the field, its value and the rule, where it does not hold."""
    if not holds:
        raise ValueError(f"{name} is {value}: it {rule}")
