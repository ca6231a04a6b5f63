"""Gradients of geometry: the same operator as without them, and gradients that agree with finite
differences."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import kernels
from tangentbundle.testing import relative_error

SPACES = {
    "circle": (tb.manifolds.Sphere(1), {}),
    "sphere": (tb.manifolds.Sphere(2), {}),
    "torus, wide PCA": (tb.manifolds.Torus(), {"eps_pca": 0.3, "kernel": kernels.Epanechnikov()}),
    "three-sphere, no centre": (tb.manifolds.Sphere(3), {"pca_center": False, "dim": 3}),
    "curve in R^5": (tb.manifolds.FlatTorus((1.0, 0.7)), {"kernel": kernels.Biweight()}),
}


def loss(bundle, laplacian, lengths):
    """A number that depends on weights, frames, transports and mass, and not on the choice of
    frames."""
    ambient = torch.linspace(-1, 1, lengths * bundle.ambient_dim, dtype=torch.float64)
    ambient = ambient.reshape(lengths, -1)
    x = bundle.to_coordinates(ambient)
    y = tb.Heat(0.05)(laplacian, x, method=tb.Chebyshev(1e-12))
    return (bundle.to_ambient(y) * ambient.flip(0)).sum() + laplacian.inner(x, y).sum()


@pytest.mark.parametrize("name", SPACES)
def test_same_operator_and_right_gradients(name):
    space, options = SPACES[name]
    points = torch.from_numpy(space.sample(120, seed=1)).requires_grad_()
    moving = tb.TangentBundle.from_points(points, **options)
    plain, laplacian = moving.detach().laplacian(), moving.laplacian()
    assert relative_error(moving.frames, torch.as_tensor(moving.detach().frames)) < 1e-9
    assert relative_error(laplacian.to_dense(), plain.to_dense()) < 1e-9
    (gradient,) = torch.autograd.grad(loss(moving, laplacian, 120), points)

    direction, step = (
        torch.from_numpy(np.random.default_rng(0).standard_normal((120, points.shape[1]))),
        1e-6,
    )
    ends = []
    for sign in (1, -1):  # the same graph, scales and constants at moved points
        other = moving.moved(points.detach() + sign * step * direction)
        ends.append(float(loss(other, other.laplacian(), 120)))
    expected = (ends[0] - ends[1]) / (2 * step)
    assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_a_given_radius_of_the_local_pca_holds_where_neighbours_are_few():
    angles = 2 * np.pi * (np.arange(60) + 0.2 * np.sin(np.arange(60))) / 60
    points = torch.from_numpy(
        np.stack([np.cos(angles), np.sin(angles), np.cos(2 * angles)], axis=1)
    ).requires_grad_()
    moving = tb.TangentBundle.from_points(points, dim=1, eps_pca=0.14)  # two or three neighbours
    assert relative_error(moving.frames, torch.as_tensor(moving.detach().frames)) < 1e-9


def test_a_rotation_changes_nothing():
    """The gradient of an invariant loss is orthogonal to all rotations of space."""
    points = torch.from_numpy(
        tb.manifolds.Ellipsoid((1.0, 0.8, 0.6)).sample(150, seed=0)
    ).requires_grad_()
    moving = tb.TangentBundle.from_points(points)
    laplacian = moving.laplacian()
    height = moving.to_coordinates(points)  # a field that turns with the points
    (gradient,) = torch.autograd.grad(laplacian.inner(height, laplacian @ height).sum(), points)
    torque = torch.linalg.cross(points, gradient).sum(dim=0)
    assert float(torque.detach().abs().max()) < 1e-9 * float(gradient.abs().sum())


def test_single_precision_and_refusals():
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(100, seed=0)).float().requires_grad_()
    laplacian = tb.TangentBundle.from_points(points).laplacian()
    assert laplacian.dtype == torch.float32
    (laplacian @ torch.ones(100, 2, 1)).square().sum().backward()
    assert bool(torch.isfinite(points.grad).all())
    bundle = tb.TangentBundle.from_points(points.detach())
    known = tb.TangentBundle.from_frames(points.detach(), bundle.frames, neighbors=9)
    for other in (bundle.scalar(), known, tb.TangentBundle.from_points(points.detach()[:50])):
        with pytest.raises(tb.errors.InvalidInputError):
            other.moved(points)
    with pytest.raises(tb.errors.InvalidInputError, match="must be a tensor"):
        bundle.moved(points.detach().numpy())


# Layers that read the frames of an operator.

nn = tb.nn


def recurrent_outputs(net):
    return lambda x, lap: net(torch.stack([x, 0.5 * x]), lap)[0]


def joined_with_itself(layer):
    """The layer on two copies of a bundle."""
    return lambda x, lap: layer(torch.cat([x, 0.3 * x]), tb.join([lap, lap])).unflatten(
        0, (2, len(x))
    )


CLASSES = [getattr(nn, name) for name in nn.__all__ if isinstance(getattr(nn, name), type)]
ACTIVATIONS = [
    c
    for c in CLASSES
    if issubclass(c, nn.Activation) and c is not nn.Activation and c.gauge_equivariant
]

READERS = {
    **{f"{kind.__name__} alone": kind().double() for kind in ACTIVATIONS},
    "AmbientThenProject of sines": nn.AmbientThenProject(torch.sin),
    "two copies joined": joined_with_itself(nn.AmbientThenProject()),
    "network": nn.TNN(
        [1, 3, 2], step=0.05, activation=nn.AmbientThenProject(), method=tb.Chebyshev(1e-12)
    ).double(),
    "recurrent network": recurrent_outputs(
        nn.RecurrentTNN(
            [1, 2, 2], step=0.05, activation=nn.AmbientThenProject(), method=tb.Chebyshev(1e-12)
        ).double()
    ),
}
"""Gauge-equivariant maps of a signal and an operator."""


def loss_of_layer(bundle, layer, probe):
    """A number that depends on the frames of the operator, and not on the choice of frames."""
    n, dims = bundle.points.shape
    ambient = torch.linspace(-2, 2, n * dims, dtype=torch.float64).reshape(n, dims)
    signal = bundle.to_coordinates(torch.sin(3 * ambient) + bundle.points.square())
    output = layer(signal, bundle.laplacian())
    ambient = bundle.to_ambient(output).reshape(-1, n, dims, output.shape[-1])
    return (ambient * probe[:, :, None]).sum() + ambient.square().sum()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["sphere", "torus, wide PCA", "curve in R^5"])
def test_gradients_through_layers_that_read_frames(name, reader):
    space, options = SPACES[name]
    points = torch.from_numpy(space.sample(60, seed=2)).requires_grad_()
    moving = tb.TangentBundle.from_points(points, **options)
    generator = torch.Generator().manual_seed(0)
    probe, direction = torch.randn(2, *points.shape, generator=generator, dtype=torch.float64)
    layer = READERS[reader]
    with torch.no_grad():
        loss_of_layer(
            moving, layer, probe
        )  # what is cached without gradients must not serve those with
    (gradient,) = torch.autograd.grad(loss_of_layer(moving, layer, probe), points)

    step = 1e-6
    ends = []
    for sign in (1, -1):
        other = moving.moved(points.detach() + sign * step * direction)
        with torch.no_grad():
            ends.append(float(loss_of_layer(other, layer, probe)))
    expected = (ends[0] - ends[1]) / (2 * step)
    assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_frames_of_an_operator_have_the_gradients_of_its_bundle():
    """Also where the operator is read without gradients first."""
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(50, seed=0)).requires_grad_()
    moving = tb.TangentBundle.from_points(points)
    laplacian = moving.laplacian()
    with torch.no_grad():
        assert torch.equal(laplacian.frames, moving.frames)
    weights = torch.randn(50, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    first, second = (
        torch.autograd.grad((frames * weights).sum(), points, retain_graph=True)[0]
        for frames in (laplacian.frames, moving.frames)
    )
    assert torch.equal(first, second) and float(first.abs().max()) > 0
    with torch.no_grad():
        assert not moving.laplacian().frames.requires_grad
    single = laplacian.to(dtype=torch.float32).frames
    (third,) = torch.autograd.grad((single * weights.float()).sum(), points)
    assert relative_error(third, first) < 1e-5
