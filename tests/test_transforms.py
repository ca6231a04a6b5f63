"""Operators and filters inside ``torch.func`` and forward-mode differentiation, against their dense
matrices."""

import warnings
from functools import cache

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import KleinBottle, Sphere
from tangentbundle.testing import random_signal, relative_error

pytestmark = pytest.mark.usefixtures("one_torch_thread")

CLOUDS = {
    "circle": (Sphere(1), 16, 1),
    "sphere": (Sphere(2), 20, 2),
    "three-sphere": (Sphere(3), 18, 1),
    "Klein bottle": (KleinBottle(4), 30, 1),
}


@cache
def bundle(name):
    space, n, _ = CLOUDS[name]
    points = torch.from_numpy(space.sample(n, seed=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few points have no small neighbourhoods
        return tb.TangentBundle.from_points(
            points, dim=space.dim, neighbors=8 if space.dim > 1 else 4
        )


@cache
def sheaf_laplacian():
    index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(6, 2, 3, 2, generator=generator, dtype=torch.float64)
    return tb.Sheaf.from_edges(index, maps).laplacian()


OPERATORS = {
    **{name: lambda name=name: bundle(name).laplacian(terms=CLOUDS[name][2]) for name in CLOUDS},
    "functions": lambda: bundle("sphere").scalar().laplacian(),
    "sheaf": sheaf_laplacian,
    "joined": lambda: tb.join([bundle("sphere").laplacian(), bundle("sphere").laplacian(terms=1)]),
    "gradient of functions": lambda: tb.calculus.Derivatives(
        bundle("sphere"), degree=2, neighbors=12
    ).gradient(),
}

MAPS = {
    "product": lambda lap: lambda x: lap @ x,
    "Chebyshev": lambda lap: lambda x: tb.Heat(0.1)(lap, x, tb.Chebyshev(1e-12)),
    "fixed order": lambda lap: (
        lambda x: tb.FIR([0.1, 0.4, 0.5], 0.05)(lap, x, tb.Chebyshev(degree=9))
    ),
    "exact": lambda lap: lambda x: tb.Tikhonov(0.1)(lap, x, tb.Exact()),
    "dense": lambda lap: lambda x: tb.Heat(0.1)(lap, x, tb.Dense()),
    "merged bank": lambda lap: (
        lambda x: lap.merge([tb.Heat(0.1), tb.Tikhonov(0.2)], [x, 2 * x], tb.Chebyshev(1e-12))
    ),
}
"""Linear maps of signals, by an operator."""


def domain_of(operator):
    return operator.num_points, operator.in_rank


def matrix_of(run, operator):
    n, d = domain_of(operator)
    unit = torch.eye(n * d, dtype=torch.float64).reshape(n, d, n * d)
    with warnings.catch_warnings():
        # nothing but rounding reaches other components of the graph
        warnings.simplefilter("ignore", tb.errors.AccuracyWarning)
        return run(unit).reshape(-1, n * d)


CASES = [
    (operator, kind)
    for operator in OPERATORS
    for kind in MAPS
    if operator != "gradient of functions"
]


@pytest.mark.parametrize("name, kind", [*CASES, ("gradient of functions", "product")])
def test_transforms_of_linear_maps(name, kind):
    """The operator is new, so that the first thing it computes and caches is inside a transform."""
    lap = OPERATORS[name]()
    run = MAPS[kind](lap)
    n, d = domain_of(lap)
    generator = torch.Generator().manual_seed(1)
    x, direction = torch.randn(2, n, d, 1, generator=generator, dtype=torch.float64)

    def energy(x):
        return run(x).square().sum()

    first = grad(energy)(x)
    matrix = matrix_of(run, lap)
    squared = 2 * matrix.T @ matrix
    assert relative_error(first.flatten(), squared @ x.flatten()) < 1e-10
    assert relative_error(jacrev(run)(x).reshape(matrix.shape), matrix) < 1e-10
    assert relative_error(jacfwd(run)(x).reshape(matrix.shape), matrix) < 1e-10
    value, tangent = jvp(run, (x,), (direction,))
    assert relative_error(value, run(x)) < 1e-12 and relative_error(tangent, run(direction)) < 1e-10
    value, pull = vjp(run, x)
    assert relative_error(pull(value)[0].flatten(), matrix.T @ matrix @ x.flatten()) < 1e-10
    both = torch.stack([x, direction])
    assert relative_error(vmap(run)(both), torch.stack([run(x), run(direction)])) < 1e-12
    expected = both.flatten(1) @ squared
    assert relative_error(vmap(grad(energy))(both).flatten(1), expected) < 1e-10
    assert relative_error(hessian(energy)(x).reshape(squared.shape), squared) < 1e-10
    with forward_ad.dual_level():
        output = run(forward_ad.make_dual(x, direction))
        assert relative_error(forward_ad.unpack_dual(output).tangent, run(direction)) < 1e-10


LEARNED = {
    "Heat": (0.1, lambda t: tb.Heat(t)),
    "FIR": (0.1, lambda t: tb.FIR(torch.stack([t, 2 * t, 1 - t]), t)),
    "Tikhonov": (0.3, lambda t: tb.Tikhonov(t)),
    "Polynomial": (0.3, lambda t: tb.Polynomial(torch.stack([t, t * t]))),
    "Composition": (0.1, lambda t: t * (tb.Heat(t) @ tb.Tikhonov(2 * t)) - tb.Heat(t)),
    "Spectral": (0.3, lambda t: tb.Spectral(lambda lam: 1 / (1 + t * lam) ** 2, tensors=(t,))),
}


@pytest.mark.parametrize(
    "method", [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-12), tb.Chebyshev(degree=30)], ids=str
)
@pytest.mark.parametrize("name", LEARNED)
def test_transforms_of_parameters(name, method):
    """First and second derivatives, forward and backward, against differences of the exact
    answer."""
    value, make = LEARNED[name]
    lap = bundle("sphere").laplacian()
    x, y = random_signal(lap, seed=1), random_signal(lap, seed=2)

    def value_of(t):
        return lap.inner(y, make(t)(lap, x, method)).sum()

    def exact(t):
        return float(
            lap.inner(y, make(torch.tensor(t, dtype=torch.float64))(lap, x, tb.Exact())).sum()
        )

    t, one, step = (
        torch.tensor(value, dtype=torch.float64),
        torch.tensor(1.0, dtype=torch.float64),
        1e-3,
    )
    ends = [exact(value + k * step) for k in (-2, -1, 0, 1, 2)]
    slope = (ends[0] - 8 * ends[1] + 8 * ends[3] - ends[4]) / (12 * step)
    curvature = (-ends[0] + 16 * ends[1] - 30 * ends[2] + 16 * ends[3] - ends[4]) / (12 * step**2)
    scale = abs(slope) + 1e-3
    firsts = [
        grad(value_of)(t),
        jvp(value_of, (t,), (one,))[1],
        jacrev(value_of)(t),
        jacfwd(value_of)(t),
    ]
    for first in firsts:
        assert float(first) == pytest.approx(slope, abs=1e-5 * scale)
    seconds = [grad(grad(value_of))(t), hessian(value_of)(t), jvp(grad(value_of), (t,), (one,))[1]]
    for second in seconds:
        assert float(second) == pytest.approx(curvature, abs=1e-3 * (abs(curvature) + scale))
    assert float(value_of(t)) == pytest.approx(
        ends[2], rel=1e-8
    )  # no cache holds what was made in a transform
    with forward_ad.dual_level():
        assert float(
            forward_ad.unpack_dual(value_of(forward_ad.make_dual(t, one))).tangent
        ) == pytest.approx(slope, abs=1e-5 * scale)
    assert float(value_of(t)) == pytest.approx(ends[2], rel=1e-8)


@pytest.mark.filterwarnings(
    "ignore:There is a performance drop"
)  # of torch, for sums over segments
def test_transforms_of_moving_points():
    points = torch.from_numpy(Sphere(2).sample(24, seed=0))
    fixed = tb.TangentBundle.from_points(points, dim=2, neighbors=12)
    field = torch.linspace(-1, 1, 72, dtype=torch.float64).reshape(24, 3)

    def energy(points, method=None):
        moving = fixed.moved(points)
        lap, x = moving.laplacian(), moving.to_coordinates(field)
        y = lap @ x if method is None else tb.Heat(0.1)(lap, x, method)
        return lap.inner(x, y).sum() + moving.to_ambient(y).square().sum()

    for method in (None, tb.Chebyshev(1e-12)):
        leaf = points.clone().requires_grad_()
        (expected,) = torch.autograd.grad(energy(leaf, method), leaf)
        assert relative_error(grad(energy)(points, method), expected) < 1e-10
        assert relative_error(jacrev(energy)(points, method), expected) < 1e-10
        value, pull = vjp(lambda p: energy(p, method), points)  # noqa: B023
        assert relative_error(pull(torch.ones_like(value))[0], expected) < 1e-10


def test_forward_mode_through_operators_that_learn_is_right_or_refused():
    """Through products it is right; through filters it is refused by name."""
    index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    generator = torch.Generator().manual_seed(0)
    maps, tangent = torch.randn(2, 4, 2, 2, 2, generator=generator, dtype=torch.float64)
    x = torch.randn(4, 2, 1, generator=generator, dtype=torch.float64)

    sheaf, degrees = tb.Sheaf.from_edges(index, maps), tb.operators.ScalarDegrees()

    def product(maps):
        return tb.Sheaf(sheaf.graph, maps).laplacian(degrees) @ x

    expected = torch.autograd.functional.jvp(product, maps, tangent)[1]
    assert relative_error(jvp(product, (maps,), (tangent,))[1], expected) < 1e-10
    with pytest.raises(InvalidInputError, match="Use backward mode"):
        jvp(
            lambda m: tb.Heat(0.3)(
                tb.Sheaf(sheaf.graph, m).laplacian(degrees), x, tb.Chebyshev(1e-12)
            ),
            (maps,),
            (tangent,),
        )


def test_jacobians_of_networks():
    lap = bundle("sphere").laplacian()
    for method in (tb.Chebyshev(1e-12), tb.Dense()):
        net = tb.nn.TNN([1, 3, 1], step=0.05, method=method).double()
        x = random_signal(lap, channels=1)
        expected = torch.autograd.functional.jacobian(lambda x: net(x, lap), x)  # noqa: B023
        assert relative_error(jacrev(net)(x, lap), expected) < 1e-10
        assert relative_error(jacfwd(net)(x, lap), expected) < 1e-10
