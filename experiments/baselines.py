"""What a field estimator must beat: the usual ways to fill in or smooth vectors, which know no
tangent spaces."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor

from tangentbundle.estimators import FieldDenoiser, SpectralFilter


def Zero() -> MultiOutputRegressor:
    """No field at all."""
    return MultiOutputRegressor(DummyRegressor(strategy="constant", constant=0.0))


Mean = DummyRegressor
"""The mean ambient vector."""


class InverseDistance(KNeighborsRegressor):
    """The mean of all vectors, weighted by inverse squared distances."""

    def __init__(self):
        super().__init__(algorithm="brute", weights=inverse_square)

    def fit(self, X, y):
        self.n_neighbors = len(X)
        return super().fit(X, y)


def inverse_square(distances: np.ndarray) -> np.ndarray:
    """The weights of ``InverseDistance``, finite at distance zero."""
    return np.maximum(distances, 1e-12) ** -2.0


class ThinPlate(RegressorMixin, BaseEstimator):
    """The thin-plate spline of ambient space, ``smoothing`` as of scipy's ``RBFInterpolator``."""

    def __init__(self, smoothing=0.0):
        self.smoothing = smoothing

    def fit(self, X, y):
        self.model_ = RBFInterpolator(X, y, smoothing=self.smoothing)
        return self

    def predict(self, X):
        return self.model_(X)


class AmbientProcess(RegressorMixin, BaseEstimator):
    """Kriging in ambient space: one Matern covariance and noise for all components, by marginal
    likelihood."""

    def fit(self, X, y):
        self.scale_ = float(np.sqrt(np.mean(np.square(y)))) or 1.0
        extent = float(np.sqrt(np.var(X, axis=0).sum())) or 1.0
        models = []
        for smoothness in (0.5, 1.5, 2.5, np.inf):
            amplitude = ConstantKernel(1.0, (1e-4, 1e4))
            field = Matern(0.4 * extent, (1e-3 * extent, 1e3 * extent), nu=smoothness)
            noise = WhiteKernel(0.1, (1e-8, 1e2))
            model = GaussianProcessRegressor(amplitude * field + noise, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                models.append(model.fit(X, y / self.scale_))
        self.best_ = max(models, key=lambda model: model.log_marginal_likelihood_value_)
        return self

    def predict(self, X):
        return self.scale_ * self.best_.predict(X)


def ComponentProcess() -> MultiOutputRegressor:
    """A Gaussian process for each component, with hyperparameters of its own."""
    return MultiOutputRegressor(AmbientProcess())


def smoothing_spline() -> GridSearchCV:
    """A thin-plate spline whose smoothing is chosen by cross-validation in three parts."""
    choices = {"smoothing": np.logspace(-5, 1, 7)}
    return GridSearchCV(ThinPlate(), choices, scoring="neg_mean_squared_error", cv=3)


def smoothers() -> dict[str, Any]:
    """Simple methods for noisy vectors; no method sees the clean field."""
    return {
        "identity": None,
        "zero": Zero(),
        "mean": Mean(),
        "nearest neighbour": KNeighborsRegressor(1),
        "inverse distance": KNeighborsRegressor(10, weights="distance"),
        "thin-plate spline": smoothing_spline(),
        "Tikhonov on the bundle, SURE": FieldDenoiser(SpectralFilter(), dim=2, random_state=0),
    }


def denoised(estimator: Any, points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Ambient fields ``(r, n, D)``, denoised one after the other; means of neighbours leave out the
    point itself."""
    if estimator is None:
        return fields
    answers = []
    for field in fields:
        estimator.fit(points, field)
        if isinstance(estimator, KNeighborsRegressor):
            answers.append(estimator.predict(None))
        else:
            answers.append(estimator.predict(points))
    return np.stack(answers)
