"""The presets are the experiments of both papers, at their scale and at that of smaller machines."""

import itertools
import math

import pytest

from llm import Additive, Hyperconnections, Linear, MuonH, Passthrough, Transfer
from sweeps._jobs import expand
from sweeps._spec import load_spec, preset_names
from toymodels import KL, MSE, Adam, Evaluation, LearningRate, total_flops

DEPTHS = (6, 12, 16, 24, 32, 48)
CONSTANT = LearningRate(6e-4)
BOTH = {"tied", "independent"}


def rate(factor):
    """6e-4 · factor/√ℓ, held for 80 % of the steps, then linear to 10 %."""
    return {depth: 6e-4 * factor / math.sqrt(depth) for depth in (3, 6, 8, *DEPTHS)}


PAPER = {
    # preset: teachers, their depth, objective, given head, steps, rate by depth, depths, layer
    "kl-independent": ({"independent"}, 128, KL, False, {40_000}, None, DEPTHS, "euler"),
    "kl-tied": ({"tied"}, 128, KL, False, {40_000}, None, DEPTHS, "euler"),
    "kl-tied-long": ({"tied"}, 128, KL, True, {80_000}, rate(4), DEPTHS, "euler"),
    "mse": (BOTH, 128, MSE, None, {40_000, 80_000}, rate(2), DEPTHS, "euler"),
    "mse-shallow": (BOTH, 24, MSE, None, {40_000}, rate(2), DEPTHS, "euler"),
    "midpoint": (BOTH, 128, MSE, None, {80_000}, rate(2), (3, 6, 8, 12, 16, 24), "midpoint"),
}


TOY = [name for name in preset_names() if load_spec(name).kind == "toy"]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_what_it_does(name):
    """A preset is named as its file and describes itself in a sentence."""
    spec = load_spec(name)
    assert spec.name == name
    assert spec.description[-1] in ".?" and len(spec.description) > 20


@pytest.mark.parametrize("name", TOY)
def test_every_toy_experiment_has_seeds(name):
    """It trains at least three seeds, and fits the exponent of each teacher with no floor."""
    spec = load_spec(name)
    assert spec.fit.floor == 0.0 and "teacher" in spec.fit.by
    assert all(len(cohort.seeds) >= 3 for cohort in spec.configs)


@pytest.mark.parametrize("name", TOY)
def test_every_fit_is_of_one_condition(name):
    """`by` separates all that differs between the rows of a preset, but depth and seed."""
    spec = load_spec(name)
    told_apart = {
        "teacher": lambda cohort: {cohort.teacher.kind},
        "steps": lambda cohort: {cohort.steps},
        "temperature": lambda cohort: set(cohort.temperatures),
        "teacher_depth": lambda cohort: {cohort.teacher.depth},
        "correlation_length": lambda cohort: {cohort.teacher.correlation_length},
        "rho": lambda cohort: {cohort.teacher.rho},
        "layer": lambda cohort: {cohort.layer},
        "residual_scale": lambda cohort: {cohort.teacher.step},
    }
    conditions = len(spec.configs) * len(spec.configs[0].temperatures)
    found = {
        tuple(sorted((column, value) for column, value in zip(spec.fit.by, values, strict=True)))
        for cohort in spec.configs
        for values in itertools.product(*(told_apart[column](cohort) for column in spec.fit.by))
    }
    assert len(found) == conditions


