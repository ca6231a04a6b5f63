"""Filters that are identified from examples: exact where a filter made them, best where none did,
differentiable, and batched."""

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.filters import Chebyshev, Exact, identify

pytestmark = pytest.mark.usefixtures("one_torch_thread")

TAPS = [0.5, -0.3, 0.7, 0.2]


@pytest.fixture(scope="module")
def laplacian():
    points = tb.manifolds.Sphere(2).sample(150, seed=0)
    return tb.TangentBundle.from_points(points).laplacian()


def signals(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(*shape, 150, 2, 2))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("method", [Exact(), Chebyshev(1e-12)])
def test_taps_come_back(laplacian, shape, method):
    x = signals(*shape)
    y = tb.FIR(TAPS, step=0.1)(laplacian, x, method)
    found = tb.FIR.from_examples(laplacian, x, y, taps=4, step=0.1, method=method)
    np.testing.assert_allclose(found.coefficients, TAPS, rtol=0, atol=1e-7)
    assert isinstance(found, tb.FIR) and found.step == 0.1


def test_no_other_taps_are_nearer(laplacian):
    """In the norm of the masses, the errors are orthogonal to all filtered inputs."""
    x = signals(3)
    y = signals(3, seed=1)
    h = tb.FIR.from_examples(laplacian, x, y, step=0.2)
    error = torch.from_numpy(np.asarray(h(laplacian, x)) - y)
    for tap in range(3):
        flow = torch.from_numpy(np.asarray(tb.Heat(0.2 * tap)(laplacian, x)))
        size = float(laplacian.norm(flow).norm() * laplacian.norm(error).norm())
        assert abs(float(laplacian.inner(flow, error).sum())) < 1e-10 * size


def test_the_default_step_follows_the_units():
    """On a sphere a thousand times as large, the same fields give the same coefficients."""
    points = tb.manifolds.Sphere(2).sample(150, seed=0)
    x = signals(3)
    coefficients = []
    for unit in (1.0, 1000.0):
        laplacian = tb.TangentBundle.from_points(unit * points).laplacian()
        y = tb.Tikhonov(0.3 * unit**2)(laplacian, x)
        coefficients.append(tb.FIR.from_examples(laplacian, x, y).coefficients)
    np.testing.assert_allclose(coefficients[0], coefficients[1], rtol=1e-7)


def test_each_leading_index_has_its_own_coefficients(laplacian):
    filters = [tb.Heat(0.0), tb.Heat(0.3), tb.Tikhonov(0.1)]
    truth = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    x = torch.from_numpy(signals(2, 4, 5))
    outputs = laplacian.evaluate(filters, x)
    y = sum(truth[..., k, None, None, None, None] * outputs[k] for k in range(3))
    torch.testing.assert_close(identify(laplacian, filters, x, y), truth, rtol=0, atol=1e-9)


def test_gradients(laplacian):
    """In inputs, outputs and the step."""
    x = torch.from_numpy(signals(2)).requires_grad_()
    y = torch.from_numpy(signals(2, seed=1)).requires_grad_()
    step = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)

    def coefficients(x, y, step):
        return tb.FIR.from_examples(laplacian, x, y, taps=2, step=step).coefficients

    assert torch.autograd.gradcheck(coefficients, (x, y, step), fast_mode=True)


def test_a_rate_is_learned_through_the_identified_filter(laplacian):
    """The error of an identified filter has a gradient in the filters of its bank."""
    x = torch.from_numpy(signals(3))
    y = tb.Heat(0.5)(laplacian, x)
    time = torch.nn.Parameter(torch.tensor(0.2, dtype=torch.float64))
    optimiser = torch.optim.Adam([time], lr=0.03)
    for _ in range(150):
        optimiser.zero_grad()
        bank = [tb.Heat(time)]
        coefficient = identify(laplacian, bank, x, y)
        error = coefficient * laplacian.evaluate(bank, x)[0] - y
        error.square().mean().backward()
        optimiser.step()
    assert abs(float(time.detach()) - 0.5) < 0.01


def test_single_precision(laplacian):
    x = signals(3).astype("float32")
    single = laplacian.to(dtype=torch.float32)
    y = tb.FIR([0.5, 0.5], step=0.1)(single, x)
    h = tb.FIR.from_examples(single, x, y, taps=2, step=0.1)
    np.testing.assert_allclose(h.coefficients, [0.5, 0.5], atol=1e-4)


@pytest.mark.parametrize(
    ("inputs", "outputs", "options", "error", "match"),
    [
        (signals(3), signals(2), {}, ShapeError, "each input needs its output"),
        (signals(3) * 0, signals(3), {}, InvalidInputError, "zero"),
        (signals(3) * 0, signals(3), {"step": 0.1}, InvalidInputError, "not zero"),
        (signals(3) * np.nan, signals(3), {"step": 0.1}, NonFiniteError, "inputs"),
        (signals(3), signals(3) * np.nan, {}, NonFiniteError, "outputs"),
        (signals(3), signals(3), {"taps": 0}, InvalidInputError, "taps"),
        (signals(3), signals(3), {"step": -1.0}, InvalidInputError, "step"),
        (signals(3), signals(3), {"step": 1e-9}, InvalidInputError, "tell the 3 filters apart"),
    ],
)
def test_bad_examples(laplacian, inputs, outputs, options, error, match):
    with pytest.raises(error, match=match):
        tb.FIR.from_examples(laplacian, inputs, outputs, **options)
