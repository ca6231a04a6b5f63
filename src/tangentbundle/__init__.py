"""Learning with vector fields on curved spaces.

What there is, in the order of the flow of data:

* **Spaces**: ``TangentBundle`` is made of points, ``Sheaf`` lives on any graph, ``manifolds`` holds
  exact spaces, ``spaces`` those of data.
* **Operators and filters**: ``bundle.laplacian()``, ``filters`` such as ``Heat``, ``calculus``.
* **Networks**: layers in ``nn``, ``fit`` in ``training``, ``save`` and ``load``.
* **Estimators**: ``FieldDenoiser``, ``FieldInterpolator``, ``FieldForecaster``,
  ``ManifoldClassifier``.
* **The Earth and files**: ``earth``, ``datasets``, ``io``, ``interop``, ``plot``, ``report``.

Names and modules are loaded when they are first used, torch with the first that needs it.
"""

# ruff: noqa: F401 - imports for type checkers

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .parallel import sleep_while_waiting

if TYPE_CHECKING:
    from . import (
        calculus,
        datasets,
        diagnostics,
        directions,
        distributed,
        earth,
        errors,
        estimators,
        filters,
        forecast,
        geodesics,
        interop,
        io,
        manifolds,
        meshes,
        nn,
        operators,
        plot,
        report,
        spaces,
        testing,
        training,
    )
    from .bundle import TangentBundle
    from .calculus import helmholtz
    from .directions import smoothest_field
    from .estimators import FieldDenoiser, FieldInterpolator, ManifoldClassifier
    from .filters import (
        FIR,
        Chebyshev,
        Dense,
        Exact,
        Exponentials,
        Filter,
        Heat,
        ImpulseResponse,
        Method,
        Polynomial,
        Spectral,
        Tikhonov,
    )
    from .forecast import Autoregression, Climatology, FieldForecaster, Persistence
    from .geometry import kernels
    from .geometry.dimension import VarianceShare, WidestGap
    from .operators import Laplacian, LinearOperator, SquareOperator, join
    from .saving import load, save
    from .sheaf import Sheaf
    from .training import fit

__version__ = "0.1.0"

HOMES = {
    # spaces and their operators
    "TangentBundle": ".bundle",
    "Sheaf": ".sheaf",
    "VarianceShare": ".geometry.dimension",
    "WidestGap": ".geometry.dimension",
    "kernels": ".geometry",
    "Laplacian": ".operators",
    "LinearOperator": ".operators",
    "SquareOperator": ".operators",
    "join": ".operators",
    "helmholtz": ".calculus",
    "smoothest_field": ".directions",
    # filters, and how they are evaluated
    "Filter": ".filters",
    "FIR": ".filters",
    "Heat": ".filters",
    "ImpulseResponse": ".filters",
    "Polynomial": ".filters",
    "Spectral": ".filters",
    "Tikhonov": ".filters",
    "Method": ".filters",
    "Chebyshev": ".filters",
    "Dense": ".filters",
    "Exact": ".filters",
    "Exponentials": ".filters",
    # networks
    "fit": ".training",
    "load": ".saving",
    "save": ".saving",
    # estimators
    "FieldDenoiser": ".estimators",
    "FieldInterpolator": ".estimators",
    "ManifoldClassifier": ".estimators",
    "FieldForecaster": ".forecast",
    "Autoregression": ".forecast",
    "Climatology": ".forecast",
    "Persistence": ".forecast",
}
"""The module of each public name."""

MODULES = (
    "calculus",
    "datasets",
    "diagnostics",
    "directions",
    "distributed",
    "earth",
    "errors",
    "estimators",
    "filters",
    "forecast",
    "geodesics",
    "interop",
    "io",
    "manifolds",
    "meshes",
    "nn",
    "operators",
    "plot",
    "report",
    "spaces",
    "testing",
    "training",
)
"""Public modules."""

__all__ = [*HOMES, *MODULES]


def __getattr__(name: str) -> Any:
    """A public name or module, loaded when it is first used."""
    if name in MODULES:
        return import_module(f".{name}", __name__)
    if name in HOMES:
        home = import_module(HOMES[name], __name__)
        if not hasattr(home, name):  # a module that nothing has loaded yet
            return import_module(f"{HOMES[name]}.{name}", __name__)
        return getattr(home, name)
    raise AttributeError(  # from these, Python suggests a similar name
        f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    """The public names and modules."""
    return sorted(__all__)


sleep_while_waiting()  # the threads of torch, which reads this when it is loaded
