"""Experiments: the same numbers on any number of cores and after interruptions; tables that hide
nothing."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import (
    PAPER,
    classification,
    experiment,
    forecast,
    general,
    reconstruction,
)
from experiments.base import Column, Description, Experiment, draw, merge_with, run_experiment
from experiments.command import app
from experiments.results import Results
from experiments.torus import EPOCHS, QUICK_EPOCHS, Torus
from harness.ledger import key_of, read_results
from tangentbundle.errors import DamagedFileError, InvalidInputError

ROOT = Path(__file__).parents[1]


class Toy(Experiment):
    """Means of random numbers, slow enough to be interrupted."""

    name = "torus"
    about = Description(
        "Toy", ("field", "n"), (Column("mse", "error", headline=True), Column("oracle", "oracle"))
    )
    pause = 0.0

    def published(self):
        return [{"field": "a", "n": 1, "method": "mean", "mean": 0.5, "std": 0.25}]

    def tasks(self, full, protocol):
        return [{"field": "a", "n": n, "sampling": s} for n in (1, 2) for s in range(5)]

    def run(self, task, seed):
        time.sleep(self.pause)
        rng = draw(seed, "toy", task["n"], task["sampling"])
        rows = [
            {"field": "a", "n": task["n"], "method": m, "mse": float(rng.random())}
            for m in ("mean", "zero")
        ]
        return [{**row, "oracle": None} for row in rows]


class Slow(Toy):
    pause = 0.4


def plain(rows):
    return [{k: v for k, v in row.items() if k != "task_seconds"} for row in rows]


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return plain(run_experiment(Toy(), tmp_path_factory.mktemp("serial"), quiet=True))


def test_jobs_do_not_change_numbers(serial, tmp_path):
    assert plain(run_experiment(Toy(), tmp_path, jobs=2, quiet=True)) == serial


def test_other_seeds_do(serial, tmp_path):
    assert plain(run_experiment(Toy(), tmp_path, seed=1, quiet=True)) != serial


@pytest.mark.parametrize("kept", [1, 2, 5, 8, 8.5])
def test_resumes_from_any_torn_file(serial, tmp_path, kept):
    run_experiment(Toy(), tmp_path, quiet=True)
    file = tmp_path / "results.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    torn = "".join(lines[: int(kept)]) + (lines[int(kept)][:20] if kept % 1 else "")
    file.write_text(torn)
    calls = []

    class Counting(Toy):
        def run(self, task, seed):
            calls.append(key_of(task))
            return super().run(task, seed)

    assert plain(run_experiment(Counting(), tmp_path, quiet=True)) == serial
    assert len(calls) == 10 - (int(kept) - 1) // 2, "finished tasks are not repeated"
    again = file.read_text().splitlines()
    assert len(again) == 21 and all(json.loads(line) for line in again)


def test_refuses_other_settings_protocols_and_foreign_files(tmp_path):
    with pytest.raises(InvalidInputError, match="'paper' and 'best'"):
        run_experiment(Toy(), tmp_path, protocol="other")
    run_experiment(Toy(), tmp_path, quiet=True)
    with pytest.raises(InvalidInputError, match="other settings"):
        run_experiment(Toy(), tmp_path, seed=3, quiet=True)
    run_experiment(Toy(), tmp_path, seed=3, resume=False, quiet=True)
    (tmp_path / "results.jsonl").write_text("not json\n")
    with pytest.raises(DamagedFileError, match="no file of results"):
        run_experiment(Toy(), tmp_path, quiet=True)


@pytest.mark.slow
def test_killed_in_the_middle_nothing_reported_is_lost(tmp_path):
    """SIGKILL while tasks finish; what was written stays, and the end is as if nothing had
    happened."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_experiments import Slow;from "
        "experiments.base import run_experiment; run_experiment(Slow(), "
        "sys.argv[1], quiet=True)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), os.path.dirname(__file__)]  # noqa: PTH120
    file = tmp_path / "results.jsonl"
    with subprocess.Popen(command, cwd=ROOT) as process:
        while not file.exists() or len(file.read_text().splitlines()) < 7:
            time.sleep(0.02)
        seen = file.read_text().splitlines()
        process.send_signal(signal.SIGKILL)
    rows = run_experiment(Slow(), tmp_path, quiet=True)
    assert {json.loads(line)["task"] for line in seen[1:]} <= {row["task"] for row in rows}
    assert file.read_text().splitlines()[: len(seen)] == seen
    assert plain(rows) == plain(run_experiment(Slow(), tmp_path / "whole", quiet=True))


