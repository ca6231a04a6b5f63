r"""Radial weights :math:`k(u)`, supported on :math:`0 \le u \le 1`, with exact moments.

The paper prints the increasing weight ``exp(+u)``; a decreasing one is meant (Singer and Wu,
2012), and its truncation must be the same in the degrees and in the blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special

from ..arrays import host, positive
from ..errors import InvalidInputError


class Kernel(ABC):
    r"""A decreasing weight on [0, 1]; subclass it and define ``profile``.

    Moments over :math:`\mathbb{R}^d` are
    :math:`m_p = \int |u|^p k(|u|)\,du = |S^{d-1}| \int_0^1 r^{p+d-1} k(r)\,dr`.
    """

    @abstractmethod
    def profile(self, u: Any) -> Any:
        """Weight at ``u`` in [0, 1]: an array, or a tensor if points are on a device."""

    def __call__(self, u: Any) -> Any:
        """Weight at any ``u >= 0``, an array or a tensor: the profile inside the support, zero
        outside.

        >>> float(Uniform()(np.array(0.5))), float(Uniform()(np.array(1.5)))
        (1.0, 0.0)
        """
        if isinstance(u, torch.Tensor):
            try:
                inside = self.profile(u.clamp_max(1.0))
            except TypeError:  # written for NumPy alone
                inside = self.profile(host(u.clamp_max(1.0)))
            return torch.where(u <= 1.0, torch.as_tensor(inside).to(u), 0.0)
        return np.where(u <= 1.0, self.profile(np.minimum(u, 1.0)), 0.0)

    def radial_moment(self, p: float) -> float:
        r""":math:`\int_0^1 r^p k(r)\,dr`; overridden where it is known in closed form."""
        from scipy import integrate  # takes a third of a second to load

        return integrate.quad(lambda r: r**p * float(self.profile(np.asarray(r))), 0.0, 1.0)[0]

    def moment(self, p: int, d: int) -> float:
        r""":math:`m_p = \int_{\mathbb{R}^d} |u|^p k(|u|)\,du`.

        >>> round(Uniform().moment(0, 2) / np.pi, 12)  # area of the unit disc
        1.0
        """
        if d < 1:
            raise InvalidInputError(f"a moment needs a dimension d >= 1, got {d}.")
        sphere = 2.0 * np.pi ** (d / 2) / special.gamma(d / 2)
        return float(sphere * self.radial_moment(p + d - 1))

    def calibration(self, d: int) -> float:
        r"""The constant :math:`c = m_2 / (2 d\, m_0)`.

        :math:`(M^{-1}S - I) / (c\,\epsilon)` converges to the connection Laplacian itself; with the
        paper's :math:`c = 1` it converges to a multiple of it.

        >>> round(Epanechnikov().calibration(2), 6)
        0.083333
        """
        return self.moment(2, d) / (2 * d * self.moment(0, d))


@dataclass(frozen=True)
class Gaussian(Kernel):
    r""":math:`k(u) = e^{-a u^2}` on [0, 1]; ``sharpness`` is :math:`a`. The default kernel."""

    sharpness: float = 1.0

    def __post_init__(self) -> None:
        positive(self.sharpness, "sharpness")

    def profile(self, u: Any) -> Any:
        exponent = -self.sharpness * (u * u)
        return exponent.exp() if isinstance(u, torch.Tensor) else np.exp(exponent)

    def radial_moment(self, p: float) -> float:
        half = (p + 1) / 2
        incomplete = special.gammainc(half, self.sharpness) * special.gamma(half)
        return float(incomplete / (2 * self.sharpness**half))


@dataclass(frozen=True)
class Power(Kernel):
    r""":math:`k(u) = (1 - u^2)^m` on [0, 1]."""

    exponent: float

    def __post_init__(self) -> None:
        if self.exponent != 0:
            positive(self.exponent, "an exponent other than 0")

    def profile(self, u: Any) -> Any:
        return (1.0 - u * u) ** self.exponent

    def radial_moment(self, p: float) -> float:
        return float(0.5 * special.beta((p + 1) / 2, self.exponent + 1))


def Uniform() -> Power:
    """Weight one inside the support."""
    return Power(0.0)


def Epanechnikov() -> Power:
    r""":math:`1 - u^2`."""
    return Power(1.0)


def Biweight() -> Power:
    r""":math:`(1 - u^2)^2`: twice differentiable inside, as the paper asks of its PCA kernel."""
    return Power(2.0)


def check_kernel(kernel: Kernel | None) -> Kernel:
    """The kernel given, or the default; all else is refused."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InvalidInputError(
            f"kernel must be an instance such as kernels.Gaussian(), got {kernel!r}."
        )
    if kernel is None:
        return Gaussian()
    return kernel
