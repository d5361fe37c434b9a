"""Laws of the tasks that are built in."""

import hashlib
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.axes import AXES, GENERATORS, Item, prompt, score
from llm.axes._draw import Draw

NAMES = list(GENERATORS)
CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


def rest_of_induction(block):
    """What follows: the word after the one that comes again."""
    words = block.split(" ")
    cue = words[8]
    return " " + words[words.index(cue) + 1], len(" ".join(words[:9]))


def rest_of_assignment(block):
    """What follows: the value of what is asked, looked up through other variables."""
    between = "\n" if "\n" in block.rstrip("\n") else ", "
    *given, asked = block.split(between)
    known = dict(re.split(" ?= ?", one) for one in given)
    name, equals, _ = re.match(r"(\w)( ?=)(.*)", asked, re.S).groups()
    value = known[known[name]] if known[name] in known else known[name]
    begins = len(block) - len(asked) + len(name + equals)
    return (" " if equals == " =" else "") + value + "\n", begins


def rest_of_dyck(block):
    """What follows: the brackets that close what is open; those that close it already are left alone."""
    stack = []
    for char in block.replace(" ", ""):
        if char in CLOSING:
            stack.append(CLOSING[char])
        elif stack and char == stack[-1]:
            stack.pop()
    return "".join(f" {char}" for char in reversed(stack)) + "\n", len(block)


def solve(prefix):
    """The next character, from the text alone; nothing where the text asks nothing yet."""
    block = prefix.split("\n\n")[-1]
    if re.fullmatch(r"[][(){}<> ]+", block):
        text, _ = rest_of_dyck(block)
        return {text.lstrip()[0] if block.endswith(" ") and text.strip() else text[0]: 1.0}
    try:
        text, begins = (rest_of_assignment if "=" in block else rest_of_induction)(block)
    except (IndexError, ValueError, AttributeError, KeyError):
        return {}
    told = block[begins:]
    return {text[len(told)]: 1.0} if text.startswith(told) and told != text else {}


