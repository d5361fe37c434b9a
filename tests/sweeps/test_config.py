"""Laws of the config codec: nothing is lost, nothing unknown passes, every refusal says where and what."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps._config import ConfigError, canonical, decode, digest, encode, nearest
from toymodels import (
    KL,
    LAYERS,
    MSE,
    Adam,
    CohortConfig,
    Correlated,
    Drifting,
    Evaluation,
    Flow,
    Independent,
    LearningRate,
    Tied,
)

whole = st.integers(1, 2**40)
positive = st.floats(1e-300, 1e300)
share = st.floats(0, 1)
below_one = st.floats(0, 1, exclude_max=True)
teachings = st.fixed_dictionaries(
    {"depth": whole, "residual_scale": positive, "residual_power": st.floats(-3, 3)}
)


@st.composite
def makers(draw):
    """How to make any config that its rules allow (made in the test, since type checks there are random)."""
    kind, more = draw(
        st.sampled_from(
            [
                (Independent, {}),
                (Tied, {}),
                (Correlated, {"rho": share}),
                (Drifting, {"length": st.floats(0, math.inf)}),
                (Flow, {"tolerance": positive}),
            ]
        )
    )
    teaching = draw(teachings) | {name: draw(values) for name, values in more.items()}
    temperatures = tuple(draw(st.lists(positive, max_size=4, unique=True)))
    given_head, vocabulary = draw(st.booleans()), draw(st.integers(2, 2**40))
    depths = tuple(draw(st.lists(whole, min_size=1, max_size=5, unique=True)))
    seeds = tuple(draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True)))
    numbers = draw(st.tuples(whole, whole, whole, whole))
    layer = draw(st.sampled_from(sorted(LAYERS)))
    rate = draw(st.tuples(positive, st.none() | positive, share, share))
    adam = draw(st.tuples(below_one, below_one, positive))
    evaluation = draw(st.tuples(whole, whole, whole, whole))

    def make():
        width, hidden_factor, batch, steps = numbers
        return CohortConfig(
            teacher=kind(**teaching),
            objective=KL(temperatures, given_head) if temperatures else MSE(),
            vocabulary=vocabulary if temperatures else None,
            width=width,
            hidden_factor=hidden_factor,
            layer=layer,
            depths=depths,
            seeds=seeds,
            batch=batch,
            steps=min(steps, 2**31 - 1),
            learning_rate=LearningRate(*rate),
            adam=Adam(*adam),
            evaluation=Evaluation(*evaluation),
        )

    return make


def shuffled(value, random):
    """The same plain values with the keys of every table in another order."""
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: shuffled(value[key], random) for key in keys}


@given(makers())
def test_round_trip(make):
    """decode(encode(c)) = c for every config, through JSON as well, and with it the id."""
    config = make()
    for plain in (encode(config), json.loads(json.dumps(encode(config))), json.loads(canonical(config))):
        decoded = decode(CohortConfig, plain, "here")
        assert decoded == config
        assert canonical(decoded) == canonical(config)


@given(makers(), st.randoms(use_true_random=False))
def test_order_of_keys_is_no_part_of_a_config(make, random):
    """The canonical text and the digest depend on keys and values, not on the order of the keys."""
    config = make()
    other = shuffled(encode(config), random)
    assert canonical(other) == canonical(config)
    assert digest(other) == digest(config)


@given(makers(), makers())
def test_digest_tells_configs_apart(make, make_other):
    """Equal digests if and only if equal configs."""
    one, other = make(), make_other()
    assert digest(one) == digest(make())
    assert (digest(one) == digest(other)) == (one == other)


def test_what_is_left_out_is_the_default():
    """An empty table is the default config, and a partial one differs from it in what it names alone."""
    assert decode(CohortConfig, {}, "here") == CohortConfig()
    partial = decode(CohortConfig, {"adam": {"beta2": 0.99}}, "here")
    assert partial == dataclasses.replace(CohortConfig(), adam=Adam(beta2=0.99))


def test_numbers_take_the_type_of_their_field():
    """TOML's 1 where a float is meant is that float, 1e3 where a whole number is meant that whole number."""
    config = decode(CohortConfig, {"steps": 1e3, "learning_rate": {"base": 1}}, "here")
    assert type(config.steps) is int and config.steps == 1000
    assert type(config.learning_rate.base) is float
    assert canonical(config) == canonical(decode(CohortConfig, json.loads(canonical(config)), "here"))


