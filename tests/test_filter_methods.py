"""How filters are evaluated: every method against the exact answer, within the error it promises."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import (
    ConvergenceError,
    DeviceError,
    DTypeError,
    InvalidInputError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
)
from tangentbundle.filters import apply_bank, chebyshev
from tangentbundle.filters.exact import KEPT
from tangentbundle.filters.expansion import expand, fixed_order
from tangentbundle.filters.methods import EXACT_SIZE, default_method
from tangentbundle.manifolds import FlatTorus, KleinBottle, Sphere
from tangentbundle.operators import LinearOperator
from tangentbundle.operators.product import block_product
from tangentbundle.testing import random_signal, relative_error

SPACES = {
    "S1": (Sphere(1), 60),
    "S2": (Sphere(2), 90),
    "S3": (Sphere(3), 80),
    "Klein bottle": (KleinBottle(4), 120),
    "functions on S2": (Sphere(2), 120),
}

TIMES = [1e-4, 1e-2, 1.0, 10.0, 100.0, 1000.0]
"""In units of lap.scale: from almost none to long past mixing between neighbours."""


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def laplacian(name="S2", dtype=torch.float64):
    space, n = SPACES[name]
    points = torch.from_numpy(space.sample(n, seed=0)).to(dtype)
    bundle = tb.TangentBundle.from_points(points, dim=space.dim)
    return (bundle.scalar() if name.startswith("functions") else bundle).laplacian()


def filters_at(t):
    """Filters of every kind that change at eigenvalues of about 1 / t."""
    return {
        "heat": tb.Heat(t),
        "FIR": tb.FIR([0.5, -0.3, 0.8], t),
        "lowpass FIR": tb.FIR([0.0, 2.0, -1.0], t),
        "impulse": tb.ImpulseResponse(lambda s: s * torch.exp(-s / t) / t**2),
        "Tikhonov": tb.Tikhonov(t),
        "Matern": tb.Matern(t**-0.5, 2.5),
        "wavelet": tb.Wavelet(t),
        "composition": 3.0 * (tb.Heat(t) @ tb.FIR([1.0, -1.0], 0.3 * t) - tb.Tikhonov(t)),
    }


def largest(h, lap):
    """The largest |response| over the operator's interval."""
    _, high = lap.spectral_interval
    return float(h.response(high * torch.cat([torch.zeros(1), torch.logspace(-12, 0, 2000)]).double()).abs().max())


def errors(lap, got, expected, x):
    """Error in the mass norm by channel, in units of the input's."""
    wide = lap.to(dtype=torch.float64)
    return float((wide.norm(got.double() - expected) / wide.norm(x.double())).max())


# The promise.


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("name", SPACES)
def test_error_bounds(name, time):
    lap = laplacian(name)
    x = random_signal(lap, channels=3)
    for kind, h in filters_at(time * lap.scale).items():
        expected, size = h(lap, x, tb.Exact()), largest(h, lap)
        for tol in (1e-3, 1e-6, 1e-10):
            error = errors(lap, h(lap, x, tb.Chebyshev(tol)), expected, x)
            assert error <= tol * size + 1e-13, (kind, tol, error)
        for tol in (1e-3, 1e-9):
            error = errors(lap, h(lap, x, tb.Lanczos(tol, max_steps=400)), expected, x)
            assert error <= tol + 1e-13, (kind, tol, error)


@pytest.mark.parametrize("name", SPACES)
def test_error_bounds_in_single_precision(name):
    """The truth is the exact filter of the same rounded operator, in float64."""
    lap = laplacian(name, torch.float32)
    wide = lap.to(dtype=torch.float64)
    x = random_signal(lap, channels=3)
    for time in TIMES:
        for kind, h in filters_at(time * lap.scale).items():
            expected, size = h(wide, x.double(), tb.Exact()), largest(h, lap)
            rounding = 2e-6 * max(size, 1.0) * max(1.0, time) ** 0.25
            for method in (tb.Chebyshev(1e-3), tb.Chebyshev(1e-5), tb.Lanczos(1e-3), tb.Lanczos(1e-5)):
                got = h(lap, x, method)
                assert got.dtype == torch.float32
                allowed = method.tol * (size if isinstance(method, tb.Chebyshev) else 1.0) + rounding
                error = errors(lap, got, expected, x)
                assert error <= allowed, (kind, time, method, error)
            error = errors(lap, h(lap, x, tb.Exact()), expected, x)
            assert error <= 2e-6 * max(size, 1.0), (kind, time, error)


