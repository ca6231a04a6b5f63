"""The choice between models, and the simplest of them: the data as they are, and the mean of
neighbours."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InvalidInputError, TangentBundleError, TangentBundleWarning
from .covariance import Ambient, Covariance, CurlFree, DivergenceFree, Matern, Tangent
from .observations import JITTER, Model, Observations, Places, Posterior, Prediction, Score
from .process import QUICK_SITES, GaussianProcess


@dataclass(frozen=True)
class Candidates(Model):
    """Fits several models and takes the one that predicts left-out vectors best.

    The criterion is the log density of vectors, each predicted from all the others: ambient ones,
    so that models of tangent and of ambient vectors are comparable, or tangent ones on a known
    manifold. Models are compared in their quick form at ``max_left_out`` points. Of the best and
    those in the same bases, tangent or ambient, that differ from it by less than one standard
    error, the one with the fewest parameters is fitted in full and answers. A baseline, the
    neighbours' mean or the data, answers only if no other model is as near to it.
    """

    models: Sequence[Model]
    max_left_out: int = 400
    uses_history = True

    def fit(self, observations: Observations, rng: np.random.Generator) -> Posterior:
        seed, groups = int(rng.integers(2**32)), observations.parts(QUICK_SITES).groups
        order = rng.permutation(len(groups))  # of groups, each of which shares one linear system
        enough = (
            int(np.searchsorted(np.cumsum([len(groups[k]) for k in order]), self.max_left_out)) + 1
        )
        index = np.sort(np.concatenate([groups[k] for k in order[:enough]]))
        tried = [Trial.of(model, observations, seed, index) for model in self.models]
        trials = [trial for trial in tried if isinstance(trial, Trial)]
        if not trials:
            raise InvalidInputError(
                f"none of the candidates can be fitted to these data: {tried or 'there are none'}"
            )
        top = max(trials, key=lambda trial: float(trial.density.mean()))
        scores = {trial: trial.score(top) for trial in trials}
        near = [trial for trial, row in scores.items() if row.margin <= row.margin_error]
        near = [t for t in near if t.model.ambient == top.model.ambient or top.model.baseline]
        best = min(
            near, key=lambda t: (t.model.baseline, len(t.posterior.parameters), scores[t].margin)
        )
        posterior = best.model.fit(observations, np.random.default_rng(seed))
        scores[best] = scores[best]._replace(noise=posterior.noise)
        posterior.model = str(best.model)
        posterior.scores = sorted(
            scores.values(), key=lambda row: (row.model != posterior.model, row.margin)
        )
        return posterior


@dataclass(frozen=True, eq=False)
class Trial:
    """A model fitted in its quick form, with the log densities of left-out vectors ``(m,)``."""

    model: Model
    posterior: Posterior
    density: np.ndarray
    seconds: float

    @classmethod
    def of(
        cls, model: Model, observations: Observations, seed: int, index: np.ndarray
    ) -> Trial | TangentBundleError:
        """The error if the model has no fit to these data. What a model warns of matters only if it
        is chosen."""
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TangentBundleWarning)
                posterior = model.quick().fit(observations, np.random.default_rng(seed))
                found, vectors = posterior.left_out(index), observations.vectors[index]
                found = found.inside(observations.frames[index]) if observations.exact else found
                density = found.log_density(observations.components(vectors, index))
        except TangentBundleError as error:
            return error
        return cls(model, posterior, density, time.perf_counter() - start)

    def score(self, best: Trial) -> Score:
        margin, mean = best.density - self.density, float(self.density.mean())
        error = float(margin.std() / np.sqrt(len(margin)))
        return Score(
            model=str(self.model),
            score=mean,
            margin=float(margin.mean()),
            margin_error=error,
            noise=self.posterior.noise,
            seconds=self.seconds,
            name=self.model.name,
        )


@dataclass(frozen=True)
class NeighborMean(Model):
    """The mean vector of the nearest points; of ``neighbors`` the number with the least
    leave-one-out error."""

    neighbors: int | Sequence[int] = (4, 8, 16, 32, 64)
    baseline = True

    def fit(self, observations: Observations, rng: np.random.Generator) -> NeighborPosterior:
        n = len(observations.points)
        sample = np.arange(n) if n <= 2000 else np.sort(rng.choice(n, 2000, replace=False))
        counts = sorted({min(int(k), n - 1) for k in np.atleast_1d(self.neighbors)})
        fits = [NeighborPosterior(observations, k, 1.0) for k in counts]
        left = [fit.left_out(sample).mean - observations.vectors[sample] for fit in fits]
        errors = [np.square(observations.components(error, sample)).mean() for error in left]
        best = int(np.argmin(errors))
        return NeighborPosterior(observations, counts[best], float(errors[best]))


@dataclass(eq=False)
class NeighborPosterior(Posterior):
    """Means of the ``neighbors`` nearest vectors; ``variance`` is that of left-out components about
    them."""

    observations: Observations = field(repr=False)
    neighbors: int
    variance: float

    def __post_init__(self) -> None:
        known = self.observations.noise
        self.noise = float(
            np.sqrt(self.variance if known is None else known.mean())
        )  # at most: the field changes, too
        self.noise_along = self.noise_across = self.noise**2
        self.parameters = {"neighbors": float(self.neighbors)}

    def predict(self, places: Places, spread: bool = True) -> Prediction:
        """At a training point its own vector is one of them; of the difference of two vectors half
        is noise of one."""
        away, index = self._nearest(places.points, self.neighbors)
        own = (away[:, 0] == 0.0) & (self.neighbors == 1)
        return Prediction.isotropic(
            self._means(index), self.variance / np.where(own, 2, self.neighbors) + JITTER
        )

    def left_out(self, index: np.ndarray) -> Prediction:
        nearest = self._nearest(self.observations.points[index], self.neighbors + 1)[1]
        own = nearest == index[:, None]
        own[~own.any(axis=1), -1] = True  # many coincident points
        others = nearest[~own].reshape(len(index), -1)
        return Prediction.isotropic(self._means(others), self.variance)

    def _means(self, index: np.ndarray) -> np.ndarray:
        """Mean vectors ``(m, D)`` over rows of indices ``(m, k)``, without an array of size m k
        D."""
        return sum(self.observations.vectors[column] for column in index.T) / index.shape[1]

    def _nearest(self, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        away, index = self.observations.tree.query(points, k=count)
        return away.reshape(len(points), count), index.reshape(len(points), count)


@dataclass(frozen=True)
class Identity(NeighborMean):
    """The data as they are: the vector itself at a training point, that of the nearest one
    elsewhere."""

    neighbors: Sequence[int] = field(default=(1,), init=False, repr=False)


def default_models(
    observations: Observations, covariances: Sequence[Covariance] | None = None
) -> list[Model]:
    """Gaussian processes with given covariances, also without a history; the neighbours' mean, and
    the data.

    By default covariances are those of smooth and of rough fields, tangent and ambient, and of
    smooth ambient ones without divergence or curl.
    """
    D, d = observations.dims
    if covariances is None:
        smooth, rough = Matern(np.inf), Matern(1.5)
        covariances = [Tangent(smooth), Tangent(rough), Ambient(smooth), Ambient(rough)]
        if 1 < D <= 6:  # of many components, no divergence says little about each
            covariances += [DivergenceFree(smooth, ambient=True), CurlFree(smooth, ambient=True)]
    kinds = (True,) if observations.history is None else (True, False)
    processes = [
        GaussianProcess(covariance, uses_history=past)
        for past in kinds
        for covariance in covariances
    ]
    for covariance in covariances:
        covariance.check(D, d, observations.oriented)
    return [*processes, NeighborMean(), Identity()]
