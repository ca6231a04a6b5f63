"""The framework's special cases and symmetries: manifold and graph convolution, frequency,
composition, equivariance.

(Convolution in time and plain perceptrons, the other special cases, are in ``test_semigroup``.)
"""

from functools import cache

import numpy as np
import pytest
import torch
from pairwise import all_pairs
from scipy.linalg import expm

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, ShapeError
from tangentbundle.manifolds import KleinBottle, Sphere, Torus
from tangentbundle.testing import (
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    assert_self_adjoint,
    random_signal,
    relative_error,
)

SPACES = {
    "S1": (Sphere(1), 70),
    "S2": (Sphere(2), 100),
    "S3": (Sphere(3), 80),
    "Klein bottle": (KleinBottle(4), 120),
    "torus": (Torus(), 150),
}

METHODS = [tb.Exact(), tb.Chebyshev(1e-11)]
TOLERANCE = 1e-9


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def bundle(name="S2", dtype=torch.float64):
    space, n = SPACES[name]
    return tb.TangentBundle.from_points(
        torch.from_numpy(space.sample(n, seed=0)).to(dtype), dim=space.dim
    )


@cache
def laplacian(name="S2", scalar=False):
    return (bundle(name).scalar() if scalar else bundle(name)).laplacian()


def flat(x):
    return x.reshape(x.shape[0] * x.shape[1], -1).numpy()


def filters(lap):
    t = 3 * lap.scale
    return {
        "heat": tb.Heat(t),
        "FIR": tb.FIR([0.5, -0.3, 0.8], t),
        "impulse": tb.ImpulseResponse(lambda s: s * torch.exp(-s / t) / t**2),
        "polynomial": tb.Polynomial([0.5, 0.3 * t, 0.05 * t**2]),
    }


# Manifold convolution.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_on_the_scalar_bundle_a_filter_is_manifold_convolution(name, method):
    r"""The integral of h(t) e^(-tL) f dt, by dense exponentials of the Laplacian of functions."""
    lap = laplacian(name, scalar=True)
    assert lap.rank == 1
    matrix = -lap.to_dense().numpy()  # positive, as is usual for functions
    f = random_signal(lap)
    for t in (0.5 * lap.scale, 20 * lap.scale):
        expected = expm(-t * matrix) @ flat(f)
        assert (
            relative_error(tb.Heat(t)(lap, f, method).reshape(-1, 2), torch.from_numpy(expected))
            < TOLERANCE
        )
    # h(t) = e^-(t/s): the integral in closed form, s (1 + s L)^-1
    s = 4 * lap.scale
    h = tb.ImpulseResponse(lambda t: torch.exp(-t / s))
    expected = s * np.linalg.solve(np.eye(len(matrix)) + s * matrix, flat(f))
    assert relative_error(h(lap, f, method).reshape(-1, 2), torch.from_numpy(expected)) < TOLERANCE


@pytest.mark.parametrize("name", SPACES)
def test_the_scalar_bundle_knows_nothing_of_frames(name):
    """Its operator is the weighted graph's: D^-1 W D^-1 with unit rows, less the identity."""
    whole = bundle(name).scalar()
    lap = whole.laplacian(terms=1)
    graph = whole.graph
    weights = graph.to_scipy().toarray()
    kernel = whole.weights.kernel
    distances = np.linalg.norm(whole.points[:, None] - whole.points[None], axis=-1)
    weights = np.where(weights != 0, kernel(distances / np.sqrt(whole.eps)), 0.0)
    degree = weights.sum(1)
    weights = weights / np.outer(degree, degree)
    average = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(
        lap.to_dense(), (average - np.eye(len(average))) / lap.scale, atol=1e-9
    )