def test_the_tolerance_is_used_not_only_kept():
    """A looser tolerance gives a larger error and fewer terms: the bound is not kept by overkill."""
    lap = laplacian()
    x = random_signal(lap)
    h = tb.Heat(100 * lap.scale)
    expected = h(lap, x, tb.Exact())
    found = [errors(lap, h(lap, x, tb.Chebyshev(tol)), expected, x) for tol in (1e-2, 1e-5, 1e-8)]
    assert found[0] > 1e-5 > found[1] > 1e-8 > found[2]
    terms = [tb.Chebyshev(tol).coefficients([h], lap).shape[1] for tol in (1e-2, 1e-5, 1e-8)]
    assert terms[0] < terms[1] < terms[2]


def test_exact_by_hand():
    """Against a plain NumPy eigendecomposition of the dense matrix."""
    for name in SPACES:
        lap = laplacian(name)
        x = random_signal(lap, channels=2)
        values, vectors = np.linalg.eig(lap.to_dense().numpy())
        for h in filters_at(5 * lap.scale).values():
            response = h.response(np.maximum(-values.real, 0.0))
            expected = (vectors * response) @ np.linalg.solve(vectors, x.reshape(-1, 2).numpy())
            assert np.abs(expected.imag).max() < 1e-8
            assert relative_error(h(lap, x, tb.Exact()).reshape(-1, 2), torch.from_numpy(expected.real.copy())) < 1e-9


def test_polynomials_are_products_with_the_operator():
    lap = laplacian("S3")
    x = random_signal(lap)
    s = lap.scale
    h = tb.Polynomial([0.5, -2.0 * s, 3.0 * s**2])
    expected = 0.5 * x - 2.0 * s * (lap @ x) + 3.0 * s**2 * (lap @ (lap @ x))
    for method in (tb.Exact(), tb.Chebyshev(1e-12), tb.Chebyshev(order=2), tb.Lanczos(1e-12)):
        assert relative_error(h(lap, x, method), expected) < 1e-11, method
    assert tb.Chebyshev(1e-12).coefficients([h], lap).shape == (1, 3)


# Long times.


def test_heat_forgets_all_but_the_mean():
    """After any time, however long: a response that hides between coarse nodes must not be taken for zero."""
    lap = laplacian("functions on S2")
    x = random_signal(lap)
    mean = torch.einsum("n,ndc->dc", lap.mass, x).expand_as(x)
    for time in (1e5, 1e6, 3e6):
        for h in (tb.Heat(time * lap.scale), tb.FIR([0.0, 0.5, 0.5], time * lap.scale)):
            for method in (tb.Exact(), tb.Chebyshev(1e-6), tb.Lanczos(1e-6)):
                assert float((h(lap, x, method) - mean).abs().max()) < 1e-5, (time, h, method)
    with pytest.raises(ConvergenceError, match="Exact"):
        tb.Heat(1e9 * lap.scale)(lap, x, tb.Chebyshev())
    blend = tb.FIR([0.5, 0.5], 1e6 * lap.scale)  # constant on all coarse nodes
    assert float((blend(lap, x, tb.Chebyshev()) - (x + mean) / 2).abs().max()) < 1e-5


@pytest.mark.parametrize("time", [1e3, 1e4, 1e5])
def test_lanczos_does_not_stop_before_it_has_seen_the_low_frequencies(time):
    """On a long circle the first iterates all say zero, and agree."""
    t = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    points = np.stack([np.cos(t), np.sin(t)], axis=1)
    lap = tb.TangentBundle.from_points(torch.from_numpy(points), dim=1, eps=0.01).scalar().laplacian()
    x = random_signal(lap)
    h = tb.Heat(time * lap.scale)
    expected = h(lap, x, tb.Exact())
    assert float(lap.norm(expected).min()) > 0.01  # not zero
    assert errors(lap, h(lap, x, tb.Lanczos(1e-6)), expected, x) < 1e-6


