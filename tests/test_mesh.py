"""The connection Laplacian of a triangle mesh: exact on flat surfaces, equal to potpourri3d's on
curved ones."""

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay
from spaces import group_errors
from test_known_frames import SQUARE, icosphere

import tangentbundle as tb
from benchmarks.meshes import bunny, genus_two, head, torus, without_holes
from tangentbundle import TangentBundle
from tangentbundle.errors import (
    InvalidInputError,
    MeshRepairWarning,
    NotManifoldError,
    RankDeficientError,
)
from tangentbundle.testing import (
    OperatorContract,
    assert_gauge_equivariant,
    assert_rotation_equivariant,
)

REFERENCE = {
    "bunny": [
        23.76694,
        31.12132,
        43.70891,
        64.30278,
        75.97422,
        87.94502,
        93.57707,
        102.13197,
        103.54789,
        119.85954,
    ],
    "torus": [
        7.862894,
        18.029899,
        18.967549,
        48.110001,
        48.787087,
        94.812244,
        95.424209,
        122.04249,
        124.09433,
        131.334,
    ],
    "genus 2": [
        29.09473,
        31.531348,
        40.13124,
        55.888581,
        59.553859,
        66.598838,
        84.120154,
        109.3412,
        127.216,
        140.303,
    ],
}
"""Eigenvalues times area of potpourri3d 1.4.0,
``MeshVectorHeatSolver(V, F).get_connection_laplacian()`` with a third of the triangles at each
vertex as mass (``benchmarks.meshes.reference``)."""


def plane(n=300, seed=0):
    """A triangulated square with irregular vertices, a boundary and obtuse angles."""
    rng = np.random.default_rng(seed)
    side = np.linspace(0, 1, 9)
    rim = np.concatenate([np.stack(p, 1) for p in ((side, 0 * side), (side, 0 * side + 1))])
    rim = np.unique(np.concatenate([rim, rim[:, ::-1]]), axis=0)
    xy = np.concatenate([rim, 0.02 + 0.96 * rng.random((n, 2))])
    faces = Delaunay(
        xy * [1.0, 6.0]
    ).simplices  # Delaunay after stretching: there are edges to flip
    return np.concatenate([xy, np.zeros((len(xy), 1))], axis=1), faces[:, ::-1]


def patch():
    """A curved patch with a boundary."""
    vertices, faces = plane(90)
    vertices[:, 2] = 0.3 * np.sin(5 * vertices[:, 0]) * np.cos(3 * vertices[:, 1])
    return TangentBundle.from_mesh(vertices, faces)


@pytest.mark.parametrize(
    "name, mesh",
    [("bunny", bunny), ("torus", lambda: torus(70, 36, 0.9)), ("genus 2", lambda: genus_two(0.08))],
)
def test_eigenvalues_of_potpourri3d(name, mesh):
    """Within 1 %, and every one twice, on a scanned mesh, with very uneven triangles, and of genus
    2."""
    found = mesh()
    if found is None:
        pytest.skip("there is no bunny next to the repository")
    found = without_holes(*found)
    bundle = TangentBundle.from_mesh(*found)
    pairs = (bundle.laplacian().spectrum(20)[0] * float(bundle.weights.areas.sum())).reshape(10, 2)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=1e-8)
    np.testing.assert_allclose(pairs.mean(axis=1), REFERENCE[name], rtol=0.01)
    report = bundle.diagnose(quiet=True)
    assert report.orientable and report.consistent and report.components == 1


def test_parallel_fields_on_a_plane():
    """Constant vectors are parallel, also at the boundary, whatever the triangles."""
    vertices, faces = plane()
    bundle = TangentBundle.from_mesh(vertices, faces)
    lap = bundle.laplacian()
    assert bundle.weights.mesh.flipped > 20 and bundle.weights.mesh.boundary > 30
    change = lap @ bundle.to_coordinates(np.tile([1.0, -2.0, 0.0], (len(vertices), 1)))
    assert np.abs(change).max() < 1e-10 * lap.spectral_interval[1]
    assert np.allclose(lap.spectrum(3)[0][:2], 0, atol=1e-6) and lap.spectrum(3)[0][2] > 1
    assert float(bundle.weights.areas.sum()) == pytest.approx(1.0)


def test_linear_functions_on_a_plane():
    """The scalar Laplacian is the cotangent one: linear functions are harmonic inside."""
    vertices, faces = plane()
    lap = TangentBundle.from_mesh(vertices, faces).scalar().laplacian()
    inside = ((vertices[:, :2] > 0) & (vertices[:, :2] < 1)).all(axis=1)
    x, y = vertices[:, 0], vertices[:, 1]
    linear = lap @ (2 * x - 3 * y + 1)[:, None, None]
    assert np.abs(linear[inside]).max() < 1e-10 * lap.spectral_interval[1]
    energy = -float(lap.inner(x[:, None, None], lap @ x[:, None, None]).sum())
    assert (
        1 - 1e-9 < energy < 1.001
    )  # of a linear function, its gradient squared; obtuse triangles at the rim add


