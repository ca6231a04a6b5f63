r"""Coefficients that are lowpass and non-amplifying by construction, for training under the paper's assumptions.

Theorem 1 of the paper asks for lowpass, non-amplifying, Lipschitz filters, and notes that training could enforce it.
An FIR response is a polynomial in :math:`z = e^{-T_s \lambda} \in (0, 1]`. In Bernstein form, :math:`\sum_j b_j
\binom{N}{j} z^j (1-z)^{N-j}`, it is an average of the :math:`b_j`: with :math:`|b_j| \le 1` it is non-amplifying, and
with :math:`b_0 = 0` it vanishes at :math:`z = 0`, that is, it is lowpass.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import comb

from ..errors import InvalidInputError


def bernstein_matrix(taps: int) -> np.ndarray:
    r"""The matrix ``(taps, taps)`` from Bernstein to monomial coefficients, degree ``taps - 1``.

    >>> bernstein_matrix(3).tolist()
    [[1.0, 0.0, 0.0], [-2.0, 2.0, 0.0], [1.0, -2.0, 1.0]]
    """
    n = taps - 1
    k, j = np.meshgrid(np.arange(taps), np.arange(taps), indexing="ij")
    return np.where(k >= j, comb(n, j) * comb(n - j, k - j) * (-1.0) ** (k - j), 0.0)


class LowpassNonAmplifying(torch.nn.Module):
    """Free numbers ``(taps - 1, ...)`` to FIR coefficients ``(taps, ...)`` that are lowpass and non-amplifying.

    The map is smooth and reaches every filter with Bernstein coefficients inside (-1, 1), less a margin for rounding:
    :math:`3^{taps - 1}` units in the last place. Use it with ``torch.nn.utils.parametrize`` or call it on your own
    parameter.

    >>> import tangentbundle as tb
    >>> h = tb.FIR(LowpassNonAmplifying(4)(torch.tensor([3.0, -1.0, 0.5])), step=0.1)
    >>> h.is_lowpass(), h.is_nonamplifying()
    (True, True)
    """

    def __init__(self, taps: int) -> None:
        super().__init__()
        if taps < 2:
            raise InvalidInputError(f"a lowpass FIR filter needs at least 2 taps (the first is zero), got {taps}.")
        self.register_buffer("matrix", torch.from_numpy(bernstein_matrix(taps)[:, 1:].copy()))

    def forward(self, free: torch.Tensor) -> torch.Tensor:
        margin = torch.finfo(free.dtype).eps * 3.0 ** len(free)
        if margin > 0.1:
            raise InvalidInputError(
                f"{len(free) + 1} taps in {free.dtype} cannot promise to amplify nothing: their rounding can reach "
                f"{margin:.2g}. Use fewer taps or float64."
            )
        h = torch.tensordot(self.matrix.to(free), (1.0 - margin) * torch.tanh(free), dims=1)
        return torch.cat([torch.zeros_like(h[:1]), h[1:]])
