"""Data and models that tests of field estimators share."""

import numpy as np

from tangentbundle.earth.covariances import planetary
from tangentbundle.estimators import (
    Ambient,
    Coordinates,
    CurlFree,
    DivergenceFree,
    GaussianProcess,
    Matern,
    NearestVector,
    NeighborMean,
    Tangent,
    helmholtz_covariance,
)
from tangentbundle.manifolds import Sphere

SPHERE = Sphere(2)
POINTS, NEW, PAST_POINTS = (
    SPHERE.sample(36, seed=0),
    SPHERE.sample(5, seed=1),
    SPHERE.sample(30, seed=2),
)
CLEAN = SPHERE.gradient_field(POINTS, 2)
VECTORS = CLEAN + 0.2 * np.random.default_rng(100).standard_normal((36, 3))
PROCESSES = [
    GaussianProcess(covariance)
    for covariance in (
        Tangent(),
        Ambient(),
        CurlFree(),
        DivergenceFree(),
        CurlFree(ambient=True),
        DivergenceFree(ambient=True),
        helmholtz_covariance(),
        planetary(),
        Ambient() + CurlFree(ambient=True),
        Ambient(Matern(2.5), Coordinates()),
    )
]
SIMPLE = [NeighborMean(), NearestVector()]


def history(points, count=10):
    """Random mixtures of three fields."""
    fields = np.stack([SPHERE.gradient_field(points, degree) for degree in (1, 2, 3)])
    return np.einsum("tk,kni->tni", np.random.default_rng(5).standard_normal((count, 3)), fields)