def test_the_operator_is_never_positive():
    """Also on rough patches with obtuse triangles at the boundary, whose cotangents are
    negative."""
    for seed in range(12):
        vertices, faces = plane(40, seed)
        vertices[:, 2] = np.random.default_rng(seed).normal(size=len(vertices))
        bundle = TangentBundle.from_mesh(vertices, faces)
        lap = bundle.laplacian()
        root = lap.mass.sqrt().repeat_interleave(2)
        values = torch.linalg.eigvalsh(lap.to_dense() * root[:, None] / root) * lap.scale
        assert values[0] >= -2 and values[-1] < 1e-12


def folded_torus(m):
    """A flat torus of m x m squares, folded twice into a square: only lengths count."""
    i, j = np.mgrid[:m, :m]
    wave = lambda k: np.abs(k - m // 2).astype(float)  # noqa: E731
    vertices = np.stack([wave(i), wave(j), 0.0 * i], axis=-1).reshape(-1, 3)
    corner = lambda a, b: ((i + a) % m * m + (j + b) % m).ravel()  # noqa: E731
    first = np.stack([corner(0, 0), corner(1, 0), corner(1, 1)], axis=1)
    return vertices, np.concatenate(
        [first, np.stack([corner(0, 0), corner(1, 1), corner(0, 1)], axis=1)]
    )


def test_the_spectrum_of_a_flat_torus_is_exact():
    """Fields have the spectrum of the five-point Laplacian, twice; functions have it once."""
    m = 10
    vertices, faces = folded_torus(m)
    frames = np.tile(np.eye(3)[:, :2], (m * m, 1, 1))
    bundle = TangentBundle.from_mesh(vertices, faces, frames=frames)
    waves = 2 - 2 * np.cos(2 * np.pi * np.arange(m) / m)
    exact = np.sort((waves[:, None] + waves).ravel())
    np.testing.assert_allclose(bundle.scalar().laplacian().spectrum(m * m)[0], exact, atol=1e-9)
    np.testing.assert_allclose(
        bundle.laplacian().spectrum(2 * m * m)[0], np.repeat(exact, 2), atol=1e-9
    )


def test_the_spectrum_of_the_sphere_converges():
    """The errors of l(l+1) - 1 fall with the squared edge length."""
    errors = []
    for levels in (2, 3, 4):
        lap = TangentBundle.from_mesh(*icosphere(levels)).laplacian()
        errors.append(group_errors(lap.spectrum(30)[0], (6, 10, 14), (1, 5, 11)).max())
    assert errors[2] < 0.01 and errors[0] / errors[1] > 3 and errors[1] / errors[2] > 3


def test_coordinates_agree_with_the_frames():
    """A smooth field in space is smooth in coordinates: the energy of a gradient field on the
    sphere is its own."""
    vertices, faces = icosphere(4)
    sphere, bundle = tb.manifolds.Sphere(2), TangentBundle.from_mesh(vertices, faces)
    lap, field = bundle.laplacian(), bundle.to_coordinates(sphere.gradient_field(vertices, 2))
    assert float(
        -lap.inner(field, lap @ field).sum() / lap.inner(field, field).sum()
    ) == pytest.approx(5, rel=0.01)


class TestMeshLaplacian(OperatorContract):
    def make_operator(self):
        return patch().laplacian()


class TestScalarMeshLaplacian(OperatorContract):
    def make_operator(self):
        return patch().scalar().laplacian().to(dtype=torch.float32)


@pytest.mark.parametrize("check", [assert_gauge_equivariant, assert_rotation_equivariant])
def test_filters_and_networks_do_not_depend_on_frames(check):
    net = tb.nn.TNN([2, 4, 2], seed=0).double()
    check(lambda lap, x: tb.Heat(0.01)(lap, x), patch())
    check(lambda lap, x: net(x, lap), patch(), tol=1e-7)


def test_several_meshes_are_joined():
    parts = [patch().laplacian(), TangentBundle.from_mesh(*icosphere(1)).laplacian()]
    x = [tb.testing.random_signal(part) for part in parts]
    both = tb.Heat(0.02)(tb.join(parts), torch.cat(x))
    assert torch.allclose(
        both, torch.cat([tb.Heat(0.02)(p, f) for p, f in zip(parts, x, strict=True)]), atol=1e-5
    )


def test_thin_parts_and_separate_parts():
    """Three components; nothing jumps between the sides of an ear, so pairs stay pairs."""
    bundle = TangentBundle.from_mesh(*head(0.1))
    report = bundle.diagnose(quiet=True)
    assert report.components == 3 and report.orientable and "triangles" in str(report)
    pairs = bundle.laplacian().spectrum(12)[0].reshape(6, 2)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=1e-8)
    assert (
        bundle.scalar().laplacian().spectrum(4)[0][2]
        < 1e-6
        < bundle.scalar().laplacian().spectrum(4)[0][3]
    )


