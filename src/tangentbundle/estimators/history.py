"""Past fields of the same system, at points of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import float_tensor, require_values
from ..errors import NonFiniteError, ShapeError, TooFewPointsError


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

    @staticmethod
    def _interpolate(points: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        if np.array_equal(points, places):
            return values
        from scipy.interpolate import RBFInterpolator  # slow to import

        # coincident points have no interpolant
        _, unique = np.unique(points, axis=0, return_index=True)
        neighbors = min(16, len(unique))
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
