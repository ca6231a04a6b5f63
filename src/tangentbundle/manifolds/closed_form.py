"""Spaces whose transport and spectra are known in closed form: spheres, products of these, flat
tori."""

from __future__ import annotations

from functools import reduce
from math import comb, exp, lgamma, log, pi, prod
from typing import final

import numpy as np

from ..arrays import positive, positive_integer
from .base import (
    Manifold,
    _complement,
    _lowest,
    _positive,
    _reflection,
    _rejection,
    _require,
    _sums,
    _unit,
)


@final
class Sphere(Manifold):
    """|x| = radius in R^(d+1).

    >>> Sphere(dim=2).vector_spectrum(7)
    array([1., 1., 1., 1., 1., 1., 5.])
    """

    def __init__(self, dim: int = 2, radius: float = 1.0):
        self.dim = positive_integer(dim, "dim")
        self.radius = positive(radius, "radius")
        self.ambient_dim = self.dim + 1
        half = self.ambient_dim / 2
        self.volume = 2 * exp(half * log(pi) - lgamma(half) + self.dim * log(self.radius))

    def _sample(self, n, rng):
        return self.radius * _unit(rng.standard_normal((n, self.ambient_dim)))

    def sample_nonuniform(self, n: int, ratio: float, seed=None) -> np.ndarray:
        """Points (n, D) of density proportional to 1 + (ratio - 1) / (ratio + 1) x_d / radius,
        whose greatest value is `ratio` times its least."""
        _require(1 <= ratio < np.inf, "a finite density ratio >= 1", ratio, "use 1 for uniform")
        slope = (ratio - 1) / (ratio + 1)

        def probability(x):
            return (1 + slope * x[:, -1] / self.radius) / (1 + slope)

        return _rejection(n, np.random.default_rng(seed), self._sample, probability)

    def frames(self, points):
        return _complement(_unit(self._points(points)))

    def nearest(self, points):
        return self.radius * _unit(self._points(points))

    def transport(self, source, target):
        x = _unit(self._points(source))
        y = _unit(self._points(target, like=source))
        if self.dim == 1:  # no ambiguity, even for antipodal points
            return y[:, :, None] * x[:, None] + self.frames(y) @ self.frames(x).swapaxes(1, 2)
        unique = (np.linalg.norm(x + y, axis=1) > 1e-6).all()
        _require(unique, "a unique shortest geodesic", "antipodal points", "drop these pairs")
        return _reflection(_unit(x + y)) @ _reflection(x)

    def second_form(self, points, vectors):
        products = np.einsum("nya,nyb->nab", vectors, vectors)
        return -self._points(points)[:, :, None, None] / self.radius**2 * products[:, None]

    def gradient_field(self, points, degree: int) -> np.ndarray:
        """Gradient (n, D) along the unit sphere, an exact eigenfield, of the last coordinate if
        degree = 1, else of the harmonic polynomial x_0 x_1 ... x_(degree-1)."""
        x = _unit(self._points(points))
        dims = self.ambient_dim
        _require(
            positive_integer(degree, "degree") <= dims, f"degree <= {dims}", degree, "lower it"
        )
        factors = list(range(degree))
        if degree == 1:
            factors = [dims - 1]
        gradient = np.zeros_like(x)
        for i in factors:
            others = [j for j in factors if j != i]
            gradient[:, i] = np.prod(x[:, others], axis=1)
        return gradient - np.sum(gradient * x, axis=1, keepdims=True) * x

    def gradient_eigenvalue(self, degree: int) -> float:
        """(j (j + d - 1) - (d - 1)) / radius^2 on gradients of harmonics of degree j."""
        j = positive_integer(degree, "degree")
        d = self.dim
        return (j * (j + d - 1) - (d - 1)) / self.radius**2

    def _harmonics(self, degree):
        """How many independent spherical harmonics the degree has."""
        d = self.dim
        return comb(degree + d, d) - comb(max(degree + d - 2, 0), d)

    def scalar_spectrum(self, k):

        def eigenvalue(j):
            return j * (j + self.dim - 1) / self.radius**2

        return _lowest(k, 0, eigenvalue, self._harmonics)

    def vector_spectrum(self, k):
        """By Weitzenboeck the Hodge spectrum less the Ricci curvature (d - 1) / radius^2: on the
        unit sphere, Hodge is j (j + d - 1) on gradients and (j + 1)(j + d - 2) on divergence-free
        fields, j >= 1. On a circle, it is the scalar spectrum."""
        d = self.dim
        if d == 1:
            return self.scalar_spectrum(k)

        def eigenvalue_without_divergence(j):
            return ((j + 1) * (j + d - 2) - (d - 1)) / self.radius**2

        def multiplicity_without_divergence(j):
            return (j + d - 1) * (2 * j + d - 1) * comb(j + d - 3, d - 2) // (j + 1)

        gradients = _lowest(k, 1, self.gradient_eigenvalue, self._harmonics)
        others = _lowest(k, 1, eigenvalue_without_divergence, multiplicity_without_divergence)
        return np.sort(np.concatenate([gradients, others]))[:k]


