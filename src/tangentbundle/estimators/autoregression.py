r"""Linear forecasts of anomalies: coefficients shared by all points, and a local correction from neighbours.

For every lead h, with own lags l and smoothed fields :math:`S_t = e^{t\Delta}`,

.. math:: \hat a_i(t+h) = b_h\Big[\sum_l \alpha_{hl}(i)\, a_i(t-l) + \sum_{l,s} \beta_{hls}\, (S_s a)_i(t-l)
          + \sum_l \gamma_{hl}\, (\nabla_{\bar u} a)_i(t-l)
          + \sum_{j \in \{i\} \cup N(i)} B_{hij}\, O_{ij}\, a_j(t)\Big].

The few shared coefficients see all points at once; :math:`\alpha` depends on i through the size of anomalies there.
Filters of the Laplacian cannot move a field: the derivative along the smoothed mean field :math:`\bar u`
does, and so do the local matrices :math:`B` (d x d), which ridge regression shrinks to zero by an amount that blocked
cross-validation chooses. The factor :math:`b_h \in [0, 1]` is the slope of truth on cross-validated forecasts, made to
fall with h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import torch

from ..bundle import TangentBundle
from ..filters import Chebyshev, Heat, apply_bank
from ..operators import ConnectionLaplacian
from .forecasting import ForecastMethod, Judged, Predictor, Record, held_apart
from .tangents import TangentSpaces

FOLDS = 5
PENALTIES = (np.inf, 6.0, 3.0, 1.5, 0.7, 0.3)
"""Ridge penalties of the local correction, in units of the anomalies' energy."""

SKILL = 0.01
"""Share of the anomalies' energy that a forecast must explain to be used."""


