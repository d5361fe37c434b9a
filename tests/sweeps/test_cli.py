"""Laws of the command line: exit status, what goes to which stream, and that no call ends in a traceback."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from sweeps._files import is_temporary
from sweeps._store import Store

from .conftest import COMMAND, PATIENCE, trained

HEAVY = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "polars", "matplotlib", "diffrax")


def csv(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


GOOD = "depth,loss\n1,1.0\n2,0.5\n4,0.26\n8,0.124\n"


def assert_one_sentence(done, status):
    """The call failed with this status and one line on standard error, and nothing on standard output."""
    assert done.status == status, done
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith("depthlaw: ")
    assert "Traceback" not in line


class TestHelp:
    def test_imports_nothing_heavy(self, spawn):
        """Help is there at once: none of the libraries that compute is imported for it."""
        code = (
            "import sys\nfrom sweeps.cli import main\nsys.argv = ['depthlaw', *sys.argv[1:]]\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
            f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
        )
        for arguments in (["--help"], ["run", "--help"], ["fit", "--help"]):
            done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
            assert done.returncode == 0 and done.stderr == "[]\n"
            assert "Usage: depthlaw" in done.stdout

    def test_a_bare_call_is_told_the_commands(self, call):
        """`depthlaw` alone shows the commands; since it asked for nothing, its status is 2."""
        done = call()
        assert done.status == 2 and done.err == ""
        for command in ("quickstart", "run", "presets", "status", "table", "fit", "doctor"):
            assert command in done.out
        assert call("-h").out == done.out and call("-h").status == 0


class TestWrongCalls:
    """A call that cannot be right has status 2 and one sentence that names what is wrong."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["rnu"], "No such command 'rnu'. Did you mean 'run'?"),
            (["--rnu"], "No such option"),
            (["run"], "Missing argument 'spec'; see `depthlaw run --help`"),
            (["run", "tiny.toml", "more"], "(more); see `depthlaw run --help`"),
            (
                ["run", "quikstart"],
                "'quikstart' is neither a preset nor a .toml file: did you mean 'quicksta",
            ),
            (["run", "nothing.toml"], "nothing.toml does not exist: name a TOML file or a preset"),
            (["run", "mse", "--set", "widht=3"], "mse.toml (case 0, steps = 40000, widht = 3): widht is not"),
            (["run", "mse", "--set", "width"], "--set 'width': it must be key=value"),
            (["run", "mse", "--set"], "'--set' requires an argument"),
            (["run", "mse", "--workers", "0"], "--workers"),
            (["run", "mse", "--workers", "two"], "--workers"),
            (["run", "mse", "--executor", "cloud"], "--executor"),
            (
                ["run", "mse", "--executor", "processes", "--scheduler", "tcp://here:1"],
                "name one of --executor, --scheduler and --cluster",
            ),
            (["run", "mse", "--retry", "-1"], "--retry"),
            (["run", "mse", "--checkpoint-every", "-1"], "--checkpoint-every"),
            (["run", "mse", "--track", "paper"], "--track"),
            (["run", "mse", "--set", "fit.by=['teacher']"], "fit is not a known key"),
            (["quickstart", "--set", "steps=0"], "steps is 0: it must be at least 1"),
            (["status"], "Missing argument 'folder'"),
            (["status", "nowhere"], "nowhere is not a folder of results: it has no spec.json"),
            (["table"], "Missing argument 'folder'"),
            (["table", "nowhere"], "nowhere is not a folder of results: it has no spec.json"),
            (["table", "."], "is not a folder of results: it has no spec.json"),
            (["table", "nowhere", "--format", "xml"], "--format"),
            (["fit"], "Missing argument 'TABLE'"),
            (["fit", "nothing.csv"], "nothing.csv does not exist"),
            (
                ["fit", "table.xlsx"],
                "table.xlsx: a table is a .csv, .tsv, .txt, .parquet, .json, .jsonl or .ndjson file, or a fo",
            ),
            (["fit", "."], "is not a folder of results: it has no spec.json"),
            (["fit", "good.csv", "--fix", "L_0=low"], "--fix 'L_0=low': write NAME=VALUE, as in E=1.6"),
            (["fit", "good.csv", "--fix", "L_0"], "--fix 'L_0': write NAME=VALUE, as in E=1.6"),
            (["fit", "good.csv", "--fix", "L_0=nan"], "--fix 'L_0=nan': write NAME=VALUE"),
            (["fit", "good.csv", "--fix", "floor=1"], "--fix floor: no parameter of depth: "),
            (["fit", "good.csv", "--bound", "alpha=3"], "--bound 'alpha=3': write NAME=LOW:HIGH"),
            (["fit", "good.csv", "--bound", "beta=0:3"], "--bound beta: no parameter of depth: "),
            (["fit", "good.csv", "--own", "beta"], "--own beta: no parameter of depth: "),
            (["fit", "good.csv", "--law", "dept"], "--law 'dept' is not a law: did you mean 'depth'?"),
            (["fit", "good.csv", "--law", "c^depth"], "^ is no power here: write **"),
            (["fit", "good.csv", "--law", "exit(0)*depth"], "'exit(0)' cannot stand in a formula"),
            (["fit", "good.csv", "--law", "c*x**a"], "has no column of the table in it; it has c, x, a"),
            (["fit", "good.csv", "--law", "c*dept**a"], "'dept' is no column; did you mean 'depth'?"),
            (["fit", "good.csv", "--objective", "l1"], "--objective"),
            (["fit", "good.csv", "--delta", "1"], "log-squares has no delta and no factor"),
            (["fit", "good.csv", "--map", "n"], "--map"),
            (["fit", "good.csv", "--derive", "n=depht+1"], "depht"),
            (["fit", "good.csv", "--drop-top", "-1"], "--drop-top"),
            (["predict", "nothing.json", "--at", "depth=1"], "nothing.json does not exist: write it with"),
            (["predict", "good.csv", "--at", "depth=1"], "good.csv: not JSON"),
            (["compare", "good.csv", "--law", "depth"], "give --law at least twice"),
            (
                ["fit", "good.csv", "--by", "teacher"],
                "column 'teacher' is not in the table: it has depth, lo",
            ),
            (["fit", "good.csv", "--group", "run"], "column 'run' is not in the table: it has depth, loss"),
            (["fit", "text.csv"], "column 'loss', row 2 (line 3): 'low' is not a number"),
            (["fit", "other.csv"], "column 'loss' is not in the table: it has depth, val_loss"),
            (["fit", "empty.csv"], "empty.csv cannot be read: "),
            (["fit", "binary.parquet"], "binary.parquet cannot be read: "),
            (["fit", "binary.json"], "binary.json cannot be read: "),
            (["doctor", "--all"], "No such option"),
        ],
    )
    def test_is_said_in_a_sentence(self, call, tmp_path, monkeypatch, arguments, sentence):
        """Wrong command, option, spec, setting, table, column, folder or number."""
        monkeypatch.chdir(tmp_path)
        csv(tmp_path, GOOD, "good.csv")
        csv(tmp_path, "depth,val_loss\n1,2\n", "other.csv")
        csv(tmp_path, "depth,loss\n1,2\n2,low\n", "text.csv")
        csv(tmp_path, "", "empty.csv")
        for name in ("binary.parquet", "binary.json"):
            (tmp_path / name).write_bytes(bytes(range(256)))
        done = call(*arguments)
        assert_one_sentence(done, 2)
        assert sentence.lower() in done.err.lower()  # typer's versions differ in the case of arguments

    def test_no_traceback_from_a_process(self, spawn):
        """The same holds for a process of its own."""
        assert_one_sentence(spawn("run", "nothing"), 2)
        assert_one_sentence(spawn("fit", "nothing.csv"), 2)