def test_the_full_table_has_every_method_and_score(serial):
    table = Results(Toy(), serial, "paper").full()
    assert [row[:4] for row in table.body] == [
        ["a", str(n), m, "5"] for n in (1, 2) for m in ("mean", "zero")
    ]
    assert [row[-1] for row in table.body] == ["0.5 ± 0.25", "", "", ""]
    values = [row["mse"] for row in serial if row["n"] == 1 and row["method"] == "mean"]
    assert table.body[0][4] == f"{np.mean(values):.3g} ± {np.std(values):.2g}"
    assert "| a | 1 | mean | 5 |" in table.markdown() and table.csv().count("\n") == 5


def test_pivots_have_methods_against_cells_and_one_winner_a_cell(serial):
    (table,) = Results(Toy(), serial, "paper").pivots()
    assert table.header == ["method", "n=1", "n=2"]
    assert [row[0] for row in table.body] == ["*paper: mean*", "mean", "zero"]
    assert table.body[0][1:] == ["0.5 ± 0.25", ""]
    assert all(sum(row[column].startswith("**") for row in table.body) == 1 for column in (1, 2))
    many = [{**row, "n": n, "field": f} for row in serial[:2] for n in range(7) for f in "ab"]
    assert [len(part.header) for part in Results(Toy(), many, "paper").pivots()] == [8, 8]


def test_the_comparison_counts_the_papers_standard_deviations(serial):
    class Scored(Toy):
        scores = Column("mse", "error", headline=True), Column("oracle", "oracle", paper=True)
        about = Description("Toy", ("field", "n"), scores)

    rows = [
        {**row, "oracle": 2 * row["mse"], "method": row["method"] + ", variant"} for row in serial
    ]
    for kind, factor, shown in ((Toy(), 1, serial), (Scored(), 2, rows)):
        table = Results(kind, shown, "paper").comparison()
        values = [row["mse"] for row in serial if row["n"] == 1 and row["method"] == "mean"]
        (line,) = (row for row in table.body if row[3])
        assert line[4] == f"{(factor * np.mean(values) - 0.5) / 0.25:+.1f}" and line[0] == "n=1"
        assert {row[0] for row in table.body} == {"n=1", "n=2"}, "every cell has a line"


def one_row(name, cell, method, data):
    """A run of a method, with all that rows of an experiment have in common."""
    about = experiment(name).about
    scores = {column.score: 0.25 for column in about.columns}
    common = {"data": data, "sampling": 0, "noise": 0, "mask": 0, "dataset": 0}
    return {**common, **dict(zip(about.cell, cell, strict=True)), "method": method, **scores}


