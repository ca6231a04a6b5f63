"""Scikit-learn's own checks. They give one target column; a field has as many as its points have coordinates.

So every check runs twice: on the estimators as they are, where checks that fit are expected to be refused with a named
error, and on a thin adapter that repeats the column, where nearly all of them pass.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.errors import ShapeError
from tangentbundle.estimators import GaussianProcess, Isotropic

METHOD = GaussianProcess(Isotropic(1.5))

ADAPTER = {
    "check_dtype_object": "the adapter, not the estimator, meets the targets of unknown type first",
    "check_regressor_data_not_an_array": "the adapter calls NumPy on containers that only scikit-learn may open",
    "check_regressor_multioutput": "the adapter answers with one column",
}


class _OneColumn:
    """Repeats a column of targets in all ambient components, and answers with the first."""

    def fit(self, X, y, noise_std=None):
        if y is not None and np.ndim(X) == 2:
            y = np.repeat(np.asarray(y).reshape(len(y), -1)[:, :1], np.shape(X)[1], axis=1)
        return super().fit(X, y, noise_std)

    def predict(self, X, **options):
        return super().predict(X, **options)[:, :1]


class OneColumnDenoiser(_OneColumn, FieldDenoiser):
    pass


class OneColumnInterpolator(_OneColumn, FieldInterpolator):
    pass


def checks(estimator):
    for instance, check in estimator_checks_generator(estimator, legacy=True):
        name = check.func.__name__
        yield pytest.param(instance, check, name, id=f"{type(estimator).__name__}-{name}")


ADAPTED = [case for kind in (OneColumnDenoiser, OneColumnInterpolator) for case in checks(kind(METHOD, dim=1))]
PLAIN = [case for kind in (FieldDenoiser, FieldInterpolator) for case in checks(kind(METHOD, dim=1))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator, check, name", ADAPTED)
def test_with_one_column(estimator, check, name):
    if name in ADAPTER:
        pytest.xfail(ADAPTER[name])
    check(estimator)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator, check, name", PLAIN)
def test_as_they_are(estimator, check, name):
    """Passes, or is refused because the target has one column."""
    try:
        check(estimator)
    except (ShapeError, AssertionError) as error:
        while error is not None and not isinstance(error, ShapeError):
            error = error.__cause__ or error.__context__
        if error is None or "vectors must be ambient" not in str(error):
            raise
        pytest.xfail("a field has as many components as its points have coordinates; the check gives one column")
