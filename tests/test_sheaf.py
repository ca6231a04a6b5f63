"""Cellular sheaves against plain NumPy, and the tangent bundle as one."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import tangentbundle as tb
from tangentbundle.errors import (
    DTypeError,
    InvalidInputError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
)
from tangentbundle.manifolds import KleinBottle, Sphere
from tangentbundle.operators import BlockDegrees, KernelMoments, Laplacian, ScalarDegrees
from tangentbundle.testing import (
    OperatorContract,
    assert_self_adjoint,
    random_signal,
    relative_error,
)

PETERSEN = (
    [(i, (i + 1) % 5) for i in range(5)]
    + [(i, i + 5) for i in range(5)]
    + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
)
STALKS = {
    "lines": (1, 1, 10),
    "planes": (2, 4, 10),
    "spaces": (3, 2, 10),
    "with an isolated vertex": (4, 4, 11),
}
"""Dimensions of vertex and edge stalks, and the number of vertices."""

NORMALIZATIONS = [None, ScalarDegrees(), ScalarDegrees(0.5), BlockDegrees(), BlockDegrees(0.5)]


def example(name="spaces", seed=0, dtype=torch.float64):
    """Edges ``(2, e)`` in either direction, Gaussian maps, weights, and the number of vertices."""
    rng = np.random.default_rng(seed)
    d, k, n = STALKS[name]
    edges = np.array([edge[:: rng.choice([-1, 1])] for edge in PETERSEN]).T
    maps, weights = rng.standard_normal((15, 2, k, d)), rng.uniform(0.2, 2.0, 15)
    return torch.from_numpy(edges), *(torch.from_numpy(a).to(dtype) for a in (maps, weights)), n


def laplacian_by_definition(edges, maps, weights, n):
    """Definition 12 of the paper with weights, block by block."""
    d = maps.shape[-1]
    matrix = np.zeros((n, d, n, d))
    for (u, v), (at_u, at_v), w in zip(
        edges.T.tolist(), maps.numpy(), weights.numpy(), strict=True
    ):
        for a, b, at_a, at_b in ((u, v, at_u, at_v), (v, u, at_v, at_u)):
            matrix[a, :, a] += w * at_a.T @ at_a
            matrix[a, :, b] -= w * at_a.T @ at_b
    return matrix.reshape(n * d, n * d)


def normalised(matrix, d, degrees):
    """N L N in NumPy, with the inverse root on the range of each block."""
    out = np.zeros_like(matrix)
    for i in range(0, len(matrix), d):
        block = matrix[i : i + d, i : i + d]
        if isinstance(degrees, ScalarDegrees):
            block = np.trace(block) / d * np.eye(d)
        values, vectors = np.linalg.eigh(block + degrees.shift * np.eye(d))
        inverse = np.where(values > 1e-9, values, np.inf) ** -0.5
        out[i : i + d, i : i + d] = (vectors * inverse) @ vectors.T
    return out @ matrix @ out


@pytest.mark.parametrize("degrees", NORMALIZATIONS, ids=repr)
@pytest.mark.parametrize("name", STALKS)
def test_laplacian_is_that_of_the_definition(name, degrees):
    edges, maps, weights, n = example(name)
    sheaf = tb.Sheaf.from_edges(edges, maps, weights, n)
    expected, d = laplacian_by_definition(edges, maps, weights, n), maps.shape[-1]
    delta = sheaf.coboundary()
    np.testing.assert_allclose((delta.T @ delta).toarray(), expected, atol=1e-12)
    lap = sheaf.laplacian(degrees)
    assert isinstance(lap, Laplacian) and lap.rank == d and "Laplacian" in repr(lap)
    expected = expected if degrees is None else normalised(expected, d, degrees)
    np.testing.assert_allclose(
        -lap.to_dense().numpy(), expected, atol=1e-12 * np.abs(expected).max()
    )
    np.testing.assert_allclose(
        -lap.to_scipy().toarray(), expected, atol=1e-12 * np.abs(expected).max()
    )
    values = lap.spectrum(lap.shape[0])[0].numpy()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(expected), atol=1e-9)
    assert values[-1] <= lap.spectral_interval[1] * (1 + 1e-12)
    if degrees is not None:
        assert lap.spectral_interval[1] == pytest.approx(degrees.bound(d))


@pytest.mark.parametrize("name", STALKS)
def test_coboundary_edge_by_edge(name):
    edges, maps, weights, n = example(name, seed=1)
    cochain = np.random.default_rng(0).standard_normal((n, maps.shape[-1]))
    differences = [
        np.sqrt(w) * (at_v @ cochain[v] - at_u @ cochain[u])
        for (u, v), (at_u, at_v), w in zip(
            edges.T.tolist(), maps.numpy(), weights.numpy(), strict=True
        )
    ]
    got = tb.Sheaf.from_edges(edges, maps, weights, n).coboundary() @ cochain.ravel()
    np.testing.assert_allclose(got, np.concatenate(differences), atol=1e-13)


def test_every_edge_counts_once():
    """Both directions, self loops and transports: which listing is read, and which vertices are
    left alone."""
    edges, maps, weights, _ = example("planes")
    expected = tb.Sheaf.from_edges(edges, maps, weights).laplacian().to_dense()
    loops = torch.arange(4).repeat(2, 1)
    doubled = torch.cat([loops, edges, edges.flip(0)], 1)
    rubbish, no_weight = torch.full_like(maps, 7.0), torch.full_like(weights, 3.0)
    maps, weights = (
        torch.cat([rubbish[:4], maps, rubbish]),
        torch.cat([no_weight[:4], weights, no_weight]),
    )
    sheaf = tb.Sheaf.from_edges(doubled, maps, weights)
    assert torch.equal(sheaf.graph.edges, edges.T) and torch.equal(
        sheaf.laplacian().to_dense(), expected
    )
    turns = torch.linalg.qr(maps[4:19, 0, :2])[0]
    ends = torch.stack([turns, torch.eye(2, dtype=torch.float64).expand(15, 2, 2)], 1)
    transports = tb.Sheaf.from_edges(edges, turns).laplacian().to_dense()
    assert torch.equal(transports, tb.Sheaf.from_edges(edges, ends).laplacian().to_dense())
    alone = tb.Sheaf.from_edges(torch.empty(2, 0, dtype=torch.int64), maps[:0], num_nodes=3)
    assert all(not alone.laplacian(degrees).to_dense().any() for degrees in NORMALIZATIONS)


def test_maps_change_and_the_graph_stays():
    edges, maps, weights, n = example("spaces")
    first, other = tb.Sheaf.from_edges(edges, maps, weights, n), 2 * maps.flip(0)
    second = tb.Sheaf(first.graph, other)
    assert second.graph is first.graph
    assert torch.equal(
        second.laplacian().to_dense(),
        tb.Sheaf.from_edges(edges, other, None, n).laplacian().to_dense(),
    )


@pytest.mark.parametrize("degrees", NORMALIZATIONS, ids=repr)
def test_bases_of_the_stalks_do_not_matter(degrees):
    """Orthogonal changes of basis of vertex and edge stalks turn the Laplacian with them."""
    edges, maps, weights, n = example("spaces")
    noise = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.linalg.qr(torch.randn(*shape, generator=noise, dtype=torch.float64))[0]

    at_vertices, at_edges = draw(n, 3, 3), draw(15, 1, 2, 2)
    turned = at_edges @ maps @ at_vertices[edges.T].mT
    x = torch.randn(n, 3, 2, generator=noise, dtype=torch.float64)
    one, two = (
        tb.Sheaf.from_edges(edges, m, weights, n).laplacian(degrees) for m in (maps, turned)
    )
    assert relative_error(two @ (at_vertices @ x), at_vertices @ (one @ x)) < 1e-12


def test_degrees_of_orthogonal_maps_are_numbers():
    edges, maps, weights, n = example("planes")
    sheaf = tb.Sheaf.from_edges(edges, torch.linalg.qr(maps[:, :, :2])[0], weights, n)
    dense = [sheaf.laplacian(degrees).to_dense() for degrees in (ScalarDegrees(), BlockDegrees())]
    assert relative_error(*dense) < 1e-12


@pytest.mark.parametrize("method", [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-11)], ids=repr)
@pytest.mark.parametrize("name", STALKS)
def test_filters_run_on_it(name, method):
    """Diffusion is the matrix exponential."""
    edges, maps, weights, n = example(name)
    x = np.random.default_rng(1).standard_normal((n, maps.shape[-1], 3))
    lap = tb.Sheaf.from_edges(edges.numpy(), maps.numpy(), weights.numpy(), n).laplacian()
    expected = expm(-0.2 * laplacian_by_definition(edges, maps, weights, n)) @ x.reshape(-1, 3)
    np.testing.assert_allclose(tb.Heat(0.2)(lap, x, method).reshape(-1, 3), expected, atol=1e-9)


def test_the_inner_product_of_sheaf_signals():
    """The mean over vertices of the products of vectors, in which the Laplacian is self-adjoint."""
    sheaf = tb.Sheaf.from_edges(*example("spaces"))
    lap = sheaf.laplacian()
    f, g = random_signal(lap, 1, seed=1), random_signal(lap, 1, seed=2)
    assert float(lap.inner(f, g)[0]) == pytest.approx(
        np.mean([float(f[i, :, 0] @ g[i, :, 0]) for i in range(10)])
    )
    energy = np.square(sheaf.coboundary() @ f.numpy().reshape(-1)).sum() / 10
    assert -float(lap.inner(f, lap @ f)[0]) == pytest.approx(energy)


class TestContract(OperatorContract):
    def make_operator(self):
        return tb.Sheaf.from_edges(*example("planes")).laplacian()

    def test_self_adjoint(self):
        assert_self_adjoint(self.make_operator())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kinds_of_arrays(dtype):
    edges, maps, weights, n = example("planes", dtype=dtype)
    lap = tb.Sheaf.from_edges(edges, maps, weights, n).laplacian(BlockDegrees())
    assert lap.dtype == dtype and isinstance(lap.spectrum(3)[0], torch.Tensor)
    assert isinstance(lap.to(dtype=torch.float32), Laplacian)
    plain = tb.Sheaf.from_edges(edges.tolist(), maps.numpy(), weights.tolist(), n).laplacian(
        BlockDegrees()
    )
    assert isinstance(plain.spectrum(3)[0], np.ndarray) and torch.equal(
        plain.average.values, lap.average.values
    )


def test_sections_are_the_kernel():
    """The constant sheaf's Laplacian is the graph Laplacian, whose kernel counts components."""
    lap = tb.Sheaf.from_edges([[0, 1, 3], [1, 2, 4]], np.ones((3, 2, 1, 1))).laplacian()
    graph = np.diag([1.0, 2, 1, 1, 1])
    for u, v in [(0, 1), (1, 2), (3, 4)]:
        graph[u, v] = graph[v, u] = -1
    np.testing.assert_allclose(-lap.to_dense().numpy(), graph, atol=1e-14)
    assert (lap.spectrum(5)[0] < 1e-12).sum() == 2


