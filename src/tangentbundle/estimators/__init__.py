"""Estimators in the manner of scikit-learn: vector fields on curved spaces, and clouds of
points."""

from .bases import Coordinates, PrincipalAxes
from .classifier import ManifoldClassifier
from .covariance import (
    Ambient,
    Covariance,
    CurlFree,
    DivergenceFree,
    Matern,
    Tangent,
    helmholtz_covariance,
)
from .fields import FieldDenoiser, FieldInterpolator
from .neighbors import NearestVector, NeighborMean
from .process import GaussianProcess
from .spectral import SpectralFilter
from .stacking import Stack

__all__ = [
    "Ambient",
    "Coordinates",
    "Covariance",
    "CurlFree",
    "DivergenceFree",
    "FieldDenoiser",
    "FieldInterpolator",
    "GaussianProcess",
    "ManifoldClassifier",
    "Matern",
    "NearestVector",
    "NeighborMean",
    "PrincipalAxes",
    "SpectralFilter",
    "Stack",
    "Tangent",
    "helmholtz_covariance",
]
