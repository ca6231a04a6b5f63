"""What a field estimator must beat: the usual ways to fill in or smooth vectors, blind to tangent spaces.

All have ``fit(X, y)`` and ``predict(X)`` with points ``(n, D)`` and ambient vectors ``(n, D)``, and may leave the
tangent spaces; project their answers where that matters.

>>> import numpy as np, tangentbundle as tb
>>> sphere = tb.manifolds.Sphere(2)
>>> stations, places = sphere.sample(200, seed=0), sphere.sample(50, seed=1)
>>> field = sphere.gradient_field
>>> answers = {str(b): b.fit(stations, field(stations, 2)).predict(places) for b in CLASSICS}
>>> errors = {name: np.mean((answer - field(places, 2)) ** 2) for name, answer in answers.items()}
>>> min(errors, key=errors.get)
'ThinPlate()'
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor


class Baseline(RegressorMixin, BaseEstimator):
    """A regressor made at ``fit`` by ``_make``."""

    def fit(self, X, y):
        self.model_ = self._make(len(X)).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def _make(self, n):
        raise NotImplementedError


class Zero(Baseline):
    """No field at all."""

    def _make(self, n):
        return _Zero()


class _Zero:
    def fit(self, X, y):
        self.size = np.shape(y)[1]
        return self

    def predict(self, X):
        return np.zeros((len(X), self.size))


class Mean(Baseline):
    """The mean ambient vector."""

    def _make(self, n):
        return DummyRegressor()


class Nearest(Baseline):
    """The vector of the nearest point."""

    def _make(self, n):
        return KNeighborsRegressor(1)


class InverseDistance(Baseline):
    """The mean of all vectors, weighted by inverse distances to a power."""

    def __init__(self, power=2.0):
        self.power = power

    def _make(self, n):
        return KNeighborsRegressor(n, weights=self._weights, algorithm="brute")

    def _weights(self, distances):
        return np.maximum(distances, 1e-12) ** -self.power


class ThinPlate(Baseline):
    """The thin-plate spline of ambient space, ``smoothing`` as of scipy's ``RBFInterpolator``."""

    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def fit(self, X, y):
        self.model_ = RBFInterpolator(X, y, smoothing=self.smoothing)
        return self

    def predict(self, X):
        return self.model_(X)


class _BestProcess(RegressorMixin, BaseEstimator):
    """A scikit-learn Gaussian process with the Matern smoothness of greatest likelihood, noise included."""

    def fit(self, X, y):
        self.scale_ = float(np.sqrt(np.mean(np.square(y)))) or 1.0
        unit = float(np.sqrt(np.var(X, axis=0).sum())) or 1.0
        models = []
        for smoothness in (0.5, 1.5, 2.5, np.inf):
            kernel = ConstantKernel(1.0, (1e-4, 1e4)) * Matern(0.4 * unit, (1e-3 * unit, 1e3 * unit), nu=smoothness)
            model = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-8, 1e2)), random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                models.append(model.fit(X, y / self.scale_))
        self.best_ = max(models, key=lambda model: model.log_marginal_likelihood_value_)
        return self

    def predict(self, X):
        return self.scale_ * self.best_.predict(X)


class AmbientProcess(Baseline):
    """Kriging in ambient space: one Matern covariance and noise for all components, by marginal likelihood."""

    def _make(self, n):
        return _BestProcess()


class ComponentProcess(Baseline):
    """A Gaussian process for each component, with hyperparameters of its own."""

    def _make(self, n):
        return MultiOutputRegressor(_BestProcess())


CLASSICS = (Zero(), Mean(), Nearest(), InverseDistance(), ThinPlate())
"""Those without hyperparameters to estimate."""