@pytest.mark.parametrize(
    "space, scalar",
    [
        (Sphere(1), False),
        (Sphere(2), False),
        (Sphere(3), False),
        (KleinBottle(4), False),
        (Sphere(2), True),
    ],
)
@pytest.mark.parametrize("calibrate", [True, False])
def test_the_bundle_is_an_orthogonal_sheaf(space, scalar, calibrate):
    """Its unnormalised Laplacian, normalised as in the paper, is the connection Laplacian."""
    bundle = tb.TangentBundle.from_points(space.sample(150, seed=0), dim=space.dim)
    bundle = bundle.scalar() if scalar else bundle
    sheaf, d = bundle.sheaf(), bundle.rank
    maps, weights = sheaf.maps.numpy(), sheaf.weights.numpy()
    np.testing.assert_allclose(
        maps.swapaxes(-1, -2) @ maps, np.broadcast_to(np.eye(d), maps.shape), atol=1e-12
    )
    i, j = sheaf.graph.edges.numpy().T
    w = np.zeros((150, 150))
    w[i, j] = w[j, i] = weights
    degree = w.sum(axis=1)
    mass = (w / degree / degree[:, None]).sum(axis=1)
    delta = sheaf.coboundary()
    transported = (
        np.kron(np.diag(degree), np.eye(d)) - (delta.T @ delta).toarray()
    )  # blocks w_ij O_ij
    scaled = np.repeat(1 / degree, d)
    average = scaled[:, None] * transported * scaled / np.repeat(mass, d)[:, None]
    c = bundle.weights.kernel.calibration(bundle.dim) if calibrate else 1.0
    expected = (average - np.eye(150 * d)) / (c * bundle.eps)
    got = (
        bundle.laplacian(calibrate=KernelMoments() if calibrate else False, terms=1)
        .to_dense()
        .numpy()
    )
    np.testing.assert_allclose(got, expected, atol=1e-12 / (c * bundle.eps))


