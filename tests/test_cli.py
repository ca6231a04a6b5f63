"""The command-line tool: what it prints, its exit codes, and files that are whole or not there."""

import ast
import html
import importlib
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tool import run, told, working_folder
from typer.testing import CliRunner

import tangentbundle as tb
import tangentbundle_cli
from tangentbundle import estimators
from tangentbundle.earth.covariances import planetary
from tangentbundle_cli import app, fields

TOOL = [sys.executable, "-m", "tangentbundle"]
COMMANDS = [command.__name__ for command in tangentbundle_cli.COMMANDS]
SPHERE = tb.manifolds.Sphere(2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return working_folder(tmp_path, monkeypatch)


def test_inspect(folder):
    found = told("inspect", "field.csv", "-k", 4)
    assert found["dimension"] == 2 and found["components"] == 1 and len(found["eigenvalues"]) == 4
    assert 0 < found["normal_share"] < 0.2 and found["points"] == 120 and len(found["notes"]) == 2
    text = run("inspect", "field.csv", "-k", 0).stdout
    assert "orientable" in text and "guessed by name" in text and "eigenvalues" not in text
    assert run("inspect", "field.csv", "--quiet", "-k", 0).stdout == ""


def test_inspect_tells_a_large_normal_part(folder):
    table = pd.read_csv("field.csv")
    table[["vx", "vy", "vz"]] = np.random.default_rng(0).standard_normal((120, 3))
    table.to_csv("noise.csv", index=False)
    result = run("inspect", "noise.csv", "-k", 0)
    assert re.search(r"normal component +3\d\.\d%", result.stdout) and "warning: 3" in result.stderr


def test_filter_agrees_with_the_library(folder):
    command = ("filter", "field.csv", "--heat", 0.01, "-o", "smooth.csv", "--digits", 16)
    assert told(*command)["files"] == ["smooth.csv"]
    before, after = pd.read_csv("field.csv").to_numpy(), pd.read_csv("smooth.csv").to_numpy()
    bundle = tb.TangentBundle.from_points(before[:, :3])
    expected = bundle.to_ambient(
        tb.Heat(0.01)(bundle.laplacian(), bundle.to_coordinates(before[:, 3:]))
    )
    assert np.array_equal(after[:, :3], before[:, :3]) and np.allclose(after[:, 3:], expected)


def test_filter_a_series_keeps_times_and_units(folder):
    run("filter", "series.nc", "--heat", 0.05, "-o", "smooth.nc")
    with xr.open_dataset("series.nc") as a, xr.open_dataset("smooth.nc") as b:
        assert np.array_equal(a["time"], b["time"]) and b["u"].attrs["units"] == "m s-1"
        assert float((b["u"] ** 2).mean()) < float((a["u"] ** 2).mean())


def test_denoise(folder):
    result = told("denoise", "field.csv", "-o", "clean.csv", "--std")
    assert 0.2 < result["noise"] < 0.4
    clean, truth = (
        pd.read_csv("clean.csv"),
        tb.manifolds.Torus().tangent_field(pd.read_csv("field.csv").to_numpy()[:, :3]),
    )
    assert np.mean((clean[["vx", "vy", "vz"]].to_numpy() - truth) ** 2) < 0.5 * 0.3**2
    assert (clean["vx_uncertainty"] >= 0).all()


def test_interpolate_to_a_grid_and_to_a_table(folder):
    assert (
        told("interpolate", "stations.csv", "--at", "grid.nc", "-o", "wind.nc", "--std")["places"]
        == 5 * 6 + 2
    )
    with xr.open_dataset("wind.nc") as made:
        assert made["u"].dims == ("lat", "lon") and bool((made["v_std"] > 0).all())
    run(
        "interpolate",
        "stations.csv",
        "--at",
        "stations.csv",
        "-o",
        "again.parquet",
        "--noise",
        0.01,
    )
    assert np.allclose(
        pd.read_parquet("again.parquet")["u"], pd.read_csv("stations.csv")["u"], atol=0.2
    )
    error = run("interpolate", "stations.csv", "--at", "field.csv", "-o", "x.csv", code=2).stderr
    assert "same coordinates" in error and not Path("x.csv").exists()


@pytest.mark.parametrize(
    "options, origin", [((), "estimated"), (("--noise", 0), "given"), (("--noise", 0.2), "given")]
)
def test_a_given_noise_is_called_given(folder, options, origin):
    """Zero is a noise level, too."""
    text = run("interpolate", "stations.csv", "--at", "grid.nc", "-o", "wind.nc", *options).stdout
    assert re.search(rf"^noise .*\({origin}\)$", text, re.MULTILINE)


def test_models_and_their_weights_are_printed(folder):
    lines = run(
        "denoise", "field.csv", "-o", "clean.csv", "--report", "report.html"
    ).stdout.splitlines()
    title = lines.index("Models")
    table = lines[title + 4 : lines.index("", title + 4)]
    assert 1 <= len(table) <= 5 and max(map(len, lines)) <= 100
    best, weight = re.split(r"  +", table[0])
    assert re.fullmatch(r"\d+%", weight)
    assert any(re.fullmatch(rf"model +{re.escape(best)}", line) for line in lines[:title])
    page = html.unescape(Path("report.html").read_text())
    assert "<h2>Models</h2>" in page and f"<td>{best}</td>" in page
    found = told("denoise", "field.csv", "-o", "clean.csv")
    assert found["weights"][found["model"]] == max(found["weights"].values())
    assert sum(found["weights"].values()) == pytest.approx(1)


def test_wind_is_interpolated_by_covariances_of_a_planet(folder):
    found = told("interpolate", "stations.csv", "--at", "grid.nc", "-o", "wind.nc")
    assert any("Zonal" in name for name in found["weights"]) and any(
        "bands of latitude" in n for n in found["notes"]
    )


@pytest.mark.parametrize(
    "model, short",
    [
        (estimators.GaussianProcess(estimators.Ambient(estimators.Matern(np.inf))), "Ambient(inf)"),
        (estimators.GaussianProcess(estimators.CurlFree(ambient=True)), "CurlFree(2.5, ambient)"),
        (estimators.GaussianProcess(planetary()), "helmholtz + Zonal + Meridional"),
        (
            estimators.GaussianProcess(planetary(), uses_history=False),
            "helmholtz + Zonal + Meridional, no history",
        ),
        (estimators.NeighborMean(), "NeighborMean"),
        (estimators.NearestVector(), "NearestVector"),
    ],
)
def test_short_names_of_models(model, short):
    assert model.name == short


def test_forecast(folder):
    result = told("forecast", "series.nc", "--horizon", 3, "-o", "next.nc", "--std")
    assert result["horizon"] == 3 and result["first_std"] > 0
    assert (
        result["skill"][0]["lead"] == 1
        and result["skill"][0]["error"] <= result["skill"][0]["climatology"]
    )
    with xr.open_dataset("series.nc") as past, xr.open_dataset("next.nc") as future:
        assert future.sizes["time"] == 3 and future["time"].values[0] > past["time"].values[-1]
        assert np.isfinite(future["u"]).all() and (future["u_std"] > 0).all()
        past.isel(time=slice(16)).to_netcdf("short.nc")
    text = run("forecast", "short.nc", "--horizon", 3, "-o", "next.nc").stdout
    assert "no skill beyond climatology at this length of record" in text
    assert (
        "at least 16 fields"
        in run("forecast", "stations.csv", "--horizon", 3, "-o", "x.nc", code=2).stderr
    )


def test_spectrum(folder):
    points = SPHERE.sample(1500, seed=0)
    np.savez("sphere.npz", points=points)
    values = told("spectrum", "sphere.npz", "-k", 6, "-o", "fields.npz")["eigenvalues"]
    assert np.allclose(values, 1, atol=0.1)
    with np.load("fields.npz") as file:
        assert file["fields"].shape == (1500, 3, 6)
    assert "expected an .npz file" in run("spectrum", "sphere.npz", "-o", "x.nc", code=2).stderr


def test_spectra_fit_the_screen(folder):
    np.savez("sphere.npz", points=SPHERE.sample(200, seed=0))
    text = run("spectrum", "sphere.npz", "-k", 300, "-o", "fields.npz").stdout
    assert max(map(len, text.splitlines())) <= 100 and len(text.splitlines()) < 24
    shown, hidden = re.search(
        r"^eigenvalues +(.*)\n +and (\d+) more, up to", text, re.DOTALL | re.MULTILINE
    ).groups()
    assert len(shown.split()) + int(hidden) == 300 == len(np.load("fields.npz")["eigenvalues"])
    assert "more" not in run("spectrum", "sphere.npz", "-k", 20).stdout


def test_standard_deviations_have_names_with_units(folder):
    """A file that was written with them is read again, and they are columns with a unit like all
    others."""
    table = pd.read_csv("field.csv").rename(columns={f"v{a}": f"v{a} [m/s]" for a in "xyz"})
    table.to_csv("units.csv", index=False)
    run("denoise", "units.csv", "--std", "-o", "clean.csv")
    names = [f"v{a}_uncertainty [m/s]" for a in "xyz"]
    assert [*pd.read_csv("clean.csv").columns] == [*table.columns, *names]
    assert tb.io.read_field("clean.csv").names == ("vx [m/s]", "vy [m/s]", "vz [m/s]")
    spread = tb.io.read_field("clean.csv", tb.io.Request(vectors=tuple(names)))
    assert spread.units == "m/s" and (spread.values >= 0).all()


def test_suffixes_in_capitals(folder):
    told("interpolate", "stations.csv", "--at", "stations.csv", "-o", "A.ZARR")
    told("filter", "A.ZARR", "--heat", 0.01, "-o", "B.NC")
    told("filter", "B.NC", "--scale", "500 km", "-o", "C.ZARR")
    assert tb.io.read_field("C.ZARR").values.shape == tb.io.read_field("stations.csv").values.shape


def test_demo(tmp_path):
    """The library's methods have the least error, and there are a figure and a report."""
    found = told("demo", "--out", tmp_path)
    for title, best in (
        ("torus, denoised", "FieldDenoiser"),
        ("wind, filled in", "FieldInterpolator"),
    ):
        assert min(found[title], key=found[title].get) == best
    assert sorted(Path(file).name for file in found["files"]) == ["demo.png", "report.html"]
    assert "data:image/png" in (tmp_path / "report.html").read_text()


def test_doctor():
    found = told("doctor")
    assert found["passed"] and found["versions"]["torch"]


def test_other_mistakes(folder):
    for arguments, text in {
        ("filter", "none.csv", "--heat", "1", "-o", "a.csv"): "no such file",
        ("filter", "field.csv", "--heat", "1", "-o", "a.xyz"): "unknown format",
        ("filter", "field.csv", "--heat", "1", "-o", "none/a.csv"): "no such folder",
        (
            "filter",
            "field.csv",
            "--heat",
            "-1",
            "-o",
            "a.csv",
        ): "expected a finite number, at least 0",
        ("filter", "field.csv", "-o", "a.csv"): "expected one filter",
        ("filter", "field.csv", "--heat", "1", "-o", "a.stl"): "cannot hold vectors",
        ("filter", "field.csv", "--heat", "1", "--vectors", "p,q,r", "-o", "a.csv"): "no column p",
        ("filter", "field.csv", "--heat", "1", "-o"): "requires an argument",
    }.items():
        assert text in run(*arguments, code=2).stderr
        assert not list(folder.glob("a.*"))


def test_debug_shows_the_error_itself(tmp_path):
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "none.csv"), "--debug"])
    assert isinstance(result.exception, tb.errors.InvalidInputError)


