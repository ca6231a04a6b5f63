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


class _Surface(Manifold):
    """A surface with parameters (u, v) in the rectangle with corners `_box`; `_bound` is above the
    area element."""

    dim = 2
    ambient_dim = 3
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
        u, v = params.T
        step = 1e-30
        along_u = np.stack(self._point(u + 1j * step, v), axis=1).imag / step
        along_v = np.stack(self._point(u, v + 1j * step), axis=1).imag / step
        points = np.stack(self._point(u, v), axis=1)
        return points, np.stack([along_u, along_v], axis=-1)

    def _jacobian(self, params):
        """The derivatives (n, D, 2) alone."""
        _, jacobian = self._embed(params)
        return jacobian

    def _area(self, params):
        """The area element (n,)."""
        jacobian = self._jacobian(params)
        return np.sqrt(np.linalg.det(jacobian.swapaxes(1, 2) @ jacobian))

    def sample_with_parameters(self, n: int, seed=None) -> tuple[np.ndarray, np.ndarray]:
        """Uniform points (n, D) and their parameters (u, v), shape (n, 2)."""
        lowest, highest = self._box

        def propose(m, rng):
            return rng.uniform(lowest, highest, size=(m, 2))

        def probability(params):
            return self._area(params) / self._bound

        params = _rejection(n, np.random.default_rng(seed), propose, probability)
        u, v = params.T
        return np.stack(self._point(u, v), axis=1), params

    def _sample(self, n, rng):
        points, _ = self.sample_with_parameters(n, rng)
        return points

    def nearest(self, points):
        nearest, _ = self._embed(self.parameters(points))
        return nearest

    def frames(self, points, params=None):
        """Orthonormal tangent bases (n, D, 2) at points (n, D), or at their (u, v) if given."""
        points = self._points(points)
        if params is None:
            params = self.parameters(points)
        params = np.asarray(params, dtype=float)
        shape = (len(points), 2)
        _require(params.shape == shape, f"params {shape}", params.shape, "pass (u, v) per point")
        q, r = np.linalg.qr(self._jacobian(params))
        return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]

    def second_form(self, points, vectors):
        """Exact up to about 1e-8: differences of exact first derivatives."""
        params = self.parameters(points)
        step = 1e-4
        changes = [
            self._jacobian(params + move) - self._jacobian(params - move)
            for move in step * np.eye(2)
        ]
        second = np.stack(changes, axis=-1) / (2 * step)
        jacobian = self._jacobian(params)
        to_parameters = np.linalg.pinv(jacobian)
        to_normals = np.eye(self.ambient_dim) - jacobian @ to_parameters
        steps = to_parameters @ vectors
        return np.einsum("nxy,nyab,nac,nbd->nxcd", to_normals, second, steps, steps, optimize=True)


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
        self.volume = 4 * pi**2 * self.R * self.r
        self._bound = self.r * (self.R + self.r)

    def _point(self, u, v):
        radius = self.R + self.r * np.cos(v)
        return radius * np.cos(u), radius * np.sin(u), self.r * np.sin(v)

    def angles(self, points) -> tuple[np.ndarray, np.ndarray]:
        """Angles (theta, phi), each (n,): around the tube and around the axis."""
        x, y, z = self._points(points).T
        return np.arctan2(z, np.hypot(x, y) - self.R), np.arctan2(y, x)

    def parameters(self, points):
        theta, phi = self.angles(points)
        return np.stack([phi, theta], axis=1)

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
        self.ambient_dim = int(ambient_dim)
        self.R, self.r = _positive("(R, r)", (R, r))
        width = self.r
        if ambient_dim == 3:
            width = 1.25 * self.r
        _require(width < self.R, "r < R in R^4, 5r/4 < R in R^3", f"R={R}, r={r}", "lower r")
        self._bound = self.r * (self.R + width)
        if ambient_dim == 3:
            self._bound = sqrt(5 * self._bound**2 + 9 / 16 * self.r**4)
        self.volume = float(4 * pi**2 * self._area(_grid(256)).mean())

    def _point(self, u, v):
        c = np.cos(u / 2)
        s = np.sin(u / 2)
        if self.ambient_dim == 4:
            radius = self.R + self.r * np.cos(v)
            third = self.r * c * np.sin(v)
            fourth = self.r * s * np.sin(v)
            return radius * np.cos(u), radius * np.sin(u), third, fourth
        radius = self.R + self.r * (c * np.sin(v) - s * np.sin(2 * v))
        height = self.r * (s * np.sin(v) + c * np.sin(2 * v))
        return radius * np.cos(u), radius * np.sin(u), height

    def parameters(self, points):
        """(u, v), shape (n, 2), of points (n, D); in R^3 not where the surface crosses itself."""
        x, y, *heights = self._points(points).T
        u = np.arctan2(y, x) % (2 * pi)
        c = np.cos(u / 2)
        s = np.sin(u / 2)
        outward = (np.hypot(x, y) - self.R) / self.r
        upward = heights[0] / self.r
        if self.ambient_dim == 4:
            sin_v = c * upward + s * heights[1] / self.r
            return np.stack([u, np.arctan2(sin_v, outward)], axis=1)
        sin_v = c * outward + s * upward
        sin_2v = c * upward - s * outward
        remedy = "pass params, from sample_with_parameters"
        is_regular = bool((abs(sin_v) > 1e-6).all())
        _require(is_regular, "one tangent plane per point", "self-crossings", remedy)
        cos_v = sin_2v / (2 * sin_v)
        return np.stack([u, np.arctan2(sin_v, cos_v)], axis=1)


