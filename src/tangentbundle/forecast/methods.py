"""What a forecasting method is given, what it gives back, and the two simplest methods: climatology
and persistence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..manifolds import Manifold
from ..timeline import fill_single_gaps


@dataclass(frozen=True, eq=False)
class Record:
    """A training series: anomalies ``(T, n, d)`` at every step of a regular clock about a ``mean``
    ``(n, d)``, in frames ``(n, D, d)`` at points of a manifold, if it is known.

    ``observed (T,)`` is false where fields were filled in, ``usable (T,)`` where they are missing.
    """

    anomalies: np.ndarray
    observed: np.ndarray
    usable: np.ndarray
    mean: np.ndarray
    points: np.ndarray
    frames: np.ndarray
    manifold: Manifold | None = None

    def origins(self, lead: int, window: int) -> np.ndarray:
        """Steps with ``window`` usable fields up to them and an observed field ``lead`` steps
        later."""
        t = np.arange(window - 1, len(self.anomalies) - lead)
        usable = self.usable[t[:, None] - np.arange(window)].all(axis=1)
        return t[usable & self.observed[t + lead]]


def fill_gaps(values: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fields ``(T', n, d)`` at every step, whether each was observed, and whether it can be used.

    Gaps of one step are filled with the mean of their neighbours; longer ones are zero and not
    usable.
    """
    ticks, known, filled = fill_single_gaps(steps - steps[0], values)
    full = np.zeros((ticks[-1] + 1, *values.shape[1:]))
    full[ticks] = known
    usable = np.zeros(len(full), bool)
    usable[ticks] = True
    observed = usable.copy()
    observed[ticks[filled]] = False
    return full, observed, usable


class LeadSkill(NamedTuple):
    """Root mean square length of the errors of forecasts of held-out times, in units of the
    series."""

    lead: int  # steps ahead
    error: float  # of the forecaster; that of the climatology where it reverts to it
    persistence: float  # of the last anomaly, not damped
    climatology: float

    @property
    def over_climatology(self) -> float:
        """One minus the ratio of mean squared errors: 1 for a perfect forecast, 0 or less without
        skill."""
        return 1 - (self.error / max(self.climatology, 1e-300)) ** 2


RESIDUAL_FOLDS = 5
"""Errors are standardised by those of other times, so that their tails include the error of the
standard deviation."""

QUANTILES = np.linspace(0.001, 0.999, 500)


class HeldOut:
    """Quality of held-out forecasts ``(m, n, d)`` of one lead time, which started from the
    ``latest`` anomalies.

    ``factor`` in [0, 1], the slope of the truth on forecasts, damps them; ``skill`` is the share of
    variance they then explain, ``variance (n,)`` that of a coordinate's error; ``residuals (q,)``
    are quantiles of standardised errors. ``persistence`` and ``climatology`` are the mean squared
    errors of the last anomaly and of none.
    """

    def __init__(self, forecasts: np.ndarray, latest: np.ndarray, truth: np.ndarray) -> None:
        self.persistence = float(np.square(latest - truth).mean())
        self.climatology = float(np.square(truth).mean())
        slope = (forecasts * truth).sum() / max(np.square(forecasts).sum(), 1e-300)
        self.factor = float(np.clip(slope, 0.0, 1.0))
        errors = self.factor * forecasts - truth
        self.variance = np.square(errors).mean(axis=(0, 2))
        self.skill = 1 - float(self.variance.mean()) / max(self.climatology, 1e-300)
        self.residuals = np.quantile(standardized_sizes(errors), QUANTILES)


def standardized_sizes(errors: np.ndarray) -> np.ndarray:
    """Sizes of errors ``(m, n, d)`` in units of the standard deviation at their point."""
    sizes = []
    for fold in np.array_split(np.arange(len(errors)), RESIDUAL_FOLDS):
        variance = np.square(np.delete(errors, fold, axis=0)).mean(axis=(0, 2))
        variance = np.maximum(variance, 1e-12 * variance.max() + 1e-300)
        sizes.append(np.abs(errors[fold]) / np.sqrt(variance)[:, None])
    return np.concatenate(sizes)


MIN_SKILL = 0.01
"""Share of the variance that forecasts must explain; beyond the first lead at which they do not,
the forecast is the climatology."""