def test_missing_extras_are_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshio", None)
    Path("a.ply").write_text("ply")
    assert "pip install 'tangentbundle[files]'" in run("inspect", "a.ply", code=2).stderr


def test_too_large_files_are_refused(folder, monkeypatch):
    """A file of kilobytes may hold millions of points: it is not even unpacked."""
    np.savez_compressed("bomb.npz", points=np.zeros((3_000_000, 3)))
    assert Path("bomb.npz").stat().st_size < 200_000
    monkeypatch.setattr("tangentbundle.io.npz_files.np.load", None)
    monkeypatch.setattr("tangentbundle.memory.memory_limit", lambda limit: 1e8)
    assert "bomb.npz would need about 0.144 GB" in run("inspect", "bomb.npz", code=2).stderr


def test_progress_is_told_when_output_is_captured(folder, monkeypatch):
    """A line now and then: what is done, how far it is, and since when."""
    monkeypatch.setattr("tangentbundle.console.LINE_SECONDS", 0.02)
    lines = run("denoise", "field.csv", "-o", "clean.csv").stderr.splitlines()
    shape = r"\.\.\. (reading|comparing models on field 1 of 1) \(step \d of \d, \d+ s\)"
    assert len(lines) > 3 and all(re.fullmatch(shape, line) for line in lines)
    assert run("denoise", "field.csv", "-o", "clean.csv", "--quiet").stderr == ""


