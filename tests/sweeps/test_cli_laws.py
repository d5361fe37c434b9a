"""Laws of the commands about laws: they say what the library says, in rows and sentences."""

import json

import numpy as np
import polars as pl
import pytest

from sweeps.laws import Huber, LoopedLaw, fit

from .laws.looped_design import looped_table

LOOPED = ("--law", "looped", "--objective", "huber")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The looped experiment's design with losses by the law and 0.01 nats of noise, as CSV."""
    path = tmp_path_factory.mktemp("looped") / "looped.csv"
    pl.DataFrame(looped_table(0.01, 0)).write_csv(path)
    return path


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """A saved fit of it."""
    path = tmp_path_factory.mktemp("fit") / "fit.json"
    found = fit(LoopedLaw(), looped_table(0.01, 0), objective=Huber(1e-3), resamples=100)
    path.write_text(found.to_json())
    return path


def rows(done):
    """Standard output as a table."""
    assert done.status == 0, done.err
    return pl.read_csv(done.out.encode())


class TestCompare:
    def test_phi(self, call, table):
        """phi = 0 and phi = 1 are rejected on rows made with 0.459, and predict worse."""
        laws = ("--law", "looped", "--law", "looped; phi=0", "--law", "looped; phi=1")
        done = call("compare", table, *laws, "--objective", "huber", "--folds", "4")
        found = rows(done)
        assert found["candidate"].to_list() == ["looped", "looped; phi=0", "looped; phi=1"]
        assert found["held_out"].arg_min() == 0 and found["rejected"].to_list() == [None, True, True]
        assert "looped; phi=1 within looped: rejected at 5 %" in done.err

    def test_own_formula(self, call, table):
        """A formula of one's own stands beside a law."""
        done = call("compare", table, "--law", "looped", "--law", "E + B*num_tokens**-b", "--folds", "3")
        assert rows(done)["held_out"].arg_min() == 0

    @pytest.mark.parametrize(
        ("laws", "sentence"),
        [
            (("looped", "looped; psi=0"), "'psi' is no parameter of the law"),
            (("looped", "looped; phi"), "--fix 'phi': write NAME=VALUE"),
            (("looped", "looped"), "looped"),
            (("looped", "width-depth-data"), "depth"),
        ],
    )
    def test_wrong_calls(self, call, table, laws, sentence):
        """What cannot be compared is refused in a sentence."""
        done = call("compare", table, *(part for law in laws for part in ("--law", law)))
        assert done.status == 2 and sentence in done.err and done.err.count("\n") == 1


def test_sensitivity(call, table, tmp_path):
    """A row for each choice, and a figure; a choice that cannot be fitted has its reason."""
    out = tmp_path / "scan.csv"
    done = call(
        *("sensitivity", table, "--law", "looped", "--parameter", "phi", "--drop-top", "0:114:57"),
        *("--out", out, "--plot", tmp_path / "scan.png"),
    )
    assert done.status == 0, done.err
    found = pl.read_csv(out)
    assert found["drop_top"].to_list() == [0, 57, 114] * 2
    assert found["objective"].to_list() == ["log-squares"] * 3 + ["huber"] * 3
    whole = found.filter(pl.col("drop_top") == 0)
    assert ((whole["lower"] < 0.459) & (0.459 < whole["upper"])).all() and whole["identified"].all()
    assert found.filter(pl.col("drop_top") == 114)["reason"].str.len_chars().min() > 0
    assert {path.name for path in tmp_path.iterdir()} == {"scan.csv", "scan.png", "scan.pdf"}


def test_holdout(call, table):
    """Rows above the threshold are predicted from those below: within a percent here."""
    done = call("holdout", table, "--law", "looped", "--along", "flops", "--above", "5e18")
    found = rows(done)
    assert len(found) == 4 * (5 + 4) and found["flops"].min() > 5e18
    assert (found["predicted"] / found["observed"] - 1).abs().mean() < 0.01
    assert "95 % prediction interval" in done.err
    assert call("holdout", table, "--law", "looped", "--along", "flops", "--above", "1e30").status == 2