def test_triangles_are_turned_over_and_degenerate_ones_opened():
    vertices, faces = icosphere(2)
    exact = TangentBundle.from_mesh(vertices, faces).laplacian().spectrum(20)[0]
    mixed = np.where(np.arange(len(faces))[:, None] % 3 == 0, faces[:, ::-1], faces)
    with pytest.warns(MeshRepairWarning, match="turned over"):
        bundle = TangentBundle.from_mesh(vertices, mixed)
    np.testing.assert_allclose(bundle.laplacian().spectrum(20)[0], exact, rtol=1e-9)
    normals = np.cross(bundle.frames[:, :, 0], bundle.frames[:, :, 1])
    assert (np.einsum("ni,ni->n", normals, vertices) > 0.9).all()  # the majority was right
    a, b, c = faces[0]
    middle = np.concatenate([vertices, [(vertices[a] + vertices[b]) / 2]])
    split = np.concatenate(
        [faces[1:], [[a, len(vertices), c], [len(vertices), b, c], [a, b, len(vertices)]]]
    )
    with pytest.warns(MeshRepairWarning, match="repeated corner"):  # and a triangle without area
        opened = TangentBundle.from_mesh(middle, np.concatenate([split, [[a, a, b]]]))
    np.testing.assert_allclose(opened.laplacian().spectrum(20)[0], exact, rtol=0.01)


@pytest.mark.parametrize("make", [TangentBundle.from_mesh, TangentBundle.scalar_from_mesh])
def test_triangles_that_are_listed_twice_count_once(make):
    vertices, faces = icosphere(2)
    copies = np.roll(faces[3:9], 1, axis=1)
    expected = make(vertices, faces).laplacian()
    with pytest.warns(MeshRepairWarning, match="listed twice left out: 6"):
        found = make(vertices, np.concatenate([copies, faces])).laplacian()
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-9)
    np.testing.assert_allclose(found.spectrum(6)[0], expected.spectrum(6)[0], atol=1e-9)


def moebius(m=12):
    """A closed band of 2 x m vertices with half a turn."""
    t = 2 * np.pi * np.arange(m) / m
    ring = np.stack([np.cos(t), np.sin(t), 0 * t], axis=1)
    across = 0.3 * np.stack(
        [np.cos(t) * np.cos(t / 2), np.sin(t) * np.cos(t / 2), np.sin(t / 2)], axis=1
    )
    lower, upper = np.arange(m), np.arange(m) + m
    after, over = np.append(lower[1:], upper[0]), np.append(upper[1:], lower[0])
    faces = np.concatenate([np.stack([lower, after, upper], 1), np.stack([after, over, upper], 1)])
    return np.concatenate([ring - across, ring + across]), faces


APEX = np.concatenate([SQUARE, [[0.5, 0.5, 1.0], [0.5, 0.5, -1.0], [0.4, 0.4, 0.5]]])


@pytest.mark.parametrize(
    "vertices, faces, error, match",
    [
        (
            APEX[:5],
            [[0, 1, 2], [0, 2, 3], [0, 2, 4]],
            NotManifoldError,
            r"edge from vertex [02] to [02] .*from_points",
        ),
        (*moebius(), NotManifoldError, "not orientable"),
        (APEX[[0, 1, 4, 2, 3]], [[0, 1, 2], [0, 3, 4]], NotManifoldError, "vertex 0 several parts"),
        (APEX[:5], [[0, 1, 2], [0, 2, 3]], RankDeficientError, r"no triangle: 1 \(first: 4"),
        (APEX[:3], np.zeros((0, 3), int), RankDeficientError, "no triangle"),
    ],
)
def test_meshes_that_are_no_surfaces_are_refused(vertices, faces, error, match):
    with pytest.raises(error, match=match):
        TangentBundle.from_mesh(vertices, faces)


def test_kinds_and_frames_of_the_user():
    vertices, faces = icosphere(2)
    bundle = TangentBundle.from_mesh(
        torch.tensor(vertices, dtype=torch.float32), torch.tensor(faces)
    )
    assert bundle.frames.dtype == bundle.laplacian().dtype == torch.float32
    turned = np.asarray(TangentBundle.from_mesh(vertices, faces).frames)[
        :, :, ::-1
    ]  # all look inwards
    same = TangentBundle.from_mesh(vertices, faces, frames=turned)
    np.testing.assert_array_equal(same.frames, turned)
    assert (same.connection.det > 0).all()
    with pytest.raises(InvalidInputError, match="shape"):
        TangentBundle.from_mesh(vertices, faces, frames=turned[1:])
    for options in ({"terms": 1}, {"calibrate": False}):
        with pytest.raises(InvalidInputError, match="are for clouds"):
            bundle.laplacian(**options)
