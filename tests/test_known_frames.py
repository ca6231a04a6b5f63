"""Frames from latitude and longitude, from meshes, and given by the user."""

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from spaces import group_errors

from tangentbundle import TangentBundle
from tangentbundle.errors import (
    DTypeError,
    InvalidInputError,
    NonFiniteError,
    RankDeficientError,
    ShapeError,
    TooFewPointsError,
)
from tangentbundle.geometry.known_frames import latlon_frames, mesh_frames
from tangentbundle.manifolds import Sphere, Torus

RNG = np.random.default_rng


def uniform_latlon(n, seed=0):
    rng = RNG(seed)
    return np.degrees(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(-180, 180, n)


# Latitude and longitude.


def test_known_places():
    """Greenwich on the equator, 90 E, and 60 N: points, east and north by hand."""
    points, frames, _ = latlon_frames(np.array([0.0, 0.0, 60.0]), np.array([0.0, 90.0, 0.0]))
    np.testing.assert_allclose(points, [[1, 0, 0], [0, 1, 0], [0.5, 0, np.sqrt(0.75)]], atol=1e-15)
    east, north = frames.transpose(2, 0, 1)
    np.testing.assert_allclose(east, [[0, 1, 0], [-1, 0, 0], [0, 1, 0]], atol=1e-15)
    np.testing.assert_allclose(north, [[0, 0, 1], [0, 0, 1], [-np.sqrt(0.75), 0, 0.5]], atol=1e-15)


def test_east_and_north_are_derivatives():
    lat, lon = uniform_latlon(200)
    points, frames, _ = latlon_frames(lat, lon)
    h = 1e-5
    shifted = latlon_frames(np.clip(lat + h, -90, 90), lon)[0], latlon_frames(lat, lon + h)[0]
    steps = [(s - points) / np.radians(h) for s in shifted]
    inside = np.abs(lat) < 89
    np.testing.assert_allclose(steps[0][inside], frames[inside, :, 1], atol=1e-6)
    cosine = np.cos(np.radians(lat))[:, None]
    np.testing.assert_allclose(steps[1], cosine * frames[:, :, 0], atol=1e-6)
    outward = np.cross(frames[:, :, 0], frames[:, :, 1])
    np.testing.assert_allclose(outward, points, atol=1e-14)  # east x north is up


def test_coordinates_are_zonal_and_meridional_wind():
    """Solid rotation about the axis blows east at speed cos(latitude)."""
    lat, lon = uniform_latlon(400)
    bundle = TangentBundle.from_latlon(lat, lon)
    wind = np.cross([0.0, 0.0, 1.0], bundle.points)
    got = bundle.to_coordinates(wind)[:, :, 0]
    np.testing.assert_allclose(
        got, np.stack([np.cos(np.radians(lat)), 0 * lat], axis=1), atol=1e-14
    )


def test_poles_and_date_line():
    """All meridians meet at the poles, and the date line is no edge of the world."""
    rng = RNG(0)
    lat, lon = uniform_latlon(600)
    lat[:4], lon[:4] = [90, 90, -90, -90], [0, 137.0, 20, -150]
    lat[4:8], lon[4:8] = [10.0, 10.001, -5.0, -5.001], [180.0, -180.0, -180.0, 179.9999]
    bundle = TangentBundle.from_latlon(lat, lon)
    np.testing.assert_allclose(bundle.points[:4, 2], [1, 1, -1, -1], atol=1e-15)
    frames = bundle.frames
    np.testing.assert_allclose(
        frames.swapaxes(1, 2) @ frames, np.tile(np.eye(2), (600, 1, 1)), atol=1e-12
    )
    pairs = {
        (i, j)
        for i, j in zip(bundle.graph.rows.tolist(), bundle.graph.indices.tolist(), strict=True)
    }
    assert {(0, 1), (2, 3), (4, 5), (6, 7)} <= pairs
    # Longitude is irrelevant: turning the globe, also across the date line, does not change the
    # operator.
    turned = TangentBundle.from_latlon(lat, (lon + 77.0 + 180) % 360 - 180)
    x = rng.standard_normal((600, 2, 2))
    a, b = bundle.laplacian() @ x, turned.laplacian() @ x
    np.testing.assert_allclose(a, b, atol=1e-9 * np.abs(a).max())


def test_spectrum_from_latlon():
    lap = TangentBundle.from_latlon(*uniform_latlon(4000)).laplacian()
    assert group_errors(lap.spectrum(30, tol=1e-7)[0], (6, 10, 14), (1, 5, 11)).mean() < 0.035


def test_latlon_kinds():
    lat, lon = uniform_latlon(200)
    assert TangentBundle.from_latlon(lat, lon).points.dtype == np.float64
    bundle = TangentBundle.from_latlon(
        torch.tensor(lat, dtype=torch.float32), torch.tensor(lon, dtype=torch.float32)
    )
    assert isinstance(bundle.points, torch.Tensor) and bundle.points.dtype == torch.float32
    assert bundle.frames.dtype == torch.float32
    whole = np.arange(-80, 80), np.arange(0, 320, 2)
    assert TangentBundle.from_latlon(*whole).points.dtype == np.float64
    assert TangentBundle.from_latlon(lat.tolist(), lon.tolist()).num_points == 200


@pytest.mark.parametrize(
    "lat, lon, error, match",
    [
        ([0.0, 91.0, 3.0], [0.0] * 3, InvalidInputError, "swapped"),
        ([0.0, -90.1, 3.0], [0.0] * 3, InvalidInputError, r"-90\.1"),
        ([0.0, 1.0, 3.0], [0.0, 0.0, 800.0], InvalidInputError, "800"),
        ([0.0, 1.0, 3.0], [0.0, 0.0], ShapeError, "same length"),
        ([[0.0, 1.0]], [[0.0, 1.0]], ShapeError, "meshgrid"),
        (3.0, 4.0, ShapeError, "same length"),
        ([0.0, np.nan, 1.0], [0.0] * 3, NonFiniteError, "lat"),
        ([0.0] * 3, [0.0, np.inf, 0.0], NonFiniteError, "lon"),
        (["a", "b", "c"], [0.0] * 3, DTypeError, "lat"),
        (np.zeros(3, np.float32), np.zeros(3), DTypeError, "one kind"),
        (np.zeros(3), torch.zeros(3, dtype=torch.float64), DTypeError, "one kind"),
        ([], [], TooFewPointsError, "at least 3"),
        ([0.0, 1.0], [0.0, 1.0], TooFewPointsError, "got 2"),
    ],
)
def test_bad_latlon(lat, lon, error, match):
    with pytest.raises(error, match=match):
        TangentBundle.from_latlon(lat, lon)


# Meshes.


def icosphere(levels):
    """Vertices (n, 3) and faces (f, 3), turned outwards."""
    g = (1 + 5**0.5) / 2
    vertices = [(0, s, t * g) for s in (-1, 1) for t in (-1, 1)]
    vertices = np.array([np.roll(v, k) for v in vertices for k in range(3)], dtype=float)
    edge = np.linalg.norm(vertices[:, None] - vertices, axis=2)
    near = np.isclose(edge, 2.0)
    faces = [
        (i, j, k)
        for i in range(12)
        for j in range(i)
        for k in range(j)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    faces, vertices = np.array(faces), vertices / np.linalg.norm(vertices[0])
    for _ in range(levels):
        sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        unique, where = np.unique(sides, axis=0, return_inverse=True)
        middles = vertices[unique].sum(axis=1)
        a, b, c = faces.T
        ab, bc, ca = where.reshape(-1, 3).T + len(vertices)
        vertices = np.concatenate(
            [vertices, middles / np.linalg.norm(middles, axis=1, keepdims=True)]
        )
        faces = np.concatenate(
            [np.stack(t, axis=1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )
    corners = vertices[faces]
    volume = np.einsum("fi,fi->f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2]))
    return vertices, np.where(volume[:, None] > 0, faces, faces[:, ::-1])


def test_the_icosphere_is_a_closed_mesh():
    vertices, faces = icosphere(2)
    assert (len(vertices), len(faces)) == (162, 320)
    assert len(vertices) - len(faces) * 3 // 2 + len(faces) == 2  # Euler


@pytest.mark.parametrize("levels, most", [(2, 0.03), (3, 0.015)])
def test_mesh_frames_are_tangent_and_oriented(levels, most):
    vertices, faces = icosphere(levels)
    frames = mesh_frames(vertices, faces)
    np.testing.assert_allclose(
        frames.swapaxes(1, 2) @ frames, np.tile(np.eye(2), (len(vertices), 1, 1)), atol=1e-12
    )
    lean = np.abs(np.einsum("ni,nij->nj", vertices, frames)).max()
    assert lean < most
    up = np.cross(frames[:, :, 0], frames[:, :, 1])
    assert (np.einsum("ni,ni->n", up, vertices) > 0.99).all()  # all outwards
    bundle = TangentBundle.from_mesh(vertices, faces)
    assert (bundle.connection.det > 0).all()
    assert bundle.diagnose(quiet=True).consistent


def test_vertex_normals_of_a_roof():
    """Two triangles, one twice the other's area, meet at vertices 0 and 1; their weights are one
    over the squared lengths of both edges that leave the vertex."""
    vertices = np.array([[0.0, 0, 0], [0, 1, 0], [2, 0, 0], [0, 0, 1.0]])
    faces = np.array([[0, 2, 1], [0, 1, 3]])
    frames = mesh_frames(vertices, faces)
    normal = np.cross(frames[:, :, 0], frames[:, :, 1])
    expected = np.array([[1.0, 0, 2 / 4], [1 / 2, 0, 2 / 5], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(
        normal, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-14
    )


def test_vertex_normals_are_exact_on_any_mesh_of_a_sphere():
    rng = np.random.default_rng(0)
    unit = rng.standard_normal((300, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    hull = ConvexHull(unit).simplices
    a, b, c = unit[hull].swapaxes(0, 1)
    is_inward = (np.cross(b - a, c - a) * a).sum(axis=1) < 0
    faces = np.where(is_inward[:, None], hull[:, ::-1], hull)
    frames = mesh_frames(5.0 * unit + rng.standard_normal(3), faces)
    assert np.abs(np.einsum("ni,nij->nj", unit, frames)).max() < 1e-10


def test_spectrum_of_a_mesh():
    vertices, faces = icosphere(4)
    lap = TangentBundle.from_mesh(vertices, faces).laplacian()
    values, _ = lap.spectrum(30, tol=1e-7)
    assert group_errors(values, (6, 10, 14), (1, 5, 11)).mean() < 0.03
    assert values[5] < 1.1 and values[6] > 4.5 and values[15] < 5.5 and values[16] > 9.5


def test_mesh_kinds():
    vertices, faces = icosphere(2)
    plain = TangentBundle.from_mesh(vertices, faces)
    for v, f in (
        (vertices.astype(np.float32), faces.astype(np.uint32)),
        (torch.from_numpy(vertices), torch.from_numpy(faces)),
        (vertices.tolist(), faces.tolist()),
        (1e-9 * vertices, faces),
        (1e9 * vertices + 1e10, faces),
    ):
        frames = np.asarray(TangentBundle.from_mesh(v, f).frames)
        np.testing.assert_allclose(
            frames @ frames.swapaxes(1, 2), plain.frames @ plain.frames.swapaxes(1, 2), atol=1e-5
        )


SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    "vertices, faces, error, match",
    [
        (SQUARE, [[0, 1], [2, 3]], ShapeError, r"shape \(f, 3\)"),
        (SQUARE, [[0, 1, 2], [0, 2]], ShapeError, "three corners each; polygon 1"),
        (SQUARE, [[0.0, 1.0, 2.0]], ShapeError, "integer"),
        (SQUARE, [0, 1, 2], ShapeError, r"\(3,\)"),
        (SQUARE, None, ShapeError, "integer"),
        (SQUARE, "mesh", ShapeError, "integer"),
        (SQUARE, [[True, False, True]], ShapeError, "integer"),
        (SQUARE, [[1, 2, 4]], InvalidInputError, "count from one"),
        (SQUARE, [[-1, 0, 1]], InvalidInputError, "name vertices -1"),
        (SQUARE, [[0, 1, 2]], RankDeficientError, r"no triangle: 1 \(first: 3\)"),
        (SQUARE, [[0, 1, 2], [0, 2, 1], [0, 2, 3]], InvalidInputError, "more than two triangles"),
        (SQUARE, np.zeros((0, 3), int), RankDeficientError, "no triangle"),
        (SQUARE[:, :2], [[0, 1, 2]], ShapeError, r"\(n, 3\)"),
        (SQUARE * np.nan, [[0, 1, 2], [0, 2, 3]], NonFiniteError, "vertices"),
    ],
)
def test_bad_meshes(vertices, faces, error, match):
    with pytest.raises(error, match=match):
        TangentBundle.from_mesh(vertices, faces)


# Frames of the user.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_frames_are_kept(dtype):
    points = Torus().sample(300, seed=0, dtype=dtype)
    frames = Torus().frames(points).astype(dtype)
    bundle = TangentBundle.from_frames(points, frames)
    np.testing.assert_array_equal(bundle.frames, frames)
    assert bundle.frames.dtype == dtype
    assert bundle.dim == bundle.rank == 2 and bundle.estimate is None


X = Sphere(2).sample(50, seed=0)
F = Sphere(2).frames(X)


@pytest.mark.parametrize(
    "frames, error, match",
    [
        (2 * F, RankDeficientError, "50 do not"),
        (F + 1e-5, RankDeficientError, "np.linalg.qr"),
        (np.repeat(F[:, :, :1], 2, axis=2), RankDeficientError, "orthonormal"),
        (np.zeros_like(F), RankDeficientError, "orthonormal"),
        (F * np.nan, NonFiniteError, "frames"),
        (F[:-1], ShapeError, r"\(50, 3, d\)"),
        (F[:, :2], ShapeError, "got"),
        (F[:, :, 0], ShapeError, "got"),
        (np.zeros((50, 3, 0)), ShapeError, "got"),
        (np.zeros((50, 3, 4)), ShapeError, "d <= D"),
        (F.astype(np.float16), DTypeError, "float16"),
        ("frames", DTypeError, "frames"),
    ],
)
def test_bad_frames(frames, error, match):
    with pytest.raises(error, match=match):
        TangentBundle.from_frames(X, frames)