class TestFit:
    def test_of_a_foreign_table(self, call, tmp_path):
        """Any table with depth and loss will do: the estimate goes to standard output, notes beside it."""
        fitted = call("fit", csv(tmp_path, GOOD), "--json", "-").json()
        done = call("fit", csv(tmp_path, GOOD))
        assert done.status == 0
        assert f"{fitted['parameters']['alpha']['estimate']:.3f}" in done.out
        assert "L_0 sits on its lower bound 0" in done.err

    def test_an_answer_that_the_rows_do_not_bound(self, call, tmp_path):
        """Losses without any trend have no exponent: status 1, unless that is accepted."""
        noise = (0.1, -0.1, 0.6, 0.1, -0.5, 0.4, 1.3, 0.9, -0.7, -1.3, -0.6, 0.0, -2.3, -0.2, -1.2, -0.7)
        flat = csv(
            tmp_path, "depth,loss\n" + "".join(f"{d},{2 + 0.01 * e}\n" for d, e in enumerate(noise, 1))
        )
        done = call("fit", flat)
        assert done.status == 1
        assert done.err.splitlines()[-1].startswith("depthlaw: the rows do not bound alpha in 1 of 1 fits")
        assert call("fit", flat, "--accept-unidentified").status == 0

    def test_json(self, call, tmp_path):
        """`--json` is strict JSON with the same answer, and nothing else, on standard output."""
        done = call("fit", csv(tmp_path, GOOD), "--fix", "L_0=0", "--json", "-")
        fitted = done.json()
        assert done.status == 0 and fitted["status"] == "converged" and fitted["provenance"]["rows"] == 4
        alpha = fitted["parameters"]["alpha"]
        # By hand: slope of log loss on log depth, y = (0, -0.693, -1.347, -2.087), x = log 2 · (0, 1, 2, 3).
        assert alpha["estimate"] == pytest.approx(1.0, abs=0.01)
        assert alpha["interval"][0] < alpha["estimate"] < alpha["interval"][1] and alpha["identified"]
        assert json.loads(done.out, parse_constant=pytest.fail) == fitted

    def test_saved_fit_predicts_its_objective(self, call, tmp_path):
        """`predict` of what `--json FILE` wrote has, on the fit's own table, the fit's own objective."""
        path, saved = csv(tmp_path, GOOD), tmp_path / "fit.json"
        assert call("fit", path, "--fix", "L_0=0", "--json", saved).status == 0
        done = call("predict", saved, path)
        here, own = (float(number) for number in re.findall(r"objective (\S+) on.*own: (\S+)", done.err)[0])
        assert here == pytest.approx(own, rel=1e-12) and own == json.loads(saved.read_text())["objective"]
        at = pl.read_csv(call("predict", saved, "--at", "depth=1,2,4,8").out.encode())
        assert at["predicted"].to_list() == pl.read_csv(done.out.encode())["predicted"].to_list()
        assert (at["lower"] < at["predicted"]).all() and (at["predicted"] < at["upper"]).all()

    @pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "CSV", "tsv", "jsonl"])
    def test_formats(self, call, tmp_path, suffix):
        """A table is the same table in every format."""
        rows = pl.read_csv(GOOD.encode())
        path = tmp_path / f"x.{suffix}"
        write = {
            "csv": rows.write_csv,
            "json": rows.write_json,
            "parquet": rows.write_parquet,
            "tsv": lambda file: rows.write_csv(file, separator="\t"),
            "jsonl": rows.write_ndjson,
        }
        write[suffix.lower()](path)
        found, other = (call("fit", p, "--json", "-").json() for p in (path, csv(tmp_path, GOOD)))
        assert found.pop("provenance")["data_sha256"] == other.pop("provenance")["data_sha256"]
        assert found == other

    def test_types_are_read_off_all_rows(self, call, tmp_path):
        """A column that begins with hundreds of whole numbers may still hold fractions."""
        rows = "".join(f"{1 + i % 7},1\n" for i in range(500))
        done = call("fit", csv(tmp_path, f"depth,loss\n{rows}8,0.5\n"), "--json", "-", "--interval", "none")
        assert done.json()["provenance"]["rows"] == 501

    def test_two_depths_are_refused(self, call, tmp_path):
        """A table that the law cannot be fitted to: status 1, and what is missing is said."""
        done = call("fit", csv(tmp_path, "depth,loss\n1,1.0\n2,0.5\n"))
        assert done.status == 1
        assert "2 distinct depth(s) [1.0, 2.0], but c, alpha, L_0 need at least 4" in done.err
        assert done.err.splitlines()[-1] == "depthlaw: 1 of 1 fits are not to be trusted: see above"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("depth,loss\n1,1.0\n2,0.5\n4,0\n", "row 3 (line 4)"),
            ("depth,loss\n1,1.0\n2,-0.5\n4,0.3\n", "row 2 (line 3)"),
            ("depth,loss\n0,1.0\n2,0.5\n4,0.3\n", "row 1 (line 2)"),
            ("depth,loss\n1,1.0\n2,\n4,0.3\n", "row 2 (line 3)"),
            ("depth,loss\n1,1.0\n2,nan\n4,0.3\n", "row 2 (line 3)"),
            ("depth,loss\n1,1.0\n2, inf\n4,0.3\n", "row 2 (line 3)"),
        ],
    )
    def test_rows_that_no_law_can_take(self, call, tmp_path, text, sentence):
        """Zero, negative, blank, non-finite: refused with status 2 and the row named, unless left out."""
        done = call("fit", csv(tmp_path, text))
        assert done.status == 2 and sentence in done.err and "--drop-invalid" in done.err
        left_out = call("fit", csv(tmp_path, text), "--drop-invalid")
        assert left_out.status == 1 and "2 distinct depth(s)" in left_out.err

    def test_no_rows(self, call, tmp_path):
        """A table with columns and no rows has no fit, which is said."""
        done = call("fit", csv(tmp_path, "depth,loss\n"))
        assert_one_sentence(done, 1)
        assert "there are no rows, so there is no fit" in done.err

    def test_fixed_and_free(self, call, tmp_path):
        """A floor that is given is taken; one that is not is found."""
        path = csv(tmp_path, "depth,loss\n" + "".join(f"{d},{1 / d + 0.1}\n" for d in (1, 2, 4, 8, 16)))

        def alpha(*options):
            return call("fit", path, "--json", "-", *options).json()["parameters"]["alpha"]["estimate"]

        assert alpha("--fix", "L_0=0.1") == pytest.approx(1.0)
        assert alpha() == alpha("--fix", "L_0=free") == pytest.approx(1.0, abs=1e-6)
        assert alpha("--fix", "L_0=0") < 0.9

    def test_a_law_of_ones_own(self, call, tmp_path):
        """A formula with columns mapped and derived, another objective, a bound: the planted numbers."""
        rows = [(n, t, 1.5 + 3 * n**-0.4 + 20 * t**-0.3) for n in (1, 2, 5, 9) for t in (10, 30, 90, 400)]
        text = "size;Total FLOPs;loss\n" + "".join(f"{n};{6 * n * t};{loss!r}\n" for n, t, loss in rows)
        path = csv(tmp_path, text)
        done = call(
            *("fit", path, "--law", "E + A*n**-a + B*d**-b", "--map", "n=size", "--map", "C=Total FLOPs"),
            *("--derive", "d=C/(6*n)", "--objective", "huber", "--bound", "a=0:2", "--json", "-"),
        )
        found = {name: p["estimate"] for name, p in done.json()["parameters"].items()}
        planted = {"E": 1.5, "A": 3, "a": 0.4, "B": 20, "b": 0.3}
        assert found == pytest.approx(planted, rel=1e-5) and done.status == 0

    def test_of_results(self, call, tiny_results):
        """A folder of results is fitted as its spec says, to what `run` wrote beside the records."""
        done = call("fit", tiny_results, "--json", "-", "--accept-unidentified")
        assert done.status == 0
        answers = [{name: v for name, v in answer.items() if name != "fit"} for answer in done.json()]
        assert answers == json.loads((tiny_results / "fits.json").read_text())
        assert [answer["teacher"] for answer in done.json()] == ["independent", "tied"]
        by_seed = call(
            "fit", tiny_results, "--json", "-", "--by", "teacher", "--by", "seed", "--group", "none"
        )
        assert [(a["teacher"], a["seed"]) for a in by_seed.json()] == [
            ("independent", 0),
            ("independent", 1),
            ("tied", 0),
            ("tied", 1),
        ]

    def test_of_unfinished_results(self, call, tiny_results, tmp_path):
        """A fit without all of the sweep's students is shown, and not to be trusted."""
        out = shutil.copytree(tiny_results, tmp_path / "out")
        next(out.glob("jobs/*/record.json")).unlink()
        done = call("fit", out, "--json", "-")
        assert done.status == 1 and sum(answer["rows"] for answer in done.json()) == 9
        assert f"1 job(s) of {out} have no record yet: the same `depthlaw run` continues" in done.err


