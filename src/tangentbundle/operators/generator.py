"""The Laplacian as a function of an average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Generator:
    r"""Eigenvalues of :math:`-\Delta` from those of an average P that is nearly :math:`e^{s\Delta}`.

    .. math:: -\Delta = \frac{1}{s} \sum_{k=1}^{order} \frac{(I - P)^k}{k} \;\to\; -\frac{1}{s} \log P .

    The logarithm itself does not exist where P has negative eigenvalues; the sums are defined everywhere and increase
    with 1 - p. ``scale`` is s.

    >>> [round(Generator(0.1, order)(0.2), 3) for order in (1, 2, 3)]      # -log(0.8) / 0.1 = 2.231
    [2.0, 2.2, 2.227]
    """

    scale: float
    order: int = 1

    @property
    def coefficients(self) -> list[float]:
        r"""Those of :math:`1 - p, (1 - p)^2, \dots`"""
        return [1 / (k * self.scale) for k in range(1, self.order + 1)]

    def __call__(self, deficit: Any) -> Any:
        """Eigenvalues for ``deficit = 1 - p``: a number, an array or a tensor."""
        total = 0.0 * deficit
        for coefficient in reversed(self.coefficients):
            total = (total + coefficient) * deficit
        return total
