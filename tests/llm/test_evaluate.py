"""Validation: one number, whatever the batch, and at other recurrences than trained."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from llm import Additive, DataConfig, Evaluation, Files, LoopedLM, ModelConfig, build, evaluate, token_losses
from llm._rules import require_recurrences


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """A few documents as bytes, in sequences of 8."""
    folder = tmp_path_factory.mktemp("corpus")
    for i in range(12):
        (folder / f"{i}.txt").write_text("depth is " + "very " * i + "deep", encoding="utf-8")
    data = DataConfig(corpus=Files((str(folder),)), context=8, validation=0.5)
    return build(data, cache=tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="module")
def model():
    """Not at its start, where all logits are near zero."""
    config = ModelConfig(width=8, head_size=4, prelude=1, layers=2, coda=1, num_recur=2, injection=Additive())
    drawn = LoopedLM.draw(config, 256, jax.random.key(0))
    return dataclasses.replace(drawn, head=300.0 * drawn.head)


@pytest.mark.parametrize("num_recur", [1, 2, 5])
def test_mean_over_all_tokens(model, tokens, num_recur):
    """loss: the mean of −log p; bpb: the sum of it over bytes / (log 2 · bytes), separators in neither."""
    every = jnp.concatenate([batch[:real] for batch, real in tokens.validation_batches(1)])
    losses = np.asarray(token_losses(model, every, num_recur, separator=255), np.float64)
    is_byte = np.asarray(every[:, 1:] != 255)
    expected = losses.mean(), losses[is_byte].sum() / (np.log(2) * is_byte.sum())
    for batch in (3, 32):
        found = evaluate(model, tokens, Evaluation(batch=batch), num_recur=num_recur)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_space_of_the_tokenizers_own_is_no_byte(model, tokens):
    """Where the first token of a document counts a byte that its text has not, bits a byte leave it out."""
    every = np.concatenate([batch[:real] for batch, real in tokens.validation_batches(1)])
    num_bytes = np.sum(every[:, 1:] != 255)
    begun = np.sum((every[:, :-1] == 255) & (every[:, 1:] != 255))
    plain, found = evaluate(model, tokens), evaluate(model, dataclasses.replace(tokens, prefix_bytes=1))
    assert begun > 0 and found.loss == plain.loss
    assert found.bpb == pytest.approx(plain.bpb * num_bytes / (num_bytes - begun), rel=1e-6)


def test_default_is_the_trained_number(model, tokens):
    """Without a number of recurrences it is the config's; another gives another loss."""
    assert evaluate(model, tokens) == evaluate(model, tokens, num_recur=2)
    assert evaluate(model, tokens) != evaluate(model, tokens, num_recur=3)


def test_masked_documents_matter(model, tokens):
    """With documents masked, the losses after the first separator in a sequence are others."""
    masked = dataclasses.replace(model, config=dataclasses.replace(model.config, mask_documents=True))
    every = jnp.concatenate([batch[:real] for batch, real in tokens.validation_batches(1)])
    plain = np.asarray(token_losses(model, every, separator=255))
    changed = np.asarray(token_losses(masked, every, separator=255))
    first = np.asarray(every)
    inside = np.cumsum(first[:, :-1] == 255, axis=1) > (first[:, :1] == 255)
    np.testing.assert_allclose(changed[~inside], plain[~inside], rtol=1e-5)
    assert inside.any() and not np.allclose(changed[inside], plain[inside], rtol=1e-5)


def test_errors(model, tokens):
    """No recurrences, an unknown precision, and tokens that the model has no rows for, are refused."""
    with pytest.raises(ValueError, match="num_recur is 0: it must be a whole number, at least 1"):
        evaluate(model, tokens, num_recur=0)
    with pytest.raises(ValueError, match="num_recur is 1.5: it must be a whole number"):
        require_recurrences(1.5)
    with pytest.raises(ValueError, match="precision is bf16: it must be one of float32, bfloat16"):
        evaluate(model, tokens, precision="bf16")
    for vocabulary in (200, 4096):
        other = dataclasses.replace(model, vocabulary=vocabulary)
        with pytest.raises(ValueError, match=f"the tokens' vocabulary is 256, the model's {vocabulary}"):
            evaluate(other, tokens)
