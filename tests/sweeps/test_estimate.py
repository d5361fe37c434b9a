"""Laws of the estimate: what can be counted is counted, and time is FLOPs over a measured rate."""

import pytest

from sweeps import _estimate, _machine
from sweeps._estimate import estimate
from sweeps._jobs import expand
from sweeps._spec import load_spec
from toymodels import total_flops


@pytest.fixture
def spec(tiny_file):
    return load_spec(str(tiny_file))


def test_estimate(spec, monkeypatch):
    """Jobs, students and FLOPs are counted exactly; time is FLOPs over rate, shared by the workers."""
    monkeypatch.setattr(_estimate, "_matmul_rate", lambda *shape: 1e6)
    monkeypatch.setattr(_machine, "available_cores", lambda: [0, 1])
    cost = estimate(spec)
    flops = sum(total_flops(job.config) for job in expand(spec.kind, spec.configs))
    assert (cost.jobs, cost.rows, cost.flops, cost.workers) == (4, 12, flops, 2)
    compiling = 2 * _estimate.COMPILE_SECONDS
    assert cost.seconds == pytest.approx(compiling + flops / (_estimate.MATMUL_SHARE * 1e6) / 2)
    alone = estimate(spec, workers=1)
    assert alone.seconds - compiling == pytest.approx(2 * (cost.seconds - compiling))
    assert estimate(spec, workers=9).workers == 2


def test_matmul_rate_is_a_rate():
    """The measured rate is one that a core can have: between 10 MFLOP/s and 10 TFLOP/s."""
    assert 1e7 < _estimate._matmul_rate(32, 8, 256) < 1e13
    assert _machine.available_cores()
