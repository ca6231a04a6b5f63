r"""Gaussian processes of vector fields: one likelihood, one posterior, one leave-one-out.

.. math:: y = B f + \eta, \qquad
          E[f_* | y] = K_{*}(K + N)^{-1} y, \quad \mathrm{Cov}[f_* | y] = K_{**} - K_* (K + N)^{-1} K_*^T,

with f the coordinates of the field in bases B of the points, and N the variance of the noise. What is measured across
the bases is noise and, where they are estimated, a share of the field. With few points a prediction uses all of them;
with many, the nearest ones and the means of cells of further ones: observations of the field at the centre of the
cell, with the noise of a mean and the variance of the difference between the field's mean and its value there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import InvalidInputError
from .bases import FieldInBases, signal_axes
from .covariance import Covariance
from .history import from_history
from .likelihood import NOISE_START, PRIOR_WIDTH, maximize
from .observations import Model, Observations
from .posterior import GaussianPosterior

QUICK_SITES = 120
"""Observations that a prediction uses while models are compared."""

HISTORY_WIDTH = 0.3
"""Standard deviation of the prior around logarithms of parameters that were fitted to a history."""


@dataclass(frozen=True)
class GaussianProcess(Model):
    """A Gaussian process of tangent or of ambient vectors.

    Args:
        covariance: such as ``Tangent()``, ``Ambient()``, ``DivergenceFree() + CurlFree()``; with a history it is
            ``from_history(covariance)``, and the field's mean is that of the history.
        sites: number of observations that a prediction uses, half of them near and one by one, half of them means of
            cells further away; hyperparameters are fitted to at most this number, at least 8. Default: 640 where
            components are independent, otherwise 320.
        rows: most rows of the matrix whose likelihood determines them; it is factored some twenty times.
        steps: most steps of the search for hyperparameters.
    """

    covariance: Covariance
    sites: int | None = None
    rows: int = 400
    steps: int = 60
    uses_history = True

    def __post_init__(self) -> None:
        if not isinstance(self.covariance, Covariance):
            raise InvalidInputError(f"covariance must be an object such as Tangent(), got {self.covariance!r}.")
        if self.sites is not None and not (isinstance(self.sites, (int, np.integer)) and self.sites >= 8):
            raise InvalidInputError(f"sites must be an integer of at least 8, or None, got {self.sites!r}.")

    def __str__(self) -> str:
        return f"GaussianProcess({self.covariance})"

    def quick(self) -> GaussianProcess:
        return replace(self, sites=min(self.sites or QUICK_SITES, QUICK_SITES), rows=200, steps=12)

    def fit(self, observations: Observations, rng: np.random.Generator) -> GaussianPosterior:
        self.covariance.check(*observations.dims, observations.oriented)
        bases = signal_axes(observations) if self.covariance.ambient else observations.frames
        data = FieldInBases(observations, bases)
        covariance = self.covariance if observations.history is None else from_history(self.covariance)
        sites = self.sites or (640 if covariance.independent else 320)
        index = data.sample(min(sites, self.rows // (1 if covariance.independent else bases.shape[-1])), rng)
        names = covariance.parameters(*bases.shape[-2:])
        center, width = np.array([*names.values(), NOISE_START]), np.full(len(names) + 1, PRIOR_WIDTH)
        if observations.history is not None:
            past = maximize(covariance, data.past_evidence(index), center, width, self.steps)
            steady = np.array([*(not name.startswith("ScaledMean") for name in names), False])
            center, width = np.where(steady, past, center), np.where(steady, HISTORY_WIDTH, width)
        theta = maximize(covariance, data.evidence(index), center, width, self.steps, data.max_noise)
        parameters = dict(zip([*names, "noise"], np.exp(theta).tolist(), strict=True))
        return GaussianPosterior(covariance, theta, data, observations.parts(sites), parameters)
