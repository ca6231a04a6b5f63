"""From points to graph and frames: the scale that was asked for, and its automatic corrections."""

import warnings

import numpy as np
import pytest
import torch
from clouds import ball_graph, cloud_of, equal

from tangentbundle import TangentBundle
from tangentbundle.errors import (
    AccuracyWarning,
    InvalidInputError,
    IsolatedPointsError,
    RankDeficientError,
)
from tangentbundle.geometry.frames import (
    PCASettings,
    neighborhood_pca,
    products_along_edges,
    smallest_cosines,
)
from tangentbundle.geometry.scale import (
    Automatic,
    NeighborCount,
    Radius,
    radius_for_neighbors,
    target_neighbors,
)
from tangentbundle.manifolds import Sphere

POINTS = Sphere(2).sample(600, seed=0)


def graph_and_pca(points, dim, scale, **settings):
    """Graph, eps, local PCA and eps_pca of a cloud."""
    cloud = cloud_of(points)
    graph, eps = scale.ball_graph(cloud, dim)
    settings = PCASettings(**settings)
    pca, _ = neighborhood_pca(cloud, graph, eps=eps, dim=dim, settings=settings)
    return graph, eps, pca, settings.squared_radius(eps, dim)


def test_eps_is_a_squared_radius():
    graph, eps = Radius(0.09).ball_graph(cloud_of(POINTS), 2)
    assert eps == 0.09
    expected = ball_graph(POINTS, 0.3)
    assert equal(graph.indices, expected.indices)


def test_neighbors_is_the_median_degree():
    graph, eps = NeighborCount(25).ball_graph(cloud_of(POINTS), 2)
    assert np.median(graph.degrees) == pytest.approx(25, abs=1)
    assert graph.distances.max() <= np.sqrt(eps)


@pytest.mark.parametrize("scale", [Automatic(), NeighborCount(8), NeighborCount(20)], ids=repr)
def test_every_point_inside_a_lattice_has_the_same_neighbours(scale):
    """The radius is a distance between points; rounding must not decide which of the equal ones it
    reaches."""
    line = np.linspace(0, 1, 40)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2) + 1 / 3
    graph, _ = scale.ball_graph(cloud_of(grid), 2)
    inside = graph.degrees.reshape(40, 40)[8:-8, 8:-8]
    assert inside.min() == inside.max()


def test_pca_ball_holds_half_the_neighbours_by_default():
    _, eps, pca, eps_pca = graph_and_pca(POINTS, 2, NeighborCount(40))
    assert eps_pca == pytest.approx(eps / 2)
    assert np.median(pca.counts) == pytest.approx(20, abs=3)
    _, eps, _, eps_pca = graph_and_pca(Sphere(3).sample(600, seed=0), 3, NeighborCount(40))
    assert eps_pca == pytest.approx(eps * 0.5 ** (2 / 3))


@pytest.mark.parametrize("eps_pca", [0.05, 0.4])
def test_eps_pca_may_be_smaller_or_larger_than_eps(eps_pca):
    _, eps, pca, got = graph_and_pca(POINTS, 2, Radius(0.1), eps_pca=eps_pca)
    assert (eps, got) == (0.1, eps_pca)
    far = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    assert equal(pca.counts, (far < np.sqrt(eps_pca)).sum(axis=1) - 1)


def test_poor_neighbourhoods_use_their_nearest_points():
    """With ten neighbours per point many PCA balls hold too few; afterwards all frames are defined
    and tangent."""
    _, _, pca, eps_pca = graph_and_pca(POINTS, 2, NeighborCount(10))
    assert (
        (np.linalg.norm(POINTS[:, None] - POINTS, axis=2) < np.sqrt(eps_pca)).sum(axis=1) - 1 < 6
    ).any()
    assert (pca.counts >= 6).all()
    lean = np.linalg.norm(np.einsum("ni,nij->nj", POINTS, pca.frames(2)), axis=1)
    assert np.median(lean) < 0.1
    with pytest.raises(RankDeficientError, match="eps_pca"):  # a given scale is obeyed
        _, _, pca, _ = graph_and_pca(POINTS, 2, NeighborCount(10), eps_pca=1e-3)
        pca.frames(2)


def test_angles_between_neighbouring_tangent_spaces():
    flat = np.random.default_rng(0).uniform(size=(500, 2))
    frames = torch.eye(2).double().expand(500, 2, 2)
    products = products_along_edges(frames, ball_graph(flat, 0.2))
    assert smallest_cosines(products).numpy() == pytest.approx(1.0)
    # On the sphere tangent planes at angle a have the cosines 1 and cos(a).
    graph = ball_graph(POINTS, 0.2)
    angle = 2 * torch.arcsin(graph.distances / 2)
    frames = torch.from_numpy(Sphere(2).frames(POINTS))
    cosines = smallest_cosines(products_along_edges(frames, graph))
    assert np.allclose(cosines.sort()[0], torch.cos(angle).sort()[0])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_smallest_cosines_are_singular_values(d):
    products = np.random.default_rng(d).uniform(-0.5, 0.5, (50, d, d))
    cosines = smallest_cosines(torch.from_numpy(products))
    assert np.allclose(cosines, np.linalg.svd(products, compute_uv=False)[:, -1])


def test_shapeless_clouds_keep_a_scale():
    """A ball of points is no curve at any scale; narrower scales, which leave points alone, do not
    help."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((int(rng.integers(60, 150)), 2))
        try:
            NeighborCount(target_neighbors(len(points), 1)).ball_graph(cloud_of(points), 1)
        except IsolatedPointsError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            assert Automatic().ball_graph(cloud_of(points), 1)[0].degrees.min() > 0


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_widened_to_connect(seed):
    """A sphere with hardly a point at one pole: the median ball leaves some out, a slightly wider
    one does not."""
    points = Sphere(2).sample_nonuniform(1000, 1000.0, seed=seed)
    cloud = cloud_of(points)
    radius = radius_for_neighbors(cloud, target_neighbors(1000, 2))
    assert cloud.within(radius).components.any()
    graph, eps = Automatic().ball_graph(cloud, 2)
    assert not graph.components.any()
    assert radius < np.sqrt(eps) <= 2 * radius
    assert cloud.within(np.sqrt(eps) * (1 - 1e-8)).components.any()  # no wider than needed


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
    for eps in (np.float32(0.25), np.array(0.25), torch.tensor(0.25), 0.25):
        assert TangentBundle.from_points(POINTS, eps=eps).eps == 0.25
    assert np.median(
        TangentBundle.from_points(POINTS, neighbors=np.int32(20)).graph.degrees
    ) == pytest.approx(20, abs=1)
