"""Wind for two experiments: which data there are, points drawn from them, and how networks see wind at points."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import numpy as np
import torch

from ..bundle import TangentBundle
from ..datasets import Embedded, FromXarray, GFSBlocks, WindData, wind_folder
from ..errors import InvalidInputError
from ..operators import Identity, LinearOperator

EPS, EPS_PCA = 0.5, 0.8
"""The paper's squared radii, on the unit sphere."""

ANALYSIS = "gfs_10m_1deg_20160430T06.nc"


class GFS:
    """Analyses of NOAA/NCEP's GFS: one of 2016 to reconstruct, and two blocks of 2026 to train and test forecasts."""

    name = "GFS"
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
        told = "NOAA/NCEP GFS 10 m wind analysis of 2016-04-30 06Z, thinned from 1 to about 2.5 degrees"
        return FromXarray(thin, provenance=told).load()

    @cached_property
    def periods(self) -> tuple[WindData, WindData]:
        train, test = (GFSBlocks(blocks=(block,)).load() for block in "AB")
        return train, test

    @property
    def past(self) -> WindData:
        """Fields to learn from before ``field`` is reconstructed: of another year, from the same season."""
        return self.periods[0]


class Navy:
    """The monthly means inside the package: the first to reconstruct, six years to train and five to test forecasts."""

    name = "navy"

    def present(self) -> bool:
        return True

    @cached_property
    def _all(self) -> WindData:
        return Embedded().load()

    @property
    def field(self) -> WindData:
        return self._all.during(slice(0, 1))

    @property
    def periods(self) -> tuple[WindData, WindData]:
        return self._all.during(slice(0, 72)), self._all.during(slice(72, None))

    @property
    def past(self) -> WindData:
        """The other fields."""
        return self._all.during(slice(1, None))


SOURCES: dict[str, GFS | Navy] = {source.name: source for source in (GFS(), Navy())}


def available() -> str:
    """The name of the data to use: GFS where its files are, otherwise the series inside the package."""
    return next(name for name, source in SOURCES.items() if source.present())


def source_of(name: str) -> GFS | Navy:
    """The data of a task, which must be here too: never others in their place."""
    source = SOURCES[name]
    if not source.present():
        raise InvalidInputError(
            f"this task is about the data {name}, whose files are not here. Set TANGENTBUNDLE_WIND to their folder, or "
            "start the experiment anew in another folder of results."
        )
    return source


@dataclass(frozen=True, eq=False)
class View:
    """How a network sees wind: an operator, and the turn of (east, north) into its frames.

    With ``turn`` :math:`O_i^T E_i` (n, 2, 2) wind goes through ambient space, E east and north, O the bundle's
    estimated frames: signals ``(..., n, 2, 1)``. Without it east and north are two functions: ``(..., n, 1, 2)``.
    """

    name: str
    operator: LinearOperator
    turn: torch.Tensor | None

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
    [torch.Size([2, 1]), torch.Size([1, 2]), torch.Size([2, 1])]
    """

    def __init__(self, data: WindData) -> None:
        self.points, self.frames, self.lat, self.lon = data.points, data.frames, data.lat, data.lon
        self.count = len(self.points)

    @cached_property
    def bundle(self) -> TangentBundle:
        """The paper's bundle: frames estimated from the points."""
        return TangentBundle.from_points(self.points.astype(np.float32), dim=2, eps=EPS, eps_pca=EPS_PCA)

    def views(self, plain: str) -> list[View]:
        """The paper's network, the same on functions (MNN), and on no operator at all, by the name given."""
        frames = torch.as_tensor(self.bundle.frames)
        turn = torch.einsum("nda,ndb->nab", frames, torch.as_tensor(self.frames, dtype=frames.dtype))
        return [
            View("DD-TNN", self.laplacian, turn),
            View("MNN", self.scalar_laplacian, None),
            View(plain, Identity.of(self.count, 2, torch.float32), turn),
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