def test_kind_chooses_the_class():
    """A table with a `kind` is the class of that kind, with that class's keys and no other's."""
    config = decode(CohortConfig, {"teacher": {"kind": "correlated", "rho": 1}}, "here")
    assert config.teacher == Correlated(rho=1.0)
    with pytest.raises(ConfigError, match=r"^here: teacher.rho is not a known key: known: depth, norm"):
        decode(CohortConfig, {"teacher": {"kind": "tied", "rho": 1}}, "here")


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"stepps": 3}, "stepps is not a known key: did you mean 'steps'?"),
        ({"xyz": 3}, "xyz is not a known key: known: adam, batch, depths, "),
        ({"adam": {"beta3": 0.9}}, "adam.beta3 is not a known key: did you mean 'beta"),
        ({"adam": {"kind": "adam"}}, "adam.kind is not a known key"),
        ({"teacher": {"kind": "tide"}}, "teacher.kind is 'tide': did you mean 'tied'?"),
        ({"teacher": {"kind": ["tied"]}}, "teacher.kind is ['tied']: "),
        ({"teacher": {"kind": 1}}, "teacher.kind is 1: known: correlated, drifting, flow, independent, tied"),
        (
            {"teacher": {}},
            "teacher has no kind: it must be one of correlated, drifting, flow, independent, tied",
        ),
        ({"teacher": "tied"}, "teacher is 'tied': it must be a table"),
        ({"adam": [0.9]}, "adam is [0.9]: it must be a table"),
        ({"objective": None}, "objective is None: it must be a table"),
        ({"width": True}, "width is True: it must be a whole number"),
        ({"width": 1.5}, "width is 1.5: it must be a whole number"),
        ({"width": "8"}, "width is '8': it must be a whole number"),
        ({"width": None}, "width is None: it must be a whole number"),
        ({"width": [8]}, "width is [8]: it must be a whole number"),
        ({"width": {}}, "width is {}: it must be a whole number"),
        ({"width": math.nan}, "width is nan: it must be a whole number"),
        ({"width": math.inf}, "width is inf: it must be a whole number"),
        ({"width": 2**63}, "width is 9223372036854775808: it must be a whole number"),
        ({"width": 10**400}, "it must be a whole number"),
        ({"vocabulary": 2.5}, "vocabulary is 2.5: it must be a whole number"),
        ({"learning_rate": {"base": True}}, "learning_rate.base is True: it must be a finite number"),
        ({"learning_rate": {"base": math.nan}}, "learning_rate.base is nan: it must be a finite number"),
        ({"learning_rate": {"base": -math.inf}}, "learning_rate.base is -inf: it must be a finite number"),
        ({"learning_rate": {"base": 10**400}}, "it must be a finite number"),
        ({"learning_rate": {"base": "x"}}, "learning_rate.base is 'x': it must be a finite number"),
        ({"layer": 3}, "layer is 3: it must be a text"),
        (
            {"objective": {"kind": "kl", "given_head": 1}},
            "objective.given_head is 1: it must be true or false",
        ),
        ({"depths": 6}, "depths is 6: it must be a list"),
        ({"depths": {"first": 6}}, "depths is {'first': 6}: it must be a list"),
        ({"depths": "6"}, "depths is '6': it must be a list"),
        ({"depths": [6, "x"]}, "depths[1] is 'x': it must be a whole number"),
        ([1], "the config is [1]: it must be a table"),
        (None, "the config is None: it must be a table"),
    ],
)
def test_what_cannot_be_decoded(plain, message):
    """A key or a type that is not the config's own is refused by name, with the value and what it must be."""
    with pytest.raises(ConfigError) as refused:
        decode(CohortConfig, plain, "here")
    assert str(refused.value).startswith("here: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"width": 0}, "here: width is 0: it must be at least 1"),
        ({"hidden_factor": 0}, "here: hidden_factor is 0: it must be at least 1"),
        ({"batch": -1}, "here: batch is -1: it must be at least 1"),
        ({"steps": 0}, "here: steps is 0: it must be at least 1"),
        ({"steps": 2**31}, "here: steps is 2147483648: it must be below 2^31"),
        ({"layer": "eulr"}, "here: layer is eulr: it must be one of euler, midpoint"),
        ({"depths": []}, "here: depths is (): it must name at least one"),
        ({"depths": [0, 3]}, "here: depths is (0, 3): it must all be at least 1"),
        ({"depths": [3, 3]}, "here: depths is (3, 3): it must name each value once"),
        ({"seeds": []}, "here: seeds is (): it must name at least one"),
        ({"seeds": [-1]}, "here: seeds is (-1,): it must all be at least 0"),
        ({"seeds": [1, 1]}, "here: seeds is (1, 1): it must name each value once"),
        ({"seeds": [2**31]}, "here: seeds is (2147483648,): it must all be below 2^31"),
        ({"objective": {"kind": "kl"}}, "here: vocabulary is not set: objective kl compares logits; set it"),
        ({"vocabulary": 8}, "here: vocabulary is 8: objective mse has no head; leave it out"),
        (
            {"objective": {"kind": "kl"}, "vocabulary": 1},
            "here: vocabulary is 1: it must be at least 2",
        ),
        ({"objective": {"kind": "kl", "temperatures": []}}, "here: objective: temperatures is empty"),
        (
            {"objective": {"kind": "kl", "temperatures": [0]}},
            "here: objective: temperatures holds 0.0: every temperature must be positive",
        ),
        (
            {"objective": {"kind": "kl", "temperatures": [1, 1]}},
            "here: objective: temperatures holds a value twice",
        ),
        ({"learning_rate": {"base": 0}}, "here: learning_rate: base is 0.0: it must be positive"),
        (
            {"learning_rate": {"reference_depth": 0}},
            "here: learning_rate: reference_depth is 0.0: it must be positive",
        ),
        (
            {"learning_rate": {"hold_fraction": 1.1}},
            "here: learning_rate: hold_fraction is 1.1: it must lie in [0, 1]",
        ),
        (
            {"learning_rate": {"final_fraction": -0.1}},
            "here: learning_rate: final_fraction is -0.1: it must lie in [0, 1]",
        ),
        ({"adam": {"beta1": 1}}, "here: adam: beta1 is 1.0: it must lie in [0, 1)"),
        ({"adam": {"beta2": -0.1}}, "here: adam: beta2 is -0.1: it must lie in [0, 1)"),
        ({"adam": {"epsilon": 0}}, "here: adam: epsilon is 0.0: it must be positive"),
        ({"evaluation": {"batches": 0}}, "here: evaluation: batches is 0: it must be at least 1"),
        ({"evaluation": {"batch": 0}}, "here: evaluation: batch is 0: it must be at least 1"),
        ({"evaluation": {"points": 0}}, "here: evaluation: points is 0: it must be at least 1"),
        ({"evaluation": {"first_step": 0}}, "here: evaluation: first_step is 0: it must be at least 1"),
        ({"teacher": {"kind": "tied", "depth": 0}}, "here: teacher: depth of the teacher is 0: it must be"),
        (
            {"teacher": {"kind": "tied", "residual_scale": 0}},
            "here: teacher: residual_scale is 0.0: it must be positive",
        ),
        (
            {"teacher": {"kind": "correlated", "rho": 1.1}},
            "here: teacher: rho is 1.1: it must lie between 0 (independent) and 1 (tied)",
        ),
        (
            {"teacher": {"kind": "flow", "tolerance": 0}},
            "here: teacher: tolerance is 0.0: it must be positive",
        ),
    ],
)
def test_rules(plain, message):
    """A rule that a config breaks is said with the place, the field, the value and the remedy."""
    with pytest.raises(ConfigError) as refused:
        decode(CohortConfig, plain, "here")
    assert str(refused.value).startswith(message)


