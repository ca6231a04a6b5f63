"""On a GPU the answers are those of the CPU. Skipped where there is none; the kernels themselves
are tested in Triton's interpreter (``test_triton.py``)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from spaces import SIZE, SPACES

import tangentbundle as tb
from tangentbundle.calculus import Derivatives
from tangentbundle.testing import random_signal, relative_error

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}
CHANNELS = 3


@pytest.fixture(params=SPACES, ids=repr)
def space(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


def points_of(space, dtype):
    return torch.from_numpy(space.sample(2 * SIZE[space.dim], seed=0)).to(dtype)


def both_bundles(space, dtype):
    """The same points on the CPU and on the GPU."""
    points = points_of(space, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        on_cpu = tb.TangentBundle.from_points(points, dim=space.dim)
        on_gpu = tb.TangentBundle.from_points(points.cuda(), dim=space.dim)
    return on_cpu, on_gpu


def both_laplacians(space, dtype):
    """One Laplacian, built on the CPU, and its copy on the GPU."""
    on_cpu, _ = both_bundles(space, dtype)
    laplacian = on_cpu.laplacian()
    return laplacian, laplacian.to("cuda")


def assert_same(on_gpu, on_cpu, dtype, factor=1.0):
    assert on_gpu.device.type == "cuda"
    assert on_gpu.dtype == on_cpu.dtype
    assert relative_error(on_gpu.cpu(), on_cpu) < factor * TOLERANCE[dtype]


def test_laplacians_of_points(space, dtype):
    """Vectors in ambient space, which no choice of frames changes."""
    on_cpu, on_gpu = both_bundles(space, dtype)
    vectors = torch.randn(
        on_cpu.points.shape, dtype=dtype, generator=torch.Generator().manual_seed(0)
    )
    expected = on_cpu.to_ambient(on_cpu.laplacian() @ on_cpu.to_coordinates(vectors))
    got = on_gpu.to_ambient(on_gpu.laplacian() @ on_gpu.to_coordinates(vectors.cuda()))
    assert_same(got, expected, dtype, factor=10.0)


@pytest.mark.parametrize(
    "filter_",
    [tb.Heat(0.05), tb.Tikhonov(0.1), tb.FIR([0.5, -0.3, 0.2], 0.05), tb.Polynomial([1.0, 0.1])],
    ids=repr,
)
@pytest.mark.parametrize("method", [tb.Chebyshev(1e-6), tb.Exact()], ids=repr)
def test_filters_and_their_gradients(space, dtype, filter_, method):
    on_cpu, on_gpu = both_laplacians(space, dtype)
    answers = []
    for operator in (on_cpu, on_gpu):
        signal = random_signal(on_cpu, CHANNELS).to(operator.device).requires_grad_()
        output = filter_(operator, signal, method)
        (gradient,) = torch.autograd.grad(output.square().sum(), signal)
        answers.append((output.detach(), gradient))
    for expected, got in zip(*answers, strict=True):
        assert_same(got, expected, dtype)


def test_spectra(space, dtype):
    on_cpu, on_gpu = both_laplacians(space, dtype)
    expected = on_cpu.spectrum(8)[0]
    got = on_gpu.spectrum(8)[0]
    assert float((got.cpu() - expected).abs().max()) < 1e-3 * float(expected.max())


@pytest.mark.parametrize(
    "network", [tb.nn.TNN, tb.nn.RecurrentTNN, tb.nn.GatedTNN], ids=lambda cls: cls.__name__
)
def test_networks_and_their_gradients(space, dtype, network):
    on_cpu, on_gpu = both_laplacians(space, dtype)
    answers = []
    for operator in (on_cpu, on_gpu):
        torch.manual_seed(0)
        model = network([2, 4, 1]).to(dtype).to(operator.device)
        signal = random_signal(on_cpu, 2).to(operator.device)
        if network is tb.nn.TNN:
            output = model(signal, operator)
        else:
            two_times = torch.stack([signal, 0.5 * signal])
            output, _ = model(two_times, operator)
        output.square().mean().backward()
        answers.append([output.detach()] + [parameter.grad for parameter in model.parameters()])
    for expected, got in zip(*answers, strict=True):
        assert_same(got, expected, dtype, factor=10.0)


def test_derivatives(space, dtype):
    """Gradient and divergence of linear functions and fields of the ambient space."""
    on_cpu, on_gpu = both_bundles(space, dtype)
    answers = []
    for bundle in (on_cpu, on_gpu):
        maps = Derivatives(bundle)
        function = bundle.points[:, :1, None]
        field = bundle.to_coordinates(torch.roll(bundle.points, 1, 1))
        answers.append((bundle.to_ambient(maps.gradient() @ function), maps.divergence() @ field))
    for expected, got in zip(*answers, strict=True):
        assert_same(got, expected, dtype, factor=50.0)


def test_points_that_require_gradients(dtype):
    gradients = []
    for device in ("cpu", "cuda"):
        points = (
            torch.from_numpy(tb.manifolds.Sphere(2).sample(200, seed=0))
            .to(device, dtype)
            .requires_grad_()
        )
        bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=20)
        field = torch.linalg.cross(
            torch.tensor([[0.0, 0.0, 1.0]]).to(points).expand_as(points), points.detach()
        )
        energy = (bundle.laplacian() @ bundle.to_coordinates(field)).square().sum()
        (gradient,) = torch.autograd.grad(energy, points)
        gradients.append(gradient)
    assert_same(gradients[1], gradients[0], dtype, factor=100.0)


def test_clouds_of_a_batch(dtype):
    clouds = [tb.manifolds.Sphere(2).sample(n, seed=n) for n in (60, 90, 200)]
    points = torch.from_numpy(np.concatenate(clouds)).to(dtype)
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor([60, 90, 200]))
    vectors = torch.randn(points.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    answers = []
    for device in ("cpu", "cuda"):
        laplacian = tb.TangentBundle.from_batch(
            points.to(device), batch.to(device), dim=2, neighbors=12
        )
        frames = laplacian.frames
        coordinates = (frames.mT @ vectors.to(device)[..., None]).contiguous()
        answers.append(frames @ tb.Heat(0.01)(laplacian, coordinates))
    assert_same(answers[1], answers[0], dtype, factor=10.0)
