"""Regridding: solid-body rotations from 2.5 degrees to other grids, against bilinear interpolation
of components.

The rows are errors, relative to the largest speed, over rotations about 4 axes; ``polar`` is within
10 degrees of a pole. ``harmonic_rows`` are errors by degree, ``station_rows`` the coverage of
intervals by cross-validation in blocks, on analyses in the folder ``TANGENTBUNDLE_WIND`` with
errors of known sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator

import tangentbundle as tb
from harness.records import Row
from harness.timing import MissingBaseline, baseline
from tangentbundle.earth import Grid, Regridder, block_cv
from tangentbundle.earth.covariances import planetary
from tangentbundle.earth.healpix import healpix_latlon
from tangentbundle.earth.sources import wind_folder
from tangentbundle.estimators import helmholtz_covariance

xr = baseline("xarray")

AXES = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.6, 0.0, 0.8), (0.48, -0.6, 0.64))
POLE = 39.25, 162.0
"""Latitude and longitude of the rotated grid's pole, as of the EURO-CORDEX grid."""
DRAWS, STATIONS, BLOCK = 10, 400, "1500 km"


def regular(step: float, first: float = 90.0):
    return xr.Dataset(
        coords={"lat": np.arange(first, -90.01, -step), "lon": np.arange(0, 360, step)}
    )


def scattered(lat: np.ndarray, lon: np.ndarray):
    return xr.Dataset(coords={"lat": ("point", lat), "lon": ("point", lon)})


def rotated(step: float):
    """A regular grid about another pole, with the angle of its axes from east."""
    grid = Grid.of(regular(step, 90 - step / 2))
    lat, lon = np.radians(POLE)
    up = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    turn = np.stack([east, np.cross(up, east), up], axis=1)
    points, axis = grid.points @ turn.T, grid.frames[:, :, 0] @ turn.T
    lat, lon = (
        np.degrees(np.arcsin(points[:, 2])),
        np.degrees(np.arctan2(points[:, 1], points[:, 0])),
    )
    own = np.einsum("nxa,nx->na", Grid.of(scattered(lat, lon)).frames, axis)
    columns = {"lat": lat, "lon": lon, "angle": np.degrees(np.arctan2(own[:, 1], own[:, 0]))}
    return xr.Dataset(
        coords={name: (("y", "x"), c.reshape(grid.shape)) for name, c in columns.items()}
    )


