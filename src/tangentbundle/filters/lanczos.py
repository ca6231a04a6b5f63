"""Filters by Lanczos iteration, one Krylov space a channel, all channels at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import ConvergenceError
from ..operators import ConnectionLaplacian
from .base import Filter
from .chebyshev import dots
from .expansion import expand

CHECK_EVERY = 8
"""Steps between two estimates of the error."""


def krylov(operator: ConnectionLaplacian, start: torch.Tensor, max_steps: int):
    r"""Lanczos vectors and coefficients of P in the mass inner product; yields after every step.

    ``start`` (n, d, c); yields the basis so far as a list of ``(n, d, c)`` with unit mass norm a channel, and the
    diagonals ``alpha``, ``beta`` as lists of ``(c,)``. Fully reorthogonalised.
    """
    weights = operator.mass[:, None, None]

    def inner(f, g):
        return (weights * f * g).sum((0, 1))

    tiny = torch.finfo(start.dtype).tiny ** 0.5
    norm = inner(start, start).sqrt()
    basis = [start / norm.clamp_min(tiny)]
    alpha: list[torch.Tensor] = []
    beta: list[torch.Tensor] = []
    for _ in range(max_steps):
        new = operator.average(basis[-1])
        alpha.append(inner(basis[-1], new))
        for _ in range(2):  # twice is enough
            for vector in basis:
                new = new - inner(vector, new) * vector
        size = inner(new, new).sqrt()
        stop = size < 1e2 * torch.finfo(start.dtype).eps
        size = torch.where(stop, torch.zeros_like(size), size)
        beta.append(size)
        yield basis, alpha, beta, norm
        basis = [*basis, torch.where(stop, torch.zeros_like(new), new / size.clamp_min(tiny))]


def _tridiagonal(alpha: list[torch.Tensor], beta: list[torch.Tensor]) -> torch.Tensor:
    """Symmetric tridiagonal matrices ``(c, m, m)``."""
    off = torch.stack(beta[:-1], dim=-1) if len(beta) > 1 else alpha[0].new_empty((len(alpha[0]), 0))
    return (
        torch.diag_embed(torch.stack(alpha, dim=-1)) + torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    ).double()


def _filtered(filters, operator, basis, alpha, beta, norm):
    """``|x| V h(T) e_1`` for each filter, and the coefficients in the basis ``(k, c, m)``."""
    values, vectors = torch.linalg.eigh(_tridiagonal(alpha, beta))
    lam = ((1.0 - values) / operator.scale).clamp_min(0.0)
    responses = torch.stack([f.evaluate(lam).to(lam) for f in filters])
    return torch.einsum("cij,kcj,cj->kci", vectors, responses, vectors[:, 0, :]) * norm.double()[:, None]


def _iterate(filters, operator, x, tol, max_steps):
    before = None
    max_steps = min(max_steps, operator.shape[0])
    for basis, alpha, beta, norm in krylov(operator, x, max_steps):
        steps = len(alpha)
        exhausted = steps == operator.shape[0] or bool((beta[-1] == 0).all())
        if steps % CHECK_EVERY and not exhausted and steps < max_steps:
            continue
        now = _filtered(filters, operator, basis, alpha, beta, norm)
        if before is not None:
            padded = torch.nn.functional.pad(before, (0, steps - before.shape[-1]))
            change = torch.linalg.vector_norm(now - padded, dim=-1)
        if exhausted or (before is not None and bool((change <= tol * norm.double()).all())):
            return torch.einsum("kci,indc->kndc", now.to(x.dtype), torch.stack(basis))
        before = now
    raise ConvergenceError(
        f"Lanczos has not reached tol={tol:g} after {max_steps} steps. Give more max_steps, a looser tol, or use "
        "Chebyshev()."
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
            low, high = operator.spectral_interval
            middle, radius = 1 - operator.scale * (low + high) / 2, operator.scale * (high - low) / 2
            grad_a = dots(*operator.matrix, x, grad.contiguous(), coefficients.shape[1], middle, radius)
        return grad_x, grad_a, None, None, None, None


def lanczos_bank(
    filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor, tol: float, max_steps: int
) -> torch.Tensor:
    """Outputs ``(k, n, d, c)`` of a bank on a signal ``(n, d, c)``, differentiable in x and the filters' parameters."""
    learns = any(p.requires_grad for f in filters for p in f.parameters())
    interval = operator.spectral_interval
    coefficients = expand(filters, interval, tol).to(x) if learns else x.new_zeros((len(filters), 1))
    return _Lanczos.apply(x, coefficients, list(filters), operator, tol, max_steps)
