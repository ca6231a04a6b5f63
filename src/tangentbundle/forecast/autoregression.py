r"""Linear forecasts of anomalies: coefficients shared by all points, and corrections at each.

With vectors :math:`s_{ki}` formed of the neighbours of a point: smoothed fields, derivatives along
the mean field, which carries anomalies along as a wind does, and the ``patterns`` of
``Surroundings``; and with the speed :math:`u_i` of the mean field,

.. math:: \hat a_i(t+h) = b_h \Big[\sum_l \alpha_{hl}\, a_i(t-l)
          + \sum_{l,k} (\beta_{hlk} + \gamma_{hlk} u_i)\, s_{ki}(t-l) + B_{hi}^T x_i(t)\Big].

The shared coefficients are found by least squares over all points and times. The features
:math:`x_i` of a point are its own latest vectors and its neighbours', carried to its frame; ridge
regression of what the shared part leaves gives the matrices

.. math:: B_{hi} = \big(\overline{x x^T} + \lambda I\big)^{-1} \overline{x\, r_h^T}.

Time-blocked cross-validation gives :math:`\lambda`, the damping b and the errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import positive_integer
from ..errors import InvalidInputError
from .features import FeatureMap, Features
from .methods import FittedMethod, ForecastMethod, HeldOut, Record
from .regression import PARTS, Coefficients, Moments

MIN_TARGETS = 8
"""Fewest later fields to learn from."""


@dataclass(frozen=True)
class Autoregression(ForecastMethod):
    """Method of ``FieldForecaster``: shared regression on lags, neighbours and the mean flow, with
    corrections at each point.

    Args:
        lags: steps back of own vectors; those beyond the recent window or a sixteenth of the record
            are left out.
        reach: largest lead time with coefficients; anomalies are zero beyond.
        neighbors: number of neighbours.
        penalties: candidates for the ridge penalty of corrections, in units of the mean variance of
            a feature; infinity stands for no corrections.
    """

    lags: tuple[int, ...] = (0, 1, 2, 3, 4, 7)
    reach: int = 24
    neighbors: int = 16
    penalties: tuple[float, ...] = (np.inf, 10.0, 5.0, 2.0, 1.0, 0.5, 0.1, 0.01)

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
        return LinearForecast(
            record=record,
            reach=min(self.reach, count // 4),
            window=lags[-1] + 1,
            method=self,
            lags=lags,
        )


@dataclass(eq=False)
class LinearForecast(FittedMethod):
    """Regressions for recent windows of any length, computed when first needed."""

    method: Autoregression
    lags: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._feature_map = FeatureMap(self.record, self.method.neighbors)
        self._features: dict[int, Features] = {}
        self._moments: dict[int, Moments] = {}
        self._coefficients: dict[tuple[int, int], Coefficients] = {}

    def forecast(self, recent: np.ndarray, leads: int) -> np.ndarray:
        window = len(recent)
        features = self._feature_map(recent, self._lags(window))
        latest = np.array([window - 1])
        coefficients = [self._coefficients[lead, window] for lead in range(1, leads + 1)]
        return np.stack([lead.forecast(features, latest)[0] for lead in coefficients])

    def evaluate(self, lead: int, window: int) -> HeldOut | None:
        if window not in self._moments:
            self._learn(window)
        features = self._features[window]
        moments = self._moments[window]
        is_scored = np.isin(moments.origins, self.record.origins(lead, window))
        origins = moments.origins[is_scored]
        part_of = moments.part_of[is_scored]
        truth = self.record.anomalies[origins + lead]
        penalties = self.method.penalties
        forecasts = np.zeros((len(penalties), *truth.shape))
        numbers = np.arange(PARTS)
        gap = int(np.ceil((lead + window - 1) / max(moments.counts[0], 1)))
        for first in range(0, PARTS, 2):
            is_held_out = (part_of == first) | (part_of == first + 1)
            chosen = (numbers < first - gap) | (numbers > first + 1 + gap)
            if moments.targets[chosen, lead - 1].sum() < MIN_TARGETS:
                return None
            held_out = origins[is_held_out]
            candidates = moments.coefficients(lead, chosen, penalties)
            shared = features.combined(candidates[0].shared, held_out)
            for k, coefficients in enumerate(candidates):
                forecasts[k, is_held_out] = shared + coefficients.correction(features, held_out)
        errors = np.square(forecasts - truth).mean(axis=(1, 2, 3))
        best = int(errors.argmin())
        all_parts = np.ones(PARTS, bool)
        final = moments.coefficients(lead, all_parts, (penalties[best],))
        self._coefficients[lead, window] = final[0]
        return HeldOut(forecasts[best], self.record.anomalies[origins], truth)

    def _learn(self, window: int) -> None:
        """Features and moments of all origins with so many recent fields."""
        origins = self.record.origins(0, window)
        features = self._feature_map(self.record.anomalies, self._lags(window))
        self._features[window] = features
        self._moments[window] = Moments(self.record, features, origins, self.reach)

    def _lags(self, window: int) -> list[int]:
        """Those for which a window is long enough."""
        return [lag for lag in self.lags if lag < window]
