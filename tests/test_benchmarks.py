"""The catalogue of benchmarks, their one door, and the page that says what each shows."""

import inspect
import json
import re
from pathlib import Path

import pytest

from benchmarks import __main__ as door
from benchmarks.catalogue import BENCHMARKS, GROUPS, Benchmark
from harness import records
from harness.tables import Table
from harness.timing import MissingBaseline, in_new_process

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/benchmarks.md").read_text()


def toy(n: int = 3, fail: bool = False) -> list[dict]:
    """Rows of a toy benchmark."""
    if fail:
        raise MissingBaseline("a library is missing")
    return [{"n": k, "seconds": 0.5 * k} for k in range(n)]


@pytest.fixture
def catalogue(monkeypatch, tmp_path):
    """A catalogue with one toy, whose results go to an empty folder."""
    benchmark = Benchmark("toy", "toy:toy", "nothing", quick=True)
    monkeypatch.setattr(Benchmark, "load", lambda self: toy)
    monkeypatch.setattr(door, "BENCHMARKS", {"toy": benchmark})
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_function_with_options_and_a_docstring(name):
    try:
        function = BENCHMARKS[name].load()
    except MissingBaseline as error:
        pytest.skip(str(error))
    assert function.__doc__
    required = {
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
    }
    assert required <= {"before"}


def test_the_page_says_what_each_shows():
    rows = re.findall(r"^\| `python -m benchmarks (\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, benchmark.shows) for name, benchmark in BENCHMARKS.items()]
    assert [line[3:] for line in PAGE.splitlines() if line.startswith("## ")] == [*GROUPS]


def test_every_result_has_a_benchmark_and_says_where_it_was_measured():
    for path in records.RESULTS.glob("*.json"):
        result = json.loads(path.read_text())
        assert result["name"] == path.stem and path.stem in {*BENCHMARKS, "stress"}
        assert result["rows"] and result["machine"] and result["versions"]


def run(*arguments):
    """The exit code of the door."""
    try:
        door.main(arguments)
    except SystemExit as end:
        return end.code
    return 0


def test_the_door_prints_and_saves(catalogue, capsys):
    assert run("toy", "--n", "2") == 0
    assert [row["n"] for row in records.load("toy")] == [0, 1]
    assert "1      0.5" in capsys.readouterr().out
    assert run() == 0, "all that are quick"
    assert len(records.load("toy")) == 3


def test_the_door_saves_no_trials(catalogue, capsys):
    assert run("--no-save", "toy") == 0
    assert run("toy", "--fail") == 0 and "skipped: a library" in capsys.readouterr().out
    assert run("toy", "--help") == 0 and "--fail" in capsys.readouterr().out
    assert not list(catalogue.iterdir())


def test_the_door_refuses_other_names_and_options(catalogue, capsys):
    assert run("unknown") == 2 and "no benchmark named unknown" in capsys.readouterr().err
    assert run("toy", "--m", "2") == 2 and "--m" in capsys.readouterr().err


def test_the_list_has_all(capsys):
    assert run("--list") == 0
    text = capsys.readouterr().out
    assert all(name in text for name in BENCHMARKS)


def test_functions_run_in_new_processes():
    assert in_new_process(json.dumps, {"a": 1}) == '{"a": 1}'
    with pytest.raises(RuntimeError, match="loads failed in a new process"):
        in_new_process(json.loads, "no json")


def test_tables_have_three_forms():
    table = Table("Errors", ["method", "error"], [["mean, plain", "0.5"]], "A note.")
    assert table.markdown().splitlines()[0] == "## Errors"
    assert table.markdown().endswith("| mean, plain | 0.5 |\n\nA note.\n")
    assert table.csv().splitlines() == ["method,error", '"mean, plain",0.5']
    assert table.text().splitlines()[-1] == "A note."
