"""Gaussian processes of vector fields, in tangent bases or in axes of ambient space."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import InvalidInputError
from .bases import FieldInBases, signal_axes
from .covariance import Covariance, helmholtz_covariance
from .history import from_history
from .likelihood import maximize
from .observations import Model, Observations
from .posterior import GaussianPosterior

QUICK_SITES = 120
"""Observations that a prediction uses while models are compared."""


@dataclass(frozen=True)
class GaussianProcess(Model):
    """A Gaussian process of tangent or of ambient vectors.

    Args:
        covariance: such as ``Tangent()``, ``Ambient()``, ``DivergenceFree() + CurlFree()``; with a
            history it is ``from_history(covariance)``, and the field's mean is that of the history.
        sites: number of observations that a prediction uses, half of them near and one by one, half
            of them means of cells further away; hyperparameters are fitted to at most this number,
            at least 8. Default: 640 where components are independent, otherwise 320.
        rows: most rows of the matrix whose likelihood determines them; it is factored some twenty
            times.
        steps: most steps of the search for hyperparameters.
        uses_history: whether a history is taken into account where there is one.
    """

    covariance: Covariance
    sites: int | None = None
    rows: int = 500
    steps: int = 60
    uses_history: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.covariance, Covariance):
            raise InvalidInputError(
                f"covariance must be an object such as Tangent(), got {self.covariance!r}."
            )
        if self.sites is not None and not (
            isinstance(self.sites, (int, np.integer)) and self.sites >= 8
        ):
            raise InvalidInputError(
                f"sites must be an integer of at least 8, or None, got {self.sites!r}."
            )

    @property
    def ambient(self) -> bool:  # type: ignore[override]
        return self.covariance.ambient

    def __str__(self) -> str:
        return f"GaussianProcess({self.covariance})" + ("" if self.uses_history else ", no history")

    @property
    def name(self) -> str:
        """The covariance; that of a divergence-free and a curl-free part is called helmholtz."""
        covariance = str(self.covariance).replace(str(helmholtz_covariance()), "helmholtz")
        return covariance if self.uses_history else f"{covariance}, no history"

    def quick(self) -> GaussianProcess:
        return replace(self, sites=min(self.sites or QUICK_SITES, QUICK_SITES), steps=12)

    def fit(self, observations: Observations, rng: np.random.Generator) -> GaussianPosterior:
        self.covariance.check(*observations.dims, observations.oriented)
        observations = observations if self.uses_history else replace(observations, history=None)
        bases = signal_axes(observations) if self.covariance.ambient else observations.frames
        data = FieldInBases(observations, bases)
        covariance = (
            self.covariance if observations.history is None else from_history(self.covariance)
        )
        sites = self.sites or (640 if covariance.independent else 320)
        index = data.sample(
            min(sites, self.rows // (1 if covariance.independent else bases.shape[-1])), rng
        )
        names = covariance.parameters(*bases.shape[-2:])
        center, width = (
            np.array([*names.values(), -2.0]),
            np.full(len(names) + 1, 3.0),
        )  # a factor of 20
        if (
            observations.history is not None
        ):  # its parameters but the noise hold for the field, to a third
            center[:-1] = maximize(
                covariance, data.past_evidence(index), center, width, self.steps
            )[:-1]
            width[:-1] = 0.3
        shortest = 0.5 * observations.spacing  # below, neighbours are independent, as noise is
        theta = maximize(
            covariance, data.evidence(index), center, width, self.steps, data.max_noise, shortest
        )
        parameters = dict(zip([*names, "noise"], np.exp(theta).tolist(), strict=True))
        return GaussianPosterior(covariance, theta, data, observations.parts(sites), parameters)
