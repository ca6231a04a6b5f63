"""Where the points of people's data lie: each space has points, frames, units and a bundle."""

import numpy as np
import pytest
import xarray as xr

from tangentbundle import earth
from tangentbundle.earth.wind import from_grid
from tangentbundle.errors import NotManifoldError
from tangentbundle.geometry.known_frames import latlon_frames
from tangentbundle.manifolds import FlatTorus, Sphere
from tangentbundle.spaces import Cloud, Globe, Mesh, OnManifold

TETRAHEDRON = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


def places(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.degrees(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(0, 360, n)


def octahedron():
    """Its triangles divided once, on the sphere."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    faces = [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]]
    return corners, np.array(faces)


def spaces():
    sphere = Sphere(2)
    points = sphere.sample(200, seed=1)
    torus = FlatTorus([1.0, 1.0])
    return {
        "cloud": Cloud(points, ("x", "y", "z")),
        "mesh": Mesh(*octahedron()),
        "globe": Globe(*places()),
        "sphere": OnManifold(sphere, points, ("x", "y", "z")),
        "torus": OnManifold(torus, torus.sample(200, seed=2), ("a", "b", "c", "d")),
    }


@pytest.mark.parametrize("name", spaces())
def test_spaces_answer_the_same_questions(name):
    space = spaces()[name]
    n, ambient_dim = space.points.shape
    assert len(space) == n and space.coordinates.shape == (n, len(space.names))
    assert len(space.units) == len(space.attributes) == len(space.names)
    bundle = space.bundle()
    assert bundle.num_points == n and bundle.dim == (space.dim or 2)
    if space.frames is not None:
        assert space.frames.shape == (n, ambient_dim, space.dim)
        gram = np.einsum("nda,ndb->nab", space.frames, space.frames)
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(space.dim), gram.shape), atol=1e-12)
        np.testing.assert_allclose(bundle.frames, space.frames, atol=1e-12)


@pytest.mark.parametrize("name", spaces())
def test_components_come_back(name):
    """Also standard deviations: with the same variance in all directions, it is that of each."""
    space = spaces()[name]
    n, ambient_dim = space.points.shape
    count = len(space.vector_names)
    components = np.random.default_rng(0).standard_normal((3, n, count))
    ambient = space.to_ambient(components)
    assert ambient.shape == (3, n, ambient_dim)
    np.testing.assert_allclose(space.to_components(ambient), components, atol=1e-12)
    covariances = np.broadcast_to(4.0 * np.eye(ambient_dim), (n, ambient_dim, ambient_dim))
    np.testing.assert_allclose(space.std_of_components(covariances), 2.0 * np.ones((n, count)))


@pytest.mark.parametrize("name", spaces())
def test_chosen_points_are_a_space(name):
    space = spaces()[name]
    rows = np.array([4, 0, 2])
    chosen = space.select(rows)
    np.testing.assert_array_equal(chosen.coordinates, space.coordinates[rows])
    assert chosen.names == space.names and chosen.units == space.units
    if chosen.frames is not None:
        np.testing.assert_allclose(chosen.frames, space.frames[rows], atol=1e-12)


def test_grids_and_winds_are_globes():
    lat, lon = np.arange(90, -91, -30.0), np.arange(0, 360, 30.0)
    grid = earth.Grid.of(xr.Dataset(coords={"lat": lat, "lon": lon}))
    globe = Globe(grid.lat, grid.lon)
    assert len(grid) == len(globe) == 62 and grid.globe.units == globe.units
    np.testing.assert_array_equal(grid.points, globe.points)
    np.testing.assert_array_equal(grid.frames, latlon_frames(grid.lat, grid.lon)[1])
    field = np.random.default_rng(0).standard_normal((62, 2, 1))
    np.testing.assert_array_equal(
        grid.bundle(neighbors=8).laplacian() @ field, globe.bundle(neighbors=8).laplacian() @ field
    )
    times = np.array(["2026-01-01"], "datetime64[D]")
    wind = from_grid(times, lat, lon, np.ones((1, 7, 12, 2)), "ones")
    np.testing.assert_array_equal(wind.globe.points, globe.points)


def test_a_mesh_that_is_no_surface_says_that_its_vertices_are_a_cloud():
    corners, faces = octahedron()
    fin = np.concatenate([faces, [[0, 1, 5], [0, 1, 3]]])
    with pytest.raises(NotManifoldError, match="neighbors=20"):
        Mesh(corners, fin).bundle()
    points = Sphere(2).sample(100, seed=0)
    cloud = Mesh(points, TETRAHEDRON).bundle(neighbors=20)
    assert cloud.num_points == 100 and cloud.dim == 2
