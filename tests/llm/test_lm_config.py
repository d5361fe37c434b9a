"""Configs of language models: rules, what follows from them, and the way through JSON and TOML."""

import json
import math
import re
import tomllib
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from llm import (
    AdamW,
    Additive,
    DataConfig,
    Evaluation,
    Hyperconnections,
    Linear,
    ModelConfig,
    MuonH,
    Passthrough,
    RunConfig,
    SampledRecurrences,
    Transfer,
)
from sweeps._config import ConfigError, canonical, decode, encode

LANES = Hyperconnections(2)


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (ModelConfig, {"width": 0}, "width is 0: it must be at least 1"),
        (ModelConfig, {"head_size": 0}, "head_size is 0: it must be at least 2"),
        (
            ModelConfig,
            {"head_size": 5, "width": 10},
            "head_size is 5: it must be even: positions rotate pairs",
        ),
        (ModelConfig, {"width": 100}, "width is 100: it must be a multiple of head_size, which is 128"),
        (ModelConfig, {"layers": 0}, "layers is 0: it must be at least 1"),
        (ModelConfig, {"num_recur": 0}, "num_recur is 0: it must be at least 1"),
        (ModelConfig, {"num_recur": 3}, "num_recur is 3: it must divide layers, which is 16"),
        (ModelConfig, {"prelude": -1}, "prelude is -1: it must be at least 0"),
        (ModelConfig, {"coda": -1}, "coda is -1: it must be at least 0"),
        (
            ModelConfig,
            {"num_recur": 4, "backprop_recurrences": 0},
            "backprop_recurrences is 0: it must be from 1 to the recurrences, 4",
        ),
        (
            ModelConfig,
            {"num_recur": 4, "backprop_recurrences": 5},
            "backprop_recurrences is 5: it must be from 1 to the recurrences, 4",
        ),
        (
            ModelConfig,
            {"num_recur": 4, "backprop_recurrences": 9, "sampled": SampledRecurrences(most=8)},
            "backprop_recurrences is 9: it must be from 1 to the recurrences, 8",
        ),
        (
            ModelConfig,
            {"num_recur": 4, "backprop_recurrences": 2, "injection": LANES},
            "backprop_recurrences is 2: with injection hyperconnections it must be 4 or left out",
        ),
        (
            ModelConfig,
            {"num_recur": 4, "backprop_recurrences": 2, "injection": Passthrough()},
            "backprop_recurrences is 2: with injection passthrough it must be 4 or left out, since embedding "
            "and prelude",
        ),
        (
            ModelConfig,
            {"num_recur": 4, "sampled": SampledRecurrences(most=3)},
            "sampled.most is 3: it must be at least num_recur, 4",
        ),
        (SampledRecurrences, {"spread": -0.1}, "spread is -0.1: it must be at least 0"),
        (SampledRecurrences, {"spread": float("nan")}, "spread is nan: it must be at least 0"),
        (SampledRecurrences, {"most": 0}, "most is 0: it must be at least 1"),
        (Evaluation, {"points": 0}, "points is 0: it must be at least 1"),
        (Evaluation, {"batch": 0}, "batch is 0: it must be at least 1"),
        (Evaluation, {"sequences": 0}, "sequences is 0: it must be at least 1"),
        (RunConfig, {}, "budget is None and num_tokens is None: set exactly one of them"),
        (
            RunConfig,
            {"budget": 1.0, "num_tokens": 1.0},
            "budget is 1.0 and num_tokens is 1.0: set exactly one of them",
        ),
        (RunConfig, {"budget": 0.0}, "budget is 0.0: it must be positive and finite"),
        (RunConfig, {"budget": math.inf}, "budget is inf: it must be positive and finite"),
        (RunConfig, {"num_tokens": -1.0}, "num_tokens is -1.0: it must be positive and finite"),
        (RunConfig, {"budget": 1.0, "batch": 0}, "batch is 0: it must be at least 1"),
        (RunConfig, {"budget": 1.0, "accumulation": 0}, "accumulation is 0: it must be at least 1"),
        (
            RunConfig,
            {"budget": 1.0, "batch": 6, "accumulation": 4},
            "accumulation is 4: it must divide batch, which is 6",
        ),
        (RunConfig, {"budget": 1.0, "seed": -1}, "seed is -1: it must be at least 0"),
        (RunConfig, {"budget": 1.0, "seed": 2**31}, "seed is 2147483648: it must be below 2^31"),
        (
            RunConfig,
            {"budget": 1.0, "precision": "float16"},
            "precision is float16: it must be one of float32, bfloat16",
        ),
    ],
)
def test_each_rule_names_field_value_and_rule(cls, fields, message):
    """Where the object is made."""
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        cls(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"prelude": 0, "coda": 0},
        {"num_recur": 16},
        {"num_recur": 4, "backprop_recurrences": 4},
        {"num_recur": 4, "backprop_recurrences": 4, "injection": LANES},
        {"num_recur": 4, "backprop_recurrences": 6, "sampled": SampledRecurrences(most=8)},
        {"num_recur": 4, "sampled": SampledRecurrences(spread=0.0, most=4)},
    ],
)
def test_the_edge_of_each_rule_is_inside(fields):
    """No message for the last value that a rule allows."""
    ModelConfig(**fields)


