"""Automatic scales."""

import warnings

import numpy as np
import pytest
import thin_shapes
from clouds import ball_graph, cloud_of, equal

from tangentbundle import TangentBundle
from tangentbundle.errors import (
    AccuracyWarning,
    DisconnectedWarning,
    TangentBundleWarning,
    TooFewPointsError,
)
from tangentbundle.geometry.balls import Balls, Neighborhoods
from tangentbundle.geometry.reach import Reach, least_neighbors
from tangentbundle.geometry.scale import (
    MAX_NEIGHBORS,
    automatic_neighbors,
    radius_for_neighbors,
    target_neighbors,
)
from tangentbundle.geometry.widening import connecting_radius
from tangentbundle.manifolds import FlatTorus, Sphere, SwissRoll, Torus


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_target_neighbors_grow_slower_than_n(d):
    sizes = [10, 100, 1000, 10_000, 100_000, 10**6]
    targets = [target_neighbors(n, d) for n in sizes]
    assert targets == sorted(targets)
    assert all(
        least_neighbors(n, d) <= t <= min(MAX_NEIGHBORS, n - 1)
        for n, t in zip(sizes, targets, strict=True)
    )
    assert targets[-1] / 10**6 < 0.01 * targets[0] / 10


@pytest.mark.parametrize("n", [3, 4, 5])
def test_never_more_neighbours_than_points(n):
    assert target_neighbors(n, 3) == least_neighbors(n, 3) == n - 1


@pytest.mark.parametrize("k", [1, 5, 30])
def test_radius_for_neighbors_is_the_median(k):
    points = np.random.default_rng(0).standard_normal((501, 2))
    radius = radius_for_neighbors(cloud_of(points), k)
    assert np.median(ball_graph(points, radius * (1 + 1e-12)).degrees) == k
    assert np.median(ball_graph(points, radius * (1 - 1e-9)).degrees) < k + 0.5


def test_radius_for_neighbors_from_a_sample():
    points = Sphere(2).sample(20_000, seed=0)
    cloud = cloud_of(points)
    degrees = cloud.within(radius_for_neighbors(cloud, 40)).degrees
    assert np.median(degrees) == pytest.approx(40, abs=2)
    rows = cloud.sample_rows()
    assert len(rows) == len(set(rows.tolist())) < 20_000 and (rows.diff() > 0).all()
    assert equal(rows, cloud_of(points).sample_rows())
    assert cloud_of(points[:7]).sample_rows().tolist() == [*range(7)]


def test_too_few_points():
    with pytest.raises(TooFewPointsError, match="need at least 6 points, got 5"):
        radius_for_neighbors(cloud_of(np.arange(5.0)[:, None]), 5)


def test_connecting_radius_is_the_longest_gap():
    points = np.cumsum(np.random.default_rng(0).uniform(0.1, 1.0, 200))[:, None]
    gap = np.diff(points[:, 0]).max()
    radius = connecting_radius(cloud_of(points), ball_graph(points, 0.2), 2 * gap)
    assert radius == pytest.approx(gap)
    plane = np.random.default_rng(1).uniform(size=(400, 2))
    radius = connecting_radius(cloud_of(plane), ball_graph(plane, 0.02), 1.0)
    assert not ball_graph(plane, radius * (1 + 1e-9)).components.any()
    assert ball_graph(plane, radius * (1 - 1e-9)).components.any()


def test_connecting_radius_of_coincident_points():
    points = np.repeat(np.array([[0.0], [1.0], [3.0]]), 5, axis=0)
    assert connecting_radius(cloud_of(points), ball_graph(points, 2.5), 5.0) == pytest.approx(2.0)


def test_pieces_far_apart_are_not_joined():
    points = np.concatenate([np.arange(100.0), 102.5 + np.arange(100.0), 1e6 + np.arange(100.0)])[
        :, None
    ]
    graph = ball_graph(points, 1.5)
    assert connecting_radius(cloud_of(points), graph, 3.0) == 1.0  # the longest edge there is
    assert connecting_radius(cloud_of(points), graph, 4.0) == 3.5


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), Sphere(3), Torus(), SwissRoll()], ids=repr)
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_automatic_scale_connects_and_is_local(space, n):
    bundle = TangentBundle.from_points(space.sample(n, seed=0), dim=space.dim)
    graph = bundle.sorted_graph
    assert not graph.components.any()
    assert np.median(graph.degrees) < 0.5 * n