@pytest.mark.parametrize("name", NAMES)
def test_a_solver_is_always_right(fake, name):
    """A model that solves each text has all right and no loss, with examples and without."""
    for shots in (0, 2):
        found = score(fake(solve), [GENERATORS[name]], items=12, shots=shots)[name]
        assert found.accuracy == 1 and found.loss < 1e-6 and found.nats_per_byte < 1e-6
        assert (found.items, found.shots, found.cut, found.left_out) == (12, shots, 0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_knows_nothing_loses_log_v_a_token(uniform, name):
    """A uniform model loses exactly log V a token and a byte, with no error over items, and is right V^-n."""
    task = GENERATORS[name]
    found = score(uniform, [task], items=10)[name]
    assert found.loss == pytest.approx(math.log(256), rel=1e-15)
    assert found.nats_per_byte == pytest.approx(math.log(256), rel=1e-15) and found.loss_error < 1e-14
    lengths = [len(item.continuation) for item in task.items(10, 0)]
    assert found.accuracy == pytest.approx(np.mean([256.0**-n for n in lengths]))


@pytest.mark.parametrize("name", NAMES)
def test_chance_is_what_a_guess_reaches(fake, name):
    """One that spreads its mass over the possible answers has the loss that is stated as chance; one that
    picks one of them at random is right as often as stated, to four standard deviations of 2000 picks."""
    task = GENERATORS[name]
    asked = {item.context: task.possible(item) for item in task.items(10, 0)}

    def guess(prefix):
        context = next((one for one in asked if prefix.startswith(one)), None)
        if context is None:
            return {}
        told = prefix[len(context) :]
        left = [one for one in asked[context] if one.startswith(told) and one != told]
        chars = [one[len(told)] for one in left]
        return {char: chars.count(char) / len(chars) for char in chars}

    found = score(fake(guess), [task], items=10, shots=0)[name]
    assert found.loss == pytest.approx(found.chance_loss, rel=1e-6)
    rng = np.random.default_rng(0)
    items = task.items(2000, 0)
    hits = [rng.choice(task.possible(item)) == item.continuation for item in items]
    chances = np.array([item.chance for item in items])
    spread = math.sqrt((chances * (1 - chances)).sum()) / len(items)
    assert abs(np.mean(hits) - chances.mean()) < 4 * spread
    stated = re.search(r"1/(\d)|(0\.\d+) on average", task.chance)
    wanted = 1 / int(stated[1]) if stated[1] else float(stated[2])
    assert chances.mean() == pytest.approx(wanted, abs=0.005)


@given(name=st.sampled_from(NAMES), seed=st.integers(-5, 10**6))
def test_answers_are_possible_and_none_begins_another(name, seed):
    """The right answer is one of the possible ones, once, and a text never has to end before it is told
    from the others."""
    task = GENERATORS[name]
    (item,) = task.items(1, seed)
    possible = task.possible(item)
    assert possible.count(item.continuation) == 1 and item.chance == 1 / len(possible)
    assert not any(a != b and a.startswith(b) for a in possible for b in possible)


@given(name=st.sampled_from(NAMES), seed=st.integers(0, 10**6), number=st.integers(0, 50))
def test_examples_are_never_the_item(name, seed, number):
    """What is put before an item has another context, so that the answer is not told; and is the same for the
    same seed."""
    task = GENERATORS[name]
    item = task.items(number + 1, seed)[number]
    before = task.examples(item, number, 4, seed)
    assert len(before) == 4 and item.context not in [one.context for one in before]
    assert before == task.examples(item, number, 4, seed)
    assert before != task.examples(item, number + 1, 4, seed)


def test_an_item_that_is_drawn_again_is_no_example(monkeypatch):
    """Where the draw for an example is the item itself, another is drawn."""
    task = GENERATORS["dyck"]
    (item,), others = task.items(1, 0), task.items(2, 1)
    drawn = iter([item, others[0], item, item, others[1]])
    monkeypatch.setattr(type(task), "draw", lambda self, draw: next(drawn))
    assert task.examples(item, 0, 2, 0) == others


@pytest.mark.parametrize("name", NAMES)
def test_seeds(name):
    """The same seed gives the same items however many are asked for; another seed gives others."""
    task = GENERATORS[name]
    assert task.items(20, 3)[:5] == task.items(5, 3)
    assert task.items(20, 3) != task.items(20, 4)
    assert len({item.context for item in task.items(20, 3)}) == 20


def test_items_are_the_same_everywhere():
    """The texts of all tasks have the hash that they had when this was written: machines, versions of Python
    and of ours agree. Who changes what is drawn raises `VERSION`, and this hash."""
    text = "".join(
        f"{prompt(task.examples(item, i, 2, 7), item)}|{item.continuation}|"
        for task in GENERATORS.values()
        for i, item in enumerate(task.items(50, 7))
    )
    assert hashlib.sha256(text.encode()).hexdigest() == HASH


HASH = "7e86fd5c523fe1e6b01a8c846e265833a681a6b7601470bdfde5f3636d8a8100"


def test_what_the_tasks_are():
    """Five assignments of 1 to 25, five aliases one to one at depth 1, eight words, brackets four deep."""
    for item in GENERATORS["assignment_1_code"].items(50, 0):
        lines = item.context.split("\n")
        values, aliases = (dict(line.split(" = ") for line in part) for part in (lines[:5], lines[5:10]))
        assert len(values) == len(aliases) == len(set(values.values())) == 5
        assert all(1 <= int(value) <= 25 for value in values.values())
        assert set(aliases.values()) == set(values) and lines[10].removesuffix(" =") in aliases
        exec(item.context.removesuffix(lines[10]), {})  # it is Python
    for item in GENERATORS["assignment_0_math"].items(50, 0):
        assert re.fullmatch(r"(\w=\d+, ){5}\w=", item.context)
    for item in GENERATORS["induction"].items(50, 0):
        words = item.context.split(" ")
        assert len(words) == 9 and len(set(words)) == 8 and words[7] != words[8]
    for item in GENERATORS["dyck"].items(200, 0):
        depth = np.cumsum([1 if char in CLOSING else -1 for char in item.context.split()])
        assert depth.min() >= 0 and 1 <= depth[-1] == len(item.continuation.split()) <= 4 >= depth.max()
        assert 6 <= len(depth) <= 15
    assert {task.axis for task in GENERATORS.values()} <= set(AXES)


@given(st.integers(1, 30), st.data())
def test_a_sample_is_a_sample(size, data):
    """So many of the options, none twice; every option comes as often as another."""
    count = data.draw(st.integers(0, size))
    found = Draw("sample", size, count).sample(range(size), count)
    assert len(found) == len(set(found)) == count and set(found) <= set(range(size))


def test_every_place_of_a_sample_is_uniform():
    """Of 3000 samples of 2 of 6, each option is first, and second, 500 times, to four standard deviations."""
    draw = Draw("uniform")
    counts = np.zeros((2, 6))
    for _ in range(3000):
        for place, found in enumerate(draw.sample(range(6), 2)):
            counts[place, found] += 1
    assert np.abs(counts - 500).max() < 4 * math.sqrt(3000 * (1 / 6) * (5 / 6))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"choices": ()}, "choices are ()"),
        ({"choices": ("a", "")}, "none may be empty"),
        ({"choices": ("a", "b"), "answer": 2}, "answer is 2: it must be from 0 to 1"),
        ({"choices": ("a",), "guess": 0.0}, "guess is 0.0: it must be above 0 and at most 1"),
    ],
)
def test_bad_items(arguments, told):
    """An item without an answer, or with a chance that is none, is refused."""
    with pytest.raises(ValueError, match=re.escape(told)):
        Item("context", **arguments)
