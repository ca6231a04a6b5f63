"""What every space shares: the `Manifold` interface, argument checks, sampling and spectra."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from itertools import count

import numpy as np

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError
from ..memory import require_memory


def _require(valid, expected, got, remedy):
    if not valid:
        raise InvalidInputError(f"expected {expected}, got {got!r}; {remedy}.")


def _positive(name, values, least=1):
    """Positive numbers as a tuple, at least so many."""
    numbers = tuple(
        positive(value, f"every number of {name}")
        for value in (values if np.iterable(values) else [values])
    )
    _require(len(numbers) >= least, f"{least} or more numbers as {name}", values, f"change {name}")
    return numbers


def _unit(x):
    length = np.linalg.norm(x, axis=1, keepdims=True)
    _require(
        (length > 0).all(), "points with a tangent space", "a point at the centre", "remove it"
    )
    return x / length


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
    accepted, missing = [], positive_integer(n, "n")
    while missing > 0:
        candidates = propose(2 * missing + 16, rng)
        accepted.append(candidates[rng.random(len(candidates)) < probability(candidates)])
        missing -= len(accepted[-1])
    return np.concatenate(accepted)[:n]


def _lowest(k, first, value, multiplicity):
    """The k lowest of the ascending value(first), value(first + 1), ... with multiplicity."""
    values: list[float] = []
    for degree in count(first):
        values += [value(degree)] * min(
            multiplicity(degree), positive_integer(k, "k") - len(values)
        )
        if len(values) == k:
            return np.array(values, dtype=float)


def _sums(a, b):
    """The k lowest a_i + b_j of two ascending sequences, given the first k terms of each.

    Counting from 1, i j - 1 other sums are not above a_i + b_j: those with i j > k are not needed.
    """
    k = len(a)
    return np.sort(np.concatenate([a[i] + b[: k // (i + 1)] for i in range(k)]))[:k]


class Manifold(ABC):
    """A compact manifold of dimension d = `dim` in R^D, D = `ambient_dim`, with exact geometry in
    float64."""

    dim: int
    ambient_dim: int
    volume: float
    orientable: bool = True
    has_boundary: bool = False

    def sample(self, n: int, seed=None, dtype=np.float64) -> np.ndarray:
        """Points (n, D), independent and uniform by volume; seed is an int or a Generator."""
        what = f"{positive_integer(n, 'n')} points in R^{self.ambient_dim}"
        require_memory(
            32.0 * n * self.ambient_dim, what, "Sample fewer."
        )  # drawing takes about four such arrays
        return self._sample(int(n), np.random.default_rng(seed)).astype(dtype)

    @abstractmethod
    def _sample(self, n, rng): ...

    @abstractmethod
    def frames(self, points) -> np.ndarray:
        """Orthonormal tangent bases (n, D, d), in columns, at points (n, D) of the manifold."""

    def nearest(self, points) -> np.ndarray:
        """A point of the manifold near each of the points (n, D) of space; by default the points
        themselves."""
        return self._points(points)

    def transport(self, source, target) -> np.ndarray:
        """Rotations (n, D, D): on tangent vectors, transport along the shortest geodesics."""
        raise self._unknown("parallel transport")

    def second_form(self, points, vectors) -> np.ndarray:
        """The second fundamental form (n, D, m, m) of m tangent vectors (n, D, m) at each point:
        normal vectors."""
        raise self._unknown("the second fundamental form")

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
