"""Laws of leaving out the highest losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.laws import ComputeLaw
from sweeps.laws._table import read


def kept(losses, count):
    """The losses that are left, as the fitter orders them."""
    table = {"flops": np.arange(1.0, len(losses) + 1), "loss": losses}
    return read(ComputeLaw(), table, drop_top=count).loss.tolist()


@given(
    st.lists(st.sampled_from([1.0, 1.5, 2.0, 2.5, 1e300]) | st.floats(0.1, 9.0), min_size=1),
    st.integers(0, 12),
)
def test_who_stays(losses, count):
    """A row stays if its loss is below at least `count` losses, counted one by one; none left is refused."""
    stay = [loss for loss in losses if count == 0 or sum(other > loss for other in losses) >= count]
    if stay:
        assert kept(losses, count) == stay
    else:
        with pytest.raises(ValueError, match=f"drop_top: {count} leaves none of {len(losses)} rows"):
            kept(losses, count)


def test_less_than_none():
    """A negative count is refused."""
    with pytest.raises(ValueError, match="drop_top: -1 is less than 0"):
        kept([1.0, 2.0], -1)