@pytest.mark.parametrize("name", PAPER)
def test_paper_scale(name):
    """Width 32, hidden 128, batch 1024, three seeds, 10 × 1024 held out; the rest as in the paper's table."""
    teachers, depth, objective, given, steps, rates, depths, layer = PAPER[name]
    cohorts = load_spec(name).configs
    assert {cohort.teacher.kind for cohort in cohorts} == teachers
    assert {cohort.steps for cohort in cohorts} == steps
    assert len(cohorts) == len(teachers) * len(steps)
    for cohort in cohorts:
        assert (cohort.width, cohort.hidden, cohort.batch) == (32, 128, 1024)
        assert cohort.teacher.depth == depth
        assert cohort.teacher.step == pytest.approx(depth**-0.5, rel=1e-15)
        assert cohort.depths == depths and cohort.layer == layer and len(cohort.seeds) == 3
        assert cohort.adam == Adam(0.9, 0.999, 1e-8)
        assert cohort.evaluation == Evaluation(batches=10, batch=1024)
        assert type(cohort.objective) is objective
        if isinstance(cohort.objective, KL):
            assert cohort.vocabulary == 128 and cohort.objective.given_head is given
            found = cohort.temperatures
            assert len(found) == 16 and (found[0], found[-1]) == (0.01, 1.0)
            assert all(b / a == pytest.approx(100 ** (1 / 15)) for a, b in itertools.pairwise(found))
        if rates is None:
            assert cohort.learning_rate == CONSTANT
        else:
            assert (cohort.learning_rate.hold_fraction, cohort.learning_rate.final_fraction) == (0.8, 0.1)
            for student in depths:
                assert cohort.learning_rate.peak(student) == pytest.approx(rates[student], rel=1e-12)


@pytest.mark.parametrize("name", PAPER)
def test_two_core_version(name):
    """Each experiment has a version for two cores: the same teachers, objective and layer, and less work."""
    paper, small = load_spec(name), load_spec(f"{name}-2core")
    for what in ("layer", "objective"):
        assert {_kind(c, what) for c in paper.configs} == {_kind(c, what) for c in small.configs}
    assert {c.teacher.kind for c in paper.configs} == {c.teacher.kind for c in small.configs}
    assert small.fit.floor == paper.fit.floor
    assert sum(map(_work, expand(small.kind, small.configs))) < 0.02 * sum(
        map(_work, expand(paper.kind, paper.configs))
    )


PHASES = [name for name in TOY if name.startswith("phase") and not name.endswith("-2core")]


def test_phases():
    """The phase diagram has an axis for training, temperature, rho, integrator and residual scale."""
    assert sorted(PHASES) == [
        "phase",
        "phase-integrators",
        "phase-rho",
        "phase-scales",
        "phase-temperature",
    ]


@pytest.mark.parametrize("scale", ["", "-2core"])
@pytest.mark.parametrize("name", PHASES)
def test_phases_have_both_ends_and_what_lies_between(name, scale):
    """At least five students and three seeds a point; independent and tied teachers, with normal weights all,
    and at least eight correlation lengths (or values of rho), three where the scale is asked after."""
    cohorts = load_spec(f"{name}{scale}").configs
    values = {getattr(c.teacher, "rho" if name == "phase-rho" else "correlation_length") for c in cohorts}
    assert min(values) == 0 and max(values) == (1 if name == "phase-rho" else math.inf)
    assert len(values) >= (3 if name == "phase-scales" else 8)
    for cohort in cohorts:
        assert len(cohort.depths) >= 5 and len(cohort.seeds) >= 3 and cohort.teacher.normal_weights


@pytest.mark.parametrize("name", PHASES)
def test_phases_on_two_cores(name):
    """The same axes with less work, as `test_two_core_version`."""
    paper, small = load_spec(name), load_spec(f"{name}-2core")
    assert paper.fit == small.fit
    for what in ("layer", "objective"):
        assert {_kind(c, what) for c in paper.configs} == {_kind(c, what) for c in small.configs}
    assert sum(map(_work, expand(small.kind, small.configs))) < 0.02 * sum(
        map(_work, expand(paper.kind, paper.configs))
    )


def test_residual_scales_meet():
    """Scales 1/√ℓ* and 1/ℓ* are the same teacher at one depth, which is trained once."""
    for name, meeting in (("phase-scales", 128), ("phase-scales-2core", 64)):
        teachers = [cohort.teacher for cohort in load_spec(name).configs if cohort.teacher.length == 0]
        time = {power: {t.depth: t.time for t in teachers if t.residual_power == power} for power in (0.5, 1)}
        assert set(time[0.5]) == set(time[1]) | {meeting}
        assert all(value == pytest.approx(time[0.5][meeting]) for value in time[1].values())


