"""`FieldForecaster`: past fields in, the next fields out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import whole
from ..errors import InvalidInputError, NonFiniteError, ShapeError, TooFewPointsError
from .autoregression import Autoregression
from .base import _check_tangent
from .calibration import share
from .climate import Climate, phases
from .clock import Clock
from .forecasting import ForecastMethod, Record
from .stacked import Stacked
from .tangents import TangentSpaces

LEAST = 16
"""Fewest fields to learn from."""

CALM = 0.2
"""Share of a forecast's variance that is alike everywhere in quite another climate: what was calm need not be."""

NETWORK = 100, 5000
"""Fewest fields, and vectors in all of them, from which a network learns by default."""


class FieldForecaster(BaseEstimator):
    r"""Forecasts a vector field on a manifold from its past, with uncertainty.

    A field is climate plus anomaly. The climate now is estimated from training and from the recent window, which tells
    how far it has drifted; the anomaly is carried on by ``method``.

    Args:
        method: ``Autoregression(...)``, ``AttentionNetwork(...)``, or ``Stacked(...)`` of several;
            default the first two together, or the first alone where the series is short.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, such as ``manifolds.Sphere(2)`` for the Earth, for exact tangent spaces.
        cycle: steps of a cycle; default from dates: a day, or twelve months. Otherwise none.
        random_state: seed of what is random.

    Attributes:
        climate_: mean and cycle of the training series, and how much their estimates vary by chance.
        fitted_: the fitted method.
        normal_share_: the share of the series' energy off the tangent spaces, which is dropped.

    >>> import numpy as np, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(60, seed=0)
    >>> mode, wave = sphere.gradient_field(points, 1), np.sin(2 * np.pi * np.arange(110) / 12)
    >>> series = wave[:, None, None] * mode                        # (T, n, D)
    >>> forecaster = tb.FieldForecaster(manifold=sphere).fit(points, series[:90])
    >>> future, std = forecaster.predict(series[70:90], horizon=20, return_std=True)
    >>> future.shape, std.shape, bool(np.abs(future - series[90:])[:6].max() < 0.05)
    ((20, 60, 3), (20, 60, 3), True)
    """

    def __init__(
        self,
        method: ForecastMethod | None = None,
        *,
        dim: Any = None,
        manifold: Any = None,
        cycle: int | None = None,
        random_state: Any = None,
    ):
        self.method = method
        self.dim = dim
        self.manifold = manifold
        self.cycle = cycle
        self.random_state = random_state

    def fit(self, points, series, times=None, more=None):
        """Fit to points ``(n, D)`` and a series ``(T, n, D)`` of ambient vectors.

        ``times`` ``(T,)`` are dates (datetime64) on a regular clock, gaps allowed, or step numbers; default one step
        after the other. ``more`` are other points ``(m, D)`` and the series there at the same times ``(T, m, D)``, to
        learn from: the denser they are, the better. Forecasts are made from, and for, the points alone.
        """
        points = validate_data(self, points, dtype=np.float64)
        if len(points) < 3:
            raise TooFewPointsError(f"a field needs at least 3 points, got {len(points)}.")
        series = _series(series, points.shape, LEAST, "fit")
        cycle = None if self.cycle is None else whole(self.cycle, "cycle")
        self.clock_, ticks = Clock.of(times, len(series), cycle)
        others, beside = _others(more, points, len(series))
        known = TangentSpaces.of(np.concatenate([points, others]), self.dim, self.manifold)
        self.spaces_ = known.part(np.arange(len(points))) if len(others) else known
        self.frames_ = self.spaces_.frames
        values = np.einsum("nij,tni->tnj", self.frames_, series)
        self.normal_share_ = _check_tangent(series.reshape(-1, series.shape[2]), values.reshape(-1, values.shape[2]))
        self.scale_ = float(values.std(axis=0).mean())
        if self.scale_ <= 1e-9 * float(np.abs(values).max()):
            raise InvalidInputError("the series is constant: there is nothing to learn. Its forecast is its value.")
        values = values / self.scale_
        self.climate_ = Climate.of(values, ticks, self.clock_.cycle)
        method = default_method(len(series), len(points)) if self.method is None else self.method
        if not isinstance(method, ForecastMethod):
            raise InvalidInputError(f"method must be an object such as Autoregression(), got {method!r}.")
        anomalies = values - self.climate_.mean - self.climate_.cycle[ticks % self.clock_.cycle]
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        self.last_ = int(ticks[-1])
        record = Record(*_on_clock(anomalies, ticks), self.climate_.mean, self.spaces_, rng)
        if len(others):
            beside = np.einsum("nij,tni->tnj", known.frames[len(points) :], beside) / self.scale_
            mean, departures = phases(beside, ticks, self.clock_.cycle)
            anomalies = np.concatenate([anomalies, beside - mean - departures[ticks % self.clock_.cycle]], axis=1)
            mean = np.concatenate([self.climate_.mean, mean])
            record = replace(record, more=Record(*_on_clock(anomalies, ticks), mean, known, rng))
        self.fitted_ = method.fit(record)
        return self

    def predict(self, recent, horizon, times=None, return_std=False):
        """The next ``horizon`` fields ``(horizon, n, D)`` after recent ones ``(W, n, D)``, W of at least 1.

        ``times`` ``(W,)`` are those of the recent fields, of the kind ``fit`` had. Without them the recent fields are
        taken to end where training ended, as far as the cycle goes. With ``return_std`` also the standard deviation of
        each ambient component.
        """
        check_is_fitted(self, "fitted_")
        horizon = whole(horizon, "horizon")
        recent = _series(recent, self.spaces_.points.shape, 1, "predict")
        count = len(recent)
        ticks = self.last_ + 1 - np.arange(count, 0, -1) if times is None else self.clock_.ticks(times, count)
        period = self.climate_.period
        values = np.einsum("nij,tni->tnj", self.frames_, recent) / self.scale_
        values, _, usable = _on_clock(values, ticks)
        if not usable.all():
            raise InvalidInputError("the recent fields have a gap of more than one step. Give those after it only.")
        steps = ticks[0] + np.arange(len(values))
        mean, cycle, error, changed = self.climate_.updated(values, steps)
        ahead = steps[-1] + 1 + np.arange(horizon)
        anomalies = values - mean - cycle[steps % period]
        future = self.fitted_.predict(anomalies, horizon, mean) + mean + cycle[ahead % period]
        field = self.scale_ * np.einsum("nij,tnj->tni", self.frames_, future)
        if not return_std:
            return field
        memory = self.fitted_.memory(len(values), horizon)[:, None]
        variance, alike = self.fitted_.variance(len(values), horizon), CALM * changed
        variance = (1 - alike) * variance + alike * variance.mean(axis=1, keepdims=True)
        spread = variance + np.square(1 - memory) * error
        lengths = np.linalg.norm(self.frames_, axis=2)
        return field, self.scale_ * np.sqrt(spread)[:, :, None] * lengths

    def predict_interval(self, recent, horizon, times=None, level=0.9):
        """Bounds ``(horizon, n, D)``, lower and upper, of each ambient component of the next fields.

        As many standard deviations from the forecast as the share ``level`` of cross-validated errors at that lead.
        """
        level = share(level)
        field, std = self.predict(recent, horizon, times=times, return_std=True)
        width = self.fitted_.tails(level, len(np.asarray(recent)), len(field))[:, None, None] * std
        return field - width, field + width