def test_heat_on_functions_conserves_and_smooths():
    lap = laplacian("torus", scalar=True)
    f = random_signal(lap)
    ones = torch.ones_like(f)
    for method in METHODS:
        for t in (lap.scale, 30 * lap.scale):
            y = tb.Heat(t)(lap, f, method)
            np.testing.assert_allclose(
                lap.inner(ones, y), lap.inner(ones, f), atol=1e-10
            )  # the amount of heat
            np.testing.assert_allclose(tb.Heat(t)(lap, ones, method), ones, atol=1e-10)
            assert (
                float(y.max()) <= float(f.max()) + 1e-10
                and float(y.min()) >= float(f.min()) - 1e-10
            )
            assert bool((lap.norm(y) < lap.norm(f)).all())


# Vector fields by dense exponentials, and graph convolution.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_heat_of_fields_is_the_dense_exponential(name, method):
    lap = laplacian(name)
    x = random_signal(lap)
    for t in (0.5 * lap.scale, 20 * lap.scale):
        expected = torch.from_numpy(expm(t * lap.to_scipy().toarray()) @ flat(x))
        assert relative_error(tb.Heat(t)(lap, x, method).reshape(-1, 2), expected) < TOLERANCE


@pytest.mark.parametrize(
    "method, scalar, calibrate", all_pairs(METHODS, [False, True], [False, True]), ids=str
)
def test_fir_filters_are_polynomials_of_a_shift(method, scalar, calibrate):
    """sum_k h_k S^k with S = e^Delta, and the step of the paper, one."""
    whole = bundle("torus").scalar() if scalar else bundle("torus")
    lap = whole.laplacian(calibrate=calibrate)
    x = random_signal(lap)
    for taps, step in (
        ([0.4, -0.9, 0.3, 0.7], lap.scale),
        ([0.2, 0.5, 0.3], 1.0 if not calibrate else 0.1),
    ):
        shift = expm(step * lap.to_dense().numpy())
        expected = sum(h * np.linalg.matrix_power(shift, k) @ flat(x) for k, h in enumerate(taps))
        got = tb.FIR(taps, step)(lap, x, method)
        assert relative_error(got.reshape(-1, 2), torch.from_numpy(expected)) < TOLERANCE


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_one_tap_is_a_multiple(method):
    """K = 1: nothing is diffused, and a layer only mixes channels."""
    lap = laplacian()
    x = random_signal(lap)
    np.testing.assert_allclose(tb.FIR([-1.7], 3.0)(lap, x, method), -1.7 * x, atol=1e-11)
    np.testing.assert_allclose(tb.Heat(0.0)(lap, x, method), x, atol=1e-11)
    np.testing.assert_allclose(tb.FIR([0.0], 3.0)(lap, x, method), 0 * x, atol=1e-11)


# Filters are an algebra of operators.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["S1", "S3", "Klein bottle"])
def test_filters_act_as_an_algebra(name, method):
    """Composition is one after the other, in any order; sums add; numbers scale."""
    lap = laplacian(name)
    x = random_signal(lap)
    kinds = list(filters(lap).values())
    for f, g in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        a, b = f(lap, x, method), g(lap, x, method)
        both = (f @ g)(lap, x, method)
        assert relative_error(both, f(lap, b, method)) < TOLERANCE
        assert relative_error(both, g(lap, a, method)) < TOLERANCE
        assert relative_error((f + 2.5 * g)(lap, x, method), a + 2.5 * b) < TOLERANCE
        assert relative_error((f - g)(lap, x, method), a - b) < TOLERANCE


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_heat_is_a_semigroup(method):
    lap = laplacian("Klein bottle")
    x = random_signal(lap)
    s, t = 2 * lap.scale, 7 * lap.scale
    twice = tb.Heat(s)(lap, tb.Heat(t)(lap, x, method), method)
    assert relative_error(twice, tb.Heat(s + t)(lap, x, method)) < TOLERANCE


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["S1", "S2", "S3"])
def test_filters_are_self_adjoint_and_linear(name, method):
    lap = laplacian(name)
    x, y = random_signal(lap, seed=1), random_signal(lap, seed=2)
    for h in filters(lap).values():
        np.testing.assert_allclose(
            lap.inner(h(lap, x, method), y),
            lap.inner(x, h(lap, y, method)),
            atol=1e-9 * float(h.response(0.0) + 10),
        )
        combined = h(lap, 2.0 * x - 3.0 * y, method)
        assert (
            relative_error(combined, 2.0 * h(lap, x, method) - 3.0 * h(lap, y, method)) < TOLERANCE
        )
    assert_self_adjoint(lap)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_gains_bound_norms(method):
    """In the mass norm, by the largest gain, and no more than that."""
    lap = laplacian("S3")
    x = random_signal(lap, channels=5)
    for taps in ([0.5, 0.3, 0.2], [0.0, 4.0, -4.0], [1.0, -1.0]):
        h = tb.FIR(taps, 2 * lap.scale)
        ratio = lap.norm(h(lap, x, method)) / lap.norm(x)
        assert float(ratio.max()) <= h.properties().gain + 1e-9


