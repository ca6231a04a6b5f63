"""Input that field estimators refuse or warn of, by name and with what to do."""

import numpy as np
import pytest
from field_models import (
    CLEAN,
    NEW,
    PAST_POINTS,
    POINTS,
    PROCESSES,
    SIMPLE,
    SPHERE,
    VECTORS,
    history,
)
from sklearn.exceptions import NotFittedError

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.earth.covariances import Zonal
from tangentbundle.errors import (
    InvalidInputError,
    NoInformationWarning,
    NonFiniteError,
    NotTangentWarning,
    ShapeError,
    SuspiciousDataWarning,
    TooFewPointsError,
)
from tangentbundle.estimators import (
    GaussianProcess,
    NeighborMean,
    Tangent,
)
from tangentbundle.manifolds import Ellipsoid, Sphere, Torus


@pytest.mark.parametrize("make", [FieldDenoiser, FieldInterpolator])
@pytest.mark.parametrize(
    ("points", "vectors", "kind", "words"),
    [
        (POINTS, VECTORS[:-1], ValueError, "inconsistent numbers|equally many"),
        (POINTS, VECTORS[:, :2], ShapeError, "ambient"),
        (POINTS, VECTORS[:, 0], ShapeError, "ambient"),
        (POINTS[:2], VECTORS[:2], TooFewPointsError, "at least 3 points"),
        (POINTS, None, InvalidInputError, "requires y"),
        (POINTS, np.full((36, 3), np.nan), NonFiniteError, "vectors must be finite.*NaN.*index"),
        (np.full((36, 3), np.inf), VECTORS, NonFiniteError, "inf"),
        (1e160 * POINTS, VECTORS, InvalidInputError, "points are of size"),
        (POINTS, 1e-170 * VECTORS, InvalidInputError, "vectors are of size"),
    ],
)
def test_bad_data_are_refused(make, points, vectors, kind, words):
    with pytest.raises(kind, match=words):
        make(dim=2).fit(points, vectors)


@pytest.mark.parametrize(
    ("options", "noise_std", "kind", "words"),
    [
        ({"model": "kriging"}, None, InvalidInputError, "GaussianProcess"),
        ({"model": GaussianProcess}, None, InvalidInputError, "GaussianProcess"),
        ({"model": NeighborMean(), "covariance": Tangent()}, None, InvalidInputError, "not both"),
        ({"covariance": "matern"}, None, InvalidInputError, "Tangent"),
        ({"covariance": Tangent}, None, InvalidInputError, "Tangent"),
        ({"covariance": [Tangent(), "matern"]}, None, InvalidInputError, "Tangent"),
        ({"covariance": Zonal(), "dim": 1}, None, InvalidInputError, "oriented surface"),
        ({"dim": 4}, None, InvalidInputError, "dim"),
        ({"dim": 0}, None, InvalidInputError, "dim"),
        ({"manifold": "sphere", "dim": None}, None, InvalidInputError, "manifold"),
        ({"manifold": Sphere(3), "dim": None}, None, InvalidInputError, r"shape \(n, 4\)"),
        ({"history": history(POINTS)[:, :9]}, None, ShapeError, "history_points"),
        ({"history": history(POINTS)[:3]}, None, ShapeError, "at least 8"),
        ({"history": np.full((9, 36, 3), np.nan)}, None, NonFiniteError, "history"),
        (
            {"history": history(POINTS), "history_points": PAST_POINTS},
            None,
            ShapeError,
            "history_points",
        ),
        (
            {"history": history(POINTS)[:, :, :2], "history_points": POINTS[:, :2]},
            None,
            ShapeError,
            "history_points",
        ),
        (
            {"history": history(PAST_POINTS[:1]), "history_points": PAST_POINTS[:1]},
            None,
            TooFewPointsError,
            "history",
        ),
        (
            {"history": history(POINTS), "model": NeighborMean()},
            None,
            InvalidInputError,
            "no use for a history",
        ),
        ({"support": POINTS[:, :2]}, None, ShapeError, "support"),
        ({}, -0.1, InvalidInputError, "negative"),
        ({}, np.nan, NonFiniteError, "noise_std"),
        ({}, np.ones(5), ShapeError, "noise_std"),
    ],
)
def test_bad_options_are_refused(options, noise_std, kind, words):
    with pytest.raises(kind, match=words):
        FieldInterpolator(**({"dim": 2} | options)).fit(POINTS, VECTORS, noise_std)


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, "wide", None])
def test_levels_are_shares(level):
    model = FieldInterpolator(NeighborMean(), dim=2).fit(POINTS, VECTORS)
    with pytest.raises(InvalidInputError, match="level"):
        model.predict_interval(NEW, level)


