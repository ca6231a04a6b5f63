"""Learned sheaves: gradients with respect to maps and weights, through products, filters and
networks."""

import numpy as np
import pytest
import torch
from stored import ROWS, along_curve, in_user_order
from torch.autograd import grad, gradcheck, gradgradcheck

import tangentbundle as tb
from tangentbundle.operators import BlockDegrees, ScalarDegrees, chebyshev
from tangentbundle.operators.product import add_outer, block_product, outer, reference_outer
from tangentbundle.operators.storage import BlockMatrix
from tangentbundle.testing import relative_error

EDGES, N = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 0]]), 5
"""A cycle with a chord; the last listing is the first edge once more, and vertex 4 has no edges."""

NORMALIZATIONS = [None, ScalarDegrees(), BlockDegrees(), BlockDegrees(1.0)]
METHODS = [None, tb.Chebyshev(1e-12), tb.Chebyshev(degree=60)]

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def inputs(d=2, k=2, orthogonal=False, channels=2):
    """Maps, weights and a signal to differentiate in."""
    noise = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=noise, dtype=torch.float64)  # noqa: E731
    maps = torch.linalg.qr(draw(6, 2, d, d))[0] if orthogonal else draw(6, 2, k, d)
    weights, x = draw(6).exp(), draw(N, d, channels)
    return tuple(t.requires_grad_() for t in (maps, weights, x))


def laplacian(maps, weights, degrees=None):
    return tb.Sheaf.from_edges(EDGES, maps, weights, N).laplacian(degrees)


def dense(maps, weights, degrees):
    """The same written out in plain torch; gradients of inverse roots by torch, for simple
    eigenvalues."""
    d, eye = maps.shape[-1], torch.eye(maps.shape[-1], dtype=torch.float64)
    rows = []
    for e in range(5):
        row = torch.zeros(maps.shape[2], N, d, dtype=torch.float64)
        row[:, EDGES[0, e]], row[:, EDGES[1, e]] = -maps[e, 0], maps[e, 1]
        rows.append(weights[e].sqrt() * row.flatten(1))
    delta = torch.cat(rows)
    matrix = delta.T @ delta
    if degrees is None:
        return matrix
    factors = []
    for i in range(0, 4 * d, d):
        block = matrix[i : i + d, i : i + d]
        if isinstance(degrees, ScalarDegrees):
            factors.append((block.trace() / d + degrees.shift).rsqrt() * eye)
        else:
            values, vectors = torch.linalg.eigh(block + degrees.shift * eye)
            factors.append((vectors * values.rsqrt()) @ vectors.T)
    factors.append(eye)  # the vertex without edges
    root = torch.block_diag(*factors)
    return root @ matrix @ root


@pytest.mark.parametrize("degrees", NORMALIZATIONS, ids=repr)
@pytest.mark.parametrize(
    "d, k, orthogonal", [(1, 1, False), (2, 3, False), (3, 2, False), (3, 3, True)]
)
def test_derivatives_of_products(d, k, orthogonal, degrees):
    """Of first and second order; orthogonal maps have blocks with equal eigenvalues, k < d singular
    ones."""
    if k < d and degrees == BlockDegrees():
        degrees = BlockDegrees(0.1)  # a singular block has a discontinuous inverse
    maps, weights, x = inputs(d, k, orthogonal)

    def run(m, w, x):
        return laplacian(m, w, degrees) @ x

    assert gradcheck(run, (maps, weights, x), fast_mode=True)
    assert gradgradcheck(run, (maps, weights, x), fast_mode=True)


def test_every_derivative_of_a_product():
    """Entry by entry, for one case of the above."""
    assert gradcheck(lambda m, w, x: laplacian(m, w, BlockDegrees(0.5)) @ x, inputs())
    assert gradgradcheck(lambda m, w, x: laplacian(m, w, BlockDegrees(0.5)) @ x, inputs(channels=1))


FILTERS = [tb.Heat(0.7), tb.FIR([0.5, -0.4, 0.3], 0.4)]


@pytest.mark.parametrize("degrees", NORMALIZATIONS[:3], ids=repr)
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_filters_against_a_dense_reference(method, degrees):
    """Values, and gradients in maps, weights and signals, by every method that has gradients in the
    operator."""
    maps, weights, x = inputs()
    lap, matrix = laplacian(maps, weights, degrees), dense(maps, weights, degrees)
    heat, step = torch.linalg.matrix_exp(-0.7 * matrix), torch.linalg.matrix_exp(-0.4 * matrix)
    fir = 0.5 * torch.eye(N * 2, dtype=torch.float64) - 0.4 * step + 0.3 * step @ step
    flat, shape = x.flatten(0, 1), x.shape
    expected = [
        (heat @ flat).reshape(shape),
        (fir @ flat).reshape(shape),
        ((heat + 2 * fir) @ flat).reshape(shape),
    ]
    got = [*lap.evaluate(FILTERS, x, method), lap.merge(FILTERS, [x, 2 * x], method)]
    for mine, theirs in zip(got, expected, strict=True):
        assert relative_error(mine, theirs) < 1e-9
        mine, theirs = (
            grad(y.sin().sum(), (maps, weights, x), retain_graph=True) for y in (mine, theirs)
        )
        assert all(relative_error(a, b) < 1e-8 for a, b in zip(mine, theirs, strict=True))


