"""Restriction maps from unconstrained numbers: orthogonal, diagonal or general matrices, as
objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn.functional import pad

from ..errors import ShapeError


@dataclass(frozen=True)
class Parametrization(ABC):
    """A smooth map from ``count(d)`` numbers, the last axis of a tensor, to matrices ``(d, d)``.

    >>> Cayley().count(3), Cayley()(torch.zeros(5, 3), 3).shape
    (3, torch.Size([5, 3, 3]))
    """

    @abstractmethod
    def count(self, d: int) -> int:
        """How many numbers a matrix takes."""

    @abstractmethod
    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        """Matrices ``(..., d, d)`` from numbers ``(..., count(d))``."""

    def __call__(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        if numbers.shape[-1:] != (self.count(d),):
            raise ShapeError(
                f"{self} takes {self.count(d)} numbers for d = {d}, got shape "
                f"{tuple(numbers.shape)}."
            )
        return self.build(numbers, d)


class General(Parametrization):
    """Any matrix: the numbers, row by row, are added to the unit matrix."""

    def count(self, d: int) -> int:
        return d * d

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        return numbers.unflatten(-1, (d, d)) + _identity_like(numbers, d)


class Diagonal(Parametrization):
    """A diagonal matrix: the numbers are added to one."""

    def count(self, d: int) -> int:
        return d

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        return torch.diag_embed(1 + numbers)


class Orthogonal(Parametrization):
    """An orthogonal matrix from as many numbers as a skew-symmetric matrix A has below its
    diagonal."""

    def count(self, d: int) -> int:
        return d * (d - 1) // 2


class MatrixExponential(Orthogonal):
    r""":math:`e^A`: every rotation.

    >>> MatrixExponential()(torch.tensor([torch.pi / 2]), 2).round().tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        return torch.linalg.matrix_exp(_skew(numbers, d))


class Cayley(Orthogonal):
    r""":math:`(I - A)^{-1}(I + A)`: every rotation without an angle of :math:`\pi`; the cheapest.

    >>> Cayley()(torch.tensor([1.0]), 2).tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        skew = _skew(numbers, d)
        identity = _identity_like(numbers, d)
        if d > 3:
            # eigenvalues of I - A are never zero, so there is nothing to check
            solution, _ = torch.linalg.solve_ex(identity - skew, identity + skew)
            return solution
        # for d <= 3, A^3 = -|a|^2 A, and the inverse is a polynomial of A
        factor = 2 / (1 + numbers.square().sum(-1))
        return identity + factor[..., None, None] * (skew + skew @ skew)


class Householder(Orthogonal):
    r"""A product of d - 1 reflections :math:`I - 2 v v^T/|v|^2` with
    :math:`v = (0, \dots, 0, 1, v_{j+1}, \dots, v_d)`.

    >>> Householder()(torch.tensor([1.0]), 2).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        product = _identity_like(numbers, d).expand(*numbers.shape[:-1], d, d)
        lengths = list(range(d - 1, 0, -1))  # of the vectors, below their entry of one
        for entries in numbers.split(lengths, dim=-1):
            num_zeros = d - 1 - entries.shape[-1]
            v = pad(pad(entries, (1, 0), value=1.0), (num_zeros, 0))
            scaled = v * (2 / v.square().sum(-1, keepdim=True))
            product = product - (product @ v[..., None]) * scaled[..., None, :]
        return product


def _identity_like(numbers: torch.Tensor, d: int) -> torch.Tensor:
    """The unit matrix ``(d, d)`` in the dtype and on the device of the numbers."""
    return torch.eye(d, dtype=numbers.dtype, device=numbers.device)


def _skew(numbers: torch.Tensor, d: int) -> torch.Tensor:
    """Skew-symmetric matrices with the given entries below the diagonal, by a product: one kernel
    on a GPU."""
    basis = _skew_basis(d, numbers.dtype, numbers.device)
    return (numbers @ basis).unflatten(-1, (d, d))


@cache
def _skew_basis(d: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The matrices ``(d (d - 1) / 2, d d)``, flattened, with 1 at one place below the diagonal and
    -1 at its mirror image."""
    with torch.inference_mode(False):
        entries = torch.eye(d * d).reshape(d, d, d, d)
        rows, columns = torch.tril_indices(d, d, -1)
        units = entries[rows, columns]
        return (units - units.mT).flatten(1).to(device, dtype)
