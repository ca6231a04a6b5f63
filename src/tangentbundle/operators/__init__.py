"""Linear operators on bundle signals."""

from .assembly import Normalization, RandomWalk, Symmetric, Unnormalized
from .base import LinearOperator, Negated
from .generator import Generator
from .joined import Joined, join
from .laplacian import ConnectionLaplacian
from .semigroup import DirectedPath, Identity, Semigroup

__all__ = [
    "ConnectionLaplacian",
    "DirectedPath",
    "Generator",
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
