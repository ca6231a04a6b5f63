r"""What a point sees of its neighbours: their vectors in its own frame, and weighted sums of them.

With steps :math:`\delta_k` to the neighbours, the direction e of a flow and weights
:math:`w_k` that fall with distance, ``patterns`` are the sums

.. math:: \sum_k w_k\, q_k\, M_k v_k, \qquad
          q_k M_k \in \{\phi I,\ \phi\, e e^T,\ \psi\, e \delta_k^T,\ \psi\, \delta_k e^T,\
          \delta_k \delta_k^T\}, \qquad
          \phi \in \{1, \delta_k \cdot e, (\delta_k \cdot e)^2, |\delta_k|^2\}, \quad
          \psi \in \{1, \delta_k \cdot e\}:

all vectors that neighbours' vectors, steps and the flow form up to the second degree in the step.
They turn with the frame, so that coefficients mean the same at every point. Where bases B are known
that do so, too, ``directed_patterns`` are all products of a component of :math:`B^T v_k` with
components of :math:`B^T \delta_k`, of the same degrees, in each direction of B.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from scipy.spatial import cKDTree

NEAREST = 8
"""The median distance to so many neighbours is the unit of length."""

RANGES = (0.7, 1.4)
"""Of the weights of patterns, in this unit: about the nearest neighbours, and those behind them."""


class Surroundings:
    """Neighbours ``index (n, k)`` of each point, the maps ``(n, k, d, d)`` that carry their
    coordinates to its frame, and the ``steps (n, k, d)`` to them in units of their distance.

    ``weights (n, k)`` fall with distance; ``slopes (n, k, d)`` are the weights of differences to
    neighbours in a gradient, by least squares.
    """

    def __init__(self, points: np.ndarray, frames: np.ndarray, count: int) -> None:
        count = min(count, len(points) - 1)
        distances, nearest = cKDTree(points).query(points, k=count + 1)
        nearest[:, 0] = np.arange(len(points))  # also among repeated points
        self.index = nearest[:, 1:]
        unit = float(np.median(distances[:, 1 : NEAREST + 1])) or 1.0
        self.distances = distances[:, 1:] / unit
        self.weights = _falling(self.distances, 1.0)
        neighbor_frames = frames[self.index]
        self.maps = np.einsum("nia,nkib->nkab", frames, neighbor_frames, optimize=True)
        offsets = points[self.index] - points[:, None]
        self.steps = np.einsum("nia,nki->nka", frames, offsets) / unit
        inverse_squares = self.weights / np.maximum(np.square(self.steps).sum(axis=2), 1e-12)
        moments = np.einsum("nk,nka,nkb->nab", inverse_squares, self.steps, self.steps)
        inverses = np.linalg.pinv(moments, hermitian=True)
        self.slopes = np.einsum("nab,nkb,nk->nka", inverses, self.steps, inverse_squares)

    def carried(self, fields: np.ndarray) -> np.ndarray:
        """Neighbours' vectors of fields ``(T, n, d)`` in the frame of each point,
        ``(T, n, k, d)``."""
        return np.einsum("nkab,tnkb->tnka", self.maps, fields[:, self.index], optimize=True)

    def smoothed(self, fields: np.ndarray) -> np.ndarray:
        """Weighted means over each point and its neighbours ``(T, n, d)``."""
        total = fields + np.einsum("nk,tnka->tna", self.weights, self.carried(fields))
        return total / (1 + self.weights.sum(axis=1))[:, None]

    def derivative(self, velocity: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """The derivative ``(T, n, d)`` of fields along a velocity ``(n, d)``, by the unit of
        length."""
        rates = np.einsum("nka,na->nk", self.slopes, velocity)
        differences = self.carried(fields) - fields[:, :, None]
        return np.einsum("nk,tnka->tna", rates, differences, optimize=True)

    def patterns(self, velocity: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """The sums ``(T, n, d, q)`` of the module's text, for fields ``(T, n, d)`` and the
        direction of a velocity ``(n, d)``."""
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        matrices = self._matrices(velocity / np.maximum(speed, 1e-12))
        return np.einsum("nkabq,tnkb->tnaq", matrices, self.carried(fields), optimize=True)

    def directed_patterns(self, bases: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """The products of the module's text ``(T, n, d, q)`` for fields ``(T, n, d)`` and bases
        ``(n, d, d)`` in coordinates of the frames; those of the points' own vectors first."""
        steps = np.einsum("nka,nab->nkb", self.steps, bases)
        own = np.einsum("tna,nab->tnb", fields, bases)
        carried = np.einsum("tnka,nab->tnkb", self.carried(fields), bases, optimize=True)
        sums = [own]
        for weights in self._pattern_weights():
            for product in _products_of_components(steps):
                sums.append(np.einsum("nk,tnka->tna", weights * product, carried))
        components = np.concatenate(sums, axis=-1)
        patterns = components[:, :, None, :, None] * bases[:, :, None, :]
        return patterns.reshape(*fields.shape, -1)

    def _pattern_weights(self) -> list[np.ndarray]:
        """Weights ``(n, k)`` of neighbours for each range, of sum less than one."""
        weights = [_falling(self.distances, reach) for reach in RANGES]
        return [own / (1 + own.sum(axis=1, keepdims=True)) for own in weights]

    def _matrices(self, direction: np.ndarray) -> np.ndarray:
        """``w q M (n, k, d, d, q)`` for every pattern."""
        identity = np.eye(direction.shape[1])[None, None]
        axis = direction[:, None, :]
        along = np.einsum("nka,na->nk", self.steps, direction)
        ones = np.ones_like(along)
        scalars = (ones, along, np.square(along), np.square(self.steps).sum(axis=2))
        products = [(scalar, identity) for scalar in scalars]
        products += [(scalar, _outer(axis, axis)) for scalar in scalars]
        for scalar in (ones, along):
            products.append((scalar, _outer(axis, self.steps)))
            products.append((scalar, _outer(self.steps, axis)))
        products.append((ones, _outer(self.steps, self.steps)))
        matrices = []
        for weights in self._pattern_weights():
            for scalar, matrix in products:
                matrices.append((weights * scalar)[:, :, None, None] * matrix)
        return np.stack(matrices, axis=-1)


def _falling(distances: np.ndarray, reach: float) -> np.ndarray:
    return np.exp(-np.square(distances / reach) / 2)


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Matrices ``a b^T (n, k, d, d)`` of vectors ``(n, k, d)``."""
    return left[..., :, None] * right[..., None, :]


def _products_of_components(steps: np.ndarray) -> list[np.ndarray]:
    """One, the components of steps ``(n, k, d)``, and their products in pairs, each ``(n, k)``."""
    columns = list(np.moveaxis(steps, -1, 0))
    pairs = [left * right for left, right in combinations_with_replacement(columns, 2)]
    return [np.ones(steps.shape[:2]), *columns, *pairs]
