"""Laws of specs: a TOML text is the cohorts that it says, and a wrong one is refused before anything runs."""

import itertools
import json
import math
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeps import _cells
from sweeps._config import ConfigError
from sweeps._spec import FitSpec, load_spec, parse_spec
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
    assert parsed("").configs == (CohortConfig(),)
    assert parsed("[base]\nsteps = 7").configs == (CohortConfig(steps=7),)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["tied", "independent"]), max_size=2, unique=True),
)
def test_cases_times_grid(widths, steps, kinds):
    """The cohorts are all combinations of a case with a value of every axis, each once."""
    cases = "".join(f'[[case]]\nteacher = {{ kind = "{kind}" }}\n' for kind in kinds)
    spec = parsed(f"{cases}[grid]\nwidth = {widths}\nsteps = {steps}\n")
    found = [(cohort.teacher.kind, cohort.width, cohort.steps) for cohort in spec.configs]
    assert len(found) == len(set(found))
    assert set(found) == set(itertools.product(kinds or ["independent"], widths, steps))


def test_equal_cohorts_are_one():
    """Combinations that come to the same config are run once, in the order of their first mention."""
    text = "[[case]]\nwidth = 4\n[[case]]\nwidth = 4.0\n[[case]]\nwidth = 5\n[grid]\nsteps = [3, 3, 2]"
    assert [(c.width, c.steps) for c in parsed(text).configs] == [(4, 3), (4, 2), (5, 3), (5, 2)]


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
    one, two, three = parsed(text).configs
    assert (one.adam.beta1, one.adam.beta2, one.width) == (0.8, 0.7, 4)
    # Another kind replaces the table: depth 9 was the tied teacher's.
    assert two.teacher == Correlated(rho=0.25) and two.adam.beta2 == 0.6
    assert three.teacher == Tied(depth=11)


def test_nested_axes_are_dotted_ones():
    """[grid.teacher] depth is "teacher.depth" in [grid]; an axis may hold whole tables."""
    base = '[base]\nteacher = { kind = "tied" }\n'
    dotted = parsed(base + '[grid]\n"teacher.depth" = [2, 3]').configs
    assert parsed(base + "[grid.teacher]\ndepth = [2, 3]").configs == dotted
    assert [cohort.teacher for cohort in dotted] == [Tied(depth=2), Tied(depth=3)]
    tables = parsed('[grid]\nteacher = [{ kind = "tied" }, { kind = "independent", depth = 4 }]').configs
    assert [cohort.teacher for cohort in tables] == [Tied(), Independent(depth=4)]


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 40))
def test_logspace(first, last, count):
    """`logspace` begins and ends exactly as told, its steps in the logarithm are equal to ten digits."""
    assume(abs(math.log(last / first)) > 1e-7 * count)  # values closer than ten digits coincide
    values = f"temperatures = {{ logspace = [{first!r}, {last!r}, {count}] }}"
    text = f"[base]\nvocabulary = 2\nobjective = {{ kind = 'kl', {values} }}"
    values = parsed(text).configs[0].temperatures
    assert len(values) == count and (values[0], values[-1]) == (first, last)
    steps = [math.log(b / a) for a, b in itertools.pairwise(values)]
    assert all(abs(step - math.log(last / first) / (count - 1)) < 1e-8 for step in steps)


def test_logspace_where_lists_are():
    """`logspace` can stand in base, case, grid and setting, and whole numbers come out whole."""
    lists = "{ logspace = [1, 64, 7] }"
    for text in (f"[base]\ndepths = {lists}", f"[[case]]\ndepths = {lists}", f"[set]\ndepths = {lists}"):
        assert parsed(text).configs[0].depths == (1, 2, 4, 8, 16, 32, 64)
    assert [c.steps for c in parsed(f"[grid]\nsteps = {lists}").configs] == [1, 2, 4, 8, 16, 32, 64]
    kl = 'vocabulary = 4\nobjective = { kind = "kl", temperatures = { logspace = [0.01, 1.0, 3] } }'
    assert parsed(f"[base]\n{kl}").configs[0].objective == KL((0.01, 0.1, 1.0))


