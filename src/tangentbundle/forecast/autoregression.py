r"""Linear forecasts of anomalies from a point's own recent vectors and its neighbours' latest ones.

With features z of a point, its own lags and the neighbours' vectors now, carried to its frame and
weighted by distance,

.. math:: \hat a_i(t+h) = b_h\, B_{hi}^T z_i(t), \qquad
          B_{hi} = \big(\overline{z z^T} + \lambda I\big)^{-1}
          \big(\overline{z(t)\, a(t+h)^T} + \lambda P_h\big) :

ridge regression, shrunk to the damped persistence P of all points together. Time-blocked
cross-validation gives :math:`\lambda`, the damping b and the errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import positive_integer
from ..errors import InvalidInputError
from .methods import FittedMethod, ForecastMethod, HeldOut, Record

PARTS = 10
"""Parts of the record whose moments are stored apart: two are held out at a time, and others left
out around them."""


@dataclass(frozen=True)
class Autoregression(ForecastMethod):
    """Method of ``FieldForecaster``: ridge regression on own lags and neighbours.

    Args:
        lags: steps back of own vectors; those beyond the recent window or a sixteenth of the record
            are left out.
        reach: largest lead time with coefficients; anomalies are zero beyond.
        neighbors: number of neighbours.
        penalties: candidates for the ridge penalty, in units of the mean variance of a feature.
    """

    lags: tuple[int, ...] = (0, 1, 2)
    reach: int = 24
    neighbors: int = 10
    penalties: tuple[float, ...] = (10.0, 5.0, 2.0, 1.0, 0.5, 0.1, 0.01)

    def __post_init__(self) -> None:
        if 0 not in self.lags or min(self.lags) < 0:
            raise InvalidInputError(f"lags must include 0 and not be negative, got {self.lags}.")
        positive_integer(self.reach, "reach")
        positive_integer(self.neighbors, "neighbors")
        if min(self.penalties, default=0.0) <= 0:
            raise InvalidInputError(f"penalties must be positive, got {self.penalties}.")

    def fit(self, record: Record) -> FittedMethod:
        count = len(record.anomalies)
        lags = tuple(lag for lag in sorted(self.lags) if lag <= count // 16)
        return LinearForecast(record, min(self.reach, count // 4), lags[-1] + 1, self, lags)


class Moments:
    """Sums over origins ``(m,)`` for each part of time; ``parts (m,)`` numbers the part of an
    origin.

    Of features x ``(n, m, f)``: ``grams (p, n, f, f)``; of these and later anomalies y
    ``(n, m, leads, d)``, where ``known (m, leads)``: ``sides (p, leads, n, f, d)``;
    ``counts (p, 1 + leads)`` of the terms of each.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, known: np.ndarray) -> None:
        parts = np.array_split(np.arange(len(known)), PARTS)
        grams = [np.einsum("nmf,nmg->nfg", x[:, part], x[:, part], optimize=True) for part in parts]
        sides = [
            np.einsum("nmf,nmha->hnfa", x[:, part], y[:, part], optimize=True) for part in parts
        ]
        self.grams, self.sides = np.stack(grams), np.stack(sides)
        self.counts = np.array([[len(part), *known[part].sum(axis=0)] for part in parts])
        self.parts = np.repeat(np.arange(PARTS), [len(part) for part in parts])

    def solve(
        self, lead: int, chosen: np.ndarray, penalties: Sequence[float]
    ) -> Iterator[np.ndarray]:
        """Coefficients ``(n, f, d)`` for each penalty, from the chosen parts of time."""
        gram = self.grams[chosen].sum(axis=0, dtype=float) / self.counts[chosen, 0].sum()
        side = (
            self.sides[chosen, lead - 1].sum(axis=0, dtype=float) / self.counts[chosen, lead].sum()
        )
        f, d = side.shape[1:]
        persistence = (
            np.eye(f, d)
            * np.einsum("naa->", side[:, :d])
            / (np.einsum("naa->", gram[:, :d, :d]) + 1e-300)
        )
        for penalty in penalties:
            ridge = penalty * (np.einsum("nff->n", gram)[:, None, None] / f + 1e-300)
            yield np.linalg.solve(gram + ridge * np.eye(f), side + ridge * persistence)