def test_derivatives_of_filters_of_first_and_second_order():
    """In maps, weights, signal, times and taps together; one by the bank, one by the merged
    bank."""
    t, h = (
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.4, [0.5, 0.2, -0.3])
    )

    def bank(m, w, x, t, h):
        lap = laplacian(m, w, ScalarDegrees())
        return lap.evaluate([tb.Heat(t), tb.FIR(h, t)], x, tb.Chebyshev(1e-13))[1]

    def merged(m, w, x, t, h):
        filters = [tb.Heat(t), tb.FIR(h, t)]
        lap = laplacian(m, w, ScalarDegrees())
        return lap.merge(filters, [x, x.sin()], tb.Chebyshev(1e-13))

    for function in (bank, merged):
        assert gradcheck(function, (*inputs(), t, h), fast_mode=True)
        assert gradgradcheck(function, (*inputs(), t, h), fast_mode=True)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_low_orders(order):
    """The expansion of a polynomial of degree one is that polynomial; of order zero it is a
    number."""
    maps, weights, x = inputs()
    y = tb.Polynomial([1.0, 0.5])(laplacian(maps, weights), x, tb.Chebyshev(degree=order))
    got = grad(y.square().sum(), (maps, weights), materialize_grads=True)
    reference = x - 0.5 * (dense(maps, weights, None) @ x.flatten(0, 1)).reshape(x.shape)
    expected = grad((reference if order else 0 * reference).square().sum(), (maps, weights))
    torch.testing.assert_close(got, expected)


def networks():
    return {
        "TNN": (lambda: tb.nn.TNN([2, 3, 1], step=0.3), lambda net, x, lap: net(x, lap)),
        "recurrent": (
            lambda: tb.nn.RecurrentTNN([2, 3, 2]),
            lambda net, x, lap: net(torch.stack([x, x / 2]), lap)[0],
        ),
        "gated": (
            lambda: tb.nn.GatedTNN([2, 3, 2]),
            lambda net, x, lap: net(torch.stack([x, x / 2]), lap)[0],
        ),
    }


@pytest.mark.parametrize("name", networks())
def test_networks_learn_sheaves(name):
    """Derivatives of a loss in maps and weights, against differences."""
    make, run = networks()[name]
    net = make().double()
    maps, weights, x = inputs()
    loss = lambda m, w: run(net, x.detach(), laplacian(m, w, ScalarDegrees())).square().sum()  # noqa: E731
    assert gradcheck(loss, (maps, weights), fast_mode=True, atol=1e-4)


def test_joined_sheaves():
    maps, weights, x = inputs()
    one, two = laplacian(maps, weights), laplacian(2 * maps, weights)
    both = tb.join([one, two])
    assert both.requires_grad and not laplacian(maps.detach(), weights.detach()).requires_grad
    y = tb.Heat(0.3)(both, torch.cat([x, x]))
    apart = torch.cat([tb.Heat(0.3)(one, x), tb.Heat(0.3)(two, x)])
    got, expected = (grad(z.square().sum(), (maps, x), retain_graph=True) for z in (y, apart))
    assert all(relative_error(a, b) < 1e-10 for a, b in zip(got, expected, strict=True))


def test_memory_does_not_grow_with_the_order():
    """What a filter saves for its backward pass are a few signals and the blocks, whatever the
    order."""
    maps, weights, x = inputs()
    sizes = []
    for order in (3, 60):
        lap, saved = laplacian(maps, weights), []
        pack = lambda t, saved=saved: (saved.append(t.numel()), t)[1]  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            a = torch.ones(1, order + 1, dtype=torch.float64)
            chebyshev.bank(*along_curve(lap), x, a, 0.5, 0.5, ROWS)
        sizes.append(sum(saved) - (order + 1))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d, channels", [(1, 1), (2, 7), (3, 20), (5, 33)])
def test_the_compiled_kernel_equals_its_reference(d, channels, dtype):
    rng = np.random.default_rng(d)
    degrees = rng.integers(0, 6, 700)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(degrees)]))
    cols = torch.from_numpy(rng.integers(0, 700, degrees.sum()).astype(np.int32))
    order = torch.from_numpy(rng.permutation(700).astype(np.int32))
    y, x = (torch.from_numpy(rng.standard_normal((700, d, channels))).to(dtype) for _ in range(2))
    out = torch.from_numpy(rng.standard_normal((len(cols), d, d))).to(dtype)
    expected, matrix = out.clone(), BlockMatrix(indptr, cols, out, order)
    add_outer(matrix, y, x, -1 / 3, out)
    reference_outer(matrix, y, x, -1 / 3, expected)
    assert relative_error(out, expected) < (1e-5 if dtype == torch.float32 else 1e-13)


def test_operators_for_the_compiler():
    """Shapes on fake tensors, and derivatives as registered; then a layer that learns its maps,
    compiled."""
    maps, weights, x = inputs()
    matrix = along_curve(laplacian(maps.detach(), weights.detach()))
    y, a = torch.stack([x, 2 * x]).detach(), torch.rand(2, 4, dtype=torch.float64)
    utilities = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(
        outer.operator, (*matrix, x.detach(), x.detach(), 0.5), test_utils=utilities
    )
    torch.library.opcheck(
        chebyshev.sensitivity.operator,
        (*matrix, x.detach(), y, a, 0.5, 0.5, True),
        test_utils=utilities,
    )
    graph = tb.Sheaf.from_edges(EDGES, maps, weights, N).graph

    def layer(maps, x):
        return tb.Sheaf(graph, maps).laplacian(ScalarDegrees()).apply(x).square().sum()

    some = maps.detach()[:5].requires_grad_()
    expected, got = (
        grad(f(some, x), (some, x)) for f in (layer, torch.compile(layer, backend="aot_eager"))
    )
    assert all(relative_error(a, b) < 1e-12 for a, b in zip(got, expected, strict=True))


def test_operators_that_do_not_learn_save_no_signal():
    maps, weights, x = inputs()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        lap = laplacian(maps.detach(), weights.detach())
        block_product(*in_user_order(lap), x, 1.0, 0.0, ROWS)
    assert not any(t.shape == x.shape for t in saved)