def listed(text):
    """The numbers that this value of a TOML file stands for."""
    return _cells.expanded(tomllib.loads(f"values = {text}")["values"], "here")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(2, 40))
def test_linspace(first, last, count):
    """`linspace` begins and ends exactly as told, its steps are equal to the rounding of its numbers."""
    values = listed(f"{{ linspace = [{first!r}, {last!r}, {count}] }}")
    assert len(values) == count and (values[0], values[-1]) == (first, last)
    step, rounding = (last - first) / (count - 1), 4 * math.ulp(max(abs(first), abs(last)))
    assert all(abs(b - a - step) <= rounding for a, b in itertools.pairwise(values))


@given(st.integers(-1000, 1000), st.integers(1, 50), st.integers(0, 49), st.integers(0, 60))
def test_range(first, step, short, steps):
    """`range` goes from `first` in whole steps, up or down, and holds all that are not past `last`."""
    for sign in (1, -1):
        last = first + sign * (steps * step + short % step)
        values = listed(f"{{ range = [{first}, {last}, {sign * step}] }}")
        assert values == [first + sign * step * i for i in range(steps + 1)]
        assert all(isinstance(value, int) for value in values)


@given(st.integers(-50, 50), st.integers(2, 200), st.integers(1, 3))
def test_range_of_fractions(first, count, digits):
    """Decimal steps come out as a person would write them, `last` included: 0.3, not 0.30000000000000004."""
    unit = 10**digits
    written = [f"{(first + i) / unit:.{digits}f}" for i in range(count)]
    values = listed(f"{{ range = [{written[0]}, {written[-1]}, {1 / unit!r}] }}")
    assert values == [float(text) for text in written]
    assert listed(f"{{ linspace = [{written[0]}, {written[-1]}, {count}] }}") == values


def test_lists_where_lists_are():
    """`linspace` and `range` can stand in base, case, grid and setting, and below a table."""
    for lists in ("{ range = [1, 7, 3] }", "{ linspace = [1, 7, 3] }"):
        for table in ("[base]", "[[case]]", "[set]"):
            assert parsed(f"{table}\ndepths = {lists}").configs[0].depths == (1, 4, 7)
        assert [c.steps for c in parsed(f"[grid]\nsteps = {lists}").configs] == [1, 4, 7]
    kl = "vocabulary = 4\nobjective = { kind = 'kl', temperatures = { range = [0.1, 0.3, 0.1] } }"
    assert parsed(f"[base]\n{kl}").configs[0].objective == KL((0.1, 0.2, 0.3))


