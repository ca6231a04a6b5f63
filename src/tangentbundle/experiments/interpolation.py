"""Simple ways to fill in wind: what any network for reconstruction must beat.

Each takes ``Stations``, whose wind is NaN wherever it is masked, and gives (east, north) at all points. Averages are
taken of vectors of R^3 and projected on the tangent planes, as east and north have no meaning at the poles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from sklearn.base import clone

from ..datasets import WindData
from ..estimators import FieldInterpolator
from ..estimators.baselines import AmbientProcess, ComponentProcess, InverseDistance, Mean, Nearest, ThinPlate, Zero
from ..manifolds import Sphere
from ..operators import LinearOperator
from .wind import Sites

STRENGTHS = np.logspace(-3, 2, 6)
"""Of Tikhonov smoothing, to be chosen from."""

TIMES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Of diffusion, to be chosen from."""


@dataclass(frozen=True, eq=False)
class Stations:
    """All a method may see: sites, and wind (east, north) ``(n, 2)`` that is NaN at masked ones."""

    sites: Sites
    wind: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        return ~np.isnan(self.wind[:, 0])

    @property
    def vectors(self) -> np.ndarray:
        """What was observed, as vectors of R^3."""
        return self.sites.ambient(self.wind)[self.seen]


Interpolation = Callable[[Stations], np.ndarray]


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose answers are projected on the tangent planes."""

    def interpolate(stations: Stations) -> np.ndarray:
        points = stations.sites.points
        return stations.sites.tangent(clone(estimator).fit(points[stations.seen], stations.vectors).predict(points))

    return interpolate


mean = projected(Mean())


def mean_of_components(stations: Stations) -> np.ndarray:
    """The mean of east and north, as in the paper: not a field on the sphere, as it turns with the meridians."""
    return np.broadcast_to(stations.wind[stations.seen].mean(axis=0), stations.wind.shape)


def tikhonov(stations: Stations) -> np.ndarray:
    r"""The field of least :math:`\sum_{seen} |y_i - x_i|^2 + a \langle y, -\Delta y \rangle` on the paper's bundle.

    The strength a has the least error at observed points left out one at a time (exactly, by the usual formula).
    """
    sites, seen = stations.sites, stations.seen
    turn = _turn(sites)
    x = np.where(seen[:, None], np.einsum("nab,nb->na", turn, np.nan_to_num(stations.wind)), 0.0)
    stiffness = _kept(sites.laplacian, _stiffness)
    best, chosen = np.inf, x
    for strength in STRENGTHS:
        inverse = np.linalg.inv(np.diag(seen.repeat(2) + 1e-9) + strength * sites.count * stiffness)
        y = (inverse @ x.ravel()).reshape(x.shape)
        own = np.einsum("iaib->iab", inverse.reshape(sites.count, 2, sites.count, 2))[seen]
        left_out = np.linalg.solve(np.eye(2) - own, (x - y)[seen][..., None])
        if (risk := float(np.square(left_out).sum())) < best:
            best, chosen = risk, y
    return np.einsum("nab,na->nb", turn, chosen)


def vector_heat(stations: Stations) -> np.ndarray:
    """Vectors diffused on the paper's bundle, divided by a diffused indicator of where they were observed.

    The time has the least error at observed points left out one at a time.
    """
    sites, seen = stations.sites, stations.seen
    turn = _turn(sites)
    x = np.einsum("nab,nb->na", turn, np.nan_to_num(stations.wind))
    best, chosen = np.inf, x
    for time in TIMES:
        flow, spread = (_kept(op, _heat, time) for op in (sites.laplacian, sites.scalar_laplacian))
        flow = flow.reshape(sites.count, 2, sites.count, 2)
        sums, total = np.einsum("iajb,jb->ia", flow[:, :, seen], x[seen]), spread[:, seen].sum(axis=1)
        own = np.einsum("iaib,ib->ia", flow, x)
        others = (sums - own)[seen] / np.maximum(total - np.diag(spread), 1e-12)[seen, None]
        if (risk := float(np.square(others - x[seen]).sum())) < best:
            best, chosen = risk, sums / np.maximum(total, 1e-12)[:, None]
    return np.einsum("nab,na->nb", turn, chosen)


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": mean,
    "mean of components": mean_of_components,
    "nearest neighbour": projected(Nearest()),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
    "Tikhonov on the bundle": tikhonov,
    "vector heat": vector_heat,
}


def contenders(past: WindData) -> dict[str, Interpolation]:
    """Of the protocol ``best``: kriging on the tangent bundle, alone and with past fields, and kriging blind to it."""
    seen = past.ambient[~past.filled]
    alone = FieldInterpolator(manifold=Sphere(2), random_state=0)
    learned = FieldInterpolator(manifold=Sphere(2), random_state=0, history=seen, history_points=past.points)
    return {
        "FieldInterpolator": projected(alone),
        "FieldInterpolator, history": projected(learned),
        "mean of the history": lambda stations: stations.sites.tangent(past_mean(past, stations.sites.points)),
        "ambient Gaussian process": projected(AmbientProcess()),
        "a process a component": projected(ComponentProcess()),
    }


def past_mean(past: WindData, points: np.ndarray) -> np.ndarray:
    """The mean of past fields, at the nearest points of their grid."""
    return past.ambient[~past.filled].mean(axis=0)[cKDTree(past.points).query(points)[1]]


def _turn(sites: Sites) -> np.ndarray:
    return np.einsum("nda,ndb->nab", np.asarray(sites.bundle.frames, float), sites.frames)


def _kept(operator: LinearOperator, compute: Callable[..., np.ndarray], *arguments: float) -> np.ndarray:
    """A matrix of an operator, computed once."""
    key = (compute.__name__, *arguments)
    if key not in operator.cache:
        operator.cache[key] = compute(operator, *arguments)
    return operator.cache[key]


def _stiffness(operator: LinearOperator) -> np.ndarray:
    """The symmetric matrix of the energy, mass times minus the Laplacian."""
    mass = operator.mass.double().repeat_interleave(operator.dim)
    matrix = -(mass / mass.sum())[:, None] * operator.to_dense().double()
    return ((matrix + matrix.T) / 2).numpy()


def _heat(operator: LinearOperator, time: float) -> np.ndarray:
    values, fields = operator.eigenbasis
    flat, mass = fields.flatten(0, 1).double(), operator.mass.double().repeat_interleave(operator.dim)
    return ((flat * torch.exp(-time * values)) @ (flat.T * mass)).numpy()
