"""Gaussian processes of vector fields: a covariance, its likelihood, the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InvalidInputError
from .bases import Bases, FieldInBases, PointFrames, as_tensor
from .covariance import NOISE, Covariance, Parameter, helmholtz_covariance
from .empirical import from_history, within_history
from .history import History
from .likelihood import Evidence, ParameterPosterior, Prior, PureNoise
from .neighborhoods import halved
from .observations import Observations, evenly
from .posterior import GaussianPosterior
from .prediction import Model

EXACT_POINTS = 640
"""Up to so many observations a prediction uses every one of them."""

LOCAL_ROWS = 640
"""Rows of the matrices of predictions beyond, which use so many components of observations and of
means of cells."""

SAMPLE_ROWS = 800
"""Rows of the largest matrix whose likelihood is computed, some ten times: 400 tangent vectors
of a surface. With more points it is that of a sample of all, together with small patches."""

COARSE_POINTS = 200
"""Points of the sample from which the search of the parameters begins. Their matrices are factored
some eight times as fast as those of 400 points, on which the search ends with few steps."""

PATCHES = 4
"""Patches of neighbours, each with such a part of the sample's number of points."""

PAST_FIELDS = 24
"""Fields of a history whose likelihood is computed."""

HISTORY_WIDTH = 0.3
"""Parameters found from a history hold for the field at hand up to such a factor."""


