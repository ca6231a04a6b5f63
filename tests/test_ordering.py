"""The space-filling curve."""

import numpy as np
import pytest
import torch

from tangentbundle.geometry.ordering import order_along_curve
from tangentbundle.parallel import run_ranges


def curve_order(points):
    """The order of an array of points."""
    return order_along_curve(torch.from_numpy(points)).numpy()


@pytest.mark.parametrize("dims", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize("n", [1, 2, 17, 5000])
def test_is_a_permutation(n, dims):
    points = np.random.default_rng(n + dims).standard_normal((n, dims))
    assert np.array_equal(np.sort(curve_order(points)), np.arange(n))


@pytest.mark.parametrize("dims, bits", [(1, 8), (2, 1), (2, 2), (2, 5), (3, 1), (3, 3)])
def test_consecutive_cells_of_a_full_grid_are_adjacent(dims, bits):
    """The defining property of the Hilbert curve; a Z-order curve lacks it."""
    axes = [np.arange(2**bits)] * dims
    cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dims)
    cells = np.random.default_rng(0).permutation(cells)
    walk = cells[curve_order(cells.astype(float))]
    assert np.array_equal(np.abs(np.diff(walk, axis=0)).sum(axis=1), np.ones(len(walk) - 1))


@pytest.mark.parametrize("dims", [2, 3, 6])
def test_neighbours_on_the_curve_are_near_in_space(dims):
    points = np.random.default_rng(0).uniform(size=(4000, dims))
    points[:, 3:] *= 1e-3  # beyond three dimensions the curve follows the principal axes
    steps = np.linalg.norm(np.diff(points[curve_order(points)], axis=0), axis=1)
    random = np.linalg.norm(np.diff(points, axis=0), axis=1)
    spacing = 4000 ** (-1 / min(dims, 3))
    assert np.median(steps) < 1.5 * spacing < 0.2 * np.median(random)


def test_does_not_depend_on_scale_place_or_order():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(500, 3))
    order = curve_order(points)
    assert np.array_equal(curve_order(points * 2.0**40), order)
    assert np.array_equal(curve_order(points * 2.0**-40), order)
    shuffle = rng.permutation(500)
    assert np.array_equal(shuffle[curve_order(points[shuffle])], order)


@pytest.mark.parametrize("dims", [1, 3, 5])
def test_coincident_and_collinear_points(dims):
    assert np.array_equal(curve_order(np.ones((5, dims))), np.arange(5))
    line = np.random.default_rng(0).permutation(50)[:, None] * np.ones((1, dims))
    along = line[curve_order(line), 0]
    assert np.array_equal(np.abs(np.diff(along)), np.ones(49))


@pytest.mark.parametrize("n, grain", [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7), (1001, 1)])
def test_ranges_cover_every_row_once(n, grain):
    hits = np.zeros(n, dtype=int)

    def kernel(start, stop, weight):
        hits[start:stop] += weight

    run_ranges(kernel, n, 2, grain=grain)
    assert (hits == 2).all()


def test_errors_in_threads_come_through():
    def kernel(start, stop):
        raise ArithmeticError("from a thread")

    with pytest.raises(ArithmeticError, match="from a thread"):
        run_ranges(kernel, 100, grain=1)
