"""From points to graph and frames: the scale that was asked for, and its automatic corrections."""

import warnings

import numpy as np
import pytest

from tangentbundle import TangentBundle
from tangentbundle.errors import (
    AccuracyWarning,
    InvalidInputError,
    IsolatedPointsError,
    RankDeficientError,
)
from tangentbundle.geometry.graph import radius_graph
from tangentbundle.geometry.pipeline import (
    Scale,
    build_graph,
    facing,
    graph_and_frames,
    smallest_cosines,
)
from tangentbundle.geometry.scale import radius_for_neighbors, target_neighbors
from tangentbundle.manifolds import Sphere

POINTS = Sphere(2).sample(600, seed=0)


def test_eps_is_a_squared_radius():
    graph, eps = build_graph(POINTS, 2, Scale(eps=0.09))
    assert eps == 0.09
    expected = radius_graph(POINTS, 0.3)
    assert np.array_equal(graph.indices, expected.indices)


def test_neighbors_is_the_median_degree():
    graph, eps = build_graph(POINTS, 2, Scale(neighbors=25))
    assert np.median(graph.degrees) == pytest.approx(25, abs=1)
    assert graph.distances.max() <= np.sqrt(eps)


@pytest.mark.parametrize("scale", [Scale(), Scale(neighbors=8), Scale(neighbors=20)], ids=repr)
def test_every_point_inside_a_lattice_has_the_same_neighbours(scale):
    """The radius is a distance between points; rounding must not decide which of the equal ones it
    reaches."""
    line = np.linspace(0, 1, 40)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2) + 1 / 3
    graph, _ = build_graph(grid, 2, scale)
    inside = graph.degrees.reshape(40, 40)[8:-8, 8:-8]
    assert inside.min() == inside.max()


def test_pca_ball_holds_half_the_neighbours_by_default():
    _, eps, pca, eps_pca = graph_and_frames(POINTS, 2, Scale(neighbors=40))
    assert eps_pca == pytest.approx(eps / 2)
    assert np.median(pca.counts) == pytest.approx(20, abs=3)
    _, eps, _, eps_pca = graph_and_frames(Sphere(3).sample(600, seed=0), 3, Scale(neighbors=40))
    assert eps_pca == pytest.approx(eps * 0.5 ** (2 / 3))


@pytest.mark.parametrize("eps_pca", [0.05, 0.4])
def test_eps_pca_may_be_smaller_or_larger_than_eps(eps_pca):
    _, eps, pca, got = graph_and_frames(POINTS, 2, Scale(eps=0.1, eps_pca=eps_pca))
    assert (eps, got) == (0.1, eps_pca)
    far = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    assert np.array_equal(pca.counts, (far < np.sqrt(eps_pca)).sum(axis=1) - 1)


def test_poor_neighbourhoods_use_their_nearest_points():
    """With ten neighbours per point many PCA balls hold too few; afterwards all frames are defined
    and tangent."""
    _, _, pca, eps_pca = graph_and_frames(POINTS, 2, Scale(neighbors=10))
    assert (
        (np.linalg.norm(POINTS[:, None] - POINTS, axis=2) < np.sqrt(eps_pca)).sum(axis=1) - 1 < 6
    ).any()
    assert (pca.counts >= 6).all()
    lean = np.linalg.norm(np.einsum("ni,nij->nj", POINTS, pca.frames(2)), axis=1)
    assert np.median(lean) < 0.1
    with pytest.raises(RankDeficientError, match="eps_pca"):  # a given scale is obeyed
        _, _, pca, _ = graph_and_frames(POINTS, 2, Scale(neighbors=10, eps_pca=1e-3))
        pca.frames(2)


def test_angles_between_neighbouring_tangent_spaces():
    flat = np.random.default_rng(0).uniform(size=(500, 2))
    frames = np.tile(np.eye(2), (500, 1, 1))
    assert smallest_cosines(facing(frames, radius_graph(flat, 0.2))) == pytest.approx(1.0)
    # On the sphere tangent planes at angle a have the cosines 1 and cos(a).
    graph = radius_graph(POINTS, 0.2)
    angle = 2 * np.arcsin(graph.distances / 2)
    cosines = smallest_cosines(facing(Sphere(2).frames(POINTS), graph))
    assert np.allclose(np.sort(cosines), np.sort(np.cos(angle)))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_smallest_cosines_are_singular_values(d):
    products = np.random.default_rng(d).uniform(-0.5, 0.5, (50, d, d))
    assert np.allclose(smallest_cosines(products), np.linalg.svd(products, compute_uv=False)[:, -1])


def test_shapeless_clouds_keep_a_scale():
    """A ball of points is no curve at any scale; narrower scales, which leave points alone, do not
    help."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((int(rng.integers(60, 150)), 2))
        try:
            build_graph(points, 1, Scale(neighbors=target_neighbors(len(points), 1)))
        except IsolatedPointsError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            assert build_graph(points, 1, Scale())[0].degrees.min() > 0


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_widened_to_connect(seed):
    """A sphere with hardly a point at one pole: the median ball leaves some out, a slightly wider
    one does not."""
    points = Sphere(2).sample_nonuniform(1000, 1000.0, seed=seed)
    radius = radius_for_neighbors(points, target_neighbors(1000, 2))
    assert radius_graph(points, radius).components().any()
    graph, eps = build_graph(points, 2, Scale())
    assert not graph.components().any()
    assert radius < np.sqrt(eps) <= 2 * radius
    assert (
        radius_graph(points, np.sqrt(eps) * (1 - 1e-8)).components().any()
    )  # no wider than needed


@pytest.mark.parametrize(
    "options, match",
    [
        ({"eps": 0.1, "neighbors": 5}, "not both"),
        ({"eps": 0.0}, "eps must be a positive number"),
        ({"eps": -1.0}, "eps"),
        ({"eps": np.nan}, "eps"),
        ({"eps": np.inf}, "eps"),
        ({"eps": "0.1"}, "eps"),
        ({"eps": True}, "eps"),
        ({"eps": 1j}, "eps"),
        ({"eps": np.array([0.1, 0.2])}, "eps"),
        ({"eps_pca": 0}, "eps_pca"),
        ({"max_memory": -5}, "max_memory"),
        ({"max_memory": "1 GB"}, "max_memory"),
        ({"neighbors": 0}, "neighbors must be a positive integer"),
        ({"neighbors": -3}, "neighbors"),
        ({"neighbors": 2.5}, "neighbors"),
        ({"neighbors": "10"}, "neighbors"),
        ({"neighbors": True}, "neighbors"),
        ({"neighbors": np.nan}, "neighbors"),
    ],
)
def test_bad_scales(options, match):
    with pytest.raises(InvalidInputError, match=match):
        TangentBundle.from_points(POINTS, **options)


def test_numpy_and_torch_numbers_are_numbers():
    import torch

    for eps in (np.float32(0.25), np.array(0.25), torch.tensor(0.25), 0.25):
        assert TangentBundle.from_points(POINTS, eps=eps).eps == 0.25
    assert np.median(
        TangentBundle.from_points(POINTS, neighbors=np.int32(20)).graph.degrees
    ) == pytest.approx(20, abs=1)
