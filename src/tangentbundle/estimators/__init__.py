"""Estimators in the manner of scikit-learn: fit and predict for vector fields on curved spaces."""

from .covariance import Covariance, Helmholtz, Isotropic, Potential, Rotational
from .denoiser import FieldDenoiser
from .history import Empirical, Modulated, Seasonal
from .interpolator import FieldInterpolator
from .process import GaussianProcess
from .sparse import SparseProcess
from .spectral import GCV, SURE, SpectralShrinkage

__all__ = [
    "GCV",
    "SURE",
    "Covariance",
    "Empirical",
    "FieldDenoiser",
    "FieldInterpolator",
    "GaussianProcess",
    "Helmholtz",
    "Isotropic",
    "Modulated",
    "Potential",
    "Rotational",
    "Seasonal",
    "SparseProcess",
    "SpectralShrinkage",
]
