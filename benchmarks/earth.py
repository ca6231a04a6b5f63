"""Smoothing of gridded winds: gain of spherical harmonics, rotations at the poles, land, and speed
with gcm-filters.

Gains and errors are those of ``earth.smooth``. For the speed, 100 global fields of 1 degree (181 x
360 cells, float32) are smoothed lazily in chunks of 20, by ``earth.smooth`` and by gcm-filters
(each component as a scalar, on its grid for irregular cells with land, its Gaussian of the same
gain), each in a process of its own.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.special import sph_harm_y

from harness.records import Row
from harness.timing import MissingBaseline, in_new_process
from tangentbundle import earth

SCALE = 500.0
"""Of the comparison of speed, km."""


def globe(step: float) -> xr.Dataset:
    return xr.Dataset(coords={"lat": np.arange(90, -90.01, -step), "lon": np.arange(0, 360, step)})


def harmonic_wind(grid: earth.Grid, degree: int, order: int, h: float = 1e-5) -> np.ndarray:
    """The gradient of a spherical harmonic in east and north, ``(n, 2)``, by central
    differences."""

    def values(x: np.ndarray) -> np.ndarray:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return sph_harm_y(
            degree, order, np.arccos(np.clip(x[:, 2], -1, 1)), np.arctan2(x[:, 1], x[:, 0])
        ).real

    sides = (h * grid.frames[:, :, k] for k in (0, 1))
    return np.stack(
        [(values(grid.points + s) - values(grid.points - s)) / (2 * h) for s in sides], axis=1
    )


def smoothed(ds: xr.Dataset, coordinates: np.ndarray, scale: float) -> np.ndarray:
    """Fields ``(..., n, 2)`` at the grid's points after ``earth.smooth``."""
    grid = earth.Grid.of(ds)
    values, dims = (
        grid.to_components(coordinates),
        ("time", *grid.dims)[-1 - len(grid.dims) + (coordinates.ndim == 2) :],
    )
    made = earth.smooth(ds.assign({n: (dims, values[..., k]) for k, n in enumerate("uv")}), scale)
    return grid.to_coordinates(np.stack([made[n].values for n in "uv"], axis=-1))


def gains(step: float, degrees: tuple[int, ...], half: int) -> list[Row]:
    """The gain of each degree, order 1 (through the poles), for a scale that damps the degree
    ``half`` by half."""
    ds = globe(step)
    grid, cut = earth.Grid.of(ds), half * (half + 1) - 1
    x = np.stack([harmonic_wind(grid, degree, 1) for degree in degrees])
    scale = 2 * np.pi * earth.RADIUS / 1e3 / np.sqrt(cut)
    y = smoothed(ds, x, scale)
    inner = lambda a, b: np.einsum("n,tna,tna->t", grid.areas, a, b)  # noqa: E731
    exact = 2.0 ** (-(np.array(degrees) * (np.array(degrees) + 1) - 1) / cut)
    found = inner(x, y) / inner(x, x)
    cells = 360 / step / np.array(degrees)
    columns = zip(degrees, cells, found, exact, strict=True)
    return [
        {
            "what": f"gain, {step:g} degrees, scale {scale:.0f} km",
            "degree": l,
            "cells a wavelength": float(c),
        }
        | {"found": float(a), "exact": float(b), "error": float(a / b - 1)}
        for l, c, a, b in columns  # noqa: E741
    ]


def rotations(step: float, scale: float) -> list[Row]:
    """The largest error of solid-body rotation about three axes, within 10 degrees of the poles and
    elsewhere."""
    ds = globe(step)
    grid = earth.Grid.of(ds)
    axes = np.array([[0.0, 0, 1], [1, 0, 0], [0.3, -0.5, 0.81]])
    x = np.einsum("nxa,tnx->tna", grid.frames, np.cross(axes[:, None], grid.points))
    error = np.abs(
        smoothed(ds, x, scale) - 2.0 ** (-((scale * 1e3 / (2 * np.pi * earth.RADIUS)) ** 2)) * x
    ).max(axis=2)
    polar = np.abs(grid.lat) > 80
    return [
        {"what": f"rotation, {step:g} degrees, {name}", "scale": scale}
        | {"at poles": float(e[polar].max()), "elsewhere": float(e[~polar].max())}
        for name, e in zip(
            ("polar axis", "axis in the equator", "oblique axis"), error, strict=True
        )
    ]