@pytest.mark.parametrize("data", ["gfs", "embedded", "ncep"])
@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
@pytest.mark.parametrize("name", PAPER)
def test_the_screen_says_what_was_run_and_compares_like_with_like(name, full, data):
    """Every cell has a label, single runs have no spread, and the paper's numbers need the paper's
    data and form."""
    kind, published = experiment(name), experiment(name).published()
    cells = [tuple(row[key] for key in kind.about.cell) for row in published]
    wind = name in ("reconstruction", "forecast")
    comparable = full and (data == "ncep" or not wind)
    for shown, runs in itertools.product((cells[:1], list(dict.fromkeys(cells))), (1, 3)):
        rows = [one_row(name, cell, "DD-TNN", data) for cell in shown for _ in range(runs)]
        results = Results(kind, rows, "paper", full)
        table = results.comparison()
        text = table.text()
        assert all(row[0].strip(" -") for row in table.body) and len(
            {row[0] for row in table.body}
        ) == len(shown)
        assert ("± 0" in text.replace("± 0.", "")) == (runs > 1), (
            "a single run has no standard deviation"
        )
        assert ("in sd" in table.header) == comparable == ("Not compared" not in text)
        assert "Data: " in text and ("epochs" in text or "steps" in text)
        assert max(map(len, text.splitlines())) <= 100
        assert ("quick form" in table.title) == (not full)
        page = "\n".join(part.markdown() for part in results.pivots())
        assert ("*paper" in page) == full
        assert ("not comparable" in page) == (full and not comparable)


def test_published_numbers():
    found = [experiment(name).published() for name in PAPER]
    assert [len(rows) for rows in found] == [36, 36, 36, 6 * 2]
    assert {
        "field": "as printed",
        "n": 100,
        "tau": 0.3,
        "method": "DD-TNN",
        "mean": 0.135,
        "std": 0.0142,
    } in found[0]
    last = {"activation": "Tanh", "method": "3D-CNN", "mean": 0.985, "std": 0.006}
    assert {**last, "reading": "base"} in found[3]
    with pytest.raises(InvalidInputError, match="no experiment"):
        experiment("weather")
    with pytest.raises(InvalidInputError, match="draws its own"):
        experiment("torus", "ncep")
    with pytest.raises(
        InvalidInputError, match="'moon' for forecast; there are gfs, embedded, ncep"
    ):
        experiment("forecast", "moon")


RESULTS = ROOT / "docs/results"


@pytest.mark.parametrize("protocol", ["paper", "best"])
@pytest.mark.parametrize("name", ["torus", "reconstruction", "forecast", "classification"])
def test_committed_results_fit_the_page_and_the_terminal(name, protocol):
    """Rows that can be read, a terminal of 100 columns, and pages of tables, a figure and at most
    200 words."""
    folder, header = RESULTS / f"{name}-{protocol}", {"experiment": name, "full": True, "seed": 0}
    rows = read_results(folder / "results.jsonl.gz", {**header, "protocol": protocol})
    if protocol == "best":
        rows = merge_with(experiment(name), rows, RESULTS / f"{name}-paper", full=True, seed=0)
    results = Results(experiment(name), rows, protocol)
    assert max(map(len, results.comparison().text().splitlines())) <= 100
    page = (folder / "table.md").read_text()
    prose = [line for line in page.splitlines() if not line.startswith(("|", "#", "!["))]
    assert len(" ".join(prose).split()) <= 200 and "![" in page
    assert all(table.markdown().strip() in page for table in results.pivots())


@pytest.mark.parametrize(
    "name, said",
    [("torus", "MNN in 8, MLP in 4"), ("reconstruction", "MNN in 12")],
    ids=["torus", "reconstruction"],
)
def test_the_page_says_which_network_is_best(name, said):
    """By the paper's score, of the three networks of the paper, in all cells of the committed
    rows."""
    header = {"experiment": name, "protocol": "paper", "full": True, "seed": 0}
    rows = read_results(RESULTS / f"{name}-paper" / "results.jsonl.gz", header)
    results = Results(experiment(name), rows, "paper")
    winners = []
    for cell in results.cells:
        lines = [
            line
            for line in results.lines
            if line.cell == cell and line.method in ("DD-TNN", "MNN", "MLP")
        ]
        winners.append(min(lines, key=lambda line: line.score(results.compared)["mean"]).method)
    counts = ", ".join(
        f"{method} in {winners.count(method)}" for method in ("MNN", "MLP") if method in winners
    )
    assert counts == said and len(winners) == 12
    assert f"in 0 of 12, by the paper's score: {said}" in (RESULTS / "README.md").read_text()


