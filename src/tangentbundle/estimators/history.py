"""Past fields of the same system, at points of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import float_tensor, require_values
from ..errors import NonFiniteError, ShapeError, TooFewPointsError
from ..geometry.nearest_points import NearestPoints
from .row_order import RowOrder

TAPER_LENGTH = 0.5
"""Where lengths of tapers start, and the longest displacement. Points have distance one from their
centre."""

MAX_DISPLACEMENTS = 4
"""Most displacements in each direction: more of them are nearly the same fields."""

MAX_SAMPLES = 10_000
"""Most components of all displaced fields at a site, which bounds memory. A history with more
fields needs no further samples."""

MIN_MOMENT = 1e-12
"""Smallest mean square that is divided by; data have mean square one."""

NEIGHBORS = 16
"""Points from which a history is interpolated."""

LEFT_OUT_POINTS = 100
"""Points of a history at which its interpolation is tested, at most."""


class InterpolationErrors(NamedTuple):
    """Sums over components of mean squared errors at left-out points, which are ``spacing`` from
    their nearest point."""

    of_anomalies: float
    of_mean: float
    spacing: float


@dataclass(frozen=True, eq=False)
class History:
    """Past ambient fields ``(T, m, D)`` at points ``(m, D)``, which need not be those of the
    observations. ``mean_share`` is the part of their mean that is expected now."""

    points: np.ndarray
    fields: np.ndarray
    mean_share: float = 1.0

    @classmethod
    def of(cls, points: np.ndarray, fields: np.ndarray) -> History:
        if len(points) < 3:
            raise TooFewPointsError(
                f"history needs fields at 3 points or more, got {len(points)}. Give more, or none."
            )
        fields = checked_fields(fields, points.shape, 8, "history (at history_points)")
        order = RowOrder.of(points)
        return cls(order.sorted(points), order.sorted(fields, axis=1))

    def scaled(self, center: np.ndarray, unit: float, factor: float) -> History:
        """Points centred and divided by ``unit``, fields multiplied by ``factor``."""
        points = (self.points - center) / unit
        return replace(self, points=points, fields=self.fields * factor)

    def with_mean_of(self, points: np.ndarray, vectors: np.ndarray, weights: np.ndarray) -> History:
        r"""With the share s from 0 to 1 of the mean that is nearest to ``vectors (n, D)`` at
        ``points (n, D)`` with ``weights`` w ``(n,)``,
        :math:`s = \sum_i w_i y_i^T \mu_i / \sum_i w_i \mu_i^T \mu_i`.

        >>> points, fields = np.random.default_rng(0).standard_normal((2, 20, 3))
        >>> history = History(points, np.stack([fields, 3 * fields]))
        >>> history.with_mean_of(points, fields, np.ones(20)).mean_share
        0.5
        """
        mean = replace(self, mean_share=1.0).mean(points)
        energy = float(weights @ np.square(mean).sum(axis=1))
        share = float(weights @ (vectors * mean).sum(axis=1)) / max(energy, MIN_MOMENT)
        return replace(self, mean_share=float(np.clip(share, 0.0, 1.0)))

    def at(self, points: np.ndarray) -> np.ndarray:
        """The past fields at other points ``(T, n, D)``."""
        count = len(self.fields)
        m, D = self.points.shape
        columns = self.fields.transpose(1, 0, 2).reshape(m, count * D)
        interpolated = self._interpolate(self.points, columns, points)
        return interpolated.reshape(len(points), count, D).transpose(1, 0, 2)

    def mean(self, points: np.ndarray) -> np.ndarray:
        """The expected field ``(n, D)``: the share ``mean_share`` of the mean of past fields."""
        mean = self.mean_share * self.fields.mean(axis=0)
        return self._interpolate(self.points, mean, points)

    def displaced(self, points: np.ndarray, axes: np.ndarray, dim: int) -> Iterator[np.ndarray]:
        """Normalized anomalies ``(n, D, T)`` at the points displaced by each of a few vectors.

        The vectors lie at equal steps along the columns of ``axes (D, k)``, in both directions.
        Their number is bounded by that of anomalies of ``dim`` components.
        """
        count = MAX_SAMPLES // (2 * axes.shape[1] * dim * len(self.fields))
        count = min(count, MAX_DISPLACEMENTS)
        for step in range(1, count + 1):
            for axis in axes.T:
                vector = TAPER_LENGTH * step / count * axis
                for displacement in (vector, -vector):
                    nearest = self._tree.query(points + displacement)[1]
                    yield self._normalized_anomalies[nearest]

    def variances_between_points(
        self, places: np.ndarray, amplitude: float, dim: int
    ) -> np.ndarray:
        """Variances ``(m,)`` of each of ``dim`` coordinates of a field at places between those of
        the history, where the past was interpolated.

        They grow linearly with the distance from the nearest point of the history, as those of
        rough fields do, up to the variance of the past fields. The anomalies of the field are
        ``amplitude`` times as large as those of the past.
        """
        errors = self._interpolation_errors
        if errors.spacing == 0.0:
            return np.zeros(len(places))
        distances = self._tree.query(places)[0] / errors.spacing
        largest = max(self.variance, errors.of_anomalies)
        of_anomalies = np.minimum(distances * errors.of_anomalies, largest)
        of_mean = np.minimum(distances, 1.0) * errors.of_mean
        return (amplitude**2 * of_anomalies + of_mean) / dim

    @cached_property
    def variance(self) -> float:
        """The mean squared length of the anomalies."""
        anomalies = self.fields - self.fields.mean(axis=0)
        return float(np.square(anomalies).sum(axis=2).mean())

    @cached_property
    def _interpolation_errors(self) -> InterpolationErrors:
        """Found by leaving out one point at a time."""
        points, unique = np.unique(self.points, axis=0, return_index=True)
        if len(points) < 3:
            return InterpolationErrors(0.0, 0.0, 0.0)
        fields = self.fields[:, unique]
        search = NearestPoints(points)
        step = -(-len(points) // LEFT_OUT_POINTS)
        errors = []
        spacings = []
        for row in range(0, len(points), step):
            distances, indices = search.query(points[row], k=min(NEIGHBORS + 1, len(points)))
            others = indices[1:]
            columns = fields[:, others].transpose(1, 0, 2).reshape(len(others), -1)
            estimate = self._interpolate(points[others], columns, points[[row]])
            errors.append(estimate.reshape(-1, fields.shape[2]) - fields[:, row])
            spacings.append(distances[1])
        error = np.stack(errors)  # (rows, T, D)
        of_mean = error.mean(axis=1)
        of_anomalies = error - of_mean[:, None]
        return InterpolationErrors(
            of_anomalies=float(np.square(of_anomalies).sum(axis=2).mean()),
            of_mean=float(np.square(of_mean).sum(axis=1).mean()),
            spacing=float(np.mean(spacings)),
        )

    @cached_property
    def _tree(self) -> NearestPoints:
        return NearestPoints(self.points)

    @cached_property
    def _normalized_anomalies(self) -> np.ndarray:
        """Those at the points of the history ``(m, D, T)``, in the order in which they are read."""
        anomalies = self.fields - self.fields.mean(axis=0)
        return np.ascontiguousarray(normalized(anomalies.transpose(1, 2, 0)))

    @staticmethod
    def _interpolate(points: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        if np.array_equal(points, places):
            return values
        from scipy.interpolate import RBFInterpolator  # slow to import

        # coincident points have no interpolant
        _, unique = np.unique(points, axis=0, return_index=True)
        neighbors = min(NEIGHBORS, len(unique))
        return RBFInterpolator(
            points[unique], values[unique], neighbors=neighbors, kernel="linear", degree=0
        )(places)


def checked_fields(fields: Any, shape: tuple[int, ...], fewest: int, name: str) -> np.ndarray:
    """Ambient vectors ``(T, n, D)`` at points of this shape ``(n, D)``, finite and at ``fewest``
    times or more."""
    tensor = require_values(float_tensor(fields, name)[0], name)
    values = tensor.double().numpy(force=True)
    if values.ndim != 3 or values.shape[1:] != shape:
        expected = f"(T, n, D) = (T, {shape[0]}, {shape[1]})"
        raise ShapeError(
            f"{name}: expected ambient vectors {expected}, one for each point, got {values.shape}."
        )
    if len(values) < fewest:
        raise ShapeError(
            f"{name}: expected at least {fewest} fields, got {len(values)}. Give more."
        )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=(1, 2)))
    if len(bad):
        raise NonFiniteError(
            f"{name}: {len(bad)} fields hold NaN or infinite values, the first is number "
            f"{bad[0]}. Drop those fields (a series then needs times=), or fill them."
        )
    return values


def recolored(samples: np.ndarray, anomalies: np.ndarray) -> np.ndarray:
    """Samples ``(n, p, S)`` multiplied at each site by the matrix that gives them the second
    moments of ``anomalies (n, p, T)``.

    >>> samples, anomalies = np.random.default_rng(0).standard_normal((2, 3, 2, 50))
    >>> new = recolored(samples, 3 * anomalies)
    >>> np.allclose(new @ new.swapaxes(1, 2), 9 * anomalies @ anomalies.swapaxes(1, 2))
    True
    """
    color = _power(_second_moments(anomalies), 0.5)
    whiten = _power(_second_moments(samples), -0.5)
    return (color @ whiten) @ samples


def _second_moments(samples: np.ndarray) -> np.ndarray:
    return samples @ samples.swapaxes(1, 2) / samples.shape[2]


def _power(matrices: np.ndarray, exponent: float) -> np.ndarray:
    """Powers of symmetric positive semidefinite matrices ``(n, p, p)``."""
    values, vectors = np.linalg.eigh(matrices)
    powers = np.maximum(values, MIN_MOMENT) ** exponent
    return (vectors * powers[:, None, :]) @ vectors.swapaxes(1, 2)


def normalized(anomalies: np.ndarray) -> np.ndarray:
    """Anomalies ``(n, p, T)`` divided by their root mean square length at each of n points."""
    sizes = np.sqrt(np.square(anomalies).sum(axis=1).mean(axis=1))
    return anomalies / np.maximum(sizes, np.sqrt(MIN_MOMENT))[:, None, None]
