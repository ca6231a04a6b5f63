r"""The climatology of a series, its mean and cycle, and the drift of the mean up to a recent
window.

The mean of W anomalies at point i has the sampling variance :math:`v_W s_i^2`, with :math:`s_i`
their relative size. A recent window departs from the training mean by a drift and sampling errors;
James and Stein's shrinkage of it gives

.. math:: \hat\mu_i = \mu_i + g_i\,(\bar x_{W,i} - \mu_i), \quad
          g_i = \frac{\delta s_i}{\delta s_i + (v_W + v_T)\,s_i^2}, \quad
          \delta = \Big(\overline{|\bar x_W - \mu|^2} - v_W - v_T\Big)_+ .
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Climate:
    """Mean ``(n, d)`` and cycle ``(P, n, d)`` of a series of ``length`` fields.

    ``sizes (n,)`` are the relative sizes of anomalies, root mean square one. For sampling errors
    anomalies count as a first-order autoregression with ``variance`` and lag-one ``correlation``.
    """

    mean: np.ndarray = field(repr=False)
    cycle: np.ndarray = field(repr=False)
    length: int
    sizes: np.ndarray = field(repr=False)
    variance: float
    correlation: float

    @classmethod
    def of(cls, values: np.ndarray, steps: np.ndarray, period: int = 1) -> Climate:
        """From fields ``(T, n, d)`` at steps ``(T,)``."""
        count = len(values)
        phases = steps % period
        fewest = int(np.bincount(phases, minlength=period).min())
        if fewest < 3:
            raise InvalidInputError(
                f"a period of {period} steps needs each phase at least 3 times in training, but "
                f"one occurs {fewest} times. Give a longer series, or no period."
            )
        means = np.stack([values[phases == phase].mean(axis=0) for phase in range(period)])
        mean = means.mean(axis=0)
        cycle = means - mean
        anomalies = values - mean - cycle[phases]
        energy = np.square(anomalies).mean(axis=(0, 2))
        mean_energy = float(energy.mean())
        sizes = np.maximum(np.sqrt(energy / max(mean_energy, 1e-300)), 1e-6)
        window = max(count // 10, 2)
        blocks = np.array_split(anomalies, count // window)
        block_means = np.stack([block.mean(axis=0) for block in blocks])
        departures = np.square(block_means - block_means.mean(axis=0)).mean()
        spread = float(departures / max(mean_energy, 1e-300))
        correlation = fitted_correlation(spread, window, count)
        removed = mean_variance(correlation, count) + cycle_variance(correlation, count, period)
        return cls(
            mean=mean,
            cycle=cycle,
            length=count,
            sizes=sizes,
            variance=mean_energy / (1 - removed),
            correlation=correlation,
        )

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Mean and cycle ``(T, n, d)`` at steps ``(T,)``."""
        return self.mean + self.cycle[steps % len(self.cycle)]

    def current(self, recent: np.ndarray, steps: np.ndarray) -> tuple[Climate, np.ndarray]:
        """The climatology now, given recent fields ``(W, n, d)`` at steps, and the gain ``(n,)`` of
        the shrinkage."""
        change = (recent - self.at(steps)).mean(axis=0)
        variance = self._mean_variance(len(recent), self.length)
        mean_drift = max(float(np.square(change).mean()) - variance, 0.0)
        drift = mean_drift * self.sizes / self.sizes.mean()
        gain = drift / np.maximum(drift + variance * self.sizes**2, 1e-300)
        return replace(self, mean=self.mean + gain[:, None] * change), gain

    def _mean_variance(self, *counts: int) -> float:
        return self.variance * sum(mean_variance(self.correlation, count) for count in counts)

    def errors(
        self, gain: np.ndarray, window: int, since: np.ndarray, memory: np.ndarray
    ) -> np.ndarray:
        """Variances ``(H, n)`` that errors of mean and cycle add to forecasts, ``since (H,)`` steps
        after training.

        They count twice: they shift forecasts, and held-out errors about the same mean are too
        small. Soon after training a field and that mean err alike, which makes up for it where the
        forecast, by its ``memory (H,)`` of the last anomaly, has not used it already.
        """
        mean = 2 * self._mean_variance(self.length) + gain * self._mean_variance(window)
        shared = (1 - self.correlation**self.length) / (self.length * (1 - self.correlation))
        unused = np.maximum(self.correlation ** np.maximum(since, 1) - memory, 0.0)
        known = 2 * self.variance * shared * unused
        cycle = 2 * self.variance * cycle_variance(self.correlation, self.length, len(self.cycle))
        free = (1 - memory)[:, None]
        return np.maximum(free**2 * mean - free * known[:, None] + cycle, 0.0) * self.sizes**2


def mean_variance(correlation: float, count: int) -> float:
    """The variance of the mean of successive values of a first-order autoregression of variance
    one."""
    lags = np.arange(1, count)
    return float(count + 2 * ((count - lags) * correlation**lags).sum()) / count**2


def cycle_variance(correlation: float, count: int, period: int) -> float:
    """The variance of the departures of phases from the mean, averaged over phases, for long such
    series."""
    cosines = np.cos(2 * np.pi * np.arange(1, period) / period)
    spectrum = (1 - correlation**2) / (1 - 2 * correlation * cosines + correlation**2)
    return float(spectrum.sum()) / count


def fitted_correlation(measured: float, window: int, count: int) -> float:
    """The lag-one correlation, at least 0, at which means over ``window`` of ``count`` values have
    the variance ``measured`` about the mean of all, in units of that of single values."""
    grid = np.linspace(0, 1 - 1 / count, 200)
    short = np.array([mean_variance(correlation, window) for correlation in grid])
    full = np.array([mean_variance(correlation, count) for correlation in grid])
    return float(np.interp(measured, (short - full) / (1 - full), grid))
