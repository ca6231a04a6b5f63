"""Methods that fill in wind: from wind that is NaN at masked points, (east, north) at all points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from ..datasets import WindData
from ..earth.covariances import planetary
from ..estimators import FieldInterpolator, helmholtz
from ..manifolds import Sphere
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


Interpolation = Callable[[Stations], np.ndarray]


def projected(estimator: Any) -> Interpolation:
    """A regressor of vectors of R^3, whose predictions are projected on the tangent planes."""

    def interpolate(stations: Stations) -> np.ndarray:
        sites, observed = stations.sites, stations.observed
        model = clone(estimator).fit(sites.points[observed], sites.ambient(stations.wind)[observed])
        return sites.tangent(model.predict(sites.points))

    return interpolate


INTERPOLATIONS: dict[str, Interpolation] = {
    "zero": projected(Zero()),
    "mean": projected(Mean()),
    "mean of components": lambda s: np.broadcast_to(np.nanmean(s.wind, axis=0), s.wind.shape),  # as in the paper
    "nearest neighbour": projected(KNeighborsRegressor(1)),
    "inverse distance": projected(InverseDistance()),
    "thin-plate spline": projected(ThinPlate()),
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
