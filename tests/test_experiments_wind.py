"""The two experiments with wind: what is scored, and that nothing leaks from what is scored."""

import gzip
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from experiments import experiment as named
from experiments import forecast, reconstruction, wind
from experiments.base import draw, merge_with, run_experiment
from experiments.command import app
from experiments.forecast import Forecast, Period
from experiments.reconstruction import Reconstruction, Scene
from experiments.report import write_report
from experiments.results import Results
from tangentbundle.datasets import load_wind
from tangentbundle.errors import DamagedFileError, InvalidInputError

RECONSTRUCTION = {"data": "embedded", "protocol": "paper", "masks": 1, "n": 100, "sampling": 0}
FORECAST = {"data": "embedded", "protocol": "paper", "n": 100, "horizon": 20, "sampling": 0}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """No GFS files, and little training."""
    monkeypatch.setenv("TANGENTBUNDLE_WIND", str(tmp_path))
    monkeypatch.setattr(reconstruction, "EPOCHS", 25)
    monkeypatch.setattr(forecast, "STEPS", 3)
    monkeypatch.setattr(forecast, "INTERVAL", 1)


@pytest.fixture
def scene():
    return Scene(RECONSTRUCTION, 0)


# What data there are.


def test_without_files_the_embedded_series_is_used_and_said():
    assert wind.available() == "embedded"
    for experiment in (Reconstruction(), Forecast()):
        tasks = experiment.tasks(full=True, protocol="paper")
        assert {task["data"] for task in tasks} == {"embedded"}
        assert "US Navy" in experiment.notes([{"data": "embedded", "horizon": 20}], "paper")
    assert {task["horizon"] for task in tasks} == {
        20
    }  # 50 and 80 do not fit into six years of months


def test_a_task_never_runs_on_other_data():
    with pytest.raises(InvalidInputError, match="TANGENTBUNDLE_WIND"):
        Reconstruction().run({**RECONSTRUCTION, "data": "gfs"}, 0)


def test_a_folder_that_was_named_must_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("TANGENTBUNDLE_WIND", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInputError, match="nowhere"):
        wind.available()


def test_full_forms_have_the_papers_cells():
    tasks = Reconstruction().tasks(full=True, protocol="paper")
    assert len(tasks) == 4 * 8 and {task["masks"] for task in tasks} == {8}
    assert {row["masked"] for row in Reconstruction().published()} == set(reconstruction.SHARES)
    assert {row["horizon"] for row in Forecast().published()} == set(forecast.HORIZONS)


# How networks see wind.


def test_wind_goes_through_ambient_space(scene):
    bundle, view = scene.sites.bundle, scene.sites.views("MLP")[0]
    vectors = scene.sites.ambient(scene.truth).astype(np.float32)
    signal = view.signal(torch.from_numpy(scene.truth).float())
    np.testing.assert_allclose(signal, bundle.to_coordinates(vectors), atol=1e-4)
    np.testing.assert_allclose(
        view.field(signal), scene.sites.tangent(bundle.to_ambient(signal.numpy())), atol=1e-4
    )


def test_networks_see_the_same_and_say_how_large_they_are(scene):
    """MNN, MLP and RNN mix east and north; without diffusion further taps would repeat the
    first."""
    assert [(v.channels, v.taps) for v in scene.sites.views("MLP")] == [(1, 2), (2, 2), (2, 1)]
    east = torch.zeros(scene.sites.count, 2)
    east[:, 0] = 1.0
    for experiment, task, plain in (
        (Reconstruction(), RECONSTRUCTION, "MLP"),
        (Forecast(), FORECAST, "RNN"),
    ):
        sizes = {row["method"]: row["parameters"] for row in experiment.run(task, 0)}
        expected = {"MLP": (88, 112, 56), "RNN": (12, 48, 24)}[plain]
        assert tuple(sizes[name] for name in ("DD-TNN", "MNN", plain)) == expected
        assert sizes["zero"] is None
    for view in scene.sites.views("RNN")[1:]:
        north = forecast.network(view)(view.signal(east[None]), view.operator)[0]
        assert float(view.field(north.detach())[0, :, 1].abs().min()) > 0, (
            "a wind from the west moves both components"
        )


# The paper's data, from a server on this machine.

DAYS = 45


