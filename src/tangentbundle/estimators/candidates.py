"""The choice between models, and the simplest of them: the data as they are, and the mean of neighbours."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InvalidInputError, TangentBundleError, TangentBundleWarning
from .covariance import Ambient, Covariance, CurlFree, DivergenceFree, Matern, Tangent, helmholtz
from .observations import JITTER, Model, Observations, Places, Posterior, Prediction, Score
from .process import QUICK_SITES, GaussianProcess


@dataclass(frozen=True)
class Candidates(Model):
    """Fits several models and takes the one that predicts left-out vectors best.

    The criterion is the log density of ambient vectors, each predicted from all the others, so that models of
    tangent and of ambient vectors are comparable. Models are compared in their quick form, at a quarter of
    ``max_left_out`` points; the best three once more at all of these, unless they are worse than the best by more than
    three standard errors. The best is then fitted in full. Baselines, the neighbours' mean and the data, are chosen if
    they are better by more than one standard error.
    """

    models: Sequence[Model]
    max_left_out: int = 400
    uses_history = True

    def fit(self, observations: Observations, rng: np.random.Generator) -> Posterior:
        seed, order = int(rng.integers(2**32)), rng.permutation(len(observations.parts(QUICK_SITES).groups))
        tried = [_try(model, observations, seed) for model in self.models]
        trials = [trial for trial in tried if isinstance(trial, Trial)]
        if not trials:
            raise InvalidInputError(f"none of the candidates can be fitted to these data: {tried or 'there are none'}")
        scores: dict[str, Score] = {}
        for count in (self.max_left_out // 4, self.max_left_out):
            index = _points(observations, order, count)
            for trial in trials:
                trial.leave_out(observations, index)
            top = trials[int(np.argmax([trial.density.mean() for trial in trials]))]
            rows = [trial.score(top) for trial in trials]
            scores |= {row.model: row for row in rows}
            near = [trial for trial, row in zip(trials, rows, strict=True) if row.margin <= 3 * row.margin_error]
            trials = sorted(near, key=lambda trial: -float(trial.density.mean()))[:3]
            if len(trials) == 1:
                break
        best = top
        if top.model.baseline:
            rivals = [trial for trial in trials if not trial.model.baseline]
            rivals = [trial for trial in rivals if (row := trial.score(top)).margin <= row.margin_error]
            best = max(rivals, key=lambda trial: float(trial.density.mean()), default=top)
        posterior, name, highest = best.posterior, str(best.model), scores[str(top.model)].score
        if best.quick is not best.model:
            posterior = best.model.fit(observations, np.random.default_rng(seed))
        scores[name] = scores[name]._replace(noise=posterior.noise)
        table = [row._replace(score=highest - row.margin) for row in scores.values()]  # on the vectors of the best
        posterior.model = name
        posterior.scores = sorted(table, key=lambda row: (row.model != name, row.margin))
        return posterior


def _points(observations: Observations, order: np.ndarray, count: int) -> np.ndarray:
    """At least ``count`` points where there are as many, of groups in this order: each shares one linear system."""
    groups = observations.parts(QUICK_SITES).groups
    enough = int(np.searchsorted(np.cumsum([len(groups[k]) for k in order]), count)) + 1
    return np.sort(np.concatenate([groups[k] for k in order[:enough]]))


@dataclass(eq=False)
class Trial:
    """A model fitted in its quick form, with the log densities of left-out vectors ``(m,)``."""

    model: Model
    quick: Model
    posterior: Posterior
    seconds: float
    density: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def leave_out(self, observations: Observations, index: np.ndarray) -> None:
        start = time.perf_counter()
        self.density = self.posterior.left_out(index).log_density(observations.vectors[index])
        self.seconds += time.perf_counter() - start

    def score(self, best: Trial) -> Score:
        margin = best.density - self.density
        error = float(margin.std() / np.sqrt(len(margin)))
        mean = float(self.density.mean())
        return Score(str(self.model), mean, float(margin.mean()), error, self.posterior.noise, self.seconds)


def _try(model: Model, observations: Observations, seed: int) -> Trial | TangentBundleError:
    """The error if the model has no fit to these data. What a model warns of matters only if it is chosen."""
    start, quick = time.perf_counter(), model.quick()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TangentBundleWarning)
            return Trial(
                model, quick, quick.fit(observations, np.random.default_rng(seed)), time.perf_counter() - start
            )
    except TangentBundleError as error:
        return error


@dataclass(frozen=True)
class NeighborMean(Model):
    """The mean vector of the nearest points; of ``neighbors`` the number with the least leave-one-out error."""

    neighbors: Sequence[int] = (4, 8, 16, 32, 64)
    baseline = True

    def fit(self, observations: Observations, rng: np.random.Generator) -> NeighborPosterior:
        n = len(observations.points)
        sample = np.arange(n) if n <= 2000 else np.sort(rng.choice(n, 2000, replace=False))
        counts = sorted({min(k, n - 1) for k in self.neighbors})
        fits = [NeighborPosterior(observations, k, 1.0) for k in counts]
        errors = [np.square(fit.left_out(sample).mean - observations.vectors[sample]).mean() for fit in fits]
        best = int(np.argmin(errors))
        return NeighborPosterior(observations, counts[best], float(errors[best]))


@dataclass(eq=False)
class NeighborPosterior(Posterior):
    """Means of the ``neighbors`` nearest vectors; ``variance`` is that of left-out components about them."""

    observations: Observations = field(repr=False)
    neighbors: int
    variance: float

    def __post_init__(self) -> None:
        known = self.observations.noise
        self.noise = float(np.sqrt(self.variance if known is None else known.mean()))  # at most: the field changes, too
        self.noise_across = self.noise**2
        self.parameters = {"neighbors": float(self.neighbors)}

    def predict(self, places: Places, spread: bool = True) -> Prediction:
        """At a training point its own vector is one of them; of the difference of two vectors half is noise of one."""
        away, index = self._nearest(places.points, self.neighbors)
        own = (away[:, 0] == 0.0) & (self.neighbors == 1)
        return Prediction.isotropic(self._means(index), self.variance / np.where(own, 2, self.neighbors) + JITTER)

    def left_out(self, index: np.ndarray) -> Prediction:
        nearest = self._nearest(self.observations.points[index], self.neighbors + 1)[1]
        own = nearest == index[:, None]
        own[~own.any(axis=1), -1] = True  # many coincident points
        others = nearest[~own].reshape(len(index), -1)
        return Prediction.isotropic(self._means(others), self.variance)

    def _means(self, index: np.ndarray) -> np.ndarray:
        """Mean vectors ``(m, D)`` over rows of indices ``(m, k)``, without an array of size m k D."""
        return sum(self.observations.vectors[column] for column in index.T) / index.shape[1]

    def _nearest(self, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        away, index = self.observations.tree.query(points, k=count)
        return away.reshape(len(points), count), index.reshape(len(points), count)


@dataclass(frozen=True)
class Identity(NeighborMean):
    """The data as they are: the vector itself at a training point, that of the nearest one elsewhere."""

    neighbors: Sequence[int] = field(default=(1,), init=False, repr=False)


def default_models(observations: Observations, covariances: Sequence[Covariance] | None = None) -> list[Model]:
    """Gaussian processes with given covariances, also without a history; the neighbours' mean, and the data.

    By default covariances are those of smooth tangent fields, a Helmholtz mixture with a rough part, ambient fields,
    and some without divergence or curl.
    """
    D, d = observations.dims
    if covariances is None:
        smooth, surface = Matern(np.inf), d == 2 and observations.oriented
        rough = helmholtz() if surface else CurlFree() + Tangent(Matern(0.5))
        covariances = [Tangent(smooth), rough, Ambient(smooth), Ambient(Matern(1.5))]
        if 1 < D <= 6:  # of many components, no divergence says little about each
            covariances += [DivergenceFree(smooth, ambient=True), CurlFree(smooth, ambient=True)]
    kinds = (True,) if observations.history is None else (True, False)
    processes = [GaussianProcess(covariance, uses_history=past) for past in kinds for covariance in covariances]
    for covariance in covariances:
        covariance.check(D, d, observations.oriented)
    return [*processes, NeighborMean(), Identity()]
