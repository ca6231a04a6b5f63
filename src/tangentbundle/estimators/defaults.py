"""The models that are stacked where none are given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from .bases import MAX_AXES, Coordinates
from .covariance import (
    Ambient,
    Covariance,
    CurlFree,
    DivergenceFree,
    Matern,
    Tangent,
    helmholtz_covariance,
)
from .neighbors import NearestVector, NeighborMean
from .observations import Observations
from .prediction import Model
from .process import GaussianProcess

MAX_FLOW_DIMENSIONS = 6
"""Of more components, to have no divergence or no curl says little about each."""


@singledispatch
def surface_covariances(manifold: Any) -> list[Covariance]:
    """The covariances on a known manifold of a type that has its own; none for all others."""
    return []


def default_covariances(observations: Observations, manifold: Any = None) -> list[Covariance]:
    """A few distinct ones: those of the manifold; otherwise smooth and rough tangent fields, with
    divergence and rotation where these exist, smooth and rough ambient ones, and ambient ones
    without divergence or without curl.

    In more than three dimensions coordinates are often quantities of their own, and ambient fields
    have components along these, too.
    """
    own = surface_covariances(manifold)
    if own:
        return own
    smooth = Matern(np.inf)
    rough = Matern(1.5)
    if observations.dim == 2 and observations.oriented:
        tangent = [DivergenceFree(smooth) + CurlFree(smooth), helmholtz_covariance()]
    else:
        tangent = [Tangent(smooth), Tangent(rough)]
    covariances: list[Covariance] = [*tangent, Ambient(smooth), Ambient(rough)]
    if 3 < observations.ambient_dim <= MAX_AXES:
        covariances.append(Ambient(smooth, Coordinates()))
    if observations.dim < observations.ambient_dim <= MAX_FLOW_DIMENSIONS:
        covariances += [DivergenceFree(smooth, ambient=True), CurlFree(smooth, ambient=True)]
    return covariances


def default_models(
    observations: Observations,
    covariances: Sequence[Covariance] | None = None,
    manifold: Any = None,
) -> list[Model]:
    """Gaussian processes with these or the default covariances, also without a history; the
    neighbours' mean, and the data."""
    if covariances is None:
        covariances = default_covariances(observations, manifold)
    for covariance in covariances:
        if isinstance(covariance, Covariance):
            covariance.check(observations.ambient_dim, observations.dim, observations.oriented)
    processes = [GaussianProcess(covariance) for covariance in covariances]
    if observations.history is not None:
        processes += [GaussianProcess(covariance, uses_history=False) for covariance in covariances]
    return [*processes, NeighborMean(), NearestVector()]
