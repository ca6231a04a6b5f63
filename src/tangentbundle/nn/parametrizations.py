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
        return numbers.unflatten(-1, (d, d)) + torch.eye(
            d, dtype=numbers.dtype, device=numbers.device
        )


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
        skew, eye = _skew(numbers, d), torch.eye(d, dtype=numbers.dtype, device=numbers.device)
        if d > 3:
            return torch.linalg.solve_ex(eye - skew, eye + skew)[
                0
            ]  # I - A has no zero eigenvalue: nothing to check
        factor = 2 / (
            1 + numbers.square().sum(-1)
        )  # for d <= 3 A^3 = -|a|^2 A, and the inverse is a polynomial
        return eye + factor[..., None, None] * (skew + skew @ skew)


class Householder(Orthogonal):
    r"""A product of d - 1 reflections :math:`I - 2 v v^T/|v|^2` with
    :math:`v = (0, \dots, 0, 1, v_{j+1}, \dots, v_d)`.

    >>> Householder()(torch.tensor([1.0]), 2).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """

    def build(self, numbers: torch.Tensor, d: int) -> torch.Tensor:
        product = torch.eye(d, dtype=numbers.dtype, device=numbers.device).expand(
            *numbers.shape[:-1], d, d
        )
        for part in numbers.split(list(range(d - 1, 0, -1)), dim=-1):
            v = pad(pad(part, (1, 0), value=1.0), (d - 1 - part.shape[-1], 0))
            scaled = v * (2 / v.square().sum(-1, keepdim=True))
            product = product - (product @ v[..., None]) * scaled[..., None, :]
        return product


def _skew(numbers: torch.Tensor, d: int) -> torch.Tensor:
    """Skew-symmetric matrices with the given entries below the diagonal, by a product: one kernel
    on a GPU."""
    return (numbers @ _skew_basis(d, numbers.dtype, numbers.device)).unflatten(-1, (d, d))


@cache
def _skew_basis(d: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        units = torch.eye(d * d).reshape(d, d, d, d)[tuple(torch.tril_indices(d, d, -1))]
        return (units - units.mT).flatten(1).to(device, dtype)
