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
        self.dim, self.radius = positive_integer(dim, "dim"), positive(radius, "radius")
        self.ambient_dim = D = self.dim + 1
        self.volume = 2 * exp(D / 2 * log(pi) - lgamma(D / 2) + self.dim * log(self.radius))

    def _sample(self, n, rng):
        return self.radius * _unit(rng.standard_normal((n, self.ambient_dim)))

    def sample_nonuniform(self, n: int, ratio: float, seed=None) -> np.ndarray:
        """Points (n, D) of density proportional to 1 + (ratio - 1) / (ratio + 1) x_d / radius,
        whose greatest value is `ratio` times its least."""
        _require(1 <= ratio < np.inf, "a finite density ratio >= 1", ratio, "use 1 for uniform")
        rng, slope = np.random.default_rng(seed), (ratio - 1) / (ratio + 1)
        return _rejection(
            n, rng, self._sample, lambda x: (1 + slope * x[:, -1] / self.radius) / (1 + slope)
        )

    def frames(self, points):
        return _complement(_unit(self._points(points)))

    def nearest(self, points):
        return self.radius * _unit(self._points(points))

    def transport(self, source, target):
        x, y = _unit(self._points(source)), _unit(self._points(target, like=source))
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
        x, D = _unit(self._points(points)), self.ambient_dim
        _require(positive_integer(degree, "degree") <= D, f"degree <= {D}", degree, "lower it")
        support = [D - 1] if degree == 1 else list(range(degree))
        gradient = np.zeros_like(x)
        for i in support:
            gradient[:, i] = np.prod(x[:, [j for j in support if j != i]], axis=1)
        return gradient - np.sum(gradient * x, axis=1, keepdims=True) * x

    def gradient_eigenvalue(self, degree: int) -> float:
        """(j (j + d - 1) - (d - 1)) / radius^2 on gradients of harmonics of degree j."""
        j, d = positive_integer(degree, "degree"), self.dim
        return (j * (j + d - 1) - (d - 1)) / self.radius**2

    def _harmonics(self, degree):
        """How many independent spherical harmonics the degree has."""
        d = self.dim
        return comb(degree + d, d) - comb(max(degree + d - 2, 0), d)

    def scalar_spectrum(self, k):
        d, r2 = self.dim, self.radius**2
        return _lowest(k, 0, lambda j: j * (j + d - 1) / r2, self._harmonics)

    def vector_spectrum(self, k):
        """By Weitzenboeck the Hodge spectrum less the Ricci curvature (d - 1) / radius^2: on the
        unit sphere, Hodge is j (j + d - 1) on gradients and (j + 1)(j + d - 2) on divergence-free
        fields, j >= 1. On a circle, it is the scalar spectrum."""
        d, r2 = self.dim, self.radius**2
        if d == 1:
            return self.scalar_spectrum(k)

        def multiplicity(j):
            return (j + d - 1) * (2 * j + d - 1) * comb(j + d - 3, d - 2) // (j + 1)

        gradients = _lowest(k, 1, self.gradient_eigenvalue, self._harmonics)
        others = _lowest(k, 1, lambda j: ((j + 1) * (j + d - 2) - (d - 1)) / r2, multiplicity)
        return np.sort(np.concatenate([gradients, others]))[:k]


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
        return np.split(
            points, np.cumsum([factor.ambient_dim for factor in self.factors])[:-1], axis=1
        )

    def nearest(self, points):
        parts = self._split(self._points(points))
        return np.concatenate(
            [f.nearest(part) for f, part in zip(self.factors, parts, strict=True)], axis=1
        )

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
        parts = zip(
            self.factors, self._split(self._points(points)), self._split(vectors), strict=True
        )
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
