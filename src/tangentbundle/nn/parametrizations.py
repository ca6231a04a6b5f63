"""Restriction maps from unconstrained numbers: orthogonal, diagonal or general matrices, as objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn.functional import pad

from ..errors import ShapeError

Tensor = torch.Tensor


@dataclass(frozen=True)
class Parametrization(ABC):
    """A smooth map from ``count(d)`` numbers to matrices ``(d, d)``, batched; a parameter of ``nn.SheafLearner``.

    >>> Cayley().count(3), Cayley()(torch.zeros(5, 3), 3).shape
    (3, torch.Size([5, 3, 3]))
    """

    @abstractmethod
    def count(self, d: int) -> int:
        """How many numbers a matrix takes."""

    @abstractmethod
    def build(self, numbers: Tensor, d: int) -> Tensor:
        """Matrices ``(..., d, d)`` from numbers ``(..., count(d))``."""

    def __call__(self, numbers: Tensor, d: int) -> Tensor:
        if numbers.shape[-1:] != (self.count(d),):
            raise ShapeError(
                f"{self} takes {self.count(d)} numbers for a matrix ({d}, {d}), got shape {tuple(numbers.shape)}."
            )
        return self.build(numbers, d)


class General(Parametrization):
    """Any matrix, row by row."""

    def count(self, d: int) -> int:
        return d * d

    def build(self, numbers: Tensor, d: int) -> Tensor:
        return numbers.unflatten(-1, (d, d))


class Diagonal(Parametrization):
    """A diagonal matrix."""

    def count(self, d: int) -> int:
        return d

    def build(self, numbers: Tensor, d: int) -> Tensor:
        return torch.diag_embed(numbers)


class Rotation(Parametrization):
    """A rotation, from a skew-symmetric matrix A; zeros give the identity."""

    def count(self, d: int) -> int:
        return d * (d - 1) // 2

    def build(self, numbers: Tensor, d: int) -> Tensor:
        basis = _skew_basis(d, numbers.dtype, numbers.device)
        return self.rotate((numbers @ basis).unflatten(-1, (d, d)), numbers)

    @abstractmethod
    def rotate(self, skew: Tensor, numbers: Tensor) -> Tensor:
        """Rotations from A ``(..., d, d)`` and its entries below the diagonal."""


class MatrixExponential(Rotation):
    r""":math:`e^A`: every rotation.

    >>> MatrixExponential()(torch.tensor([torch.pi / 2]), 2).round().tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """

    def rotate(self, skew: Tensor, numbers: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(skew)


class Cayley(Rotation):
    r""":math:`(I - A)^{-1}(I + A)`: every rotation without an angle of :math:`\pi`; the cheapest.

    >>> Cayley()(torch.tensor([1.0]), 2).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """

    def rotate(self, skew: Tensor, numbers: Tensor) -> Tensor:
        eye = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
        if len(eye) > 3:
            return torch.linalg.solve_ex(eye - skew, eye + skew)[0]  # I - A has no zero eigenvalue: nothing to check
        factor = 2 / (1 + numbers.square().sum(-1))  # for d <= 3 A^3 = -|a|^2 A, and the inverse is a polynomial
        return eye + factor[..., None, None] * (skew + skew @ skew)


class Householder(Parametrization):
    r"""A product of d - 1 reflections :math:`I - 2 v v^T/|v|^2` with :math:`v = (0, \dots, 0, 1, v_{j+1}, \dots, v_d)`.

    >>> Householder()(torch.tensor([1.0]), 2).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """

    def count(self, d: int) -> int:
        return d * (d - 1) // 2

    def build(self, numbers: Tensor, d: int) -> Tensor:
        product = torch.eye(d, dtype=numbers.dtype, device=numbers.device).expand(*numbers.shape[:-1], d, d)
        for part in numbers.split(list(range(d - 1, 0, -1)), dim=-1):
            v = pad(pad(part, (1, 0), value=1.0), (d - 1 - part.shape[-1], 0))
            scaled = v * (2 / v.square().sum(-1, keepdim=True))
            product = product - (product @ v[..., None]) * scaled[..., None, :]
        return product


@cache
def _skew_basis(d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Skew-symmetric matrices ``(count, d d)``, one for each entry below the diagonal."""
    with torch.inference_mode(False):
        rows, columns = torch.tril_indices(d, d, -1, device=device)
        basis = torch.zeros(len(rows), d, d, dtype=dtype, device=device)
        each = torch.arange(len(rows), device=device)
        basis[each, rows, columns], basis[each, columns, rows] = 1.0, -1.0
        return basis.flatten(1)
