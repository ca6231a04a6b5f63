"""Wind for two experiments: which data there are, points drawn from them, and how networks see wind at points."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import numpy as np
import torch

from ..bundle import TangentBundle
from ..datasets import WindData, fetch_ncep, load_gfs, load_wind, wind_folder
from ..errors import InvalidInputError
from ..operators import Identity, LinearOperator

EPS, EPS_PCA = 0.5, 0.8
"""The paper's squared radii, on the unit sphere."""

ANALYSIS = "gfs_10m_1deg_20160430T06.nc"


@dataclass(eq=False)
class Wind:
    """A data set: two periods to train and to test forecasts, and a field to reconstruct."""

    about: str
    load_training: Callable[[], WindData]
    load_test: Callable[[], WindData]

    def present(self) -> bool:
        return True

    @cached_property
    def training(self) -> WindData:
        return self.load_training()

    @cached_property
    def test(self) -> WindData:
        return self.load_test()

    @cached_property
    def field(self) -> WindData:
        """The field to reconstruct, the first of the training period."""
        return self.training.during(slice(0, 1))

    @property
    def past(self) -> WindData:
        """Fields to learn from before ``field`` is reconstructed, which is none of them."""
        return self.test


class GFS(Wind):
    """Analyses of NOAA/NCEP's GFS: one of 2016 to reconstruct, and two blocks of 2026 to train and test forecasts."""

    files = (ANALYSIS, "gfs_10m_2p5deg_6h_blockA.nc", "gfs_10m_2p5deg_6h_blockB.nc")

    def present(self) -> bool:
        """Whether the files are there. A folder that was named and does not exist is an error."""
        try:
            folder = wind_folder()
        except InvalidInputError:
            if os.environ.get("TANGENTBUNDLE_WIND"):
                raise
            return False
        return find_spec("xarray") is not None and all((folder / file).is_file() for file in self.files)

    @cached_property
    def field(self) -> WindData:
        """One field, at the rows and columns of its 1 degree grid nearest to those of the 2.5 degree grid."""
        import xarray

        with xarray.open_dataset(wind_folder() / ANALYSIS) as ds:
            thin = ds.sel(lat=np.arange(90, -91, -2.5), lon=np.arange(0, 360, 2.5), method="nearest").load()
        about = "NOAA/NCEP GFS 10 m wind analysis of 2016-04-30 06Z, thinned from 1 to about 2.5 degrees"
        return load_wind(thin, provenance=about)

    @property
    def past(self) -> WindData:
        """Of another year, from the same season."""
        return self.training


def reanalysis(days: int = 250) -> Wind:
    """The paper's data, downloaded: daily means, the first days of 2016 to train and of 2017 to test."""
    about = (
        f"NCEP/NCAR reanalysis, daily means near the surface, the first {days} days of 2016 (training) and 2017 (test)"
    )
    return Wind(about, *(lambda year=year: fetch_ncep(year).during(slice(0, days)) for year in (2016, 2017)))


SOURCES = {
    "gfs": GFS(
        "GFS 10 m analyses; field of 2016-04-30 06Z; six-hourly from 2026-03-24 (training) and 2026-07-06 (test)",
        lambda: load_gfs(blocks=("A",)),
        lambda: load_gfs(blocks=("B",)),
    ),
    "embedded": Wind(
        "US Navy monthly means, 1982 to 1987 (training) and 1988 to 1992 (test)",
        lambda: load_wind().during(slice(0, 72)),
        lambda: load_wind().during(slice(72, None)),
    ),
    "ncep": reanalysis(),
}


def available() -> str:
    """The name of the data to use: GFS where its files are, otherwise the series inside the package."""
    return next(name for name, source in SOURCES.items() if source.present())


def source_of(name: str) -> Wind:
    """The data of a task. No other data take their place."""
    source = SOURCES[name]
    if not source.present():
        raise InvalidInputError(
            f"the files of the data set {name} are missing. Set TANGENTBUNDLE_WIND to their folder, or choose another "
            f"data set of {', '.join(SOURCES)}."
        )
    return source


def value_range(data: WindData) -> float:
    """The paper's unit of wind: the largest minus the least observed component."""
    return float(np.ptp(data.components[~data.filled]))


@dataclass(frozen=True, eq=False)
class View:
    """How a network sees wind: an operator, its number of taps, and the turn of (east, north) into its frames.

    With ``turn`` :math:`O_i^T E_i` (n, 2, 2) wind goes through ambient space, E east and north, O the bundle's
    estimated frames: signals ``(..., n, 2, 1)``. Without it east and north are two functions: ``(..., n, 1, 2)``.
    """

    name: str
    operator: LinearOperator
    taps: int
    turn: torch.Tensor | None = None

    @property
    def channels(self) -> int:
        return 2 if self.turn is None else 1

    def signal(self, wind: torch.Tensor) -> torch.Tensor:
        """(East, north) ``(..., n, 2)`` as a signal of the operator."""
        if self.turn is None:
            return wind[..., None, :]
        return torch.einsum("nab,...nb->...na", self.turn, wind)[..., None]

    def wind(self, signal: torch.Tensor) -> torch.Tensor:
        """The way back: tangent to the sphere, ``(..., n, 2)``."""
        if self.turn is None:
            return signal[..., 0, :]
        return torch.einsum("nab,...na->...nb", self.turn, signal[..., 0])


class Sites:
    """Points ``(n, 3)`` with frames (east, north), and what is built on them. Knows no wind.

    >>> import tangentbundle as tb
    >>> data = tb.datasets.load_wind()
    >>> sites = Sites(data.at(data.sample(100, rng=0)))
    >>> [view.signal(torch.ones(sites.count, 2)).shape[1:] for view in sites.views("MLP")]
    [torch.Size([2, 1]), torch.Size([1, 2]), torch.Size([1, 2])]
    """

    def __init__(self, data: WindData) -> None:
        self.points, self.frames, self.lat, self.lon = data.points, data.frames, data.lat, data.lon
        self.count = len(self.points)

    @cached_property
    def bundle(self) -> TangentBundle:
        """The paper's bundle: frames estimated from the points."""
        return TangentBundle.from_points(self.points.astype(np.float32), dim=2, eps=EPS, eps_pca=EPS_PCA)

    def views(self, plain: str) -> list[View]:
        """The paper's network, the same on two functions (MNN), and on these without diffusion, by the name given."""
        frames = torch.as_tensor(self.bundle.frames)
        turn = torch.einsum("nda,ndb->nab", frames, torch.as_tensor(self.frames, dtype=frames.dtype))
        return [
            View("DD-TNN", self.laplacian, 2, turn),
            View("MNN", self.scalar_laplacian, 2),
            View(plain, Identity.of(self.count, 1, torch.float32), 1),
        ]

    @cached_property
    def laplacian(self) -> LinearOperator:
        return self.bundle.laplacian(calibrate=False)

    @cached_property
    def scalar_laplacian(self) -> LinearOperator:
        return self.bundle.scalar().laplacian(calibrate=False)

    def ambient(self, wind: np.ndarray) -> np.ndarray:
        """(East, north) ``(n, 2)`` as vectors of R^3."""
        return np.einsum("nda,na->nd", self.frames, wind)

    def tangent(self, vectors: np.ndarray) -> np.ndarray:
        """(East, north) of vectors of R^3; what points up or down is dropped."""
        return np.einsum("nda,nd->na", self.frames, vectors)
