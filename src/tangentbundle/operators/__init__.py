"""Linear operators on bundle signals."""

from .assembly import Normalization, RandomWalk, Symmetric, Unnormalized
from .base import LinearOperator, Negated
from .calibration import Calibration, Generator, KernelMoments, SampleEnergy
from .joined import Joined, join
from .laplacian import ConnectionLaplacian
from .semigroup import DirectedPath, Identity, Semigroup
from .sheaf_laplacian import BlockDegrees, Degrees, ScalarDegrees, SheafGraph, SheafLaplacian

__all__ = [
    "BlockDegrees",
    "Calibration",
    "ConnectionLaplacian",
    "Degrees",
    "DirectedPath",
    "Generator",
    "Identity",
    "Joined",
    "KernelMoments",
    "LinearOperator",
    "Negated",
    "Normalization",
    "RandomWalk",
    "SampleEnergy",
    "ScalarDegrees",
    "Semigroup",
    "SheafGraph",
    "SheafLaplacian",
    "Symmetric",
    "Unnormalized",
    "join",
]
