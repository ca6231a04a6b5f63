"""Smooth manifolds in R^D with exact geometry: the ground truth of tests and demos.

Points are rows, geometry is float64, sampling is uniform by Riemannian volume, and what has a
closed form is exact: tangent frames, parallel transport, spectra on functions and vector fields.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from functools import reduce
from itertools import count
from math import asinh, comb, exp, lgamma, log, pi, prod, sqrt
from typing import final

import numpy as np


def _require(valid, expected, got, remedy):
    if not valid:
        raise ValueError(f"expected {expected}, got {got!r}; {remedy}.")


def _integer(name, value):
    valid = isinstance(value, int | np.integer) and value >= 1
    _require(valid, f"{name} to be a whole number >= 1", value, f"change {name}")
    return int(value)


def _positive(name, values, least=1):
    numbers = tuple(np.atleast_1d(np.asarray(values, dtype=float)).tolist())
    valid = len(numbers) >= least and all(0 < number < np.inf for number in numbers)
    _require(valid, f"{name} to be {least} or more positive numbers", values, f"change {name}")
    return numbers


def _unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _reflection(w):
    """Reflections (n, D, D) that change the sign of the unit vectors w (n, D)."""
    return np.eye(w.shape[1]) - 2 * w[:, :, None] * w[:, None]


def _complement(normal):
    """Bases (n, D, D-1) orthonormal to unit normals (n, D), with det [normal, basis] = 1."""
    last = np.eye(normal.shape[1])[-1]
    sign = np.where(normal[:, -1:] < 0, -1, 1)
    basis = _reflection(_unit(normal + sign * last))[:, :, :-1]  # takes last to -sign * normal
    basis[:, :, 0] *= sign * (-1) ** (len(last) - 1)
    return basis


def _rejection(n, rng, propose, probability):
    """n independent draws: candidates propose(m, rng) accepted with probability(candidates)."""
    kept, missing = [], _integer("n", n)
    while missing > 0:
        candidates = propose(2 * missing + 16, rng)
        kept.append(candidates[rng.random(len(candidates)) < probability(candidates)])
        missing -= len(kept[-1])
    return np.concatenate(kept)[:n]


def _lowest(k, first, value, multiplicity):
    """The k lowest of the ascending value(first), value(first + 1), ... with multiplicity."""
    values: list[float] = []
    for degree in count(first):
        values += [value(degree)] * min(multiplicity(degree), _integer("k", k) - len(values))
        if len(values) == k:
            return np.array(values, dtype=float)


def _sums(a, b):
    """The k lowest a_i + b_j of two ascending sequences, given the first k terms of each.

    Counting from 1, i j - 1 other sums are not above a_i + b_j: those with i j > k are not needed.
    """
    k = len(a)
    return np.sort(np.concatenate([a[i] + b[: k // (i + 1)] for i in range(k)]))[:k]


class Manifold(ABC):
    """A compact manifold of dimension d = `dim` in R^D, D = `ambient_dim`."""

    dim: int
    ambient_dim: int
    volume: float
    orientable: bool = True
    has_boundary: bool = False

    def sample(self, n: int, seed=None, dtype=np.float64) -> np.ndarray:
        """Points (n, D), independent and uniform by volume; seed is an int or a Generator."""
        return self._sample(_integer("n", n), np.random.default_rng(seed)).astype(dtype)

    @abstractmethod
    def _sample(self, n, rng): ...

    @abstractmethod
    def frames(self, points) -> np.ndarray:
        """Orthonormal tangent bases (n, D, d), in columns, at points (n, D) of the manifold."""

    def transport(self, source, target) -> np.ndarray:
        """Rotations (n, D, D): on tangent vectors, transport along the shortest geodesics."""
        raise self._unknown("parallel transport")

    def scalar_spectrum(self, k: int) -> np.ndarray:
        """First k eigenvalues, with multiplicity, of minus the Laplacian on functions."""
        raise self._unknown("the scalar spectrum")

    def vector_spectrum(self, k: int) -> np.ndarray:
        """First k eigenvalues, with multiplicity, of minus the connection Laplacian on fields."""
        raise self._unknown("the vector spectrum")

    def __repr__(self):
        names = inspect.signature(type(self)).parameters
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def _unknown(self, what):
        known = "a Sphere, a FlatTorus, a SwissRoll or a Product of these"
        return NotImplementedError(f"{what} is not known in closed form on {self}; use {known}.")

    def _points(self, points, like=None):
        points, n = np.asarray(points, dtype=float), "n" if like is None else len(like)
        valid = points.shape[1:] == (self.ambient_dim,) and n in ("n", len(points))
        remedy = f"pass one point of {self} per row"
        _require(valid, f"points of shape ({n}, {self.ambient_dim})", points.shape, remedy)
        _require(np.isfinite(points).all(), "finite points", "nan or infinity", remedy)
        return points


@final
class Sphere(Manifold):
    """|x| = radius in R^(d+1).

    >>> Sphere(dim=2).vector_spectrum(7)
    array([1., 1., 1., 1., 1., 1., 5.])
    """

    def __init__(self, dim: int = 2, radius: float = 1.0):
        self.dim, (self.radius, *_) = _integer("dim", dim), _positive("radius", radius)
        self.ambient_dim = D = self.dim + 1
        self.volume = 2 * exp(D / 2 * log(pi) - lgamma(D / 2) + self.dim * log(self.radius))

    def _sample(self, n, rng):
        return self.radius * _unit(rng.standard_normal((n, self.ambient_dim)))

    def sample_nonuniform(self, n: int, ratio: float, seed=None, dtype=np.float64) -> np.ndarray:
        """Points (n, D) of density proportional to 1 + (ratio - 1) / (ratio + 1) x_d / radius,
        whose greatest value is `ratio` times its least."""
        _require(1 <= ratio < np.inf, "a finite density ratio >= 1", ratio, "use 1 for uniform")
        rng, slope = np.random.default_rng(seed), (ratio - 1) / (ratio + 1)

        def probability(x):
            return (1 + slope * x[:, -1] / self.radius) / (1 + slope)

        return _rejection(n, rng, self._sample, probability).astype(dtype)

    def frames(self, points):
        return _complement(_unit(self._points(points)))

    def transport(self, source, target):
        x, y = _unit(self._points(source)), _unit(self._points(target, like=source))
        if self.dim == 1:  # no ambiguity, even for antipodal points
            return y[:, :, None] * x[:, None] + self.frames(y) @ self.frames(x).swapaxes(1, 2)
        unique = (np.linalg.norm(x + y, axis=1) > 1e-6).all()
        _require(unique, "a unique shortest geodesic", "antipodal points", "drop these pairs")
        return _reflection(_unit(x + y)) @ _reflection(x)

    def gradient_field(self, points, degree: int) -> np.ndarray:
        """Gradient (n, D) along the unit sphere, an exact eigenfield, of the last coordinate if
        degree = 1, else of the harmonic polynomial x_0 x_1 ... x_(degree-1)."""
        x, D = _unit(self._points(points)), self.ambient_dim
        _require(_integer("degree", degree) <= D, f"degree <= {D}", degree, "lower it")
        support = [D - 1] if degree == 1 else list(range(degree))
        gradient = np.zeros_like(x)
        for i in support:
            gradient[:, i] = np.prod(x[:, [j for j in support if j != i]], axis=1)
        return gradient - np.sum(gradient * x, axis=1, keepdims=True) * x

    def gradient_eigenvalue(self, degree: int) -> float:
        """(j (j + d - 1) - (d - 1)) / radius^2 on gradients of harmonics of degree j."""
        j, d = _integer("degree", degree), self.dim
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


class _Surface(Manifold):
    """(f cos u, f sin u, g, ...), where `_profile` gives the rows (f, f_u, f_v), (g, g_u, g_v), ...

    (u, v) runs over the rectangle with corners `_box`; `_bound` is above the area element.
    """

    dim, ambient_dim = 2, 3
    _box: tuple = ((0, 0), (2 * pi, 2 * pi))
    _bound: float

    @abstractmethod
    def _profile(self, u, v): ...

    @abstractmethod
    def parameters(self, points) -> np.ndarray:
        """(u, v), shape (n, 2), of points (n, D)."""

    def _embed(self, params):
        """Points (n, D) and their derivatives (n, D, 2) in u and v."""
        u, v = params.T
        (f, f_u, f_v), *rest = self._profile(u, v)
        c, s = np.cos(u), np.sin(u)
        rows = [(f * c, f_u * c - f * s, f_v * c), (f * s, f_u * s + f * c, f_v * s), *rest]
        table = np.array([[0 * u + entry for entry in row] for row in rows])
        return table[:, 0].T, table[:, 1:].transpose(2, 0, 1)

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
        return self._embed(params)[0], params

    def _sample(self, n, rng):
        return self.sample_with_parameters(n, rng)[0]

    def frames(self, points, params=None):
        """Orthonormal tangent bases (n, D, 2) at points (n, D), or at their (u, v) if given."""
        points = self._points(points)
        params = self.parameters(points) if params is None else np.asarray(params, dtype=float)
        shape = len(points), 2
        _require(params.shape == shape, f"params {shape}", params.shape, "pass (u, v) per point")
        q, r = np.linalg.qr(self._embed(params)[1])
        return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]


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

    def _profile(self, u, v):
        x, y = self.r * np.cos(v), self.r * np.sin(v)
        return [(self.R + x, 0, -y), (y, 0, x)]

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
        # The trapezoidal rule converges geometrically, as the area element is periodic.
        grid = np.meshgrid(*2 * [np.linspace(0, 2 * pi, 256, endpoint=False)])
        self.volume = float(4 * pi**2 * self._area(np.stack(grid, axis=-1).reshape(-1, 2)).mean())

    def _profile(self, u, v):
        c, s, r = np.cos(u / 2), np.sin(u / 2), self.r
        if self.ambient_dim == 4:
            x, y = r * np.cos(v), r * np.sin(v)
            return [(self.R + x, 0, -y), (c * y, -s * y / 2, c * x), (s * y, c * y / 2, s * x)]
        eight = (np.sin(v), np.sin(2 * v)), (np.cos(v), 2 * np.cos(2 * v))
        (x, y), (x_v, y_v) = ((r * (c * p - s * q), r * (s * p + c * q)) for p, q in eight)
        return [(self.R + x, -y / 2, x_v), (y, x / 2, y_v)]

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
        self.turns, (self.width, *_) = _positive("turns", turns, 2), _positive("width", width)
        valid = len(self.turns) == 2 and self.turns[0] < self.turns[1]
        _require(valid, "turns (start, stop), start < stop", turns, "order them")
        start, stop = (2 * pi * turn for turn in self.turns)
        self._box, self._bound = ((start, 0), (stop, self.width)), sqrt(1 + stop**2)
        below, above = ((t * sqrt(1 + t**2) + asinh(t)) / 2 for t in (start, stop))  # arclengths
        self.length = above - below
        self.volume = self.length * self.width

    def _profile(self, u, v):
        return [(u, 1, 0), (v, 0, 1)]

    def parameters(self, points):
        x, y, h = self._points(points).T
        return np.stack([np.hypot(x, y), h], axis=1)

    def transport(self, source, target):
        frames = self.frames(source), self.frames(self._points(target, like=source))  # parallel
        x, y = (np.dstack([f, np.cross(f[:, :, 0], f[:, :, 1])]) for f in frames)
        return y @ x.swapaxes(1, 2)

    def scalar_spectrum(self, k):
        waves = pi * np.arange(_integer("k", k))
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


class _Factored(Manifold):
    """A Riemannian product: points and tangent spaces of the factors side by side."""

    def __init__(self, *factors: Manifold):
        self.factors, self.volume = factors, prod(factor.volume for factor in factors)
        self.dim = sum(factor.dim for factor in factors)
        self.ambient_dim = sum(factor.ambient_dim for factor in factors)
        self.orientable = all(factor.orientable for factor in factors)
        self.has_boundary = any(factor.has_boundary for factor in factors)

    def _sample(self, n, rng):
        return np.concatenate([factor.sample(n, rng) for factor in self.factors], axis=1)

    def _blocks(self, method, *points):
        """Block-diagonal matrices of the blocks factor.method(*points)."""
        ends = np.cumsum([factor.ambient_dim for factor in self.factors])[:-1]
        split = zip(*(np.split(x, ends, axis=1) for x in points), strict=True)
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

    def scalar_spectrum(self, k):
        return reduce(_sums, [factor.scalar_spectrum(k) for factor in self.factors])

    def vector_spectrum(self, k):
        """TM is the sum of the pullbacks of TM_i, where it is vector_i + sum_(j != i) scalar_j."""
        parts, scalar = [], [factor.scalar_spectrum(k) for factor in self.factors]
        for i, factor in enumerate(self.factors):
            parts += [reduce(_sums, [*scalar[:i], factor.vector_spectrum(k), *scalar[i + 1 :]])]
        return np.sort(np.concatenate(parts))[:k]


@final
class FlatTorus(_Factored):
    """The Clifford torus (r_1 cos t_1, r_1 sin t_1, r_2 cos t_2, ...) in R^(2m); parallel frames.

    >>> FlatTorus(radii=(1, 1)).vector_spectrum(3)
    array([0., 0., 1.])
    """

    def __init__(self, radii: tuple[float, ...] = (1.0, 1.0)):
        self.radii = _positive("radii", radii)
        super().__init__(*(Sphere(1, radius) for radius in self.radii))


@final
class Product(_Factored):
    """The product of the factors, with concatenated points.

    >>> Product(Sphere(2), Sphere(1)).vector_spectrum(4)
    array([0., 1., 1., 1.])
    """

    def __init__(self, *factors: Manifold):
        valid = factors and all(isinstance(factor, Manifold) for factor in factors)
        _require(valid, "one or more manifolds", factors, "pass them as separate arguments")
        super().__init__(*factors)

    def __repr__(self):
        return f"Product({', '.join(map(repr, self.factors))})"
