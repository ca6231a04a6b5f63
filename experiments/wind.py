"""Wind for two experiments: data sets, points drawn from them, and how networks see wind at
points."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import numpy as np
import torch

from ..bundle import TangentBundle
from ..datasets import WindData, fetch_ncep, load_wind, wind_folder
from ..errors import InvalidInputError
from ..operators import Identity
from .base import Experiment, Row
from .networks import NetworkView

ANALYSIS = "gfs_10m_1deg_20160430T06.nc"
BLOCKS = "gfs_10m_2p5deg_6h_blockA.nc", "gfs_10m_2p5deg_6h_blockB.nc"


@dataclass(eq=False)
class Wind:
    """A data set: two periods to train and to test forecasts, and a field to reconstruct."""

    about: str
    load_training: Callable[[], WindData]
    load_test: Callable[[], WindData]
    load_field: Callable[[], WindData] | None = None

    @cached_property
    def training(self) -> WindData:
        return self.load_training()

    @cached_property
    def test(self) -> WindData:
        return self.load_test()

    @cached_property
    def field(self) -> WindData:
        return self.training.during(slice(0, 1)) if self.load_field is None else self.load_field()

    @property
    def past(self) -> WindData:
        """Other fields, to learn from before ``field`` is reconstructed; from the same season if it
        is of its own."""
        return self.test if self.load_field is None else self.training


def gfs_field() -> WindData:
    """One analysis, at the rows and columns of its 1 degree grid nearest to those of a 2.5 degree
    grid."""
    import xarray

    with xarray.open_dataset(wind_folder() / ANALYSIS) as ds:
        thin = ds.sel(
            lat=np.arange(90, -91, -2.5), lon=np.arange(0, 360, 2.5), method="nearest"
        ).load()
    origin = (
        "NOAA/NCEP GFS 10 m wind analysis of 2016-04-30 06Z, thinned from 1 to about 2.5 degrees"
    )
    return load_wind(thin, provenance=origin)


def reanalysis(days: int = 250) -> Wind:
    """The paper's data, downloaded: daily means, the first days of 2016 to train and of 2017 to
    test."""
    about, first = "NCEP/NCAR reanalysis, daily means near the surface, the first", slice(0, days)
    text = f"{about} {days} days of 2016 (training) and 2017 (test)"
    return Wind(
        text, lambda: fetch_ncep(2016).during(first), lambda: fetch_ncep(2017).during(first)
    )


SOURCES = {
    "gfs": Wind(
        "GFS 10 m analyses; field of 2016-04-30 06Z; six-hourly from 2026-03-24 (training) and "
        "2026-07-06 (test)",
        lambda: load_wind(wind_folder() / BLOCKS[0]),
        lambda: load_wind(wind_folder() / BLOCKS[1]),
        gfs_field,
    ),
    "embedded": Wind(
        "US Navy monthly means, 1982 to 1987 (training) and 1988 to 1992 (test)",
        lambda: load_wind().during(slice(0, 72)),
        lambda: load_wind().during(slice(72, None)),
    ),
    "ncep": reanalysis(),
}


def available() -> str:
    """The name of the data to use: GFS where its files are, otherwise the series inside the
    package."""
    if not os.environ.get("TANGENTBUNDLE_WIND") or find_spec("xarray") is None:
        return "embedded"
    return (
        "gfs"
        if all((wind_folder() / name).is_file() for name in (ANALYSIS, *BLOCKS))
        else "embedded"
    )


def source_of(name: str) -> Wind:
    """The data of a task. No other data take their place."""
    if name == "gfs" and available() != name:
        raise InvalidInputError(
            f"the files of the data set {name} are missing. Set TANGENTBUNDLE_WIND to their "
            f"folder, or choose another data set of {', '.join(SOURCES)}."
        )
    return SOURCES[name]


class WindExperiment(Experiment):
    """One of the tables of wind, on any of the data sets."""

    sources = tuple(SOURCES)
    training: str
    """How networks are trained, in a few words."""

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        return f"{self._data(rows)} {super().notes(rows, protocol)}"

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        draws = len({row.get("sampling") for row in rows})
        said = f"{self._data(rows)} Draws of points: {draws}."
        return f"{said} Training: {self.training}." if protocol == "paper" else said

    def departures(self, rows: Sequence[Row], full: bool) -> list[str]:
        others = [name for name in dict.fromkeys(row["data"] for row in rows) if name != "ncep"]
        reasons = [f"the data are {name}, the paper's are daily means of NCEP" for name in others]
        return reasons + super().departures(rows, full)

    @staticmethod
    def _data(rows: Sequence[Row]) -> str:
        about = "; ".join(
            SOURCES[name].about for name in dict.fromkeys(row["data"] for row in rows)
        )
        return f"Data: {about}."


def value_range(data: WindData) -> float:
    """The paper's unit of wind: the largest minus the least observed component."""
    return float(np.ptp(data.components[~data.filled]))


class WindSites:
    """Points ``(n, 3)`` with frames (east, north), and the paper's bundle on them. Knows no
    wind."""

    def __init__(self, data: WindData) -> None:
        self.points, self.frames, self.count = data.points, data.frames, len(data.points)

    @cached_property
    def bundle(self) -> TangentBundle:
        """With frames estimated from the points, at the paper's scales."""
        return TangentBundle.from_points(
            self.points.astype(np.float32), dim=2, eps=0.5, eps_pca=0.8
        )

    def views(self, plain: str) -> list[NetworkView]:
        """The paper's network, the same on two functions (MNN), and on these without diffusion, by
        the name given."""
        turns = np.einsum("ndb,nda->nba", self.frames, np.asarray(self.bundle.frames, float))
        return [
            NetworkView(
                "DD-TNN",
                self.bundle.laplacian(calibrate=False),
                2,
                2,
                torch.from_numpy(turns).float(),
            ),
            NetworkView("MNN", self.bundle.scalar().laplacian(calibrate=False), 2, 2),
            NetworkView(plain, Identity.of(self.count, 1, torch.float32), 1, 2),
        ]

    def ambient(self, wind: np.ndarray) -> np.ndarray:
        """(East, north) ``(..., n, 2)`` as vectors of R^3."""
        return np.einsum("nda,...na->...nd", self.frames, wind)

    def tangent(self, vectors: np.ndarray) -> np.ndarray:
        """(East, north) of vectors of R^3 ``(..., n, 3)``; the vertical component is dropped."""
        return np.einsum("nda,...nd->...na", self.frames, vectors)
