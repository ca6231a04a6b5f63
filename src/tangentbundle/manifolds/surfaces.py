"""Surfaces given by a parametrisation or an equation: torus, Klein bottles, Swiss roll,
ellipsoid."""

from __future__ import annotations

from abc import abstractmethod
from math import asinh, exp, lgamma, log, pi, prod, sqrt
from typing import final

import numpy as np

from ..arrays import positive, positive_integer
from .base import Manifold, _complement, _positive, _rejection, _require, _sums, _unit
from .closed_form import Sphere


def _grid(count):
    """Angles (u, v), shape (count^2, 2): means of smooth periodic functions over them converge
    geometrically."""
    angle = np.linspace(0, 2 * pi, count, endpoint=False)
    return np.stack(np.meshgrid(angle, angle, indexing="ij"), axis=-1).reshape(-1, 2)


def _revolved(u, f, *rest):
    return f * np.cos(u), f * np.sin(u), *rest


class _Surface(Manifold):
    """A surface with parameters (u, v) in the rectangle with corners `_box`; `_bound` is above the
    area element."""

    dim, ambient_dim = 2, 3
    _box: tuple = ((0, 0), (2 * pi, 2 * pi))
    _bound: float

    @abstractmethod
    def _point(self, u, v) -> tuple:
        """The D coordinates of points, real or complex as u and v."""

    @abstractmethod
    def parameters(self, points) -> np.ndarray:
        """(u, v), shape (n, 2), of points (n, D)."""

    def _embed(self, params):
        """Points (n, D) and their derivatives (n, D, 2): along imaginary steps these are exact to
        rounding."""
        (u, v), step = params.T, 1e-30
        moved = [
            np.stack(self._point(*at), axis=1).imag
            for at in ((u + 1j * step, v), (u, v + 1j * step))
        ]
        return np.stack(self._point(u, v), axis=1), np.stack(moved, axis=-1) / step

    def _area(self, params):
        _, jacobian = self._embed(params)
        return np.sqrt(np.linalg.det(jacobian.swapaxes(1, 2) @ jacobian))

    def sample_with_parameters(self, n: int, seed=None) -> tuple[np.ndarray, np.ndarray]:
        """Uniform points (n, D) and their parameters (u, v), shape (n, 2)."""
        params = _rejection(
            n,
            np.random.default_rng(seed),
            lambda m, rng: rng.uniform(*self._box, size=(m, 2)),
            lambda params: self._area(params) / self._bound,
        )
        return np.stack(self._point(*params.T), axis=1), params

    def _sample(self, n, rng):
        return self.sample_with_parameters(n, rng)[0]

    def nearest(self, points):
        return self._embed(self.parameters(points))[0]

    def frames(self, points, params=None):
        """Orthonormal tangent bases (n, D, 2) at points (n, D), or at their (u, v) if given."""
        points = self._points(points)
        params = self.parameters(points) if params is None else np.asarray(params, dtype=float)
        shape = len(points), 2
        _require(params.shape == shape, f"params {shape}", params.shape, "pass (u, v) per point")
        q, r = np.linalg.qr(self._embed(params)[1])
        return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]

    def second_form(self, points, vectors):
        """Exact up to about 1e-8: differences of exact first derivatives."""
        params, step = self.parameters(points), 1e-4
        moved = [
            self._embed(params + move)[1] - self._embed(params - move)[1]
            for move in step * np.eye(2)
        ]
        jacobian, second = self._embed(params)[1], np.stack(moved, axis=-1) / (2 * step)
        back = np.linalg.pinv(jacobian)
        normal, along = np.eye(self.ambient_dim) - jacobian @ back, back @ vectors
        return np.einsum("nxy,nyab,nac,nbd->nxcd", normal, second, along, along, optimize=True)


