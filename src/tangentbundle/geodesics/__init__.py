"""Parallel transport, distance, logarithm and nearest values along shortest geodesics."""

from .solver import GeodesicSolver

__all__ = ["GeodesicSolver"]