def leakage(step: float = 2.5, scale: float = 3000.0) -> list[Row]:
    """An impulse beside a wall of land one cell thick, with a strait of one cell or none: the
    largest value beyond."""
    rows: list[Row] = []
    for strait in (False, True):
        ds = globe(step)
        shape = ds.sizes["lat"], ds.sizes["lon"]
        land = np.zeros(shape, bool)
        land[[0, 1, -2, -1]], land[:, [40, 112]], land[20:25, 70:75] = True, True, True
        land[36, 40] = not strait
        u = np.where(land, np.nan, 0.0)
        u[36, 37] = 1.0
        field = ds.assign(u=(("lat", "lon"), u), v=(("lat", "lon"), 0 * u))
        beyond = np.abs(earth.smooth(field, scale)["u"].values[:, 41:112])
        name = "impulse beyond land, " + ("with a strait" if strait else "no strait")
        rows.append({"what": name, "scale": scale, "found": float(np.nanmax(beyond))})
    return rows


def fields(times: int = 100, chunk: int = 20) -> xr.Dataset:
    import dask.array

    rng, shape = np.random.default_rng(0), (times, 181, 360)
    parts = {
        n: dask.array.from_array(rng.standard_normal(shape).astype(np.float32), (chunk, -1, -1))
        for n in "uv"
    }
    return globe(1.0).assign({n: (("time", "lat", "lon"), a) for n, a in parts.items()})


def ours(ds: xr.Dataset) -> xr.Dataset:
    return earth.smooth(ds, SCALE)


def gcm(ds: xr.Dataset) -> xr.Dataset:
    """gcm-filters with widths of cells in km; its pole rows, of width zero, get those of the next
    row."""
    import gcm_filters

    km = np.pi * earth.RADIUS / 180e3
    ones = xr.ones_like(ds["u"].isel(time=0, drop=True).astype(np.float32).compute())
    width = km * np.cos(np.radians(ds["lat"].clip(-89, 89))).astype(np.float32) * ones
    height, names = (
        np.float32(km) * ones,
        ("wet_mask", "dxw", "dyw", "dxs", "dys", "area", "kappa_w", "kappa_s"),
    )
    values = (ones, width, height, width, height, width * km, ones, ones)
    scale = SCALE * np.sqrt(24 * np.log(2)) / (2 * np.pi)  # the same Gaussian
    made = gcm_filters.Filter(
        filter_scale=scale,
        dx_min=float(width.min()),
        grid_type=gcm_filters.GridType.IRREGULAR_WITH_LAND,
        grid_vars=dict(zip(names, values, strict=True)),
    )
    return ds.assign({n: made.apply(ds[n], dims=["lat", "lon"]) for n in "uv"})


def measure(function: Callable) -> Row:
    """Seconds and peak memory of one computation on two threads, after a small one that
    compiles."""
    import dask

    with dask.config.set(scheduler="threads", num_workers=2):
        function(fields(2, 1)).compute()
        lazy = function(fields())
        start = time.perf_counter()
        lazy.compute()
        took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": took, "peak GiB": peak}


def measure_ours() -> Row:
    """The cost of this library's smoothing."""
    return measure(ours)


def measure_gcm() -> Row:
    """The cost of that of gcm-filters."""
    return measure(gcm)


def speed() -> list[Row]:
    rows: list[Row] = []
    for name, measure_it in {"earth.smooth": measure_ours, "gcm-filters": measure_gcm}.items():
        try:
            cost = in_new_process(measure_it)
        except RuntimeError as error:
            if "gcm_filters" not in str(error):
                raise
            raise MissingBaseline(
                "gcm-filters is not installed: pip install 'tangentbundle[bench]'"
            ) from error
        rows.append({"what": f"100 fields of 1 degree, {name}", "scale": SCALE, **cost})
    return rows


def run() -> list[Row]:
    """Gains, rotations at the poles, what leaks over land, and times."""
    degrees = (1, 2, 3, 5, 8, 10, 13, 16, 20)
    rows = gains(2.5, degrees, 13) + gains(1.0, degrees, 20)
    return rows + rotations(2.5, 5000.0) + rotations(1.0, 2000.0) + leakage() + speed()
