r"""Measurements with errors, at stations, ships and drifters: means over blocks, and
cross-validation by blocks."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..manifolds import Sphere
from . import radians


def block_numbers(points: np.ndarray, size: str | float) -> np.ndarray:
    """The number of the block ``(n,)`` of each point ``(n, 3)`` of the unit sphere; size 0 numbers
    coincident places.

    Blocks lie in bands of latitude of the height ``size``, and are about as wide.

    >>> points = Sphere(2).sample(1000, seed=0)
    >>> len(np.unique(block_numbers(points, "5000 km"))), len(np.unique(block_numbers(points, 0)))
    (20, 1000)
    """
    if (height := radians(size)) == 0:
        keys = np.round(points, 9) + 0.0  # a centimetre on the Earth; no negative zeros
    else:
        bands = max(1, round(np.pi / height))
        band = np.minimum(
            (np.arccos(np.clip(points[:, 2], -1, 1)) / np.pi * bands).astype(int), bands - 1
        )
        around = np.maximum(np.round(2 * bands * np.sin((band + 0.5) / bands * np.pi)), 1)
        turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
        keys = np.stack([band, (turn * around).astype(int)], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()


class Blocks(NamedTuple):
    """One measurement for each block: mean place and vector ``(m, 3)``, its error (None if
    unknown), and how many."""

    points: np.ndarray
    vectors: np.ndarray
    sigma: np.ndarray | None
    counts: np.ndarray


def block_reduce(points: Any, vectors: Any, sigma: Any = None, *, size: str | float = 0) -> Blocks:
    r"""Means of measurements ``vectors (n, 3)`` in blocks of a size such as ``"100 km"``; 0 joins
    coincident places.

    Vectors are carried along great circles to the mean place. With standard errors ``sigma``, a
    number or ``(n,)``, the weights are :math:`\sigma_k^{-2}` and the error of the mean is
    :math:`(\sum_k \sigma_k^{-2})^{-1/2}`.

    >>> east = np.array([[0.0, 1.0, 0.0], [0.0, 4.0, 0.0]])
    >>> found = block_reduce(np.array([[1.0, 0.0, 0.0]] * 2), east, [1.0, 2.0])
    >>> found.vectors.round(3).tolist(), found.sigma.round(3).tolist(), found.counts.tolist()
    ([[0.0, 1.6, 0.0]], [0.894], [2])
    """
    points, vectors, errors = _checked(points, vectors, sigma)
    block, weights = (
        block_numbers(points, size),
        np.ones(len(points)) if errors is None else errors**-2.0,
    )

    def total(values: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(block, weights * column) for column in values.T], axis=1)

    place, weight = total(points), np.bincount(block, weights)
    place /= np.linalg.norm(place, axis=1, keepdims=True)
    there = place[block]
    tilt = np.einsum("nd,nd->n", vectors, there) / (1 + np.einsum("nd,nd->n", points, there))
    mean = total(vectors - tilt[:, None] * (points + there)) / weight[:, None]
    return Blocks(place, mean, None if errors is None else weight**-0.5, np.bincount(block))


class BlockScores(NamedTuple):
    """Errors of predictions in blocks that were left out, over both tangent components of all
    measurements.

    ``rmse`` is in the unit of the measurements, ``explained`` the share of their variance that is
    predicted, and ``coverage`` the share of them inside central intervals, by the level of these.
    """

    rmse: float
    explained: float
    coverage: dict[float, float]


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
    """Cross-validation of a ``FieldInterpolator``: a measurement is left out with all others in its
    block.

    Blocks are dealt to ``folds`` at random, and each fold is predicted from the others. ``sigma``
    are standard errors of the measurements, a number or ``(n,)``; without them one level of noise
    is estimated.

    >>> import tangentbundle as tb
    >>> sphere = Sphere(2)
    >>> points = sphere.sample(100, seed=0)
    >>> model = tb.FieldInterpolator(
    ...     covariance=tb.estimators.helmholtz_covariance(), manifold=sphere, random_state=0
    ... )
    >>> scores = block_cv(model, points, sphere.gradient_field(points, 2), 0.1, size="2000 km")
    >>> scores.explained > 0.9, sorted(scores.coverage)
    (True, [0.5, 0.9])
    """
    from sklearn.base import clone

    points, vectors, errors = _checked(points, vectors, sigma)
    block = block_numbers(points, size)
    blocks = int(block.max()) + 1
    if not isinstance(folds, Integral) or not 2 <= folds <= blocks:
        raise InvalidInputError(
            f"folds must be an integer from 2 to {blocks}, the blocks of size {size}; got {folds}."
        )
    fold = np.random.default_rng(random_state).permutation(blocks)[block] % folds
    off, inside = (
        np.empty((len(points), 2)),
        {level: np.empty((len(points), 2), bool) for level in (0.5, 0.9)},
    )
    for out in (fold == number for number in range(folds)):
        model = clone(estimator).fit(
            points[~out], vectors[~out], None if errors is None else errors[~out]
        )
        mean, covariance = model.predict(points[out], return_cov=True, with_noise=errors is None)
        frames = Sphere(2).frames(points[out])
        off[out] = np.einsum("nda,nd->na", frames, vectors[out] - mean)
        variance = np.einsum("nda,nde,nea->na", frames, covariance, frames)
        std = np.sqrt(variance + (0.0 if errors is None else errors[out, None] ** 2))
        for level, held in inside.items():
            held[out] = np.abs(off[out]) <= model.interval_width(level) * std
    spread = np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean() / 2
    coverage = {level: float(held.mean()) for level, held in inside.items()}
    return BlockScores(
        float(np.sqrt(np.square(off).mean())), float(1 - np.square(off).mean() / spread), coverage
    )


def _checked(
    points: Any, vectors: Any, sigma: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Points, vectors and standard errors of measurements as arrays; refused if they cannot be."""
    points, vectors = np.asarray(points, float), np.asarray(vectors, float)
    errors = np.asarray(1.0 if sigma is None else sigma, float)
    if points.ndim != 2 or points.shape[1] != 3 or vectors.shape != points.shape or not len(points):
        raise ShapeError(
            f"expected points and vectors (n, 3), got {points.shape} and {vectors.shape}."
        )
    if errors.shape not in ((), (len(points),)):
        raise ShapeError(
            f"sigma must be a number or one for each of {len(points)} measurements, got "
            f"{errors.shape}."
        )
    if not all(np.isfinite(values).all() for values in (points, vectors, errors)):
        raise NonFiniteError(
            "points, vectors and sigma must be finite. Leave missing measurements out."
        )
    if not (errors > 0).all():
        raise InvalidInputError(
            f"sigma, the standard errors, must be positive, got {errors.min():g}."
        )
    if (away := np.abs(np.linalg.norm(points, axis=1) - 1).max()) > 1e-6:
        raise InvalidInputError(
            f"points must lie on the unit sphere, got one {away:.2g} off. Divide by the norm."
        )
    return points, vectors, None if sigma is None else np.broadcast_to(errors, (len(points),))