@dataclass(eq=False)
class LinearForecast(FittedMethod):
    """Regressions for recent windows of any length, computed when first needed."""

    method: Autoregression
    lags: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        points, frames = self.record.points, self.record.frames
        away, self.near = cKDTree(points).query(
            points, k=min(self.method.neighbors, len(points) - 1) + 1
        )
        self.near[:, 0] = np.arange(len(points))  # also among repeated points
        self.weights = np.exp(-np.square(away[:, 1:] / (float(np.median(away[:, 1:9])) or 1.0)) / 2)
        self.maps = np.einsum("nia,nkib->nkab", frames, frames[self.near], optimize=True)
        self._moments: dict[int, Moments] = {}
        self._coefficients: dict[tuple[int, int], np.ndarray] = {}

    def forecast(self, recent: np.ndarray, leads: int) -> np.ndarray:
        window = len(recent)
        features = self._features(self._around(recent), np.array([window - 1]), window)[:, 0]
        coefficients = [self._coefficients[lead, window] for lead in range(1, leads + 1)]
        return np.einsum("nf,hnfa->hna", features, np.stack(coefficients))

    def evaluate(self, lead: int, window: int) -> HeldOut | None:
        if window not in self._moments:
            self._moments[window] = self._sums(window)
        moments, origins = self._moments[window], self.record.origins(0, window)
        scored = np.isin(origins, self.record.origins(lead, window))
        origins, parts = origins[scored], moments.parts[scored]
        truth = self.record.anomalies[origins + lead]
        features = self._features(self._around(self.record.anomalies), origins, window)
        forecasts = np.zeros((len(self.method.penalties), *truth.shape))
        gap, numbers = (
            int(np.ceil((lead + window - 1) / max(moments.counts[0, 0], 1))),
            np.arange(PARTS),
        )
        for first in range(0, PARTS, 2):
            held_out = (parts == first) | (parts == first + 1)
            chosen = (numbers < first - gap) | (numbers > first + 1 + gap)
            if moments.counts[chosen, lead].sum() < 8:  # too few times to learn from
                return None
            for k, coefficients in enumerate(moments.solve(lead, chosen, self.method.penalties)):
                forecasts[k, held_out] = np.einsum(
                    "nmf,nfa->mna", features[:, held_out], coefficients, optimize=True
                )
        best = int(np.square(forecasts - truth).mean(axis=(1, 2, 3)).argmin())
        (self._coefficients[lead, window],) = moments.solve(
            lead, numbers >= 0, self.method.penalties[best : best + 1]
        )
        return HeldOut(forecasts[best], self.record.anomalies[origins], truth)

    def _around(self, values: np.ndarray) -> np.ndarray:
        """Fields ``(T, n, d)`` at each point and its neighbours, in its coordinates:
        ``(n, T, k + 1, d)``."""
        return np.einsum("nkab,tnkb->ntka", self.maps, values[:, self.near], optimize=True)

    def _features(self, around: np.ndarray, origins: np.ndarray, window: int) -> np.ndarray:
        """Own lags and neighbours now ``(n, m, f)``, of fields ``(n, T, k + 1, d)``."""
        own = [around[:, origins - lag, 0] for lag in self.lags if lag < window]
        now = self.weights[:, None, :, None] * around[:, origins, 1:]
        return np.concatenate(
            [*own, now.reshape(*now.shape[:2], now.shape[2] * now.shape[3])], axis=-1
        )

    def _sums(self, window: int) -> Moments:
        values = self.record.anomalies
        origins = self.record.origins(0, window)
        later = origins[:, None] + np.arange(1, self.reach + 1)
        known = later < len(values)
        later = np.where(known, later, 0)
        known &= self.record.observed[later]
        around = self._around(values)
        return Moments(
            self._features(around, origins, window), around[:, later, 0] * known[:, :, None], known
        )
