"""Riemannian products of any manifolds, and flat tori."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import final

import numpy as np

from .base import Manifold, _positive, _require, _sums
from .sphere import Sphere


class Product(Manifold):
    """The Riemannian product of the factors: points and tangent spaces side by side.

    >>> Product(Sphere(2), Sphere(1)).vector_spectrum(4)
    array([0., 1., 1., 1.])
    """

    def __init__(self, *factors: Manifold):
        valid = factors and all(isinstance(factor, Manifold) for factor in factors)
        _require(valid, "one or more manifolds", factors, "pass them as separate arguments")
        self.factors, self.volume = factors, prod(factor.volume for factor in factors)
        self.dim = sum(factor.dim for factor in factors)
        self.ambient_dim = sum(factor.ambient_dim for factor in factors)
        self.orientable = all(factor.orientable for factor in factors)
        self.has_boundary = any(factor.has_boundary for factor in factors)

    def __repr__(self):
        return f"Product({', '.join(map(repr, self.factors))})"

    def _sample(self, n, rng):
        return np.concatenate([factor.sample(n, rng) for factor in self.factors], axis=1)

    def _split(self, points):
        return np.split(points, np.cumsum([factor.ambient_dim for factor in self.factors])[:-1], axis=1)

    def nearest(self, points):
        parts = self._split(self._points(points))
        return np.concatenate([f.nearest(part) for f, part in zip(self.factors, parts, strict=True)], axis=1)

    def _blocks(self, method, *points):
        """Block-diagonal matrices of the blocks factor.method(*points)."""
        split = zip(*map(self._split, points), strict=True)
        blocks = [getattr(f, method)(*x) for f, x in zip(self.factors, split, strict=True)]
        rows, columns = (np.cumsum([0] + [b.shape[axis] for b in blocks]) for axis in (1, 2))
        result = np.zeros((len(points[0]), rows[-1], columns[-1]))
        for i, block in enumerate(blocks):
            result[:, rows[i] : rows[i + 1], columns[i] : columns[i + 1]] = block
        return result

    def frames(self, points):
        return self._blocks("frames", self._points(points))

    def transport(self, source, target):
        return self._blocks("transport", self._points(source), self._points(target, like=source))

    def second_form(self, points, vectors):
        parts = zip(self.factors, self._split(self._points(points)), self._split(vectors), strict=True)
        return np.concatenate([factor.second_form(*part) for factor, *part in parts], axis=1)

    def scalar_spectrum(self, k):
        return reduce(_sums, [factor.scalar_spectrum(k) for factor in self.factors])

    def vector_spectrum(self, k):
        """TM is the sum of the pullbacks of TM_i, where it is vector_i + sum_(j != i) scalar_j."""
        parts, scalar = [], [factor.scalar_spectrum(k) for factor in self.factors]
        for i, factor in enumerate(self.factors):
            parts += [reduce(_sums, [*scalar[:i], factor.vector_spectrum(k), *scalar[i + 1 :]])]
        return np.sort(np.concatenate(parts))[:k]


@final
class FlatTorus(Product):
    """The Clifford torus (r_1 cos t_1, r_1 sin t_1, r_2 cos t_2, ...) in R^(2m); parallel frames.

    >>> FlatTorus(radii=(1, 1)).vector_spectrum(3)
    array([0., 0., 1.])
    """

    def __init__(self, radii: tuple[float, ...] = (1.0, 1.0)):
        self.radii = _positive("radii", radii)
        super().__init__(*(Sphere(1, radius) for radius in self.radii))

    __repr__ = Manifold.__repr__
