"""Banks of filters, the shapes and kinds of what they filter, and the coefficients that are
kept."""

import numpy as np
import pytest
import torch
from filter_spaces import METHODS, SPACES, count_products, errors, filters_at, laplacian

import tangentbundle as tb
from tangentbundle.operators import moments
from tangentbundle.operators.methods import MAX_CACHED_BANKS
from tangentbundle.testing import random_signal

pytestmark = pytest.mark.usefixtures("one_torch_thread")


# Banks.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_a_bank_equals_its_filters(name, method):
    lap = laplacian(name)
    x = random_signal(lap, channels=2)
    bank = list(filters_at(3 * lap.scale).values())
    outputs = lap.evaluate(bank, x, method)
    assert len(outputs) == len(bank)
    for h, y in zip(bank, outputs, strict=True):
        assert errors(lap, y, h(lap, x, method), x) < 1e-10
    assert lap.evaluate([], x, method) == []


def test_a_bank_shares_its_products(monkeypatch):
    lap = laplacian()
    x = random_signal(lap)
    bank = [tb.Heat(t * lap.scale) for t in (1.0, 10.0, 50.0, 100.0)]
    calls = count_products(monkeypatch, moments, "step")
    alone = []
    for h in bank:
        h(lap, x, tb.Chebyshev())
        alone.append(len(calls))
        calls.clear()
    lap.evaluate(bank, x, tb.Chebyshev())
    assert len(calls) == max(alone) < sum(alone)


# Shapes and kinds.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["S1", "S2", "S3"])
def test_leading_dimensions_are_batches(name, method):
    lap = laplacian(name)
    x = torch.stack([random_signal(lap, channels=2, seed=s) for s in range(6)]).unflatten(0, (2, 3))
    h = tb.FIR([0.2, 0.5, 0.3], lap.scale)
    got = h(lap, x, method)
    assert got.shape == x.shape
    for i in range(2):
        for j in range(3):
            assert errors(lap, got[i, j], h(lap, x[i, j], method), x[i, j]) < 1e-10
    turned = x.movedim(0, -1).flatten(-2)  # strided, and more channels
    np.testing.assert_allclose(h(lap, turned, method), got.movedim(0, -1).flatten(-2), atol=1e-9)
    assert h(lap, x[:0], method).shape == (0, 3, *x.shape[2:])
    assert h(lap, x[..., :0], method).shape == (*x.shape[:-1], 0)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_kind_of_array_comes_back(method, dtype):
    lap = laplacian(dtype=dtype)
    x = random_signal(lap)
    if dtype == torch.float32:
        method = type(method)() if isinstance(method, tb.Exact) else type(method)(1e-5)
    h = tb.Heat(lap.scale)
    expected = h(lap, x, method)
    assert isinstance(expected, torch.Tensor) and expected.dtype == dtype
    got = h(lap, x.numpy(), method)
    assert isinstance(got, np.ndarray) and got.dtype == x.numpy().dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(
        h(lap, x.numpy()[:, ::-1][:, ::-1], method), expected
    )  # odd strides
    frozen = x.numpy().copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(h(lap, frozen, method), expected)
    for made in lap.evaluate([h, h], x.numpy(), method):
        assert isinstance(made, np.ndarray)


def test_inputs_are_left_alone():
    lap = laplacian()
    x = random_signal(lap)
    kept, mass, values = x.clone(), lap.mass.clone(), lap.average.values.clone()
    for method in METHODS:
        tb.FIR([0.5, 0.5], lap.scale)(lap, x, method)
    assert (
        torch.equal(x, kept)
        and torch.equal(lap.mass, mass)
        and torch.equal(lap.average.values, values)
    )


# Coefficients kept on the operator.


def fresh():
    """An operator that nobody else has used."""
    return laplacian().to(dtype=torch.float64)


def test_coefficients_are_kept():
    lap, x = fresh(), random_signal(laplacian())
    h, method = tb.Heat(0.1), tb.Chebyshev()
    first = method.coefficients([h], lap)
    assert method.coefficients([h], lap) is first
    assert tb.Chebyshev(1e-6).coefficients([h], lap) is first  # methods compare by value
    assert tb.Chebyshev(1e-3).coefficients([h], lap).shape != first.shape
    assert torch.equal(h(lap, x, method), h(fresh(), x, method))
    assert torch.equal(tb.Heat(0.1)(lap, x, method), h(lap, x, method))
    assert not torch.equal(tb.Heat(0.2)(lap, x, method), h(lap, x, method))


@pytest.mark.filterwarnings("ignore:.*outputs are smaller")  # at so loose a tolerance
def test_what_is_kept_is_bounded():
    lap, x = fresh(), random_signal(laplacian())
    transform = lap.to_frequency(x, 5)
    for k in range(3 * MAX_CACHED_BANKS):
        tb.Heat(0.01 * (k + 1))(lap, x, tb.Chebyshev(1e-2))  # many filters, each thrown away
    assert len(lap.cache["banks"]) <= MAX_CACHED_BANKS
    assert len(lap.cache) == 2
    assert torch.equal(
        lap.to_frequency(x, 5), transform
    )  # eigenfields are not thrown out for coefficients
    learnable = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    before = list(lap.cache["banks"])
    for _ in range(5):
        tb.Heat(learnable)(lap, x, tb.Chebyshev(1e-2))
    assert list(lap.cache["banks"]) == before


def test_what_is_kept_follows_the_parameters():
    """Also when they are changed in place, begin to learn, or were never declared."""
    lap, x, method = fresh(), random_signal(laplacian()), tb.Chebyshev()
    taps = torch.tensor([0.5, 0.5], dtype=torch.float64)
    h = tb.FIR(taps, 0.1)
    h(lap, x, method)
    taps[1] = -0.5
    assert errors(lap, h(lap, x, method), h(lap, x, tb.Exact()), x) < 1e-5
    h.coefficients = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert errors(lap, h(lap, x, method), h(lap, x, tb.Exact()), x) < 1e-5
    taps = torch.tensor([0.5, 0.5], dtype=torch.float64)
    h = tb.FIR(taps, 0.1)
    h(lap, x, method)
    taps.requires_grad_()
    assert h(lap, x, method).requires_grad
    # a function may use tensors it does not list: they still learn, though a first look was without
    # gradients
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for g in (
        tb.Spectral(lambda lam: weight / (1 + lam)),
        tb.ImpulseResponse(lambda t: weight * torch.exp(-t)),
    ):
        for way in METHODS:
            with torch.no_grad():
                size = float(g(lap, x, way).square().sum())
            for _ in range(2):
                (gradient,) = torch.autograd.grad(g(lap, x, way).square().sum(), weight)
                assert float(gradient) == pytest.approx(size, rel=1e-5), (
                    way
                )  # d/dw (w y)^2 = 2 w y^2 = (w y)^2 at w = 2


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_training_after_inference_mode(method):
    lap, x = fresh(), random_signal(laplacian())
    h = tb.Heat(0.1)
    with torch.inference_mode():
        seen = h(lap, x, method)
        tb.Heat(0.2)(lap, x, method)
        lap.to_frequency(x, 3)
        lap @ x
    x.requires_grad_()
    y = h(lap, x, method)
    assert torch.equal(y.detach(), seen)
    (y.sum() + lap.to_frequency(x, 3).sum() + (lap @ x).sum()).backward()
    assert x.grad is not None