@dataclass(eq=False)
class FittedMethod(ABC):
    """Forecasts of anomalies up to a lead time ``reach`` from at most ``window`` recent ones, with
    held-out errors."""

    record: Record = field(repr=False)
    reach: int
    window: int

    def __post_init__(self) -> None:
        anomalies = self.record.anomalies[self.record.observed]
        self._climatology = HeldOut(np.zeros_like(anomalies), anomalies, anomalies)
        self._held_out: dict[tuple[int, int], HeldOut | None] = {}

    @abstractmethod
    def forecast(self, recent: np.ndarray, leads: int) -> np.ndarray:
        """The next anomalies ``(leads, n, d)`` after recent ones ``(W, n, d)``, before damping."""

    @abstractmethod
    def evaluate(self, lead: int, window: int) -> HeldOut | None:
        """Held-out forecasts from windows of this length; None if the record is too short for
        them."""

    def predict(self, recent: np.ndarray, horizon: int) -> np.ndarray:
        """The next anomalies ``(H, n, d)``: zero from the first lead without skill on."""
        future = np.zeros((horizon, *recent.shape[1:]))
        skilful = self._skilful(len(recent), horizon)
        if skilful:
            factors = np.array([held_out.factor for held_out in skilful])
            forecasts = self.forecast(recent[-self.window :], len(skilful))
            future[: len(skilful)] = factors[:, None, None] * forecasts
        return future

    def held_out(self, window: int, horizon: int) -> list[HeldOut]:
        """Of each lead; that of the climatology from the first lead without skill on."""
        skilful = self._skilful(window, horizon)
        return skilful + [self._climatology] * (horizon - len(skilful))

    def skill(self, unit: float) -> list[LeadSkill]:
        """Of each lead up to the first without skill, in multiples of ``unit``; none if the record
        is too short."""
        length = unit * self.record.anomalies.shape[2] ** 0.5
        skilful = len(self._skilful(self.window, self.reach))
        rows = []
        for lead in range(1, min(skilful + 1, self.reach) + 1):
            held_out = self._evaluated(lead, self.window)
            if held_out is None:
                continue
            error = held_out.climatology
            if lead <= skilful:
                error = float(held_out.variance.mean())
            rows.append(
                LeadSkill(
                    lead=lead,
                    error=length * error**0.5,
                    persistence=length * held_out.persistence**0.5,
                    climatology=length * held_out.climatology**0.5,
                )
            )
        return rows

    def _skilful(self, window: int, horizon: int) -> list[HeldOut]:
        """Of the leads before the first without skill."""
        window = min(window, self.window)
        skilful = []
        for lead in range(1, min(horizon, self.reach) + 1):
            held_out = self._evaluated(lead, window)
            if held_out is None or held_out.skill < MIN_SKILL:
                break
            skilful.append(held_out)
        return skilful

    def _evaluated(self, lead: int, window: int) -> HeldOut | None:
        """``evaluate``, computed once."""
        if (lead, window) not in self._held_out:
            self._held_out[lead, window] = self.evaluate(lead, window)
        return self._held_out[lead, window]


class ForecastMethod(ABC):
    """A method of ``FieldForecaster``."""

    @abstractmethod
    def fit(self, record: Record) -> FittedMethod: ...


@dataclass(frozen=True)
class Climatology(ForecastMethod):
    """Method of ``FieldForecaster``: the climatology alone."""

    def fit(self, record: Record) -> FittedMethod:
        return LastAnomaly(record, reach=0, window=1)


@dataclass(frozen=True)
class Persistence(ForecastMethod):
    """Method of ``FieldForecaster``: the last anomaly, damped by a factor for each lead time."""

    def fit(self, record: Record) -> FittedMethod:
        return LastAnomaly(record, reach=len(record.anomalies) // 4, window=1)


class LastAnomaly(FittedMethod):
    """Every later anomaly is the last one."""

    def forecast(self, recent: np.ndarray, leads: int) -> np.ndarray:
        return np.repeat(recent[-1:], leads, axis=0)

    def evaluate(self, lead: int, window: int) -> HeldOut | None:
        origins = self.record.origins(lead, 1)
        if len(origins) < 2:
            return None
        latest = self.record.anomalies[origins]
        later = self.record.anomalies[origins + lead]
        return HeldOut(latest, latest, later)
