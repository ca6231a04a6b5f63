r"""Coefficients that are lowpass and non-amplifying by construction.

An FIR response is a polynomial in :math:`z = e^{-T_s \lambda}`, in Bernstein form :math:`\sum_j b_j \binom{N}{j} z^j
(1-z)^{N-j}` an average of the :math:`b_j`: non-amplifying if :math:`|b_j| \le 1`, and lowpass if :math:`b_0 = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import torch

from ..errors import InvalidInputError


@dataclass(frozen=True)
class LowpassNonAmplifying:
    r"""A constraint of layers: the filter between every two channels is lowpass and non-amplifying.

    ``TNN(..., constraint=LowpassNonAmplifying())`` trains under assumptions A1 and A2 of Theorem 1 of the paper:
    :math:`|\hat h(\lambda)| \le 1` and :math:`\hat h(\lambda) = O(\lambda^{-2})` for each filter, that is, for each
    pair of an input and an output channel. (Any FIR filter is Lipschitz.) It does not bound the norm of a layer, in
    which every output adds up one filter for each input channel.

    As a function it maps free numbers ``(taps - 1, ...)`` to FIR coefficients ``(taps, ...)``. The map is smooth and
    reaches every filter with Bernstein coefficients inside (-1, 1), less a margin for rounding: :math:`3^{taps - 1}`
    units in the last place.

    >>> import tangentbundle as tb
    >>> h = tb.FIR(LowpassNonAmplifying()(torch.tensor([3.0, -1.0, 0.5])), step=0.1)
    >>> h.is_lowpass(), h.is_nonamplifying()
    (True, True)
    """

    def __call__(self, free: torch.Tensor) -> torch.Tensor:
        degree = len(free)
        if degree < 1:
            raise InvalidInputError("a lowpass FIR filter needs at least 2 taps (the first is zero), got 1.")
        margin = torch.finfo(free.dtype).eps * 3.0**degree
        if margin > 0.1:
            raise InvalidInputError(
                f"{degree + 1} taps in {free.dtype} cannot promise to amplify nothing: their rounding can reach "
                f"{margin:.2g}. Use fewer taps or float64."
            )
        differences = torch.cat([torch.zeros_like(free[:1]), (1.0 - margin) * torch.tanh(free)])
        taps = []
        for k in range(degree + 1):  # the k-th coefficient is a binomial of the k-th difference of the b_j
            taps.append(comb(degree, k) * differences[0])
            differences = differences.diff(dim=0)
        return torch.stack(taps)
