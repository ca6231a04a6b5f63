"""Estimators in the manner of scikit-learn: vector fields on curved spaces, and clouds of
points."""

from .candidates import Candidates, Identity, NeighborMean
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
from .process import GaussianProcess
from .spectral import SpectralFilter

__all__ = [
    "Ambient",
    "Candidates",
    "Covariance",
    "CurlFree",
    "DivergenceFree",
    "FieldDenoiser",
    "FieldInterpolator",
    "GaussianProcess",
    "Identity",
    "ManifoldClassifier",
    "Matern",
    "NeighborMean",
    "SpectralFilter",
    "Tangent",
    "helmholtz_covariance",
]
