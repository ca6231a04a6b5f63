"""Estimators in the manner of scikit-learn: vector fields on curved spaces, and clouds of points."""

from .ambient import AmbientProcess, ByEvidence, UnlessHidden
from .classifier import ManifoldClassifier
from .covariance import Covariance, Helmholtz, Isotropic, Potential, Rotational
from .denoiser import FieldDenoiser
from .flows import FlowProcess, Incompressible, Irrotational
from .history import Empirical, Modulated
from .interpolator import FieldInterpolator
from .local import LocalProcess
from .process import GaussianProcess
from .seasons import Seasonal
from .shape import Geometry, Holonomy, LowSpectrum, Neighborhoods
from .spectral import GCV, SURE, SpectralShrinkage
from .zonal import Meridional, Planetary, Zonal

__all__ = [
    "GCV",
    "SURE",
    "AmbientProcess",
    "ByEvidence",
    "Covariance",
    "Empirical",
    "FieldDenoiser",
    "FieldInterpolator",
    "FlowProcess",
    "GaussianProcess",
    "Geometry",
    "Helmholtz",
    "Holonomy",
    "Incompressible",
    "Irrotational",
    "Isotropic",
    "LocalProcess",
    "LowSpectrum",
    "ManifoldClassifier",
    "Meridional",
    "Modulated",
    "Neighborhoods",
    "Planetary",
    "Potential",
    "Rotational",
    "Seasonal",
    "SpectralShrinkage",
    "UnlessHidden",
    "Zonal",
]
