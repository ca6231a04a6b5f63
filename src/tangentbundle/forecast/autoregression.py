r"""Linear forecasts of anomalies: coefficients shared by all points, and corrections at each.

With the smoothed fields :math:`S a` of neighbours and the derivative :math:`\nabla_{\bar u} a`
along the mean field, which carries anomalies along as a wind does,

.. math:: \hat a_i(t+h) = b_h \Big[\sum_l \alpha_{hl}\, a_i(t-l)
          + \sum_{l,k} \beta_{hlk}\, (S^k a)_i(t-l)
          + \sum_{l,k} \gamma_{hlk}\, (\nabla_{\bar u}^k a)_i(t-l) + B_{hi}^T x_i(t)\Big].

The few shared coefficients are found by least squares over all points and times. The features
:math:`x_i` of a point are its own latest vectors and its neighbours', carried to its frame; ridge
regression of what the shared part leaves gives the matrices

.. math:: B_{hi} = \big(\overline{x x^T} + \lambda I\big)^{-1} \overline{x\, r_h^T}.

Time-blocked cross-validation gives :math:`\lambda`, the damping b and the errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import positive_integer
from ..errors import InvalidInputError
from .methods import FittedMethod, ForecastMethod, HeldOut, Record

PARTS = 10
"""Parts of the record whose moments are stored apart: two are held out at a time, and others left
out around them."""

LATEST_LAGS = 2
"""Latest fields whose smoothed ones, derivatives and vectors at the point itself are features."""

SHARED_RIDGE = 1e-3
"""Relative ridge of the shared regression, whose features nearly depend on each other."""


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


class Surroundings:
    """Neighbours ``index (n, k)`` of each point and the maps ``(n, k, d, d)`` that carry their
    coordinates to its frame.

    ``weights (n, k)`` fall with distance; ``slopes (n, k, d)`` are the weights of differences to
    neighbours in a gradient, by least squares.
    """

    def __init__(self, points: np.ndarray, frames: np.ndarray, count: int) -> None:
        count = min(count, len(points) - 1)
        distances, nearest = cKDTree(points).query(points, k=count + 1)
        nearest[:, 0] = np.arange(len(points))  # also among repeated points
        self.index = nearest[:, 1:]
        unit = float(np.median(distances[:, 1:9])) or 1.0
        self.weights = np.exp(-np.square(distances[:, 1:] / unit) / 2)
        neighbor_frames = frames[self.index]
        self.maps = np.einsum("nia,nkib->nkab", frames, neighbor_frames, optimize=True)
        steps = np.einsum("nia,nki->nka", frames, points[self.index] - points[:, None])
        inverse_squares = self.weights / np.maximum(np.square(steps).sum(axis=2), 1e-12 * unit**2)
        moments = np.einsum("nk,nka,nkb->nab", inverse_squares, steps, steps)
        inverses = np.linalg.pinv(moments, hermitian=True)
        self.slopes = np.einsum("nab,nkb,nk->nka", inverses, steps, inverse_squares)

    def carried(self, fields: np.ndarray) -> np.ndarray:
        """Neighbours' vectors of fields ``(T, n, d)`` in the frame of each point,
        ``(T, n, k, d)``."""
        return np.einsum("nkab,tnkb->tnka", self.maps, fields[:, self.index], optimize=True)

    def smoothed(self, fields: np.ndarray) -> np.ndarray:
        """Weighted means over each point and its neighbours ``(T, n, d)``."""
        total = fields + np.einsum("nk,tnka->tna", self.weights, self.carried(fields))
        return total / (1 + self.weights.sum(axis=1))[:, None]

    def derivative(self, velocity: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """The derivative ``(T, n, d)`` of fields along a velocity ``(n, d)``."""
        rates = np.einsum("nka,na->nk", self.slopes, velocity)
        differences = self.carried(fields) - fields[:, :, None]
        return np.einsum("nk,tnka->tna", rates, differences, optimize=True)


@dataclass(frozen=True, eq=False)
class Features:
    """Of m origins: ``shared (m, n, d, s)``, fields whose coefficients all points share, and
    ``local (m, n, f)``, numbers for corrections at each point."""

    shared: np.ndarray
    local: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Features:
        return Features(self.shared[rows], self.local[rows])


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of one lead: ``shared (s,)``, and ``local (n, f, d)``."""

    shared: np.ndarray
    local: np.ndarray

    def forecast(self, features: Features) -> np.ndarray:
        """``(m, n, d)``."""
        corrections = np.einsum("mnf,nfa->mna", features.local, self.local, optimize=True)
        return features.shared @ self.shared + corrections


