"""Cellular sheaves against plain NumPy, and the tangent bundle as one."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.manifolds import KleinBottle, Sphere
from tangentbundle.operators import KernelMoments
from tangentbundle.sheaf import SheafLaplacian
from tangentbundle.testing import OperatorContract, assert_self_adjoint, random_signal, relative_error

PETERSEN = (
    [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
)
STALKS = {
    "lines": [1] * 10,
    "planes": [2] * 10,
    "spaces": [3] * 10,
    "unequal": [1, 2, 3, 1, 4, 2, 2, 1, 3, 5],
    "with an isolated vertex": [2, 1] * 5 + [6],
}


def example(name="unequal", edges=PETERSEN, seed=0):
    """A sheaf with Gaussian maps, its edges in either direction, edge stalks of dimension 1 to 3."""
    rng = np.random.default_rng(seed)
    stalks = STALKS[name]
    edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
    maps = []
    for u, v in edges:
        k = rng.integers(1, 4)
        maps.append((rng.standard_normal((k, stalks[u])), rng.standard_normal((k, stalks[v]))))
    return stalks, edges, maps


def laplacian_by_definition(stalks, edges, maps):
    """Definition 12 of the paper, block by block."""
    start = np.concatenate([[0], np.cumsum(stalks)])
    matrix = np.zeros((start[-1], start[-1]))
    for (u, v), (at_u, at_v) in zip(edges, maps, strict=True):
        for a, b, at_a, at_b in ((u, v, at_u, at_v), (v, u, at_v, at_u)):
            rows = slice(start[a], start[a + 1])
            matrix[rows, rows] += at_a.T @ at_a
            matrix[rows, start[b] : start[b + 1]] -= at_a.T @ at_b
    return matrix


@pytest.mark.parametrize("name", STALKS)
def test_laplacian_is_that_of_the_definition(name):
    stalks, edges, maps = example(name)
    sheaf = tb.Sheaf(stalks, edges, maps)
    expected = laplacian_by_definition(stalks, edges, maps)
    delta = sheaf.coboundary()
    assert delta.shape == (sum(len(m[0]) for m in maps), sum(stalks))
    np.testing.assert_allclose((delta.T @ delta).toarray(), expected, atol=1e-12)
    lap, inside = sheaf.laplacian(), sheaf.mask.ravel()
    assert isinstance(lap, SheafLaplacian) and lap.dim == max(stalks) and "SheafLaplacian" in repr(lap)
    dense = lap.to_dense().numpy()
    np.testing.assert_allclose(dense[np.ix_(inside, inside)], -expected, atol=1e-12 * np.abs(expected).max())
    assert not dense[~inside].any() and not dense[:, ~inside].any()
    np.testing.assert_allclose(lap.to_scipy().toarray(), dense, atol=1e-12 * np.abs(expected).max())
    values = lap.spectrum(lap.shape[0])[0]
    np.testing.assert_allclose(values, np.append(np.zeros((~inside).sum()), np.linalg.eigvalsh(expected)), atol=1e-9)
    assert lap.spectral_interval[1] >= values[-1] * (1 - 1e-12)


@pytest.mark.parametrize("name", STALKS)
def test_coboundary_edge_by_edge(name):
    stalks, edges, maps = example(name, seed=1)
    sheaf, start = tb.Sheaf(stalks, edges, maps), np.cumsum([0, *stalks])
    cochain = np.random.default_rng(0).standard_normal(sum(stalks))
    parts = [cochain[a:b] for a, b in pairwise(start)]
    expected = [m[1] @ parts[v] - m[0] @ parts[u] for (u, v), m in zip(edges, maps, strict=True)]
    np.testing.assert_allclose(sheaf.coboundary() @ cochain, np.concatenate(expected), atol=1e-13)


@pytest.mark.parametrize("method", [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-11), tb.Lanczos(1e-11)], ids=repr)
@pytest.mark.parametrize("name", STALKS)
def test_filters_run_on_it(name, method):
    """Diffusion of a padded signal is the matrix exponential of the plain one, and padding stays zero."""
    stalks, edges, maps = example(name)
    sheaf = tb.Sheaf(stalks, edges, maps)
    signal = np.zeros((len(stalks), max(stalks), 3))
    cochain = np.random.default_rng(1).standard_normal((sum(stalks), 3))
    signal[sheaf.mask] = cochain
    got = tb.Heat(0.2)(sheaf.laplacian(), signal, method)
    expected = expm(-0.2 * laplacian_by_definition(stalks, edges, maps)) @ cochain
    np.testing.assert_allclose(got[sheaf.mask], expected, atol=1e-9)
    assert np.abs(got[~sheaf.mask]).max(initial=0.0) < 1e-14


def test_networks_run_on_it_and_padding_stays_zero():
    sheaf = tb.Sheaf(*example())
    lap, net = sheaf.laplacian(), tb.nn.TNN([1, 4, 1], step=0.1).double()
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((10, 5, 1)) * sheaf.mask[..., None]).requires_grad_()
    y = net(x, lap)
    assert y.shape == x.shape and y[~torch.from_numpy(sheaf.mask)].abs().max() < 1e-15
    y.square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in net.parameters())
    both = tb.join([lap, tb.Sheaf(*example(seed=5)).laplacian()])
    assert relative_error((both @ torch.cat([x, x]))[:10], lap @ x) < 1e-12


def test_the_inner_product_of_sheaf_signals():
    """The mean over vertices of the products of vectors, in which the Laplacian is self-adjoint."""
    lap = tb.Sheaf(*example("spaces")).laplacian()
    f, g = random_signal(lap, 1, seed=1), random_signal(lap, 1, seed=2)
    assert float(lap.inner(f, g)[0]) == pytest.approx(np.mean([float(f[i, :, 0] @ g[i, :, 0]) for i in range(10)]))
    delta = tb.Sheaf(*example("spaces")).coboundary()
    energy = np.square(delta @ f.numpy().reshape(-1)).sum() / 10
    assert -float(lap.inner(f, lap @ f)[0]) == pytest.approx(energy)


class TestContract(OperatorContract):
    def make_operator(self):
        return tb.Sheaf(*example("planes")).laplacian()

    def test_self_adjoint(self):
        assert_self_adjoint(self.make_operator())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kinds_of_arrays(dtype):
    maps = torch.randn((15, 2, 4, 2), generator=torch.Generator().manual_seed(0)).to(dtype)
    sheaf = tb.Sheaf([2] * 10, torch.tensor(PETERSEN), maps)
    lap = sheaf.laplacian()
    assert lap.dtype == dtype and (sheaf.edge_stalks == 4).all()
    assert isinstance(lap.spectrum(3)[0], torch.Tensor) and isinstance(lap.to(dtype=torch.float32), SheafLaplacian)
    listed = tb.Sheaf([2] * 10, PETERSEN, [tuple(pair) for pair in maps]).laplacian()
    assert relative_error(lap @ random_signal(lap), listed @ random_signal(lap)) < 1e-6


def test_sections_are_the_kernel():
    """The constant sheaf's Laplacian is the graph Laplacian, whose kernel counts components."""
    edges = [(0, 1), (1, 2), (3, 4)]
    lap = tb.Sheaf([1] * 5, edges, np.ones((3, 2, 1, 1))).laplacian()
    graph = np.diag([1, 2, 1, 1, 1]) - sum(
        np.eye(5)[[u]].T @ np.eye(5)[[v]] + np.eye(5)[[v]].T @ np.eye(5)[[u]] for u, v in edges
    )
    np.testing.assert_allclose(-lap.to_dense().numpy(), graph, atol=1e-14)
    assert (lap.spectrum(5)[0] < 1e-12).sum() == 2


