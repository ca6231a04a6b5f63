"""Linear operators on bundle signals."""

from .assembly import Normalization, RandomWalk, Symmetric, Unnormalized
from .base import LinearOperator, Negated, SquareOperator
from .calibration import Calibration, Generator, KernelMoments, SampleEnergy
from .joined import Joined, join
from .laplacian import Laplacian
from .semigroup import DirectedPath, Identity, Semigroup
from .sheaf_laplacian import BlockDegrees, Degrees, ScalarDegrees, SheafGraph

__all__ = [
    "BlockDegrees",
    "Calibration",
    "Degrees",
    "DirectedPath",
    "Generator",
    "Identity",
    "Joined",
    "KernelMoments",
    "Laplacian",
    "LinearOperator",
    "Negated",
    "Normalization",
    "RandomWalk",
    "SampleEnergy",
    "ScalarDegrees",
    "Semigroup",
    "SheafGraph",
    "SquareOperator",
    "Symmetric",
    "Unnormalized",
    "join",
]