class TestExclude:
    """[[exclude]] leaves out the cells that match all keys of one of its tables, and no others."""

    GRID = '[grid]\n"teacher.kind" = ["tied", "independent"]\nwidth = [4, 8]\nsteps = [1, 2, 3]\n'

    @given(
        st.lists(st.sampled_from(["tied", "independent"]), max_size=2, unique=True),
        st.lists(st.sampled_from([4, 8]), max_size=2, unique=True),
        st.lists(st.sampled_from([1, 2, 3]), max_size=3, unique=True),
    )
    def test_all_keys_and_any_value(self, kinds, widths, steps):
        """A cell is left out where every key has one of its values; a key that is not named may be any."""
        named = {"'teacher.kind'": kinds, "width": widths, "steps": steps}
        lines = [f"{key} = {json.dumps(values)}\n" for key, values in named.items() if values]
        assume(lines)
        every = set(itertools.product(["tied", "independent"], [4, 8], [1, 2, 3]))
        gone = set(itertools.product(kinds or ["tied", "independent"], widths or [4, 8], steps or [1, 2, 3]))
        assume(gone != every)
        found = parsed(self.GRID + "[[exclude]]\n" + "".join(lines)).configs
        assert {(cell.teacher.kind, cell.width, cell.steps) for cell in found} == every - gone

    def test_tables_add_up(self):
        """What any of the tables matches is left out; one value may stand without a list."""
        rules = "[[exclude]]\nwidth = 4\n[[exclude]]\nsteps = { range = [2, 3, 1] }"
        found = parsed(self.GRID + rules).configs
        assert [(c.teacher.kind, c.width, c.steps) for c in found] == [("tied", 8, 1), ("independent", 8, 1)]

    def test_nested_and_dotted(self):
        """teacher = { kind = … } is "teacher.kind"."""
        dotted = parsed(self.GRID + '[[exclude]]\n"teacher.kind" = "tied"').configs
        assert parsed(self.GRID + '[[exclude]]\nteacher = { kind = "tied" }').configs == dotted
        assert {cell.teacher.kind for cell in dotted} == {"independent"} and len(dotted) == 6

    def test_lists(self):
        """A field that is a list matches whole, or where it is one of the values."""
        grid = "[grid]\ndepths = [[1, 2], [1, 3], [1, 4]]\n"
        assert [c.depths for c in parsed(grid + "[[exclude]]\ndepths = [1, 2]").configs] == [(1, 3), (1, 4)]
        two = parsed(grid + "[[exclude]]\ndepths = [[1, 2], [1, 4]]").configs
        assert [cell.depths for cell in two] == [(1, 3)]

    def test_defaults_are_seen(self):
        """A cell also has the values that it leaves to their defaults."""
        text = '[[case]]\n[[case]]\nlayer = "midpoint"\n[[exclude]]\nlayer = "euler"'
        assert [cell.layer for cell in parsed(text).configs] == ["midpoint"]
        assert CohortConfig().layer == "euler"

    def test_a_cell_that_cannot_be(self):
        """A combination that breaks a rule of the config can be left out for it."""
        grid = "[grid]\nwidth = [4, 0]\nsteps = [1, 0]\n"
        rest = parsed(grid + "[[exclude]]\nsteps = 0\n[[exclude]]\nwidth = 0").configs
        assert [(cell.width, cell.steps) for cell in rest] == [(4, 1)]
        with pytest.raises(ConfigError, match="steps is 0"):
            parsed(grid + "[[exclude]]\nwidth = 0")

    def test_settings_come_first(self):
        """What a setting makes of a cell decides, as it decides what is trained."""
        spec = parsed(self.GRID + "[[exclude]]\nwidth = 4", "width = 8")
        assert {cell.width for cell in spec.configs} == {8} and len(spec.configs) == 6

    def test_a_key_of_some_cells(self):
        """A key that only some kinds of cell have leaves the others alone."""
        text = """
        [[case]]
        teacher = { kind = "correlated", rho = 0.5 }
        [[case]]
        teacher = { kind = "tied" }
        [[exclude]]
        "teacher.rho" = 0.5
        """
        assert [cell.teacher for cell in parsed(text).configs] == [Tied()]


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

    def configs(self, write, *settings):
        return load_spec(write(HEAD + self.SPEC), settings).configs

    def test_over_base(self, write):
        """A setting replaces the base's value, for every case."""
        assert {c.width for c in self.configs(write, "width=6")} == {6}
        assert {c.width for c in self.configs(write, " width = 6 ")} == {6}

    def test_over_case(self, write):
        """A setting replaces the cases' own values; cases that come to the same are run once."""
        found = self.configs(write, "steps=4", "teacher={kind='tied', depth=9}")
        assert {c.steps for c in found} == {4}
        assert len(found) == 2

    def test_replaces_an_axis(self, write):
        """A setting of an axis of the grid leaves one value of it."""
        found = self.configs(write, "batch=7")
        assert [c.batch for c in found] == [7, 7]

    def test_key_of_a_table_in_every_case(self, write):
        """A dotted key reaches the teacher of every case, and leaves the rest of it alone."""
        found = self.configs(write, "teacher.depth=2")
        assert {c.teacher for c in found} == {Tied(depth=2), Correlated(depth=2, rho=0.25)}

    def test_whole_table(self, write):
        """A table of another kind replaces the one below; one of the same or no kind is laid over it."""
        replaced = self.configs(write, 'teacher={ kind = "independent", depth = 5 }')
        assert {c.teacher for c in replaced} == {Independent(depth=5)}
        rate = self.configs(write, "learning_rate={ base = 0.5 }", "learning_rate.final_fraction=0")
        assert {c.learning_rate for c in rate} == {LearningRate(0.5, final_fraction=0.0)}

    def test_text_needs_no_quotes(self, write):
        """What is not TOML is a text."""
        assert {c.layer for c in self.configs(write, "layer=midpoint")} == {"midpoint"}
        assert {c.layer for c in self.configs(write, "layer='midpoint'")} == {"midpoint"}

    def test_the_last_one_holds(self, write):
        """Of two settings of one key the later holds."""
        assert {c.width for c in self.configs(write, "width=6", "width=8")} == {8}

    def test_is_recorded(self, write):
        """The spec written beside the results holds the settings: it gives the same cohorts again."""
        spec = load_spec(write(HEAD + self.SPEC), ("teacher.depth=2", "batch=7"))
        again = parse_spec(json.loads(json.dumps(spec.source)), "spec.json")
        assert again.configs == spec.configs and again.fit == spec.fit

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
            self.configs(write, setting)
        assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sweep]\nname = "x"\n[bse]', "[bse] is not a known table: did you mean 'base'?"),
        ('[sweep]\nname = "x"\nkin = "toy"', "sweep.kin is not a known key: did you mean 'kind'?"),
        ('[sweep]\nname = "x"\nkind = "llm"', "sweep.kind is 'llm': did you mean 'lm'?"),
        ("[base]\nsteps = 3", "sweep.name is None: it must be a text"),
        ("[sweep]\nname = 3", "sweep.name is 3: it must be a text"),
        ('[sweep]\nname = ""', "sweep.name is '': it must be a text"),
        ('[sweep]\nname = "../x"', "sweep.name is '../x': it must be a text that can name a folder"),
        ('[sweep]\nname = "x"\ndescription = 3', "sweep.description is 3: it must be a text"),
        ("sweep = 3", "sweep is 3: it must be a table"),
        (f"{HEAD}[fit]\nby = [3]", "x.toml: fit: by[0] is 3: it must be a text"),
        (f'{HEAD}[fit]\nby = ["techer"]', "fit: by names 'techer', which is not a column: did you mean 'tea"),
        (f"{HEAD}[fit]\nfloor = -1", "fit: floor is -1.0: it must be at least 0"),
        (f'{HEAD}[fit]\nlaw = "lopped"', "fit: law is 'lopped': did you mean 'looped'?"),
        (f"{HEAD}[fit]\nlaw = 3", "fit: law is 3: it must be a text"),
        (f'{HEAD}[fit]\nlaw = "compute"\nfloor = 0', "the law is 'compute': only depth has a floor"),
        (f'{HEAD}[fit]\nlaw = "looped"', "law is 'looped', which needs a column 'num_once' that rows do not"),
        (f'{HEAD}[fit]\ngroup = ["sed"]', "fit: group names 'sed', which is not a column: did you mean 's"),
        (f"{HEAD}[fit]\nflor = 0", "fit: flor is not a known key: did you mean 'floor'?"),
        (f"{HEAD}[grid]\nsteps = []", "grid.steps is []: it must be a list of values"),
        (f"{HEAD}[grid]\nsteps = 3", "grid.steps is 3: it must be a list of values"),
        (f"{HEAD}[grid.teacher]\ndepth = 3", "grid.teacher.depth is 3: it must be a list of values"),
        (f"{HEAD}[case]\nsteps = 3", "case must be written [[case]], once for each"),
        (
            'case = []\n[sweep]\nname = "x"',
            "no cell is left: case is empty, or exclude leaves out every cell",
        ),
        ('exclude = 3\n[sweep]\nname = "x"', "exclude must be written [[exclude]], with at least one key"),
        (
            f"{HEAD}[exclude]\nsteps = 3",
            "exclude must be written [[exclude]], with at least one key, once for",
        ),
        (f"{HEAD}[[exclude]]", "exclude must be written [[exclude]], with at least one key, once for each"),
        (
            f"{HEAD}[[exclude]]\nwidth = 32",
            "no cell is left: case is empty, or exclude leaves out every cell",
        ),
        (f"{HEAD}[[exclude]]\nwidht = 3", "x.toml: exclude 0: widht is in no cell: did you mean 'width'?"),
        (
            f'{HEAD}[[exclude]]\nwidth = 3\n[[exclude]]\n"teacher.rho" = 1',
            "x.toml: exclude 1: teacher.rho is in no cell: ",
        ),
        (
            f"{HEAD}[[exclude]]\nwidth = {{ range = [1, 2] }}",
            "exclude 0.width: range is [1, 2]: it must be [",
        ),
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
        (f"{HEAD}[base]\ndepths = {{ logspace = [1, 2, 1e12] }}", "count from 2 to a million"),
        (f"{HEAD}[base]\ndepths = {{ linspace = [1, 2] }}", "base.depths: linspace is [1, 2]: it must be ["),
        (
            f"{HEAD}[base]\ndepths = {{ linspace = [1, 2, 1] }}",
            "[first, last, count], count from 2 to a mill",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ linspace = [1, inf, 3] }}",
            "linspace is [1, inf, 3]: it must be [first",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ linspace = [1, 2, true] }}",
            "linspace is [1, 2, True]: it must be [fir",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ range = [1, 5] }}",
            "base.depths: range is [1, 5]: it must be [first, l",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ range = [1, 5, 0] }}",
            "it must be [first, last, step], with step leadi",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ range = [1, 5, -1] }}",
            "range is [1, 5, -1]: it must be [first, last, ",
        ),
        (
            f"{HEAD}[base]\ndepths = {{ range = [1, 5, inf] }}",
            "range is [1, 5, inf]: it must be [first, last",
        ),
        (f"{HEAD}[base]\ndepths = {{ range = [1, 5, 1e-9] }}", "from first to last in at most a million"),
        (f"{HEAD}[grid]\nsteps = {{ range = 3 }}", "grid.steps: range is 3: it must be [first, last, step]"),
        (f"{HEAD}[[case]]\ndepths = {{ range = [] }}", "case 0.depths: range is []: it must be [first, last"),
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