def test_predictions_need_a_fit_and_points_of_the_same_space():
    model = FieldInterpolator(NeighborMean(), dim=2)
    with pytest.raises(NotFittedError):
        model.predict(NEW)
    model.fit(POINTS, VECTORS)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(NEW[:, :2])
    with pytest.raises(NonFiniteError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))


@pytest.mark.parametrize("model", [*PROCESSES, *SIMPLE], ids=str)
def test_far_points_bring_a_warning_and_wide_uncertainty(model):
    estimator = FieldInterpolator(model, dim=2, random_state=0).fit(POINTS, VECTORS)
    with pytest.warns(NoInformationWarning, match="1 of 2 points"):
        std = estimator.predict(np.stack([POINTS[0], 50 * POINTS[0]]), return_std=True)[1]
    assert (std[1] > std[0]).all()


def test_vectors_across_the_space_are_doubted_or_refused():
    with pytest.warns(NotTangentWarning, match="normal"):
        FieldDenoiser(NeighborMean(), manifold=SPHERE).fit(POINTS, POINTS + 0.3 * CLEAN)
    with pytest.raises(InvalidInputError, match="no tangent field"):
        FieldDenoiser(NeighborMean(), manifold=SPHERE).fit(POINTS, POINTS)


def test_points_off_a_known_manifold_are_doubted():
    with pytest.warns(SuspiciousDataWarning, match="36 of 36"):
        FieldDenoiser(NeighborMean(), manifold=Torus()).fit(5 * POINTS, CLEAN)
    model = FieldInterpolator(NeighborMean(), manifold=SPHERE).fit(1.001 * POINTS, CLEAN)
    with pytest.warns(SuspiciousDataWarning, match="1 of 2"):
        model.predict(np.stack([POINTS[0], 1.5 * POINTS[1]]))


@pytest.mark.parametrize("space", [Sphere(1), Sphere(3), Ellipsoid()], ids=repr)
def test_the_centre_has_no_tangent_space(space):
    points, centre = space.sample(30, seed=0), np.zeros((1, space.ambient_dim))
    field = np.einsum("nij,j->ni", space.frames(points), np.ones(space.dim))
    model = FieldInterpolator(GaussianProcess(Tangent()), manifold=space).fit(points, field)
    with pytest.raises(InvalidInputError, match="centre"):
        model.predict(centre)


def test_a_curve_may_have_every_point_twice():
    points = np.repeat(Sphere(1).sample(20, seed=0), 2, axis=0)
    vectors = points[:, ::-1] * [-1, 1]
    interpolator = FieldInterpolator(GaussianProcess(Tangent()), dim=1, random_state=0)
    with pytest.warns(SuspiciousDataWarning, match="20 of 40 rows repeat"):
        model = interpolator.fit(points, vectors)
    assert np.allclose(model.predict(points), vectors, atol=0.1)


@pytest.mark.parametrize("size", [1e151, 1e300])
def test_places_out_of_range_are_refused(size):
    points = Sphere(2).sample(30, seed=0)
    model = FieldInterpolator(dim=2).fit(points, np.cross([0.0, 0.0, 1.0], points))
    with pytest.raises(InvalidInputError, match="points are of size"):
        model.predict(size * points)