class Moments:
    """Sums over origins in each of ``PARTS`` parts of time; ``part_of (m,)`` numbers that of an
    origin.

    ``targets (m, leads, n, d)`` are later anomalies, zero where they are not ``known (m, leads)``.
    Regressions on any of the parts follow from these sums alone.
    """

    def __init__(self, features: Features, targets: np.ndarray, known: np.ndarray) -> None:
        parts = np.array_split(np.arange(len(known)), PARTS)
        self.part_of = np.repeat(np.arange(PARTS), [len(part) for part in parts])
        self.origins = np.array([len(part) for part in parts])
        self.targets = np.array([known[part].sum(axis=0) for part in parts])  # (parts, leads)
        self.shared_shared = self._sums("mnas,mnar->sr", parts, features.shared, features.shared)
        self.shared_target = self._sums("mnas,mhna->hs", parts, features.shared, targets)
        self.local_local = self._sums("mnf,mng->nfg", parts, features.local, features.local)
        self.local_shared = self._sums("mnf,mnas->nfas", parts, features.local, features.shared)
        self.local_target = self._sums("mnf,mhna->hnfa", parts, features.local, targets)

    @staticmethod
    def _sums(
        product: str, parts: list[np.ndarray], left: np.ndarray, right: np.ndarray
    ) -> np.ndarray:
        """Sums of products over the origins of each part."""
        sums = [np.einsum(product, left[part], right[part], optimize=True) for part in parts]
        return np.stack(sums)

    def coefficients(
        self, lead: int, chosen: np.ndarray, penalties: tuple[float, ...]
    ) -> list[Coefficients]:
        """For each penalty, from the chosen parts of time."""
        origins = self.origins[chosen].sum()
        targets = self.targets[chosen, lead - 1].sum()
        gram = self.shared_shared[chosen].sum(axis=0) / origins
        side = self.shared_target[chosen, lead - 1].sum(axis=0) / targets
        ridge = SHARED_RIDGE * np.diag(gram) + 1e-9 * np.trace(gram) + 1e-300
        shared = np.linalg.solve(gram + np.diag(ridge), side)
        local_gram = self.local_local[chosen].sum(axis=0) / origins
        explained = self.local_shared[chosen].sum(axis=0) @ shared / origins
        residual = self.local_target[chosen, lead - 1].sum(axis=0) / targets - explained
        features = local_gram.shape[-1]
        energy = np.einsum("nff->n", local_gram)[:, None, None] / features + 1e-300
        coefficients = []
        for penalty in penalties:
            local = np.zeros_like(residual)
            if np.isfinite(penalty):
                local = np.linalg.solve(local_gram + penalty * energy * np.eye(features), residual)
            coefficients.append(Coefficients(shared, local))
        return coefficients


@dataclass(eq=False)
class LinearForecast(FittedMethod):
    """Regressions for recent windows of any length, computed when first needed."""

    method: Autoregression
    lags: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        record = self.record
        self.surroundings = Surroundings(record.points, record.frames, self.method.neighbors)
        self.mean_flow = self.surroundings.smoothed(record.mean[None])[0]
        energy = np.maximum(np.square(record.anomalies).mean(axis=(0, 2)), 1e-300)
        self.log_sizes = np.log(energy) - np.log(energy).mean()
        self._moments: dict[int, Moments] = {}
        self._features: dict[int, Features] = {}
        self._coefficients: dict[tuple[int, int], Coefficients] = {}

    def forecast(self, recent: np.ndarray, leads: int) -> np.ndarray:
        window = len(recent)
        features = self._features_of(recent, np.array([window - 1]), window)
        coefficients = [self._coefficients[lead, window] for lead in range(1, leads + 1)]
        return np.stack([lead.forecast(features)[0] for lead in coefficients])

    def evaluate(self, lead: int, window: int) -> HeldOut | None:
        if window not in self._moments:
            self._learn(window)
        moments = self._moments[window]
        origins = self.record.origins(0, window)
        is_scored = np.isin(origins, self.record.origins(lead, window))
        features = self._features[window][is_scored]
        part_of = moments.part_of[is_scored]
        truth = self.record.anomalies[origins[is_scored] + lead]
        penalties = self.method.penalties
        forecasts = np.zeros((len(penalties), *truth.shape))
        parts = np.arange(PARTS)
        gap = int(np.ceil((lead + window - 1) / max(moments.origins[0], 1)))
        for first in range(0, PARTS, 2):
            is_held_out = (part_of == first) | (part_of == first + 1)
            chosen = (parts < first - gap) | (parts > first + 1 + gap)
            if moments.targets[chosen, lead - 1].sum() < 8:  # too few times to learn from
                return None
            held_out = features[is_held_out]
            for k, coefficients in enumerate(moments.coefficients(lead, chosen, penalties)):
                forecasts[k, is_held_out] = coefficients.forecast(held_out)
        best = int(np.square(forecasts - truth).mean(axis=(1, 2, 3)).argmin())
        everything = parts >= 0
        self._coefficients[lead, window] = moments.coefficients(
            lead, everything, penalties[best : best + 1]
        )[0]
        latest = self.record.anomalies[origins[is_scored]]
        return HeldOut(forecasts[best], latest, truth)

    def _learn(self, window: int) -> None:
        """Features and moments of all origins with so many recent fields."""
        anomalies = self.record.anomalies
        origins = self.record.origins(0, window)
        later = origins[:, None] + np.arange(1, self.reach + 1)
        is_inside = later < len(anomalies)
        later = np.where(is_inside, later, 0)
        known = is_inside & self.record.observed[later]
        targets = anomalies[later] * known[:, :, None, None]
        self._features[window] = self._features_of(anomalies, origins, window)
        self._moments[window] = Moments(self._features[window], targets, known)

    def _features_of(self, fields: np.ndarray, origins: np.ndarray, window: int) -> Features:
        """Of fields ``(T, n, d)``, at origins with ``window`` fields up to them."""
        lags = [lag for lag in self.lags if lag < window]
        latest_lags = lags[:LATEST_LAGS]
        smoothed = self.surroundings.smoothed(fields)
        moved = self.surroundings.derivative(self.mean_flow, fields)
        others = [
            smoothed,
            self.surroundings.smoothed(smoothed),
            moved,
            self.surroundings.derivative(self.mean_flow, moved),
        ]
        latest = [fields[origins - lag] for lag in latest_lags]
        shared = [fields[origins - lag] for lag in lags]
        shared += [field * self.log_sizes[:, None] for field in latest]
        shared += [other[origins - lag] for other in others for lag in latest_lags]
        neighbors = self.surroundings.carried(latest[0]) * self.surroundings.weights[:, :, None]
        count, n, k, d = neighbors.shape
        local = [*latest, neighbors.reshape(count, n, k * d)]
        return Features(np.stack(shared, axis=-1), np.concatenate(local, axis=-1))
