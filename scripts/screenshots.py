"""Write docs/screenshots: reports of typical files, as a browser shows them.

    python scripts/screenshots.py DATA [NAME ...]

DATA is a folder with meshes/bunny.obj and wind/gfs_10m_2p5deg_6h_blockA.nc; everything else is
computed here. Needs Chromium, playwright and Pillow. Pictures show the top of a page on a desktop
(1280 pixels wide) and on a narrow screen (500 pixels).
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle_cli import app

OUT = Path(__file__).parents[1] / "docs/screenshots"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--enable-unsafe-swiftshader"]
SIZES = {"desktop": (1280, 900), "narrow": (500, 1250)}
RNG = np.random.default_rng(0)


def table(path: str, points: np.ndarray, vectors: np.ndarray) -> str:
    names = ["x", "y", "z"][: points.shape[1]]
    columns = [*names, *(f"v{name}" for name in names)]
    pd.DataFrame(np.c_[points, vectors], columns=columns).to_csv(path, index=False)
    return path


def torus(data: Path) -> list[str]:
    """A noisy field on a torus, denoised."""
    space = tb.manifolds.Torus()
    points = space.sample(1000, seed=0)
    field = space.tangent_field(points) + 0.3 * RNG.standard_normal(points.shape)
    return ["denoise", table("torus.csv", points, field), "--dim", "2", "-o", "clean.csv"]


def stations(data: Path) -> list[str]:
    """Wind at 150 stations, filled in on a grid."""
    wind = tb.datasets.load_wind().during(slice(0, 1))
    few = wind.at(wind.sample(150, rng=0))
    columns = {
        "lat": few.lat,
        "lon": few.lon,
        "u [m/s]": few.components[0, :, 0],
        "v [m/s]": few.components[0, :, 1],
    }
    pd.DataFrame(columns).to_csv("stations.csv", index=False)
    lat, lon = np.meshgrid(np.arange(-87.5, 90, 4.0), np.arange(0, 360, 4.0))
    pd.DataFrame({"lat": lat.ravel(), "lon": lon.ravel()}).to_csv("grid.csv", index=False)
    return ["interpolate", "stations.csv", "--at", "grid.csv", "-o", "wind.csv", "--std"]


def forecast(data: Path) -> list[str]:
    """Three days of wind over the North Atlantic and Europe, from six weeks of analyses."""
    with xr.open_dataset(data / "wind/gfs_10m_2p5deg_6h_blockA.nc") as wind:
        wind = wind.assign_coords(lon=(wind.lon + 180) % 360 - 180).sortby("lon")
        wind.sel(lat=slice(70, 30), lon=slice(-50, 30)).load().to_netcdf("atlantic.nc")
    return ["forecast", "atlantic.nc", "--horizon", "12", "-o", "next.nc", "--std"]


def bunny(data: Path) -> list[str]:
    """The smoothest vector fields on a mesh."""
    shutil.copyfile(data / "meshes/bunny.obj", "bunny.obj")
    return ["spectrum", "bunny.obj", "-k", "12"]


def plane(data: Path) -> list[str]:
    """A noisy flow in the plane, denoised."""
    points = RNG.uniform(0, 4, (600, 2))
    flow = np.c_[
        np.sin(1.5 * points[:, 1]), np.cos(1.5 * points[:, 0])
    ] + 0.2 * RNG.standard_normal(points.shape)
    return ["denoise", table("plane.csv", points, flow), "-o", "clean.csv", "--std"]


def lorenz(data: Path) -> list[str]:
    """The Lorenz attractor in 50 dimensions, with noisy velocities, denoised."""

    def velocity(time: float, x: np.ndarray) -> list[float]:
        return [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]

    times = np.linspace(5, 60, 1000)
    states = solve_ivp(velocity, (0, 60), [1.0, 1.0, 20.0], t_eval=times, rtol=1e-8).y.T
    velocities, basis = (
        np.array([velocity(0, x) for x in states]),
        np.linalg.qr(RNG.standard_normal((50, 3)))[0],
    )
    noisy = velocities @ basis.T + 5 * RNG.standard_normal((len(states), 50))
    np.savez("lorenz.npz", points=states @ basis.T, vectors=noisy)
    return ["denoise", "lorenz.npz", "-o", "clean.npz"]


CASES = {case.__name__: case for case in (torus, stations, forecast, bunny, plane, lorenz)}


def photograph(browser: Browser, page: Path, name: str) -> None:
    """The top of a page in both sizes, once its figures are drawn."""
    for size, (width, height) in SIZES.items():
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_function(
            "[...document.querySelectorAll('.plot')].every((p) => p.querySelector('.main-svg'))"
        )
        tab.wait_for_timeout(2000)
        picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        picture.save(OUT / f"{name}_{size}.webp", quality=80, method=6)
        tab.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    OUT.mkdir(exist_ok=True)
    data = Path(sys.argv[1]).resolve()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in sys.argv[2:] or CASES:
            report = Path(folder, f"{name}.html")
            with contextlib.chdir(folder):
                done = CliRunner().invoke(app, [*CASES[name](data), "--report", report.name])
            if done.exit_code:
                raise SystemExit(f"{name} failed: {done.stderr}")
            photograph(browser, report, name)
            print(f"{name}: {report.stat().st_size / 1e6:.1f} MB", flush=True)
        browser.close()
