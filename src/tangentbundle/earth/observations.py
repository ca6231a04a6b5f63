r"""Measurements at stations, ships and drifters: reduction to one for each block, and cross-validation by blocks.

The mean of measurements :math:`v_k` with standard errors :math:`\sigma_k`, carried along great circles to their mean
place, has the weights :math:`\sigma_k^{-2}` and the error :math:`(\sum_k \sigma_k^{-2})^{-1/2}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import generator
from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..manifolds import Sphere
from .lengths import radians

LEVELS = (0.5, 0.9)
"""Of the intervals whose coverage is measured."""


def block_numbers(points: np.ndarray, size: str | float) -> np.ndarray:
    """The number of the block ``(n,)`` that each point ``(n, 3)`` of the unit sphere lies in.

    Blocks lie in bands of latitude and are about as wide as high, ``size``; 0 numbers places that coincide.

    >>> points = Sphere(2).sample(1000, seed=0)
    >>> len(np.unique(block_numbers(points, "5000 km"))), len(np.unique(block_numbers(points, 0)))
    (20, 1000)
    """
    points, height = np.asarray(points, float), radians(size)
    if height == 0:
        keys = np.round(points, 9) + 0.0  # a centimetre on the Earth; no negative zeros
    else:
        bands = max(1, round(np.pi / height))
        share = np.arccos(np.clip(points[:, 2], -1, 1)) / np.pi
        band = np.minimum((share * bands).astype(int), bands - 1)
        around = np.maximum(np.round(2 * bands * np.sin((band + 0.5) / bands * np.pi)), 1)
        turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
        keys = np.stack([band, (turn * around).astype(int)], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


class Blocks(NamedTuple):
    """One measurement for each block: places and vectors ``(m, 3)``, their errors (None if unknown), and how many."""

    points: np.ndarray
    vectors: np.ndarray
    sigma: np.ndarray | None
    count: np.ndarray


def block_reduce(points: Any, vectors: Any, sigma: Any = None, *, size: str | float = 0) -> Blocks:
    """Means of the measurements ``vectors (n, 3)`` in blocks of a size such as ``"100 km"``; 0 joins coincident places.

    ``sigma`` are their standard errors for each component, ``(n,)`` or one number. Without them means are plain.

    >>> east = np.array([[0.0, 1.0, 0.0], [0.0, 4.0, 0.0]])
    >>> found = block_reduce(np.array([[1.0, 0.0, 0.0]] * 2), east, [1.0, 2.0])
    >>> found.vectors.round(3).tolist(), found.sigma.round(3).tolist(), found.count.tolist()
    ([[0.0, 1.6, 0.0]], [0.894], [2])
    """
    points, vectors, errors = _checked(points, vectors, sigma)
    block = block_numbers(points, size)
    count = np.bincount(block)
    weights = np.ones(len(points)) if errors is None else errors**-2.0

    def total(values: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(block, weights * column) for column in values.T], axis=1)

    place = total(points)
    place /= np.linalg.norm(place, axis=1, keepdims=True)
    there = place[block]
    along = np.einsum("nd,nd->n", vectors, there) / (1 + np.einsum("nd,nd->n", points, there))
    weight = np.bincount(block, weights)
    carried = vectors - along[:, None] * (points + there)
    return Blocks(place, total(carried) / weight[:, None], None if errors is None else weight**-0.5, count)


@dataclass(frozen=True)
class BlockScores:
    """Errors of predictions in blocks that were left out, over both tangent components of all measurements.

    Attributes:
        rmse: root mean square difference from the measurements, in their unit.
        explained: share of the measurements' variance that is predicted.
        coverage: share of the measurements inside central intervals, by their level (``LEVELS``).
        rmse_of_folds: of each fold by itself.
    """

    rmse: float
    explained: float
    coverage: dict[float, float]
    rmse_of_folds: tuple[float, ...]

    def __str__(self) -> str:
        held = ", ".join(f"{share:.1%} in {level:.0%} intervals" for level, share in self.coverage.items())
        return f"rmse {self.rmse:.4g}, {self.explained:.1%} of the variance explained; {held}"


def block_cv(
    estimator: Any,
    points: Any,
    vectors: Any,
    sigma: Any = None,
    *,
    size: str | float = "1000 km",
    folds: int = 5,
    random_state: int | np.random.Generator = 0,
) -> BlockScores:
    """Cross-validation of a ``FieldInterpolator`` by blocks: neighbours of a measurement are left out with it.

    Blocks of ``size`` are dealt to ``folds`` at random; each fold is predicted from all others. ``sigma`` are standard
    errors of the measurements, ``(n,)`` or one number; without them the level of noise is estimated. Leaving out single
    measurements would tell how well gaps between neighbours are filled, which is easier than filling a region.

    >>> import tangentbundle as tb
    >>> sphere, rng = Sphere(2), np.random.default_rng(0)
    >>> points = sphere.sample(150, seed=0)
    >>> noise = np.einsum("nij,nj->ni", sphere.frames(points), 0.1 * rng.standard_normal((150, 2)))
    >>> model = tb.FieldInterpolator(manifold=sphere, random_state=0)
    >>> scores = block_cv(model, points, sphere.gradient_field(points, 3) + noise, 0.1, size="2000 km")
    >>> scores.explained > 0.7, 0.4 < scores.coverage[0.5] < 0.6
    (True, True)
    """
    from sklearn.base import clone

    points, vectors, errors = _checked(points, vectors, sigma)
    block = block_numbers(points, size)
    blocks = int(block.max()) + 1
    if not 2 <= folds <= blocks:
        raise InvalidInputError(
            f"folds must be from 2 to the number of blocks, {blocks} of size {size}, got {folds}. Use smaller blocks."
        )
    fold = generator(random_state).permutation(blocks)[block] % folds
    frames, off, inside = Sphere(2).frames(points), np.empty((len(points), 2)), np.empty((len(LEVELS), len(points), 2))
    for number in range(folds):
        out = fold == number
        known = None if errors is None else errors[~out]
        model = clone(estimator).fit(points[~out], vectors[~out], noise_std=known)
        mean, covariance = model.predict(points[out], return_cov=True, with_noise=errors is None)
        off[out] = np.einsum("nda,nd->na", frames[out], vectors[out] - mean)
        variance = np.einsum("nda,nde,nea->na", frames[out], covariance, frames[out])
        std = np.sqrt(variance + (0.0 if errors is None else errors[out, None] ** 2))
        inside[:, out] = [np.abs(off[out]) <= model.interval_width(level) * std for level in LEVELS]
    square = np.square(off).mean(axis=1)
    spread = np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean() / 2
    return BlockScores(
        rmse=float(np.sqrt(square.mean())),
        explained=float(1 - square.mean() / spread),
        coverage={level: float(share.mean()) for level, share in zip(LEVELS, inside, strict=True)},
        rmse_of_folds=tuple(float(np.sqrt(square[fold == k].mean())) for k in range(folds)),
    )


def _checked(points: Any, vectors: Any, sigma: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Points, vectors and standard errors of measurements as arrays; refused if they cannot be."""
    points, vectors = np.asarray(points, float), np.asarray(vectors, float)
    if points.ndim != 2 or points.shape[1] != 3 or vectors.shape != points.shape:
        raise ShapeError(f"expected points and vectors (n, 3), got {points.shape} and {vectors.shape}.")
    if not (np.isfinite(points).all() and np.isfinite(vectors).all()):
        raise NonFiniteError("points and vectors must be finite. Leave missing measurements out.")
    if np.abs(np.linalg.norm(points, axis=1) - 1).max(initial=0.0) > 1e-6:
        raise InvalidInputError("points must lie on the unit sphere. Divide them by the Earth's radius.")
    if sigma is None:
        return points, vectors, None
    errors = np.asarray(sigma, float)
    if errors.shape not in ((), (len(points),)):
        raise ShapeError(f"sigma must be a number or one for each of {len(points)} measurements, got {errors.shape}.")
    if not (np.isfinite(errors) & (errors > 0)).all():
        raise InvalidInputError("sigma must be positive and finite: the standard error of each measurement.")
    return points, vectors, np.broadcast_to(errors, (len(points),))
