"""Smooth manifolds in R^D with exact geometry: the ground truth of tests and demos."""

from .base import Manifold
from .closed_form import FlatTorus, Product, Sphere
from .surfaces import Ellipsoid, KleinBottle, SwissRoll, Torus

__all__ = [
    "Ellipsoid",
    "FlatTorus",
    "KleinBottle",
    "Manifold",
    "Product",
    "Sphere",
    "SwissRoll",
    "Torus",
]
