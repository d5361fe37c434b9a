"""Laws of specs: a TOML text is the cohorts that it says, and a wrong one is refused before anything runs."""

import itertools
import json
import math
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeps._config import ConfigError
from sweeps._spec import load_spec, parse_spec
from toymodels import KL, CohortConfig, Correlated, Independent, LearningRate, Tied

HEAD = '[sweep]\nname = "x"\n'


def parsed(text, *settings):
    """The spec of a TOML text."""
    source = tomllib.loads(HEAD + text)
    if settings:
        source["set"] = tomllib.loads("\n".join(settings))
    return parse_spec(source, "x.toml")


@pytest.fixture
def write(tmp_path):
    """A file with this text or these bytes."""

    def write(text, name="x.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_base_is_one_cohort():
    """Without cases and grid there is one cohort, the default laid under the base."""
    assert parsed("").cohorts == (CohortConfig(),)
    assert parsed("[base]\nsteps = 7").cohorts == (CohortConfig(steps=7),)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["tied", "independent"]), max_size=2, unique=True),
)
def test_cases_times_grid(widths, steps, kinds):
    """The cohorts are all combinations of a case with a value of every axis, each once."""
    cases = "".join(f'[[case]]\nteacher = {{ kind = "{kind}" }}\n' for kind in kinds)
    spec = parsed(f"{cases}[grid]\nwidth = {widths}\nsteps = {steps}\n")
    found = [(cohort.teacher.kind, cohort.width, cohort.steps) for cohort in spec.cohorts]
    assert len(found) == len(set(found))
    assert set(found) == set(itertools.product(kinds or ["independent"], widths, steps))


def test_equal_cohorts_are_one():
    """Combinations that come to the same config are run once, in the order of their first mention."""
    text = "[[case]]\nwidth = 4\n[[case]]\nwidth = 4.0\n[[case]]\nwidth = 5\n[grid]\nsteps = [3, 3, 2]"
    assert [(c.width, c.steps) for c in parsed(text).cohorts] == [(4, 3), (4, 2), (5, 3), (5, 2)]


def test_grid_overrides_case_overrides_base():
    """What is said later and closer holds: grid over case over base, key by key."""
    text = """
    [base]
    width = 4
    adam = { beta1 = 0.5, beta2 = 0.6 }
    teacher = { kind = "tied", depth = 9 }
    [[case]]
    adam = { beta2 = 0.7 }
    [[case]]
    teacher = { kind = "correlated", rho = 0.25 }
    [[case]]
    teacher = { depth = 11 }
    [grid]
    "adam.beta1" = [0.8]
    """
    one, two, three = parsed(text).cohorts
    assert (one.adam.beta1, one.adam.beta2, one.width) == (0.8, 0.7, 4)
    # Another kind replaces the table: depth 9 was the tied teacher's.
    assert two.teacher == Correlated(rho=0.25) and two.adam.beta2 == 0.6
    assert three.teacher == Tied(depth=11)


def test_nested_axes_are_dotted_ones():
    """[grid.teacher] depth is "teacher.depth" in [grid]; an axis may hold whole tables."""
    base = '[base]\nteacher = { kind = "tied" }\n'
    dotted = parsed(base + '[grid]\n"teacher.depth" = [2, 3]').cohorts
    assert parsed(base + "[grid.teacher]\ndepth = [2, 3]").cohorts == dotted
    assert [cohort.teacher for cohort in dotted] == [Tied(depth=2), Tied(depth=3)]
    tables = parsed('[grid]\nteacher = [{ kind = "tied" }, { kind = "independent", depth = 4 }]').cohorts
    assert [cohort.teacher for cohort in tables] == [Tied(), Independent(depth=4)]


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 40))
def test_logspace(first, last, count):
    """`logspace` begins and ends exactly as told, its steps in the logarithm are equal to ten digits."""
    assume(abs(math.log(last / first)) > 1e-7 * count)  # values closer than ten digits coincide
    values = f"temperatures = {{ logspace = [{first!r}, {last!r}, {count}] }}"
    text = f"[base]\nvocabulary = 2\nobjective = {{ kind = 'kl', {values} }}"
    values = parsed(text).cohorts[0].temperatures
    assert len(values) == count and (values[0], values[-1]) == (first, last)
    steps = [math.log(b / a) for a, b in itertools.pairwise(values)]
    assert all(abs(step - math.log(last / first) / (count - 1)) < 1e-8 for step in steps)


def test_logspace_where_lists_are():
    """`logspace` can stand in base, case, grid and setting, and whole numbers come out whole."""
    lists = "{ logspace = [1, 64, 7] }"
    for text in (f"[base]\ndepths = {lists}", f"[[case]]\ndepths = {lists}", f"[set]\ndepths = {lists}"):
        assert parsed(text).cohorts[0].depths == (1, 2, 4, 8, 16, 32, 64)
    assert [c.steps for c in parsed(f"[grid]\nsteps = {lists}").cohorts] == [1, 2, 4, 8, 16, 32, 64]
    kl = 'vocabulary = 4\nobjective = { kind = "kl", temperatures = { logspace = [0.01, 1.0, 3] } }'
    assert parsed(f"[base]\n{kl}").cohorts[0].objective == KL((0.01, 0.1, 1.0))