def test_order_grows_like_the_square_root_of_time():
    tol = 1e-6
    sizes = np.geomspace(1e2, 1e6, 9)  # t times the largest eigenvalue
    terms = np.array([expand([tb.Heat(size)], (0.0, 1.0), tol).shape[1] for size in sizes])
    slope = np.polyfit(np.log(sizes), np.log(terms), 1)[0]
    assert abs(slope - 0.5) < 0.03
    ratio = terms / np.sqrt(2 * sizes * np.log(2 / tol))
    assert (ratio > 0.6).all() and (ratio < 1.1).all()


def test_coefficients_are_those_of_the_chebyshev_series():
    """Of e^(-t lambda): scaled modified Bessel functions."""
    from scipy.special import ive

    t, high = 3.0, 8.0
    a = expand([tb.Heat(t)], (0.0, high), 1e-12)[0].numpy()
    m = np.arange(len(a))
    np.testing.assert_allclose(a, np.where(m == 0, 1, 2) * ive(m, t * high / 2), atol=1e-13)
    lam = np.linspace(0.0, high, 500)
    series = np.polynomial.chebyshev.chebval(1 - 2 * lam / high, a)
    np.testing.assert_allclose(series, np.exp(-t * lam), atol=1e-12)
    np.testing.assert_allclose(fixed_order([tb.Heat(t)], (0.0, high), 5)[0], a[:5], atol=1e-6)


def test_fixed_order():
    lap = laplacian()
    x = random_signal(lap)
    h = tb.Heat(2 * lap.scale)
    expected = h(lap, x, tb.Exact())
    found = [errors(lap, h(lap, x, tb.Chebyshev(order=m)), expected, x) for m in (0, 2, 4, 8, 16)]
    assert all(b < 0.5 * a for a, b in pairwise(found)) and found[-1] < 1e-12
    assert tb.Chebyshev(order=7).coefficients([h], lap).shape == (1, 8)


# The choice of a method.


def test_the_default_follows_the_size():
    small = laplacian()
    assert small.shape[0] <= EXACT_SIZE and isinstance(default_method(small), tb.Exact)
    points = Sphere(2).sample(320, seed=0)
    large = tb.TangentBundle.from_points(points).laplacian()
    assert large.shape[0] > EXACT_SIZE and default_method(large) == tb.Chebyshev(1e-6)
    x = np.random.default_rng(0).standard_normal((320, 2, 2))
    got = tb.Heat(0.1)(large, x)
    assert "eigenbasis" not in vars(large)
    np.testing.assert_array_equal(got, tb.Heat(0.1)(large, x, tb.Chebyshev()))
    np.testing.assert_allclose(got, tb.Heat(0.1)(large, x, tb.Exact()), atol=1e-5)


def test_ideal_lowpass():
    lap = laplacian("Klein bottle")
    x = random_signal(lap)
    values, fields = lap.eigenbasis
    gap = int(torch.argmax(values[5:40].diff())) + 5
    h = tb.IdealLowpass(float(values[gap : gap + 2].mean()))
    low = fields[..., : gap + 1]
    once = h(lap, x, tb.Exact())
    expected = torch.einsum("ndk,kc->ndc", low, torch.einsum("n,ndk,ndc->kc", lap.mass, low, x))
    np.testing.assert_allclose(once, expected, atol=1e-12)
    np.testing.assert_allclose(h(lap, once, tb.Exact()), once, atol=1e-12)  # a projection
    with pytest.raises(ConvergenceError, match=r"jumps.*method=Exact\(\) or Lanczos\(\)"):
        h(lap, x, tb.Chebyshev())
    assert h(lap, x, tb.Chebyshev(order=40)).shape == x.shape  # for those who accept what that gives
    with pytest.raises(ConvergenceError, match="more max_steps"):
        h(lap, x, tb.Lanczos(1e-6, max_steps=24))
    assert errors(lap, h(lap, x, tb.Lanczos(1e-6, max_steps=240)), once, x) < 1e-6


def count_products(monkeypatch, module, name):
    calls = []
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **options: (calls.append(1), original(*args, **options))[1])
    return calls


