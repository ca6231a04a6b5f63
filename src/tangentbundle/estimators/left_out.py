"""How a fitted mixture predicts measurements that are left out one at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .calibration import calibration
from .observations import JITTER
from .prediction import Prediction
from .stacking import Mixture, compared_densities


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The compared vectors of a mixture's observations, each predicted from all others.

    Attributes: the ``mixture``; its ``prediction`` of these vectors; ``errors`` and ``variances``
    (m, D) of their components, in units of the observations.
    """

    mixture: Mixture
    prediction: Prediction
    errors: np.ndarray
    variances: np.ndarray

    @classmethod
    def of(cls, mixture: Mixture) -> LeftOut:
        observations = mixture.observations
        index = observations.compared
        prediction: Prediction = mixture.compared()
        measured = prediction
        if observations.exact:
            measured = measured.tangent(observations.frames[index])
            measured = measured.widened(0.0, noise_across_manifold(mixture))
        return cls(
            mixture=mixture,
            prediction=prediction,
            errors=observations.vectors[index] - measured.mean,
            variances=measured.variances() + JITTER,
        )

    @property
    def error(self) -> float:
        """Root mean square length of the errors."""
        return float(np.sqrt(np.square(self.errors).sum(axis=1).mean()))

    @property
    def residuals(self) -> np.ndarray:
        """Errors ``(m, D)`` in units of their standard deviations."""
        return self.errors / np.sqrt(self.variances)

    @property
    def calibration(self) -> float:
        """By which to multiply standard deviations so that they agree with the errors."""
        dim = self.mixture.observations.measured_dim
        return calibration(self.errors, self.variances, dim)

    @property
    def is_like_noise(self) -> bool:
        """Whether the vectors are predicted no better than by noise alone.

        The mean log density of the vectors, with the standard error ``sqrt(k / 2 n)``, is compared
        with that of noise, which is isotropic, or has the vectors' second moments. The inverse of
        second moments of n vectors with k components makes others ``n / (n - k - 1)`` times as
        unlikely.
        """
        observations = self.mixture.observations
        density = compared_densities(self.prediction, observations)
        values = observations.vectors
        if observations.exact:
            values = np.einsum("nda,nd->na", observations.frames, values)
        n, k = values.shape
        noise = k * np.log(np.square(values).mean() + JITTER) + k
        if n > k + 1:
            moments = values.T @ values / n + JITTER * np.eye(k)
            noise = min(noise, np.linalg.slogdet(moments)[1] + k * n / (n - k - 1))
        noise_density = -0.5 * (noise + k * np.log(2 * np.pi))
        return bool(density.mean() - noise_density < np.sqrt(k / (2 * len(density))))


def noise_across_manifold(mixture: Mixture) -> float:
    """The variance of the noise of components normal to a known manifold, none if measurements are
    tangent to it."""
    return min(mixture.noise**2, mixture.observations.normal_variance)
