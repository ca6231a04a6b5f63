"""Calculus on point clouds: derivatives, curvature, Hodge Laplacian and Helmholtz-Hodge
decomposition."""

from .betti import (
    BettiEstimate,
    EulerCharacteristic,
    betti_number,
    estimate_betti_number,
    euler_characteristic,
)
from .boundary_conditions import BoundaryCondition, NoFlow, NoSlip
from .curvature import Curvature, curvature, hodge_laplacian
from .derivatives import Derivatives, LinearMap
from .flow import SingularPoints, singular_points, streamlines
from .helmholtz import Decomposition, harmonic_fields, helmholtz

__all__ = [
    "BettiEstimate",
    "BoundaryCondition",
    "Curvature",
    "Decomposition",
    "Derivatives",
    "EulerCharacteristic",
    "LinearMap",
    "NoFlow",
    "NoSlip",
    "SingularPoints",
    "betti_number",
    "curvature",
    "estimate_betti_number",
    "euler_characteristic",
    "harmonic_fields",
    "helmholtz",
    "hodge_laplacian",
    "singular_points",
    "streamlines",
]