def test_lanczos_adapts_to_the_signal(monkeypatch):
    """A mixture of three eigenfields needs three steps (and a few, since steps are looked at in groups)."""
    lap = laplacian("S3")
    fields = lap.eigenbasis[1][..., [3, 50, 100]].sum(-1, keepdim=True).contiguous()
    calls = count_products(monkeypatch, type(lap), "average")
    h = tb.Heat(30 * lap.scale)
    got = h(lap, fields, tb.Lanczos(1e-10))
    assert len(calls) <= 8
    assert errors(lap, got, h(lap, fields, tb.Exact()), fields) < 1e-10
    zero = torch.zeros_like(fields)
    both = torch.cat([zero, fields], dim=-1)
    np.testing.assert_allclose(h(lap, both, tb.Lanczos(1e-10)), torch.cat([zero, got], dim=-1), atol=1e-13)


# Banks.


METHODS = [tb.Exact(), tb.Chebyshev(1e-11), tb.Lanczos(1e-11)]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_a_bank_equals_its_filters(name, method):
    lap = laplacian(name)
    x = random_signal(lap, channels=2)
    bank = list(filters_at(3 * lap.scale).values())
    outputs = apply_bank(bank, lap, x, method)
    assert len(outputs) == len(bank)
    for h, y in zip(bank, outputs, strict=True):
        assert errors(lap, y, h(lap, x, method), x) < 1e-10
    assert apply_bank([], lap, x, method) == []


def test_a_bank_shares_its_products(monkeypatch):
    lap = laplacian()
    x = random_signal(lap)
    bank = [tb.Heat(t * lap.scale) for t in (1.0, 10.0, 50.0, 100.0)]
    calls = count_products(monkeypatch, chebyshev, "step")
    alone = []
    for h in bank:
        h(lap, x, tb.Chebyshev())
        alone.append(len(calls))
        calls.clear()
    apply_bank(bank, lap, x, tb.Chebyshev())
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
    np.testing.assert_array_equal(h(lap, x.numpy()[:, ::-1][:, ::-1], method), expected)  # odd strides
    frozen = x.numpy().copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(h(lap, frozen, method), expected)
    for made in apply_bank([h, h], lap, x.numpy(), method):
        assert isinstance(made, np.ndarray)


def test_inputs_are_left_alone():
    lap = laplacian()
    x = random_signal(lap)
    kept, mass, values = x.clone(), lap.mass.clone(), lap.values.clone()
    for method in METHODS:
        tb.FIR([0.5, 0.5], lap.scale)(lap, x, method)
    assert torch.equal(x, kept) and torch.equal(lap.mass, mass) and torch.equal(lap.values, values)


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


def test_what_is_kept_is_bounded():
    lap, x = fresh(), random_signal(laplacian())
    transform = lap.to_frequency(x, 5)
    for k in range(3 * KEPT):
        tb.Heat(0.01 * (k + 1))(lap, x, tb.Chebyshev(1e-2))  # many filters, each thrown away
    assert len(lap.cache["banks"]) <= KEPT
    assert len(lap.cache) == 2
    assert torch.equal(lap.to_frequency(x, 5), transform)  # eigenfields are not thrown out for coefficients
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
    # a function may use tensors it does not list: they still learn, though a first look was without gradients
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for g in (tb.Spectral(lambda lam: weight / (1 + lam)), tb.ImpulseResponse(lambda t: weight * torch.exp(-t))):
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


# The interval that the expansions rest on.


def clouds():
    t = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    a, b = (angle.ravel() for angle in np.meshgrid(t, t))
    return {
        "circle": (Sphere(1).sample(300, seed=1), 1, {}),
        "sphere": (Sphere(2).sample(300, seed=1), 2, {}),
        "few neighbours": (Sphere(2).sample(300, seed=1), 2, {"neighbors": 12}),
        "uniform kernel": (Sphere(2).sample(300, seed=1), 2, {"kernel": tb.kernels.Uniform()}),
        "uneven": (Sphere(2).sample_nonuniform(300, 20.0, seed=1), 2, {}),
        "three-sphere": (Sphere(3).sample(200, seed=1), 3, {}),
        "flat torus": (FlatTorus().sample(300, seed=1), 2, {}),
        "lattice": (np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], axis=1), 2, {"neighbors": 8}),
        # two far points: P swaps them, and has the eigenvalue -1
        "far pair": (np.concatenate([Sphere(1).sample(100, seed=0), [[9.0, 0.0], [9.0, 0.05]]]), 1, {}),
    }


