r"""The slow part of a series of fields: its mean and cycle in training, and what a recent window says of them.

A field is taken as climate plus anomaly, :math:`x_t = \mu_{t \bmod P} + a_t`, with a cycle of P steps. Seasons change:
the mean of W recent fields departs from that of training by a drift and by chance. With :math:`\sigma_i` the size of
anomalies at a point (root mean square one over all points), their variances are taken as :math:`s\,\sigma_i` and
:math:`v\,\sigma_i^2`. Training tells :math:`v`, the window itself tells :math:`s` (all points together), and

.. math:: \hat\mu_i = \mu_i + \frac{s}{s + v\,\sigma_i}\,(\mu_{W,i} - \mu_i), \qquad
          s = \Big(\overline{|\mu_W - \mu|^2} - v\Big)_+ :

an empirical Bayes estimate of James and Stein's kind. Without a drift it is the training mean, after a large one the
window's. The departures of the cycle's phases from the mean are treated likewise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

BLOCKS = 8
"""Blocks of a training series that show how much a cycle varies by chance."""


class Now(NamedTuple):
    """Mean ``(n, d)`` and cycle ``(P, n, d)`` now, the variance ``(n,)`` of a coordinate's error of the mean, and
    ``changed``, from 0 to 1: how much of the window's departure from training is no chance.
    """

    mean: np.ndarray
    cycle: np.ndarray
    error: np.ndarray
    changed: float


@dataclass(frozen=True, eq=False)
class Climate:
    """Mean ``(n, d)`` of a training series of ``length`` fields and its cycle: departures from the mean ``(P, n, d)``.

    ``sizes`` ``(n,)`` are the :math:`\\sigma_i`; ``chance`` holds lengths of windows and variances of a coordinate of
    their means, ``cycle_chance`` that of a cycle's departures times the window's length.
    """

    mean: np.ndarray = field(repr=False)
    cycle: np.ndarray = field(repr=False)
    length: int
    sizes: np.ndarray = field(repr=False)
    chance: tuple[np.ndarray, np.ndarray] = field(repr=False)
    cycle_chance: float

    @classmethod
    def of(cls, values: np.ndarray, ticks: np.ndarray, period: int) -> Climate:
        """From fields ``(T, n, d)`` at ticks ``(T,)``."""
        count = len(values)
        mean, cycle = phases(values, ticks, period)
        rest = values - mean - cycle[ticks % period]
        lengths = np.unique(np.geomspace(1, max(count // 4, 1), 12).astype(int))
        sums = np.concatenate([np.zeros_like(rest[:1]), rest.cumsum(axis=0)])
        errors = [np.square((sums[w:] - sums[:-w]) / w).mean() / (1 - w / count) for w in lengths]
        size = max(count // BLOCKS, 2 * period)
        parts = [slice(a, a + size) for a in range(0, count - size + 1, size)]
        departures = float(np.mean([np.square(phases(rest[s], ticks[s], period)[1]).mean() for s in parts]))
        sizes = np.sqrt(np.square(rest).mean(axis=(0, 2)))
        sizes = np.maximum(sizes / np.sqrt(np.square(sizes).mean()), 1e-6)
        per_step = departures * size / (1 - min(size / count, 0.5))
        return cls(mean, cycle, count, sizes, (lengths, np.array(errors)), per_step)

    @property
    def period(self) -> int:
        return len(self.cycle)

    def sampling(self, length: int) -> float:
        """The variance of a coordinate of the mean of so many successive anomalies."""
        lengths, errors = self.chance
        if length <= lengths[-1]:
            return float(np.interp(length, lengths, errors))
        return float(errors[-1] * lengths[-1] / length)

    def updated(self, recent: np.ndarray, ticks: np.ndarray) -> Now:
        """The climate of a window ``(W, n, d)``."""
        window, cycle = len(recent), self.cycle
        if self.period > 1 and window >= 2 * self.period:
            mean, seen = phases(recent, ticks, self.period)
            gains = self._gains(seen - cycle, self.cycle_chance * (1 / window + 1 / self.length))
            cycle = cycle + gains[:, None] * (seen - cycle)
        else:
            mean = (recent - cycle[ticks % self.period]).mean(axis=0)
        chance = self.sampling(window) + self.sampling(self.length)
        gains = self._gains(mean - self.mean, chance)
        mean = self.mean + gains[:, None] * (mean - self.mean)
        return Now(mean, cycle, gains * chance * self.sizes**2, float(gains.mean()))

    def _gains(self, change: np.ndarray, chance: float) -> np.ndarray:
        """The share ``(n,)`` of a change ``(..., n, d)`` that is no chance."""
        drift = max(float(np.square(change).mean()) - chance, 0.0)
        drifts = drift * self.sizes / self.sizes.mean()
        return drifts / np.maximum(drifts + chance * self.sizes**2, 1e-300)


def phases(values: np.ndarray, ticks: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``(n, d)`` over the phases of a cycle, and each phase's departure from it ``(P, n, d)``.

    >>> mean, cycle = phases(np.arange(6.0)[:, None, None], np.arange(6), 2)
    >>> mean.item(), cycle.ravel().tolist()
    (2.5, [-0.5, 0.5])
    """
    if period == 1:
        mean = values.mean(axis=0)
        return mean, np.zeros_like(mean)[None]
    means = np.stack([values[ticks % period == p].mean(axis=0) for p in range(period)])
    mean = means.mean(axis=0)
    return mean, means - mean