@pytest.mark.parametrize("d", [1, 2, 3])
def test_eps_shrinks_with_n(d):
    eps = [
        TangentBundle.from_points(Sphere(d).sample(n, seed=0), dim=d).eps for n in (300, 1500, 7500)
    ]
    assert eps[0] > 1.5 * eps[1] > 2.25 * eps[2]


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_eps_has_the_unit_of_a_squared_length(factor):
    points = Torus().sample(800, seed=0)
    one, other = (TangentBundle.from_points(s * points) for s in (1.0, factor))
    assert other.eps == pytest.approx(factor**2 * one.eps, rel=1e-9)
    assert other.estimate.eps_pca == pytest.approx(factor**2 * one.estimate.eps_pca, rel=1e-9)


def spectrum_error(shape, points, neighbors=None, count=8):
    """Relative error of the first eigenvalues; infinite where there is no bundle."""
    true = shape.spectrum(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TangentBundleWarning)
        try:
            bundle = TangentBundle.from_points(points, dim=shape.dim, neighbors=neighbors)
        except TooFewPointsError:
            raise
        except Exception:
            return np.inf
        found = bundle.laplacian().spectrum(count, tol=1e-6)[0]
    return float(np.abs(found - true).sum() / true.sum())


@pytest.mark.parametrize(
    "shape, n, limit",
    [
        (thin_shapes.thin_torus(0.1), 4000, 0.15),
        (thin_shapes.dumbbell(0.1), 3000, 0.15),
        (thin_shapes.TwoSpheres(0.25), 3000, 0.15),
        (thin_shapes.Roll(0.35), 3000, 0.15),
        (thin_shapes.Helix(0.4), 3000, 0.05),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_thin_shapes_have_right_eigenvalues(shape, n, limit):
    """The usual number of neighbours would be wrong by factors: it reaches around tubes and into
    other sheets."""
    assert spectrum_error(shape, shape.sample(n, seed=1)) < limit


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape, n",
    [
        (thin_shapes.thin_torus(0.1), 5000),
        (thin_shapes.thin_torus(0.15), 3000),
        (thin_shapes.thin_torus(0.3), 1000),
        pytest.param(
            thin_shapes.thin_torus(0.5),
            2000,
            marks=pytest.mark.xfail(reason="3.3 % where 54 neighbours have 1.9 %"),
        ),
        (thin_shapes.dumbbell(0.1), 5000),
        (thin_shapes.dumbbell(0.3), 2000),
        (thin_shapes.TwoSpheres(0.2), 4000),
        (thin_shapes.Roll(0.3), 4000),
        (thin_shapes.Helix(0.3), 4000),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_automatic_is_as_good_as_the_best_number_of_neighbors(shape, n):
    """Within a factor of 1.5, means over samples; errors below 3 % count as right."""
    clouds = [shape.sample(n, seed=seed) for seed in range(3)]
    automatic = np.mean([spectrum_error(shape, points) for points in clouds])
    best = min(
        np.mean([spectrum_error(shape, points, k) for points in clouds])
        for k in (12, 16, 24, 36, 54, 80)
    )
    assert automatic <= max(1.5 * best, 0.03)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("ambient", [None, 40])
def test_curvature_of_cylinders(d, ambient):
    """Of circles times flat space, in any dimension, at any radius."""
    rng = np.random.default_rng(d)
    angle = rng.uniform(-1, 1, 60_000)
    flat = rng.uniform(-0.8, 0.8, (60_000, d - 1))
    points = np.concatenate(
        [np.stack([2 * np.sin(angle / 2), 2 * np.cos(angle / 2)], axis=1), flat], axis=1
    )
    if ambient:
        points = points @ np.linalg.qr(rng.standard_normal((ambient, d + 1)))[0].T
    rows = np.flatnonzero((np.abs(angle) < 0.2) & (np.abs(flat) < 0.2).all(axis=1))[:50]
    cloud = cloud_of(points)
    distances, indices = [tensor.numpy() for tensor in cloud.nearest(100, rows)]
    chords = points[indices] - points[rows][:, None]
    neighborhoods = Neighborhoods(points[rows], chords, distances=distances, indices=indices)
    balls = Balls.of(cloud, neighborhoods, radii=distances[:, -1], dim=d)
    assert np.median(balls.curvatures()) == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "shape, n", [(Torus(), 150), (Torus(1.0, 0.2), 1500), (Torus(1.0, 0.3), 5000)]
)
def test_automatic_eps_does_not_depend_on_orientation_order_unit_and_origin(shape, n, seed):
    rng = np.random.default_rng(seed)
    points = shape.sample(n, seed=0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    moved = 7.0 * (points[rng.permutation(n)] @ turn + 20 * rng.standard_normal(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        eps, other = (TangentBundle.from_points(x, dim=2).eps for x in (points, moved))
    assert other == pytest.approx(49 * eps, rel=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("ambient", [3, 20])
def test_noise_does_not_narrow_the_scale(noise, ambient):
    """A wide sphere has the usual number of neighbours under any noise."""
    rng = np.random.default_rng(0)
    points = np.pad(Sphere(2).sample(3000, seed=0), ((0, 0), (0, ambient - 3)))
    points += noise * rng.standard_normal(points.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        assert automatic_neighbors(cloud_of(points), 2) >= 0.6 * target_neighbors(3000, 2)


@pytest.mark.parametrize(
    "shape", [Sphere(1), Sphere(2), Sphere(3), Sphere(5), FlatTorus(), Torus(1.0, 0.5)], ids=repr
)
@pytest.mark.parametrize("n", [1000, 6000])
def test_wide_shapes_keep_the_usual_number_of_neighbors(shape, n):
    points = shape.sample(n, seed=0)
    assert automatic_neighbors(cloud_of(points), shape.dim) >= 0.6 * target_neighbors(n, shape.dim)


@pytest.mark.parametrize("r, sparse", [(0.5, False), (0.1, True)])
def test_points_too_sparse_for_the_shape_bring_a_warning(r, sparse):
    reach = Reach.of(cloud_of(Torus(1.0, r).sample(700, seed=0)), 2, target_neighbors(700, 2))
    assert reach.resolved != sparse
    if sparse:
        with pytest.warns(AccuracyWarning, match="too sparse for the shape"):
            reach.warn(700)


def test_sheets_are_not_joined_to_connect_pieces():
    """Spheres further apart than the radius, by less than twice as much, stay two."""
    points = thin_shapes.TwoSpheres(0.3).sample(6000, seed=0)
    with pytest.warns(DisconnectedWarning, match="2 components"):
        bundle = TangentBundle.from_points(points, dim=2)
    assert bundle.eps < 0.3**2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gap, n", [(0.1, 4000), (0.1, 2000), (0.05, 4000), (0.05, 8000)])
def test_layers_that_the_scale_joins_bring_a_warning(gap, n, seed):
    points = thin_shapes.TwoSpheres(gap).sample(n, seed=seed)
    with pytest.warns(AccuracyWarning, match="two layers"):
        automatic_neighbors(cloud_of(points), 2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1000, 2000, 8000])
def test_parallel_planes_closer_than_the_scale_are_two_layers(n, seed):
    planes = np.random.default_rng(seed).uniform(size=(n, 3))
    planes[:, 2] = 0.9 * n**-0.5 * (planes[:, 2] < 0.5)
    reach = Reach.of(cloud_of(planes), 2, target_neighbors(n, 2))
    assert reach.joins_layers and not reach.resolved


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), Sphere(3), Torus(1.0, 0.5)], ids=repr)
@pytest.mark.parametrize("strength", [0.0, 0.01, 0.03, 0.1])
def test_noise_is_no_second_layer(space, strength):
    """Neither uniform nor normal noise has a gap, however strong it is; nor have rounded points."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        points = space.sample(3000, seed=seed)
        uniform = points + strength * rng.uniform(-1.7, 1.7, points.shape)
        normal = points + strength * rng.standard_normal(points.shape)
        rounded = np.round(points, 2)
        for variant in (uniform, normal, rounded):
            reach = Reach.of(cloud_of(variant), space.dim, target_neighbors(3000, space.dim))
            assert not reach.joins_layers
