r"""The Laplacian as a function of an average P that is nearly :math:`e^{c\,\epsilon\Delta}`, and
its constant c."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander

from ..errors import InvalidInputError

Moments = Callable[[int], np.ndarray]
r"""Chebyshev moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` of the coordinates,
``(2 terms - 1,)``."""

WINDOW = (2.0, 8.0)
"""Diffusion times of the low-pass, in steps of P: from a few averages to what the moments
resolve."""

PLATEAU = 0.25
"""Largest change of the energy for each e-fold of the diffusion time, in units of the correction. A
boundary removes energy as the root of the time, which changes it by half; a plateau does not
change. The limit is in the middle."""


@dataclass(frozen=True)
class Generator:
    r"""Eigenvalues of :math:`-\Delta` from those of an average P that is nearly
    :math:`e^{s\Delta}`.

    .. math:: -\Delta = \frac{1}{s} \sum_{k=1}^{terms} \frac{(I - P)^k}{k}
              \;\to\; -\frac{1}{s} \log P .

    The logarithm itself does not exist where P has negative eigenvalues; the sums are defined
    everywhere and increase with 1 - p. ``scale`` is s.

    >>> [round(Generator(0.1, terms)(0.2), 3) for terms in (1, 2, 3)]  # -log(0.8) / 0.1 = 2.231
    [2.0, 2.2, 2.227]
    """

    scale: float
    terms: int = 1

    @property
    def coefficients(self) -> list[float]:
        r"""Those of :math:`1 - p, (1 - p)^2, \dots`"""
        return [1 / (k * self.scale) for k in range(1, self.terms + 1)]

    def __call__(self, deficit: Any) -> Any:
        """Eigenvalues for ``deficit = 1 - p``: a number, an array or a tensor."""
        total = 0.0 * deficit
        for coefficient in reversed(self.coefficients):
            total = (total + coefficient) * deficit
        return total


class Calibration(ABC):
    """How the Laplacian's constant is found; an argument of ``TangentBundle.laplacian``."""

    @abstractmethod
    def factor(self, moments: Moments, dim: int, scale: float) -> float:
        r"""What the kernel's constant is multiplied by; ``scale`` is the kernel's
        :math:`c\,\epsilon`."""


@dataclass(frozen=True)
class KernelMoments(Calibration):
    """By integrals of the kernel: exact as the number of neighbours grows."""

    def factor(self, moments: Moments, dim: int, scale: float) -> float:
        return 1.0


@dataclass(frozen=True)
class SampleEnergy(Calibration):
    r"""By the energy of the coordinates at low frequencies: exact for the sample at hand.

    On every manifold :math:`\sum_a |\nabla x_a|^2 = d`. The part of that energy that P holds at low
    frequencies, over d, is the factor by which the sample diffuses faster or slower than the
    kernel's integrals say (docs: theory/calibration). It costs ``terms`` products with functions.
    Where that energy has no plateau, as on clouds that are only a few neighbourhoods wide or have a
    boundary, the kernel's constant stays.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(3000, seed=0), neighbors=20
    ... )
    >>> for calibration in (KernelMoments(), SampleEnergy()):
    ...     print(
    ...         round(float(bundle.laplacian(calibrate=calibration).spectrum(6)[0].mean()), 2)
    ...     )  # exact: 1
    0.93
    1.0
    """

    terms: int = 24

    def factor(self, moments: Moments, dim: int, scale: float) -> float:
        return float(self.factors(moments(self.terms).reshape(-1, 1), dim, np.array([scale]))[0])

    def factors(self, moments: np.ndarray, dim: int, scale: np.ndarray) -> np.ndarray:
        """Those of several clouds ``(b,)``, from moments ``(2 terms - 1, b)`` and scales of the
        kernel ``(b,)``."""
        lost = np.maximum(moments[0] - moments[1], np.finfo(float).tiny)
        # between neighbourhoods and shape
        longest = np.minimum(WINDOW[1], np.sqrt(moments[0] / lost) / 2)
        has_window = (moments[0] > moments[1]) & (longest > WINDOW[0])
        factors = np.ones(len(scale))
        factors[has_window] = _plateau_factors(
            moments[:, has_window], dim, scale[has_window], longest[has_window]
        )
        return factors


def _plateau_factors(
    moments: np.ndarray, dim: int, scale: np.ndarray, longest: np.ndarray
) -> np.ndarray:
    """The energy over d where it changes least with the diffusion time, up to the ``longest`` of
    each cloud ``(b,)``; one where it has no plateau."""
    times = np.geomspace(WINDOW[0], longest, 9)
    energies = smooth_energy(moments, times)
    later_energies = smooth_energy(moments, 2.0 * times)
    gain = 2.0 ** (dim / 2)  # fluctuations left at time t have as many modes as t^(-d/2)
    limits = (gain * later_energies - energies) / (gain - 1) / (dim * scale)
    slopes = np.abs(np.diff(limits, axis=0) / np.diff(np.log(times), axis=0))
    flattest = np.argmin(slopes, axis=0)[None]
    kappa = np.take_along_axis((limits[1:] + limits[:-1]) / 2, flattest, axis=0)[0]
    slope = np.take_along_axis(slopes, flattest, axis=0)[0]
    is_steady = (kappa > 0) & (slope < PLATEAU * np.abs(kappa - 1))
    return np.where(is_steady, kappa, 1.0)


def smooth_energy(moments: np.ndarray, times: np.ndarray) -> np.ndarray:
    r"""The energy :math:`\langle x, \lambda\, (1 - (1 - e^{-t\lambda})^4)\, x \rangle` in steps of
    P, from moments.

    Moments ``(m, b)`` and times ``(k, b)`` of b clouds give ``(k, b)``; the response is
    interpolated at m nodes.
    """
    m = len(moments)
    nodes = chebpts1(m)
    weights = chebvander(nodes, m - 1) @ (
        np.where(np.arange(m) == 0, 1 / m, 2 / m)[:, None] * moments
    )
    lam = Generator(1.0, terms=3)(1.0 - nodes)[:, None, None]
    passed = np.square(np.square(1.0 - np.exp(-times * lam)))
    return np.einsum("mkb,mb->kb", lam * (1.0 - passed), weights)


def calibrated_scale(
    calibrate: Calibration | bool, constant: float, eps: float, dim: int, moments: Moments
) -> tuple[float, int]:
    """The Laplacian's scale and usual order, from the kernel's constant; the paper's for
    ``calibrate=False``."""
    if calibrate is False:
        return eps, 1
    calibration = calibrate
    if calibrate is True:
        calibration = SampleEnergy()
    if not isinstance(calibration, Calibration):
        raise InvalidInputError(
            f"calibrate must be False, or such as operators.SampleEnergy(), got {calibrate!r}."
        )
    return constant * eps * calibration.factor(moments, dim, constant * eps), 2
