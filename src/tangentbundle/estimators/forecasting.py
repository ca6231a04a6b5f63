"""What a forecasting method is given, anomalies on a regular clock, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .calibration import tail
from .tangents import TangentSpaces

QUANTILES = 500
"""Of errors, kept to tell their tails."""


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


@dataclass(frozen=True, eq=False)
class Judged:
    """What forecasts of times that were not learnt from tell of one lead.

    ``factor`` in [0, 1] is the slope of the truth on them; ``skill`` the share of the anomalies' energy they explain
    with it, ``variance (n,)`` that of a coordinate's error, ``residuals (q,)`` quantiles of standardised errors.
    """

    factor: float
    skill: float
    variance: np.ndarray
    residuals: np.ndarray

    @classmethod
    def of(cls, guess: np.ndarray, target: np.ndarray) -> Judged:
        """From forecasts ``(m, n, d)`` and what came.

        >>> told = Judged.of(np.full((4, 2, 1), 2.0), np.ones((4, 2, 1)))
        >>> told.factor, told.skill
        (0.5, 1.0)
        """
        factor = float(np.clip((guess * target).sum() / max(np.square(guess).sum(), 1e-300), 0.0, 1.0))
        errors = factor * guess - target
        variance = np.square(errors).mean(axis=(0, 2))
        skill = 1 - float(variance.mean()) / max(float(np.square(target).mean()), 1e-300)
        return cls(factor, skill, variance, standardised(errors, variance))


def standardised(errors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Quantiles ``(q,)`` of the sizes of errors ``(m, n, d)`` in units of their standard deviations."""
    sizes = np.abs(errors) / np.sqrt(np.maximum(variance, 1e-300))[:, None]
    return np.quantile(sizes, (np.arange(QUANTILES) + 0.5) / QUANTILES)


def held_apart(origins: np.ndarray, first: float, end: float, span: int) -> np.ndarray:
    """Which origins are ``span`` steps or more away from those held out, ``first`` to before ``end``."""
    return (origins < first - span) | (origins >= end + span)


class Predictor(ABC):
    """A fitted method: forecasts of anomalies from recent ones, and how good they are for windows of some length."""

    record: Record
    least: int = 1
    """Recent fields it needs to be as good as it says."""

    @abstractmethod
    def predict(self, recent: np.ndarray, horizon: int, mean: np.ndarray) -> np.ndarray:
        """The next anomalies ``(H, n, d)`` after recent ones ``(W, n, d)`` about a mean field ``(n, d)``."""

    @abstractmethod
    def judged(self, length: int, horizon: int) -> Sequence[Judged]:
        """How good forecasts are, for each lead with any skill; anomalies are zero beyond."""

    @abstractmethod
    def held_out(self, h: int, length: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Times ``(m,)`` and forecasts ``(m, n, d)`` of h steps later by models that had not seen these."""

    def variance(self, length: int, horizon: int) -> np.ndarray:
        """The variance ``(H, n)`` of a coordinate's error."""
        known = [lead.variance for lead in self.judged(length, horizon)]
        return np.stack(known + [self._rest()[0]] * (horizon - len(known)))

    def memory(self, length: int, horizon: int) -> np.ndarray:
        """The share ``(H,)`` of an anomaly that is still in its forecast: an error of the climate shrinks by it."""
        known = [np.sqrt(max(lead.skill, 0.0)) for lead in self.judged(length, horizon)]
        return np.array(known + [0.0] * (horizon - len(known)))

    def tails(self, level: float, length: int, horizon: int) -> np.ndarray:
        """Half widths ``(H,)`` of central intervals in standard deviations."""
        known = [tail(level, lead.residuals) for lead in self.judged(length, horizon)]
        return np.array(known + [tail(level, self._rest()[1])] * (horizon - len(known)))

    def _rest(self) -> tuple[np.ndarray, np.ndarray]:
        """The variance ``(n,)`` of anomalies, and their standardised sizes."""
        a = self.record.anomalies[self.record.observed]
        variance = np.square(a).mean(axis=(0, 2))
        return variance, standardised(a, variance)


class Direct(Predictor):
    """Forecasts of several leads at once, with what was forecast ``guesses (reach, m, n, d)`` at times ``held (m,)``
    that were not learnt from.
    """

    held: np.ndarray
    guesses: np.ndarray

    @abstractmethod
    def raw(self, recent: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The next anomalies ``(reach, n, d)`` as they come, to be shrunk."""

    def predict(self, recent: np.ndarray, horizon: int, mean: np.ndarray) -> np.ndarray:
        out, known = np.zeros((horizon, *recent.shape[1:])), min(horizon, len(self.guesses))
        factors = np.array([lead.factor for lead in self.judged(len(recent), known)])
        out[:known] = factors[:, None, None] * self.raw(recent, mean)[:known]
        return out

    def judged(self, length: int, horizon: int) -> list[Judged]:
        return self._told[:horizon]

    def held_out(self, h: int, length: int) -> tuple[np.ndarray, np.ndarray] | None:
        if h > len(self.guesses):
            return None
        seen = self.record.observed[self.held + h]
        return self.held[seen], self._told[h - 1].factor * self.guesses[h - 1][seen]

    @cached_property
    def _told(self) -> list[Judged]:
        told = []
        for h, guess in enumerate(self.guesses, start=1):
            seen = self.record.observed[self.held + h]
            told.append(Judged.of(guess[seen], self.record.anomalies[self.held[seen] + h]))
        return told


class ForecastMethod(ABC):
    """A way to forecast anomalies."""

    @abstractmethod
    def fit(self, record: Record) -> Predictor: ...
