r"""Inverse square roots of symmetric matrices, with gradients of any order that are safe for repeated eigenvalues."""

from __future__ import annotations

import torch

Tensor = torch.Tensor


class _InverseRoot(torch.autograd.Function):
    r""":math:`X = A^{-1/2}` from the eigenbasis of A. Then :math:`A^{1/2} dX + dX A^{1/2} = -X\,dA\,X`."""

    @staticmethod
    def forward(ctx, a: Tensor, basis: Tensor, roots: Tensor) -> Tensor:
        inverse = torch.where(roots > 0, 1 / roots, 0.0)
        x = (basis * inverse[..., None, :]) @ basis.mT
        ctx.save_for_backward(a, x, basis, roots)
        return x

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        a, x, basis, roots = ctx.saved_tensors
        return -x @ _Sylvester.apply(a @ x, grad, basis, roots) @ x, None, None


class _Sylvester(torch.autograd.Function):
    """The solution H of Y H + H Y = C for symmetric Y with a known basis of eigenvectors; zero where it has none."""

    @staticmethod
    def forward(ctx, y: Tensor, c: Tensor, basis: Tensor, roots: Tensor) -> Tensor:
        sums = roots[..., :, None] + roots[..., None, :]
        solution = basis @ torch.where(sums > 0, basis.mT @ c @ basis / sums, 0.0) @ basis.mT
        ctx.save_for_backward(y, solution, basis, roots)
        return solution

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        y, solution, basis, roots = ctx.saved_tensors
        grad_c = _Sylvester.apply(y, grad, basis, roots)
        return -(grad_c @ solution.mT + solution.mT @ grad_c), grad_c, None, None


def inverse_root(a: Tensor) -> Tensor:
    r"""The matrices :math:`A^{-1/2}` of symmetric positive semidefinite A ``(..., d, d)``, on the range of A.

    >>> inverse_root(torch.diag(torch.tensor([4.0, 0.0]))).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    with torch.no_grad():
        values, basis = torch.linalg.eigh(a)
        cutoff = values[..., -1:].clamp_min(0.0) * a.shape[-1] * torch.finfo(a.dtype).eps
        roots = torch.where(values > cutoff, values, 0.0).sqrt()
    return _InverseRoot.apply(a, basis, roots)
