"""Functions on any triangles: the tufted Laplacian against robust_laplacian, and what must hold on
every damaged mesh."""

import numpy as np
import pytest
import torch
from test_known_frames import icosphere
from test_mesh import moebius

import tangentbundle as tb
from tangentbundle import TangentBundle
from tangentbundle.errors import InvalidInputError, MeshRepairWarning, ShapeError
from tangentbundle.geometry.cloud import PointCloud
from tangentbundle.geometry.tufted import MOLLIFY_FACTOR, tufted_mesh
from tangentbundle.meshes import Triangles
from tangentbundle.testing import OperatorContract


def random_triangles(seed):
    """Triangles between random points: most edges belong to several, some vertices to many
    parts."""
    rng = np.random.default_rng(seed)
    n = rng.integers(4, 40)
    corners = np.array([rng.choice(n, 3, replace=False) for _ in range(rng.integers(1, 80))])
    distinct = np.unique(np.sort(corners, axis=1), axis=0, return_index=True)[1]
    used, faces = np.unique(corners[distinct], return_inverse=True)
    return rng.normal(size=(len(used), 3)), faces.reshape(-1, 3)


def fan(num_pages=5):
    """Pages of a book: one edge with many triangles."""
    angle = 0.3 + 2 * np.pi * np.arange(num_pages) / num_pages
    corners = np.stack([np.cos(angle), np.sin(angle), 0.4 + 0 * angle], axis=1)
    vertices = np.concatenate([[[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]], corners])
    pages = np.arange(num_pages) + 2
    return vertices, np.stack([0 * pages, 0 * pages + 1, pages], axis=1)