@pytest.mark.parametrize("column", ["job", "temperature", "device", "version"])
def test_fits_by_any_column(column):
    """`by` may name any column of the table: the job, those of the kind, where a row comes from."""
    assert parsed(f'[fit]\nby = ["{column}"]').fit.by == (column,)


def test_fit_is_free_of_a_floor_unless_told():
    """`floor` left out means that L_0 is fitted; `by` left out means one fit a teacher."""
    assert parsed("").fit.floor is None and parsed("").fit.by == ("teacher",)
    assert parsed("[fit]\nfloor = 0").fit.floor == 0.0


def test_a_fit_has_the_defaults_of_its_law():
    """The depth law groups by seed and tells teachers apart; other laws make one fit; what is said holds."""
    depth = FitSpec()
    assert parsed("").fit == depth and (depth.law, depth.by, depth.group) == (
        "depth",
        ("teacher",),
        ("seed",),
    )
    assert parsed('[fit]\nlaw = "depth"\ngroup = []').fit == FitSpec(group=())
    assert parsed('[fit]\nlaw = "compute"').fit == FitSpec((), law="compute")
    assert parsed('[fit]\nlaw = "compute"\nby = ["width"]').fit == FitSpec(("width",), law="compute")


def test_language_models_are_fitted_by_the_looped_law():
    """A [fit] of language models that says nothing is the joint law, clustered by budget and recurrences."""
    looped = FitSpec((), law="looped", group=("budget", "num_recur"))
    assert FitSpec.of({}, "lm", "fit") == FitSpec.of({"law": "looped"}, "toy", "fit") == looped
    assert FitSpec.of({"law": "chinchilla"}, "lm", "fit") == FitSpec((), law="chinchilla")
    columns = ("num_once", "num_recurrent", "num_recur", "num_tokens", "budget", "loss")
    looped.check(columns)
    for column in columns[:4]:
        with pytest.raises(ValueError, match=f"needs a column '{column}' that rows|group names '{column}'"):
            looped.check(name for name in columns if name != column)
    with pytest.raises(
        ConfigError, match="fit: floor is 0.0, but the law is 'looped': only depth has a floor"
    ):
        FitSpec.of({"floor": 0}, "lm", "fit")


