"""The orientation of surfaces follows a rule: other samples of the same surface have the same sign
of curl."""

import warnings

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.calculus.orientation import UPWARD, orientation
from tangentbundle.testing import random_orthogonal

SEEDS = range(6)


def turns(dims, count=3):
    """The identity, and random rotations of space."""
    found = [np.eye(dims)]
    for seed in range(1, count):
        turn = random_orthogonal(1, dims, seed=seed)[0]
        turn[:, 0] *= np.sign(np.linalg.det(turn))
        found.append(turn)
    return found


def sheet(seed, dims=3, amplitude=0.0, noise=0.0, n=250):
    """Points of a graph over the plane, and the field that turns around the third axis, seen from
    above."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(size=(2, n)) * [[2], [1]]
    zero = np.zeros_like(x)
    height = amplitude * np.sin(3 * x) * np.cos(4 * y)
    points = np.stack([x, y, height, *[zero] * (dims - 3)], axis=1)
    field = np.stack([-y, x, *[zero] * (dims - 2)], axis=1)
    return points + noise * rng.standard_normal(points.shape), field


def sign_of_curl(points, field):
    bundle = tb.TangentBundle.from_points(points, dim=2)
    return np.sign(np.median(bundle.curl() @ bundle.to_coordinates(field)))


@pytest.mark.filterwarnings("ignore:.*too few neighbours")
@pytest.mark.parametrize("dims", [3, 4, 7])
@pytest.mark.parametrize(
    ("amplitude", "noise"), [(0.0, 0.0), (0.0, 1e-9), (0.01, 0.003), (0.15, 0.0)]
)
def test_samples_of_a_sheet_have_one_sign_of_curl(dims, amplitude, noise):
    """In any order, anywhere, in any units, and however space is turned."""
    for number, turn in enumerate(turns(dims)):
        found = set()
        for seed in SEEDS:
            points, field = sheet(seed, dims, amplitude, noise)
            order = np.random.default_rng(seed).permutation(len(points))
            size, moved = 10.0 ** (seed - 3), 100.0 * seed
            found.add(
                sign_of_curl((size * (points @ turn.T + moved))[order], (field @ turn.T)[order])
            )
        assert len(found) == 1
        if number == 0:  # the plane of the first two axes, seen from above
            assert found == {1.0}


@pytest.mark.parametrize(
    "normal", [*np.eye(3), *-np.eye(3), (1, -1, 0), (0.1, 0, -1), (-0.6, 0, 0.8), (0, 0.6, -0.8)]
)
def test_sheets_in_space_face_upward(normal):
    """Also given frames that do not agree are turned to this side."""
    up = np.array(normal, dtype=float) / np.linalg.norm(normal)
    frame = np.linalg.svd(up[None])[2][1:].T
    for seed in SEEDS:
        points = np.random.default_rng(seed).uniform(size=(100, 2)) @ frame.T
        frames = frame @ random_orthogonal(100, 2, seed=seed)
        for bundle in (
            tb.TangentBundle.from_points(points, dim=2),
            tb.TangentBundle.from_frames(points, frames),
        ):
            bases = bundle.tangent_frames.matrices.numpy()
            normals = orientation(bundle).numpy()[:, None] * np.cross(
                bases[:, :, 0], bases[:, :, 1]
            )
            assert (normals @ UPWARD > 0).all()


def planes_parallel_to_the_first_side(dims, count=4):
    """Orthonormal bases (dims, 2) of planes that face no side of the first direction: in space with
    normals across ``UPWARD``, simple ones and random ones; otherwise with a vector across b and
    c."""
    rng = np.random.default_rng(dims)
    if dims == 3:
        normals = [(0, 4, -1), (4, -1, 0), (16, 0, -1), (8, 2, -1), (-8, 6, -1), (4, 3, -1)]
        normals += [np.cross(UPWARD, rng.standard_normal(3)) for _ in range(count)]
        return [np.linalg.svd(np.array([normal], float))[2][1:].T for normal in normals]
    axes = np.arange(dims)
    spanned = np.linalg.qr(np.stack([np.cos(axes), np.sin(axes)], axis=1))[0]
    bases = []
    for _ in range(count):
        vectors = rng.standard_normal((dims, 2))
        vectors[:, 0] -= spanned @ (spanned.T @ vectors[:, 0])
        bases.append(np.linalg.qr(vectors)[0])
    return bases


def oriented_plane(bundle):
    """The mean of the oriented unit areas, an antisymmetric matrix."""
    bases = bundle.tangent_frames.matrices.numpy()
    areas = np.einsum("n,nx,ny->xy", orientation(bundle).numpy(), bases[:, :, 0], bases[:, :, 1])
    return (areas - areas.T) / bundle.num_points


@pytest.mark.filterwarnings("error:the orientation")
@pytest.mark.parametrize("dims", [3, 4, 7])
def test_planes_that_do_not_face_the_first_side_have_one_orientation(dims):
    """In any order, place and unit, with rounding, noise, and when they are tilted a little."""
    for basis in planes_parallel_to_the_first_side(dims):
        plane = None
        for seed in (0, 3, 5):
            rng = np.random.default_rng(seed)
            points = rng.uniform(size=(100, 2)) @ basis.T
            tilt = 1e-4 * rng.standard_normal((dims, dims))
            noise = 1e-4 * rng.standard_normal(points.shape)
            for cloud in (
                points,
                -points,
                10.0 ** (seed - 3) * (points + 10 * rng.standard_normal(dims)),
                points.astype(np.float32),
                points @ (np.eye(dims) + tilt),
                points + noise,
            ):
                areas = oriented_plane(tb.TangentBundle.from_points(cloud, dim=2))
                plane = areas if plane is None else plane
                assert np.allclose(areas, plane, atol=0.02)


@pytest.mark.filterwarnings("error:the orientation")
def test_all_planes_have_an_orientation_that_is_continuous_almost_everywhere():
    """A tilt by a ten-thousandth turns less than one in a hundred planes over."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(60, 2))
    turned = 0
    for _ in range(200):
        basis = np.linalg.qr(rng.standard_normal((3, 2)))[0]
        tilted = np.linalg.qr(basis + 1e-4 * rng.standard_normal((3, 2)))[0]
        first, second = (
            oriented_plane(
                tb.TangentBundle.from_frames(
                    points @ plane.T, plane @ random_orthogonal(60, 2, seed=0)
                )
            )
            for plane in (basis, tilted)
        )
        turned += bool((first * second).sum() < 0)
    assert turned < 2


