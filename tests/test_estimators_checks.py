"""Scikit-learn's own checks. They give one target column; a field has as many as its points have
coordinates.

So they run on a thin adapter that repeats the column, and those that need no data on the estimators
as they are. Series and lists of clouds are no tables at all: their estimators have the checks that
need no data.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tangentbundle import FieldDenoiser, FieldForecaster, FieldInterpolator, ManifoldClassifier
from tangentbundle.estimators import GaussianProcess, Tangent

MODEL = GaussianProcess(Tangent())

ADAPTER = {
    "check_regressor_data_not_an_array": (
        "the adapter calls NumPy on containers that only scikit-learn may open"
    ),
    "check_regressor_multioutput": "the adapter answers with one column",
}

WITHOUT_DATA = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


class _OneColumn:
    """Repeats a column of targets in all ambient components, and answers with the first."""

    def fit(self, X, y, noise_std=None):
        if y is not None and np.ndim(X) == 2:
            y = np.repeat(np.asarray(y).reshape(len(y), -1)[:, :1], np.shape(X)[1], axis=1)
        return super().fit(X, y, noise_std)

    def predict(self, X, **options):
        return super().predict(X, **options)[:, :1]


class OneColumnInterpolator(_OneColumn, FieldInterpolator):
    pass


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [OneColumnInterpolator(MODEL, dim=1)],
    expected_failed_checks=lambda estimator: ADAPTER,
)
def test_with_one_column(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITHOUT_DATA)
@pytest.mark.parametrize(
    "kind", [FieldDenoiser, FieldInterpolator, FieldForecaster, ManifoldClassifier]
)
def test_without_data(kind, name):
    getattr(estimator_checks, name)(kind.__name__, kind())


def test_a_grid_search_over_clouds():
    """Clouds are a list, so that scikit-learn can split them; ellipsoids of two shapes are told
    apart."""
    rng = np.random.default_rng(0)
    shapes = [np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.2])]
    labels = np.arange(12) % 2
    clouds = [shapes[k] * _directions(rng, 40) for k in labels]
    search = GridSearchCV(ManifoldClassifier(dim=2, random_state=0), {"epochs": [2, 5]}, cv=2).fit(
        clouds, labels
    )
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).get_params()["dim"] == 2


def _directions(rng, n):
    points = rng.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)
