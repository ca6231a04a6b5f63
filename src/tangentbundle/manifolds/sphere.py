"""Spheres of any dimension, with transport, eigenfields and spectra in closed form."""

from __future__ import annotations

from math import comb, exp, lgamma, log, pi
from typing import final

import numpy as np

from ..arrays import positive, positive_integer
from .base import Manifold, _complement, _lowest, _reflection, _rejection, _require, _unit


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

        def probability(x):
            return (1 + slope * x[:, -1] / self.radius) / (1 + slope)

        return _rejection(n, rng, self._sample, probability)

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