def spheres_with_a_wall(levels=2):
    """Two spheres that touch in a vertex, one of them with a wall across its equator."""
    vertices, faces = icosphere(levels)
    north = vertices[:, 2].argmax()
    n = len(vertices)
    upper = np.where(np.arange(n) == north, north, np.arange(n) + n)
    order = np.argsort(vertices[:, 2])
    ring = order[n // 2 - 6 : n // 2 + 6]
    wall = np.stack([ring[:-1], ring[1:], np.full(len(ring) - 1, 2 * n)], axis=1)
    points = np.concatenate([vertices, 2 * vertices[[north]] - vertices, [[0.1, 0.05, 0.02]]])
    corners = np.concatenate([faces, upper[faces], wall])
    used, corners = np.unique(corners, return_inverse=True)
    return points[used], corners.reshape(-1, 3)


def as_matrices(vertices, faces, mollify_factor=MOLLIFY_FACTOR):
    """Stiffness ``(n, n)`` and mass ``(n,)`` in the user's order."""
    n = len(vertices)
    cloud = PointCloud.from_points(vertices)
    mesh = tufted_mesh(cloud, faces, mollify_factor)
    order = cloud.curve_order
    weights = torch.zeros(n, n, dtype=torch.float64)
    weights[order[mesh.graph.rows], order[mesh.graph.indices.long()]] = mesh.cotangents
    areas = torch.zeros(n, dtype=torch.float64)
    areas[order] = mesh.areas
    return (torch.diag(weights.sum(dim=1)) - weights).numpy(), areas.numpy()


MESHES = {
    "one triangle": (np.eye(3), np.array([[0, 1, 2]])),
    "obtuse triangle": (np.array([[0.0, 0, 0], [1, 0, 0], [0.4, 0.1, 0]]), np.array([[0, 1, 2]])),
    "two sides of one": (np.eye(3), np.array([[0, 1, 2], [0, 2, 1]])),
    "fan": fan(),
    "moebius": moebius(),
    "spheres with a wall": spheres_with_a_wall(),
    **{f"random {seed}": random_triangles(seed) for seed in range(40)},
}


@pytest.mark.parametrize("name", MESHES)
def test_equal_to_robust_laplacian(name):
    robust_laplacian = pytest.importorskip("robust_laplacian")
    vertices, faces = MESHES[name]
    expected, expected_mass = robust_laplacian.mesh_laplacian(vertices, faces, MOLLIFY_FACTOR)
    matrix, areas = as_matrices(vertices, faces)
    assert np.abs(matrix - expected.toarray()).max() <= 1e-10 * np.abs(expected.data).max()
    np.testing.assert_allclose(areas, expected_mass.diagonal(), rtol=1e-10)


def test_flat_triangles_are_opened_as_by_robust_laplacian():
    robust_laplacian = pytest.importorskip("robust_laplacian")
    vertices, faces = fan()
    vertices[3] = 0.3 * vertices[0] + 0.7 * vertices[1] + 1e-7 * vertices[3]
    for factor in (1e-3, 1e-2):
        expected, expected_mass = robust_laplacian.mesh_laplacian(vertices, faces, factor)
        matrix, areas = as_matrices(vertices, faces, factor)
        assert np.abs(matrix - expected.toarray()).max() <= 1e-8 * np.abs(expected.data).max()
        np.testing.assert_allclose(areas, expected_mass.diagonal(), rtol=1e-8)


def test_isolated_vertices_have_the_mass_that_robust_laplacian_gives_them():
    """The rows of the matrix are zero here, so that constants are in its kernel, not those of the
    identity."""
    robust_laplacian = pytest.importorskip("robust_laplacian")
    vertices = np.concatenate([fan()[0], [[3.0, 0.0, 0.0], [2.0, 1.0, 0.5]]])
    expected, expected_mass = robust_laplacian.mesh_laplacian(vertices, fan()[1])
    with pytest.warns(MeshRepairWarning, match=r"in no triangle: 2 \(first: 7\)"):
        matrix, areas = as_matrices(vertices, fan()[1])
    np.testing.assert_allclose(matrix[:7, :7], expected.toarray()[:7, :7], atol=1e-12)
    assert not matrix[7:].any() and not matrix[:, 7:].any()
    np.testing.assert_allclose(areas, expected_mass.diagonal(), rtol=1e-12)
    assert (areas > 0).all()


def test_a_closed_surface_has_its_cotangent_laplacian():
    """Where nothing is to be repaired, functions are those of the surface."""
    mesh = icosphere(3)
    surface = TangentBundle.from_mesh(*mesh).scalar().laplacian()
    functions = TangentBundle.scalar_from_mesh(*mesh).laplacian()
    x = tb.testing.random_signal(surface)
    torch.testing.assert_close(functions @ x, surface @ x, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(functions.mass, surface.mass)


def test_the_answer_does_not_depend_on_how_triangles_are_written():
    """Order of triangles, their first corner, their orientation, and numbers of vertices."""
    vertices, faces = spheres_with_a_wall()
    matrix, areas = as_matrices(vertices, faces)
    rng = np.random.default_rng(0)
    numbers = rng.permutation(len(vertices))
    shuffled = numbers[rng.permutation(faces)]
    shuffled = np.array(
        [np.roll(face[:: rng.choice([-1, 1])], rng.integers(3)) for face in shuffled]
    )
    moved = np.empty_like(vertices)
    moved[numbers] = vertices
    other, other_areas = as_matrices(moved, shuffled)
    np.testing.assert_allclose(other[np.ix_(numbers, numbers)], matrix, atol=1e-10)
    np.testing.assert_allclose(other_areas[numbers], areas, rtol=1e-12)


def test_a_sphere_covered_twice_is_a_sphere():
    """Every triangle twice: as one sphere with double weights and areas."""
    vertices, faces = icosphere(2)
    matrix, areas = as_matrices(vertices, faces)
    twice, twice_areas = as_matrices(vertices, np.concatenate([faces, faces[::-1, ::-1]]))
    np.testing.assert_allclose(twice, 2 * matrix, atol=1e-10)
    np.testing.assert_allclose(twice_areas, 2 * areas)


def test_functions_on_a_moebius_band_lift_to_its_double_cover():
    """The Laplacian is that of the band that goes round twice, which has two sides."""
    vertices, faces = moebius()
    n = len(vertices)
    m = n // 2
    lower = np.arange(2 * m)
    rim = np.concatenate([np.arange(m), np.arange(m) + m])
    other_rim = np.concatenate([np.arange(m) + m, np.arange(m)])
    below = np.concatenate([rim, other_rim])
    upper = lower + 2 * m
    first = np.where(lower < m, lower, upper)
    second = np.where(lower < m, upper, lower)
    first_after = np.where(lower < m, np.roll(lower, -1), np.roll(upper, -1))
    second_after = np.where(lower < m, np.roll(upper, -1), np.roll(lower, -1))
    band = np.concatenate(
        [
            np.stack([first, first_after, second], axis=1),
            np.stack([first_after, second_after, second], axis=1),
        ]
    )
    laplacian = TangentBundle.scalar_from_mesh(vertices, faces).laplacian()
    cover = Triangles(vertices[below], band, is_cut=True)  # other vertices at the same places
    above = TangentBundle.scalar_from_mesh(cover).laplacian()
    x = np.random.default_rng(0).normal(size=(n, 1, 1))
    np.testing.assert_allclose(above @ x[below], (laplacian @ x)[below], atol=1e-9)


def assert_sound(vertices, faces):
    """Positive masses, weights that are not negative, constants in the kernel, heat that stays
    between its extremes."""
    bundle = TangentBundle.scalar_from_mesh(vertices, faces)
    laplacian = bundle.laplacian()
    assert bool((laplacian.mass > 0).all())
    assert bool((bundle.edge_weights() >= 0).all())
    ones = np.ones((len(vertices), 1, 1))
    largest = laplacian.spectral_interval[1]
    assert np.abs(laplacian @ ones).max() <= 1e-9 * largest
    x = np.random.default_rng(0).uniform(size=(len(vertices), 1, 1))
    energy = float(laplacian.inner(x, laplacian @ x).sum())
    assert energy <= 0.0


class TestTuftedLaplacian(OperatorContract):
    def make_operator(self):
        return TangentBundle.scalar_from_mesh(*spheres_with_a_wall(1)).laplacian()


def test_what_a_bundle_of_functions_says():
    bundle = TangentBundle.scalar_from_mesh(*fan())
    assert str(bundle) == (
        "TangentBundle(7 points in R^3, dim=2, rank=1, functions on a mesh of 5 triangles, "
        "10 boundary edges, 0 edges flipped)"
    )
    assert_sound(*fan())
    with pytest.raises(InvalidInputError, match="are for clouds"):
        bundle.laplacian(terms=1)
    with pytest.raises(InvalidInputError, match="tangent"):
        bundle.distance([0])


def test_what_is_refused():
    vertices, faces = fan()
    with pytest.raises(InvalidInputError, match="no triangles"):
        TangentBundle.scalar_from_mesh(vertices, np.zeros((0, 3), int))
    with pytest.raises(ShapeError, match=r"\(n, 3\)"):
        TangentBundle.scalar_from_mesh(vertices[:, :2], faces)
    with pytest.raises(InvalidInputError, match="0 to 6"):
        TangentBundle.scalar_from_mesh(vertices, faces + 1)
