"""Vectors carried around triangles of neighbours, and the warnings that follow from them."""

import warnings

import numpy as np
import pytest
import thin_shapes
import torch
from clouds import ball_graph, cloud_of

from tangentbundle import TangentBundle
from tangentbundle.errors import AccuracyWarning, TangentBundleWarning
from tangentbundle.geometry.holonomy import (
    added_energy,
    sampled_triangles,
    squared_extents,
    turns_around_triangles,
    turns_on_sphere,
)
from tangentbundle.manifolds import (
    Ellipsoid,
    FlatTorus,
    KleinBottle,
    Product,
    Sphere,
    SwissRoll,
    Torus,
)


def tangent_frames(normals, seed):
    """Random frames ``(n, D, D - 1)`` perpendicular to unit normals ``(n, D)``."""
    rng = np.random.default_rng(seed)
    n, dims = normals.shape
    columns = np.concatenate(
        [normals[:, :, None], rng.standard_normal((n, dims, dims - 1))], axis=2
    )
    return np.linalg.qr(columns)[0][:, :, 1:]


def turns_of(frames, triangles):
    """Those of an array of frames."""
    return turns_around_triangles(torch.from_numpy(np.ascontiguousarray(frames)), triangles)


def built(points, dim):
    """A bundle of automatic scale, and whether it warned of its accuracy."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TangentBundleWarning)
        bundle = TangentBundle.from_points(points, dim=dim)
    return bundle, any(issubclass(warning.category, AccuracyWarning) for warning in caught)


@pytest.mark.parametrize("dim", [2, 3, 4, 6])
@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_small_triangles_turn_by_their_curvature(dim, radius):
    """With exact tangent spaces a sphere has the holonomy of a sphere, in any frames."""
    normals = Sphere(dim).sample(4000, seed=dim)
    graph = ball_graph(normals, 0.4)
    triangles = sampled_triangles(cloud_of(normals), graph, 0.4)
    turns = turns_of(tangent_frames(normals, seed=0), triangles)
    extents = np.full(len(triangles), radius**2)
    expected = turns_on_sphere(cloud_of(radius * normals), triangles, extents, dim)
    assert turns.mean() == pytest.approx(expected.mean(), rel=0.1)
    other = turns_of(tangent_frames(normals, seed=1), triangles)
    np.testing.assert_allclose(other, turns, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_flat_spaces_do_not_turn(dim):
    rng = np.random.default_rng(dim)
    points = np.pad(rng.uniform(size=(800, dim)), ((0, 0), (0, 2)))
    turned = np.linalg.qr(rng.standard_normal((800, dim, dim)))[0]
    frames = np.concatenate([turned, np.zeros((800, 2, dim))], axis=1)
    triangles = sampled_triangles(cloud_of(points), ball_graph(points, 0.3), 0.3)
    np.testing.assert_allclose(turns_of(frames, triangles), 0.0, atol=1e-12)


def test_sampled_triangles_have_their_sides_in_the_graph():
    points = np.random.default_rng(0).uniform(size=(500, 3))
    graph = ball_graph(points, 0.2)
    triangles = sampled_triangles(cloud_of(points), graph, 0.2).numpy()
    edges = graph.to_scipy()
    assert len(triangles) > 1000
    for start, end in ((0, 1), (1, 2), (2, 0)):
        assert (edges[triangles[:, start], triangles[:, end]] > 0).all()


def test_extents_are_those_of_components():
    """Spheres far from each other have the extents of each."""
    near, far = 2.0 * Sphere(2).sample(2000, seed=0), Sphere(2).sample(2000, seed=1) + 1000.0
    points = np.concatenate([near, far])
    extents = squared_extents(cloud_of(points), ball_graph(points, 0.5)).numpy()
    np.testing.assert_allclose(extents, np.repeat([4.0, 1.0], 2000), rtol=0.02)


def test_added_energy_does_not_depend_on_unit_orientation_and_frames():
    points = Torus(1.0, 0.05).sample(3000, seed=0)
    bundle, _ = built(points, 2)
    graph, radius = bundle.sorted_graph, bundle.eps**0.5
    matrices = bundle.tangent_frames.matrices
    energy = added_energy(bundle.cloud, matrices, graph, radius)
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    gauge = np.linalg.qr(rng.standard_normal((3000, 2, 2)))[0]
    moved = cloud_of(100.0 * bundle.cloud.points.numpy() @ turn.T + 5.0)
    frames = torch.from_numpy(turn @ matrices.numpy() @ gauge)
    scaled = moved.within(100.0 * radius)
    assert added_energy(moved, frames, scaled, 100.0 * radius) == pytest.approx(energy, rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_wrong_eigenvalues_bring_a_warning_and_right_ones_none(seed):
    """Tori of any thickness, with any number of points."""
    rng = np.random.default_rng(seed)
    thickness = float(np.exp(rng.uniform(np.log(0.03), np.log(0.5))))
    shape = thin_shapes.thin_torus(thickness)
    exact = shape.spectrum(8)
    for n in np.exp(rng.uniform(np.log(500), np.log(8000), 3)).astype(int):
        bundle, warned = built(shape.sample(n, seed=seed), 2)
        found = bundle.laplacian().spectrum(8, tol=1e-5)[0]
        error = np.abs(found - exact).sum() / exact.sum()
        assert warned or error < 1 / 3, (thickness, n, error)
        assert not warned or error > 0.05, (thickness, n, error)


@pytest.mark.parametrize(
    "r, n",
    [
        *((0.03, n) for n in (1000, 2000, 4000, 8000, 12_000)),
        *((0.05, n) for n in (3000, 5000)),
        *((0.07, n) for n in (2000, 3000)),
        (0.1, 2000),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_thin_tori_with_few_points_bring_a_warning(r, n, seed):
    assert built(Torus(1.0, r).sample(n, seed=seed), 2)[1]


def double_torus(n, r, seed):
    """The surface of the union of tubes around two circles that touch, a surface of genus two."""
    centers = np.array([[1 - r / 2, 0.0, 0.0], [r / 2 - 1, 0.0, 0.0]])
    parts = []
    for number, (center, other) in enumerate(zip(centers, centers[::-1], strict=True)):
        points = Torus(1.0, r).sample(n, seed=2 * seed + number) + center
        to_axis = np.linalg.norm(points[:, :2] - other[:2], axis=1) - 1
        parts.append(points[np.hypot(to_axis, points[:, 2]) > r])
    points = np.concatenate(parts)
    return np.random.default_rng(seed).permutation(points)[:n]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "r, n, expected", [(0.11, 2000, True), (0.11, 3000, True), (0.3, 6000, False)]
)
def test_surfaces_of_genus_two(r, n, expected, seed):
    assert built(double_torus(n, r, seed), 2)[1] == expected


def wound(n, pitch, seed):
    turn = np.random.default_rng(seed).uniform(0, 12 * np.pi, n)
    return np.stack([np.cos(turn), np.sin(turn), pitch * turn], axis=1)


def flat(n, seed):
    return np.pad(np.random.default_rng(seed).uniform(size=(n, 2)), ((0, 0), (0, 1)))


WELL_SAMPLED = [
    Sphere(1),
    Sphere(2),
    Sphere(3),
    Sphere(4),
    Sphere(5),
    Torus(),
    Torus(1.0, 0.3),
    Torus(1.0, 0.5),
    FlatTorus(),
    KleinBottle(),
    SwissRoll(),
    Ellipsoid(),
    Product(Sphere(2), Sphere(1)),
]


@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize("space", WELL_SAMPLED, ids=repr)
def test_well_sampled_shapes_bring_no_warning(space, n):
    for seed in range(2):
        points = space.sample(n, seed=seed)
        assert not built(points, space.dim)[1]
        size = np.sqrt(np.square(points - points.mean(axis=0)).sum(axis=1).mean())
        noise = np.random.default_rng(seed).standard_normal(points.shape)
        assert not built(points + 0.003 * size * noise, space.dim)[1]


@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_curves_planes_and_separate_spheres_bring_no_warning(n, seed):
    assert not built(wound(n, 0.2, seed), 1)[1]
    assert not built(flat(n, seed), 2)[1]
    spheres = [Sphere(2).sample(n, seed=seed), 50.0 + Sphere(2).sample(n, seed=seed + 1)]
    assert not built(np.concatenate(spheres), 2)[1]
