"""Every public name of the library; ``tangentbundle`` hands them on when one is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import calculus, datasets, errors, filters, manifolds, nn, operators
from .bundle import TangentBundle
from .calculus import helmholtz
from .filters import *  # noqa: F403
from .geometry import kernels
from .geometry.dimension import VarianceShare, WidestGap
from .operators import Laplacian, LinearOperator, SquareOperator, join
from .saving import load, save
from .sheaf import Sheaf
from .training import fit

MODULES = (
    "distributed",
    "earth",
    "estimators",
    "forecast",
    "interop",
    "io",
    "plot",
    "testing",
    "training",
)
"""Modules that are loaded when they are first asked for, besides those of ``__all__``."""
FORECASTS = ("Autoregression", "Climatology", "FieldForecaster", "Persistence")

if TYPE_CHECKING:
    from .estimators import FieldDenoiser, FieldInterpolator, ManifoldClassifier
    from .forecast import Autoregression, Climatology, FieldForecaster, Persistence


def __getattr__(name: str) -> Any:
    """Estimators wait until they are first asked for: scikit-learn takes a while."""
    if name in __all__:
        return getattr(
            import_module(".forecast" if name in FORECASTS else ".estimators", __package__), name
        )
    raise AttributeError(f"module 'tangentbundle' has no attribute {name!r}")


__all__ = [
    "Autoregression",
    "Climatology",
    "FieldDenoiser",
    "FieldForecaster",
    "FieldInterpolator",
    "Laplacian",
    "LinearOperator",
    "ManifoldClassifier",
    "Persistence",
    "Sheaf",
    "SquareOperator",
    "TangentBundle",
    "VarianceShare",
    "WidestGap",
    "calculus",
    "datasets",
    "errors",
    "filters",
    "fit",
    "helmholtz",
    "join",
    "kernels",
    "load",
    "manifolds",
    "nn",
    "operators",
    "save",
]
__all__ += filters.__all__
