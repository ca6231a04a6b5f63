"""Automatic scales."""

import numpy as np
import pytest

from tangentbundle import TangentBundle
from tangentbundle.errors import TooFewPointsError
from tangentbundle.geometry.graph import radius_graph
from tangentbundle.geometry.scale import (
    MAX_NEIGHBORS,
    connecting_radius,
    least_neighbors,
    radius_for_neighbors,
    target_neighbors,
)
from tangentbundle.geometry.search import sample_rows
from tangentbundle.manifolds import Sphere, SwissRoll, Torus


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_target_neighbors_grow_slower_than_n(d):
    sizes = [10, 100, 1000, 10_000, 100_000, 10**6]
    targets = [target_neighbors(n, d) for n in sizes]
    assert targets == sorted(targets)
    assert all(least_neighbors(n, d) <= t <= min(MAX_NEIGHBORS, n - 1) for n, t in zip(sizes, targets, strict=True))
    assert targets[-1] / 10**6 < 0.01 * targets[0] / 10


@pytest.mark.parametrize("n", [3, 4, 5])
def test_never_more_neighbours_than_points(n):
    assert target_neighbors(n, 3) == least_neighbors(n, 3) == n - 1


@pytest.mark.parametrize("k", [1, 5, 30])
def test_radius_for_neighbors_is_the_median(k):
    points = np.random.default_rng(0).standard_normal((501, 2))
    radius = radius_for_neighbors(points, k)
    assert np.median(radius_graph(points, radius * (1 + 1e-12)).degrees) == k
    assert np.median(radius_graph(points, radius * (1 - 1e-9)).degrees) < k + 0.5


def test_radius_for_neighbors_from_a_sample():
    points = Sphere(2).sample(20_000, seed=0)
    degrees = radius_graph(points, radius_for_neighbors(points, 40)).degrees
    assert np.median(degrees) == pytest.approx(40, abs=2)
    rows = sample_rows(20_000)
    assert len(rows) == len(set(rows.tolist())) < 20_000 and (np.diff(rows) > 0).all()
    assert np.array_equal(rows, sample_rows(20_000))
    assert np.array_equal(sample_rows(7), np.arange(7))


def test_too_few_points():
    with pytest.raises(TooFewPointsError, match="need at least 6 points, got 5"):
        radius_for_neighbors(np.arange(5.0)[:, None], 5)


def test_connecting_radius_is_the_longest_gap():
    points = np.cumsum(np.random.default_rng(0).uniform(0.1, 1.0, 200))[:, None]
    gap = np.diff(points[:, 0]).max()
    assert connecting_radius(points, radius_graph(points, 0.2), 2 * gap) == pytest.approx(gap)
    plane = np.random.default_rng(1).uniform(size=(400, 2))
    radius = connecting_radius(plane, radius_graph(plane, 0.02), 1.0)
    assert not radius_graph(plane, radius * (1 + 1e-9)).components().any()
    assert radius_graph(plane, radius * (1 - 1e-9)).components().any()


def test_connecting_radius_of_coincident_points():
    points = np.repeat(np.array([[0.0], [1.0], [3.0]]), 5, axis=0)
    assert connecting_radius(points, radius_graph(points, 2.5), 5.0) == pytest.approx(2.0)


def test_no_near_connection_is_infinite():
    points = np.concatenate([np.arange(100.0), 1e6 + np.arange(100.0)])[:, None]
    assert connecting_radius(points, radius_graph(points, 1.5), 3.0) == np.inf


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), Sphere(3), Torus(), SwissRoll()], ids=repr)
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_automatic_scale_connects_and_is_local(space, n):
    bundle = TangentBundle.from_points(space.sample(n, seed=0), dim=space.dim)
    graph = bundle.sorted_graph
    assert not graph.components().any()
    assert np.median(graph.degrees) < 0.5 * n


@pytest.mark.parametrize("d", [1, 2, 3])
def test_eps_shrinks_with_n(d):
    eps = [TangentBundle.from_points(Sphere(d).sample(n, seed=0), dim=d).eps for n in (300, 1500, 7500)]
    assert eps[0] > 1.5 * eps[1] > 2.25 * eps[2]


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_eps_has_the_unit_of_a_squared_length(factor):
    points = Torus().sample(800, seed=0)
    one, other = (TangentBundle.from_points(s * points) for s in (1.0, factor))
    assert other.eps == pytest.approx(factor**2 * one.eps, rel=1e-9)
    assert other.eps_pca == pytest.approx(factor**2 * one.eps_pca, rel=1e-9)
