"""Learning with vector fields on curved spaces.

The order of the modules is the flow of data: points, ``graph``, ``frames``, ``transport``, ``bundle``,
``operators``. ``manifolds`` holds exact spaces to test against.
"""

from . import errors, kernels, manifolds
from .bundle import TangentBundle
from .dimension import VarianceShare, WidestGap
from .operators import ConnectionLaplacian, LinearOperator

__version__ = "0.1.0"

__all__ = [
    "ConnectionLaplacian",
    "LinearOperator",
    "TangentBundle",
    "VarianceShare",
    "WidestGap",
    "errors",
    "kernels",
    "manifolds",
]