@pytest.mark.parametrize("cloud", clouds())
@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
def test_the_interval_encloses_the_spectrum(cloud):
    points, dim, options = clouds()[cloud]
    bundle = tb.TangentBundle.from_points(points, dim=dim, **options)
    for lap in (bundle.laplacian(), bundle.scalar().laplacian()):
        low, high = lap.spectral_interval
        top = float(lap.eigenbasis[0][-1])
        assert low == 0.0 and top <= high * (1 + 1e-12) and high <= 2 / lap.scale * (1 + 1e-12)
        assert high <= 1.1 * top  # and not by much


# Operators of one's own.


class Springs(LinearOperator):
    """A chain of springs: any self-adjoint operator can be filtered exactly."""

    dim = 1

    def __init__(self, n=12, skew=0.0):
        self.mass = torch.linspace(1.0, 2.0, n, dtype=torch.float64) / (1.5 * n)
        chain = torch.diag(torch.ones(n - 1, dtype=torch.float64), 1)
        self.dense = (chain + (1 - skew) * chain.T - 2 * torch.eye(n, dtype=torch.float64)) / self.mass[:, None]

    def apply(self, x):
        return torch.einsum("ij,...jdc->...idc", self.dense, x)

    @property
    def adjoint(self):
        return self


def test_operators_of_ones_own():
    springs = Springs()
    x = random_signal(springs)
    expected = torch.linalg.matrix_exp(0.01 * springs.dense) @ x[:, 0]
    for method in (None, tb.Exact()):
        assert relative_error(tb.Heat(0.01)(springs, x, method)[:, 0], expected) < 1e-11
    for method in (tb.Chebyshev(), tb.Lanczos()):
        with pytest.raises(InvalidInputError, match=r"Springs is filtered with method=Exact\(\)"):
            tb.Heat(0.01)(springs, x, method)
    with pytest.raises(InvalidInputError, match=r"not self-adjoint.*Semigroup"):
        tb.Heat(0.01)(Springs(skew=0.1), x)
    assert tb.Tikhonov(1.0).properties(springs).basis.startswith("measured on eigenvalues from 0 to")


# Custom operations of torch.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["S1", "S2", "S3"])
def test_opcheck(name, dtype):
    """Schema, fake kernels and autograd of the operations, as torch itself checks them."""
    lap = laplacian(name, dtype)
    matrix = lap.curve
    x = random_signal(lap, channels=2).requires_grad_()
    y = torch.stack([random_signal(lap, channels=2, seed=s) for s in (1, 2, 3)]).requires_grad_()
    a = torch.randn(3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    torch.library.opcheck(block_product, (*matrix, x, 2.0, -0.5))
    torch.library.opcheck(chebyshev.bank, (*matrix, x, a, 0.1, 0.9))
    torch.library.opcheck(chebyshev.merge, (*matrix, y, a, 0.1, 0.9))
    torch.library.opcheck(chebyshev.dots, (*matrix, x, y, 5, 0.1, 0.9))


def test_the_three_operations_by_definition():
    lap = laplacian("Klein bottle")
    middle, radius = 0.2, 0.85
    n = lap.shape[0]
    average = (lap.to_dense() * lap.scale + torch.eye(n, dtype=torch.float64)).numpy()
    z = (average - middle * np.eye(n)) / radius
    terms = [np.eye(n), z]
    while len(terms) < 6:
        terms.append(2 * z @ terms[-1] - terms[-2])
    rng = np.random.default_rng(0)
    a, x, y = rng.standard_normal((3, 6)), rng.standard_normal((n, 2)), rng.standard_normal((3, n, 2))
    shape = (lap.num_points, lap.dim, 2)
    tensors = [torch.from_numpy(v) for v in (x.reshape(shape), y.reshape(3, *shape), a)]
    got = chebyshev.bank(*lap.curve, tensors[0], tensors[2], middle, radius)
    expected = np.einsum("km,mij,jc->kic", a, np.stack(terms), x)
    np.testing.assert_allclose(got.reshape(3, n, 2), expected, atol=1e-11)
    got = chebyshev.merge(*lap.curve, tensors[1], tensors[2], middle, radius)
    np.testing.assert_allclose(got.reshape(n, 2), np.einsum("km,mij,kjc->ic", a, np.stack(terms), y), atol=1e-11)
    got = chebyshev.dots(*lap.curve, tensors[0], tensors[1], 6, middle, radius)
    np.testing.assert_allclose(got, np.einsum("kic,mij,jc->km", y, np.stack(terms), x), atol=1e-10)
    for count in (1, 2):  # no step, one step
        short = tensors[2][:, :count].contiguous()
        got = chebyshev.bank(*lap.curve, tensors[0], short, middle, radius)
        np.testing.assert_allclose(
            got.reshape(3, n, 2), np.einsum("km,mij,jc->kic", a[:, :count], np.stack(terms[:count]), x), atol=1e-12
        )
        got = chebyshev.merge(*lap.curve, tensors[1], short, middle, radius)
        np.testing.assert_allclose(
            got.reshape(n, 2), np.einsum("km,mij,kjc->ic", a[:, :count], np.stack(terms[:count]), y), atol=1e-12
        )


# What is refused.


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: tb.Chebyshev(0.0), "tol must lie between 0 and 1, got 0.0"),
        (lambda: tb.Chebyshev(1.0), "tol"),
        (lambda: tb.Chebyshev(-1e-6), "tol"),
        (lambda: tb.Chebyshev(float("nan")), "tol"),
        (lambda: tb.Chebyshev(order=-1), "order must be a whole number of at least 0, got -1"),
        (lambda: tb.Chebyshev(order=2.5), "order"),
        (lambda: tb.Lanczos(0.0), "tol"),
        (lambda: tb.Lanczos(2.0), "tol"),
        (lambda: tb.Lanczos(max_steps=0), "max_steps must be a whole number of at least 1, got 0"),
        (lambda: tb.Lanczos(max_steps=1.5), "max_steps"),
    ],
)
def test_bad_methods(make, match):
    with pytest.raises(InvalidInputError, match=match):
        make()