@pytest.fixture
def ncep(monkeypatch, tmp_path):
    """Two small years of the reanalysis as files, the experiments set to read them, and an empty
    cache."""
    xarray, _ = pytest.importorskip("xarray"), pytest.importorskip("netCDF4")
    rng, lat, lon = np.random.default_rng(0), np.linspace(90, -90, 19), np.arange(0, 360, 20.0)
    folder = tmp_path / "files"
    folder.mkdir()
    for year in (2016, 2017):
        days = np.datetime64(f"{year}-01-01", "ns") + np.arange(DAYS + 3) * np.timedelta64(1, "D")
        for name in ("uwnd", "vwnd"):
            values = 5 * rng.standard_normal((len(days), 19, 18)) * np.cos(np.radians(lat))[:, None]
            ds = xarray.Dataset(
                {name: (("time", "lat", "lon"), values)}, {"time": days, "lat": lat, "lon": lon}
            )
            ds.to_netcdf(folder / f"{name}.sig995.{year}.nc")
    small = wind.reanalysis(DAYS)
    monkeypatch.setitem(wind.SOURCES, "ncep", small)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    return folder


@pytest.fixture
def served(ncep, monkeypatch):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=ncep)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("TANGENTBUNDLE_DATA_MIRROR", f"http://127.0.0.1:{server.server_port}")
        yield ncep
        server.shutdown()
        thread.join()


def test_the_papers_data_come_from_the_server_once_and_in_the_papers_units(served, tmp_path):
    chosen = named("reconstruction", "ncep")
    (first, *_) = chosen.tasks(full=False, protocol="paper")
    assert first["data"] == "ncep"
    rows = chosen.run({**first, "n": 100, "masks": 1}, 0)
    source = wind.SOURCES["ncep"]
    assert source.field.times.astype("datetime64[D]").tolist() == [
        np.datetime64("2016-01-01").item()
    ]
    scene = Scene({**first, "n": 100, "masks": 1}, 0)
    assert scene.unit == np.ptp(source.field.components)
    zero = [row["paper_metric"] for row in rows if row["method"] == "zero"]
    by_hand = [np.square(scene.truth[m] / scene.unit).sum() / len(m) for m in scene.masks]
    np.testing.assert_allclose(zero, by_hand)
    tasks = named("forecast", "ncep").tasks(full=False, protocol="paper")
    assert [task["horizon"] for task in tasks] == [
        20
    ]  # 50 and 80 need more days than these files have
    assert len(source.training) == len(source.test) == DAYS
    assert str(source.test.times[0])[:10] == "2017-01-01"
    assert "range" in named("forecast", "ncep").notes([{"data": "ncep"}], "paper")
    shutil.rmtree(served)  # what was downloaded is used again
    again = wind.reanalysis(DAYS)
    assert np.array_equal(again.test.components, source.test.components)
    assert sum(path.suffix == ".nc" for path in (tmp_path / "cache").iterdir()) == 4


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda ds: ds * 100, "below 150 m/s"),
        (lambda ds: ds.isel(time=slice(1, None)), "each day from 2016-01-01"),
        (lambda ds: ds.rename(uwnd="air"), "expected uwnd"),
    ],
    ids=["range", "dates", "variable"],
)
def test_files_that_are_not_the_papers_never_enter_the_cache(served, tmp_path, change, match):
    import xarray

    path = served / "uwnd.sig995.2016.nc"
    with xarray.open_dataset(path) as ds:
        changed = change(ds.load())
    changed.to_netcdf(path)
    with pytest.raises(DamagedFileError, match=match):
        named("reconstruction", "ncep").tasks(full=False, protocol="paper")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["reconstruction", "forecast"])