def test_the_page_has_the_settings_of_the_code():
    page = (RESULTS / "README.md").read_text()
    assert f"after {EPOCHS:,} epochs".replace(",", " ") in page
    assert f"after {reconstruction.EPOCHS} epochs" in page
    rule = (
        f"{forecast.PATIENCE} steps without a gain of {forecast.LEAST_GAIN:.0e}, or "
        f"{forecast.STEPS} steps"
    )
    assert rule.replace("1e-05", "1e-5") in page and f"{forecast.BATCH} windows" in page
    rates = ["0.03, falling to 0.0003", "0.01", f"{forecast.RATE:g}", "0.01"]
    assert f"| Adam: rate | {' | '.join(rates)} |" in page
    epochs = f"{classification.PATIENCE} epochs without a gain, or {classification.EPOCHS}"
    assert epochs in page and f"{classification.BATCH} clouds" in page


TASK = {
    "field": "as printed",
    "n": 60,
    "sampling": 0,
    "noises": 1,
    "protocol": "paper",
    "epochs": 8,
}


NETWORKS = {"DD-TNN": 88, "MNN": 136, "MNN, L_sym, exp(-L)": 136, "MNN, L_sym, exp(+L)": 136}
NETWORKS |= {"MLP": 44, "MLP, ambient": 68}
"""Networks of Table 1 and their numbers of parameters."""


@pytest.fixture(scope="module")
def torus_rows():
    return Torus().run(TASK, 0)


def test_torus_rows_are_deterministic_and_complete(torus_rows):
    again = Torus().run(TASK, 0)
    assert again == torus_rows
    methods = {row["method"] for row in torus_rows}
    assert {
        *NETWORKS,
        "identity",
        "mean",
        "zero",
        "nearest neighbour",
        "inverse distance",
    } <= methods
    assert {"thin-plate spline", "Tikhonov on the bundle, SURE"} <= methods
    assert len(torus_rows) == len(methods) * 3 * TASK["noises"]


def test_torus_scores(torus_rows):
    """The identity's error is the noise in the frames; the oracle is never worse than honesty;
    noise orders errors."""
    for tau in (0.01, 0.1, 0.3):
        mine = [row for row in torus_rows if row["tau"] == tau]
        identity = np.mean([row["mse"] for row in mine if row["method"] == "identity"])
        assert identity == pytest.approx(2 * tau**2, rel=0.35)
        ambient = np.mean([row["ambient"] for row in mine if row["method"] == "identity"])
        assert ambient == pytest.approx(3 * tau**2, rel=0.35)
    networks = [row for row in torus_rows if "oracle" in row]
    assert {row["method"]: row["parameters"] for row in networks} == NETWORKS
    for row in networks:
        ambient = row["method"].startswith("MNN") or row["method"] == "MLP, ambient"
        assert row["own_metric"] == (row["ambient"] if ambient else row["mse"])
        assert row["oracle_own"] <= row["own_metric"] * (1 + 1e-5)
        assert (
            (row["oracle"] < row["oracle_own"]) if ambient else (row["oracle"] == row["oracle_own"])
        )


