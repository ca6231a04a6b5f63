"""Orthogonal maps along edges: compiled against reference, and against exact parallel transport."""

import numpy as np
import pytest
import torch
from clouds import ball_graph, equal
from spaces import SPACES, reverse_edges

from tangentbundle import TangentBundle
from tangentbundle.errors import RankDeficientError
from tangentbundle.geometry.transport import closest_orthogonal, connect, connect_by_torch
from tangentbundle.manifolds import FlatTorus, Sphere, SwissRoll
from tangentbundle.testing import random_orthogonal


def random_frames(n, ambient, d, seed=0):
    """Frames within about 30 degrees of each other, each turned by a random element of O(d)."""
    rng = np.random.default_rng(seed)
    base = np.linalg.qr(rng.standard_normal((ambient, d)))[0]
    lean = 0.25 / np.sqrt(ambient) * rng.standard_normal((n, ambient, d))
    return np.linalg.qr(base + lean)[0] @ random_orthogonal(n, d, seed)


def overlaps(frames, graph):
    return frames[graph.rows].swapaxes(1, 2) @ frames[graph.indices]


def connected(frames, graph, dtype=torch.float64):
    """The connection of an array of frames."""
    return connect(torch.from_numpy(np.ascontiguousarray(frames)), graph, dtype)


CASES = [
    (1, 1),
    (1, 2),
    (1, 50),
    (2, 2),
    (2, 3),
    (2, 50),
    (3, 3),
    (3, 7),
    (3, 50),
    (5, 5),
    (5, 6),
    (5, 50),
]


@pytest.mark.parametrize("d, ambient", CASES)
def test_compiled_maps_equal_the_reference(d, ambient):
    points = np.random.default_rng(1).uniform(size=(300, 2))
    graph, frames = ball_graph(points, 0.15), random_frames(300, ambient, d)
    connection = connected(frames, graph)
    blocks = connection.blocks()
    np.testing.assert_allclose(blocks, closest_orthogonal(overlaps(frames, graph)), atol=1e-12)
    by_torch, undefined = connect_by_torch(torch.from_numpy(frames), graph, torch.float64)
    assert not undefined.any()
    np.testing.assert_allclose(by_torch.blocks(), blocks, atol=1e-12)
    assert equal(connection.det, torch.linalg.det(blocks).sign().to(torch.int8))
    assert equal(connection.det, by_torch.det)
    assert {-1, 1} == set(connection.det.tolist())  # both kinds occur
    np.testing.assert_allclose(blocks[5:9], connection.blocks(slice(5, 9)), atol=0)


@pytest.mark.parametrize("d, ambient", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_maps_are_orthogonal_and_their_reverses_transposes_bit_for_bit(d, ambient, dtype):
    points = np.random.default_rng(2).uniform(size=(300, 2))
    graph = ball_graph(points, 0.15)
    connection = connected(random_frames(300, ambient, d, seed=3), graph, dtype)
    blocks = connection.blocks()
    assert blocks.dtype == dtype
    error = (blocks.mT @ blocks - torch.eye(d)).abs().max()
    assert error < (1e-14 if dtype == torch.float64 else 1e-6)
    back = reverse_edges(graph)
    assert equal(blocks[back].mT, blocks)
    assert equal(connection.det[back], connection.det)


def test_the_reference_minimises_the_distance():
    rng = np.random.default_rng(0)
    matrices = rng.standard_normal((20, 3, 3))
    best = closest_orthogonal(matrices)
    distance = np.linalg.norm(best - matrices, axis=(1, 2))
    for seed in range(30):
        other = random_orthogonal(20, 3, seed)
        assert (np.linalg.norm(other - matrices, axis=(1, 2)) >= distance - 1e-12).all()
    np.testing.assert_allclose(
        best.swapaxes(1, 2) @ best, np.tile(np.eye(3), (20, 1, 1)), atol=1e-14
    )


def test_a_map_takes_coordinates_at_j_to_coordinates_at_i():
    """In the plane transport is the identity of ambient vectors: F_i O_ij = F_j."""
    points = np.random.default_rng(0).uniform(size=(100, 2))
    frames = random_orthogonal(100, 2)
    graph = ball_graph(points, 0.3)
    blocks = connected(frames, graph).blocks().numpy()
    np.testing.assert_allclose(frames[graph.rows] @ blocks, frames[graph.indices], atol=1e-14)


def exact_blocks(space, points, frames, graph):
    i, j = graph.rows.numpy(), graph.indices.numpy()
    return frames[i].swapaxes(1, 2) @ space.transport(points[j], points[i]) @ frames[j]


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), Sphere(3), Sphere(5)], ids=repr)
def test_on_spheres_the_closest_map_is_parallel_transport(space):
    """Exactly, at less than a quarter of a great circle."""
    points = space.sample(300, seed=0)
    frames = space.frames(points) @ random_orthogonal(300, space.dim)
    graph = ball_graph(points, 1.2)
    np.testing.assert_allclose(
        connected(frames, graph).blocks(), exact_blocks(space, points, frames, graph), atol=1e-9
    )
    # Beyond a quarter the normal component wins and the closest map is a reflection of it.
    far = ball_graph(points, 1.9)
    difference = connected(frames, far).blocks().numpy() - exact_blocks(space, points, frames, far)
    assert np.abs(difference).max() > 1


