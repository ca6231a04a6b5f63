"""Input that estimators must answer, warn of or refuse: never NaN, never a bare error of another library."""

import pickle

import numpy as np
import pytest
from pairwise import all_pairs
from spaces import SPACES

import tangentbundle as tb
from tangentbundle import estimators
from tangentbundle.errors import InvalidInputError, OffManifoldWarning, OutlierWarning
from tangentbundle.estimators.tangents import MAX_CACHED
from tangentbundle.manifolds import Ellipsoid, FlatTorus, Sphere, Torus

SPHERE = Sphere(2)
POINTS = SPHERE.sample(60, seed=0)
FIELD = SPHERE.gradient_field(POINTS, 2)
ESTIMATORS = [tb.FieldDenoiser, tb.FieldInterpolator]


def interpolator(**options):
    return tb.FieldInterpolator(estimators.GaussianProcess(), random_state=0, **options)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
@pytest.mark.parametrize("make, ambient, n", all_pairs(ESTIMATORS, [1, 2, 3, 4], [3, 4, 5, 8]))
def test_few_points_of_any_dimension(make, ambient, n):
    rng = np.random.default_rng(10 * n + ambient)
    X, y = rng.standard_normal((2, n, ambient))
    model = make(random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.noise_)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_parallel_vectors(make):
    """A field along one direction of space."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = np.outer(np.sin(X[:, 0]), [1.0, 2.0, 0.0])
    assert np.abs(make(random_state=0).fit(X, y).predict(X) - y).max() < 0.1


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_points_of_a_manifold_are_nearest_to_themselves(space):
    points = space.sample(50, seed=0)
    assert np.allclose(space.nearest(points), points, atol=1e-12)
    moved = space.nearest(points * 1.05)
    assert np.allclose(space.nearest(moved), moved, atol=1e-10)  # it is a projection


@pytest.mark.parametrize("space", [Sphere(1), Sphere(3), Ellipsoid(), FlatTorus((1.0, 1.0))], ids=repr)
def test_the_centre_has_no_tangent_space(space):
    """At prediction and in training."""
    points, centre = space.sample(30, seed=0), np.zeros((1, space.ambient_dim))
    field = np.einsum("nij,j->ni", space.frames(points), np.ones(space.dim))
    model = interpolator(manifold=space).fit(points, field)
    with pytest.raises(InvalidInputError, match="centre"):
        model.predict(centre)
    with pytest.raises(InvalidInputError, match="centre"):
        model.fit(np.concatenate([points, centre]), np.concatenate([field, centre]))


def test_points_off_the_given_manifold_are_warned_of():
    with pytest.warns(OffManifoldWarning, match="60 of 60 points lie up to"):
        interpolator(manifold=Torus()).fit(5 * POINTS, FIELD)
    model = interpolator(manifold=SPHERE).fit(POINTS * (1 + 1e-3), FIELD)  # small noise is no matter
    with pytest.warns(OffManifoldWarning, match="1 of 2"):
        model.predict(np.stack([POINTS[0], 2 * POINTS[1]]))


@pytest.mark.parametrize("size", [1e155, 1e-170])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_sizes_out_of_range_are_refused(make, size):
    with pytest.raises(InvalidInputError, match="vectors are of size"):
        make().fit(POINTS, size * FIELD)
    with pytest.raises(InvalidInputError, match="points are of size"):
        make().fit(size * POINTS, FIELD)


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.NotTangentWarning")
def test_an_outlier_is_warned_of():
    X, y = np.concatenate([POINTS, [[1e6, 0.0, 0.0]]]), np.concatenate([FIELD, [[0.0, 1.0, 0.0]]])
    with pytest.warns(OutlierWarning, match="1 of 61 points \\(first: row 60\\)"):
        tb.FieldDenoiser(estimators.GaussianProcess(), dim=2, random_state=0).fit(X, y)


def test_support_is_refused_where_it_is_not_used():
    with pytest.raises(InvalidInputError, match="support="):
        tb.FieldInterpolator(estimators.SpectralShrinkage(), support=SPHERE.sample(20, seed=1)).fit(POINTS, FIELD)


def test_refitting_does_not_grow():
    """The cache of tangent spaces is bounded, and is not pickled."""
    model = tb.FieldDenoiser(random_state=0)
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal(FIELD.shape)
        model.fit(POINTS, FIELD + 0.1 * noise)
        assert len(model.spaces_._cache) <= MAX_CACHED
    assert pickle.loads(pickle.dumps(model)).spaces_._cache == {}
