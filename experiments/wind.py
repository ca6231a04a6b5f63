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

from harness.ledger import Row
from tangentbundle import TangentBundle
from tangentbundle.datasets import WindData, fetch_ncep, load_wind, wind_folder
from tangentbundle.errors import InvalidInputError
from tangentbundle.operators import Identity

from .base import Experiment
from .networks import NetworkView

ANALYSIS = "gfs_10m_1deg_20160430T06.nc"
TRAINING_BLOCK = "gfs_10m_2p5deg_6h_blockA.nc"
TEST_BLOCK = "gfs_10m_2p5deg_6h_blockB.nc"

REANALYSIS_DAYS = 250
"""Days of each year, as in the paper."""


@dataclass(eq=False)
class Wind:
    """A data set: two periods to train and to test forecasts, and a field to reconstruct.

    Without ``load_field`` the field is the first one of the training period.
    """

    about: str
    load_training: Callable[[], WindData]
    load_test: Callable[[], WindData]
    load_field: Callable[[], WindData] | None = None

    @cached_property
    def training(self) -> WindData:
        """The period to train on."""
        return self.load_training()

    @cached_property
    def test(self) -> WindData:
        """The period to test on."""
        return self.load_test()

    @cached_property
    def field(self) -> WindData:
        """The field to reconstruct."""
        if self.load_field is None:
            return self.training.during(slice(0, 1))
        return self.load_field()

    @property
    def past(self) -> WindData:
        """Other fields, to learn from before ``field`` is reconstructed; from the same season if it
        is of its own."""
        if self.load_field is None:
            return self.test
        return self.training


def gfs_field() -> WindData:
    """One analysis, at the rows and columns of its 1 degree grid nearest to those of a 2.5 degree
    grid."""
    import xarray

    with xarray.open_dataset(wind_folder() / ANALYSIS) as ds:
        rows = np.arange(90, -91, -2.5)
        columns = np.arange(0, 360, 2.5)
        thinned = ds.sel(lat=rows, lon=columns, method="nearest").load()
    origin = (
        "NOAA/NCEP GFS 10 m wind analysis of 2016-04-30 06Z, thinned from 1 to about 2.5 degrees"
    )
    return load_wind(thinned, provenance=origin)


def reanalysis(days: int = REANALYSIS_DAYS) -> Wind:
    """The paper's data, downloaded: daily means, the first days of 2016 to train and of 2017 to
    test."""
    first = slice(0, days)
    about = (
        "NCEP/NCAR reanalysis, daily means near the surface, the first "
        f"{days} days of 2016 (training) and 2017 (test)"
    )
    return Wind(
        about,
        load_training=lambda: fetch_ncep(2016).during(first),
        load_test=lambda: fetch_ncep(2017).during(first),
    )


SOURCES = {
    "gfs": Wind(
        "GFS 10 m analyses; field of 2016-04-30 06Z; six-hourly from 2026-03-24 (training) and "
        "2026-07-06 (test)",
        load_training=lambda: load_wind(wind_folder() / TRAINING_BLOCK),
        load_test=lambda: load_wind(wind_folder() / TEST_BLOCK),
        load_field=gfs_field,
    ),
    "embedded": Wind(
        "US Navy monthly means, 1982 to 1987 (training) and 1988 to 1992 (test)",
        load_training=lambda: load_wind().during(slice(0, 72)),
        load_test=lambda: load_wind().during(slice(72, None)),
    ),
    "ncep": reanalysis(),
}


def available() -> str:
    """The name of the data to use: GFS where its files are, otherwise the series inside the
    package."""
    if not os.environ.get("TANGENTBUNDLE_WIND") or find_spec("xarray") is None:
        return "embedded"
    folder = wind_folder()
    if all((folder / name).is_file() for name in (ANALYSIS, TRAINING_BLOCK, TEST_BLOCK)):
        return "gfs"
    return "embedded"


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
        return f"{_about_data(rows)} {super().notes(rows, protocol)}"

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        draws = len({row.get("sampling") for row in rows})
        sentences = f"{_about_data(rows)} Draws of points: {draws}."
        if protocol == "paper":
            sentences += f" Training: {self.training}."
        return sentences

    def departures(self, rows: Sequence[Row], full: bool) -> list[str]:
        reasons = []
        for name in _data_sets(rows):
            if name != "ncep":
                reasons.append(f"the data are {name}, the paper's are daily means of NCEP")
        return reasons + super().departures(rows, full)


def _data_sets(rows: Sequence[Row]) -> list[str]:
    """The names of the data sets of rows."""
    return list(dict.fromkeys(row["data"] for row in rows))


def _about_data(rows: Sequence[Row]) -> str:
    """The data sets of rows, as a sentence."""
    return f"Data: {'; '.join(SOURCES[name].about for name in _data_sets(rows))}."


def value_range(data: WindData) -> float:
    """The paper's unit of wind: the largest minus the least observed component."""
    return float(np.ptp(data.components[~data.filled]))


class WindSites:
    """Points ``(n, 3)`` with frames (east, north), and the paper's bundle on them. Knows no
    wind."""

    def __init__(self, data: WindData) -> None:
        self.points = data.points
        self.frames = data.frames
        self.count = len(data.points)

    @cached_property
    def bundle(self) -> TangentBundle:
        """With frames estimated from the points, at the paper's scales."""
        points = self.points.astype(np.float32)
        return TangentBundle.from_points(points, dim=2, eps=0.5, eps_pca=0.8)

    def views(self, plain: str) -> list[NetworkView]:
        """The paper's network, the same on two functions (MNN), and on these without diffusion, by
        the name given."""
        estimated = np.asarray(self.bundle.frames, float)
        rotations = np.einsum("ndb,nda->nba", self.frames, estimated)
        return [
            NetworkView(
                "DD-TNN",
                self.bundle.laplacian(calibrate=False),
                taps=2,
                components=2,
                frames=torch.from_numpy(rotations).float(),
            ),
            NetworkView(
                "MNN", self.bundle.scalar().laplacian(calibrate=False), taps=2, components=2
            ),
            NetworkView(plain, Identity.of(self.count, 1, torch.float32), taps=1, components=2),
        ]

    def ambient(self, wind: np.ndarray) -> np.ndarray:
        """(East, north) ``(..., n, 2)`` as vectors of R^3."""
        return np.einsum("nda,...na->...nd", self.frames, wind)

    def tangent(self, vectors: np.ndarray) -> np.ndarray:
        """(East, north) of vectors of R^3 ``(..., n, 3)``; the vertical component is dropped."""
        return np.einsum("nda,...nd->...na", self.frames, vectors)
