"""Methods that fill in wind: from wind that is NaN at masked points, (east, north) at all points.

Averages are taken of vectors of R^3 and projected on the tangent planes, as east and north have no meaning at the
poles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from sklearn.base import clone

from ..datasets import WindData
from ..earth.covariances import planetary
from ..estimators import FieldInterpolator, helmholtz
from ..manifolds import Sphere
from ..operators import LinearOperator
from .baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, Nearest, ThinPlate, Zero
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


def mean_of_components(stations: Stations) -> np.ndarray:
    """The mean of east and north, as in the paper: not a field on the sphere, as it turns with the meridians."""
    return np.broadcast_to(np.nanmean(stations.wind, axis=0), stations.wind.shape)


def tikhonov(stations: Stations, strengths: Sequence[float] = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)) -> np.ndarray:
    r"""The field of least :math:`\sum_{observed} |y_i - x_i|^2 + a \langle y, -\Delta y \rangle` on the paper's bundle.

    The strength a has the least leave-one-out error (exactly, by the usual formula).
    """
    sites, observed, x = stations.sites, stations.observed, stations.coordinates
    operator = sites.laplacian
    mass = operator.mass.double().repeat_interleave(2)
    stiffness = (-(mass / mass.sum())[:, None] * operator.to_dense().double()).numpy()
    best, chosen = np.inf, x
    for strength in strengths:
        energy = strength * sites.count * (stiffness + stiffness.T) / 2
        inverse = np.linalg.inv(np.diag(observed.repeat(2) + 1e-9) + energy)
        y = (inverse @ x.ravel()).reshape(x.shape)
        own = np.einsum("iaib->iab", inverse.reshape(sites.count, 2, sites.count, 2))[observed]
        left_out = np.linalg.solve(np.eye(2) - own, (x - y)[observed][..., None])
        if (error := float(np.square(left_out).sum())) < best:
            best, chosen = error, y
    return np.einsum("nba,na->nb", sites.turns, chosen)


def vector_heat(stations: Stations) -> np.ndarray:
    """Vectors diffused on the paper's bundle, divided by a diffused indicator of where they were observed.

    The time has the least leave-one-out error.
    """
    sites, observed, x = stations.sites, stations.observed, stations.coordinates
    best, chosen = np.inf, x
    for time in (0.03, 0.1, 0.3, 1.0, 3.0):
        flow, spread = _heat(sites.laplacian, time), _heat(sites.scalar_laplacian, time)
        flow = flow.reshape(sites.count, 2, sites.count, 2)
        sums, total = np.einsum("iajb,jb->ia", flow, x), spread[:, observed].sum(axis=1)
        own = np.einsum("iaib,ib->ia", flow, x)
        others = (sums - own)[observed] / np.maximum(total - np.diag(spread), 1e-12)[observed, None]
        if (error := float(np.square(others - x[observed]).sum())) < best:
            best, chosen = error, sums / np.maximum(total, 1e-12)[:, None]
    return np.einsum("nba,na->nb", sites.turns, chosen)


def _heat(operator: LinearOperator, time: float) -> np.ndarray:
    """The matrix of the heat flow."""
    values, fields = operator.eigenbasis
    flat, mass = fields.flatten(0, 1).double(), operator.mass.double().repeat_interleave(operator.dim)
    return ((flat * torch.exp(-time * values)) @ (flat.T * mass)).numpy()


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": mean_of_components,
    "nearest neighbour": projected(Nearest()),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
    "Tikhonov on the bundle": tikhonov,
    "vector heat": vector_heat,
}


def estimators(past: WindData) -> dict[str, Interpolation]:
    """Of the protocol ``best``: Gaussian processes on the tangent bundle, alone and with past fields, and in R^3."""
    fields, tree = past.ambient[~past.filled], cKDTree(past.points)
    known: dict[str, Any] = {"covariance": [planetary(), helmholtz()], "manifold": Sphere(2), "random_state": 0}
    alone = FieldInterpolator(**known)
    learned = FieldInterpolator(**known, history=fields, history_points=past.points)

    def mean_of_history(stations: Stations) -> np.ndarray:
        sites = stations.sites
        return sites.tangent(fields.mean(axis=0)[tree.query(sites.points)[1]])

    return {
        "FieldInterpolator": projected(alone),
        "FieldInterpolator, history": projected(learned),
        "mean of the history": mean_of_history,
        "ambient Gaussian process": projected(AmbientProcess()),
        "a process a component": projected(ComponentProcess()),
    }
