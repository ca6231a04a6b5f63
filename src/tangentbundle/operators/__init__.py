"""Linear operators on bundle signals."""

from .base import LinearOperator
from .laplacian import ConnectionLaplacian
from .semigroup import DirectedPath, Identity, Semigroup

__all__ = ["ConnectionLaplacian", "DirectedPath", "Identity", "LinearOperator", "Semigroup"]
