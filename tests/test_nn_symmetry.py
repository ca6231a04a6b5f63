"""What networks respect: changes of frames, rotations of space, the order of the points; and what
they do not."""

from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.manifolds import KleinBottle, Sphere
from tangentbundle.testing import (
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    random_orthogonal,
    random_signal,
    relative_error,
)

SPACES = {1: (Sphere(1), 60), 2: (Sphere(2), 80), 3: (Sphere(3), 60)}
TOLERANCE = 1e-10


@cache
def bundle(dim):
    space, n = SPACES[dim]
    return tb.TangentBundle.from_points(torch.from_numpy(space.sample(n, seed=0)), dim=dim)


@cache
def turned(dim, seed=5):
    """The same bundle after a random element of O(d) at every point."""
    base = bundle(dim)
    turns = torch.from_numpy(random_orthogonal(base.num_points, dim, seed))
    return tb.TangentBundle.from_frames(
        base.points, base.frames @ turns, eps=base.eps, kernel=base.weights.kernel
    )


def step(dim):
    return 3 * bundle(dim).laplacian().scale


def shuffled(net, seed=3):
    """All parameters random, those too that start at zero or one."""
    source = torch.Generator().manual_seed(seed)
    net = net.double()
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim < 3:
                p.copy_(torch.randn(p.shape, generator=source, dtype=p.dtype))
            else:
                p.mul_(2.0)  # strong enough to bend
    return net


def networks(dim):
    s = step(dim)
    return {
        "NormTanh": nn.TNN([2, 4, 3, 2], taps=3, step=s),
        "output": nn.TNN([2, 4, 2], taps=2, step=s, output=nn.NormTanh()),
        "AmbientThenProject": nn.TNN([2, 4, 2], step=s, activation=nn.AmbientThenProject()),
        "learned times": nn.TNN(
            [2, 3, 2], filters=[tb.Heat(0.0), tb.Heat(torch.nn.Parameter(torch.tensor(s)))]
        ),
        "sparse": nn.TNN([2, 4, 2], taps=3, step=s, method=tb.Chebyshev(1e-13)),
    }


@pytest.mark.parametrize("dim", SPACES)
@pytest.mark.parametrize("name", networks(1))
def test_networks_of_norms_do_not_see_frames(name, dim):
    net = shuffled(networks(dim)[name])
    assert_gauge_equivariant(lambda lap, x: net(x, lap), bundle(dim), tol=TOLERANCE)
    if name != "AmbientThenProject":
        assert_rotation_equivariant(lambda lap, x: net(x, lap), bundle(dim), tol=TOLERANCE)
    x = random_signal(bundle(dim).laplacian())
    linear = sum(net(c * x, bundle(dim).laplacian()) for c in (2.0, -1.0)) - net(
        x, bundle(dim).laplacian()
    )
    assert float(linear.detach().norm()) > 1e-3  # and they are not linear: the test says something


@pytest.mark.parametrize("dim", SPACES)
def test_recurrent_networks_do_not_see_frames(dim):
    s = step(dim)
    for net in (
        nn.RecurrentTNN([1, 3, 2], step=s, activation=nn.NormTanh()),
        nn.GatedTNN([1, 3, 2, 1], step=s),
    ):
        net = shuffled(net)

        def run(lap, x, net=net):
            sequence = torch.stack([(t + 1) * x[..., t : t + 1] for t in (0, 1, 0, 1)])
            outputs, states = net(sequence, lap)
            return torch.cat([*outputs, *states], dim=-1)

        assert_gauge_equivariant(run, bundle(dim), tol=TOLERANCE)
        assert_rotation_equivariant(run, bundle(dim), tol=TOLERANCE)