@pytest.mark.parametrize(
    "space, scalar",
    [(Sphere(1), False), (Sphere(2), False), (Sphere(3), False), (KleinBottle(4), False), (Sphere(2), True)],
)
@pytest.mark.parametrize("calibrate", [True, False])
def test_the_bundle_is_an_orthogonal_sheaf(space, scalar, calibrate):
    """Its unnormalised Laplacian, normalised as in the paper, is the connection Laplacian."""
    bundle = tb.TangentBundle.from_points(space.sample(150, seed=0), dim=space.dim)
    bundle = bundle.scalar() if scalar else bundle
    sheaf, d = bundle.sheaf(), bundle.rank
    at_i, at_j = sheaf.maps[:, 0], sheaf.maps[:, 1]
    weights = at_i[:, 0, 0] ** 2
    for maps in (at_i, at_j):
        gram = maps.transpose(0, 2, 1) @ maps
        np.testing.assert_allclose(gram, weights[:, None, None] * np.eye(d), atol=1e-12)
    i, j = sheaf.edges.T
    w = np.zeros((150, 150))
    w[i, j] = w[j, i] = weights
    degree = w.sum(axis=1)
    mass = (w / degree / degree[:, None]).sum(axis=1)
    delta = sheaf.coboundary()
    transported = np.kron(np.diag(degree), np.eye(d)) - (delta.T @ delta).toarray()  # blocks w_ij O_ij
    scaled = np.repeat(1 / degree, d)
    average = scaled[:, None] * transported * scaled / np.repeat(mass, d)[:, None]
    c = bundle.kernel.calibration(bundle.dim) if calibrate else 1.0
    expected = (average - np.eye(150 * d)) / (c * bundle.eps)
    got = bundle.laplacian(calibrate=KernelMoments() if calibrate else False, order=1).to_dense().numpy()
    np.testing.assert_allclose(got, expected, atol=1e-12 / (c * bundle.eps))