# Frequency.


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_transforms_invert_each_other_and_keep_norms(name, scalar):
    lap = laplacian(name, scalar)
    size = lap.shape[0]
    x = torch.stack([random_signal(lap, channels=3, seed=s) for s in range(2)])
    transform = lap.to_frequency(x)
    assert transform.shape == (2, size, 3)
    np.testing.assert_allclose(lap.from_frequency(transform), x, atol=1e-10)
    np.testing.assert_allclose(transform.square().sum(-2), lap.norm(x) ** 2, rtol=1e-10)  # Parseval
    y = random_signal(lap, channels=3, seed=9)
    product = (transform[0] * lap.to_frequency(y)).sum(0)
    np.testing.assert_allclose(product, lap.inner(x[0], y), atol=1e-10)
    spectrum = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(
        lap.to_frequency(lap.from_frequency(spectrum), 7), spectrum, atol=1e-10
    )
    np.testing.assert_allclose(lap.to_frequency(lap.from_frequency(spectrum))[7:], 0.0, atol=1e-10)


@pytest.mark.parametrize(
    "name, scalar, method",
    all_pairs(["S1", "S2", "S3", "Klein bottle"], [False, True], METHODS),
    ids=str,
)
def test_filters_are_pointwise_in_frequency(name, scalar, method):
    lap = laplacian(name, scalar)
    x = random_signal(lap)
    values = torch.as_tensor(lap.spectrum(lap.shape[0])[0])
    before = lap.to_frequency(x)
    for kind, h in filters(lap).items():
        after = lap.to_frequency(h(lap, x, method))
        expected = h.response(values)[:, None] * before
        np.testing.assert_allclose(after, expected, atol=1e-8, err_msg=kind)
    np.testing.assert_allclose(lap.to_frequency(lap @ x), -values[:, None] * before, atol=1e-7)


def test_low_frequencies_of_a_large_operator():
    """More fields than eigenvectors of a dense solver, in pairs of equal eigenvalues: a prefix
    stays a prefix."""
    points = Sphere(2).sample(400, seed=0)
    lap = tb.TangentBundle.from_points(points).laplacian()
    assert lap.shape[0] > 600
    x = np.random.default_rng(0).standard_normal((400, 2, 2))
    few = lap.to_frequency(x, 7)  # an odd number cuts through a pair
    assert isinstance(few, np.ndarray) and few.shape == (7, 2)
    back = lap.from_frequency(few)
    more = lap.to_frequency(x, 40)
    np.testing.assert_allclose(more[:7], few, atol=1e-8)
    np.testing.assert_array_equal(lap.to_frequency(x, 7), more[:7])
    np.testing.assert_allclose(lap.from_frequency(few), back, atol=1e-8)
    fields = lap._fields(40).numpy()
    gram = np.einsum("n,ndi,ndj->ij", lap.mass.numpy(), fields, fields)
    np.testing.assert_allclose(gram, np.eye(40), atol=1e-8)
    values = lap.spectrum(40)[0]
    residual = lap @ fields + values * fields
    assert np.abs(residual).max() < 1e-5 * values[-1] * np.abs(fields).max()
    # what is above is lost, what is below is kept
    smooth = lap.from_frequency(more)
    np.testing.assert_allclose(lap.to_frequency(smooth, 40), more, atol=1e-8)
    assert float(lap.norm(smooth).max()) < float(lap.norm(x).min())