def default_method(fields: int, points: int) -> ForecastMethod:
    """A network needs much to learn from; linear forecasts do not."""
    enough = fields >= NETWORK[0] and fields * points >= NETWORK[1]
    return Stacked() if enough else Autoregression()


def _series(series, shape: tuple[int, int], least: int, verb: str) -> np.ndarray:
    series = np.asarray(series, dtype=float)
    if series.ndim != 3 or series.shape[1:] != shape:
        raise ShapeError(
            f"a series must have shape (T, n, D) = (T, {shape[0]}, {shape[1]}), ambient vectors at the points, got "
            f"{series.shape}."
        )
    if len(series) < least:
        raise InvalidInputError(f"{verb} needs a series of at least {least} fields, got {len(series)}.")
    if not np.isfinite(series).all():
        bad = np.flatnonzero(~np.isfinite(series).all(axis=(1, 2)))
        raise NonFiniteError(
            f"the series holds NaN or infinite values in {len(bad)} fields, the first is number {bad[0]}. Drop those "
            "fields and give times=, or fill them."
        )
    return series


def _others(more, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Other points and their series, without those that are among the points."""
    if more is None:
        return np.zeros((0, points.shape[1])), np.zeros((count, 0, points.shape[1]))
    if not (isinstance(more, (tuple, list)) and len(more) == 2):
        raise InvalidInputError("more must be a pair: other points (m, D) and the series there (T, m, D).")
    others = check_array(more[0], dtype=np.float64)
    if others.shape[1] != points.shape[1]:
        raise ShapeError(f"the other points must have shape (m, {points.shape[1]}), got {others.shape}.")
    series = _series(more[1], others.shape, count, "more")
    if len(series) != count:
        raise ShapeError(f"the series at other points must have the times of fit, {count}, got {len(series)}.")
    new = cKDTree(points).query(others)[0] > 0
    return others[new], series[:, new]


def _on_clock(values: np.ndarray, ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fields ``(T', n, d)`` at every tick, whether each was observed, and whether it can be used.

    Gaps of one step are filled with the mean of their neighbours; longer ones are left and are not usable.
    """
    count = int(ticks[-1] - ticks[0]) + 1
    full, observed = np.zeros((count, *values.shape[1:])), np.zeros(count, bool)
    full[ticks - ticks[0]], observed[ticks - ticks[0]] = values, True
    single = np.flatnonzero(~observed[1:-1] & observed[:-2] & observed[2:]) + 1
    full[single] = (full[single - 1] + full[single + 1]) / 2
    usable = observed.copy()
    usable[single] = True
    return full, observed, usable
