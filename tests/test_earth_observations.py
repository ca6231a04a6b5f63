"""Measurements with errors: blocks, means of blocks, and what cross-validation by blocks says."""

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.earth import block_cv, block_reduce, radians
from tangentbundle.earth.observations import block_numbers
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError, UnitsError

SPHERE = tb.manifolds.Sphere(2)


def test_blocks_are_of_the_size_asked_for():
    points = SPHERE.sample(20_000, seed=0)
    block = block_numbers(points, "1000 km")
    count = 4 * np.pi / radians("1000 km") ** 2
    assert (
        radians("1e3 km")
        == radians(np.float32(1000))
        == radians(np.int64(1000))
        == radians("1000 km")
    )
    assert abs(block.max() + 1 - count) < 0.05 * count
    for number in range(0, block.max() + 1, 17):
        inside = points[block == number]
        assert np.arccos(np.clip(inside @ inside[0], -1, 1)).max() < 1.8 * radians("1000 km")
    poles = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1e-12, 0.0, 1.0]])
    assert block_numbers(poles, 0)[0] == block_numbers(poles, 0)[2] != block_numbers(poles, 0)[1]


def test_means_of_blocks_have_the_weights_and_errors_of_their_measurements():
    rng, points = np.random.default_rng(0), np.repeat(SPHERE.sample(5, seed=1), 4, axis=0)
    vectors = np.einsum("nij,nj->ni", SPHERE.frames(points), rng.standard_normal((20, 2)))
    sigma = rng.uniform(0.5, 2.0, 20)
    found = block_reduce(points, vectors, sigma)
    for k in range(5):
        own = slice(4 * k, 4 * k + 4)
        row = np.flatnonzero(np.abs(found.points - points[4 * k]).max(axis=1) < 1e-12)[0]
        mean = np.average(vectors[own], axis=0, weights=sigma[own] ** -2.0)
        np.testing.assert_allclose(found.vectors[row], mean, atol=1e-12)
        np.testing.assert_allclose(found.sigma[row] ** -2, (sigma[own] ** -2.0).sum())
    assert found.counts.tolist() == [4] * 5 and block_reduce(points, vectors).sigma is None


def test_means_are_tangent_and_of_second_order():
    """A rotation, averaged over blocks, is the rotation at the mean places, but for the square of
    the size."""
    points = SPHERE.sample(40_000, seed=0)
    errors = []
    for size in (1000, 500):
        found = block_reduce(points, np.cross([0.6, 0.0, 0.8], points), size=size)
        assert np.abs((found.points * found.vectors).sum(axis=1)).max() < 1e-12
        errors.append(np.abs(found.vectors - np.cross([0.6, 0.0, 0.8], found.points)).max())
    assert errors[0] < 0.01 and errors[1] < 0.4 * errors[0]


def test_cross_validation_by_blocks():
    """Intervals hold what they should; the same places in training and validation would make errors
    smaller."""
    rng, points = np.random.default_rng(0), SPHERE.sample(200, seed=2)
    sigma = rng.uniform(0.05, 0.4, len(points))
    noise = np.einsum(
        "nij,nj->ni", SPHERE.frames(points), sigma[:, None] * rng.standard_normal((len(points), 2))
    )
    frames = SPHERE.frames(points)
    vectors = np.einsum("nij,nkj,nk->ni", frames, frames, np.cos(5 * points[:, [1, 2, 0]])) + noise
    model = tb.FieldInterpolator(
        covariance=tb.estimators.helmholtz_covariance(), manifold=SPHERE, random_state=0
    )
    near, far = (
        block_cv(model, points, vectors, sigma, size=size, folds=3) for size in (0, "4000 km")
    )
    assert near.rmse < far.rmse and near.explained > far.explained
    assert abs(near.coverage[0.5] - 0.5) < 0.08 and abs(near.coverage[0.9] - 0.9) < 0.05


def test_errors_of_single_measurements_reach_the_estimators():
    """Measurements with large errors do not count; a constant error for all would let them spoil
    the field."""
    points = SPHERE.sample(150, seed=0)
    truth, rng = SPHERE.gradient_field(points, 3), np.random.default_rng(1)
    sigma = np.where(np.arange(150) % 3 == 0, 2.0, 0.02)
    noisy = truth + np.einsum(
        "nij,nj->ni", SPHERE.frames(points), sigma[:, None] * rng.standard_normal((150, 2))
    )
    model = tb.FieldInterpolator(
        covariance=tb.estimators.helmholtz_covariance(), manifold=SPHERE, random_state=0
    )
    known, alike = (
        np.abs(model.fit(points, noisy, s).predict(points) - truth).max() for s in (sigma, 1.15)
    )
    assert known < 0.2 * alike


def test_bad_measurements_are_refused():
    points = SPHERE.sample(50, seed=0)
    model = tb.FieldInterpolator(manifold=SPHERE)
    with pytest.raises(InvalidInputError, match="unit sphere"):
        block_reduce(6371 * points, points)
    with pytest.raises(ShapeError, match="n, 3"):
        block_reduce(points[:, :2], points)
    with pytest.raises(NonFiniteError):
        block_reduce(points, points * np.nan)
    with pytest.raises(InvalidInputError, match="positive"):
        block_reduce(points, points, -1.0)
    with pytest.raises(ShapeError, match="sigma"):
        block_reduce(points, points, [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="folds"):
        block_cv(model, points, points, size="20000 km")
    for size in ("big", "5 m/s", "-3 km", "nan km"):
        with pytest.raises(UnitsError, match="500 km"):
            block_reduce(points, points, size=size)


def test_the_column_sigma_of_a_file_reaches_the_estimators(tmp_path):
    """Also in other units than the vectors'; NaN is refused."""
    from tangentbundle.io import Field, read_field
    from tangentbundle.results import Result
    from tangentbundle.spaces import Globe
    from tangentbundle_cli.predict import Errors, predict_each

    rng = np.random.default_rng(0)
    lat, lon = np.degrees(np.arcsin(rng.uniform(-1, 1, 40))), rng.uniform(0, 360, 40)
    sigma = rng.uniform(0.1, 1.0, 40)
    rows = np.column_stack([lat, lon, rng.standard_normal((40, 2)), 100 * sigma])
    np.savetxt(
        tmp_path / "a.csv",
        rows,
        delimiter=",",
        header="lat,lon,u [m/s],v [m/s],sigma [cm/s]",
        comments="",
    )
    field = read_field(tmp_path / "a.csv")
    np.testing.assert_allclose(field.noise, sigma)
    seen = []

    class Seen(tb.FieldInterpolator):
        def fit(self, X, y, noise_std=None):
            seen.append(noise_std)
            return super().fit(X, y, noise_std)

    result = Result("denoise")
    model = Seen(covariance=tb.estimators.Tangent(), manifold=SPHERE)
    predict_each(result, model, field, field, Errors(), noise=None, std=False)
    np.testing.assert_allclose(seen[0], sigma)
    rows[3, 4] = np.nan
    np.savetxt(tmp_path / "c.csv", rows, delimiter=",", header="lat,lon,u,v,sigma", comments="")
    with pytest.raises(NonFiniteError):
        predict_each(
            result,
            Seen(manifold=SPHERE),
            read_field(tmp_path / "c.csv"),
            Field(Globe(lat, lon)),
            Errors(),
            noise=None,
            std=False,
        )
