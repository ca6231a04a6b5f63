"""Poisson problems with a kernel: constants on each component."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tangentbundle.operators.poisson import Components, DirectPoisson


def random_laplacian(sizes, seed=0):
    """The Laplacian of weighted random graphs of these sizes, connected by a path each, and masses;
    points in random order."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    weights = np.zeros((n, n))
    start = 0
    for size in sizes:
        stop = start + size
        block = rng.uniform(0, 1, (size, size)) * (rng.uniform(0, 1, (size, size)) < 0.2)
        block[np.arange(size - 1), np.arange(1, size)] = 1.0
        weights[start:stop, start:stop] = block
        start = stop
    order = rng.permutation(n)
    weights = (weights + weights.T)[np.ix_(order, order)]
    np.fill_diagonal(weights, 0.0)
    return np.diag(weights.sum(axis=1)) - weights, rng.uniform(0.5, 2.0, n)


def components_of(laplacian, mass):
    labels = connected_components(sparse.csr_array(laplacian))[1].astype(np.int64)
    return Components(torch.from_numpy(labels), torch.from_numpy(mass))


@pytest.mark.parametrize("sizes", [(30,), (20, 1, 12, 2)])
def test_solutions_have_mean_zero_on_each_component(sizes):
    laplacian, mass = random_laplacian(sizes)
    components = components_of(laplacian, mass)
    assert len(components.totals) == len(sizes)
    exact = np.random.default_rng(1).standard_normal((sum(sizes), 4))
    exact = components.remove_means(torch.from_numpy(exact)).numpy()
    for label in range(len(sizes)):
        rows = components.labels.numpy() == label
        assert np.abs(mass[rows] @ exact[rows]).max() < 1e-12
    found = DirectPoisson(sparse.csr_array(laplacian), components).solve(laplacian @ exact)
    np.testing.assert_allclose(found, exact, atol=1e-10)


def test_solutions_vanish_where_they_should():
    laplacian, mass = random_laplacian((40,))
    rng = np.random.default_rng(2)
    is_zero = rng.uniform(0, 1, 40) < 0.3
    exact = np.where(is_zero[:, None], 0.0, rng.standard_normal((40, 3)))
    solver = DirectPoisson(sparse.csr_array(laplacian), components_of(laplacian, mass), is_zero)
    np.testing.assert_allclose(solver.solve(laplacian @ exact), exact, atol=1e-10)


def test_nothing_is_left_to_solve_for():
    """All points are fixed, or alone."""
    solver = DirectPoisson(sparse.csr_array((3, 3)), components_of(np.zeros((3, 3)), np.ones(3)))
    assert (solver.solve(np.ones((3, 2))) == 0).all()
    laplacian, mass = random_laplacian((5,))
    components = components_of(laplacian, mass)
    solver = DirectPoisson(sparse.csr_array(laplacian), components, np.ones(5, bool))
    assert (solver.solve(np.ones((5, 2))) == 0).all()


def test_constants_are_removed_in_every_precision():
    labels = torch.tensor([1, 0, 1, 0])
    for dtype, atol in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        components = Components(labels, torch.tensor([1.0, 2.0, 3.0, 2.0], dtype=dtype))
        x = torch.tensor([[4.0], [1.0], [0.0], [3.0]], dtype=dtype)
        expected = torch.tensor([[3.0], [-1.0], [-1.0], [1.0]], dtype=dtype)
        assert torch.allclose(components.remove_means(x), expected, atol=atol)