def random_points(n: int = 20_000):
    rng = np.random.default_rng(0)
    return scattered(np.degrees(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(0, 360, n))


TARGETS = {
    "1 degree": lambda: regular(1.0),
    "random points": random_points,
    "rotated pole, 1 degree": lambda: rotated(1.0),
    "HEALPix, nside 64": lambda: scattered(*healpix_latlon(64, np.arange(12 * 64**2))),
}
SOURCES = {"rows at the poles": regular(2.5), "centres of cells": regular(2.5, 88.75)}


def rotations(points: np.ndarray) -> np.ndarray:
    return np.stack([np.cross(axis, points) for axis in AXES])


def harmonic(degree: int) -> Callable[[np.ndarray], np.ndarray]:
    """Gradients of sectoral harmonics about random axes, ``(4, n, 3)``."""
    turns = [np.linalg.qr(np.random.default_rng(k).standard_normal((3, 3)))[0] for k in range(4)]

    def field(points: np.ndarray) -> np.ndarray:
        waves = [
            np.real((points @ (q[0] + 1j * q[1]))[:, None] ** (degree - 1) * (q[0] + 1j * q[1]))
            for q in turns
        ]
        return np.stack([g - (g * points).sum(axis=1, keepdims=True) * points for g in waves])

    return field


Apply = Callable[[np.ndarray], np.ndarray]
"""Components ``(t, *source.shape, 2)`` to vectors ``(t, m, 3)``."""


def linear(source: Any, target: Any) -> Apply:
    regridder, grid = Regridder(Grid.of(source), target), Grid.of(target)

    def apply(components: np.ndarray) -> np.ndarray:
        u, v = np.moveaxis(components, -1, 0)
        found = regridder(
            source.assign(u=(("time", "lat", "lon"), u), v=(("time", "lat", "lon"), v))
        )
        there = grid.to_coordinates(np.stack([found.u, found.v], axis=-1))
        return np.einsum("nxa,...na->...nx", grid.frames, there)

    return apply


def bilinear(source: Any, target: Any) -> Apply:
    """East and north interpolated each by itself in latitude and longitude; beyond the last row,
    that row's value."""
    lat, wide, grid = source.lat.values[::-1], np.append(source.lon, 360.0), Grid.of(target)
    places = np.stack([np.clip(grid.lat, lat[0], lat[-1]), grid.lon % 360], axis=1)

    def apply(components: np.ndarray) -> np.ndarray:
        values = np.moveaxis(components[:, ::-1], 0, -1)
        values = np.concatenate([values, values[:, :1]], axis=1)
        found = RegularGridInterpolator((lat, wide), values)(places)
        return np.einsum("nxa,nat->tnx", grid.frames, found)

    return apply


METHODS = {"Regridder": linear, "components, bilinear": bilinear}


def components_of(grid: Grid, field: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return grid.to_components(np.einsum("nxa,tnx->tna", grid.frames, field(grid.points)))


def rotation_row(source: str, target: str, method: str) -> Row:
    datasets = SOURCES[source], TARGETS[target]()
    grids = [Grid.of(ds) for ds in datasets]
    start = time.perf_counter()
    apply = METHODS[method](*datasets)
    built = time.perf_counter()
    components = components_of(grids[0], rotations)
    begun = time.perf_counter()
    found = apply(components)
    seconds = (time.perf_counter() - begun) / len(AXES)
    off = np.linalg.norm(found - rotations(grids[1].points), axis=-1)
    polar = np.abs(grids[1].lat) > 80
    return {
        "source, 2.5 degrees": source,
        "target": target,
        "method": method,
        "rms error": float(np.sqrt(np.mean(off**2))),
        "largest, polar": float(off[:, polar].max()),
        "largest, elsewhere": float(off[:, ~polar].max()),
        "weights s": built - start,
        "ms a field": 1000 * seconds,
    }


def harmonic_rows() -> list[Row]:
    """Errors of both methods by the degree of the field."""
    datasets = SOURCES["rows at the poles"], TARGETS["1 degree"]()
    ready, rows = {name: make(*datasets) for name, make in METHODS.items()}, []
    source, target = (Grid.of(ds) for ds in datasets)
    area = target.areas
    for degree in (1, 2, 3, 4, 6, 8, 10, 12, 15, 20):
        field = harmonic(degree)
        true, components = field(target.points), components_of(source, field)
        row: Row = {
            "degree": degree,
            "wavelength km": 2 * np.pi * 6371 / np.sqrt(degree * (degree + 1)),
        }
        for name, apply in ready.items():
            off = np.square(apply(components) - true).sum(axis=-1) @ area
            row[f"{name} %"] = float(
                100 * np.sqrt((off / (np.square(true).sum(axis=-1) @ area)).mean())
            )
        rows.append(row)
    return rows


def station_rows() -> list[Row]:
    """Winds of analyses at random places, with errors of known but different sizes, predicted by
    blocks."""
    data, rows = tb.datasets.load_wind(_analyses()), []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        at, when = data.sample(STATIONS, rng=rng), int(rng.integers(len(data)))
        sigma = rng.uniform(0.3, 2.0, len(at))
        noisy = data.components[when, at] + sigma[:, None] * rng.standard_normal((len(at), 2))
        vectors = np.einsum("nda,na->nd", data.frames[at], noisy)
        model = tb.FieldInterpolator(
            covariance=[planetary(), helmholtz_covariance()],
            manifold=tb.manifolds.Sphere(2),
            random_state=0,
        )
        found = block_cv(model, data.points[at], vectors, sigma, size=BLOCK, random_state=draw)
        row = {
            "draw": draw,
            "stations": len(at),
            "rmse m/s": found.rmse,
            "explained": found.explained,
        }
        rows.append(row | {f"in {level:.0%}": share for level, share in found.coverage.items()})
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "draw"}
    return [*rows, {"draw": "mean", **mean}]


def _analyses() -> str:
    try:
        return str(wind_folder() / "gfs_10m_2p5deg_6h_blockA.nc")
    except tb.errors.TangentBundleError as error:
        raise MissingBaseline(str(error)) from error


def run() -> list[Row]:
    """A row for each source, target and method."""
    return [rotation_row(s, t, m) for s in SOURCES for t in TARGETS for m in METHODS]