GOOD = {"stalks": [1, 2, 2], "edges": [(0, 1), (1, 2)], "maps": [([[1.0]], [[1.0, 0.0]]), (np.eye(2), np.eye(2))]}


@pytest.mark.parametrize(
    "change, error, match",
    [
        ({"stalks": [2, 2, 2]}, ShapeError, r"maps of edge 0 .* \(k, 2\) and \(k, 2\) .* got shapes \[\(1, 1\)"),
        ({"stalks": [1, 0, 2]}, InvalidInputError, "at least 1"),
        ({"stalks": [1, 2.5, 2]}, InvalidInputError, "stalks must be integers"),
        ({"stalks": [1, np.nan, 2]}, InvalidInputError, "stalks must be integers"),
        ({"stalks": []}, ShapeError, "stalks must have shape"),
        ({"stalks": 2}, ShapeError, "stalks must have shape"),
        ({"stalks": "abc"}, DTypeError, "stalks"),
        ({"edges": np.empty((0, 2)), "maps": []}, ShapeError, "not be empty"),
        ({"edges": [0, 1]}, ShapeError, "edges must have shape"),
        ({"edges": [(0, 1), (1,)]}, InvalidInputError, "edges"),
        ({"edges": [(0, 1), (1, 3)]}, InvalidInputError, "vertices 0 to 2, got vertex 3"),
        ({"edges": [(0, 1), (1, -1)]}, InvalidInputError, "at least 0"),
        ({"edges": [(0, 1), (1, 1)]}, InvalidInputError, "remove loops"),
        ({"edges": [(0, 1), (1, 0)]}, InvalidInputError, "duplicates"),
        ({"maps": GOOD["maps"][:1]}, ShapeError, "each of the 2 edges, got 1"),
        ({"maps": None}, ShapeError, "each of the 2 edges, got None"),
        ({"maps": [None, None]}, ShapeError, "each of the 2 edges"),
        ({"maps": np.ones((2, 2, 1, 2))}, ShapeError, "maps of edge 0"),
        ({"stalks": [2] * 3, "maps": np.ones((2, 2, 0, 2))}, ShapeError, "maps of edge 0"),
        ({"maps": [([[1.0]], [[1.0, 0.0]]), (np.eye(2), np.ones((1, 2)))]}, ShapeError, "maps of edge 1"),
        ({"maps": [([[1.0]], [[1.0, 0.0]]), (np.eye(2),)]}, ShapeError, "maps of edge 1"),
        ({"maps": [([[1.0]], [[1.0, 0.0]]), (np.empty((0, 2)),) * 2]}, ShapeError, "maps of edge 1"),
        ({"maps": [([[1.0]], [[1.0, np.nan]]), (np.eye(2), np.eye(2))]}, NonFiniteError, "edge 0"),
        ({"stalks": [2] * 3, "maps": np.full((2, 2, 2, 2), np.inf)}, NonFiniteError, "maps"),
        ({"stalks": [2] * 3, "maps": np.ones((2, 2, 2, 2), complex)}, DTypeError, "maps"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, match):
    with pytest.raises(error, match=match):
        tb.Sheaf(**(GOOD | change))


def test_a_sheaf_without_maps_has_no_laplacian():
    with pytest.raises(InvalidInputError, match="maps are zero"):
        tb.Sheaf([2] * 3, GOOD["edges"], np.zeros((2, 2, 2, 2))).laplacian()
    assert repr(tb.Sheaf(**GOOD)) == "Sheaf(3 vertices, 2 edges, stalks of dimension 1 to 2)"
