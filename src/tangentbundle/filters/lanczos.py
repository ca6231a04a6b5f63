"""Filters by Lanczos iteration, one Krylov space a channel, all channels at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..arrays import finite, positive_integer
from ..errors import ConvergenceError, InvalidInputError
from ..memory import require_memory
from ..operators import ConnectionLaplacian
from ..operators.spectrum import krylov
from .chebyshev import band_of, dots
from .expansion import expand, fixed_order, require_finite, require_tolerance
from .methods import Method

if TYPE_CHECKING:
    from .base import Filter

CHECK_EVERY = 8
"""Steps between two estimates of the error."""


def _tridiagonal(alpha: list[torch.Tensor], beta: list[torch.Tensor]) -> torch.Tensor:
    """Symmetric tridiagonal matrices ``(c, m, m)``."""
    off = torch.stack(beta[:-1], dim=-1) if len(beta) > 1 else alpha[0].new_empty((len(alpha[0]), 0))
    return torch.diag_embed(torch.stack(alpha, dim=-1)) + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)


def _filtered(filters, operator, alpha, beta):
    r"""``h(T) e_1`` in the basis ``(k, c, m)`` for each filter, and a bound ``(k, c)`` of its distance from the truth.

    With Ritz pairs :math:`(\theta_i, s_i)` of I - P, the next Lanczos vector v and divided differences of the response,
    the error is :math:`\beta \sum_i s_{1i} s_{mi}\, h[I - P, \theta_i]\, v`: at most beta times the largest value of
    the sum over the spectrum, which is looked for on a grid, dense near zero. That two iterates agree says less: while
    no Ritz value has come down to 1/t, both give zero for heat.
    """
    high, eigenvalue = operator.largest_deficit, operator.generator
    values, vectors = torch.linalg.eigh(_tridiagonal(alpha, beta))
    theta = (-values).clamp_min(0.0)
    shares = np.concatenate(
        [[0.0], np.geomspace(1e-12, 1e-3, 31), (1 - np.cos(np.linspace(0, np.pi, 2 * len(beta)))) / 2]
    )
    grid = torch.from_numpy(high * shares).to(theta)
    h_theta, h_grid = (
        require_finite(torch.stack([f.evaluate(eigenvalue(at)).to(at) for f in filters]), eigenvalue(high))
        for at in (theta, grid)
    )
    first, last = vectors[:, 0, :], vectors[:, -1, :]
    gaps = grid[:, None] - theta[:, None, :]
    away = gaps.abs().amin(-1, keepdim=True) > 1e-6 * high  # elsewhere the differences are rounding
    quotients = torch.where(away, (first * last)[:, None, :] / gaps, 0.0)
    sums = h_grid[:, None, :] * quotients.sum(-1) - torch.einsum("cgm,kcm->kcg", quotients, h_theta)
    bound = sums.abs().amax(-1) * beta[-1]
    return torch.einsum("cij,kcj->kci", vectors, h_theta * first), bound


def _iterate(filters, operator, x, tol, max_steps):
    finite(x, "signal")
    max_steps = min(max_steps, operator.shape[0])
    for basis, alpha, beta, norm in krylov(operator, x, max_steps):
        steps = len(alpha)
        if steps % CHECK_EVERY == 1 and x.device.type == "cpu":  # the basis so far is allocated already
            need, remedy = x.nbytes * (steps + 2 * CHECK_EVERY), "Use method=Chebyshev(), or fewer channels at once."
            require_memory(need, f"{steps + CHECK_EVERY} Lanczos steps of {x.shape[-1]} channels", remedy)
        exhausted = steps == operator.shape[0] or bool((beta[-1] == 0).all())
        if steps % CHECK_EVERY and not exhausted and steps < max_steps:
            continue
        parts, bound = _filtered(filters, operator, alpha, beta)
        if exhausted or bool((bound <= tol).all()):
            return torch.einsum("kci,indc->kndc", (parts * norm[:, None]).to(x.dtype), torch.stack(basis))
    raise ConvergenceError(
        f"Lanczos has not reached tol={tol:g} after {max_steps} steps (the error may be {float(bound.max()):.2g} of "
        "the signal). Give more max_steps, a looser tol, or use Chebyshev()."
    )


class _Lanczos(torch.autograd.Function):
    """Linear and mass-self-adjoint in x; derivatives in the parameters go through Chebyshev coefficients."""

    @staticmethod
    def forward(ctx: Any, x, coefficients, filters, operator, tol, max_steps):
        ctx.save_for_backward(x, coefficients)
        ctx.rest = (filters, operator, tol, max_steps)
        return _iterate(filters, operator, x, tol, max_steps)

    @staticmethod
    def backward(ctx: Any, *grads):
        (grad,) = grads
        x, coefficients = ctx.saved_tensors
        filters, operator, tol, max_steps = ctx.rest
        weights = operator.mass[:, None, None]
        grad_x = grad_a = None
        if ctx.needs_input_grad[0]:
            scaled = grad / weights
            parts = [
                _Lanczos.apply(g, a[None], [f], operator, tol, max_steps)[0]
                for g, a, f in zip(scaled, coefficients, filters, strict=True)
            ]
            grad_x = weights * torch.stack(parts).sum(0)
        if ctx.needs_input_grad[1]:
            band = band_of(operator)
            grad_a = dots(*operator.curve, x, grad.contiguous(), coefficients.shape[1], band.middle, band.radius)
        return grad_x, grad_a, None, None, None, None


@dataclass(frozen=True)
class Lanczos(Method):
    r"""By Lanczos iteration from each channel: adapts to the signal, and copes with responses that are not smooth.

    Stops when a bound of the error is below ``tol`` times the norm of the input, or after ``max_steps``. Needs memory
    for all steps, so it suits few channels.
    """

    tol: float = 1e-6
    max_steps: int = 200

    def __post_init__(self) -> None:
        if not 0.0 < self.tol < 1.0:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        positive_integer(self.max_steps, "max_steps")

    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        tol, band = require_tolerance(self.tol, operator), band_of(operator)
        learns = fixed_order(filters, band, 1).requires_grad
        coefficients = expand(filters, band, tol).to(x) if learns else x.new_zeros((len(filters), 1))
        return _Lanczos.apply(x, coefficients, list(filters), operator, tol, self.max_steps)
