"""Graph Laplacians with the usual normalizations, against plain NumPy; the same contract as every
operator."""

from functools import cache

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, MemoryLimitError
from tangentbundle.operators import Identity, Negated, RandomWalk, Symmetric, Unnormalized
from tangentbundle.testing import OperatorContract, random_signal, relative_error

NORMALIZATIONS = (RandomWalk(), Symmetric(), Unnormalized())
KINDS = ("functions", "fields", "fields in R^4")


@cache
def bundle(kind, dtype=torch.float64):
    space = tb.manifolds.Sphere(3 if kind.endswith("4") else 2)
    points = torch.from_numpy(space.sample_nonuniform(90, 5.0, seed=0)).to(dtype)
    found = tb.TangentBundle.from_points(points, dim=space.dim)
    return found.scalar() if kind == "functions" else found


def by_hand(kind, normalization):
    """Minus the graph Laplacian as a dense matrix, and the mass in which it is self-adjoint."""
    space = bundle(kind)
    n, d = space.num_points, space.rank
    distances = space.graph.to_scipy().toarray()
    weights = np.where(distances > 0, np.exp(-(distances**2) / space.eps), 0.0)
    degree = weights.sum(axis=1)
    blocks = np.ones((n, n, 1, 1))
    if d > 1:
        frames = space.frames.numpy()
        u, _, vt = np.linalg.svd(np.einsum("iDa,jDb->ijab", frames, frames))
        blocks = u @ vt
    S = (weights[:, :, None, None] * blocks).transpose(0, 2, 1, 3).reshape(n * d, n * d)
    D, eye = np.diag(degree.repeat(d)), np.eye(n * d)
    root = np.diag(degree.repeat(d) ** -0.5)
    return {
        RandomWalk(): (np.linalg.inv(D) @ S - eye, degree / degree.sum()),
        Symmetric(): (root @ S @ root - eye, np.full(n, 1 / n)),
        Unnormalized(): (S - D, np.full(n, 1 / n)),
    }[normalization]


@pytest.mark.parametrize("normalization", NORMALIZATIONS, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
class TestGraphLaplacian(OperatorContract):
    @pytest.fixture(autouse=True)
    def _choose(self, kind, normalization):
        self.kind, self.normalization = kind, normalization

    def make_operator(self, dtype=torch.float64):
        return bundle(self.kind, dtype).graph_laplacian(self.normalization)

    def test_is_the_matrix_of_the_textbook(self):
        matrix, mass = by_hand(self.kind, self.normalization)
        lap, scale = self.make_operator(), np.abs(matrix).max()
        np.testing.assert_allclose(lap.to_dense(), matrix, atol=1e-12 * scale)
        np.testing.assert_allclose(lap.to_scipy().toarray(), matrix, atol=1e-12 * scale)
        np.testing.assert_allclose(lap.mass, mass, rtol=1e-12)
        single = self.make_operator(torch.float32)
        np.testing.assert_allclose(single.to_dense(), matrix, atol=1e-4 * scale)

    def test_spectrum_filters_and_networks(self):
        matrix, mass = by_hand(self.kind, self.normalization)
        lap = self.make_operator()
        root = np.sqrt(mass).repeat(lap.rank)
        values = np.linalg.eigvalsh(-matrix * root[:, None] / root)
        np.testing.assert_allclose(
            lap.spectrum(9)[0], np.maximum(values[:9], 0), atol=1e-9 * values[-1]
        )
        assert lap.spectral_interval[1] >= values[-1] * (1 - 1e-12)
        x, t = random_signal(lap), 3.0 / values[-1]
        expected = (expm(t * matrix) @ x.numpy().reshape(len(matrix), -1)).reshape(x.shape)
        for method in (tb.Exact(), tb.Dense(), tb.Chebyshev(1e-11)):
            assert (
                relative_error(tb.Heat(t)(lap, x, method=method), torch.from_numpy(expected)) < 1e-9
            ), method
        conv = tb.nn.BundleConv(2, 2, taps=2, step=t).double()
        with torch.no_grad():
            conv.weight[:] = torch.eye(2)
        assert relative_error(conv(x, lap), x + torch.from_numpy(expected)) < 1e-9

    def test_joins_with_others(self):
        parts = self.make_operator(), bundle(self.kind).laplacian()
        joined = tb.join(parts)
        x = random_signal(joined)
        expected = torch.cat(
            [tb.Heat(0.2)(p, y) for p, y in zip(parts, joined.split(x), strict=True)]
        )
        for method in (tb.Exact(), tb.Chebyshev(1e-11)):
            assert relative_error(tb.Heat(0.2)(joined, x, method=method), expected) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
class TestNegated(OperatorContract):
    @pytest.fixture(autouse=True)
    def _choose(self, kind):
        self.kind = kind

    def make_operator(self):
        return Negated(bundle(self.kind).graph_laplacian(Symmetric()))

    def test_exponentials_grow(self):
        matrix, _ = by_hand(self.kind, Symmetric())
        operator = self.make_operator()
        x = torch.stack([random_signal(operator, seed=s) for s in range(3)])
        growth = torch.from_numpy(expm(-0.7 * matrix))
        expected = torch.stack([(growth @ y.flatten(0, 1)).reshape(y.shape) for y in x])
        for method in (None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-13)):
            assert relative_error(tb.Heat(0.7)(operator, x, method=method), expected) < 1e-9
        nets = tb.training.Replicas(lambda seed: tb.nn.TNN([2, 3, 2], seed=seed).double(), count=3)
        assert (
            relative_error(
                nets(x, operator), torch.stack([nets[r](x[r], operator) for r in range(3)])
            )
            < 1e-9
        )


def test_what_is_refused():
    for bad in (None, "symmetric", Symmetric):
        with pytest.raises(InvalidInputError, match=r"operators.Symmetric\(\)"):
            bundle("functions").graph_laplacian(bad)
    negated = Negated(Identity.of(6000))
    with pytest.raises(MemoryLimitError, match="too large"):
        tb.Heat(1.0)(negated, random_signal(negated), method=tb.Exact())
    x = random_signal(negated)
    assert relative_error(tb.Heat(1.0)(negated, x), x) < 1e-6