class TestSettings:
    """`--set key=value` lies over all of the spec."""

    SPEC = """
    [base]
    width = 4
    teacher = { kind = "tied", depth = 9 }
    [[case]]
    steps = 3
    [[case]]
    steps = 5
    teacher = { kind = "correlated", rho = 0.25 }
    [grid]
    batch = [10, 20]
    """

    def cohorts(self, write, *settings):
        return load_spec(write(HEAD + self.SPEC), settings).cohorts

    def test_over_base(self, write):
        """A setting replaces the base's value, for every case."""
        assert {c.width for c in self.cohorts(write, "width=6")} == {6}
        assert {c.width for c in self.cohorts(write, " width = 6 ")} == {6}

    def test_over_case(self, write):
        """A setting replaces the cases' own values; cases that come to the same are run once."""
        found = self.cohorts(write, "steps=4", "teacher={kind='tied', depth=9}")
        assert {c.steps for c in found} == {4}
        assert len(found) == 2

    def test_replaces_an_axis(self, write):
        """A setting of an axis of the grid leaves one value of it."""
        found = self.cohorts(write, "batch=7")
        assert [c.batch for c in found] == [7, 7]

    def test_key_of_a_table_in_every_case(self, write):
        """A dotted key reaches the teacher of every case, and leaves the rest of it alone."""
        found = self.cohorts(write, "teacher.depth=2")
        assert {c.teacher for c in found} == {Tied(depth=2), Correlated(depth=2, rho=0.25)}

    def test_whole_table(self, write):
        """A table of another kind replaces the one below; one of the same or no kind is laid over it."""
        replaced = self.cohorts(write, 'teacher={ kind = "independent", depth = 5 }')
        assert {c.teacher for c in replaced} == {Independent(depth=5)}
        rate = self.cohorts(write, "learning_rate={ base = 0.5 }", "learning_rate.final_fraction=0")
        assert {c.learning_rate for c in rate} == {LearningRate(0.5, final_fraction=0.0)}

    def test_text_needs_no_quotes(self, write):
        """What is not TOML is a text."""
        assert {c.layer for c in self.cohorts(write, "layer=midpoint")} == {"midpoint"}
        assert {c.layer for c in self.cohorts(write, "layer='midpoint'")} == {"midpoint"}

    def test_the_last_one_holds(self, write):
        """Of two settings of one key the later holds."""
        assert {c.width for c in self.cohorts(write, "width=6", "width=8")} == {8}

    def test_is_recorded(self, write):
        """The spec written beside the results holds the settings: it gives the same cohorts again."""
        spec = load_spec(write(HEAD + self.SPEC), ("teacher.depth=2", "batch=7"))
        again = parse_spec(json.loads(json.dumps(spec.source)), "spec.json")
        assert again.cohorts == spec.cohorts and again.fit == spec.fit

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("width", "--set 'width': it must be key=value, such as steps=1000 or teacher.depth=32"),
            ("=3", "--set '=3': it must be key=value"),
            ("widht=3", "x.toml (case 0, batch = 10, widht = 3): widht is not a known key: did you mean 'wi"),
            ("width=", "width is '': it must be a whole number"),
            ("width=three", "width is 'three': it must be a whole number"),
            ("width.a=3", "x.toml: set: width.a goes through width, which is not a table"),
            ("teacher.kind=tide", "teacher.kind is 'tide': did you mean 'tied'?"),
            ("seeds=3", "seeds is 3: it must be a list"),
            ("width=" + "9" * 5000, "it must be a whole number"),
        ],
    )
    def test_refused(self, write, setting, message):
        """A setting that cannot be is refused with its key, where it was laid and what to write."""
        with pytest.raises(ConfigError) as refused:
            self.cohorts(write, setting)
        assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sweep]\nname = "x"\n[bse]', "[bse] is not a known table: did you mean 'base'?"),
        ('[sweep]\nname = "x"\nkin = "toy"', "sweep.kin is not a known key: did you mean 'kind'?"),
        ('[sweep]\nname = "x"\nkind = "lm"', "sweep.kind is 'lm': known: toy"),
        ("[base]\nsteps = 3", "sweep.name is None: it must be a text"),
        ("[sweep]\nname = 3", "sweep.name is 3: it must be a text"),
        ('[sweep]\nname = ""', "sweep.name is '': it must be a text"),
        ('[sweep]\nname = "../x"', "sweep.name is '../x': it must be a text that can name a folder"),
        ('[sweep]\nname = "x"\ndescription = 3', "sweep.description is 3: it must be a text"),
        ("sweep = 3", "sweep is 3: it must be a table"),
        (f"{HEAD}[fit]\nby = [3]", "x.toml: fit: by[0] is 3: it must be a text"),
        (f'{HEAD}[fit]\nby = ["techer"]', "fit: by names 'techer', which is not a column: did you mean 'tea"),
        (f"{HEAD}[fit]\nfloor = -1", "fit: floor is -1.0: it must be at least 0"),
        (f"{HEAD}[fit]\nflor = 0", "fit: flor is not a known key: did you mean 'floor'?"),
        (f"{HEAD}[grid]\nsteps = []", "grid.steps is []: it must be a list of values"),
        (f"{HEAD}[grid]\nsteps = 3", "grid.steps is 3: it must be a list of values"),
        (f"{HEAD}[grid.teacher]\ndepth = 3", "grid.teacher.depth is 3: it must be a list of values"),
        (f"{HEAD}[case]\nsteps = 3", "case must be written [[case]], once for each"),
        ('case = []\n[sweep]\nname = "x"', "case is empty: write [[case]] once for each"),
        ('case = [3]\n[sweep]\nname = "x"', "case must be written [[case]], once for each"),
        ('base = 3\n[sweep]\nname = "x"', "base is 3: it must be a table"),
        ('grid = [3]\n[sweep]\nname = "x"', "grid is [3]: it must be a table"),
        ('set = 3\n[sweep]\nname = "x"', "set is 3: it must be a table"),
        (f"{HEAD}[base]\nsteps = 0", "x.toml: steps is 0: it must be at least 1"),
        (f"{HEAD}[[case]]\n[[case]]\nsteps = 0", "x.toml (case 1): steps is 0: it must be at least 1"),
        (f"{HEAD}[grid]\nsteps = [1, 0]", "x.toml (steps = 0): steps is 0: it must be at least 1"),
        (f"{HEAD}[base]\nsteps = nan", "x.toml: steps is nan: it must be a whole number"),
        (
            f"{HEAD}[base]\nsteps = 2020-01-01",
            "steps is datetime.date(2020, 1, 1): it must be a whole number",
        ),
        (f"{HEAD}[grid]\nsteps = [2020-01-01]\n[set]\nsteps = 3", "cannot be recorded as JSON"),
        (f"{HEAD}[base]\ndepths = {{ logspace = [1, 2] }}", "base.depths: logspace is [1, 2]: it must be ["),
        (f"{HEAD}[base]\ndepths = {{ logspace = [0, 2, 3] }}", "logspace is [0, 2, 3]: it must be [first"),
        (f"{HEAD}[base]\ndepths = {{ logspace = [1, 2, 1] }}", "logspace is [1, 2, 1]: it must be [first"),
        (f"{HEAD}[base]\ndepths = {{ logspace = [1, 2, 2.5] }}", "logspace is [1, 2, 2.5]: it must be [f"),
        (f"{HEAD}[base]\ndepths = {{ logspace = [1, 2, inf] }}", "logspace is [1, 2, inf]: it must be [f"),
        (f"{HEAD}[base]\ndepths = {{ logspace = 3 }}", "logspace is 3: it must be [first, last, count]"),
        (f'{HEAD}[base]\ndepths = {{ logspace = ["a", 2, 3] }}', "it must be [first, last, count]"),
        (f"{HEAD}[base", "x.toml cannot be read as TOML: "),
        (f"{HEAD}[base]\nsteps = {'9' * 5000}", "x.toml cannot be read as TOML: "),
        (b"\xff\xfe\x00", "x.toml cannot be read as TOML: "),
        (b"", "sweep.name is None: it must be a text"),
    ],
)
def test_refused(write, text, message):
    """A spec that cannot be is refused with its file, table, key and value."""
    path = write(text)
    with pytest.raises(ConfigError) as refused:
        load_spec(path)
    assert "x.toml" in str(refused.value)
    assert message in str(refused.value)


def test_settings_need_a_table(write):
    """A setting cannot be laid into something that is no table."""
    path = write('set = 3\n[sweep]\nname = "x"')
    with pytest.raises(ConfigError, match="set is 3: it must be a table"):
        load_spec(path, ("steps=3",))


def test_no_file(tmp_path):
    """A name that is neither a preset nor a file, and a folder, are refused; the nearest preset is named."""
    with pytest.raises(ConfigError, match=r"^'quikstart' is neither a preset nor a .toml file: did you mean"):
        load_spec("quikstart")
    with pytest.raises(ConfigError, match=r"nothing.toml does not exist: name a TOML file or a preset"):
        load_spec(str(tmp_path / "nothing.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError, match=r"folder.toml cannot be read as TOML: .*directory"):
        load_spec(str(tmp_path / "folder.toml"))


def test_fit_is_free_of_a_floor_unless_told():
    """`floor` left out means that L_0 is fitted; `by` left out means one fit a teacher."""
    assert parsed("").fit.floor is None and parsed("").fit.by == ("teacher",)
    assert parsed("[fit]\nfloor = 0").fit.floor == 0.0