@final
class Torus(_Surface):
    """((R + r cos theta) cos phi, (R + r cos theta) sin phi, r sin theta), 0 < r < R.

    The parameters are (u, v) = (phi, theta).

    >>> Torus().tangent_field([[0.4, 0, 0]])
    array([[-0.,  1.,  0.]])
    """

    def __init__(self, R: float = 0.3, r: float = 0.1):
        self.R, self.r = _positive("(R, r)", (R, r))
        _require(self.r < self.R, "0 < r < R", f"R={R}, r={r}", "lower r, the radius of the tube")
        self.volume, self._bound = 4 * pi**2 * self.R * self.r, self.r * (self.R + self.r)

    def _point(self, u, v):
        return _revolved(u, self.R + self.r * np.cos(v), self.r * np.sin(v))

    def angles(self, points) -> tuple[np.ndarray, np.ndarray]:
        """Angles (theta, phi), each (n,): around the tube and around the axis."""
        x, y, z = self._points(points).T
        return np.arctan2(z, np.hypot(x, y) - self.R), np.arctan2(y, x)

    def parameters(self, points):
        return np.stack(self.angles(points)[::-1], axis=1)

    def tangent_field(self, points) -> np.ndarray:
        """(-sin phi, cos phi, 0): a unit tangent field (n, 3)."""
        _, phi = self.angles(points)
        return np.stack([-np.sin(phi), np.cos(phi), 0 * phi], axis=1)

    def paper_field(self, points) -> np.ndarray:
        """(-sin theta, cos theta, 0), as in the paper: a quarter of its energy is normal."""
        theta, _ = self.angles(points)
        return np.stack([-np.sin(theta), np.cos(theta), 0 * theta], axis=1)


@final
class KleinBottle(_Surface):
    """(u, v) ~ (u + 2 pi, -v) embedded in R^4 or immersed in R^3; c = cos(u/2), s = sin(u/2).

    R^4: ((R + r cos v) cos u, (R + r cos v) sin u, r c sin v, r s sin v), r < R.
    R^3: (f cos u, f sin u, r (s sin v + c sin 2v)), f = R + r (c sin v - s sin 2v), 5r/4 < R:
    a figure 8 that makes half a turn and crosses itself on the circle sin v = 0.

    >>> KleinBottle().frames([[1.4, 0, 0, 0]]).shape
    (1, 4, 2)
    """

    orientable = False

    def __init__(self, ambient_dim: int = 4, R: float = 1.0, r: float = 0.4):
        _require(ambient_dim in (3, 4), "ambient_dim 3 or 4", ambient_dim, "choose one")
        self.ambient_dim, (self.R, self.r) = int(ambient_dim), _positive("(R, r)", (R, r))
        width = self.r if ambient_dim == 4 else 1.25 * self.r
        _require(width < self.R, "r < R in R^4, 5r/4 < R in R^3", f"R={R}, r={r}", "lower r")
        bound = self.r * (self.R + width)
        self._bound = bound if ambient_dim == 4 else sqrt(5 * bound**2 + 9 / 16 * self.r**4)
        self.volume = float(4 * pi**2 * self._area(_grid(256)).mean())

    def _point(self, u, v):
        c, s, p, q = np.cos(u / 2), np.sin(u / 2), np.sin(v), np.sin(2 * v)
        if self.ambient_dim == 4:
            return _revolved(u, self.R + self.r * np.cos(v), self.r * c * p, self.r * s * p)
        return _revolved(u, self.R + self.r * (c * p - s * q), self.r * (s * p + c * q))

    def parameters(self, points):
        """(u, v), shape (n, 2), of points (n, D); in R^3 not where the surface crosses itself."""
        x, y, z, *w = self._points(points).T
        u, x, z = np.arctan2(y, x) % (2 * pi), (np.hypot(x, y) - self.R) / self.r, z / self.r
        c, s = np.cos(u / 2), np.sin(u / 2)
        if self.ambient_dim == 4:
            return np.stack([u, np.arctan2(c * z + s * w[0] / self.r, x)], axis=1)
        p, q = c * x + s * z, c * z - s * x  # sin v and sin 2v
        remedy = "pass params, from sample_with_parameters"
        _require((abs(p) > 1e-6).all(), "one tangent plane per point", "self-crossings", remedy)
        return np.stack([u, np.arctan2(p, q / (2 * p))], axis=1)