def test_the_terminal_shows_one_compact_table_and_names_the_files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    small = {**TASK, "n": 100, "noises": 1, "epochs": 5}
    monkeypatch.setattr(Torus, "tasks", lambda *arguments: [small])
    monkeypatch.setattr("experiments.report.draw_scores", lambda results, path: path)
    done = CliRunner().invoke(app, ["torus", "--out", "out"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 100 and len(lines) < 50
    compared = [line for line in lines if line.startswith("tau")]
    assert len(compared) == 3 * (len(NETWORKS) + 1), (
        "every network and the best method of each cell"
    )
    assert (
        "sd" not in done.output
        and "Not compared with the paper's numbers: the quick form" in done.output
    )
    assert (
        f"{QUICK_EPOCHS} epochs" in done.output
        and "1 samplings of the torus with 1 noises each" in done.output
    )
    for name in ("results.jsonl", "table.md", "table.csv"):
        assert f"out/{name}" in done.output and (tmp_path / "out" / name).exists()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["torus", "--jobs", "0"], "positive number"),
        (["torus", "--seed", "-1"], "not negative"),
        (["torus", "--data", "ncep"], "draws its own"),
        (["weather"], "weather"),
        (["general", "--protocol", "paper"], "protocols of general are 'best'"),
        (["torus", "--networks", "nowhere", "--protocol", "best"], "no results"),
    ],
    ids=["jobs", "seed", "data", "name", "protocol", "networks"],
)
def test_mistakes_are_refused_and_nothing_is_written(monkeypatch, tmp_path, arguments, reason):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Torus, "tasks", lambda *arguments: [])
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and reason in done.output
    assert not list(tmp_path.glob("runs/*/table.*"))


@pytest.mark.parametrize("name", general.CASES)
def test_other_data_have_exact_tangent_planes(name):
    """Frames are orthonormal, and exact vectors lie in their planes."""
    case = general.CASES[name]
    cloud = case.sample(20, np.random.default_rng(0))
    products = np.einsum("nij,nik->njk", cloud.frames, cloud.frames)
    np.testing.assert_allclose(
        products, np.broadcast_to(np.eye(case.dim), products.shape), atol=1e-9
    )
    back = np.einsum("nij,nj->ni", cloud.frames, general.in_frames(cloud.frames, cloud.field))
    np.testing.assert_allclose(back, cloud.field, atol=1e-9)


def test_general_rows_have_intervals_of_the_estimators_alone():
    rows = general.General().run({"case": "sheet with boundary", "draw": 0}, 0)
    identity = [row["error"] for row in rows if row["method"] == "identity"]
    zero = [row["error"] for row in rows if row["method"] == "zero"]
    assert identity == pytest.approx([1.0]) and zero == pytest.approx([1.0])
    own = {row["method"] for row in rows if "in50" in row}
    assert own == {"FieldDenoiser", "FieldInterpolator"}
    assert {row["method"] for row in rows if "measured50" in row} == {"FieldInterpolator"}


def test_honest_torus_numbers_do_not_depend_on_the_clean_field(monkeypatch):
    """Another clean field with the same noisy one changes scores, but no output that is called
    honest."""
    import experiments.torus as module

    data = module.Draw.of(TASK, 0)
    bundle = module.paper_bundle(data)
    other = module.Draw(
        module.torus_field(60, seed=draw(0, "torus", "as printed", 60, 0)), data.noisy, data.cases
    )
    other.sample.vectors[:] = 0.0
    a, b = (module.paper_answers(d, bundle, 4) for d in (data, other))
    for name in a:
        assert np.array_equal(a[name].fields, b[name].fields)


def test_a_method_looks_alike_in_all_panels(tmp_path, monkeypatch):
    """Whatever the order of rows, which is that in which tasks were finished."""
    from experiments.report import draw_scores
    from tangentbundle import plot

    figures = []
    monkeypatch.setattr(plot, "save", lambda figure, path: figures.append(figure))
    rows = [
        {"field": "tangent", "n": n, "tau": tau, "method": method, "mse": 0.1, "parameters": None}
        for n, methods in (
            (100, ("FieldDenoiser", "mean", "zero")),
            (200, ("zero", "mean", "FieldDenoiser")),
        )
        for method in methods
        for tau in (0.1, 0.3)
    ]
    draw_scores(Results(Torus(), rows, "best"), tmp_path / "scores.png")
    looks = [
        {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axis.lines}
        for axis in figures[0].axes
    ]
    assert len(looks) == 2 and looks[0] == looks[1] and len(looks[0]) == 3
