"""Learning with vector fields on curved spaces.

The order of the modules is the flow of data: points, ``graph``, ``frames``, ``transport``, ``operators``, ``bundle``,
``filters``, ``nn``. ``manifolds`` holds exact spaces to test against.
"""

from . import datasets, errors, filters, kernels, manifolds, nn, operators
from .bundle import TangentBundle
from .dimension import VarianceShare, WidestGap
from .filters import (
    FIR,
    Chebyshev,
    Dense,
    Exact,
    Heat,
    IdealLowpass,
    ImpulseResponse,
    Lanczos,
    LowpassNonAmplifying,
    Matern,
    Polynomial,
    Spectral,
    Tikhonov,
    Wavelet,
)
from .operators import ConnectionLaplacian, LinearOperator, join
from .plotting import plot_response
from .saving import load, save
from .training import fit

_ESTIMATORS = ("FieldDenoiser", "FieldForecaster", "FieldInterpolator", "ManifoldClassifier")


def __getattr__(name: str):
    """Estimators are imported when they are first asked for: scikit-learn takes a while."""
    if name in ("estimators", *_ESTIMATORS):
        from importlib import import_module

        estimators = import_module(".estimators", __name__)
        return estimators if name == "estimators" else getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "FIR",
    "Chebyshev",
    "ConnectionLaplacian",
    "Dense",
    "Exact",
    "FieldDenoiser",
    "FieldForecaster",
    "FieldInterpolator",
    "Heat",
    "IdealLowpass",
    "ImpulseResponse",
    "Lanczos",
    "LinearOperator",
    "LowpassNonAmplifying",
    "ManifoldClassifier",
    "Matern",
    "Polynomial",
    "Spectral",
    "TangentBundle",
    "Tikhonov",
    "VarianceShare",
    "Wavelet",
    "WidestGap",
    "datasets",
    "errors",
    "filters",
    "fit",
    "join",
    "kernels",
    "load",
    "manifolds",
    "nn",
    "operators",
    "plot_response",
    "save",
]
