"""Linear operators on bundle signals."""

from .base import LinearOperator
from .joined import Joined, join
from .laplacian import ConnectionLaplacian
from .semigroup import DirectedPath, Identity, Semigroup

__all__ = ["ConnectionLaplacian", "DirectedPath", "Identity", "Joined", "LinearOperator", "Semigroup", "join"]
