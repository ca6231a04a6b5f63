"""What filters ask of operators: an interval, three operations, small ones for exact answers; and
what is refused."""

import numpy as np
import pytest
import torch
from filter_spaces import METHODS, laplacian
from stored import ROWS, along_curve, in_user_order

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import (
    DeviceError,
    DTypeError,
    InvalidInputError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
)
from tangentbundle.manifolds import FlatTorus, Sphere
from tangentbundle.operators import SquareOperator, chebyshev
from tangentbundle.operators.product import block_product
from tangentbundle.testing import random_signal, relative_error

pytestmark = pytest.mark.usefixtures("one_torch_thread")


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
        "lattice": (
            np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], axis=1),
            2,
            {"neighbors": 8},
        ),
        # two far points: P swaps them, and has the eigenvalue -1
        "far pair": (
            np.concatenate([Sphere(1).sample(100, seed=0), [[9.0, 0.0], [9.0, 0.05]]]),
            1,
            {},
        ),
    }


@pytest.mark.parametrize("cloud", clouds())
@pytest.mark.filterwarnings("ignore::tangentbundle.errors.TangentBundleWarning")
def test_the_interval_encloses_the_spectrum(cloud):
    points, dim, options = clouds()[cloud]
    bundle = tb.TangentBundle.from_points(points, dim=dim, **options)
    for lap in (bundle.laplacian(), bundle.scalar().laplacian()):
        low, high = lap.spectral_interval
        top = float(lap.eigenbasis[0][-1])
        assert low == 0.0 and top <= high * (1 + 1e-12) and high <= lap.generator(2.0) * (1 + 1e-12)
        assert high <= 1.1 * top  # and not by much


# Operators of one's own.


class Springs(SquareOperator):
    """A chain of springs: any self-adjoint operator can be filtered exactly."""

    rank = 1

    def __init__(self, n=12, skew=0.0):
        self.mass = torch.linspace(1.0, 2.0, n, dtype=torch.float64) / (1.5 * n)
        chain = torch.diag(torch.ones(n - 1, dtype=torch.float64), 1)
        self.dense = (
            chain + (1 - skew) * chain.T - 2 * torch.eye(n, dtype=torch.float64)
        ) / self.mass[:, None]

    def apply(self, x):
        return torch.einsum("ij,...jdc->...idc", self.dense, x)

    @property
    def adjoint(self):
        return self


def test_operators_of_ones_own():
    springs = Springs()
    x = random_signal(springs)
    expected = torch.linalg.matrix_exp(0.01 * springs.dense) @ x[:, 0]
    for method in (None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-13)):
        assert relative_error(tb.Heat(0.01)(springs, x, method)[:, 0], expected) < 1e-11
        merged = springs.merge([tb.Heat(0.01), tb.Heat(0.0)], [x, 2 * x], method)
        assert relative_error(merged[:, 0], expected + 2 * x[:, 0]) < 1e-11
    with pytest.raises(InvalidInputError, match=r"not self-adjoint.*Semigroup"):
        tb.Heat(0.01)(Springs(skew=0.1), x)
    assert tb.Tikhonov(1.0).properties(springs).interval == springs.spectral_interval


