"""Sparse linear maps between signals of two bundles over the same points, such as the gradient."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..errors import InvalidInputError
from ..operators.base import LinearOperator
from ..operators.laplacian import fold, unfold


@dataclass(eq=False, repr=False)
class LinearMap(LinearOperator):
    r"""A sparse linear map of signals ``(..., n, p, c)`` to signals ``(..., n, q, c)``, alike for each channel.

    ``map @ signal`` applies it. ``T`` is the transposed matrix, ``adjoint`` the adjoint in the mass inner product,
    :math:`A^* = M^{-1} A^T M`. Products are differentiable in the signal, on any device.

    Attributes: ``matrix``, a sparse CSR tensor ``(n q, n p)`` along the space-filling curve, ``order[k]`` the user's
    index of the k-th point on the curve, ``mass`` (n,) in the user's order.

    >>> import numpy as np, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(500, seed=0)
    >>> gradient = tb.TangentBundle.from_points(points).gradient()
    >>> gradient, (gradient @ points[:, 2, None, None]).shape
    (LinearMap(500 points, rank 1 to rank 2, float64, cpu), (500, 2, 1))
    """

    matrix: torch.Tensor
    order: torch.Tensor
    mass: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, ``(n q, n p)``."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Dimension p of the fibres that the map starts from."""
        return self.shape[1] // self.num_points

    @property
    def out_dim(self) -> int:
        """Dimension q of the fibres that the map goes to."""
        return self.shape[0] // self.num_points

    def __repr__(self) -> str:
        where = f"{str(self.dtype).removeprefix('torch.')}, {self.device}"
        return f"LinearMap({self.num_points} points, rank {self.dim} to rank {self.out_dim}, {where})"

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The product with a validated tensor ``(..., n, p, c)``."""
        along = fold(x).index_select(0, self.order).flatten(0, 1)
        y = _Product.apply(along, self).unflatten(0, (self.num_points, self.out_dim))
        y = y.index_select(0, self._places)
        return unfold(y, torch.Size((*x.shape[:-2], self.out_dim, x.shape[-1])))

    @cached_property
    def _places(self) -> torch.Tensor:
        return torch.argsort(self.order)

    def __deepcopy__(self, memo: dict) -> LinearMap:  # torch cannot copy sparse tensors so
        return replace(self, matrix=self.matrix.clone(), order=self.order.clone(), mass=self.mass.clone())

    def __neg__(self) -> LinearMap:
        return replace(self, matrix=-1.0 * self.matrix)

    @cached_property
    def T(self) -> LinearMap:
        """The transposed matrix, as a map."""
        transposed = replace(self, matrix=self.matrix.transpose(0, 1).to_sparse_csr())
        transposed.__dict__["T"] = self
        return transposed

    @cached_property
    def adjoint(self) -> LinearMap:
        r"""The adjoint in the mass inner product, :math:`\langle A f, v \rangle = \langle f, A^* v \rangle`."""
        mass = self.mass.index_select(0, self.order)
        matrix, starts = self.T.matrix, self.T.matrix.crow_indices()
        factors = mass[matrix.col_indices() // self.out_dim] / mass[torch.repeat_interleave(starts.diff()) // self.dim]
        values = matrix.values() * factors
        return replace(self, matrix=sparse_csr(starts, matrix.col_indices(), values, self.shape[::-1]))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> LinearMap:
        """The same map on another device or in another precision."""
        mass, matrix = (t.to(device=device, dtype=dtype) for t in (self.mass, self.matrix))
        return replace(self, matrix=matrix, order=self.order.to(mass.device), mass=mass)

    def to_scipy(self) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` in the user's order."""
        parts = (self.matrix.values(), self.matrix.col_indices(), self.matrix.crow_indices())
        matrix = sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape)
        places = self._places.cpu().numpy()
        rows, columns = ((places[:, None] * q + np.arange(q)).ravel() for q in (self.out_dim, self.dim))
        return sparse.csr_array(matrix[rows][:, columns])

    def decompose(self) -> tuple[torch.Tensor, torch.Tensor]:
        raise InvalidInputError(f"{self} has no eigenfields. Filters and spectra need a Laplacian.")

    def to_torch(self) -> torch.Tensor:
        """The matrix as a sparse CSR tensor, in the user's order."""
        return to_tensor(self.to_scipy(), self.mass)


class _Product(torch.autograd.Function):
    """Sparse times dense; the backward pass multiplies by the transposed matrix."""

    @staticmethod
    def forward(ctx, x, linear_map):
        ctx.linear_map = linear_map
        return linear_map.matrix @ x

    @staticmethod
    def backward(ctx, grad):
        return _Product.apply(grad, ctx.linear_map.T), None


def sparse_csr(starts: Any, columns: Any, values: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """A CSR tensor on the device of its values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # torch calls the format beta
        rows, cols = (torch.as_tensor(a).to(values.device) for a in (starts, columns))
        return torch.sparse_csr_tensor(rows, cols, values, size=shape)


def to_tensor(matrix: sparse.csr_array, like: torch.Tensor) -> torch.Tensor:
    """A scipy matrix as a CSR tensor of the dtype and on the device of another tensor."""
    return sparse_csr(matrix.indptr, matrix.indices, torch.from_numpy(matrix.data).to(like), matrix.shape)