def test_the_normal_part_has_one_value(folder):
    shares = [
        told(*line)["normal_share"]
        for line in (
            ("inspect", "field.csv"),
            ("filter", "field.csv", "--heat", "0.01", "-o", "a.csv"),
        )
    ]
    assert shares[0] == shares[1] and "normal_share" not in told(
        "denoise", "field.csv", "-o", "b.csv"
    )


def test_large_clouds_are_sampled_for_eigenvalues(folder, monkeypatch):
    monkeypatch.setattr(fields, "MAX_SPECTRUM_POINTS", 2000)
    np.savez("sphere.npz", points=SPHERE.sample(2100, seed=0))
    found = told("inspect", "sphere.npz")
    assert np.allclose(found["eigenvalues"], 1, atol=0.05) and "2000 random points" in "".join(
        found["notes"]
    )
    assert told("inspect", "sphere.npz", "--neighbors", 200)["eigenvalues"] != found["eigenvalues"]


def test_version():
    assert run("--version").stdout == f"tangentbundle {tb.__version__}\n"


def test_tables_need_no_extras(folder, monkeypatch):
    """Without xarray, meshio and zarr; other formats say what they need."""
    for name in ("xarray", "netCDF4", "meshio", "zarr"):
        monkeypatch.setitem(sys.modules, name, None)
    run(*["filter", "field.csv", "--heat", "0.01", "-o", "a.parquet"])
    run(*["denoise", "a.parquet", "-o", "b.csv", "--std"])
    assert run("inspect", "b.csv", "-k", 0).stdout.startswith("b.csv holds 120 points")
    assert (
        "tangentbundle[files]"
        in run("filter", "field.csv", "--heat", 1, "-o", "a.zarr", code=2).stderr
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    text = run(command, "--help").stdout
    assert f"tangentbundle {command}" in text and "Example" in text and "--quiet" in text


def test_completion():
    done = subprocess.run(
        [*TOOL],
        env={
            "_TANGENTBUNDLE_COMPLETE": "complete_bash",
            "COMP_WORDS": "tangentbundle de",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert "denoise" in done.stdout


def test_the_typed_line_can_be_repeated(folder):
    line = [
        "filter",
        "field.csv",
        "--heat",
        "0.01",
        "-o",
        "with space.csv",
        "--report",
        "report.html",
    ]
    run(*line)
    assert shlex.join(["tangentbundle", *line]) in html.unescape(Path("report.html").read_text())


MODULES = sorted(Path(tangentbundle_cli.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_import_exists(path):
    """Imports inside functions, and those for type checkers, are resolved as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(
                "." * node.level + (node.module or ""), "tangentbundle_cli"
            )
            missing = [a.name for a in node.names if not hasattr(module, a.name)]
            for name in missing:
                importlib.import_module(f"{module.__name__}.{name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(number, code, folder, monkeypatch):
    """Stopped in the middle of writing, the tool leaves the old file and nothing beside it."""
    Path("out.csv").write_text("old")
    before = sorted(p.name for p in folder.iterdir())
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}

    def interrupted(field, path):
        path.write_text("half")
        signal.raise_signal(number)

    monkeypatch.setattr("tangentbundle.io.csv_files.write", interrupted)
    try:
        for n in handlers:
            signal.signal(
                n, signal.default_int_handler
            )  # background jobs of a shell start without it
        run("filter", "field.csv", "--heat", "0.01", "-o", "out.csv", code=code)
    finally:
        for n, handler in handlers.items():
            signal.signal(n, handler)
    assert Path("out.csv").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_figures_for_papers(suffix, folder):
    """On a map and in space; other formats are refused before any work is done."""
    for file in ("stations.csv", "field.csv"):
        command = ("filter", file, "--heat", 0.01, "-o", "out.csv")
        found = told(*command, "--figure", f"a.{suffix}")
        assert f"a.{suffix}" in found["files"]
        content = (folder / f"a.{suffix}").read_bytes()
        assert content.startswith((b"%PDF", b"<?xml", b"\x89PNG")) and len(content) > 5000
    assert "Change the suffix" in run(*command, "--figure", "a.gif", code=2).stderr


def test_a_file_alone_is_inspected(folder):
    alone = run("stations.csv").stdout
    assert alone.startswith("stations.csv holds 76 places")
    assert "tangentbundle denoise stations.csv -o stations_clean.csv" in alone
    assert "no such file: none.csv" in run("none.csv", code=2).stderr
    assert "No such command" in run("nonsense", code=2).stderr


def test_help_begins_with_questions():
    text = run("--help").stdout
    assert text.index("What is in my file?") < text.index("--version")