POOLINGS = {
    "mean": nn.MeanPooling(),
    "attention": nn.AttentionPooling(heads=2),
    "none": nn.NoPooling(),
}


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("dim", SPACES)
def test_readouts_are_invariant(dim, pooling):
    """Numbers do not change with the frames, nor with a rotation of space; pooled ones nor with the
    points' order."""
    base, other = bundle(dim), turned(dim)
    pool = pooling != "none"
    readout = nn.InvariantReadout(4, 3, pooling=POOLINGS[pooling])
    net = shuffled(nn.TNN([2, 4], step=step(dim), output=nn.NormTanh(), readout=readout))
    x = random_signal(base.laplacian())
    ambient = base.to_ambient(x)
    expected = net(x, base.laplacian())
    assert expected.shape == ((1, 3) if pool else (base.num_points, 3))
    assert (
        relative_error(net(other.to_coordinates(ambient), other.laplacian()), expected) < TOLERANCE
    )
    mix = torch.from_numpy(np.random.default_rng(0).permutation(base.num_points))
    mixed = tb.TangentBundle.from_frames(
        base.points[mix], base.frames[mix], eps=base.eps, kernel=base.weights.kernel
    )
    got = net(mixed.to_coordinates(ambient[mix]), mixed.laplacian())
    assert relative_error(got, expected if pool else expected[mix]) < TOLERANCE
    assert relative_error(net(2 * x, base.laplacian()), expected) > 1e-3


def test_without_pooling_each_point_has_its_gram_matrix():
    """By hand: the same perceptron on the inner products of ambient vectors."""
    base = bundle(3)
    readout = shuffled(nn.InvariantReadout(3, 2, hidden=5, pooling=nn.NoPooling()))
    x = random_signal(base.laplacian(), channels=3)
    vectors = base.to_ambient(x)
    pairs = [(vectors[..., a] * vectors[..., b]).sum(-1) for a in range(3) for b in range(a, 3)]
    hidden = torch.relu(torch.stack(pairs, -1) @ readout.first.weight.T + readout.first.bias)
    expected = hidden @ readout.second.weight.T + readout.second.bias
    assert relative_error(readout(x, base.laplacian()), expected) < 1e-12


# Activations one by one: both claims of each, in both directions.

ACTIVATIONS = {
    "NoActivation": nn.NoActivation(),
    "NormTanh": nn.NormTanh(),
    "AmbientThenProject tanh": nn.AmbientThenProject(torch.tanh),
    "AmbientThenProject relu": nn.AmbientThenProject(torch.relu),
    "Coordinatewise tanh": nn.Coordinatewise(torch.tanh),
    "Coordinatewise relu": nn.Coordinatewise(torch.relu),
}


def claim(activation, name):
    return getattr(activation, name, True)  # biases make no claim: they respect everything


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_claims_about_frames(name, dim):
    act = ACTIVATIONS[name]
    if claim(act, "gauge_equivariant"):
        assert_gauge_equivariant(lambda lap, x: act(x, lap), bundle(dim), tol=1e-13)
    else:
        with pytest.raises(AssertionError, match="not equivariant under change of frames"):
            assert_gauge_equivariant(lambda lap, x: act(x, lap), bundle(dim), tol=0.05)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_claims_about_rotations(name, dim):
    act = ACTIVATIONS[name]
    if claim(act, "rotation_equivariant"):
        assert_rotation_equivariant(lambda lap, x: act(x, lap), bundle(dim), tol=1e-13)
    else:
        with pytest.raises(AssertionError, match="not equivariant under rotation of space"):
            assert_rotation_equivariant(lambda lap, x: act(x, lap), bundle(dim), tol=0.01)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_on_a_line_odd_functions_respect_signs(name):
    """Changes of frames in rank one are signs: tanh commutes with them, relu does not."""
    act = ACTIVATIONS[name]
    if name == "Coordinatewise relu":
        with pytest.raises(AssertionError, match="change of frames"):
            assert_gauge_equivariant(lambda lap, x: act(x, lap), bundle(1), tol=0.1)
    else:
        assert_gauge_equivariant(lambda lap, x: act(x, lap), bundle(1), tol=1e-13)


def frame_dependence(dim, function=torch.tanh, amplitude=1.0):
    """Relative difference of a network's ambient outputs between two choices of frames."""
    net = nn.TNN(
        [1, 8, 4, 1], step=step(dim), activation=nn.Coordinatewise(function), seed=0
    ).double()
    base, other = bundle(dim), turned(dim)
    x = amplitude * random_signal(base.laplacian(), channels=1)
    expected = base.to_ambient(net(x, base.laplacian()))
    got = other.to_ambient(net(other.to_coordinates(base.to_ambient(x)), other.laplacian()))
    return relative_error(got, expected)