class TestExtends:
    """A spec that extends another is that one with what it changes."""

    UNDER = """
[sweep]
name = "under"
description = "below"
[base]
depths = [2, 3]
teacher = { kind = "tied", depth = 8 }
[grid]
width = [4, 8]
[fit]
floor = 0.0
"""

    def write(self, folder, over, under=UNDER):
        (folder / "under.toml").write_text(under, encoding="utf-8")
        path = folder / "over.toml"
        path.write_text(over, encoding="utf-8")
        return str(path)

    def test_tables_are_laid_over(self, tmp_path):
        """[sweep], [base] and [fit] are laid over the other's, key by key."""
        over = '[sweep]\nextends = "under.toml"\nname = "over"\n[base]\nteacher = { depth = 16 }\n'
        spec = load_spec(self.write(tmp_path, over))
        assert (spec.name, spec.description, spec.fit.floor) == ("over", "below", 0.0)
        assert [(c.width, c.depths, c.teacher.kind, c.teacher.depth) for c in spec.configs] == [
            (4, (2, 3), "tied", 16),
            (8, (2, 3), "tied", 16),
        ]

    def test_a_grid_takes_the_place_of_the_other(self, tmp_path):
        """[grid] and [[case]] replace the other's: no axis is left that the spec does not name."""
        over = '[sweep]\nextends = "under.toml"\n[grid]\nbatch = [16, 32, 64]\n'
        spec = load_spec(self.write(tmp_path, over))
        assert [(c.width, c.batch) for c in spec.configs] == [(32, 16), (32, 32), (32, 64)]

    def test_the_record_stands_alone(self, tmp_path):
        """What is recorded of the spec is the whole of it: it is read back without the other file."""
        over = '[sweep]\nextends = "under.toml"\nname = "over"\n'
        spec = load_spec(self.write(tmp_path, over))
        assert "extends" not in spec.source["sweep"]
        assert parse_spec(spec.source, "spec.json").configs == spec.configs

    def test_settings_reach_both(self, tmp_path):
        """--set is laid over all of it."""
        over = '[sweep]\nextends = "under.toml"\n'
        spec = load_spec(self.write(tmp_path, over), ("width=6", "teacher.depth=4"))
        assert [(c.width, c.teacher.depth) for c in spec.configs] == [(6, 4)]

    def test_a_preset_can_be_extended(self, tmp_path):
        """A name without .toml is a preset."""
        path = self.write(tmp_path, '[sweep]\nextends = "quickstart"\n[base]\nhidden_factor = 7\n')
        assert {c.hidden_factor for c in load_spec(path).configs} == {7}

    @pytest.mark.parametrize(
        ("over", "under", "match"),
        [
            ('[sweep]\nextends = "over.toml"\n', UNDER, "extends is 'over.toml', which extends this one"),
            (
                '[sweep]\nextends = "under.toml"\n',
                '[sweep]\nextends = "over.toml"\n',
                "extends is 'over.toml', which extends this one",
            ),
            ('[sweep]\nextends = "gone.toml"\n', UNDER, "gone.toml does not exist"),
            ('[sweep]\nextends = "quikstart"\n', UNDER, "did you mean 'quickstart'"),
            ("[sweep]\nextends = 3\n", UNDER, "extends is 3: it must name a preset or a TOML file"),
        ],
    )
    def test_errors(self, tmp_path, over, under, match):
        """Circles, names of nothing and values that are no name are refused, with the file."""
        with pytest.raises(ConfigError, match=match):
            load_spec(self.write(tmp_path, over, under))


def test_no_law():
    """A [fit] with law none asks for no fit; the nearest law is named where it is misspelt."""
    source = {"sweep": {"name": "x"}, "base": {"depths": [2]}, "fit": {"law": "none"}}
    assert parse_spec(source, "x.toml").fit.law == "none"
    with pytest.raises(ConfigError, match="did you mean 'none'"):
        parse_spec({**source, "fit": {"law": "nome"}}, "x.toml")
