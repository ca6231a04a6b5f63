"""Experiments: the same numbers on cores, clusters and after interruptions; tables that hide nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tangentbundle.errors import DamagedFileError, InvalidInputError
from tangentbundle.experiments import PLACES, experiment
from tangentbundle.experiments.base import Column, Experiment, draw, published
from tangentbundle.experiments.runner import key_of, run_experiment
from tangentbundle.experiments.tables import tabulate
from tangentbundle.experiments.torus import Torus


class Toy(Experiment):
    """Means of random numbers, slow enough to be interrupted."""

    name, title, cell = "torus", "Toy", ("field", "n")
    columns = (Column("mse", "error", headline=True), Column("oracle", "oracle"))
    pause = 0.0

    def published(self):
        return [{"field": "a", "n": 1, "method": "mean", "mean": 0.5, "std": 0.25}]

    def tasks(self, full, protocol):
        return [{"field": "a", "n": n, "sampling": s} for n in (1, 2) for s in range(5)]

    def run(self, task, seed):
        time.sleep(self.pause)
        rng = draw(seed, "toy", task["n"], task["sampling"])
        rows = [{"field": "a", "n": task["n"], "method": m, "mse": float(rng.random())} for m in ("mean", "zero")]
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


def test_refuses_other_settings_and_foreign_files(tmp_path):
    run_experiment(Toy(), tmp_path, quiet=True)
    with pytest.raises(InvalidInputError, match="other settings"):
        run_experiment(Toy(), tmp_path, seed=3, quiet=True)
    run_experiment(Toy(), tmp_path, seed=3, resume=False, quiet=True)
    (tmp_path / "results.jsonl").write_text("not json\n")
    with pytest.raises(DamagedFileError, match="no file of results"):
        run_experiment(Toy(), tmp_path, quiet=True)


@pytest.mark.slow
def test_killed_in_the_middle_nothing_reported_is_lost(tmp_path):
    """SIGKILL while tasks finish; what was written stays, and the end is as if nothing had happened."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_experiments import Slow;"
        "from tangentbundle.experiments.runner import run_experiment; run_experiment(Slow(), sys.argv[1], quiet=True)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), os.path.dirname(__file__)]  # noqa: PTH120
    file = tmp_path / "results.jsonl"
    with subprocess.Popen(command) as process:
        while not file.exists() or len(file.read_text().splitlines()) < 7:
            time.sleep(0.02)
        seen = file.read_text().splitlines()
        process.send_signal(signal.SIGKILL)
    rows = run_experiment(Slow(), tmp_path, quiet=True)
    assert {json.loads(line)["task"] for line in seen[1:]} <= {row["task"] for row in rows}
    assert file.read_text().splitlines()[: len(seen)] == seen
    assert plain(rows) == plain(run_experiment(Slow(), tmp_path / "whole", quiet=True))


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker(serial, tmp_path):
    """Two workers, one killed in the middle: the table completes and equals the serial one."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(_add_path, os.path.dirname(__file__))  # noqa: PTH120
        victims = list(client.run(os.getpid).values())
        timer = threading.Timer(1.0, lambda: os.kill(victims[0], signal.SIGKILL))
        timer.start()
        rows = run_experiment(Slow(), tmp_path, cluster=cluster.scheduler_address, quiet=True)
    assert plain(rows) == serial


def _add_path(folder):
    if folder not in sys.path:
        sys.path.insert(0, folder)


def test_tables_show_every_method_and_keep_the_papers_numbers_apart(serial):
    table = tabulate(Toy(), serial, "paper")
    assert [row[:4] for row in table.body] == [["a", str(n), m, "5"] for n in (1, 2) for m in ("mean", "zero")]
    assert [row[-1] for row in table.body] == ["0.5 ± 0.25", "", "", ""]
    values = [row["mse"] for row in serial if row["n"] == 1 and row["method"] == "mean"]
    assert f"{np.mean(values):.3g} ± {np.std(values):.2g}" in table.body[0][4]
    assert sum("**" in row[4] for row in table.body) == 2, "one winner a cell"
    assert "| a | 1 | mean | 5 |" in table.markdown() and table.csv().count("\n") == 5


def test_published_numbers():
    tables = published()
    assert [len(tables[name]["rows"]) for name in PLACES] == [36, 36, 36, 6]
    assert {"n": 100, "tau": 0.3, "method": "DD-TNN", "mean": 0.135, "std": 0.0142} in tables["torus"]["rows"]
    with pytest.raises(InvalidInputError, match="no experiment"):
        experiment("weather")


TASK = {"field": "as printed", "n": 60, "sampling": 0, "noises": 2, "protocol": "paper", "epochs": 150}


@pytest.fixture(scope="module")
def torus_rows():
    return Torus().run(TASK, 0)


def test_torus_rows_are_deterministic_and_complete(torus_rows):
    again = Torus().run(TASK, 0)
    assert again == torus_rows
    methods = {row["method"] for row in torus_rows}
    assert {"DD-TNN", "MNN", "MLP", "identity", "mean", "zero", "nearest neighbour", "inverse distance"} <= methods
    assert {"thin-plate spline", "Tikhonov on the bundle, SURE"} <= methods
    assert len(torus_rows) == len(methods) * 3 * 2


def test_torus_scores(torus_rows):
    """The identity's error is the noise in the frames; the oracle is never worse than honesty; noise orders errors."""
    for tau in (0.01, 0.1, 0.3):
        mine = [row for row in torus_rows if row["tau"] == tau]
        identity = np.mean([row["mse"] for row in mine if row["method"] == "identity"])
        assert identity == pytest.approx(2 * tau**2, rel=0.35)
        ambient = np.mean([row["ambient"] for row in mine if row["method"] == "identity"])
        assert ambient == pytest.approx(3 * tau**2, rel=0.35)
    networks = [row for row in torus_rows if row["oracle"] is not None]
    assert {row["method"] for row in networks} == {"DD-TNN", "MNN", "MLP"}
    assert all(row["oracle"] <= row["mse"] * (1 + 1e-5) for row in networks if row["method"] == "DD-TNN")


def test_honest_torus_numbers_do_not_depend_on_the_clean_field(monkeypatch):
    """Another clean field with the same noisy one changes scores, but no output that is called honest."""
    import tangentbundle.experiments.torus as module

    data = module.Draw.of(TASK, 0)
    other = module.Draw(
        module.torus_field(60, seed=draw(0, "torus", "as printed", 60, 0)), data.noisy, data.taus, data.noises
    )
    other.sample.vectors[:] = 0.0
    a, b = (module.paper_answers(d, 40) for d in (data, other))
    for name in a:
        assert np.array_equal(a[name][1], b[name][1])
