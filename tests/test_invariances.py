"""Answers do not depend on the origin of the coordinates, on units, or on the device that a tensor
names."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.calculus import singular_points, streamlines
from tangentbundle.calculus.boundary import has_boundary
from tangentbundle.errors import InvalidInputError, TooFewPointsError
from tangentbundle.estimators import (
    Ambient,
    GaussianProcess,
    NearestVector,
    NeighborMean,
    SpectralFilter,
    Stack,
    Tangent,
)
from tangentbundle.estimators.classifier import clouds_at_once
from tangentbundle.geometry.nearest_points import NearestPoints
from tangentbundle.testing import random_orthogonal

TORUS, SPHERE = tb.manifolds.Torus(1.0, 0.4), tb.manifolds.Sphere(2)
MODELS = [GaussianProcess(Tangent()), GaussianProcess(Ambient()), NeighborMean(), NearestVector()]
OFFSETS = [1e3, 1e6]
"""Distances of the origin in units of the cloud."""


def plane_field(seed, n=120, size=20.0):
    points = np.random.default_rng(seed).uniform(size=(n, 2)) * size
    return points, np.stack([np.sin(points[:, 0] / 4), np.cos(points[:, 1] / 5)], axis=1)


def torus_field(seed, n=120, dims=3):
    """A flow on a torus in a space of so many dimensions."""
    points = TORUS.sample(n, seed=seed)
    axes = random_orthogonal(1, dims, seed=seed)[0][:3]
    return points @ axes, TORUS.tangent_field(points) @ axes


FIELDS = {
    "plane": plane_field,
    "torus": torus_field,
    "torus in R^20": lambda seed: torus_field(seed, dims=20),  # searched without a tree
}


def queries_among(points, seed):
    """Places in the cloud: training points, places at many small distances from them, and places
    between them."""
    rng = np.random.default_rng(seed)
    spacing = np.ptp(points, axis=0).max() / np.sqrt(len(points))
    moves = (
        rng.standard_normal((5, 10, points.shape[1]))
        * np.array([0.0, 1e-3, 1e-2, 0.1, 0.5])[:, None, None]
    )
    return (points[rng.choice(len(points), 10)] + spacing * moves).reshape(50, -1)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("name", FIELDS)
def test_predictions_do_not_depend_on_the_origin(name, model, offset):
    points, vectors = FIELDS[name](seed=1)
    places = queries_among(points, seed=2)
    moved = offset * np.ptp(points) * np.linspace(1, -2, points.shape[1])
    here = tb.FieldInterpolator(model, dim=2, random_state=0).fit(points, vectors)
    there = tb.FieldInterpolator(model, dim=2, random_state=0).fit(points + moved, vectors)
    expected = here.predict(places, return_std=True)
    found = there.predict(places + moved, return_std=True)
    size = np.abs(vectors).max()
    for answer, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            answer, true, atol=1e-4 * size
        )  # the search for hyperparameters amplifies rounding


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_different_places_have_different_answers(seed, offset):
    """Wherever the origin is, a smooth prediction changes with the place, and in proportion to the
    move."""
    points, vectors = plane_field(seed)
    moved = offset * 20.0
    model = tb.FieldInterpolator(GaussianProcess(Tangent()), dim=2, random_state=0).fit(
        points + moved, vectors
    )
    places = points[:20] + moved
    for step in (0.01, 0.1):
        answers = model.predict(np.concatenate([places, places + step, places + 2 * step])).reshape(
            3, 20, 2
        )
        first, second = np.diff(answers, axis=0)
        assert (np.abs(first).max(axis=1) > 1e-3 * step).all()
        assert np.abs(first - second).max() < 0.1 * np.abs(first).max()


@pytest.mark.parametrize("dims", [2, 16, 60])
@pytest.mark.parametrize("offset", OFFSETS)
def test_nearest_points_do_not_depend_on_the_origin(dims, offset):
    rng = np.random.default_rng(dims)
    points, places = rng.uniform(size=(300, dims)), rng.uniform(size=(40, dims))
    distances, indices = NearestPoints(points).query(places, k=5)
    far_distances, far_indices = NearestPoints(points + offset).query(places + offset, k=5)
    assert np.array_equal(indices, far_indices)
    np.testing.assert_allclose(distances, far_distances, rtol=1e-6)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", FIELDS)
def test_bundles_and_derivatives_do_not_depend_on_the_origin(name, offset):
    points, vectors = FIELDS[name](seed=3)
    moved = offset * np.ptp(points)
    here, there = (tb.TangentBundle.from_points(p, dim=2) for p in (points, points + moved))
    assert there.eps == pytest.approx(here.eps, rel=1e-6)
    assert has_boundary(here) == has_boundary(there)
    values = [bundle.laplacian().spectrum(6)[0] for bundle in (here, there)]
    np.testing.assert_allclose(*values, atol=1e-6 * values[0].max())
    slopes = [
        bundle.to_ambient(bundle.gradient() @ points[:, :1, None]) for bundle in (here, there)
    ]
    np.testing.assert_allclose(*slopes, atol=1e-6)
    curvatures = [bundle.curvature().gaussian for bundle in (here, there)]
    np.testing.assert_allclose(*curvatures, atol=1e-5 * max(1.0, np.abs(curvatures[0]).max()))
    fields = [bundle.to_coordinates(vectors) for bundle in (here, there)]
    zeros = [singular_points(*pair) for pair in zip((here, there), fields, strict=True)]
    assert np.array_equal(zeros[0].index, zeros[1].index)
    lines = [
        streamlines(here, fields[0], points[:3], steps=5),
        streamlines(there, fields[1], points[:3] + moved, steps=5),
    ]
    np.testing.assert_allclose(lines[1] - moved, lines[0], atol=1e-5 * np.ptp(points))


@pytest.mark.parametrize("offset", [0.0, *OFFSETS, 1e12])
def test_clouds_of_coincident_points_are_those_without_extent(offset):
    """Not those that are small beside the distance of the origin."""
    cloud = 2.0**10 * np.ceil(offset) + np.random.default_rng(0).integers(0, 4, (30, 3))
    assert clouds_at_once([cloud], 2, neighbors=12).numbered.points.isfinite().all()
    with pytest.raises(TooFewPointsError, match="coincide"):
        clouds_at_once([np.full((30, 3), offset + 0.1)], 2, neighbors=12)


@pytest.mark.parametrize("offset", OFFSETS)
def test_what_classifiers_see_does_not_depend_on_the_origin(offset):
    clouds = [space.sample(60, seed=k) for k in range(2) for space in (SPHERE, TORUS)]
    here, there = (
        clouds_at_once([cloud + moved for cloud in clouds], 2) for moved in (0.0, offset)
    )
    torch.testing.assert_close(here.numbered.points, there.numbered.points, rtol=0, atol=1e-8)
    torch.testing.assert_close(here.radii, there.radii, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("length", "size"), [(1.0, 10.0), (1e6, 1e-3), (1e-3, 1e4)])
@pytest.mark.parametrize("space", [SPHERE, TORUS], ids=["sphere", "torus"])
def test_all_levels_of_noise_are_in_units_of_the_data(space, length, size):
    points = space.sample(60, seed=0)
    vectors = space.tangent_field(points) if space is TORUS else np.cross([0.0, 0.0, 1.0], points)
    vectors = vectors + 0.2 * np.random.default_rng(0).standard_normal(vectors.shape)
    stack = Stack(MODELS)
    plain = tb.FieldDenoiser(stack, dim=2).fit(points, vectors)
    scaled = tb.FieldDenoiser(stack, dim=2).fit(length * points, size * vectors)
    weights = {str(model): w for model, w in zip(plain.models_, plain.weights_, strict=True)}
    for model, weight in zip(scaled.models_, scaled.weights_, strict=True):
        assert weight == pytest.approx(weights[str(model)], abs=1e-2)
    assert scaled.noise_ == pytest.approx(size * plain.noise_, rel=1e-2)


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU."""

    @property
    def is_cuda(self):
        return True


