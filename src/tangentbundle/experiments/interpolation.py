"""Methods that fill in wind: from wind that is NaN at masked points, (east, north) at all points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from ..datasets import WindData
from ..earth.covariances import planetary
from ..estimators import FieldInterpolator, helmholtz
from ..manifolds import Sphere
from ..operators import LinearOperator
from .baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, ThinPlate, Zero
from .wind import Sites


@dataclass(frozen=True, eq=False)
class Stations:
    """All a method may see: sites, and wind (east, north) ``(n, 2)`` that is NaN at masked ones."""

    sites: Sites
    wind: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        return ~np.isnan(self.wind[:, 0])

    @property
    def coordinates(self) -> np.ndarray:
        """The wind in the frames of the paper's bundle, zero where it is masked."""
        return np.einsum("nba,nb->na", self.sites.turns, np.nan_to_num(self.wind))


Interpolation = Callable[[Stations], np.ndarray]


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose predictions are projected on the tangent planes."""

    def interpolate(stations: Stations) -> np.ndarray:
        sites, observed = stations.sites, stations.observed
        model = clone(estimator).fit(sites.points[observed], sites.ambient(stations.wind)[observed])
        return sites.tangent(model.predict(sites.points))

    return interpolate


def tikhonov(stations: Stations, strengths: Sequence[float] = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)) -> np.ndarray:
    r"""The field of least :math:`\sum_{observed} |y_i - x_i|^2 + a \langle y, -\Delta y \rangle`."""
    sites, observed, x = stations.sites, stations.observed, stations.coordinates
    mass = sites.laplacian.mass.double().repeat_interleave(2)
    stiffness = (-(mass / mass.sum())[:, None] * sites.laplacian.to_dense().double()).numpy()

    def smoothed(strength: float) -> tuple[np.ndarray, np.ndarray]:
        energy = strength * sites.count * (stiffness + stiffness.T) / 2
        inverse = np.linalg.inv(np.diag(observed.repeat(2) + 1e-9) + energy)
        y = (inverse @ x.ravel()).reshape(x.shape)
        own = np.einsum("iaib->iab", inverse.reshape(sites.count, 2, sites.count, 2))[observed]
        return y, np.linalg.solve(np.eye(2) - own, (x - y)[observed][..., None])

    return _least_left_out(sites, map(smoothed, strengths))


def vector_heat(stations: Stations) -> np.ndarray:
    """Vectors diffused on the paper's bundle, divided by a diffused indicator of where they were observed."""
    sites, observed, x = stations.sites, stations.observed, stations.coordinates

    def diffused(time: float) -> tuple[np.ndarray, np.ndarray]:
        flow, spread = _heat(sites.laplacian, time), _heat(sites.scalar_laplacian, time)
        flow = flow.reshape(sites.count, 2, sites.count, 2)
        sums, total = np.einsum("iajb,jb->ia", flow, x), spread[:, observed].sum(axis=1)
        others = sums - np.einsum("iaib,ib->ia", flow, x)
        others /= np.maximum(total - np.diag(spread), 1e-12)[:, None]
        return sums / np.maximum(total, 1e-12)[:, None], (others - x)[observed]

    return _least_left_out(sites, map(diffused, (0.03, 0.1, 0.3, 1.0, 3.0)))


def _least_left_out(sites: Sites, candidates: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(East, north) of the coordinates whose errors at left-out points, given with them, are least."""
    best, _ = min(candidates, key=lambda pair: float(np.square(pair[1]).sum()))
    return np.einsum("nba,na->nb", sites.turns, best)


def _heat(operator: LinearOperator, time: float) -> np.ndarray:
    """The matrix of the heat flow."""
    values, fields = operator.eigenbasis
    flat, mass = fields.flatten(0, 1).double(), operator.mass.double().repeat_interleave(operator.dim)
    return ((flat * torch.exp(-time * values)) @ (flat.T * mass)).numpy()


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": lambda s: np.broadcast_to(np.nanmean(s.wind, axis=0), s.wind.shape),  # as in the paper
    "nearest neighbour": projected(KNeighborsRegressor(1)),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
    "Tikhonov on the bundle": tikhonov,
    "vector heat": vector_heat,
}


def estimators(past: WindData) -> dict[str, Interpolation]:
    """Of the protocol ``best``: Gaussian processes on the tangent bundle, alone and with past fields, and in R^3."""
    fields = past.ambient[~past.filled]
    known: dict[str, Any] = {"covariance": [planetary(), helmholtz()], "manifold": Sphere(2), "random_state": 0}
    mean = KNeighborsRegressor(1).fit(past.points, fields.mean(axis=0))
    return {
        "FieldInterpolator": projected(FieldInterpolator(**known)),
        "FieldInterpolator, history": projected(FieldInterpolator(**known, history=fields, history_points=past.points)),
        "mean of the history": lambda stations: stations.sites.tangent(mean.predict(stations.sites.points)),
        "ambient Gaussian process": projected(AmbientProcess()),
        "a process a component": projected(ComponentProcess()),
    }
