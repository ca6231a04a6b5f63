"""Several forecasting methods together, each weighted by how it forecasts times it has not learnt from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from scipy.optimize import nnls

from ..errors import InvalidInputError
from .attentive import AttentionNetwork
from .autoregression import Autoregression
from .forecasting import ForecastMethod, Judged, Predictor, Record


@dataclass(frozen=True)
class Stacked(ForecastMethod):
    """Method of ``FieldForecaster``: a weighted mean of several, its weights by least squares for each lead.

    No weight is negative and all together are at most one, so that what does not help is left out.
    """

    methods: tuple[ForecastMethod, ...] = (Autoregression(), AttentionNetwork())

    def __post_init__(self) -> None:
        if not self.methods or not all(isinstance(method, ForecastMethod) for method in self.methods):
            raise InvalidInputError(f"Stacked needs methods such as Autoregression(), got {self.methods!r}.")

    def fit(self, record: Record) -> StackedForecast:
        return StackedForecast(record, [method.fit(record) for method in self.methods])


@dataclass(eq=False)
class StackedForecast(Predictor):
    """Fitted methods; weights ``(members,)`` of each lead are found when first asked for."""

    record: Record = field(repr=False)
    members: list[Predictor]
    told_: dict[tuple[int, int], tuple[np.ndarray, Judged] | None] = field(default_factory=dict, repr=False)

    def predict(self, recent: np.ndarray, horizon: int, mean: np.ndarray) -> np.ndarray:
        out = np.zeros((horizon, *recent.shape[1:]))
        weights = np.stack([w for w, _ in self._leads(len(recent), horizon)] or [np.zeros(len(self.members))])
        for member, weight in zip(self.members, weights.T, strict=True):
            if weight.any():
                out[: len(weight)] += weight[:, None, None] * member.predict(recent, len(weight), mean)
        return out

    def judged(self, length: int, horizon: int) -> list[Judged]:
        return [told for _, told in self._leads(length, horizon)]

    def held_out(self, h: int, length: int) -> tuple[np.ndarray, np.ndarray] | None:
        raise InvalidInputError("a Stacked method cannot be part of another. Give all methods to one.")

    def _leads(self, length: int, horizon: int) -> list[tuple[np.ndarray, Judged]]:
        """Weights and what is known of them, up to the first lead that no member has skill for."""
        leads = []
        for h in range(1, horizon + 1):
            if (h, length) not in self.told_:
                self.told_[h, length] = self._lead(h, length)
            told = self.told_[h, length]
            if told is None:
                break
            leads.append(told)
        return leads

    def _lead(self, h: int, length: int) -> tuple[np.ndarray, Judged] | None:
        told, part = [], np.zeros(len(self.members), bool)
        for k, member in enumerate(self.members):
            held = member.held_out(h, length) if length >= member.least else None
            if held is not None and len(held[0]):
                told.append(held)
                part[k] = True
        if not told:
            return None
        times = reduce(np.intersect1d, [origins for origins, _ in told])
        if not len(times):  # no time that they can be compared at: the first alone
            told, part[np.flatnonzero(part)[1:]] = told[:1], False
            times = told[0][0]
        target = self.record.anomalies[times + h]
        guesses = [guess[np.searchsorted(origins, times)] for origins, guess in told]
        found = _least_squares(guesses, target)
        judged = Judged.of(np.tensordot(found, guesses, axes=1), target)
        weights = np.zeros(len(self.members))
        weights[part] = judged.factor * found
        return weights, judged


def _least_squares(guesses: list[np.ndarray], target: np.ndarray) -> np.ndarray:
    """Weights of guesses, none negative, at most one in all, by normal equations: there are few of them."""
    gram = np.array([[np.vdot(a, b) for a in guesses] for b in guesses])
    root = np.linalg.cholesky(gram + (1e-9 * np.trace(gram) + 1e-300) * np.eye(len(gram)))
    found = nnls(root.T, np.linalg.solve(root, [np.vdot(guess, target) for guess in guesses]))[0]
    return found / max(found.sum(), 1.0)