class TestAllocate:
    def test_budgets(self, call, saved):
        """A row for each budget and number of recurrences; sizes and data grow with compute."""
        done = call("allocate", saved, "--budget", "1e19", "--budget", "1e20", "--recur", "1", "--recur", "4")
        found = rows(done)
        assert (
            found["num_recur"].to_list() == [1, 4, 1, 4]
            and found["flops"].to_list() == [1e19] * 2 + [1e20] * 2
        )
        assert ((found["width_lower"] < found["width"]) & (found["width"] < found["width_upper"])).all()
        # N* grows as C^(beta / (alpha + beta)) = C^0.65, were FLOPs 6 N D.
        assert done.err.count("num_params grows as C^0.6") == 2

    def test_profile(self, call, saved):
        """The loss along a profile is lowest where the law says, not where a parabola does."""
        done = call("allocate", saved, "--budget", "1e19", "--profile", "--recur", "4")
        found = rows(done)
        assert found["loss"].arg_min() == len(found) // 2
        assert "a parabola in log N through these points says" in done.err

    def test_equivalent(self, call, saved):
        """The worked example of arXiv:2604.21106: 410 M unique parameters at r = 4 count as about 580 M."""
        found = rows(call("allocate", saved, "--equivalent", "200e6,210e6,4"))
        assert found["unique"][0] == 410e6 and found["lower"][0] < 580e6 < found["upper"][0]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((), "give --budget, or --equivalent"),
            (("--budget", "-1"), "budget"),
            (("--equivalent", "1,2"), "write ONCE,RECURRENT,R"),
            (("--budget", "1e19", "--recur", "3"), "are not all divisors of layers = 16"),
        ],
    )
    def test_wrong_calls(self, call, saved, arguments, sentence):
        """What cannot be answered is refused in a sentence."""
        done = call("allocate", saved, *arguments)
        assert done.status == 2 and sentence in done.err and done.err.count("\n") == 1

    def test_a_law_without_a_budget(self, call, tmp_path):
        """The depth law says nothing of FLOPs."""
        depth = np.array([2.0, 4, 8, 16, 32])
        from sweeps.laws import DepthLaw

        path = tmp_path / "fit.json"
        path.write_text(fit(DepthLaw(), {"depth": depth, "loss": 1 / depth + 0.1}).to_json())
        done = call("allocate", path, "--budget", "1e19")
        assert done.status == 2 and "the law depth has no budget" in done.err


def test_fit_draws(call, table, tmp_path):
    """`fit --plot` writes the law's parts, residuals and profiles; the saved fit names its table."""
    done = call(
        "fit",
        table,
        *LOOPED,
        "--resamples",
        "50",
        "--plot",
        tmp_path / "f.png",
        "--json",
        tmp_path / "f.json",
    )
    assert done.status == 0, done.err
    assert {path.name for path in tmp_path.iterdir()} == {"f.png", "f.pdf", "f.json"}
    assert json.loads((tmp_path / "f.json").read_text())["provenance"]["source"]["table"] == "looped.csv"


@pytest.fixture
def seeds(tmp_path):
    """Three seeds with levels of 1, 2 and 3 and a floor of 0.1."""
    rng = np.random.default_rng(0)
    rows = [
        {"depth": d, "seed": s, "run": f"run {s}", "loss": ((s + 1) / d + 0.1) * np.exp(0.01 * e)}
        for s in range(3)
        for d, e in zip((2, 3, 4, 6, 8, 12, 16, 24), rng.standard_normal(8), strict=True)
    ]
    path = tmp_path / "seeds.csv"
    pl.DataFrame(rows).write_csv(path)
    return path


def test_seeds_have_levels_of_their_own_in_every_command(call, seeds, tmp_path):
    """What `fit` takes for granted, `compare`, `holdout` and `predict` do: each seed has its own level."""
    found = rows(call("compare", seeds, "--law", "depth", "--law", "depth; L_0=0"))
    assert found["rejected"].to_list() == [None, True]
    done = call("holdout", seeds, "--along", "depth", "--fraction", "0.3")
    assert (rows(done)["predicted"] / rows(done)["observed"] - 1).abs().mean() < 0.1
    saved = tmp_path / "fit.json"
    assert call("fit", seeds, "--json", saved).status == 0
    predicted = rows(call("predict", saved, seeds))
    assert (predicted["predicted"] / predicted["loss"] - 1).abs().max() < 0.1


def test_derived_beside_texts(call, seeds):
    """A column of texts, such as a run's name, is no obstacle to deriving others, nor to grouping by it."""
    done = call("fit", seeds, "--derive", "depth=depth*2", "--group", "run", "--fix", "L_0=0.1")
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--confidence", "1.5"), "confidence: 1.5 is not between 0 and 1"),
        (("--weights", "nope"), "column 'nope' is missing"),
        (("--noise", "0"), "noise: 0.0 is not a finite number > 0"),
        (("--noise", "1e300"), "outside the range of float64"),
        (("--seed", "-1"), "seed: -1 is less than 0"),
        (("--fix", "c=inf"), "c: inf is not a finite number"),
        (("--bound", "alpha=2:1"), "alpha: the bounds 2 to 1 leave no value"),
        (("--fix", "c=1", "--bound", "c=0:1"), "'c' is fixed and bounded"),
        (("--fix", "c=1", "--fix", "alpha=1", "--fix", "L_0=0"), "every parameter is fixed"),
        (("--interval", "cluster", "--group", "none"), "clusters need group"),
        (("--drop-top", "24"), "drop_top: 24 leaves none of 24 rows"),
        (("--group", "none", "--resamples", "30"), "resamples: 30 are too few"),
        (("--resamples", "19"), "resamples: 19 are too few for an interval; give 20 or more"),
    ],
)
def test_wrong_calls_of_fit(call, seeds, options, sentence):
    """A call that cannot be right is said to be one, whatever the rows hold."""
    done = call("fit", seeds, *options)
    assert done.status == 2 and sentence in done.err and done.err.count("\n") == 1