class TestTable:
    def test_formats_agree(self, call, tiny_results, tmp_path):
        """CSV, JSON and Parquet hold the same rows, on standard output and in a file named for its format."""
        expected = Store(tiny_results).table()
        for suffix, read in (("csv", pl.read_csv), ("json", pl.read_json), ("parquet", pl.read_parquet)):
            path = tmp_path / f"rows.{suffix}"
            done = call("table", tiny_results, "--out", path)
            assert (done.status, done.out, done.err) == (0, "", f"wrote {path}: 12 rows\n")
            found = read(path, schema=expected.schema) if suffix == "json" else read(path)
            assert found.select(pl.col(name).cast(kind) for name, kind in expected.schema.items()).equals(
                expected
            )
        explicit = tmp_path / "rows.txt"
        assert call("table", tiny_results, "--out", explicit, "--format", "json").status == 0
        assert explicit.read_bytes() == (tmp_path / "rows.json").read_bytes()

    def test_parquet_says_what_its_columns_are(self, call, tiny_results, tmp_path):
        """A Parquet file carries the unit and the meaning of every column, as the README has them."""
        path = tmp_path / "t.parquet"
        assert call("table", tiny_results, "--out", path).status == 0
        said = json.loads(pl.read_parquet_metadata(path)["depthlaw.columns"])
        columns = Store(tiny_results).columns()
        assert list(said) == list(columns) == pl.read_parquet(path).columns
        assert said["loss"] == {"unit": columns["loss"].unit, "meaning": columns["loss"].meaning}

    def test_standard_output_is_data_alone(self, call, tiny_results, tmp_path):
        """What is piped is the table; that a record is missing goes to standard error, with status 1."""
        out = shutil.copytree(tiny_results, tmp_path / "out")
        record = next(out.glob("jobs/*/record.json"))
        record.write_text("{")
        done = call("table", out)
        assert done.status == 1 and f"{record} is not a whole record: its end or its hash is mi" in done.err
        assert "1 file(s) are not in the table: see above" in done.err
        assert len(pl.read_csv(done.out.encode())) == 9
        assert len(json.loads(call("table", out, "--format", "json").out)) == 9

    def test_unwritable(self, call, tiny_results, tmp_path):
        """A file that cannot be written: status 1 and why."""
        done = call("table", tiny_results, "--out", csv(tmp_path, "") / "rows.csv")
        assert_one_sentence(done, 1)
        assert "rows.csv cannot be written: " in done.err
        assert_one_sentence(call("table", tiny_results, "--out", tmp_path), 1)

    def test_streams_that_end(self, tiny_results):
        """A reader that has gone, a full disk or a closed stream: no traceback, and no status 0 for loss."""
        command = [*COMMAND, "table", str(tiny_results)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gone:
            gone.stdout.close()
            assert gone.stderr.read() == b"" and gone.wait() == 1
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert done.stderr == "depthlaw: the output cannot be read or written: No space left on device\n"
        closed = subprocess.run(
            ["/bin/sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True
        )
        assert (closed.returncode, closed.stderr) == (0, "")

    def test_piped_to_head(self, tiny_results):
        """`| head -1` shows the header and nothing else."""
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" | head -1', "sh", *COMMAND, "table", str(tiny_results)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stderr == ""
        assert done.stdout.startswith("job,teacher,rho,") and len(done.stdout.splitlines()) == 1


class TestRun:
    def test_rows_and_fits(self, call, tiny_file, tmp_path, instant):
        """A run writes its rows and fits, shows the exponents on standard output and the rest beside it."""
        done = call("run", tiny_file, "--out", tmp_path / "out", "--workers", "1")
        assert done.status == 0
        assert "ensemble averaging" in done.out and "independent" in done.out
        assert f"rows, curves and fits in {tmp_path / 'out'}" in done.err
        assert "[4/4] " in done.err and "[" not in done.out.replace("[0", "")
        fits = json.loads((tmp_path / "out" / "fits.json").read_text())
        assert [entry["teacher"] for entry in fits] == ["independent", "tied"]
        assert all(0.9 < entry["alpha"] < 1.1 for entry in fits)

    def test_default_folder(self, call, tiny_file, tmp_path, instant, monkeypatch):
        """Results go to results/NAME, and a second spec of that name is refused there."""
        monkeypatch.chdir(tmp_path)
        assert call("run", tiny_file, "--workers", "1").status == 0
        assert len(Store(tmp_path / "results" / "tiny").table()) == 12
        done = call("run", tiny_file, "--workers", "1", "--set", "steps=21")
        assert_one_sentence(done, 2)
        assert (
            "results/tiny holds results of another spec: choose another --out, or add to it with --extend. "
            "set.steps: not set there, 21 now\n"
        ) in done.err
        assert len(instant) == 4

    def test_extend(self, call, tiny_file, tmp_path, instant):
        """`--extend` adds the cells of a changed spec; the table and the fits are of all that is there."""
        out = tmp_path / "out"
        assert call("run", tiny_file, "--out", out, "--workers", "1").status == 0
        more = ("run", tiny_file, "--out", out, "--workers", "1", "--set", "seeds=[1, 2]", "--extend")
        done = call(*more)
        assert done.status == 0 and "2 job(s) to run, 2 already done" in done.err
        assert len(instant) == 6 and set(Store(out).table()["seed"]) == {0, 1, 2}
        assert [entry["rows"] for entry in json.loads((out / "fits.json").read_text())] == [9, 9]
        assert call(*more[:-1]).status == 0 and len(instant) == 6

    def test_while_another_runs(self, call, tiny_file, tmp_path, instant):
        """While a folder is in use a second run is refused, and touches nothing; looking is allowed."""
        out = tmp_path / "out"
        assert call("run", tiny_file, "--out", out, "--workers", "1").status == 0
        with Store(out).locked():
            (out / "live.json").write_text("the other one's")
            done = call("run", tiny_file, "--out", out, "--workers", "1")
            assert_one_sentence(done, 1)
            assert f"{out} is in use by process {os.getpid()} on " in done.err
            assert (out / "live.json").read_text() == "the other one's"
            for command in ("table", "fit", "status"):
                assert call(command, out).status == 0
        assert call("run", tiny_file, "--out", out, "--workers", "1").status == 0

    def test_failing_job(self, call, tiny_file, tmp_path, instant, monkeypatch):
        """A job that fails is said with its reason, the others are kept, and the status is 1."""
        import toymodels

        pretend, tried = toymodels.train_cohort, []

        def fail(config, **options):
            if config.teacher.kind == "tied" and config.seeds == (1,):
                tried.append(config)
                raise ValueError("a single student needs too much memory")
            return pretend(config)

        monkeypatch.setattr(toymodels, "train_cohort", fail)
        done = call("run", tiny_file, "--out", tmp_path / "out", "--workers", "1", "--retry", "1")
        assert done.status == 1
        said = done.err.splitlines()
        why = "ValueError: a single student needs too much memory"
        assert f"tied, seed 1: {why}; trying again" in said and len(tried) == 2
        assert any(line.endswith(f"/4] tied, seed 1: failed: {why}") for line in said)
        assert said[-1] == "depthlaw: 1 of 4 jobs failed: the same command tries again"
        assert "Traceback" in done.err and 'raise ValueError("a single student' in done.err
        assert len(Store(tmp_path / "out").table()) == 9
        shown = call("status", tmp_path / "out").out
        assert "tiny: 3 done, 1 failed of 4 jobs" in shown and why in shown
        monkeypatch.setattr(toymodels, "train_cohort", pretend)
        done = call("run", tiny_file, "--out", tmp_path / "out", "--workers", "1")
        assert done.status == 0 and "1 job(s) to run, 3 already done" in done.err

    def test_fail_fast(self, call, tiny_file, tmp_path, instant, monkeypatch):
        """`--fail-fast` ends the sweep at the first failure, and says how many jobs were not run."""
        import toymodels

        def fail(config, **options):
            raise ValueError("no")

        monkeypatch.setattr(toymodels, "train_cohort", fail)
        done = call("run", tiny_file, "--out", tmp_path / "out", "--workers", "1", "--fail-fast")
        assert done.status == 1
        last = "depthlaw: 1 of 4 jobs failed, 3 were not run: the same command tries again"
        assert done.err.splitlines()[-1] == last

    def test_cells_that_are_pooled_are_said(self, call, tiny_file, tmp_path, instant):
        """A fit of cells that differ in a column that `by` does not name says in which."""
        for by, said in (('["teacher"]', True), ('["teacher", "learning_rate"]', False)):
            path = tmp_path / f"{said}.toml"
            text = tiny_file.read_text().replace('by = ["teacher"]', f"by = {by}")
            path.write_text(text.replace("[grid]", '[grid]\n"learning_rate.base" = [0.1, 0.2]'))
            done = call("run", path, "--out", tmp_path / str(said), "--workers", "1")
            sentence = "teacher tied: rows of different learning_rate are fitted together: name these"
            assert (sentence in done.err) == said, done.err

    def test_diverged_student(self, call, tiny_file, tmp_path, instant, monkeypatch):
        """A student that diverged has its row, is left out of the fit, is said, and makes the status 1."""
        import toymodels

        pretend = toymodels.train_cohort

        def diverging(config, **options):
            result = pretend(config)
            result.students[0].diverged = True
            return result

        monkeypatch.setattr(toymodels, "train_cohort", diverging)
        done = call("run", tiny_file, "--out", tmp_path / "out", "--workers", "1")
        assert done.status == 1
        assert "tied, seed 0: 3 rows, 1 diverged, " in done.err
        assert "loss or gradient not finite: depth 1 at step 20" in " ".join(done.err.split())
        assert "teacher tied: 2 diverged row(s) left out of the fit." in done.err
        assert done.err.splitlines()[-1] == "depthlaw: 2 of 2 fits are not to be trusted: see above"
        table = Store(tmp_path / "out").table().filter(pl.col("depth") == 1)
        assert set(table["status"]) == {"diverged"} and table["loss"].null_count() == 4

    def test_unwritable(self, call, tiny_file, tmp_path, instant):
        """A folder that cannot be made: status 1 and one sentence, before anything is trained."""
        done = call("run", tiny_file, "--out", csv(tmp_path, "") / "x")
        assert_one_sentence(done, 1)
        assert "cannot be written" in done.err and instant == []

    def test_dry_run(self, call, tiny_file, tmp_path, instant, monkeypatch):
        """`--dry-run` tells jobs, rows, FLOPs, time and memory, and neither trains nor writes."""
        monkeypatch.chdir(tmp_path)
        done = call("run", tiny_file, "--dry-run")
        assert done.status == 0 and done.err == ""
        assert done.out.startswith("tiny: 4 jobs, 12 rows, ") and "FLOPs" in done.out
        assert "about " in done.out and "MiB" in done.out
        assert instant == [] and list(tmp_path.iterdir()) == []
        assert os.environ["OPENBLAS_NUM_THREADS"] == "1"  # the rate it measures is that of one core

    def test_a_tokenizer_that_is_not_there(self, call, tmp_path, monkeypatch):
        """What a corpus or tokenizer lacks is a sentence, also before anything runs."""
        monkeypatch.chdir(tmp_path)
        done = call("run", "llm_paper", "--dry-run")
        assert_one_sentence(done, 1)
        assert "tokenizer tokenizer.json cannot be read: No such file" in done.err

    def test_no_device(self, spawn, tiny_file, tmp_path):
        """Where JAX finds no device, that is the reason, in a sentence."""
        done = spawn("doctor", JAX_PLATFORMS="nothing")
        assert_one_sentence(done, 1)
        assert "JAX finds no device: Unable to initialize backend 'nothing'" in done.err

    def test_presets(self, call):
        """Every preset is listed with what it does."""
        from sweeps._spec import load_spec, preset_names

        done = call("presets")
        assert done.status == 0
        for name in preset_names():
            assert f" {name} " in done.out and load_spec(name).description in done.out


class TestQuickstart:
    def test_summary(self, call, tmp_path, instant):
        """The main job leaves its rows, both exponents with interval and regime, time, memory and figure."""
        out = tmp_path / "out"
        done = call("quickstart", "--out", out, "--workers", "1")
        assert done.status == 0, done.err
        summary = json.loads((out / "summary.json").read_text())
        assert set(summary["teachers"]) == {"independent", "tied"}
        for answer in summary["teachers"].values():
            low, high = answer["interval"]
            assert low < answer["alpha"] < high and answer["regime"] == "ensemble averaging"
            assert answer["update_angle"] == 1.5
        assert summary["wall_seconds"] > 0 and summary["peak_memory_bytes"] > 2**20
        assert (summary["jobs"], summary["jobs_reused"]) == (6, 0)
        assert (out / "inverse_depth_toy.png").read_bytes().startswith(b"\x89PNG")

    def test_no_figure_of_what_is_not_trusted(self, call, tmp_path, instant):
        """With two depths there is no exponent: no figure either, and status 1, not a traceback."""
        out = tmp_path / "out"
        done = call("quickstart", "--out", out, "--workers", "1", "--set", "depths=[2, 3]")
        assert done.status == 1
        assert "2 distinct depth(s)" in done.err and "no figure" in done.err and "Traceback" not in done.err
        assert json.loads((out / "summary.json").read_text())["teachers"]["tied"]["alpha"] is None
        assert not list(out.glob("*.png"))


class TestSurroundings:
    @pytest.mark.slow
    def test_ascii_locale_without_a_terminal(self, spawn, tiny_results, tmp_path):
        """In a locale of plain ASCII and without TERM every output works, and is plain ASCII."""
        plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "TERM": ""}
        for arguments in (["fit", tiny_results], ["presets"], ["table", tiny_results], ["--help"]):
            done = spawn(*arguments, **plain)
            assert done.status == 0, done.err
            assert done.out.isascii() and done.err.isascii() and len(done.out) > 100
        named = csv(tmp_path, "depth,loss,name\n" + "".join(f"{d},{1 / d},größe\n" for d in (1, 2, 4)))
        done = spawn("fit", named, "--by", "name", "--fix", "L_0=0", **plain)
        assert done.status == 0 and "gr??e" in done.out and "name gr??e: The rows follow" in done.err

    def test_name_clash(self, spawn, tmp_path):
        """Started where another `llm` hides ours, every command refuses with its place and the remedy."""
        (tmp_path / "llm").mkdir()
        (tmp_path / "llm" / "__init__.py").write_text("")
        done = spawn("presets", cwd=tmp_path)
        assert_one_sentence(done, 1)
        assert f"package 'llm' is {tmp_path / 'llm'}, not depthlaw's" in done.err
        assert "install depthlaw in an environment of its own" in done.err

    @pytest.mark.slow
    def test_any_folder(self, spawn, tmp_path):
        """Started in a folder without such a name, the same command runs."""
        assert spawn("presets", cwd=tmp_path).status == 0


def children(parent: int) -> list[int]:
    """The processes that `parent` started, but the one that keeps track of semaphores."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                if b"spawn_main" in stat.with_name("cmdline").read_bytes():
                    found.append(int(stat.parent.name))
    return found


def gone(pids: list[int]) -> bool:
    """Whether none of the processes runs any more; waits for it."""
    waited = time.monotonic()
    while any(_runs(pid) for pid in pids):
        if time.monotonic() - waited > PATIENCE:
            return False
        time.sleep(0.05)
    return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
class TestStopped:
    """A run that is stopped leaves no process and nothing half-written."""

    @contextlib.contextmanager
    def running(self, spec: Path, out: Path, ready):
        """A run that would never end, once `ready`, in a process group of its own; its workers' ids."""
        command = [*COMMAND, "run", str(spec), "--out", str(out), "--workers", "2"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True) as process:
            try:
                workers: list[int] = []
                waited = time.monotonic()
                while len(workers) < 2 or not ready():
                    assert process.poll() is None and time.monotonic() - waited < PATIENCE
                    workers = children(process.pid)
                    time.sleep(0.05)
                yield process, workers
            finally:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)

    def endless(self, tiny_file, tmp_path):
        path = tmp_path / "endless.toml"
        text = tiny_file.read_text().replace("[grid]", "[grid]\nsteps = [1_000_000_000, 20]")
        path.write_text(text.replace('["tied", "independent"]', '["tied"]').replace("[0, 1]", "[0]"))
        return path

    def test_interrupt(self, tiny_file, tmp_path, tiny_results):
        """Ctrl-C, which reaches every process: status 130, one sentence, and what had ended is recorded.

        What had not ended has saved where it was.
        """
        out = tmp_path / "out"

        def one_of_each():
            return list(out.glob("jobs/*/record.json")) and trained(out)

        with self.running(self.endless(tiny_file, tmp_path), out, one_of_each) as (process, workers):
            os.killpg(process.pid, signal.SIGINT)
            err = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == 130
            assert gone(workers)
        said = err.splitlines()
        assert said[0] == "2 job(s) to run" and said[1].startswith("[1/2] tied, seed 0: 3 rows, ")
        assert said[2:] == [
            "stopping: running jobs save where they are (again to stop at once)",
            "depthlaw: stopped by SIGINT; the same command goes on from there",
        ]
        assert len(list(out.glob("jobs/*/checkpoint"))) == 1
        assert [path for path in out.rglob("*") if is_temporary(path.name)] == []
        skipped: list[str] = []
        assert len(Store(out).table(skipped)) == 3 and skipped == []

    def test_interrupt_twice(self, tiny_file, tmp_path):
        """Where saving takes too long, a second Ctrl-C ends all at once."""
        with self.running(self.endless(tiny_file, tmp_path), tmp_path / "out", lambda: True) as (
            process,
            workers,
        ):
            for worker in workers:  # they will never save
                os.kill(worker, signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            while not process.stderr.readline().startswith("stopping: "):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            assert process.wait(timeout=PATIENCE) == 130
            assert said == "depthlaw: stopped by SIGINT; the same command goes on from there\n"
            assert gone(workers)

    def test_terminate(self, tiny_file, tmp_path):
        """SIGTERM, to the command alone: status 143, and its workers end with it."""
        with self.running(self.endless(tiny_file, tmp_path), tmp_path / "out", lambda: True) as (
            process,
            workers,
        ):
            process.send_signal(signal.SIGTERM)
            err = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == 143 and "stopped by SIGTERM" in err and "Traceback" not in err
            assert gone(workers)

    def test_killed(self, tiny_file, tmp_path):
        """Even when the command is killed and can do nothing any more, its workers end."""
        with self.running(self.endless(tiny_file, tmp_path), tmp_path / "out", lambda: True) as (
            process,
            workers,
        ):
            time.sleep(0.5)  # workers watch their parent from the moment their job is handed to them
            process.kill()
            process.wait()
            assert gone(workers)
