"""Random keys: one a purpose, folded by seed, so that no two purposes ever share numbers."""

import enum

import jax
from jaxtyping import PRNGKeyArray


class Purpose(enum.IntEnum):
    """What a key is for. The numbers are part of every record's meaning: never renumber."""

    TEACHER = 0
    STUDENT = 1
    DATA = 2
    EVALUATION = 3


def purpose_key(seed: int, purpose: Purpose) -> PRNGKeyArray:
    """The key of this seed for this purpose; data and evaluation keys are folded further by step or batch."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def student_key(seed: int, depth: int) -> PRNGKeyArray:
    """The key that initialises the student of this seed and depth, whatever else is in the cohort."""
    return jax.random.fold_in(purpose_key(seed, Purpose.STUDENT), depth)
