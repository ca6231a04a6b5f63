"""Linear operators on bundle signals."""

from .base import LinearOperator
from .laplacian import ConnectionLaplacian

__all__ = ["ConnectionLaplacian", "LinearOperator"]
