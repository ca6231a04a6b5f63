"""Weights and their moments, against numerical quadrature."""

import numpy as np
import pytest
from scipy import integrate
from spaces import KERNELS

from tangentbundle.errors import InvalidInputError
from tangentbundle.geometry.kernels import Biweight, Epanechnikov, Gaussian, Kernel, Power, Uniform

ALL = [*KERNELS, Gaussian(0.2), Gaussian(50.0), Power(0.5), Power(3.0)]


class Plain(Kernel):
    """A user's kernel: only the profile is given, the moments follow."""

    def profile(self, u):
        return 1.0 - u


def numerical_moment(kernel, p, d):
    r"""The sphere's area by the recurrence |S^{d-1}| = 2 pi / (d - 2) |S^{d-3}|; the radius by
    quadrature."""
    area = 2.0 if d % 2 else 2 * np.pi
    for m in range(3 if d % 2 else 4, d + 1, 2):
        area *= 2 * np.pi / (m - 2)
    return (
        area
        * integrate.quad(
            lambda r: r ** (p + d - 1) * float(kernel(np.asarray(r))), 0, 1, epsabs=1e-13
        )[0]
    )


@pytest.mark.parametrize("d", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    "kernel", [*ALL, Plain()], ids=lambda kernel: repr(kernel).split(" at ")[0]
)
def test_moments_equal_quadrature(kernel, d):
    for p in (0, 1, 2, 4):
        assert kernel.moment(p, d) == pytest.approx(numerical_moment(kernel, p, d), rel=1e-8)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_moments_over_a_cube_in_the_plane(kernel):
    """An integral that knows nothing of polar coordinates."""
    for p in (0, 2):
        value, _ = integrate.dblquad(
            lambda y, x, p=p: np.hypot(x, y) ** p * float(kernel(np.asarray(np.hypot(x, y)))),
            0,
            1,
            0,
            lambda x: np.sqrt(max(0.0, 1 - x * x)),
            epsabs=1e-7,
        )
        assert kernel.moment(p, 2) == pytest.approx(4 * value, rel=1e-5)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_calibration_makes_the_average_the_laplacian_of_flat_space(kernel, d):
    """The average of |x|^2 over the kernel at the origin is c eps times its Laplacian, 2 d."""
    average = numerical_moment(kernel, 2, d) / numerical_moment(kernel, 0, d)  # eps = 1
    assert kernel.calibration(d) * 2 * d == pytest.approx(average, rel=1e-8)


def test_known_constants():
    # c = m2 / (2 d m0); for the uniform ball m2 / m0 = d / (d + 2), for 1 - u^2 it is d / (d + 4).
    for d in range(1, 9):
        assert Uniform().calibration(d) == pytest.approx(1 / (2 * (d + 2)))
        assert Epanechnikov().calibration(d) == pytest.approx(1 / (2 * (d + 4)))
        assert Biweight().calibration(d) == pytest.approx(1 / (2 * (d + 6)))
        # A sharp Gaussian does not feel its truncation: m2 / m0 = d / (2 a).
        assert Gaussian(60.0).calibration(d) == pytest.approx(1 / 240)
    assert Uniform().moment(0, 3) == pytest.approx(4 / 3 * np.pi)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_support_and_monotony(kernel):
    u = np.linspace(0, 1, 101)
    weights = kernel(u)
    assert weights[0] == 1.0
    assert (np.diff(weights) <= 0).all() and (weights >= 0).all()
    assert (kernel(np.array([1.0 + 1e-12, 1.5, 1e9, np.inf])) == 0).all()
    assert kernel(np.array(1.0)) == pytest.approx(float(kernel.profile(np.array(1.0))))


def test_same_parameters_are_the_same_kernel():
    assert Gaussian(2.0) == Gaussian(2.0) != Gaussian(3.0)
    assert Epanechnikov() == Power(1.0) and Biweight() == Power(2.0) and Uniform() == Power(0.0)
    assert len({Gaussian(), Gaussian(), Power(1.0)}) == 2


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, "1", None, 1j, True, [1.0]])
def test_bad_sharpness(bad):
    with pytest.raises(InvalidInputError, match="sharpness"):
        Gaussian(bad)


@pytest.mark.parametrize("bad", [-0.5, np.nan, np.inf, "1", None, True])
def test_bad_exponent(bad):
    with pytest.raises(InvalidInputError, match="exponent"):
        Power(bad)


@pytest.mark.parametrize("d", [0, -1])
def test_moments_need_a_dimension(d):
    with pytest.raises(InvalidInputError, match="d >= 1"):
        Gaussian().moment(0, d)