@pytest.mark.parametrize(
    "space, radius", [(FlatTorus((1.0, 0.5)), 0.6), (SwissRoll(), 4.0)], ids=["torus", "roll"]
)
def test_on_flat_spaces_the_closest_map_is_parallel_transport(space, radius):
    """Tangent planes that turn about one direction at a time, by less than a right angle."""
    points = space.sample(800, seed=0)
    frames = space.frames(points)
    graph = ball_graph(points, radius)
    np.testing.assert_allclose(
        connected(frames, graph).blocks(), exact_blocks(space, points, frames, graph), atol=1e-9
    )


def test_holonomy_of_the_sphere_is_its_area():
    """Around a small triangle the angle turned is the area enclosed (Gauss and Bonnet)."""
    sphere = Sphere(2)
    corners = np.array([[0.0, 0.0, 1.0], [0.3, 0.0, 1.0], [0.0, 0.4, 1.0]])
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    graph = ball_graph(corners, 2.0)
    blocks = connected(sphere.frames(corners), graph).blocks().numpy()
    ends = zip(graph.rows.tolist(), graph.indices.tolist(), strict=True)
    step = dict(zip(ends, blocks, strict=True))
    loop = step[0, 2] @ step[2, 1] @ step[1, 0]
    a, b, c = corners
    area = 2 * np.arctan2(a @ np.cross(b, c), 1 + a @ b + b @ c + c @ a)
    assert abs(np.arctan2(loop[1, 0], loop[0, 0])) == pytest.approx(area, rel=1e-9)


def test_parallel_frames_of_flat_spaces_have_no_energy():
    """The constant combinations of a parallel frame are in the kernel to rounding."""
    for space in (FlatTorus((1.0, 0.5)), SwissRoll()):
        points = space.sample(400, seed=0)
        lap = TangentBundle.from_frames(points, space.frames(points)).laplacian()
        ones = np.tile(np.array([[0.6, 1.0], [0.8, -2.0]]), (400, 1, 1))
        assert np.abs(lap @ ones).max() < 1e-11 / lap.scale


@pytest.mark.parametrize("space", [s for s in SPACES if s.dim in (2, 3)], ids=repr)
def test_exact_frames_give_the_same_bundle_in_either_sign(space):
    """Reflecting the frames of half the points changes the maps, not the operator on ambient
    fields."""
    points = space.sample(200, seed=0)
    frames = space.frames(points)
    mirrored = frames.copy()
    mirrored[::2, :, 0] *= -1
    one, other = (TangentBundle.from_frames(points, f) for f in (frames, mirrored))
    field = np.random.default_rng(0).standard_normal(points.shape)
    results = [b.to_ambient(b.laplacian() @ b.to_coordinates(field)) for b in (one, other)]
    np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-9 * np.abs(results[0]).max())


# What is refused.


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_perpendicular_tangent_spaces(d):
    points = np.array([[0.0] * (2 * d), [1.0] + [0.0] * (2 * d - 1)])
    eye = np.eye(2 * d)
    frames = np.stack([eye[:, :d], eye[:, d:]])
    with pytest.raises(RankDeficientError, match="perpendicular"):
        connected(frames, ball_graph(points, 2.0))