@pytest.mark.parametrize("method", [None, *METHODS], ids=str)
def test_bad_signals(method):
    lap = laplacian()
    n = lap.num_points
    x = random_signal(lap)
    h = tb.Heat(0.1)
    for bad, error, match in (
        (x[:, :, 0], ShapeError, r"Add the channel axis: signal\[\.\.\., None\]"),
        (x[0], ShapeError, rf"\(\.\.\., {n}, 2, c\), got \(2, 2\)"),
        (x[:-1], ShapeError, f"{n}, 2, c"),
        (x[:, :1], ShapeError, f"{n}, 2, c"),
        (x.float(), DTypeError, r"never mixed.*operator\.to\(dtype=\.\.\.\)"),
        (x.float().numpy(), DTypeError, "never mixed"),
        (x.to("meta"), DeviceError, r"signal is on meta .*operator is on cpu.*operator\.to\('meta'\)"),
        ("field", DTypeError, "real numbers"),
        (None, DTypeError, "real numbers"),
    ):
        with pytest.raises(error, match=match):
            h(lap, bad, method)


def test_bad_operators_and_methods():
    lap = laplacian()
    x = random_signal(lap)
    for bad in (lap.to_scipy(), lap.to_dense(), None):
        with pytest.raises(InvalidInputError, match=r"bundle\.laplacian\(\)"):
            tb.Heat(0.1)(bad, x)
    for bad in ("exact", tb.Exact, 1e-6):
        with pytest.raises(InvalidInputError, match=r"Exact\(\), Dense\(\), Chebyshev\(\) or Lanczos\(\)"):
            tb.Heat(0.1)(lap, x, bad)


def test_responses_that_are_not_finite():
    lap = laplacian("functions on S2")
    x = random_signal(lap)
    for h in (tb.Spectral(lambda lam: 1 / (0 * lam)), tb.Spectral(lambda lam: torch.log(lam - 1))):
        for method in METHODS:
            with pytest.raises(NonFiniteError, match="response is not finite"):
                h(lap, x, method)


def test_lanczos_refuses_signals_it_cannot_measure():
    x = random_signal(laplacian())
    x[3, 1, 0] = torch.nan
    with pytest.raises(NonFiniteError, match="signal must be finite"):
        tb.Heat(0.1)(laplacian(), x, tb.Lanczos())


def test_exact_is_for_small_operators():
    lap = tb.TangentBundle.from_points(Sphere(2).sample(2501, seed=0), dim=2, neighbors=12).laplacian()
    with pytest.raises(MemoryLimitError, match=r"Chebyshev\(\)"):
        tb.Heat(0.1)(lap, np.zeros((2501, 2, 1)), tb.Exact())
