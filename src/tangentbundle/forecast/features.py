r"""What regressions know of a series at each time: terms with coefficients that all points share,
and numbers for corrections at each point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..manifolds.base import Landmarks
from ..memory import require_memory
from .methods import Record
from .surroundings import Surroundings

LATEST_LAGS = 2
"""Latest fields whose neighbours are features."""

FASTEST = 2.0
"""Speeds of the mean field, in units of their root mean square, count as this at most."""


FIELDS_HELD = 200
"""About so many fields for each one of the series are in memory at once: patterns, neighbours, and
copies of them."""


class Term(NamedTuple):
    """Vectors ``fields (T, n, d)`` of ``lag`` steps ago, times ``scale (n, 1)``."""

    fields: np.ndarray
    lag: int
    scale: np.ndarray

    def at(self, origins: np.ndarray) -> np.ndarray:
        """``(m, n, d)``."""
        return self.fields[origins - self.lag] * self.scale


class Features:
    """Features of fields ``(T, n, d)``: s ``terms`` and numbers ``local (T, n, f)``."""

    def __init__(self, terms: list[Term], local: np.ndarray) -> None:
        self.terms = terms
        self.local = local

    def shared_at(self, origins: np.ndarray) -> np.ndarray:
        """All terms ``(m, n, d, s)``."""
        return np.stack([term.at(origins) for term in self.terms], axis=-1)

    def combined(self, coefficients: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """The sum ``(m, n, d)`` of the terms times coefficients ``(s,)``."""
        total = np.zeros((len(origins), *self.terms[0].fields.shape[1:]))
        for coefficient, term in zip(coefficients, self.terms, strict=True):
            total += coefficient * term.at(origins)
        return total


class FeatureMap:
    """From fields to features, at the points of a record.

    Coefficients depend on a point by the size of its anomalies and the speed of the mean field, and
    where the manifold has landmarks, by these.
    """

    def __init__(self, record: Record, neighbors: int) -> None:
        self._surroundings = Surroundings(record.points, record.frames, neighbors)
        self._mean_flow = self._surroundings.smoothed(record.mean[None])[0]
        speeds = np.linalg.norm(self._mean_flow, axis=1, keepdims=True)
        typical_speed = np.sqrt(np.square(speeds).mean()) + 1e-300
        energy = np.maximum(np.square(record.anomalies).mean(axis=(0, 2)), 1e-300)
        self._ones = np.ones_like(speeds)
        self._speeds = np.minimum(speeds / typical_speed, FASTEST)
        self._landmarks: Landmarks | None = None
        if record.manifold is not None:
            self._landmarks = record.manifold.landmarks(record.points)
        if self._landmarks is not None:
            self._bases_of_landmarks = np.einsum(
                "nia,nib->nab", record.frames, self._landmarks.bases
            )
        self._log_sizes = (np.log(energy) - np.log(energy).mean())[:, None]

    def __call__(self, fields: np.ndarray, lags: list[int]) -> Features:
        """Of fields ``(T, n, d)``, of which those of ``lags`` steps ago are used."""
        require_memory(
            8.0 * FIELDS_HELD * fields.size,
            f"features of {len(fields)} fields at {fields.shape[1]} points",
            "Give fewer fields or points, or forecast with Persistence().",
        )
        latest_lags = lags[:LATEST_LAGS]
        terms = [Term(fields, lag, self._ones) for lag in lags]
        terms += [Term(fields, lag, self._log_sizes) for lag in latest_lags]
        terms += self._with_neighbors(self._around(fields), latest_lags, self._speeds)
        if self._landmarks is not None:
            bases = self._bases_of_landmarks
            patterns = self._surroundings.directed_patterns(bases, fields)
            position = self._landmarks.position[:, None]
            terms += self._with_neighbors(_one_by_one(patterns), latest_lags, position)
        return Features(terms, self._local(fields, latest_lags))

    def _with_neighbors(
        self, vectors: list[np.ndarray], lags: list[int], scale: np.ndarray
    ) -> list[Term]:
        """Terms of vectors ``(T, n, d)`` at all lags, as they are and scaled."""
        terms = []
        for around in vectors:
            for lag in lags:
                terms.append(Term(around, lag, self._ones))
                terms.append(Term(around, lag, scale))
        return terms

    def _around(self, fields: np.ndarray) -> list[np.ndarray]:
        """Vectors ``(T, n, d)`` formed of those of neighbours."""
        surroundings = self._surroundings
        smoothed = surroundings.smoothed(fields)
        moved = surroundings.derivative(self._mean_flow, fields)
        patterns = surroundings.patterns(self._mean_flow, fields)
        return [
            smoothed,
            surroundings.smoothed(smoothed),
            moved,
            surroundings.derivative(self._mean_flow, moved),
            *_one_by_one(patterns),
        ]

    def _local(self, fields: np.ndarray, latest_lags: list[int]) -> np.ndarray:
        """Latest vectors of each point, and those of its neighbours, the nearest with the greatest
        weight ``(T, n, f)``."""
        weights = self._surroundings.weights[:, :, None]
        neighbors = self._surroundings.carried(fields) * weights
        count, n = neighbors.shape[:2]
        # before the first field nothing is known, and no origin lies there
        latest = [
            np.concatenate([fields[:1].repeat(lag, axis=0), fields[: count - lag]])
            for lag in latest_lags
        ]
        return np.concatenate([*latest, neighbors.reshape(count, n, -1)], axis=-1)


def _one_by_one(patterns: np.ndarray) -> list[np.ndarray]:
    """Fields ``(T, n, d)`` of patterns ``(T, n, d, q)``."""
    return list(np.ascontiguousarray(np.moveaxis(patterns, -1, 0)))