@dataclass(frozen=True)
class Autoregression(ForecastMethod):
    """Method of ``FieldForecaster``: ridge regression on own lags, smoothed fields and neighbours.

    Args:
        lags: steps back of the fields used; those a window is too short for are left out.
        reach: leads with coefficients at most; anomalies are zero beyond, and where cross-validation sees no skill.
        neighbors: of the local correction at most; its coefficients are shrunk more the further they are.
    """

    lags: tuple[int, ...] = (0, 1, 2, 3, 4, 7)
    reach: int = 24
    neighbors: int = 16

    def fit(self, record: Record) -> LaggedModels:
        from .places import ManyPlaces  # a kind of LaggedModels

        models = LaggedModels if record.more is None else ManyPlaces
        return models(self, record, Neighborhood.of(record.spaces, self.neighbors))


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Nearest points ``(n, k)`` and the maps ``(n, k, d, d)`` that carry their coordinates here.

    ``decay (n, k)`` falls with distance; ``slopes (n, k, d)`` is what differences with neighbours weigh in a gradient;
    ``unit`` is a distance between neighbours.
    """

    index: np.ndarray
    maps: np.ndarray
    decay: np.ndarray
    slopes: np.ndarray
    laplacian: ConnectionLaplacian
    unit: float

    @classmethod
    def of(cls, spaces: TangentSpaces, count: int) -> Neighborhood:
        points, frames = spaces.points, spaces.frames
        away, index = spaces.tree.query(points, k=min(count, len(points) - 1) + 1)
        index = index[:, 1:]
        maps = np.einsum("nia,nkib->nkab", frames, frames[index])
        steps = np.einsum("nia,nki->nka", frames, points[index] - points[:, None])
        unit = spaces.spacing
        decay = np.exp(-np.square(away[:, 1:] / unit) / 2)
        weights = decay / np.maximum(np.square(steps).sum(axis=2), 1e-300)
        moments = np.einsum("nk,nka,nkb->nab", weights, steps, steps)
        slopes = np.einsum("nab,nkb,nk->nka", np.linalg.pinv(moments, hermitian=True), steps, weights)
        laplacian = TangentBundle.from_frames(points, frames).laplacian()
        return cls(index, maps, decay, slopes, laplacian, unit)

    def smooth(self, fields: np.ndarray) -> list[np.ndarray]:
        """Fields ``(T, n, d)`` after heat has spread over about a neighbour, and over two."""
        x = torch.from_numpy(np.ascontiguousarray(fields.transpose(1, 2, 0)))
        outputs = apply_bank([Heat(t * self.unit**2) for t in (0.25, 1.0)], self.laplacian, x, Chebyshev(tol=1e-3))
        return [y.numpy().transpose(2, 0, 1) for y in outputs]

    def around(self, fields: np.ndarray) -> np.ndarray:
        """Neighbours' fields in the coordinates of each point, ``(T, n, k, d)``."""
        return np.einsum("nkab,tnkb->tnka", self.maps, fields[:, self.index], optimize=True)

    def along(self, velocity: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """The derivative of fields ``(T, n, d)`` along a velocity ``(n, d)``, by least squares."""
        weights = np.einsum("nka,na->nk", self.slopes, velocity)
        return np.einsum("nk,tnka->tna", weights, self.around(fields) - fields[:, :, None], optimize=True)


@dataclass(frozen=True, eq=False)
class Lead(Judged):
    """Coefficients of one lead, and cross-validated forecasts ``(m, n, d)`` from origins ``(m,)``."""

    shared: np.ndarray
    local: np.ndarray | None
    origins: np.ndarray
    guess: np.ndarray


@dataclass(eq=False)
class LaggedModels(Predictor):
    """Models for windows of any length, made when first asked for."""

    method: Autoregression
    record: Record = field(repr=False)
    near: Neighborhood = field(repr=False)
    leads_: dict[tuple[int, int], Lead] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        a = self.record.anomalies
        energy = np.maximum(np.square(a).mean(axis=(0, 2)), 1e-300)
        sizes = np.log(energy)
        self.sizes = (sizes - sizes.mean())[:, None]
        self.wind = self.near.smooth(self.record.mean[None])[0][0]
        self.signals = self._signals(a)

    def predict(self, recent: np.ndarray, horizon: int, mean: np.ndarray) -> np.ndarray:
        lags = self._lags(len(recent))
        tail = recent[len(recent) - lags[-1] - 1 :]
        shared, local = self._features(self._signals(tail), np.array([lags[-1]]), lags)
        out = np.zeros((horizon, *recent.shape[1:]))
        for h, lead in enumerate(self._leads(horizon, lags)):
            out[h] = lead.factor * _apply(lead.shared, lead.local, shared, local)[0]
        return out

    def judged(self, length: int, horizon: int) -> list[Lead]:
        return list(self._leads(horizon, self._lags(length)))

    def held_out(self, h: int, length: int) -> tuple[np.ndarray, np.ndarray] | None:
        leads = self.judged(length, h)
        return (leads[-1].origins, leads[-1].factor * leads[-1].guess) if len(leads) == h else None

    def _signals(self, fields: np.ndarray) -> list[np.ndarray]:
        """Fields ``(T, n, d)``, smoothed ones, and derivatives along the smoothed mean."""
        moved = self.near.along(self.wind, fields)
        return [fields, *self.near.smooth(fields), moved, self.near.along(self.wind, moved)]

    def _features(self, signals, origins: np.ndarray, lags: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Shared features ``(m, n, d, f)`` and local ones ``(m, n, f')`` at some origins."""
        fields, *others = signals
        latest = [fields[origins - lag] for lag in lags[:2]]
        shared = [fields[origins - lag] for lag in lags]
        shared += [x * self.sizes for x in latest]
        shared += [s[origins - lag] for s in others for lag in lags[:2]]
        around = self.near.decay[:, :, None] * self.near.around(latest[0])  # so that far ones are shrunk more
        return np.stack(shared, axis=-1), np.concatenate([*latest, around.reshape(*around.shape[:2], -1)], axis=-1)

    def _lags(self, length: int) -> tuple[int, ...]:
        return tuple(lag for lag in sorted(self.method.lags) if lag < length) or (0,)

    def _leads(self, horizon: int, lags: tuple[int, ...]) -> Iterator[Lead]:
        """The leads up to a horizon, or up to the first that is no better than none."""
        factor = 1.0
        for h in range(1, min(horizon, self.method.reach, (len(self.record.anomalies) - lags[-1]) // 4) + 1):
            lead = self._lead(h, lags)
            factor = min(factor, lead.factor)
            if lead.skill < SKILL or factor == 0.0:
                return
            yield replace(lead, factor=factor)

    def _lead(self, h: int, lags: tuple[int, ...]) -> Lead:
        key = h, lags[-1]
        if key not in self.leads_:
            origins = self.record.origins(h, lags[-1] + 1)
            features = self._features(self.signals, origins, lags)
            self.leads_[key] = _fit_lead(*features, self.record.anomalies[origins + h], origins, h + lags[-1])
        return self.leads_[key]


def _apply(weights: np.ndarray, matrices: np.ndarray | None, shared: np.ndarray, local: np.ndarray) -> np.ndarray:
    out = shared @ weights
    return out if matrices is None else out + np.einsum("mnf,nfa->mna", local, matrices, optimize=True)


def _fit_lead(shared: np.ndarray, local: np.ndarray, target: np.ndarray, origins: np.ndarray, span: int) -> Lead:
    """Coefficients of one lead; penalty, factor and error from folds of successive times, ``span`` steps apart."""
    penalties = PENALTIES if len(origins) > 2 * FOLDS else PENALTIES[:1]
    guesses = np.zeros((len(penalties), *target.shape))
    edges = np.linspace(origins[0], origins[-1] + 1, FOLDS + 1)
    for a, b in pairwise(edges):
        held, kept = (origins >= a) & (origins < b), held_apart(origins, a, b, span)
        if not (held.any() and kept.any()):
            continue
        for k, (w, m) in enumerate(_solve(shared[kept], local[kept], target[kept], penalties)):
            guesses[k, held] = _apply(w, m, shared[held], local[held])
    errors = np.square(guesses - target).mean(axis=(1, 2, 3))
    best = int(errors.argmin())
    (weights, matrices), *_ = _solve(shared, local, target, penalties[best : best + 1])
    return lead_of(weights, matrices, origins, guesses[best], target)


def lead_of(
    weights: np.ndarray, matrices: np.ndarray | None, origins: np.ndarray, guess: np.ndarray, target: np.ndarray
) -> Lead:
    """Coefficients with what cross-validated forecasts ``(m, n, d)`` tell of them."""
    told = Judged.of(guess, target)
    return Lead(told.factor, told.skill, told.variance, told.residuals, weights, matrices, origins, guess)


def _solve(shared: np.ndarray, local: np.ndarray, target: np.ndarray, penalties):
    """Shared coefficients by least squares, then local matrices of what they leave, for each penalty."""
    z = shared.reshape(-1, shared.shape[-1])
    gram = z.T @ z
    ridge = 1e-3 * np.diag(np.diag(gram)) + 1e-9 * max(np.trace(gram), 1e-300) * np.eye(len(gram))
    weights = np.linalg.solve(gram + ridge, z.T @ target.reshape(-1))
    left = target - shared @ weights
    x = local.transpose(1, 2, 0)
    if np.isfinite(penalties).any():
        grams, sides = x @ x.transpose(0, 2, 1), x @ left.transpose(1, 0, 2)
        energy = np.einsum("nff->n", grams)[:, None, None] / grams.shape[1] + 1e-300
    out = []
    for penalty in penalties:
        if np.isfinite(penalty):
            matrices = np.linalg.solve(grams + penalty * energy * np.eye(grams.shape[1]), sides)
        out.append((weights, matrices if np.isfinite(penalty) else None))
    return out