@dataclass(frozen=True)
class GaussianProcess(Model):
    """A Gaussian process of tangent or of ambient vectors.

    Args:
        covariance: such as ``Tangent()``, ``Ambient()``, ``DivergenceFree() + CurlFree()``; with a
            history it is ``from_history(covariance)``, and the field's mean is a multiple of that
            of the history.
        sites: number of observations that a prediction uses, half of them near and one by one, half
            of them means of cells further away; at least 8. Default: all of up to 640; with more
            points 640 where components are independent, and otherwise 320 vectors of two
            components, or as many of others as have 640 components.
        uses_history: whether a history is taken into account where there is one.

    >>> from tangentbundle.estimators import Tangent
    >>> print(GaussianProcess(Tangent()))
    Tangent(1.5)
    """

    covariance: Covariance
    sites: int | None = None
    uses_history: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.covariance, Covariance):
            raise InvalidInputError(
                f"covariance must be an object such as Tangent(), got {self.covariance!r}."
            )
        is_integer = isinstance(self.sites, (int, np.integer))
        if self.sites is not None and not (is_integer and self.sites >= 8):
            raise InvalidInputError(
                f"sites must be an integer of at least 8, or None, got {self.sites!r}."
            )

    def __str__(self) -> str:
        if self.uses_history:
            return str(self.covariance)
        return f"{self.covariance}, no history"

    @property
    def name(self) -> str:
        """The covariance; that of a divergence-free and a curl-free part is called helmholtz."""
        covariance = str(self.covariance).replace(str(helmholtz_covariance()), "helmholtz")
        return covariance if self.uses_history else f"{covariance}, no history"

    def fit(self, observations: Observations) -> GaussianPosterior:
        self.covariance.check(observations.ambient_dim, observations.dim, observations.oriented)
        if not self.uses_history:
            observations = replace(observations, history=None)
        covariance = self.covariance
        if observations.history is not None:
            covariance = from_history(self.covariance)
        bases = self._bases(observations)
        data = FieldInBases(observations, bases)
        parameters = (*covariance.parameters(observations.ambient_dim, data.bases.dim), NOISE)
        logarithms = fitted_logarithms(covariance, parameters, data)
        names = [parameter.name for parameter in parameters]
        return GaussianPosterior(
            covariance=covariance,
            logarithms=logarithms,
            data=data,
            neighborhoods=observations.neighborhoods(self._sites(observations, bases)),
            parameters=dict(zip(names, np.exp(logarithms).tolist(), strict=True)),
        )

    def _bases(self, observations: Observations) -> Bases:
        if self.covariance.ambient:
            return self.covariance.directions.of(observations)
        return PointFrames(observations.frames, observations.exact)

    def _sites(self, observations: Observations, bases: Bases) -> int:
        if self.sites is not None:
            return self.sites
        if len(observations.points) <= EXACT_POINTS or self.covariance.independent:
            return EXACT_POINTS
        return max(LOCAL_ROWS // bases.dim, 8)


def fitted_logarithms(
    covariance: Covariance, parameters: tuple[Parameter, ...], data: FieldInBases
) -> np.ndarray:
    """The most probable logarithms of the parameters, the noise last."""
    observations = data.observations
    patches = likelihood_patches(observations, _sample_size(covariance, data))
    # fields of lengths below the distance of neighbours cannot be told from noise
    prior = Prior.of(parameters, observations.spacing, data.max_noise)
    if observations.history is not None:
        prior = prior.around(logarithms_given_past(covariance, data, patches), HISTORY_WIDTH)

    def density(indices: list[np.ndarray]) -> ParameterPosterior:
        evidence = [evidence_at(data, index) for index in indices]
        return ParameterPosterior(covariance, evidence, pure_noise(data, indices), prior)

    return searched(density, observations, patches)


def logarithms_given_past(
    covariance: Covariance, data: FieldInBases, patches: list[np.ndarray]
) -> np.ndarray:
    """The most probable logarithms of the parameters, the first ones, of which a history tells; not
    the noise, which may be another one."""
    anomalies = within_history(covariance)
    own_parameters = anomalies.parameters(data.observations.ambient_dim, data.bases.dim)
    prior = Prior.of((*own_parameters, NOISE))

    def density(indices: list[np.ndarray]) -> ParameterPosterior:
        evidence = [past_evidence(data, index) for index in indices]
        return ParameterPosterior(anomalies, evidence, PureNoise(), prior)

    return searched(density, data.observations, patches)[:-1]


def searched(
    density: Callable[[list[np.ndarray]], ParameterPosterior],
    observations: Observations,
    patches: list[np.ndarray],
) -> np.ndarray:
    """The logarithms of the greatest ``density`` given the observations of all patches.

    The search begins with a small sample, whose maximum and curvature tell where and how far to
    step with all.
    """
    everything = density(patches)
    if len(observations.points) <= COARSE_POINTS:
        return everything.maximum()
    coarse = density([spread_sample(observations.points, COARSE_POINTS)])
    start = coarse.maximum()
    return everything.maximum_near(start, coarse.axes_of_curvature(start))


def _sample_size(covariance: Covariance, data: FieldInBases) -> int:
    """Points whose likelihood is computed at once."""
    if covariance.independent:
        return EXACT_POINTS
    return max(SAMPLE_ROWS // data.bases.dim, 8)


def likelihood_patches(observations: Observations, size: int) -> list[np.ndarray]:
    """Indices of observations whose likelihoods are added: all in one, or a sample of at most
    ``size`` and patches of neighbours.

    The sample has one point of each of as many cells: it tells long lengths. Patches from
    everywhere tell short lengths and the noise. Both follow from the points alone.
    """
    points = observations.points
    everything = np.arange(len(points))
    if len(points) <= size:
        return [everything]
    patches = halved(points, everything, max(size // PATCHES, 2))
    return [spread_sample(points, size), *evenly(patches, PATCHES)]


def spread_sample(points: np.ndarray, size: int) -> np.ndarray:
    """Indices of at most ``size`` points, one of each of as many cells."""
    cells = halved(points, np.arange(len(points)), -(-len(points) // size))
    return np.sort([cell[len(cell) // 2] for cell in evenly(cells, size)])


def evidence_at(data: FieldInBases, index: np.ndarray) -> Evidence:
    """Some of the observations."""
    noise = data.observations.noise
    variances = None if noise is None else as_tensor(noise[index])
    return Evidence(data.sites_at(index), as_tensor(data.values[index])[..., None], variances)


def pure_noise(data: FieldInBases, patches: list[np.ndarray]) -> PureNoise:
    """What was measured across bases that hold all of the field, at the points of all patches."""
    if data.observations.noise is not None:
        return PureNoise()
    if not (data.measured_across and data.bases.across_is_noise):
        return PureNoise()
    index = np.concatenate(patches)
    components = data.bases.ambient_dim - data.bases.dim
    return PureNoise(len(index) * components, float(np.square(data.across[index]).sum()))


def past_evidence(data: FieldInBases, index: np.ndarray) -> Evidence:
    """Fields of the last third of the history, at these points, given the first two thirds."""
    history = data.observations.history
    assert history is not None
    first, last = np.split(history.fields, [2 * len(history.fields) // 3])
    earlier = History(history.points, first)
    later = History(history.points, last)
    step = -(-len(last) // PAST_FIELDS)
    points = data.observations.points[index]
    bases = data.bases.at(index)
    anomalies = later.at(points)[::step] - earlier.mean(points)
    values = np.stack([bases.coordinates(anomaly) for anomaly in anomalies], axis=-1)
    given_earlier = replace(data, observations=replace(data.observations, history=earlier))
    return Evidence(given_earlier.sites_at(index), as_tensor(values))