class Chain(SquareOperator):
    """The same without a matrix, of any size; ``shift`` moves the spectrum, ``skew`` is that of the
    coupling."""

    rank = 2

    def __init__(self, n, shift=0.0, skew=0.0):
        self.mass = torch.linspace(1.0, 2.0, n, dtype=torch.float64) / (1.5 * n)
        self.shift = shift
        self.skew = skew

    def apply(self, x):
        forward = torch.nn.functional.pad(x[..., 1:, :, :], (0, 0, 0, 0, 0, 1))
        back = torch.nn.functional.pad(x[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
        coupled = forward + (1 - self.skew) * back - (2 - self.shift) * x
        return coupled / (self.num_points * self.mass[:, None, None])

    @property
    def adjoint(self):
        return self


def every_filter():
    return [
        tb.Heat(0.7),
        tb.FIR([0.2, 0.5, 0.3], 0.4),
        tb.Polynomial([1.0, 0.2, -0.1]),
        tb.Tikhonov(2.0),
        tb.Spectral(lambda lam: torch.cos(lam)),
        tb.ImpulseResponse(lambda t: t * torch.exp(-t)),
        2.0 * tb.Heat(0.1) - tb.Tikhonov(0.1) @ tb.Heat(0.2),
    ]


@pytest.mark.parametrize("n", [40, 400])
def test_every_filter_works_on_operators_of_ones_own(n):
    """Also on those that are too large for the exact method by default."""
    chain = Chain(n)
    x = random_signal(chain, channels=3)
    assert chain.evaluate([], x) == []
    for method in (None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-12)):
        error = 1e-5 if method is None else 1e-9
        for h in every_filter():
            assert relative_error(h(chain, x, method), h(chain, x, tb.Exact())) < error
    batch = torch.stack([x, 2 * x])
    for h in every_filter():
        assert relative_error(torch.from_numpy(h(chain, batch.numpy())), h(chain, batch)) < 1e-12


@pytest.mark.parametrize("n", [40, 400, 2600])
@pytest.mark.filterwarnings("ignore::tangentbundle.errors.AccuracyWarning")
def test_every_network_works_on_operators_of_ones_own(n):
    """Layers that widen, and that narrow; with the gradients of their filters; beyond the largest
    size of matrices."""
    chain = Chain(n)
    x = random_signal(chain, channels=2)
    for widths in ([2, 4, 2], [2, 1]):
        outputs = [
            nn.TNN(widths, step=0.5, seed=0, method=method).double()(x, chain)
            for method in (None, tb.Chebyshev(1e-12))
        ]
        assert relative_error(*outputs) < 1e-4
    for recurrent in (nn.RecurrentTNN([2, 3, 2]), nn.GatedTNN([2, 3, 2])):
        assert recurrent.double()(torch.stack([x, x]), chain)[0].shape == (2, n, 2, 2)


def test_a_layer_is_its_definition_on_operators_of_ones_own():
    chain = Chain(40)
    x = random_signal(chain, channels=2)
    heat = torch.linalg.matrix_exp(0.5 * chain.to_dense())
    conv = nn.BundleConv(2, 2, taps=2, step=0.5).double()
    expected = x @ conv.weight[0] + (heat @ x.flatten(0, 1)).reshape(x.shape) @ conv.weight[1]
    assert relative_error(conv(x, chain), expected) < 1e-12


@pytest.mark.parametrize("n", [40, 400])
def test_gradients_on_operators_of_ones_own(n):
    chain = Chain(n)
    gradients = []
    for method in (tb.Exact(), tb.Chebyshev(1e-13)):
        x = random_signal(chain).requires_grad_()
        t = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        y = tb.Heat(t)(chain, x, method)
        gradients.append(torch.autograd.grad(y.square().sum(), (x, t)))
    for ours, expected in zip(*gradients, strict=True):
        assert relative_error(ours, expected) < 1e-9


def test_operators_without_a_heat_flow_are_refused():
    """Large ones, whose eigenvalues are not all known, too."""
    for n in (40, 400):
        with pytest.raises(InvalidInputError, match="not self-adjoint"):
            tb.Heat(0.1)(Chain(n, skew=0.5), random_signal(Chain(n)), tb.Chebyshev())
    growing = Chain(400, shift=3.0)
    with pytest.raises(InvalidInputError, match="positive eigenvalues"):
        tb.Heat(0.1)(growing, random_signal(growing))


# Custom operations of torch.


@pytest.mark.parametrize(
    "name, dtype",
    [("S1", torch.float32), ("S2", torch.float32), ("S2", torch.float64), ("S3", torch.float64)],
    ids=str,
)
def test_opcheck(name, dtype):
    """Schema, fake kernels and autograd of the operations, as torch itself checks them."""
    lap = laplacian(name, dtype)
    matrix = along_curve(lap)
    x = random_signal(lap, channels=2).requires_grad_()
    y = torch.stack([random_signal(lap, channels=2, seed=s) for s in (1, 2, 3)]).requires_grad_()
    a = torch.randn(3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    torch.library.opcheck(block_product.operator, (*in_user_order(lap), x, 2.0, -0.5, ROWS))
    torch.library.opcheck(chebyshev.bank.operator, (*matrix, x, a, 0.1, 0.9, ROWS))
    torch.library.opcheck(chebyshev.merge.operator, (*matrix, y, a, 0.1, 0.9, ROWS))
    torch.library.opcheck(chebyshev.dots.operator, (*matrix, x, y, 5, 0.1, 0.9, ROWS))


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
    a, x, y = (
        rng.standard_normal((3, 6)),
        rng.standard_normal((n, 2)),
        rng.standard_normal((3, n, 2)),
    )
    shape = (lap.num_points, lap.rank, 2)
    tensors = [torch.from_numpy(v) for v in (x.reshape(shape), y.reshape(3, *shape), a)]
    got = chebyshev.bank(*along_curve(lap), tensors[0], tensors[2], middle, radius, ROWS)
    expected = np.einsum("km,mij,jc->kic", a, np.stack(terms), x)
    np.testing.assert_allclose(got.reshape(3, n, 2), expected, atol=1e-11)
    got = chebyshev.merge(*along_curve(lap), tensors[1], tensors[2], middle, radius, ROWS)
    np.testing.assert_allclose(
        got.reshape(n, 2), np.einsum("km,mij,kjc->ic", a, np.stack(terms), y), atol=1e-11
    )
    got = chebyshev.dots(*along_curve(lap), tensors[0], tensors[1], 6, middle, radius, ROWS)
    np.testing.assert_allclose(got, np.einsum("kic,mij,jc->km", y, np.stack(terms), x), atol=1e-10)
    for count in (1, 2):  # no step, one step
        short = tensors[2][:, :count].contiguous()
        got = chebyshev.bank(*along_curve(lap), tensors[0], short, middle, radius, ROWS)
        np.testing.assert_allclose(
            got.reshape(3, n, 2),
            np.einsum("km,mij,jc->kic", a[:, :count], np.stack(terms[:count]), x),
            atol=1e-12,
        )
        got = chebyshev.merge(*along_curve(lap), tensors[1], short, middle, radius, ROWS)
        np.testing.assert_allclose(
            got.reshape(n, 2),
            np.einsum("km,mij,kjc->ic", a[:, :count], np.stack(terms[:count]), y),
            atol=1e-12,
        )


# What is refused.


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: tb.Chebyshev(0.0), "tol must lie between 0 and 1, got 0.0"),
        (lambda: tb.Chebyshev(1.0), "tol"),
        (lambda: tb.Chebyshev(-1e-6), "tol"),
        (lambda: tb.Chebyshev(float("nan")), "tol"),
        (lambda: tb.Chebyshev(degree=-1), "degree must be an integer from 0 to 16384, got -1"),
        (lambda: tb.Chebyshev(degree=2.5), "degree"),
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
        (
            x.to("meta"),
            DeviceError,
            r"signal is on meta .*operator is on cpu.*operator\.to\('meta'\)",
        ),
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
        with pytest.raises(InvalidInputError, match=r"Exact\(\), Dense\(\) or Chebyshev\(\)"):
            tb.Heat(0.1)(lap, x, bad)


def test_responses_that_are_not_finite():
    lap = laplacian("functions on S2")
    x = random_signal(lap)
    for h in (tb.Spectral(lambda lam: 1 / (0 * lam)), tb.Spectral(lambda lam: torch.log(lam - 1))):
        for method in METHODS:
            with pytest.raises(NonFiniteError, match="response is not finite"):
                h(lap, x, method)


def test_exact_is_for_small_operators():
    lap = tb.TangentBundle.from_points(
        Sphere(2).sample(2501, seed=0), dim=2, neighbors=12
    ).laplacian()
    with pytest.raises(MemoryLimitError, match=r"Chebyshev\(\)"):
        tb.Heat(0.1)(lap, np.zeros((2501, 2, 1)), tb.Exact())