def _length_of_spiral(t):
    """The length of (s cos s, s sin s) for s from 0 to t."""
    return (t * sqrt(1 + t**2) + asinh(t)) / 2


@final
class SwissRoll(_Surface):
    """(t cos t, t sin t, h), t / (2 pi) between the `turns`, 0 <= h <= width.

    It is isometric to a flat rectangle; the spectra have its natural (Neumann) boundary condition.

    >>> SwissRoll(turns=(1, 2), width=10).vector_spectrum(2)
    array([0., 0.])
    """

    has_boundary = True

    def __init__(self, turns: tuple[float, float] = (0.75, 2.25), width: float = 21.0):
        self.turns = _positive("turns", turns, 2)
        self.width = positive(width, "width")
        valid = len(self.turns) == 2 and self.turns[0] < self.turns[1]
        _require(valid, "turns (start, stop), start < stop", turns, "order them")
        start = 2 * pi * self.turns[0]
        stop = 2 * pi * self.turns[1]
        self._box = ((start, 0), (stop, self.width))
        self._bound = sqrt(1 + stop**2)
        self.length = _length_of_spiral(stop) - _length_of_spiral(start)
        self.volume = self.length * self.width

    def _point(self, u, v):
        return u * np.cos(u), u * np.sin(u), v

    def parameters(self, points):
        x, y, h = self._points(points).T
        return np.stack([np.hypot(x, y), h], axis=1)

    def transport(self, source, target):
        x = self._bases(source)
        y = self._bases(self._points(target, like=source))
        return y @ x.swapaxes(1, 2)

    def _bases(self, points):
        """Bases (n, 3, 3): the frames, which are parallel, and the normal."""
        frames = self.frames(points)
        return np.dstack([frames, np.cross(frames[:, :, 0], frames[:, :, 1])])

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
        self.ambient_dim = len(self.axes)
        self.dim = self.ambient_dim - 1
        self.volume = self._volume()

    def _volume(self):
        """prod(a) times the integral of |x / a| over the unit sphere, as one integral in log(s) by
        the trapezoidal rule, geometrically convergent as the integrand is analytic."""
        step = 0.2
        s2 = np.exp(np.arange(-120, 120, step))[:, None]
        scale = max(self.axes)
        a2 = (np.array(self.axes) / scale) ** 2
        terms = np.prod((1 + 2 * s2 / a2) ** -0.5, axis=1) * np.sum(1 / (a2 + 2 * s2), axis=1)
        integral = step / 2 * np.sum(np.sqrt(s2[:, 0]) * terms)
        half = (self.ambient_dim + 1) / 2
        constant = sqrt(8) * exp(self.dim / 2 * log(pi) - lgamma(half)) * prod(self.axes)
        return float(constant / scale * integral)

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