def _kind(cohort, what):
    value = getattr(cohort, what)
    return value if isinstance(value, str) else (value.kind, getattr(value, "given_head", None))


def _work(job):
    return total_flops(job.config)


def test_quickstart_shows_both_exponents():
    """The main job: both teachers, six depths, at least two seeds, the exponent from the MSE."""
    spec = load_spec("quickstart")
    assert {cohort.teacher.kind for cohort in spec.configs} == BOTH
    assert all(len(cohort.depths) == 6 and len(cohort.seeds) >= 2 for cohort in spec.configs)
    assert {type(cohort.objective) for cohort in spec.configs} == {MSE}
    assert spec.fit.by == ("teacher",)


CELLS = {
    # width / 64: budgets of arXiv:2604.21106, its table of the grid
    6: (4.64e17, 1e18),
    8: (4.64e17, 1e18, 2.15e18),
    10: (4.64e17, 1e18, 2.15e18, 4.64e18),
    12: (4.64e17, 1e18, 2.15e18, 4.64e18, 1e19),
    14: (1e18, 2.15e18, 4.64e18),
    16: (2.15e18, 4.64e18, 1e19),
    18: (4.64e18, 1e19, 2.15e19),
    20: (4.64e18, 1e19),
    24: (1e19, 2.15e19),
    28: (2.15e19,),
    34: (2.15e19,),
}


def test_the_paper_s_grid_of_language_models():
    """116 runs: 29 cells of budget and width, four r each; batches of 2^18 tokens, the paper's rates."""
    configs = load_spec("llm_paper").configs
    found = {(c.model.width, c.budget, c.model.num_recur) for c in configs}
    cells = {(64 * s, budget) for s, budgets in CELLS.items() for budget in budgets}
    assert len(cells) == 29 and len(configs) == 116
    assert found == {(width, budget, r) for width, budget in cells for r in (1, 2, 4, 8)}
    for config in configs:
        assert config.batch_tokens == 2**18 and config.data.context == 2048
        assert (config.model.prelude, config.model.layers, config.model.coda) == (2, 16, 2)
        assert config.model.head_size == 128 and config.optimiser == MuonH(transfer=Transfer())


@pytest.mark.parametrize("scale", ["llm_cpu", "llm_gpu", "llm_paper"])
def test_case_studies(scale):
    """The lower budgets of the grid, once truncated to half of the recurrences, once with two lanes.

    And the four injections at r = 4, in one cell.
    """
    grid = {(c.budget, c.model.width) for c in load_spec(scale).configs}
    for study in ("truncated", "hyperconnections"):
        configs = load_spec(f"{scale}_{study}").configs
        cells = {(c.budget, c.model.width) for c in configs}
        lower = {budget for budget, _ in cells}
        assert cells == {(budget, width) for budget, width in grid if budget in lower}
        assert lower < {budget for budget, _ in grid} and max(lower) < max(grid)[0]
        assert {(*cell, r) for cell in cells for r in (1, 2, 4, 8)} == {
            (c.budget, c.model.width, c.model.num_recur) for c in configs
        }
        for config in (config for config in configs if config.model.num_recur > 1):
            half = config.model.num_recur // 2 if study == "truncated" else None
            assert config.model.backprop_recurrences == half
            assert config.model.injected == (Linear() if study == "truncated" else Hyperconnections(2))
    ablation = load_spec(f"{scale}_injections").configs
    assert {c.model.injected for c in ablation} == {
        Linear(),
        Additive(),
        Passthrough(),
        Hyperconnections(2),
    }
    assert len({(c.budget, c.model.width, c.model.num_recur) for c in ablation}) == 1