def test_a_refused_download_is_named_and_writes_nothing(ncep, tmp_path, monkeypatch, name):
    monkeypatch.setenv("TANGENTBUNDLE_DATA_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    done = CliRunner().invoke(app, [name, "--data", "ncep", "--out", str(tmp_path / "out")])
    assert (
        done.exit_code == 2
        and "cannot be downloaded" in done.output
        and "TANGENTBUNDLE_DATA_MIRROR" in done.output
    )
    assert not (tmp_path / "out").exists() and not list((tmp_path / "cache").iterdir())


# Reconstruction.


def test_reconstruction_rows(scene):
    experiment = Reconstruction()
    rows = experiment.run(RECONSTRUCTION, 0)
    assert rows == experiment.run(RECONSTRUCTION, 0)
    assert rows != experiment.run(RECONSTRUCTION, 1)
    for row in rows:
        masked = scene.masks[reconstruction.SHARES.index(row["masked"])]
        assert row["points"] == len(masked) and row["data"] == "embedded"
        assert row["paper_metric"] == pytest.approx(row["per_node"] * masked.sum() / len(masked))
        if "oracle_per_node" in row:
            assert row["oracle_per_node"] <= row["per_node"] * (1 + 1e-5)
    table = Results(experiment, rows, "paper").full()
    assert (
        len(table.body) == 3 * (3 + len(reconstruction.INTERPOLATIONS)) and "US Navy" in table.notes
    )


def test_zero_and_mean_by_hand(scene):
    found = {
        (r["method"], r["masked"]): r["per_node"] for r in Reconstruction().run(RECONSTRUCTION, 0)
    }
    unit = np.ptp(load_wind().components[0])
    for share, masked in zip(reconstruction.SHARES, scene.masks, strict=True):
        truth, frames = scene.truth[masked] / unit, scene.sites.frames
        assert found["zero", share] == pytest.approx((truth**2).sum(1).mean())
        vector = np.einsum("nda,na->nd", frames, scene.truth / unit)[~masked].mean(0)
        assert found["mean", share] == pytest.approx(
            ((frames[masked].transpose(0, 2, 1) @ vector - truth) ** 2).sum(1).mean()
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_masked_values_change_no_reconstruction(scene):
    other = Scene(RECONSTRUCTION, 0)
    other.truth = np.where(scene.masks[0][:, None], 100.0, scene.truth)
    before, after = scene.observed()[:1], other.observed()[:1]
    methods = reconstruction.INTERPOLATIONS | reconstruction.estimators(
        load_wind().during(slice(1, 40))
    )
    for name, method in methods.items():
        assert np.array_equal(method(scene.sites, before[0]), method(scene.sites, after[0])), name
    for view in scene.sites.views("MLP"):
        first, second = (
            reconstruction.reconstruct(view, scene.sites, s, t.truth, 0)
            for s, t in ((before, scene), (after, other))
        )
        assert np.array_equal(first[0], second[0])


def test_interpolations_keep_or_smooth_what_they_see(scene):
    wind = scene.observed()[0]
    observed = ~scene.masks[0]
    for name in ("nearest neighbour", "inverse distance", "thin-plate spline"):
        seen = reconstruction.INTERPOLATIONS[name](scene.sites, wind)[observed]
        np.testing.assert_allclose(seen, wind[observed], atol=1e-4)
    for name in reconstruction.INTERPOLATIONS:
        assert np.isfinite(reconstruction.INTERPOLATIONS[name](scene.sites, wind)).all(), name


# Forecasting.


def test_forecast_rows():
    experiment = Forecast()
    rows = experiment.run(FORECAST, 0)
    assert rows == experiment.run(FORECAST, 0)
    unit = float(np.ptp(load_wind().components[:72]))
    for row in rows:
        assert len(row["by_lead"]) == 20 and row["mse_ms"] == pytest.approx(row["mse"] * unit**2)
        assert np.mean(row["by_lead"]) == pytest.approx(
            row["mse"], rel=1e-4
        )  # nothing is missing here
    networks = [row["method"] for row in rows if row["parameters"]]
    assert networks == ["DD-TNN", "MNN", "RNN", "GatedTNN"]
    assert {row["method"] for row in experiment.published()} <= set(networks)


@pytest.mark.parametrize("make", [forecast.network, forecast.gated_network])
@pytest.mark.parametrize("steps, patience, gain", [(30, 20, 1e-5), (60, 20, 10.0), (120, 10, 1e-3)])
def test_one_rule_ends_the_training_of_all_networks(monkeypatch, make, steps, patience, gain):
    """At most ``STEPS``, and at most ``PATIENCE`` steps after the last gain, up to one epoch."""
    for name, value in {"STEPS": steps, "PATIENCE": patience, "LEAST_GAIN": gain}.items():
        monkeypatch.setattr(forecast, name, value)
    sites, training, _ = forecast.scene(FORECAST, 0)
    trained = forecast.recurrent(make, sites.views("RNN")[2], training, draw(0, "weights"))
    monkeypatch.setattr(forecast, "INTERVAL", 10)
    epoch = 2 * forecast.INTERVAL
    assert 0 < trained.steps < steps + epoch
    if gain == 10.0:  # no gain after the first epoch counts
        assert trained.steps <= patience + 2 * epoch


def test_draws_come_one_after_the_other():
    """A run that is interrupted has all cells of the first draws."""
    tasks = Forecast().tasks(full=True, protocol="paper")
    per_draw = len(tasks) // 8
    assert [task["sampling"] for task in tasks] == [
        draw for draw in range(8) for _ in range(per_draw)
    ]


def test_baselines_of_forecasts_by_hand():
    data = load_wind()
    chosen = data.sample(100, draw(0, "points", 100, 0))
    train, test = data.components[:72, chosen], data.components[72:, chosen]
    starts = np.arange(len(test) - 40)
    inputs, targets = (test[starts[:, None] + shift + np.arange(20)] for shift in (0, 20))
    found = {row["method"]: row["mse_ms"] for row in Forecast().run(FORECAST, 0)}
    by_hand = {
        "zero": 0 * targets,
        "persistence": inputs[:, -1:],
        "mean of inputs": inputs.mean(1, keepdims=True),
        "climatology": train.mean(0),
    }
    for method, guess in by_hand.items():
        assert found[method] == pytest.approx(((guess - targets) ** 2).mean(), rel=1e-4)
    assert found["damped persistence"] < found["persistence"]


def test_the_future_changes_no_forecast():
    sites, training, test = forecast.scene(FORECAST, 0)
    changed = Period(test.wind.copy(), test.filled, test.windows, test.unit)
    changed.wind[20:] = 7.0  # the targets of the first window, and all after
    for name, method in forecast.forecasters(sites, training, FORECAST, 0).items():
        before, after = (
            method(period.wind[period.windows.inputs])[0] for period in (test, changed)
        )
        np.testing.assert_allclose(before, after, atol=1e-6, err_msg=name)


def test_scaling_and_training_know_nothing_of_the_test_period(monkeypatch):
    _, training, test = forecast.scene(FORECAST, 0)
    train, later = wind.SOURCES["embedded"].training, wind.SOURCES["embedded"].test
    louder = type(later)(
        later.times, later.lat, later.lon, 50 * later.components, later.area, later.provenance
    )
    monkeypatch.setitem(wind.SOURCES, "embedded", wind.Wind("", lambda: train, lambda: louder))
    _, same, loud = forecast.scene(FORECAST, 0)
    assert same.unit == training.unit == np.ptp(train.components)
    assert np.array_equal(same.wind, training.wind)
    np.testing.assert_allclose(loud.wind, 50 * test.wind, rtol=1e-5)  # the same factor, no shift


def test_missing_analyses_are_never_scored():
    _, _, test = forecast.scene(FORECAST, 0)
    filled = test.filled.copy()
    filled[30] = True
    windows = type(test.windows)(
        test.windows.inputs, test.windows.targets, ~filled[test.windows.targets]
    )
    gap = Period(test.wind, filled, windows, test.unit)
    errors = np.ones(windows.scored.shape)
    errors[windows.targets == 30] = 1e6
    scores = forecast._scores(errors, gap)
    assert scores["mse"] == 1.0 and set(scores["by_lead"]) == {1.0}
    assert np.allclose(gap.mean(), np.delete(test.wind, 30, axis=0).mean(0), atol=1e-6)


def test_networks_are_trained_once_and_shown_beside(tmp_path):
    paper, best = (
        run_experiment(Forecast(), tmp_path / p, protocol=p, quiet=True) for p in ("paper", "best")
    )
    both = merge_with(Forecast(), best, tmp_path / "paper", full=False, seed=0)
    assert both[: len(best)] == best and "FieldForecaster" not in {row["method"] for row in paper}
    assert [row["method"] for row in both[len(best) :]] == ["DD-TNN", "MNN", "RNN", "GatedTNN"]
    same = {row["method"]: row["mse"] for row in paper}
    assert all(
        row["mse"] == same[row["method"]] for row in both if "FieldForecaster" not in row["method"]
    )
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "results.jsonl.gz").write_bytes(
        gzip.compress((tmp_path / "paper" / "results.jsonl").read_bytes())
    )
    assert merge_with(Forecast(), best, packed, full=False, seed=0) == both
    with pytest.raises(InvalidInputError, match="other settings"):
        merge_with(Forecast(), best, tmp_path / "paper", full=False, seed=1)
    with pytest.raises(InvalidInputError, match="no results"):
        merge_with(Forecast(), best, tmp_path, full=False, seed=0)


@pytest.mark.parametrize(
    "experiment, task", [(Reconstruction(), RECONSTRUCTION), (Forecast(), FORECAST)]
)
def test_reports(experiment, task, tmp_path):
    pytest.importorskip("matplotlib")
    _, files = write_report(experiment, experiment.run(task, 0), "paper", tmp_path)
    assert [file.name for file in files] == ["table.md", "table.csv", "scores.png"]
    assert files[2].stat().st_size > 20_000 and "](scores.png)" in files[0].read_text()