@final
class SwissRoll(_Surface):
    """(t cos t, t sin t, h), t / (2 pi) between the `turns`, 0 <= h <= width.

    It is isometric to a flat rectangle; the spectra have its natural (Neumann) boundary condition.

    >>> SwissRoll(turns=(1, 2), width=10).vector_spectrum(2)
    array([0., 0.])
    """

    has_boundary = True

    def __init__(self, turns: tuple[float, float] = (0.75, 2.25), width: float = 21.0):
        self.turns, self.width = _positive("turns", turns, 2), positive(width, "width")
        valid = len(self.turns) == 2 and self.turns[0] < self.turns[1]
        _require(valid, "turns (start, stop), start < stop", turns, "order them")
        start, stop = (2 * pi * turn for turn in self.turns)
        self._box, self._bound = ((start, 0), (stop, self.width)), sqrt(1 + stop**2)
        below, above = ((t * sqrt(1 + t**2) + asinh(t)) / 2 for t in (start, stop))  # arclengths
        self.length = above - below
        self.volume = self.length * self.width

    def _point(self, u, v):
        return _revolved(u, u, v)

    def parameters(self, points):
        x, y, h = self._points(points).T
        return np.stack([np.hypot(x, y), h], axis=1)

    def transport(self, source, target):
        frames = self.frames(source), self.frames(self._points(target, like=source))  # parallel
        x, y = (np.dstack([f, np.cross(f[:, :, 0], f[:, :, 1])]) for f in frames)
        return y @ x.swapaxes(1, 2)

    def scalar_spectrum(self, k):
        waves = pi * np.arange(positive_integer(k, "k"))
        return _sums((waves / self.length) ** 2, (waves / self.width) ** 2)

    def vector_spectrum(self, k):
        return np.repeat(self.scalar_spectrum(k), 2)[:k]


@final
class Ellipsoid(Manifold):
    """sum_i (x_i / a_i)^2 = 1 in R^D, D >= 2, with semi-axes a_i.

    >>> round(Ellipsoid(axes=(2, 2, 2)).volume / Sphere(2, radius=2).volume, 12)
    1.0
    """

    def __init__(self, axes: tuple[float, ...] = (1.0, 0.8, 0.6)):
        self.axes = _positive("axes", axes, 2)
        self.ambient_dim = D = len(self.axes)
        self.dim = D - 1
        # prod(a) times the integral of |x / a| over the unit sphere, as one integral in log(s)
        # by the trapezoidal rule, geometrically convergent as the integrand is analytic.
        scale, s2 = max(self.axes), np.exp(np.arange(-120, 120, 0.2))[:, None]
        a2 = (np.array(self.axes) / scale) ** 2
        terms = np.prod((1 + 2 * s2 / a2) ** -0.5, axis=1) * np.sum(1 / (a2 + 2 * s2), axis=1)
        constant = sqrt(8) * exp(self.dim / 2 * log(pi) - lgamma((D + 1) / 2)) * prod(self.axes)
        self.volume = float(constant / scale * 0.1 * np.sum(np.sqrt(s2[:, 0]) * terms))

    def _sample(self, n, rng):
        def probability(x):
            return np.linalg.norm(x / self.axes, axis=1) * min(self.axes)

        return _rejection(n, rng, Sphere(self.dim)._sample, probability) * self.axes

    def frames(self, points):
        return _complement(_unit(self._points(points) / np.square(self.axes)))

    def second_form(self, points, vectors):
        slope = self._points(points) / np.square(self.axes)  # half the gradient of the equation
        products = np.einsum("nya,nyb,y->nab", vectors, vectors, 1 / np.square(self.axes))
        return (
            -(slope / np.square(slope).sum(axis=1, keepdims=True))[:, :, None, None]
            * products[:, None]
        )

    def nearest(self, points):
        """Along the ray from the centre."""
        return _unit(self._points(points) / self.axes) * self.axes
