"""Linear operators on bundle signals."""

from .base import LinearOperator
from .joined import Joined, join
from .laplacian import ConnectionLaplacian
from .normalization import Normalization, RandomWalk, Symmetric, Unnormalized
from .semigroup import DirectedPath, Identity, Negated, Semigroup

__all__ = [
    "ConnectionLaplacian",
    "DirectedPath",
    "Identity",
    "Joined",
    "LinearOperator",
    "Negated",
    "Normalization",
    "RandomWalk",
    "Semigroup",
    "Symmetric",
    "Unnormalized",
    "join",
]