@pytest.mark.parametrize("dim", SPACES)
def test_coordinatewise_relu_sees_frames(dim):
    assert frame_dependence(dim, torch.relu) > 0.3


@pytest.mark.parametrize("dim", [2, 3])
def test_coordinatewise_tanh_sees_frames_the_more_the_larger_the_field(dim, record_property):
    """The paper's network: 12 % (d = 2) and 21 % (d = 3) for unit fields, more for large, nothing
    for small ones."""
    small, unit, large = (frame_dependence(dim, amplitude=a) for a in (1e-3, 1.0, 5.0))
    print(
        f"frame dependence of coordinatewise tanh, d = {dim}: {small:.1e}, {unit:.3f}, {large:.3f}"
    )
    record_property("frame dependence", unit)
    assert small < 1e-6  # tanh is linear there
    assert unit > 0.05 and large > 0.2 and large > unit


def test_coordinatewise_tanh_on_a_line_is_fine():
    assert frame_dependence(1, torch.tanh) < 1e-12


def test_the_paper_recurrence_sees_frames():
    net = nn.RecurrentTNN([1, 1, 1, 1], step=step(2)).double()
    with pytest.raises(AssertionError, match="change of frames"):
        assert_gauge_equivariant(
            lambda lap, x: net(3 * x[None, ..., :1], lap)[0][0], bundle(2), tol=0.01
        )


# Order of the points, and axes of batches and channels.


@pytest.mark.parametrize(
    "activation", [nn.NormTanh(), nn.Coordinatewise(torch.tanh), nn.AmbientThenProject()]
)
def test_the_order_of_the_points_does_not_matter(activation):
    """A Klein bottle, whose transports contain reflections; frames are carried along."""
    base = tb.TangentBundle.from_points(torch.from_numpy(KleinBottle(4).sample(100, seed=0)), dim=2)
    mix = torch.from_numpy(np.random.default_rng(1).permutation(100))
    mixed = tb.TangentBundle.from_frames(
        base.points[mix], base.frames[mix], eps=base.eps, kernel=base.weights.kernel
    )
    lap = base.laplacian()
    assert bool((lap.average.cols < 0).any())
    x = random_signal(lap)
    for method in (None, tb.Chebyshev(1e-13)):
        net = shuffled(nn.TNN([2, 4, 2], step=3 * lap.scale, activation=activation, method=method))
        assert relative_error(net(x[mix], mixed.laplacian()), net(x, lap)[mix]) < TOLERANCE
    recurrent = shuffled(nn.GatedTNN([2, 3, 2], step=3 * lap.scale, activation=activation))
    got, states = recurrent(x[mix].expand(3, -1, -1, -1), mixed.laplacian())
    expected, ends = recurrent(x.expand(3, -1, -1, -1), lap)
    assert relative_error(got, expected[:, mix]) < TOLERANCE
    assert relative_error(states[0], ends[0][mix]) < TOLERANCE


def test_norm_activations_keep_directions_and_are_smooth():
    act = nn.NormTanh()
    lap = bundle(3).laplacian()
    x = torch.cat(
        [random_signal(lap, 1) * size for size in (1e-9, 1e-2, 0.0316, 1.0, 30.0)], dim=-1
    )
    x[0] = 0.0  # where a length divided by itself would be undefined
    y = act(x, lap)
    assert bool(torch.isfinite(y).all()) and bool((y[0] == 0).all())
    unit = torch.nn.functional.normalize(x[1:], dim=1)
    along = (y[1:] * unit).sum(1, keepdim=True)
    assert relative_error(along * unit, y[1:]) < 1e-12
    np.testing.assert_allclose(along[:, 0], torch.tanh(x[1:].norm(dim=1)), rtol=1e-12)
    point = torch.tensor([0.02, -0.02, 0.0141], dtype=torch.float64).reshape(
        1, 3, 1
    )  # about where NormTanh switches
    for start in (point, 1.2 * point, 0 * point):
        assert torch.autograd.gradcheck(lambda s: act(s, lap), start.clone().requires_grad_())
        assert torch.autograd.gradgradcheck(lambda s: act(s, lap), start.clone().requires_grad_())
