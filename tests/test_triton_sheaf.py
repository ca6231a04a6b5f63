"""The Triton kernels for learned sheaves against their readable twins, in Triton's interpreter (see
test_triton.py)."""

import pytest
import torch
from pairwise import all_pairs
from test_triton import TOLERANCE, as_on_a_gpu, interpreted, random_matrix

import tangentbundle as tb
from tangentbundle.operators import ScalarDegrees
from tangentbundle.operators.product import Extras, reference_outer, reference_step
from tangentbundle.operators.storage import BlockMatrix
from tangentbundle.testing import relative_error


def blocks(d, dtype, n=13):
    """A matrix with rows of very different length, some empty, full blocks for d = 2, too, and rows
    in any order."""
    matrix, order = (
        random_matrix(d, dtype, n),
        torch.randperm(n, generator=torch.Generator().manual_seed(d)).int(),
    )
    return BlockMatrix(matrix.indptr, matrix.columns().int(), matrix.blocks().contiguous(), order)


def signals(count, d, channels, dtype, n=13):
    noise = torch.Generator().manual_seed(channels)
    return [torch.randn(n, d, channels, generator=noise, dtype=dtype) for _ in range(count)]


SIZES = [1, 2, 3, 5], [1, 3, 33], [torch.float32, torch.float64]


@interpreted
@pytest.mark.parametrize("d, channels, dtype, extra", all_pairs(*SIZES, [0, 2]), ids=str)
def test_step_equals_the_reference(d, channels, dtype, extra):
    from tangentbundle.operators.csr_cuda import csr_step

    matrix = blocks(d, dtype)
    x, z, *more = signals(2 + 2 * extra, d, channels, dtype)
    weights = torch.tensor([0.3, -1.2], dtype=dtype)
    extras = [Extras(torch.stack(more[k : k + 2]), weights) for k in (0, 2) if extra]
    mine = [Extras(e.signals.clone(), e.coefficients) for e in extras]
    got, expected, scalars = (
        torch.full_like(x, torch.nan),
        torch.empty_like(x),
        (1 / 3, -0.7, 2 / 3 * extra),
    )
    csr_step(matrix, x, z, got, scalars, *mine)
    reference_step(matrix, x, z, expected, scalars, *extras)
    assert relative_error(got, expected) < TOLERANCE[dtype]
    if extra:
        assert relative_error(mine[1].signals, extras[1].signals) < TOLERANCE[dtype]


@interpreted
@pytest.mark.parametrize("d, channels, dtype", all_pairs(*SIZES), ids=str)
def test_outer_equals_the_reference(d, channels, dtype):
    from tangentbundle.operators.csr_cuda import csr_outer

    matrix = blocks(d, dtype)
    y, x = signals(2, d, channels, dtype)
    got, expected = torch.ones_like(matrix.values), torch.ones_like(matrix.values)
    csr_outer(matrix, y, x, 1 / 3, got)
    reference_outer(matrix, y, x, 1 / 3, expected)
    assert relative_error(got, expected) < TOLERANCE[dtype]


@interpreted
def test_the_whole_path_equals_the_cpu_path(monkeypatch):
    """Products, filters, and gradients in maps, weights and signals."""
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    (x,) = signals(1, 3, 4, torch.float64, n=9)
    maps = torch.randn(9, 2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights, leaves = torch.linspace(0.5, 2.0, 9, dtype=torch.float64), []

    def results():
        leaves[:] = [t.clone().requires_grad_() for t in (maps, weights, x)]
        lap = tb.Sheaf.from_edges(ring, leaves[0], leaves[1]).laplacian(ScalarDegrees())
        outputs = lap @ leaves[2], tb.Heat(0.5)(lap, leaves[2], tb.Chebyshev(degree=5))
        return [*outputs, *torch.autograd.grad(sum(y.sin().sum() for y in outputs), leaves)]

    expected = results()
    as_on_a_gpu(monkeypatch)
    assert all(relative_error(a, b) < 1e-11 for a, b in zip(results(), expected, strict=True))


@interpreted
def test_gradients_of_points_equal_those_of_the_cpu(monkeypatch):
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(24, seed=0))
    field, found = torch.linspace(0, 1, 72, dtype=torch.float64).reshape(24, 3), []
    for on_a_gpu in (False, True):
        if on_a_gpu:
            as_on_a_gpu(monkeypatch)
        x = points.clone().requires_grad_()
        bundle = tb.TangentBundle.from_points(x, dim=2, neighbors=10)
        lap, signal = bundle.laplacian(), bundle.to_coordinates(field)
        heat = tb.Heat(0.1)(lap, signal, tb.Chebyshev(degree=3))
        (
            bundle.to_ambient(lap @ signal).square().sum() + bundle.to_ambient(heat).square().sum()
        ).backward()
        found.append(x.grad)
    assert relative_error(*found) < 1e-10