class Product(Manifold):
    """The Riemannian product of the factors: points and tangent spaces side by side.

    >>> Product(Sphere(2), Sphere(1)).vector_spectrum(4)
    array([0., 1., 1., 1.])
    """

    def __init__(self, *factors: Manifold):
        valid = factors and all(isinstance(factor, Manifold) for factor in factors)
        _require(valid, "one or more manifolds", factors, "pass them as separate arguments")
        self.factors = factors
        self.volume = prod(factor.volume for factor in factors)
        self.dim = sum(factor.dim for factor in factors)
        self.ambient_dim = sum(factor.ambient_dim for factor in factors)
        self.orientable = all(factor.orientable for factor in factors)
        self.has_boundary = any(factor.has_boundary for factor in factors)

    def __repr__(self):
        return f"Product({', '.join(map(repr, self.factors))})"

    def _sample(self, n, rng):
        return np.concatenate([factor.sample(n, rng) for factor in self.factors], axis=1)

    def _split(self, points):
        """The coordinates (n, D_i) of the points of each factor."""
        ends = np.cumsum([factor.ambient_dim for factor in self.factors])
        return np.split(points, ends[:-1], axis=1)

    def nearest(self, points):
        split = self._split(self._points(points))
        nearest = [factor.nearest(x) for factor, x in zip(self.factors, split, strict=True)]
        return np.concatenate(nearest, axis=1)

    def _block_diagonal(self, blocks):
        """Matrices (n, D, sum k_i) with the blocks (n, D_i, k_i) of the factors."""
        result = np.zeros((len(blocks[0]), self.ambient_dim, sum(b.shape[2] for b in blocks)))
        row = 0
        column = 0
        for block in blocks:
            _, rows, columns = block.shape
            result[:, row : row + rows, column : column + columns] = block
            row += rows
            column += columns
        return result

    def frames(self, points):
        split = self._split(self._points(points))
        frames = [factor.frames(x) for factor, x in zip(self.factors, split, strict=True)]
        return self._block_diagonal(frames)

    def transport(self, source, target):
        sources = self._split(self._points(source))
        targets = self._split(self._points(target, like=source))
        rotations = [
            factor.transport(x, y)
            for factor, x, y in zip(self.factors, sources, targets, strict=True)
        ]
        return self._block_diagonal(rotations)

    def second_form(self, points, vectors):
        split = self._split(self._points(points))
        forms = [
            factor.second_form(x, v)
            for factor, x, v in zip(self.factors, split, self._split(vectors), strict=True)
        ]
        return np.concatenate(forms, axis=1)

    def scalar_spectrum(self, k):
        return reduce(_sums, [factor.scalar_spectrum(k) for factor in self.factors])

    def vector_spectrum(self, k):
        """TM is the sum of the pullbacks of TM_i, where it is vector_i + sum_(j != i) scalar_j."""
        scalar = [factor.scalar_spectrum(k) for factor in self.factors]
        of_factors = []
        for i, factor in enumerate(self.factors):
            spectra = [*scalar[:i], factor.vector_spectrum(k), *scalar[i + 1 :]]
            of_factors.append(reduce(_sums, spectra))
        return np.sort(np.concatenate(of_factors))[:k]


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
