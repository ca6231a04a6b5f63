"""`FieldForecaster`: past fields in, the next fields out."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import finite, float_tensor, positive_integer
from ..errors import InvalidInputError, NoInformationWarning, TooFewPointsError, warn
from ..estimators.calibration import share, tail
from ..estimators.history import checked_fields
from ..estimators.inputs import of_kind
from ..estimators.row_order import RowOrder
from ..estimators.tangents import TangentSpaces, check_tangent
from ..parallel import threads_by_size
from ..timeline import Clock
from .autoregression import Autoregression
from .climate import Climate
from .methods import ForecastMethod, LeadSkill, Record, fill_gaps

FIELDS_AT_ONCE = 256
"""Times whose normal parts are computed at a time."""


@dataclass(eq=False, repr=False)
class FieldForecaster(BaseEstimator):
    r"""Forecasts a vector field on a manifold from its past, with uncertainty.

    A field is climatology plus anomaly. The climatology now is estimated from training and from the
    recent window; the anomaly is forecast by ``method``. At long lead times the forecast reverts to
    the climatology. Standard deviations and intervals come from forecasts of held-out times.

    Args:
        method: ``Autoregression(...)``, ``Persistence()`` or ``Climatology()``; default the first.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, such as ``manifolds.Sphere(2)``, for exact tangent spaces;
            ``earth.Earth()`` also knows which way east and the poles are.
        period: steps of a cycle in time; default no cycle.

    Attributes:
        climate_: mean and cycle of the training series.
        fitted_: the fitted method.
        skill_: a ``LeadSkill(lead, error, persistence, climatology)`` for each lead time up to the
            first at which the forecast reverts to the climatology: root mean square errors of
            held-out forecasts, in units of the series, with the skill ``over_climatology``. Empty
            if the record is too short to hold out any.
        normal_share_: share of the series' energy off the tangent spaces, lost by projection.

    >>> import numpy as np, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(60, seed=0)
    >>> mode, wave = sphere.gradient_field(points, 1), np.sin(2 * np.pi * np.arange(116) / 12)
    >>> series = wave[:, None, None] * mode  # (T, n, D)
    >>> forecaster = tb.FieldForecaster(manifold=sphere).fit(points, series[:96])
    >>> future, std = forecaster.predict(series[72:96], horizon=20, return_std=True)
    >>> (
    ...     [row.lead for row in forecaster.skill_[:3]],
    ...     bool(forecaster.skill_[0].over_climatology > 0.9),
    ... )
    ([1, 2, 3], True)
    >>> future.shape, std.shape, bool(np.abs(future - series[96:])[:6].max() < 0.05)
    ((20, 60, 3), (20, 60, 3), True)
    """

    method: ForecastMethod | None = None
    _: KW_ONLY
    dim: Any = None
    manifold: Any = None
    period: int | None = None

    @threads_by_size
    def fit(self, points, series, times=None):
        """Fit to points ``(n, D)`` and a series ``(T, n, D)`` of ambient vectors.

        ``times`` ``(T,)`` are dates (datetime64) on a regular clock, gaps allowed, or step numbers;
        default one step after the other.
        """
        method = self._method()
        points = self._points(points)
        # with fewer than 16 fields, no error of the climatology is known
        series = checked_fields(series, points.shape, 16, "the series")
        period = 1
        if self.period is not None:
            period = positive_integer(self.period, "period")
        self.clock_, steps = Clock.of(times, len(series))
        self.last_step_ = int(steps[-1])
        self._order = RowOrder.of(points)
        points = self._order.sorted(points)
        frames = TangentSpaces.of(points, self.dim, self.manifold).frames
        self.frames_ = self._order.restored(frames)
        values = self._coordinates(series)
        all_vectors = series.reshape(-1, series.shape[2])
        coordinates = values.reshape(-1, values.shape[2])
        self.normal_share_ = check_tangent(all_vectors, coordinates, np.ones(len(all_vectors)))
        self._normal_variances = self._across_estimated_planes(series, values)
        self.scale_ = float(np.sqrt(values.var(axis=0).mean()))
        if self.scale_ <= 1e-9 * float(np.abs(values).max()):
            raise InvalidInputError(
                "the series is constant: there is nothing to learn. Its forecast is its value."
            )
        values = self._order.sorted(values / self.scale_, axis=1)
        self.climate_ = Climate.of(values, steps, period)
        anomalies, observed, usable = fill_gaps(values - self.climate_.at(steps), steps)
        record = Record(
            anomalies=anomalies,
            observed=observed,
            usable=usable,
            mean=self.climate_.mean,
            points=points,
            frames=frames,
            manifold=self.manifold,
        )
        self.fitted_ = method.fit(record)
        self._warn_if_too_short(len(series))
        return self

    def _method(self) -> ForecastMethod:
        if self.method is None:
            return Autoregression()
        if not isinstance(self.method, ForecastMethod):
            raise InvalidInputError(
                f"method must be an object such as Autoregression(), got {self.method!r}."
            )
        return self.method

    def _points(self, points: Any) -> np.ndarray:
        """Points ``(n, D)`` as an array, checked."""
        values = of_kind(points, "points")[0]
        array = validate_data(self, values, dtype=np.float64, ensure_all_finite=False)
        finite(float_tensor(array, "points")[0], "points")
        if len(array) < 3:
            raise TooFewPointsError(f"a field needs at least 3 points, got {len(array)}.")
        return array

    def _coordinates(self, fields: np.ndarray) -> np.ndarray:
        """Fields ``(T, n, D)`` in the frames of the points, ``(T, n, d)``."""
        return np.einsum("nij,tni->tnj", self.frames_, fields, optimize=True)

    def _across_estimated_planes(self, series: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Mean squares ``(n, D)`` of what fields have across their planes, which forecasts lack;
        none if the planes are known."""
        if self.manifold is not None:
            return np.zeros(series.shape[1:])
        squares = np.zeros(series.shape[1:])
        for start in range(0, len(series), FIELDS_AT_ONCE):
            fields = slice(start, start + FIELDS_AT_ONCE)
            along = np.einsum("nij,tnj->tni", self.frames_, values[fields], optimize=True)
            squares += np.square(series[fields] - along).sum(axis=0)
        return squares / len(series)

    def _warn_if_too_short(self, fields: int) -> None:
        if self.fitted_.reach == 0:  # of methods that learn nothing
            return
        if self.fitted_.evaluate(1, self.fitted_.window) is None:
            warn(
                f"a series of {fields} fields is too short, or has too many gaps, for "
                f"{type(self._method()).__name__}: forecasts are the climatology. Give a longer "
                "series.",
                NoInformationWarning,
            )

    @property
    def skill_(self) -> list[LeadSkill]:
        """Errors of held-out forecasts next to those of persistence and of the climatology, for
        each lead time."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.skill(self.scale_)

    @threads_by_size
    def predict(self, recent, horizon, times=None, return_std=False):
        """The next ``horizon`` fields ``(horizon, n, D)`` after recent ones ``(W, n, D)``, W of at
        least 1.

        ``times`` ``(W,)`` are those of the recent fields, of the kind ``fit`` had. Without them the
        recent fields are taken to end where training ended, as far as the cycle goes. With
        ``return_std`` also the standard deviation of each ambient component.
        """
        check_is_fitted(self, "fitted_")
        horizon = positive_integer(horizon, "horizon")
        kind = of_kind(recent, "the recent fields")[1]
        recent = checked_fields(recent, self.frames_.shape[:2], 1, "the recent fields")
        values, steps = self._on_the_clock(recent, times)
        climate, gain = self.climate_.current(values, steps)
        ahead = steps[-1] + 1 + np.arange(horizon)
        future = climate.at(ahead) + self.fitted_.predict(values - climate.at(steps), horizon)
        future = self.scale_ * self._order.restored(future, axis=1)
        field = kind.wrap(np.einsum("nij,tnj->tni", self.frames_, future))
        if not return_std:
            return field
        held_out = self.fitted_.held_out(len(values), horizon)
        memory = np.sqrt(np.maximum([lead.skill for lead in held_out], 0.0))
        errors = climate.errors(gain, len(values), ahead - self.last_step_, memory)
        variance = np.stack([lead.variance for lead in held_out]) + errors
        variance = self._order.restored(variance, axis=1)
        lengths = np.linalg.norm(self.frames_, axis=2)
        along_planes = self.scale_**2 * variance[:, :, None] * np.square(lengths)
        return field, kind.wrap(np.sqrt(along_planes + self._normal_variances))

    def _on_the_clock(self, recent: np.ndarray, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates ``(W, n, d)`` of recent fields at every step, at the sorted points, and the
        steps ``(W,)``."""
        count = len(recent)
        if times is None:
            steps = self.last_step_ + 1 - np.arange(count, 0, -1)
        else:
            steps = self.clock_.steps(times, count)
        values = self._order.sorted(self._coordinates(recent) / self.scale_, axis=1)
        values, _, usable = fill_gaps(values, steps)
        if not usable.all():
            raise InvalidInputError(
                "the recent fields have a gap of more than one step. Give those after it only."
            )
        return values, steps[0] + np.arange(len(values))

    def predict_interval(self, recent, horizon, times=None, level=0.9):
        """Bounds ``(horizon, n, D)``, lower and upper, of each ambient component of the next
        fields.

        They lie as many standard deviations from the forecast as the share ``level`` of held-out
        errors at that lead.
        """
        level = share(level)
        field, std = self.predict(recent, horizon, times=times, return_std=True)
        held_out = self.fitted_.held_out(len(recent), len(field))
        widths = np.array([tail(level, lead.residuals) for lead in held_out])
        half = of_kind(std)[1].wrap(widths[:, None, None]) * std
        return field - half, field + half