def test_defaults_are_the_papers():
    """Twenty executed layers of width 64·s at s = 10, heads of 128, batches of 2^18 tokens; linear injection
    with recurrences and none without."""
    for r in (1, 2, 4, 8):
        model = ModelConfig(num_recur=r)
        assert (model.executed, model.width, model.head_size, model.block) == (20, 640, 128, 16 // r)
        assert model.injected == (Passthrough() if r == 1 else Linear())
    run = RunConfig(budget=1e18)
    assert run.batch_tokens == 2**18 and run.optimiser == MuonH() and run.precision == "float32"
    assert ModelConfig(num_recur=2, injection=Additive()).injected == Additive()
    assert ModelConfig(num_recur=1, injection=Additive()).injected == Passthrough()


@hypothesis.given(st.integers(1, 30), st.integers(1, 1000))
def test_validations_are_spread_over_the_run(points, steps):
    """Increasing steps from 1 on, the last at the end, `points` of them where there are as many steps, with
    gaps that differ by less than two."""
    at = Evaluation(points=points).at(steps)
    assert list(at) == sorted(set(at)) and at[0] >= 1 and at[-1] == steps
    assert len(at) == min(points, steps)
    gaps = [after - before for before, after in zip((0, *at), at, strict=False)]
    assert max(gaps) - min(gaps) < 2


# Through JSON and TOML.

numbers = st.floats(1e-3, 1e20)
injections = st.one_of(
    st.none(),
    st.sampled_from([Linear(), Additive(), Passthrough()]),
    st.builds(Hyperconnections, st.integers(1, 8)),
)
optimisers = st.one_of(
    st.builds(MuonH, matrix=numbers, transfer=st.none() | st.builds(Transfer, width=st.integers(1, 9999))),
    st.builds(AdamW, matrix=numbers, weight_decay=numbers),
)
runs = st.builds(
    lambda length, **fields: RunConfig(**length, **fields),
    length=st.one_of(numbers.map(lambda x: {"budget": x}), numbers.map(lambda x: {"num_tokens": x})),
    model=st.builds(
        ModelConfig,
        num_recur=st.sampled_from([1, 2, 4]),
        injection=injections,
        sampled=st.none() | st.builds(SampledRecurrences, spread=st.floats(0, 2)),
        mask_documents=st.booleans(),
    ),
    optimiser=optimisers,
    data=st.builds(DataConfig, context=st.integers(1, 4096)),
    evaluation=st.builds(Evaluation, sequences=st.none() | st.integers(1, 99)),
    seed=st.integers(0, 2**31 - 1),
    precision=st.sampled_from(["float32", "bfloat16"]),
)


def toml(value: dict[str, Any]) -> str:
    """Plain values as one inline table: what is None is left out."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            entries = [f"{key} = {text(entry)}" for key, entry in value.items() if entry is not None]
            return "{" + ", ".join(entries) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        return json.dumps(value)

    return "value = " + text(value)


@hypothesis.given(runs)
def test_a_run_comes_back_from_json_and_toml(config):
    """decode(encode(config)) is the config, with every injection and optimiser, to the last bit."""
    plain = encode(config)
    assert decode(RunConfig, json.loads(json.dumps(plain)), "spec") == config
    assert decode(RunConfig, tomllib.loads(toml(plain))["value"], "spec") == config
    assert canonical(decode(RunConfig, plain, "spec")) == canonical(config)


def test_what_is_left_out_is_the_default():
    """A spec names what differs."""
    spec = {"budget": 1e18, "model": {"num_recur": 4, "injection": {"kind": "hyperconnections"}}}
    expected = RunConfig(budget=1e18, model=ModelConfig(num_recur=4, injection=LANES))
    assert decode(RunConfig, spec, "spec") == expected
    transferred = decode(RunConfig, {"budget": 1, "optimiser": {"kind": "muonh", "transfer": {}}}, "spec")
    assert transferred.optimiser == MuonH(transfer=Transfer())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_token": 1}, "spec: num_token is not a known key: did you mean 'num_tokens'?"),
        ({"model": {"widht": 8}}, "spec: model.widht is not a known key: did you mean 'width'?"),
        (
            {"model": {"injection": {"kind": "hyperconections"}}},
            "spec: model.injection.kind is 'hyperconections': did you mean 'hyperconnections'?",
        ),
        (
            {"model": {"injection": {"kind": "linear", "lanes": 2}}},
            "spec: model.injection.lanes is not a known key",
        ),
        (
            {"model": {"injection": {}}},
            "spec: model.injection has no kind: it must be one of additive, hyperconnections, linear, ",
        ),
        ({"optimiser": {"kind": "adam"}}, "spec: optimiser.kind is 'adam': did you mean 'adamw'?"),
        (
            {"optimiser": {"kind": "adamw", "transfer": {}}},
            "spec: optimiser.transfer is not a known key",
        ),
        ({"model": {"sampled": {"spred": 1}}}, "spec: model.sampled.spred is not a known key"),
        ({"model": {"num_recur": 3}}, "spec: model: num_recur is 3: it must divide layers, which is 16"),
        ({"model": {"width": 8.5}}, "spec: model.width is 8.5: it must be a whole number"),
        ({"rematerialise": 1}, "spec: rematerialise is 1: it must be true or false"),
    ],
)
def test_a_spec_with_a_mistake_says_where(fields, message):
    """Unknown keys and kinds are refused with the nearest; a rule's message comes after the place."""
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        decode(RunConfig, {"budget": 1e18, **fields}, "spec")