def test_transforms_in_single_precision():
    single = bundle("S2", torch.float32).laplacian()
    x = random_signal(single)
    transform = single.to_frequency(x)
    assert transform.dtype == torch.float32
    assert relative_error(single.from_frequency(transform), x) < 1e-5
    few = single.to_frequency(x, 4)
    assert relative_error(few, transform[:4]) < 1e-5


def test_transforms_have_gradients():
    lap = laplacian("S1")
    x = random_signal(lap).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: lap.to_frequency(s, 5), x)
    spectrum = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lap.from_frequency, spectrum)


def test_bad_transforms():
    lap = laplacian()
    x, size = random_signal(lap), lap.shape[0]
    for _ in range(2):  # with nothing kept, and with all fields kept
        for k in (0, -1, size + 1, 2.5, "3", True):
            with pytest.raises(InvalidInputError, match="k must"):
                lap.to_frequency(x, k)
        lap.to_frequency(x)
    with pytest.raises(ShapeError, match="channel axis"):
        lap.to_frequency(x[..., 0])
    for shape in ((size + 1, 2), (5,), (0, 2)):
        with pytest.raises(ShapeError, match=r"\(\.\.\., k, c\)"):
            lap.from_frequency(torch.zeros(shape, dtype=torch.float64))
    with pytest.raises(DTypeError, match="convert one"):
        lap.from_frequency(torch.zeros(5, 2))


# Equivariance.


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["S1", "S2", "S3", "Klein bottle"])
def test_equivariance(name, method):
    """The field that comes out does not depend on the frames, and turns with space."""
    whole = bundle(name)
    scale = whole.laplacian().scale
    for h in (tb.Heat(5 * scale), tb.FIR([0.5, -0.3, 0.8], scale), tb.Tikhonov(scale)):
        assert_gauge_equivariant(lambda lap, x, h=h: h(lap, x, method), whole, tol=1e-8)
        assert_rotation_equivariant(lambda lap, x, h=h: h(lap, x, method), whole, tol=1e-8)


@pytest.mark.parametrize("name", ["S1", "S2", "S3"])
def test_equivariance_in_single_precision(name):
    whole = bundle(name, torch.float32)
    h = tb.Heat(5 * whole.laplacian().scale)
    for method in (tb.Exact(), tb.Chebyshev(1e-6)):
        assert_gauge_equivariant(lambda lap, x, m=method: h(lap, x, m), whole)
        assert_rotation_equivariant(lambda lap, x, m=method: h(lap, x, m), whole)


def test_the_check_has_teeth():
    """A map that looks at coordinates depends on the frames."""
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_gauge_equivariant(lambda lap, x: torch.tanh(tb.Heat(0.1)(lap, x)), bundle())


def test_the_order_of_the_points_does_not_matter():
    points = SPACES["Klein bottle"][0].sample(120, seed=0)
    mix = np.random.default_rng(0).permutation(120)
    first = tb.TangentBundle.from_points(points, dim=2)
    second = tb.TangentBundle.from_points(points[mix], dim=2)
    field = np.random.default_rng(1).standard_normal((120, 4))
    h = tb.FIR([0.2, 0.5, 0.3], first.laplacian().scale)
    outputs = []
    for whole, vectors in ((first, field), (second, field[mix])):
        y = h(whole.laplacian(), whole.to_coordinates(vectors), tb.Chebyshev(1e-11))
        outputs.append(whole.to_ambient(y))
    np.testing.assert_allclose(outputs[1], outputs[0][mix], atol=1e-8)
