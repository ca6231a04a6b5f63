"""Networks on functions and fields: symmetries, the derivatives they are made of, gradients,
refusals."""

from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.testing import random_orthogonal, relative_error

SPACES = {1: tb.manifolds.Sphere(1), 2: tb.manifolds.Sphere(2), 3: tb.manifolds.Sphere(3)}


@cache
def bundle(dim, n=150):
    return tb.TangentBundle.from_points(torch.from_numpy(SPACES[dim].sample(n, seed=0)), dim=dim)


def network(**options):
    return nn.MixedTNN([2, 5, 1], [1, 4, 2], taps=2, step=0.02, **options).double()


@pytest.mark.parametrize("dim", SPACES)
def test_frames_and_rotations_do_not_matter(dim):
    base, net = bundle(dim), network()
    n = base.num_points
    turns = torch.from_numpy(random_orthogonal(n, dim, 1))
    rotation = torch.from_numpy(random_orthogonal(1, dim + 1, 2)[0])
    other = tb.TangentBundle.from_frames(
        base.points @ rotation.T, rotation @ base.frames @ turns, eps=base.eps
    )
    s, v = torch.randn(n, 1, 2).double(), torch.randn(n, dim, 1).double()
    (f, u), (g, w) = (
        net(s, x, nn.MixedOperators.of(b))
        for b, x in ((base, v), (other, turns.transpose(1, 2) @ v))
    )
    assert relative_error(g, f) < 1e-9
    assert relative_error(turns @ w, u) < 1e-9


def test_one_layer_is_its_formula():
    """All weights but one are zero: what is left is a divergence, a length, a gradient, a covariant
    derivative."""
    base = bundle(2, 400)
    operators, derivatives = nn.MixedOperators.of(base), tb.calculus.Derivatives(base)
    layer = nn.MixedTNN([1, 1], [1, 1], taps=1).double().layers[0]
    s, v = torch.randn(400, 1, 1).double(), torch.randn(400, 2, 1).double()
    slope = (derivatives.jacobian() @ v).reshape(400, 2, 2)
    expected = {
        ("functions", 0): s,
        ("functions", 1): derivatives.divergence() @ v,
        ("functions", 2): v.square().sum(dim=1, keepdim=True),
        ("fields", 0): v,
        ("fields", 1): derivatives.gradient() @ s,
        ("fields", 2): slope @ v,
    }
    for (name, column), answer in expected.items():
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.left.fill_(1.0)
            layer.right.fill_(1.0)
            getattr(layer, name).weight[0, column] = 1.0
        got = layer(s, v, operators)[0 if name == "functions" else 1]
        assert relative_error(got, answer) < 1e-12, (name, column)


def test_gradients():
    base, net = bundle(2, 30), network()
    operators = nn.MixedOperators.of(base)
    s, v = (
        torch.randn(30, 1, 2).double().requires_grad_(),
        torch.randn(30, 2, 1).double().requires_grad_(),
    )
    assert torch.autograd.gradcheck(lambda s, v: net(s, v, operators), (s, v), fast_mode=True)


def test_batches_and_no_functions():
    operators, net = (
        nn.MixedOperators.of(bundle(2)),
        nn.MixedTNN([0, 3, 1], [1, 2, 1], step=0.02).double(),
    )
    v = torch.randn(2, 3, 150, 2, 1).double()
    together = net(None, v, operators)
    single = net(None, v[1, 2], operators)
    assert all(relative_error(a[1, 2], b) < 1e-12 for a, b in zip(together, single, strict=True))
    half = nn.MixedTNN([0, 3, 1], [1, 2, 1], step=0.02)
    assert half(None, v.float(), operators.to(dtype=torch.float32))[1].dtype == torch.float32


def test_refusals():
    operators, net = nn.MixedOperators.of(bundle(2)), network()
    v = torch.zeros(150, 2, 1).double()
    for functions, fields in (
        ([1, 2], [1, 2, 3]),
        ([-1, 2], [1, 2]),
        ([0.5, 2], [1, 2]),
        (None, [1, 2]),
    ):
        with pytest.raises(tb.errors.InvalidInputError, match="same levels"):
            nn.MixedTNN(functions, fields)
    with pytest.raises(tb.errors.InvalidInputError, match="MixedOperators"):
        net(None, v, bundle(2).laplacian())
    with pytest.raises(tb.errors.ShapeError, match=r"1, 2\)"):
        net(None, v, operators)
    with pytest.raises(tb.errors.ShapeError):
        net(torch.zeros(3, 150, 1, 2).double(), v, operators)
    assert np.isfinite(net(torch.zeros(150, 1, 2).double(), v, operators)[1].detach().numpy()).all()