@dataclasses.dataclass(frozen=True)
class Needing:
    """A config with a field that has no default."""

    needed: int
    other: int = 0


def test_missing_key():
    """A field without a default must be there."""
    with pytest.raises(ConfigError, match=r"^here: needed is missing$"):
        decode(Needing, {"other": 1}, "here")
    assert decode(Needing, {"needed": 1}, "here") == Needing(1)


def test_no_canonical_text_of_nan():
    """What JSON cannot hold has no canonical text, so that no id is made of it."""
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical({"base": math.nan})


def test_nearest():
    """The hint is the nearest known word, or all of them where none is near; a digest is hexadecimal."""
    assert nearest("learnin_rate", ["steps", "learning_rate"]) == "did you mean 'learning_rate'?"
    assert nearest("zzz", ["steps", "depth"]) == "known: depth, steps"
    assert len(digest({})) == 12 and int(digest({}), 16) >= 0


class TestInfinity:
    """A field that says so may be infinite, in every notation; no other may."""

    @pytest.mark.parametrize("value", [math.inf, "inf"])
    def test_it_is_kept(self, value):
        """TOML's inf and JSON's text mean the same, and JSON holds it as that text."""
        teacher = {"kind": "drifting", "length": value}
        config = decode(CohortConfig, {"teacher": teacher}, "spec")
        assert config.teacher == Drifting(length=math.inf)
        assert json.loads(canonical(config))["teacher"]["length"] == "inf"
        assert decode(CohortConfig, json.loads(canonical(config)), "spec") == config

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({"length": -math.inf}, r"teacher.length is -inf: it must be a finite number"),
            ({"length": "infinite"}, r"teacher.length is 'infinite': it must be a finite number"),
            ({"length": math.nan}, r"teacher.length is nan: it must be a finite number"),
            ({"residual_scale": math.inf}, r"teacher.residual_scale is inf: it must be a finite number"),
            ({"residual_scale": "inf"}, r"teacher.residual_scale is 'inf': it must be a finite number"),
        ],
    )
    def test_nothing_else_is(self, table, message):
        """Other infinities and other fields are refused."""
        with pytest.raises(ConfigError, match=message):
            decode(CohortConfig, {"teacher": {"kind": "drifting"} | table}, "spec")

    def test_an_infinity_of_another_field_is_no_json(self):
        """Made in Python, it is refused where it would be written, not where it is read again."""
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical(CohortConfig(teacher=Flow(tolerance=math.inf)))
