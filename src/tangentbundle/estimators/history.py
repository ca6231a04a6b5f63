"""Past fields of the same system, at points of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import float_tensor, require_values
from ..errors import NonFiniteError, ShapeError, TooFewPointsError
from ..geometry.nearest_points import NearestPoints

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
    observations."""

    points: np.ndarray
    fields: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, fields: np.ndarray) -> History:
        if len(points) < 3:
            raise TooFewPointsError(
                f"history needs fields at 3 points or more, got {len(points)}. Give more, or none."
            )
        return cls(points, checked_fields(fields, points.shape, 8, "history (at history_points)"))

    def scaled(self, center: np.ndarray, unit: float, factor: float) -> History:
        """Points centred and divided by ``unit``, fields multiplied by ``factor``."""
        return History((self.points - center) / unit, self.fields * factor)

    def at(self, points: np.ndarray) -> np.ndarray:
        """The past fields at other points ``(T, n, D)``."""
        count = len(self.fields)
        m, D = self.points.shape
        columns = self.fields.transpose(1, 0, 2).reshape(m, count * D)
        interpolated = self._interpolate(self.points, columns, points)
        return interpolated.reshape(len(points), count, D).transpose(1, 0, 2)

    def mean(self, points: np.ndarray) -> np.ndarray:
        """The mean of the past fields ``(n, D)``."""
        return self._interpolate(self.points, self.fields.mean(axis=0), points)

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
        distances = self._search.query(places)[0] / errors.spacing
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
    def _search(self) -> NearestPoints:
        return NearestPoints(self.points)

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
