"""Posteriors, left-out errors and densities of Gaussian processes against dense formulas."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from tangentbundle import FieldDenoiser, FieldInterpolator
from tangentbundle.earth.covariances import planetary
from tangentbundle.errors import InvalidInputError
from tangentbundle.estimators import (
    Ambient,
    CurlFree,
    DivergenceFree,
    GaussianProcess,
    Matern,
    NeighborMean,
    Tangent,
    helmholtz_covariance,
)
from tangentbundle.estimators.bases import AmbientAxes, FieldInBases, PointFrames
from tangentbundle.estimators.likelihood import values_and_noise
from tangentbundle.estimators.neighborhoods import Neighborhoods
from tangentbundle.estimators.neighbors import NearestVector
from tangentbundle.estimators.observations import JITTER, Places
from tangentbundle.estimators.prediction import GaussianPrediction, MixturePrediction
from tangentbundle.estimators.sites import Pairs
from tangentbundle.manifolds import Sphere

SPHERE = Sphere(2)
POINTS, NEW = SPHERE.sample(40, seed=0), SPHERE.sample(9, seed=1)
NOISE = np.random.default_rng(100).standard_normal((40, 3))
VECTORS = SPHERE.gradient_field(POINTS, 2) + 0.3 * NOISE
WEIGHTS = np.random.default_rng(101).standard_normal((12, 3))
PAST_POINTS = SPHERE.sample(30, seed=2)

COVARIANCES = [
    Tangent(),
    Tangent(Matern(np.inf)),
    helmholtz_covariance(),
    planetary(),
    Ambient(),
    Ambient() + Ambient(Matern(0.5)),
    CurlFree(ambient=True),
    DivergenceFree(ambient=True),
]
covariances = pytest.mark.parametrize("covariance", COVARIANCES, ids=str)


def history(points):
    """Twelve random mixtures of three fields."""
    fields = np.stack([SPHERE.gradient_field(points, degree) for degree in (1, 2, 3)])
    return np.einsum("tk,kni->tni", WEIGHTS, fields)


OPTIONS = [
    {},
    {"noise_std": 0.3},
    {"noise_std": np.linspace(0.1, 0.5, 40)},
    {"dim": 2},
    {"history": history(POINTS)},
    {"history": history(PAST_POINTS), "history_points": PAST_POINTS},
]
pairs = pytest.mark.parametrize(
    ("covariance", "options"),
    [
        (covariance, OPTIONS[(i + 2 * row) % 6])
        for i, covariance in enumerate(COVARIANCES)
        for row in range(3)
    ],
)


def fitted(covariance, options):
    rest = {name: value for name, value in options.items() if name != "noise_std"}
    if "dim" not in rest:
        rest["manifold"] = SPHERE
    model = FieldInterpolator(GaussianProcess(covariance), random_state=0, **rest)
    return model.fit(POINTS, VECTORS, options.get("noise_std"))


def places(model, points):
    return Places((points - model.center_) / model.unit_, lambda: model.spaces_.at(points))


def alone(model):
    """The posterior of the only model."""
    (fit,) = model.posterior_.fits
    return fit.posterior


def dense(posterior, a, b):
    """The covariance ``(n p, m p)``, point by point."""
    values, _ = values_and_noise(posterior.logarithms)
    blocks = posterior.covariance(values, Pairs(a, b))
    if posterior.covariance.independent:
        blocks = torch.diag_embed(blocks.movedim(0, -1)).movedim((0, 1, 2, 3), (1, 3, 0, 2))
    return blocks.permute(1, 0, 3, 2).reshape(a.count * a.dim, b.count * b.dim).numpy()


def system(posterior):
    """``K + N`` and the values, point by point."""
    data = posterior.data
    sites = data.sites_at(np.arange(40))
    known = data.observations.noise
    noise = np.full(40, np.exp(2 * posterior.logarithms[-1])) if known is None else known
    return (
        sites,
        dense(posterior, sites, sites) + np.diag(np.repeat(noise + JITTER, sites.dim)),
        data.values.reshape(-1),
    )


@pairs
def test_mean_and_covariance_are_those_of_the_dense_formulas(covariance, options):
    model = fitted(covariance, options)
    posterior, where = alone(model), places(model, NEW)
    bases = posterior.data.bases.at_places(where)
    p = bases.dim
    seen, matrix, values = system(posterior)
    new = posterior.data.sites(where.points, bases)
    cross = dense(posterior, new, seen)
    mean = (cross @ np.linalg.solve(matrix, values)).reshape(9, p)
    rest = dense(posterior, new, new) - cross @ np.linalg.solve(matrix, cross.T)
    blocks = np.stack([rest[i * p : i * p + p, i * p : i * p + p] for i in range(9)])
    expected = bases.ambient(mean)
    if "history" in options:
        expected = expected + posterior.data.observations.history.mean(where.points)
    inexact = (posterior.noise**2 - posterior.noise_along) * np.eye(p)  # of the positions
    between = posterior._variances_of_history(where.points) * np.ones(9)
    interpolated = between[:, None, None] * np.eye(p)
    found = posterior.predict(where)
    np.testing.assert_allclose(found.mean, expected, atol=1e-6)
    np.testing.assert_allclose(found.blocks, blocks + inexact + interpolated, atol=1e-6)


@pairs
def test_left_out_errors_are_those_of_leaving_each_point_out(covariance, options):
    posterior = alone(fitted(covariance, options))
    sites, matrix, values = system(posterior)
    p, index = sites.dim, np.array([3, 0, 39])
    groups = posterior.neighborhoods
    assert groups.exact
    errors, blocks = posterior._left_out_errors(posterior._exact_system, index)
    for row, i in enumerate(index):
        own = np.arange(i * p, i * p + p)
        rest = np.setdiff1d(np.arange(40 * p), own)
        weights = np.linalg.solve(matrix[np.ix_(rest, rest)], matrix[np.ix_(rest, own)])
        np.testing.assert_allclose(errors[row], values[own] - weights.T @ values[rest], atol=1e-6)
        block = matrix[np.ix_(own, own)] - weights.T @ matrix[np.ix_(rest, own)]
        np.testing.assert_allclose(blocks[row], block, atol=1e-6)
    left_out = posterior.left_out(index)
    history_mean = posterior.data.observations.vectors - posterior.data.vectors
    bases = posterior.data.bases.at(index)
    mean = bases.ambient(posterior.data.values[index] - errors)
    if not posterior.data.bases.across_is_noise:  # planes are those of a new point
        frames = posterior.data.observations.places_left_out.frames[index]
        mean = np.einsum("nij,nkj,nk->ni", frames, frames, mean)
    np.testing.assert_allclose(left_out.mean, mean + history_mean[index], atol=1e-10)


@pytest.mark.parametrize(
    "model", [GaussianProcess(Tangent()), NeighborMean(), NearestVector()], ids=str
)
def test_left_out_is_a_prediction_without_the_point(model):
    posterior = alone(FieldDenoiser(model, manifold=SPHERE).fit(POINTS, VECTORS, 0.3))
    observations = (
        posterior.data.observations
        if isinstance(model, GaussianProcess)
        else posterior.observations
    )
    i, rest = 7, np.arange(40) != 7
    arrays = {
        name: getattr(observations, name)[rest] for name in ("points", "vectors", "frames", "noise")
    }
    part = replace(observations, **arrays)
    if isinstance(model, GaussianProcess):
        others = replace(
            posterior,
            data=FieldInBases(part, PointFrames(part.frames, exact=True)),
            neighborhoods=Neighborhoods.of(part.points, 40, 40),
        )
    else:
        others = replace(posterior, observations=part)
    expected = others.predict(Places(observations.points[[i]], lambda: observations.frames[[i]]))
    np.testing.assert_allclose(posterior.left_out(np.array([i])).mean, expected.mean, atol=1e-6)


def test_densities_are_those_of_full_covariances():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 2, 2))
    found = [
        GaussianPrediction(
            rng.standard_normal((6, 4)), bases, root @ root.swapaxes(1, 2), rng.uniform(0.1, 2.0, 6)
        )
        for bases in (
            PointFrames(np.linalg.qr(rng.standard_normal((6, 4, 2)))[0]),
            AmbientAxes(np.linalg.qr(rng.standard_normal((4, 2)))[0]),
        )
    ]
    found.append(GaussianPrediction.isotropic(rng.standard_normal((6, 4)), 0.7))
    vectors = rng.standard_normal((6, 4))
    for one in found:
        full = one.covariances()
        expected = [
            multivariate_normal(m, c).logpdf(v)
            for m, c, v in zip(one.mean, full, vectors, strict=True)
        ]
        np.testing.assert_allclose(one.log_density(vectors), expected, rtol=1e-6)
        np.testing.assert_allclose(one.variances(), np.einsum("nii->ni", full), atol=1e-12)
        frames = np.linalg.qr(rng.standard_normal((6, 4, 3)))[0]
        projection = frames @ frames.swapaxes(1, 2)
        tangent = one.tangent(frames)
        np.testing.assert_allclose(
            tangent.mean, np.einsum("nij,nj->ni", projection, one.mean), atol=1e-12
        )
        np.testing.assert_allclose(
            tangent.covariances(), projection @ full @ projection, atol=1e-12
        )
        matrices = one.bases.matrices
        wide, along = one.widened(0.5, 0.2).covariances(), matrices @ matrices.swapaxes(-1, -2)
        np.testing.assert_allclose(wide, full + 0.3 * along + 0.2 * np.eye(4), atol=1e-12)


def test_mixtures_have_the_moments_and_densities_of_their_samples():
    """Two normal distributions in other bases, whose disagreement is part of the variance."""
    rng = np.random.default_rng(1)
    frames = np.linalg.qr(rng.standard_normal((3, 4, 2)))[0]
    root = rng.standard_normal((3, 2, 2))
    first = GaussianPrediction(
        rng.standard_normal((3, 4)), PointFrames(frames), root @ root.swapaxes(1, 2), np.ones(3)
    )
    second = GaussianPrediction.isotropic(rng.standard_normal((3, 4)), 0.5)
    mixture = MixturePrediction(np.array([0.3, 0.7]), [first, second])
    for row in range(3):
        draws = np.concatenate(
            [
                rng.multivariate_normal(part.mean[row], part.covariances()[row], int(400_000 * w))
                for w, part in zip(mixture.weights, (first, second), strict=True)
            ]
        )
        np.testing.assert_allclose(mixture.mean[row], draws.mean(axis=0), atol=0.02)
        np.testing.assert_allclose(mixture.covariances()[row], np.cov(draws.T), atol=0.06)
    np.testing.assert_allclose(
        mixture.variances(), np.einsum("nii->ni", mixture.covariances()), atol=1e-12
    )
    vectors = rng.standard_normal((3, 4))
    density = 0.3 * np.exp(first.log_density(vectors)) + 0.7 * np.exp(second.log_density(vectors))
    np.testing.assert_allclose(np.exp(mixture.log_density(vectors)), density)


@covariances
def test_one_point_is_predicted_as_among_many(covariance):
    model = fitted(covariance, {"dim": 2})
    together = model.predict(NEW, return_cov=True)
    for i in range(9):
        for all_of_them, one in zip(
            together, model.predict(NEW[[i]], return_cov=True), strict=True
        ):
            np.testing.assert_allclose(one[0], all_of_them[i], atol=1e-10)
    order = np.array([4, 0, 8])
    np.testing.assert_allclose(model.predict(NEW[order]), together[0][order], atol=1e-12)


@pytest.fixture(scope="module")
def many():
    """More points than predictions use, with a smooth field and noise."""
    points = SPHERE.sample(600, seed=3)
    return points, SPHERE.gradient_field(points, 3) + 0.3 * np.random.default_rng(
        102
    ).standard_normal((600, 3))


def turned(posterior):
    """The same with other bases at the observations."""
    observations = posterior.data.observations
    turns = np.linalg.qr(
        np.random.default_rng(5).standard_normal((len(observations.points), 2, 2))
    )[0]
    turns[:, :, 1] *= np.linalg.det(turns)[:, None]
    frames = observations.frames @ turns
    bases = PointFrames(frames, exact=True)
    return replace(posterior, data=FieldInBases(replace(observations, frames=frames), bases))


@pytest.mark.parametrize(
    "covariance",
    [Tangent(), helmholtz_covariance(), Ambient(), DivergenceFree(ambient=True)],
    ids=str,
)
def test_local_predictions_are_near_exact_ones(covariance, many):
    """Means within a third of the posterior's standard deviation, standard deviations within 5 %;
    nearer than without the means of cells.

    Fields are of the kind that the covariance describes. Of other ones its likelihood has a second
    maximum, of much noise or of lengths below the distance of neighbours; then cells further away
    say nothing of a place.
    """
    points, vectors = many
    if covariance == DivergenceFree(ambient=True):
        gradients = SPHERE.gradient_field(points, 3)
        vectors = vectors - gradients + np.cross(points, gradients)  # without divergence
    model = FieldInterpolator(
        GaussianProcess(covariance, sites=150), manifold=SPHERE, random_state=0
    ).fit(points, vectors)
    local, new = alone(model), SPHERE.sample(200, seed=4)
    exact = replace(local, neighborhoods=Neighborhoods.of(local.data.observations.points, 600, 0))
    without = replace(local, neighborhoods=replace(local.neighborhoods, far=0))
    a, b, c = (posterior.predict(places(model, new)) for posterior in (exact, local, without))
    size = np.sqrt(a.variances().mean())
    off = [np.sqrt(np.square(one.mean - a.mean).mean()) / size for one in (b, c)]
    assert off[0] < 0.35 and off[0] < 0.8 * off[1]
    assert 0.99 < np.sqrt(b.variances().mean()) / size < 1.05
    index = np.arange(0, 600, 5)
    a, b = exact.left_out(index), local.left_out(index)
    assert np.sqrt(np.square(a.mean - b.mean).mean()) < 0.35 * size
    vectors = local.data.observations.vectors[index]
    assert abs(a.log_density(vectors).mean() - b.log_density(vectors).mean()) < 0.02
    if not covariance.ambient:  # and do not depend on the choice of bases
        np.testing.assert_allclose(
            turned(local).predict(places(model, new)).mean, local.predict(places(model, new)).mean
        )


@pytest.mark.parametrize("seed", [1, 4, 102])
def test_much_noise_is_not_taken_for_short_lengths(seed):
    """The likelihood has a second maximum, where neighbours are independent and half of the noise
    belongs to the field."""
    points = SPHERE.sample(600, seed=3)
    noise = 0.3 * np.random.default_rng(seed).standard_normal((600, 3))
    vectors = np.cross(points, SPHERE.gradient_field(points, 3)) + noise
    process = GaussianProcess(DivergenceFree(ambient=True))
    model = FieldInterpolator(process, manifold=SPHERE).fit(points, vectors)
    assert abs(model.noise_ / 0.3 - 1) < 0.1


@pytest.mark.parametrize(
    "covariance", [helmholtz_covariance(), Ambient(), CurlFree(ambient=True)], ids=str
)
def test_the_variance_of_the_mean_of_a_cell(covariance, many):
    """Of the difference between it, in the basis of the centre, and the field at the centre; and of
    the noise."""
    noise_std = np.linspace(0.1, 0.5, 600)
    model = FieldInterpolator(
        GaussianProcess(covariance, sites=150), manifold=SPHERE, random_state=0
    )
    posterior = alone(model.fit(*many, noise_std))
    observations, bases = posterior.data.observations, posterior.data.bases
    every_cell = posterior.neighborhoods.cells
    size = min(map(len, every_cell))
    cells = [number for number, cell in enumerate(every_cell) if len(cell) == size][:5]
    means = posterior._cell_means.of(np.array(cells))
    for row, number in enumerate(cells):
        cell = every_cell[number]
        points = np.concatenate([means.points[[row]], observations.points[cell]])
        np.testing.assert_allclose(means.points[row], points[1:].mean(axis=0))
        np.testing.assert_allclose(means.vectors[row], posterior.data.vectors[cell].mean(axis=0))
        middle = means.bases.at(np.array([row]))
        own = middle.beside(bases.at(cell))
        sites = posterior.data.sites(points, own)
        each = np.broadcast_to(own.matrices, (len(points), *own.matrices.shape[-2:]))
        basis = each[0]
        weights = np.concatenate(
            [basis.T @ B * w for B, w in zip(each, [-1.0, *[1 / size] * size], strict=True)], axis=1
        )
        difference = np.trace(weights @ dense(posterior, sites, sites) @ weights.T) / basis.shape[1]
        assert means.variances[row] == pytest.approx(
            difference + observations.noise[cell].mean() / size, rel=1e-5
        )


def test_neighborhoods_have_every_point_once():
    points = np.random.default_rng(0).standard_normal((700, 3))
    parts = Neighborhoods.of(points, 60, 40)
    for partition in (parts.groups, parts.cells):
        assert np.array_equal(np.sort(np.concatenate(partition)), np.arange(700))
    for group in range(len(parts.groups)):
        members, cells = parts.around(group)
        assert (
            np.isin(parts.groups[group], members).all() and len(members) >= 60 and len(cells) <= 40
        )
        assert not np.isin(np.concatenate([parts.cells[cell] for cell in cells]), members).any()
        assert len(np.unique(members)) == len(members)


@pytest.mark.parametrize(
    "model",
    [GaussianProcess(Tangent(), sites=64), GaussianProcess(Ambient(), sites=64), NeighborMean()],
    ids=str,
)
def test_no_array_has_a_matrix_for_each_point(model):
    """600 points in 200 dimensions: a matrix for each would take 190 MB."""
    rng = np.random.default_rng(0)
    flat, embedding = rng.uniform(-1, 1, (600, 2)), np.linalg.qr(rng.standard_normal((200, 2)))[0]
    points, vectors = flat @ embedding.T, np.stack([flat[:, 1], -flat[:, 0]], axis=1) @ embedding.T
    vectors = vectors + 0.01 * rng.standard_normal(vectors.shape)
    estimator = FieldInterpolator(model, dim=2, random_state=0)
    estimator.fit(points[:100], vectors[:100]).predict(points[:100])  # compiles
    tracemalloc.start()
    estimator.fit(points, vectors).predict(points, return_std=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6


@pytest.mark.parametrize("sites", [0, 7, -3, 2.5, "many"])
def test_a_process_needs_a_number_of_sites(sites):
    with pytest.raises(InvalidInputError, match="sites"):
        GaussianProcess(Tangent(), sites=sites)


@pytest.mark.parametrize("sites", [8, 9, 33])
def test_few_sites_are_enough_to_answer(sites, many):
    points, vectors = (array[:200] for array in many)
    model = FieldInterpolator(
        GaussianProcess(Tangent(), sites=sites), manifold=SPHERE, random_state=0
    )
    assert np.isfinite(model.fit(points, vectors).predict(NEW)).all()
