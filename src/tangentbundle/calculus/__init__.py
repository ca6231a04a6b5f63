"""Calculus on point clouds: derivatives, curvature, Hodge Laplacian and Helmholtz-Hodge decomposition."""

from .curvature import Curvature, betti_number, curvature, hodge_laplacian
from .derivatives import Derivatives, LinearMap
from .flow import SingularPoints, singular_points, streamlines
from .helmholtz import Decomposition, helmholtz

__all__ = [
    "Curvature",
    "Decomposition",
    "Derivatives",
    "LinearMap",
    "SingularPoints",
    "betti_number",
    "curvature",
    "helmholtz",
    "hodge_laplacian",
    "singular_points",
    "streamlines",
]
