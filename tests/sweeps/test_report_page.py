"""Laws of the report: nothing of a sweep is markup, the page needs nothing but itself, and it says all."""

import base64
import dataclasses
import functools
import html
import json
import re
import shutil
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import sweeps.iso_depth
from figures import _style
from sweeps import _grids
from sweeps._conclusion import conclude
from sweeps._jobs import Result, expand
from sweeps._page import Caveat, Contents, Download, Drawing, Grid, Heading, Reading, render
from sweeps._spec import FitSpec, load_spec, parse_spec
from sweeps._store import Store
from sweeps._toml import to_toml
from sweeps.cli import _report
from sweeps.cli._drawings import drawings
from tests.sweeps.conftest import TINY
from tests.sweeps.iso_depth_grid import by_law, runs
from tests.sweeps.made_runs import made_runs

VOID = {"meta", "link", "input", "br", "img"}

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'so' </style> --> ]]> $name ${kind} 深さ \0 \ud800"


class Read(HTMLParser):
    """A page's tags with the names of their attributes, attributes, and text; tags have to match."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}", []))
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def values(self, wanted):
        """Those of an attribute."""
        return [value for _, name, value in self.attributes if name == wanted]


def contents(text: str) -> Contents:
    """A page in which everything that is a text is this one."""
    grid = Grid(text, (Heading(text, text), Heading(text, text, True)), ((text, text),), text)
    return Contents(
        name=text,
        description=text,
        kind=text,
        standing=text,
        sound=True,
        asked=((text, text),),
        answers=(text,),
        readings=(Reading(text, text, text, text, text),),
        findings=(text,),
        caveats=(Caveat(text), Caveat(text, (text,)), Caveat(text, (text, text), True)),
        missing=grid,
        drawings=(Drawing("<svg></svg>", text, text, text),),
        undrawn=(text,),
        fits=(grid,),
        rows=grid,
        alike=((text, text),),
        told=text,
        downloads=(Download(text, "text/csv", text.encode("utf-8", "replace")),),
        provenance=((text, text),),
        versions=((text, text),),
        spec=text,
        anew=(text,),
        made_by=text,
    )


@given(st.text(min_size=1) | st.text("<>&\"'`=/$-!{} a\n\0\x7f\ud800", min_size=1) | st.just(HOSTILE))
def test_no_text_is_markup(text):
    """Whatever its texts, a page has the elements and attributes that it has with an x for each."""
    page = render(contents(text))
    page.encode()
    assert Read(page).tags == Read(render(contents("x"))).tags
    assert not re.search("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]", page)


def test_every_text_is_there():
    """Each field of the contents is on the page, as it was written."""
    plain = contents("x")
    for field in dataclasses.fields(Contents):
        if field.name in ("sound", "downloads", "drawings"):
            continue
        mark = dataclasses.replace(plain, **{field.name: getattr(contents('<&"é'), field.name)})
        read = Read(render(mark))
        assert any('<&"é' in one for one in read.text), field.name


def written(folder: Path, call, *options):
    """How the command ended, and the page as it is read."""
    done = call("report", folder, *options)
    page = folder / "report.html"
    return done, page.read_text(encoding="utf-8") if page.exists() else ""


@pytest.fixture(scope="module")
def tiny(tiny_results, tmp_path_factory, spawn):
    """The folder of the tiny sweep, with its page, written by a process of its own."""
    folder = tmp_path_factory.mktemp("there") / "tiny"
    shutil.copytree(tiny_results, folder)
    done = spawn("report", folder, PYTHONHASHSEED="7")
    assert done.status == 0 and done.out == "", done.err
    return folder


@pytest.fixture(scope="module")
def page(tiny):
    return (tiny / "report.html").read_text(encoding="utf-8")


def test_it_needs_nothing_but_itself(page):
    """Every address of the page leads into it or holds what it leads to, and nothing in it is run."""
    read = Read(page)
    for name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
        assert all(value.startswith(("#", "data:")) for value in read.values(name)), name
    assert all(value.startswith("#") for value in re.findall(r"url\(([^)]*)\)", page))
    assert "@import" not in page and not {"script", "iframe", "object"} & {tag for tag, _ in read.tags}
    assert not any(name.startswith("on") for _, name, _ in read.attributes)
    assert "default-src 'none'" in page


def test_ids_are_unique_and_found(page):
    """No id stands twice although there are several figures, and whatever refers to one finds it."""
    read = Read(page)
    ids = read.values("id")
    assert len(ids) == len(set(ids)) > 100
    used = [value for value in read.values("href") if value.startswith("#")] + re.findall(
        r"url\((#[^)]*)\)", page
    )
    labels = [f"#{value}" for value in read.values("aria-labelledby")]
    assert {one.removeprefix("#") for one in (*used, *labels)} <= set(ids)


def test_it_can_be_read_without_eyes(page):
    """Headings skip no level, figures say what is seen and what they are, tables name rows and columns."""
    read = Read(page)
    tags = [tag for tag, _ in read.tags]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    assert tags.count("figure") == tags.count("figcaption") == 3
    assert ("html", "lang", "en") in read.attributes
    seen = [value for tag, name, value in read.attributes if name == "aria-label" and tag == "div"]
    assert sum("α" in value for value in seen) == 3
    assert [name for tag, names in read.tags if tag == "th" for name in names if name == "scope"] == [
        "scope"
    ] * tags.count("th")
    assert tags.count("table") == tags.count("caption") == 4


def test_the_same_folder_gives_the_same_page(tiny, page, tmp_path, call):
    """Bit for bit, wherever the folder lies, in another process with other hashes, and page beside or not."""
    folder = tmp_path / "elsewhere" / "tiny"
    shutil.copytree(tiny, folder)
    assert written(folder, call)[1] == page
    assert str(tiny.parent) not in page


def test_it_says_what_the_run_said(tiny, page):
    """Exponents, intervals, regimes and notes are those that `depthlaw run` wrote."""
    text = " ".join(" ".join(Read(page).text).split())
    for one in json.loads((tiny / "fits.json").read_text()):
        low, high = one["interval"]
        assert (
            f"teacher {one['teacher']}: α = {one['alpha']:.3f} [{low:.3f} to {high:.3f}], {one['regime']}"
            in text
        )
        for note in one["notes"]:
            assert note in text
    assert "Two teachers, two seeds, three depths" in text and "4 of 4 jobs are done, 12 rows." in text
    assert "loss = c * depth**-alpha + L_0" in text and "cpu" in text and "jobs ended from 20" in text


def downloads(page):
    """Files that the page brings along, by name."""
    links = re.findall(r'download="([^"]*)" href="data:[^;]*;base64,([^"]*)"', page)
    return {html.unescape(name): base64.b64decode(data) for name, data in links}


def test_downloads(tiny, page, call):
    """The table is what `depthlaw table` writes, and the spec makes the same sweep."""
    files = downloads(page)
    assert files["tiny.csv"].decode() == call("table", tiny).out
    assert tomllib.loads(files["spec.toml"].decode()) == json.loads((tiny / "spec.json").read_text())
    assert f"<code>{html.escape(files['spec.toml'].decode())}</code>" in page


@pytest.fixture
def undrawn(monkeypatch):
    """No figures, which take seconds."""
    monkeypatch.setattr("sweeps.cli._drawings.drawings", lambda *_: ((), ()))


def test_a_large_table_is_cut(tiny, tmp_path, call, monkeypatch, undrawn):
    """Rows beyond the bound are left out, which is said; a table beyond its bound is not brought along."""
    monkeypatch.setattr(_grids, "MOST_SHOWN", 5)
    monkeypatch.setattr(_report, "MOST_CSV", 100)
    folder = tmp_path / "tiny"
    shutil.copytree(tiny, folder)
    _, page = written(folder, call)
    assert "The first 5 of 12 rows" in page and "tiny.csv" not in downloads(page)
    assert "depthlaw table results/tiny --out rows.csv" in page
    assert page[page.index('id="rows"') :].count("<tr>") == 6


def claimed(out: Path, text: str) -> tuple[Store, list]:
    """A folder of a toy spec in which no job has ended, and its jobs."""
    spec = parse_spec(tomllib.loads(text), "made.toml")
    jobs = expand(spec.kind, spec.configs)
    store = Store(out)
    with store.locked():
        store.claim(spec.source, jobs)
    return store, jobs


def test_an_unfinished_sweep(tmp_path, call):
    """Its page says what waits and what failed and why, as text; the exit status is that of work undone."""
    store, jobs = claimed(tmp_path / "<b>out", TINY.replace("Two teachers", "<i>Two</i> teachers"))
    store.write(jobs[1], "failed", Result([], {}), {}, "RuntimeError: <script>no</script>", "where")
    done, page = written(store.out, call)
    assert done.status == 1 and "0 of 4 jobs are done (3 waiting, 1 failed), 0 rows" in done.err
    text = " ".join(Read(page).text)
    assert "<i>Two</i> teachers" in text and "RuntimeError: <script>no</script>" in text
    assert "There are no rows, so there is no answer." in text and "<script" not in page
    assert "No figure without a row." in text and "3 waiting, 1 failed" in text


@pytest.mark.parametrize("change", ["depths = [2]", "depths = [1, 2, 3]"])
def test_few_students(change, tmp_path, call, instant):
    """A sweep of one student has a page, and so has one of a seed; what cannot be fitted or drawn is said."""
    text = TINY.replace("depths = [1, 2, 3]", change).replace("seeds = [0, 1]", "seeds = [0]")
    (tmp_path / "one.toml").write_text(text.replace('["tied", "independent"]', '["tied"]'))
    call("run", tmp_path / "one.toml", "--out", tmp_path / "one", "--executor", "in-process")
    done, page = written(tmp_path / "one", call)
    one = change == "depths = [2]"
    assert done.status == (1 if one else 0) and "1 of 1 jobs are done" in page
    assert ("could not be drawn" in page) is one and ("no fit:" in page.lower()) is one
    Read(page)


def test_a_damaged_record(tiny, tmp_path, call, undrawn):
    """What cannot be read is a problem that the page names, without where the folder lies."""
    folder = tmp_path / "tiny"
    shutil.copytree(tiny, folder)
    next((folder / "jobs").iterdir()).joinpath("record.json").write_text("{}")
    done, page = written(folder, call)
    assert done.status == 1 and "1 problem(s)" in done.err
    assert "tiny/jobs/" in page and "is not a whole record" in page and str(tmp_path) not in page


def test_a_figure_that_fails(tiny, tmp_path, call, monkeypatch):
    """A figure that cannot be drawn takes no other from the page, which says why."""
    from figures import inverse_depth_toy

    def broken(*_):
        raise KeyError("<lost>")

    monkeypatch.setattr(inverse_depth_toy, "compute", broken)
    folder = tmp_path / "tiny"
    shutil.copytree(tiny, folder)
    done, page = written(folder, call)
    assert done.status == 0 and page.count("<figure ") == 2
    assert "The figure of the teachers could not be drawn: KeyError: &#x27;&lt;lost&gt;&#x27;" in page


def test_no_folder_of_results(tmp_path, call):
    """Refused in a sentence, and nothing is written."""
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nowhere"):
        done, page = written(folder, call)
        assert done.status == 2 and done.err.count("\n") == 1 and "is not a folder of results" in done.err
        assert page == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "empty"] and not list((tmp_path / "empty").iterdir())


def test_a_page_that_cannot_be_written(tiny, tmp_path, call, undrawn):
    """Refused in a sentence, and nothing is left of it."""
    (tmp_path / "taken").mkdir()
    done = call("report", tiny, "--out", tmp_path / "taken")
    assert done.status == 1 and "cannot be written" in done.err and done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


DRIFT = TINY.replace(
    '"teacher.kind" = ["tied", "independent"]', '"teacher.length" = [0.0, 0.5, "inf"]'
).replace('kind = "tied"', 'kind = "drifting"')


def test_a_sweep_over_correlation_lengths(tmp_path, call, instant):
    """It has a phase diagram for each value of what else is varied, and missing lengths are infinite."""
    text = DRIFT.replace("[grid]", '[grid]\nlayer = ["euler", "midpoint"]').replace(
        'by = ["teacher"]', 'by = ["teacher", "correlation_length", "layer"]'
    )
    (tmp_path / "drift.toml").write_text(text)
    call("run", tmp_path / "drift.toml", "--out", tmp_path / "drift", "--executor", "in-process")
    _, page = written(tmp_path / "drift", call)
    read = " ".join(Read(page).text)
    assert "--only layer=euler" in read and "--only layer=midpoint" in read
    assert "python -m figures.estimates results/drift" in read and "6 fits are too many" in read
    assert "correlation_length ∞" in read and "inverse_depth_toy" not in read


class TestLanguageModels:
    SOURCE = {
        "sweep": {"name": "made", "kind": "lm"},
        "base": {
            "budget": 1e9,
            "model": {"width": 8, "head_size": 4, "prelude": 1, "layers": 2, "coda": 1},
            "data": {"context": 8},
        },
        "grid": {"model.num_recur": [1, 2]},
    }

    def test_a_grid(self, monkeypatch):
        """Phi with its interval is the answer, and profiles, frontier and law are drawn."""
        quick = functools.partial(sweeps.iso_depth.analyse, resamples=40, starts=4)
        monkeypatch.setattr(sweeps.iso_depth, "analyse", quick)
        rows, asked = by_law(runs(), 0.003), FitSpec((), None, "looped", ("budget", "num_recur"))
        concluded = conclude(rows, asked)
        assert concluded.grid is not None
        phi = concluded.grid.phi
        low, high = phi.interval
        assert concluded.answers[0].startswith(f"φ = {phi.estimate:.3f} [{low:.3f} to {high:.3f}]")
        assert low < 0.459 < high and not any(one.serious for one in concluded.caveats)
        drawn, undrawn = drawings(Path("grid"), rows, asked, "lm", concluded)
        assert len(drawn) == 1 and undrawn == () and f"{phi.estimate:.3f}" in drawn[0].alt
        assert len(concluded.fits) >= 5

    def test_no_grid(self, tmp_path, call):
        """Rows that are no grid are a problem that is named."""
        store = made_runs(tmp_path / "made", self.SOURCE, models=False)
        done, page = written(store.out, call)
        assert done.status == 1 and "No analysis as an iso-depth grid:" in page
        Read(page)

    def test_no_law(self, tmp_path, call):
        """A sweep that asks for no fit has none, and that is no problem."""
        store = made_runs(tmp_path / "made", {**self.SOURCE, "fit": {"law": "none"}}, models=False)
        done, page = written(store.out, call)
        assert done.status == 0 and "The spec asks for no fit" in page and "There is no fit." in page


def test_how_to_make_it_anew(tiny_file):
    """A preset is named where the folder is its own; else the spec is a file, which the page brings."""
    from sweeps._origin import anew

    assert anew(load_spec("quickstart").source, "quickstart")[0] == "depthlaw run quickstart"
    assert (
        anew(load_spec("quickstart").source, "my runs")[0]
        == "depthlaw run quickstart --out 'results/my runs'"
    )
    changed = load_spec("quickstart", ("steps=7",)).source
    assert anew(changed, "quickstart")[1] == "depthlaw run spec.toml"
    assert parse_spec(tomllib.loads(to_toml(changed)), "spec.toml").configs[0].steps == 7


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_toml_round_trip(table):
    """What is written as TOML is read as the same table."""
    assert tomllib.loads(to_toml(table)) == table


def test_toml_has_no_null():
    """What TOML cannot say is refused, not left out."""
    with pytest.raises(ValueError, match="None has no form in TOML"):
        to_toml({"a": {"b": None}})


def test_figures_share_a_page():
    """The same figure is the same text; under another name no id is the same; no date, no comment."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], marker="o", label="<b> --> &")
    axes.imshow([[1, 2]])
    axes.legend()
    one, again, other = (_style.svg(figure, name) for name in ("a", "a", "b"))
    ids = [set(re.findall(r'\bid="([^"]*)"', text)) for text in (one, other)]
    assert one == again and ids[0] and not ids[0] & ids[1]
    assert "<!--" not in one and "<metadata" not in one and one.startswith("<svg ") and one.endswith("</svg>")
