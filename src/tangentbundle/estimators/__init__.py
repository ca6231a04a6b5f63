"""Estimators in the manner of scikit-learn: vector fields on curved spaces, and clouds of points."""

from .ambient import AmbientProcess, ByEvidence, UnlessHidden
from .attentive import AttentionNetwork
from .autoregression import Autoregression
from .classifier import ManifoldClassifier
from .covariance import Covariance, Helmholtz, Isotropic, Potential, Rotational
from .denoiser import FieldDenoiser
from .flows import FlowProcess, Incompressible, Irrotational
from .forecaster import FieldForecaster
from .history import Empirical, Modulated
from .interpolator import FieldInterpolator
from .local import LocalProcess
from .process import GaussianProcess
from .seasons import Seasonal
from .shape import CloudFeature, Holonomy, LowSpectrum, Neighborhoods
from .spectral import GCV, SURE, SpectralShrinkage
from .stacked import Stacked
from .zonal import Meridional, Planetary, Zonal

__all__ = [
    "GCV",
    "SURE",
    "AmbientProcess",
    "AttentionNetwork",
    "Autoregression",
    "ByEvidence",
    "CloudFeature",
    "Covariance",
    "Empirical",
    "FieldDenoiser",
    "FieldForecaster",
    "FieldInterpolator",
    "FlowProcess",
    "GaussianProcess",
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
    "Stacked",
    "UnlessHidden",
    "Zonal",
]
