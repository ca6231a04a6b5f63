"""What every space shares: the `Manifold` interface, argument checks, sampling and spectra."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from itertools import count
from typing import NamedTuple

import numpy as np

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError
from ..memory import require_memory


def _require(valid, expected, got, remedy):
    if not valid:
        raise InvalidInputError(f"expected {expected}, got {got!r}; {remedy}.")


def _positive(name, values, least=1):
    """Positive numbers as a tuple, at least so many."""
    sequence = values
    if not np.iterable(values):
        sequence = [values]
    numbers = tuple(positive(value, f"every number of {name}") for value in sequence)
    _require(len(numbers) >= least, f"{least} or more numbers as {name}", values, f"change {name}")
    return numbers


def _unit(x):
    """Vectors (n, D) of length one."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    has_direction = bool((length > 0).all())
    _require(has_direction, "points with a tangent space", "a point at the centre", "remove it")
    return x / length


def _reflection(w):
    """Reflections (n, D, D) that change the sign of the unit vectors w (n, D)."""
    return np.eye(w.shape[1]) - 2 * w[:, :, None] * w[:, None]


def _complement(normal):
    """Bases (n, D, D-1) orthonormal to unit normals (n, D), with det [normal, basis] = 1."""
    dims = normal.shape[1]
    last_axis = np.eye(dims)[-1]
    sign = np.where(normal[:, -1:] < 0, -1, 1)
    to_last_axis = _reflection(_unit(normal + sign * last_axis))  # or to the opposite of it
    basis = to_last_axis[:, :, :-1]
    basis[:, :, 0] *= sign * (-1) ** (dims - 1)
    return basis


def _rejection(n, rng, propose, probability):
    """n independent draws: candidates propose(m, rng) accepted with probability(candidates)."""
    accepted = []
    missing = positive_integer(n, "n")
    while missing > 0:
        candidates = propose(2 * missing + 16, rng)
        is_accepted = rng.random(len(candidates)) < probability(candidates)
        accepted.append(candidates[is_accepted])
        missing -= int(is_accepted.sum())
    return np.concatenate(accepted)[:n]


def _lowest(k, first, value, multiplicity):
    """The k lowest of the ascending value(first), value(first + 1), ... with multiplicity."""
    k = positive_integer(k, "k")
    values: list[float] = []
    for degree in count(first):
        repetitions = min(multiplicity(degree), k - len(values))
        values.extend([value(degree)] * repetitions)
        if len(values) == k:
            return np.array(values, dtype=float)


def _sums(a, b):
    """The k lowest a_i + b_j of two ascending sequences, given the first k terms of each.

    Counting from 1, i j - 1 other sums are not above a_i + b_j: those with i j > k are not needed.
    """
    k = len(a)
    return np.sort(np.concatenate([a[i] + b[: k // (i + 1)] for i in range(k)]))[:k]


class Landmarks(NamedTuple):
    """Tangent bases ``(n, D, d)`` whose directions mean the same at all points, and a number
    ``(n,)`` on which laws there depend: east and poleward on the Earth, and the distance from the
    equator."""

    bases: np.ndarray
    position: np.ndarray


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
        n = positive_integer(n, "n")
        # drawing takes about four arrays of the points
        num_bytes = 32.0 * n * self.ambient_dim
        require_memory(num_bytes, f"{n} points in R^{self.ambient_dim}", "Sample fewer.")
        return self._sample(n, np.random.default_rng(seed)).astype(dtype)

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

    def landmarks(self, points) -> Landmarks | None:
        """Directions that mean the same at all points ``(n, D)``, if there are any."""
        return None

    def scalar_spectrum(self, k: int) -> np.ndarray:
        """First k eigenvalues, with multiplicity, of minus the Laplacian on functions."""
        raise self._unknown("the scalar spectrum")

    def vector_spectrum(self, k: int) -> np.ndarray:
        """First k eigenvalues, with multiplicity, of minus the connection Laplacian on fields."""
        raise self._unknown("the vector spectrum")

    def __repr__(self):
        names = inspect.signature(type(self)).parameters
        arguments = [f"{name}={getattr(self, name)!r}" for name in names]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _unknown(self, what):
        known = "a Sphere, a FlatTorus, a SwissRoll or a Product of these"
        return NotImplementedError(f"{what} is not known in closed form on {self}; use {known}.")

    def _points(self, points, like=None):
        """Points (n, D) as an array, checked; as many as there are in `like`, if that is given."""
        points = np.asarray(points, dtype=float)
        rows = "n"
        has_rows = True
        if like is not None:
            rows = str(len(like))
            has_rows = len(points) == len(like)
        has_shape = points.shape[1:] == (self.ambient_dim,)
        remedy = f"pass one point of {self} per row"
        expected = f"points of shape ({rows}, {self.ambient_dim})"
        _require(has_shape and has_rows, expected, points.shape, remedy)
        _require(np.isfinite(points).all(), "finite points", "nan or infinity", remedy)
        return points