def test_a_refused_fit_speaks_of_its_own_law(call, tmp_path):
    """Where a law cannot be fitted, the table names that law, and no file is said to hold a fit."""
    path = tmp_path / "few.csv"
    path.write_text("n,loss\n1,2\n2,1\n")
    done = call("fit", path, "--law", "E + A*n**-a", "--json", tmp_path / "fit.json")
    assert done.status == 1 and "loss = E + A*n**-a" in done.out and "regime" not in done.out
    assert "is not written" in done.err and not (tmp_path / "fit.json").exists()


class TestLocal:
    """`depthlaw local`: exponents between neighbouring depths."""

    @pytest.fixture
    def bent(self, tmp_path):
        """Two curves of three seeds: one of slope 1, one that goes from 1 to 3."""
        made = [
            {"curve": curve, "seed": seed, "depth": depth, "loss": (1 + seed) * loss}
            for curve, losses in (("even", (1, 0.5, 0.25)), ("bent", (1, 0.5, 0.0625)))
            for seed in range(3)
            for depth, loss in zip((1, 2, 4), losses, strict=True)
        ]
        pl.DataFrame(made).write_csv(tmp_path / "bent.csv")
        return tmp_path / "bent.csv"

    def test_a_row_for_each_pair(self, call, bent):
        """With the condition, both depths, their mean, the exponent and its interval."""
        found = rows(call("local", bent, "--by", "curve"))
        assert found.columns == [
            *("curve", "shallow", "deep", "depth", "exponent", "lower", "upper", "replicates")
        ]
        assert found["curve"].to_list() == ["even", "even", "bent", "bent"]
        assert found["exponent"].to_list() == pytest.approx([1, 1, 1, 3])
        assert found["depth"].to_list() == pytest.approx([2**0.5, 8**0.5] * 2)
        assert found["upper"].to_list() == pytest.approx(found["lower"].to_list())
        assert found["replicates"].to_list() == [3] * 4

    def test_to_a_file(self, call, bent, tmp_path):
        """As every table: CSV, Parquet or JSON by its name."""
        assert call("local", bent, "--by", "curve", "--out", tmp_path / "a.parquet").status == 0
        assert len(pl.read_parquet(tmp_path / "a.parquet")) == 4

    def test_curves_that_are_mixed_are_refused(self, call, bent):
        """Two losses of one seed at one depth: status 2, and what to do."""
        done = call("local", bent)
        assert done.status == 2
        assert (
            "several rows have one depth and seed" in done.err
            and "--by" in done.err
            and "Traceback" not in done.err
        )

    @pytest.mark.parametrize("option", ["--by", "--group"])
    def test_no_such_column(self, call, bent, option):
        """Named, with those that there are."""
        done = call("local", bent, option, "curv")
        assert done.status == 2 and "column 'curv' is not in the table: it has curve, seed" in done.err

    def test_one_depth(self, call, tmp_path):
        """There is nothing between one depth and itself: status 1."""
        (tmp_path / "one.csv").write_text("seed,depth,loss\n0,2,1.5\n1,2,1.4\n")
        done = call("local", tmp_path / "one.csv")
        assert done.status == 1 and "no replicate has two depths, so there is no slope" in done.err

    def test_a_table_without_seeds(self, call, tmp_path):
        """Is one replicate, without ends."""
        (tmp_path / "a.csv").write_text("depth,loss\n1,1\n2,0.5\n")
        found = rows(call("local", tmp_path / "a.csv"))
        assert found.row(0)[3:] == (1.0, float("-inf"), float("inf"), 1)

    def test_diverged_rows_have_no_slope(self, call, tmp_path):
        """They are left out, whatever their loss says."""
        (tmp_path / "d.csv").write_text("seed,depth,loss,status\n0,1,1,done\n0,2,0.5,done\n0,4,,diverged\n")
        assert rows(call("local", tmp_path / "d.csv"))["deep"].to_list() == [2]