@pytest.mark.parametrize(
    ("space", "n"),
    [
        (tb.manifolds.Sphere(2), 80),
        (tb.manifolds.Sphere(2), 500),
        (tb.manifolds.Torus(1.0, 0.4), 400),
        (tb.manifolds.Ellipsoid((1.0, 0.7, 0.5)), 400),
    ],
    ids=repr,
)
def test_closed_surfaces_face_outward(space, n):
    for turn in turns(3):
        for seed in SEEDS:
            points = space.sample(n, seed=seed)
            bundle = tb.TangentBundle.from_points(points @ turn.T + seed, dim=2)
            bases = bundle.tangent_frames.matrices.numpy()
            normals = (
                orientation(bundle).numpy()[:, None] * np.cross(bases[:, :, 0], bases[:, :, 1])
            ) @ turn
            places = points[bundle.cloud.curve_order]
            if isinstance(space, tb.manifolds.Torus):  # from the circle in the middle of the tube
                places = (
                    places - places * [1, 1, 0] / np.linalg.norm(places[:, :2], axis=1)[:, None]
                )
            assert (np.einsum("na,na->n", normals, places) > 0).mean() > 0.95


def test_each_component_is_oriented_by_itself():
    flat = 2.5 * sheet(0, n=300)[0]  # as dense as the sphere
    points = np.concatenate(
        [tb.manifolds.Sphere(2).sample(300, seed=0), flat + 10, flat * [1, 1, -1] - 10]
    )
    with pytest.warns(tb.errors.DisconnectedWarning):
        bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=20)
    bases = bundle.tangent_frames.matrices.numpy()
    normals = orientation(bundle).numpy()[:, None] * np.cross(bases[:, :, 0], bases[:, :, 1])
    normals = bundle.cloud.in_user_order(torch.from_numpy(normals)).numpy()
    assert (np.einsum("na,na->n", normals[:300], points[:300]) > 0).all()
    assert (normals[300:, 2] > 0.9).all()


def wound_field(seed, dims):
    """A Clifford torus in a space of so many dimensions, a field on it, and a function like the
    field's vorticity."""
    points = tb.manifolds.FlatTorus((1.0, 1.0)).sample(400, seed=seed)
    angle = np.arctan2(points[:, 1], points[:, 0])
    around = np.stack([0 * angle, 0 * angle, -points[:, 3], points[:, 2]], axis=1)
    empty = ((0, 0), (0, dims - 4))
    return np.pad(points, empty), np.pad(np.sin(angle)[:, None] * around, empty), np.cos(angle)


@pytest.mark.parametrize("dims", [4, 5, 12])
def test_closed_surfaces_in_more_dimensions_have_one_orientation(dims):
    """Or a warning that says that they have not."""
    certain = 0
    for turn in turns(dims):
        found, uncertain = set(), False
        for seed in SEEDS:
            points, field, vorticity = wound_field(seed, dims)
            bundle = tb.TangentBundle.from_points(points @ turn.T, dim=2)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                curl = (bundle.curl() @ bundle.to_coordinates(field @ turn.T))[:, 0, 0]
            uncertain |= any("orientation" in str(one.message) for one in caught)
            found.add(np.sign(curl @ vorticity))
        assert len(found) == 1 or uncertain
        certain += not uncertain
    assert certain >= 1


def test_given_frames_that_agree_keep_their_orientation():
    points, field = sheet(0)
    for side in (1.0, -1.0):
        frames = np.tile(np.array([[1.0, 0], [0, side], [0, 0]]), (len(points), 1, 1))
        bundle = tb.TangentBundle.from_frames(points, frames)
        assert np.sign(np.median(bundle.curl() @ bundle.to_coordinates(field))) == side
