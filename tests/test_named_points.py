"""Messages number points as the user does, whatever the order in which the points come."""

import re

import numpy as np
import pytest
import torch
from test_known_frames import icosphere

import tangentbundle as tb
from tangentbundle.distributed import DistributedBundle
from tangentbundle.errors import TangentBundleError
from tangentbundle.geometry import cloud as cloud_module
from tangentbundle.manifolds import Sphere

pytestmark = pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")

N = 120
OUTLIERS = (17, 64)


def sphere_with_outliers(distance):
    points = Sphere(2).sample(N, seed=0)
    points[list(OUTLIERS)] *= distance
    return points


def flat_sheet(dim, tilted):
    """Points of a flat sheet with its frames; that of one point is perpendicular to the others."""
    rng = np.random.default_rng(0)
    points = np.pad(rng.uniform(size=(N, dim)), ((0, 0), (0, dim)))
    frames = np.tile(np.eye(2 * dim)[:, :dim], (N, 1, 1))
    frames[tilted] = np.eye(2 * dim)[:, dim:]
    near = np.linalg.norm(points - points[tilted], axis=1) <= 0.4
    return points, frames, set(np.flatnonzero(near))


def isolated(order):
    tb.TangentBundle.from_points(sphere_with_outliers(3.0)[order], dim=2, eps=0.4)


def isolated_with_frames(order):
    points = sphere_with_outliers(3.0)[order]
    frames = Sphere(2).frames(points / np.linalg.norm(points, axis=1, keepdims=True))
    tb.TangentBundle.from_frames(points, frames, eps=0.4)


def isolated_in_a_batch(order):
    points = np.concatenate([Sphere(2).sample(N, seed=1), sphere_with_outliers(3.0)[order]])
    try:
        tb.TangentBundle.from_batch(points, np.repeat([0, 1], N), dim=2, eps=0.4)
    except TangentBundleError as error:
        raise type(error)(
            re.sub(r"\d+", lambda number: str(int(number[0]) - N), str(error))
        ) from error


def too_few_for_frames(order):
    tb.TangentBundle.from_points(sphere_with_outliers(2.0)[order], dim=2, eps=9.0, eps_pca=0.36)


def too_few_for_frames_on_a_device(order):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cloud_module, "use_triton", lambda device: True)
        points = torch.from_numpy(sphere_with_outliers(2.0)[order])
        tb.TangentBundle.from_points(points, dim=2, eps=9.0, eps_pca=0.36)


def wrong_frames(order):
    points = Sphere(2).sample(N, seed=0)
    frames = Sphere(2).frames(points)
    frames[OUTLIERS[0], :, 0] *= 1.5
    tb.TangentBundle.from_frames(points[order], frames[order])


def vertex_without_a_normal(order):
    vertices, faces = icosphere(2)
    joined = [int(v) for v in np.unique(faces[(faces == OUTLIERS[0]).any(axis=1)])]
    vertices[joined] = vertices[OUTLIERS[0]]
    place = np.argsort(order)
    numbers = np.concatenate([place, np.arange(len(order), len(vertices))])
    tb.TangentBundle.from_mesh(vertices[np.argsort(numbers)], numbers[faces])


BUILDERS = [
    isolated,
    isolated_with_frames,
    isolated_in_a_batch,
    too_few_for_frames,
    too_few_for_frames_on_a_device,
    wrong_frames,
    vertex_without_a_normal,
]


def named(build, order) -> int:
    """The number after the words that introduce one."""
    with pytest.raises(TangentBundleError) as caught:
        build(order)
    return int(
        re.search(r"(?:first|worst)(?: at)?:? ?(?:point|vertex)? ?(-?\d+)", str(caught.value))[1]
    )


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_the_first_of_the_users_numbers_is_named(build):
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(N)
        if seed == 0:
            order = np.arange(N)
        place = np.argsort(order)
        bad = {int(place[number]) for number in OUTLIERS}
        number = named(build, order)
        if build in (wrong_frames, vertex_without_a_normal):
            assert number == place[OUTLIERS[0]]
        else:
            assert number == min(bad)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_without_transport_are_named(dim):
    points, frames, near = flat_sheet(dim, OUTLIERS[1])
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(N)

        def build(order):
            tb.TangentBundle.from_frames(points[order], frames[order], eps=0.16)

        assert named(build, order) == min(int(k) for k in np.argsort(order)[list(near)])


def test_vertices_are_named():
    """Two tetrahedra that meet in a point, and an edge of three triangles."""
    corners = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
    faces = np.array(
        [[0, 1, 2], [0, 1, 6], [1, 2, 6], [2, 0, 6], [3, 4, 5], [3, 4, 6], [4, 5, 6], [5, 3, 6]]
    )
    fans = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    for seed in range(4):
        place = np.random.default_rng(seed).permutation(7)
        vertices = np.empty_like(corners)
        vertices[place] = corners
        with pytest.raises(TangentBundleError, match=f"vertex {place[6]} "):
            tb.TangentBundle.from_mesh(vertices, place[faces])
        five = np.argsort(np.argsort(place[:5]))
        with pytest.raises(TangentBundleError) as caught:
            tb.TangentBundle.from_mesh(corners[:5][np.argsort(five)], five[fans])
        edge = re.search(r"from vertex (\d) to (\d)", str(caught.value))
        assert {int(edge[1]), int(edge[2])} == {five[0], five[1]}


def test_partitions_of_a_distributed_cloud_name_points(tmp_path):
    pytest.importorskip("dask")
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(N)
        place = np.argsort(order)

        def build(order, options, folder=tmp_path / str(seed)):
            points = sphere_with_outliers(2.0)[order]
            DistributedBundle.from_points(
                points, folder=folder / str(len(options)), dim=2, partition=30, **options
            )

        bad = {int(place[number]) for number in OUTLIERS}
        assert named(lambda order: build(order, {"eps": 9.0, "eps_pca": 0.36}), order) in bad
        assert named(lambda order: build(order, {"eps": 0.36}), order) in bad