@pytest.mark.parametrize("options", [{}, {"covariance": Tangent()}, {"model": NeighborMean()}])
def test_the_device_does_not_change_the_model(options):
    """The same model with the same uncertainty, or a refusal that names the model that computes
    elsewhere."""
    points, vectors = torus_field(seed=0, n=60)
    arrays = torch.from_numpy(points), torch.from_numpy(vectors)
    plain = tb.FieldDenoiser(**options, dim=2, random_state=0).fit(*arrays, noise_std=0.1)
    other = tb.FieldDenoiser(**options, dim=2, random_state=0).fit(
        *(a.as_subclass(OnGPU) for a in arrays), noise_std=0.1
    )
    assert [str(model) for model in other.models_] == [str(model) for model in plain.models_]
    assert np.array_equal(other.weights_, plain.weights_)
    for answer, expected in zip(
        other.predict(arrays[0], True), plain.predict(arrays[0], True), strict=True
    ):
        torch.testing.assert_close(answer, expected)
    elsewhere = [torch.empty((60, 3), dtype=torch.float64, device="meta")] * 2
    with pytest.raises(InvalidInputError, match=r"FieldDenoiser\(SpectralFilter\(\)\)"):
        tb.FieldDenoiser(**options).fit(*elsewhere)


def test_a_spectral_filter_is_chosen_by_name_alone():
    points, vectors = torus_field(seed=0, n=200)
    chosen = tb.FieldDenoiser(SpectralFilter(neighbors=24), dim=2, random_state=0).fit(
        points, vectors
    )
    with pytest.raises(InvalidInputError, match="no uncertainty"):
        chosen.predict(points, return_std=True)
    assert chosen.score(torch.from_numpy(points), torch.from_numpy(vectors)) == pytest.approx(
        chosen.score(points, vectors)
    )
