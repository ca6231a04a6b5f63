"""What a forecasting method is given, anomalies on a regular clock, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .calibration import tail
from .tangents import TangentSpaces


@dataclass(frozen=True, eq=False)
class Record:
    """Anomalies ``(T, n, d)`` on a regular clock; ``observed (T,)`` is false where they were filled in.

    ``usable (T,)`` is false where they could not be; ``mean (n, d)`` is the field they depart from. ``more`` is a
    record of the same times at these points and, after them, at others.
    """

    anomalies: np.ndarray
    observed: np.ndarray
    usable: np.ndarray
    mean: np.ndarray
    spaces: TangentSpaces
    rng: np.random.Generator
    more: Record | None = None

    def origins(self, lead: int, lags: int) -> np.ndarray:
        """Times with ``lags`` usable fields up to them and an observed field ``lead`` steps later."""
        t = np.arange(lags - 1, len(self.anomalies) - lead)
        fine = self.observed[t + lead]
        for lag in range(lags):
            fine = fine & self.usable[t - lag]
        return t[fine]


class Predictor(ABC):
    """A fitted method: forecasts of anomalies from recent ones."""

    @abstractmethod
    def predict(self, recent: np.ndarray, horizon: int) -> np.ndarray:
        """The next anomalies ``(H, n, d)`` after recent ones ``(W, n, d)``."""

    @abstractmethod
    def variance(self, length: int, horizon: int) -> np.ndarray:
        """The variance ``(H, n)`` of a coordinate's error, from cross-validation, for windows of some length."""

    def memory(self, length: int, horizon: int) -> np.ndarray:
        """The share ``(H,)`` of an anomaly that is still in its forecast: an error of the climate shrinks by it."""
        return np.zeros(horizon)

    def tails(self, level: float, length: int, horizon: int) -> np.ndarray:
        """Half widths ``(H,)`` of central intervals in standard deviations; Gaussian ones unless a method knows."""
        return np.full(horizon, tail(level, None))


class ForecastMethod(ABC):
    """A way to forecast anomalies."""

    @abstractmethod
    def fit(self, record: Record) -> Predictor: ...