GOOD = {"edge_index": [[0, 1], [1, 2]], "maps": np.ones((2, 2, 2, 2)), "weights": [1.0, 2.0]}


@pytest.mark.parametrize(
    "change, error, match",
    [
        (
            {"edge_index": [[0, 1, 2], [1, 2, 0], [1, 1, 1]]},
            ShapeError,
            r"edge_index must have shape \(2, e\)",
        ),
        ({"edge_index": [0, 1]}, ShapeError, "edge_index must have shape"),
        ({"edge_index": 3}, ShapeError, "edge_index must have shape"),
        ({"edge_index": [[0, 1], [1]]}, InvalidInputError, "edge_index must be an array"),
        (
            {"edge_index": torch.eye(2).to_sparse()},
            InvalidInputError,
            "edge_index must be a dense tensor",
        ),
        ({"edge_index": [[0, 1], [1, 2**62]]}, MemoryLimitError, "vertices"),
        ({"edge_index": [[0.0, 1.0], [1.0, 2.0]]}, InvalidInputError, "must hold integers"),
        ({"edge_index": [[0, 1], [1, -2]]}, InvalidInputError, "at least 0"),
        ({"edge_index": [[0, 0], [1, 1]]}, InvalidInputError, "twice in one direction"),
        ({"num_nodes": 2}, InvalidInputError, "vertices 0 to 1, got vertex 2"),
        ({"num_nodes": 0}, InvalidInputError, "num_nodes"),
        ({"num_nodes": 2.5}, InvalidInputError, "num_nodes"),
        ({"maps": np.ones((3, 2, 2, 2))}, ShapeError, r"each of 2 edges, got \(3, 2, 2, 2\)"),
        (
            {"maps": np.ones((2, 3, 2, 2))},
            ShapeError,
            r"\(2, 2, k, d\) or \(2, d, d\), got \(2, 3, 2, 2\)",
        ),
        ({"maps": np.ones((2, 2, 3))}, ShapeError, r"got \(2, 2, 3\)"),
        ({"maps": np.ones((2, 2, 2, 0))}, ShapeError, r"got \(2, 2, 2, 0\)"),
        ({"maps": 1.0}, ShapeError, "each of 2 edges"),
        ({"maps": np.full((2, 2, 2, 2), np.nan)}, NonFiniteError, "maps"),
        ({"maps": np.ones((2, 2, 2, 2), complex)}, DTypeError, "maps"),
        ({"maps": torch.full((2, 2, 2, 2), torch.inf)}, NonFiniteError, "maps"),
        ({"weights": [1.0]}, ShapeError, "weights must have an entry for each of 2"),
        ({"weights": [[1.0], [2.0]]}, ShapeError, r"weights of 2 edges must have shape \(2,\)"),
        ({"weights": [1.0, -1.0]}, InvalidInputError, "not be negative"),
        ({"weights": [1.0, np.inf]}, NonFiniteError, "weights"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, match):
    with pytest.raises(error, match=match):
        tb.Sheaf.from_edges(**(GOOD | change))


def test_bad_degrees_and_unsigned_edges():
    sheaf = tb.Sheaf.from_edges(**(GOOD | {"edge_index": np.array(GOOD["edge_index"], np.uint64)}))
    for degrees in ("block", BlockDegrees):
        with pytest.raises(InvalidInputError, match="such as BlockDegrees"):
            sheaf.laplacian(degrees)
    for shift in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="shift"):
            ScalarDegrees(shift)


def test_repr():
    assert repr(tb.Sheaf.from_edges(**GOOD)) == "Sheaf(3 vertices, 2 edges, stalks of dimension 2)"
