"""The filters: heat, finite and continuous impulse responses, polynomials, and any function of the eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from ..arrays import finite
from ..errors import InvalidInputError
from .base import Filter, Impulses, Parametric, as_double, nonnegative_scalar, positive_scalar, vector


@dataclass(eq=False)
class Heat(Parametric):
    r"""Heat flow for a time t: :math:`e^{t\Delta}`, response :math:`e^{-t\lambda}`. ``t`` may be a tensor to learn.

    >>> import tangentbundle as tb
    >>> str(tb.Heat(0.5).properties((0.0, 100.0)))
    'lowpass: yes, Lipschitz constant 0.5, largest gain 1 (non-amplifying) on eigenvalues from 0 to 100'
    """

    t: Any
    checks = (nonnegative_scalar,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return torch.exp(-self.t * lam)

    def impulses(self) -> Impulses:
        t = as_double(self.t)[None]
        return Impulses(t, torch.ones_like(t))


@dataclass(eq=False)
class FIR(Parametric):
    r"""The discretised filter of the paper: :math:`\sum_{k=0}^{K-1} h_k\, e^{k T_s \Delta}`.

    ``coefficients`` :math:`h_0, \dots, h_{K-1}` start with the identity tap, as in the paper's text; ``step`` is
    :math:`T_s`. Both may be tensors to learn.

    >>> import tangentbundle as tb
    >>> h = tb.FIR([0.5, 0.3, 0.2], step=0.05)
    >>> h.is_lowpass(), h.is_nonamplifying(), round(h.lipschitz(), 6)
    (False, True, 0.035)
    """

    coefficients: Any
    step: Any = 1.0
    checks = (vector, positive_scalar)

    def impulses(self) -> Impulses:
        h = as_double(self.coefficients)
        return Impulses(torch.arange(len(h), dtype=h.dtype, device=h.device) * self.step, h)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        shift = torch.exp(-self.step * lam)
        total = torch.zeros_like(shift)
        for h in reversed(self.coefficients):
            total = total * shift + h
        return total


def _quadrature(horizon: float, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Times and weights on [0, horizon]: Gauss-Legendre panels, ``splits`` in each of 41 octaves."""
    octaves = horizon * np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 1.0)])
    edges = np.concatenate([np.linspace(a, b, splits + 1)[:-1] for a, b in pairwise(octaves)] + [[horizon]])
    points, weights = np.polynomial.legendre.leggauss(12)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    times = torch.from_numpy((middle[:, None] + half[:, None] * points).ravel())
    return times, torch.from_numpy((half[:, None] * weights).ravel())


@dataclass(eq=False)
class ImpulseResponse(Filter):
    r"""A continuous impulse response :math:`\tilde h(t)`, by quadrature on [0, horizon].

    ``function`` takes and gives torch tensors. Gauss-Legendre panels shrink towards t = 0, so that responses at large
    eigenvalues are as exact as at small ones. Without a ``horizon`` it is where the function has decayed to 1e-14 of
    its largest value; a function that does not decay needs one.

    >>> import numpy as np, torch, tangentbundle as tb
    >>> g = tb.ImpulseResponse(lambda t: t * torch.exp(-t))
    >>> bool(np.allclose(g.response(np.array([0.0, 3.0])), [1.0, 1 / 16], rtol=1e-9))
    True
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    horizon: float | None = None
    _nodes: tuple[torch.Tensor, torch.Tensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.horizon = self._decay() if self.horizon is None else float(positive_scalar(self.horizon, "horizon"))
        for splits in (4, 8, 16, 32):
            coarse, self._nodes = (_quadrature(self.horizon, count) for count in (splits, 2 * splits))
            rough, sums = ((w * self._values(t)).reshape(41, -1) for t, w in (coarse, self._nodes))
            finite(sums, "the impulse response")
            if (rough.sum(1) - sums.sum(1)).abs().sum() <= 1e-7 * sums.abs().sum():
                return
        raise InvalidInputError(
            f"quadrature does not follow this impulse response on [0, {self.horizon:.4g}]: it jumps or oscillates. End "
            "the horizon at a jump, add several impulse responses, or use FIR."
        )

    def _values(self, times: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.function(times), dtype=times.dtype).detach().expand(times.shape)

    def _decay(self) -> float:
        grid = torch.logspace(-12, 8, 2001, dtype=torch.float64)
        size = self._values(grid).abs()
        finite(size, "the impulse response")
        alive = torch.nonzero(size > 1e-14 * size.max())
        if len(alive) == 0 or int(alive[-1]) == len(grid) - 1:
            raise InvalidInputError("this impulse response does not decay (or is zero); give horizon=...")
        return float(grid[int(alive[-1]) + 1])

    def impulses(self) -> Impulses:
        times, weights = self._nodes
        return Impulses(times, weights * self.function(times))

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        parts = self.impulses()
        times, weights = parts.times.to(lam.device), parts.weights.to(lam.device)
        flat = torch.cat([torch.exp(-block[:, None] * times) @ weights for block in lam.reshape(-1).split(4096)])
        return flat.reshape(lam.shape)


@dataclass(eq=False)
class Polynomial(Parametric):
    r"""The paper's alternative algebra: :math:`\sum_k h_k \Delta^k`, response :math:`\sum_k h_k (-\lambda)^k`.

    (The paper writes the response with :math:`\lambda^k`; the sign follows from :math:`\Delta \Phi = -\lambda \Phi`.)

    >>> import tangentbundle as tb
    >>> float(tb.Polynomial([1.0, -0.2]).response([3.0])[0])
    1.6
    """

    coefficients: Any
    checks = (vector,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(lam)
        for h in reversed(self.coefficients):
            total = h - lam * total
        return total


@dataclass(eq=False)
class Spectral(Filter):
    r"""Any response, as a torch function of :math:`\lambda`; ``tensors`` lists those it learns.

    >>> import torch, tangentbundle as tb
    >>> bool(tb.Spectral(lambda lam: 1 / (1 + lam) ** 2).is_lowpass())
    True
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    name: str = "Spectral"
    tensors: tuple[torch.Tensor, ...] = ()

    def __repr__(self) -> str:
        return self.name

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInputError(f"expected a function of the eigenvalues, a tensor, got {self.function!r}.")

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        found = self.function(lam)
        try:
            values = torch.as_tensor(found, device=lam.device).expand(lam.shape)
        except (TypeError, ValueError, RuntimeError) as error:
            values, problem = None, error
        if values is None or values.is_complex():
            raise InvalidInputError(
                f"the function of {self} must return a real number for each of the {lam.numel()} eigenvalues, got "
                f"{found!s:.80}."
            ) from (problem if values is None else None)
        return values.to(lam.dtype)

    def parameters(self) -> list[torch.Tensor]:
        return list(self.tensors)


@dataclass(eq=False)
class Tikhonov(Parametric):
    r"""The smoother :math:`1/(1 + a\lambda)`: minimises :math:`|y - x|^2 + a \langle y, -\Delta y \rangle`."""

    strength: Any
    checks = (nonnegative_scalar,)

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return 1 / (1 + self.strength * lam)
